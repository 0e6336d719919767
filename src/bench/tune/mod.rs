//! A search for better options around a preset, for one snapshot on this machine. Each step is a comparison by [`bench`].
//!
//! ```text
//! one change at a time  ->  samples that grow fourfold  ->  the better third remains,  ->  the winner and the start
//! (space)                   (sample)                        and its changes combined       on the whole snapshot
//! ```
//!
//! Samples only choose the winner (successive halving, Jamieson and Talwalkar 2016). The last comparison decides: a preset is
//! written only if the whole 95 % interval of the ratio lies below one.
//!
//! Each comparison has its own folder in `out`, so a search that was stopped reuses all runs.

mod preset_file;
mod sample;
mod space;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

pub use preset_file::preset_file;
pub use space::{Candidate, candidates};

use super::fetch::Fetched;
use super::matrix::Variant;
use super::store::claim;
use super::{BenchObserver, BenchOptions, Order, bench, machine, object, snapshot, text_digest};
use crate::error::{Error, Result};
use crate::os::files::create_last_dir;
use crate::os::scratch_dir::ScratchDir;
use crate::preset::Preset;
use crate::progress::CancellationToken;
use crate::report::bench::{BenchReport, Ratio, SnapshotInfo, VariantFigures};
use crate::report::statistics;
use crate::report::tune::{Confirmation, Goal, Outcome, RungReport, TUNE_SCHEMA, TuneReport};
use crate::source::remote::{NetworkOptions, take_secrets};
use crate::text::size::{counted, human};

/// Pairs on the whole snapshot when the user gives no number, the fewest that confirm anything, and the most that a budget
/// of time is spent on.
pub const DEFAULT_PAIRS: u32 = 5;
const FEWEST_PAIRS: u32 = 3;
const MOST_PAIRS: u32 = 100;

/// The part of a budget of time that the samples may use.
const SEARCH_SHARE: f64 = 0.6;

/// The smallest sample in bytes, the factor from one to the next, and the rounds on each.
const MIN_SAMPLE: u64 = 16 << 20;
const GROWTH: u64 = 4;
const SAMPLE_ROUNDS: u32 = 2;

/// One of so many candidates remains.
const KEEP_ONE_OF: usize = 3;

/// The number of best candidates that are combined, and the most changes in one candidate.
const COMBINED: usize = 4;
const MOST_CHANGES: usize = 4;

/// Lookups of each kind if reads are the goal.
const LOOKUPS: u64 = 4000;

/// An import that saves memory may take so much longer.
const MEMORY_PATIENCE: f64 = 1.5;

/// The options of a search.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// The snapshot.
    pub source: PathBuf,
    /// How a snapshot on the network is fetched.
    pub network: NetworkOptions,
    /// The program whose `import`, `walk` and `bench-read` are run.
    pub program: PathBuf,
    /// The preset to start from, by name or path.
    pub preset: String,
    /// The figure to improve.
    pub goal: Goal,
    /// Time for all of it; the time of an earlier session does not count.
    pub budget: Option<Duration>,
    /// Pairs on the whole snapshot.
    pub pairs: u32,
    /// The directory of samples and databases, which are removed again.
    pub dir: PathBuf,
    /// The directory of the runs.
    pub out: PathBuf,
    /// The seed of the order and of the choice of keys.
    pub seed: u64,
    /// Cancelled by the caller to end it.
    pub stop: CancellationToken,
}

/// Searches for better options.
///
/// # Errors
/// [`Error::Preset`]: there is no such preset; [`Error::BadInput`] or [`Error::Io`]: the snapshot cannot be read;
/// [`Error::State`]: another search is in `out`; [`Error::Usage`]: the start itself fails, or there are too few pairs;
/// [`Error::Interrupted`]: the caller cancelled it.
pub fn tune(options: &TuneOptions, observer: &dyn BenchObserver) -> Result<TuneReport> {
    let mut options = options.clone();
    take_secrets(&mut options.source, &mut options.network);
    let options = &options;
    let source = snapshot::probe(&options.source, &options.network)?;
    if options.pairs < FEWEST_PAIRS {
        return Err(Error::Usage {
            reason: format!("{} pairs confirm nothing", options.pairs),
            hint: format!("give --pairs {FEWEST_PAIRS} or more"),
        });
    }
    let start = Preset::find(&options.preset)?;
    let all = candidates(&options.preset, options.goal)?;
    let identity = json!({
        "schema": "bedload-tune-identity-3",
        "snapshot": snapshot::absolute(&options.source),
        "snapshot_bytes": source.bytes,
        "snapshot_modified_ms": source.modified_ms,
        "snapshot_tag": source.tag,
        "preset": options.preset,
        "preset_text": text_digest(&start.all_text()),
        "goal": options.goal,
        "seed": options.seed,
        "dir": snapshot::absolute(&options.dir),
        "bedload": env!("CARGO_PKG_VERSION"),
    });
    create_last_dir(&options.out)?;
    claim(&options.out.join("tune.json"), &object(identity), "search")?;
    create_last_dir(&options.dir)?;
    let samples =
        ScratchDir::create(&options.dir, ".bedload-tune-").map_err(Error::io("create a folder in", &options.dir))?;
    let fetched = source.fetch(&options.dir, &options.stop, &|received, bytes| observer.fetches(received, bytes))?;
    let whole = fetched.as_ref().map_or(&*options.source, Fetched::path);
    let mut search = Search { options, observer, began: Instant::now(), rungs: Vec::new() };
    let sizes = if source.folder { vec![source.bytes; 2] } else { sample_sizes(source.bytes) };
    let winner = search.find_winner(all, &sizes, |bytes| {
        let target = samples.path().join(format!("{bytes}.car"));
        // A block log is not cut.
        let is_cut = !source.folder && (target.exists() || sample::write(whole, &target, bytes)?);
        Ok(if is_cut { target } else { whole.to_owned() })
    })?;
    let (confirmation, outcome) = match &winner {
        // The time was over before the first sample was.
        None if search.rungs.is_empty() => (None, Outcome::OutOfTime),
        None => (None, Outcome::NothingBetter),
        Some(winner) => search.confirm(winner, whole)?,
    };
    let rungs = search.rungs;
    let mut report = TuneReport {
        schema: TUNE_SCHEMA.into(),
        machine: machine(&options.dir),
        snapshot: SnapshotInfo {
            path: options.source.display().to_string(),
            bytes: source.bytes,
            blocks: None,
            payload_bytes: None,
        },
        goal: options.goal,
        start: start.name.clone(),
        tried: rungs.first().map_or(0, |rung| rung.ratios.len()),
        rungs,
        winner: winner.as_ref().map(Candidate::name),
        changes: winner.map(|winner| winner.changes).unwrap_or_default(),
        confirmation,
        outcome,
        preset: None,
    };
    report.preset = preset_file(&start, &options.preset, &report);
    Ok(report)
}

struct Search<'a> {
    options: &'a TuneOptions,
    observer: &'a dyn BenchObserver,
    began: Instant,
    rungs: Vec<RungReport>,
}

impl Search<'_> {
    /// Returns the best candidate of the last sample that there was time for; `None` if none is better than the start.
    fn find_winner(
        &mut self,
        mut candidates: Vec<Candidate>,
        sizes: &[u64],
        sample: impl Fn(u64) -> Result<PathBuf>,
    ) -> Result<Option<Candidate>> {
        let mut best = None;
        for &bytes in sizes {
            if candidates.is_empty() {
                break;
            }
            let note = format!("{} on {}", counted(candidates.len() as u64, "candidate", "candidates"), human(bytes));
            self.observer.note(&note);
            let report = self.compare(&sample(bytes)?, &candidates, SAMPLE_ROUNDS, Order::Random, SEARCH_SHARE)?;
            if !report.setup.complete {
                break;
            }
            let figures = report.figures.variants.iter().skip(1);
            let ratios = figures.map(|figures| self.ratio(figures).map(|ratio| ratio.ratio));
            let ratios: Vec<(Candidate, Option<f64>)> = candidates.into_iter().zip(ratios).collect();
            let named = ratios.iter().map(|(candidate, ratio)| (candidate.name(), *ratio)).collect();
            self.rungs.push(RungReport { bytes, rounds: SAMPLE_ROUNDS, ratios: named });
            let ranked = rank(ratios);
            best = ranked.first().cloned();
            candidates = select(ranked);
        }
        Ok(best)
    }

    /// Compares candidates with the start; `share` of the budget must not be over by then.
    fn compare(
        &self,
        source: &Path,
        candidates: &[Candidate],
        runs: u32,
        order: Order,
        share: f64,
    ) -> Result<BenchReport> {
        let options = self.options;
        let start = Candidate::default();
        let variants: Vec<Variant> =
            std::iter::once(&start).chain(candidates).map(|one| one.variant(&options.preset)).collect();
        let names: Vec<String> = candidates.iter().map(Candidate::name).collect();
        // The same candidates may be compared on several samples.
        let bytes = snapshot::probe(source, &options.network)?.bytes;
        let name = text_digest(&format!("{bytes} {} {}", order.name(), names.join("; ")));
        let report = bench(
            &BenchOptions {
                variants,
                runs,
                order,
                seed: options.seed,
                budget: options.budget.map(|budget| budget.mul_f64(share).saturating_sub(self.began.elapsed())),
                lookups: if options.goal == Goal::Reads { LOOKUPS } else { 0 },
                node_ops: 0,
                scan: options.goal == Goal::Total,
                dir: Some(options.dir.clone()),
                stop: options.stop.clone(),
                ..BenchOptions::new(source, &options.program, options.out.join(name))
            },
            self.observer,
        )?;
        match report.figures.variants.first() {
            Some(start) if start.failed > 0 => Err(Error::Usage {
                reason: format!("the start itself fails: {}", start.errors.join("; ")),
                hint: "start from a preset that imports this snapshot: --preset".into(),
            }),
            Some(start) if start.runs > 0 && !start.metrics.contains_key(options.goal.metric()) => Err(Error::Usage {
                reason: "the start does not measure what is to get better".into(),
                hint: "search for another goal: --for".into(),
            }),
            _ => Ok(report),
        }
    }

    /// The cost over the start's, below one if it is better; `None` if a run failed.
    fn ratio(&self, figures: &VariantFigures) -> Option<Ratio> {
        let ratios = &figures.to_reference.as_ref().filter(|_| figures.failed == 0)?.ratios;
        let ratio = ratios.get(self.options.goal.metric())?.clone();
        Some(match self.options.goal {
            Goal::Reads => Ratio {
                ratio: 1.0 / ratio.ratio,
                low: ratio.high.map(|high| 1.0 / high),
                high: ratio.low.map(|low| 1.0 / low),
                ..ratio
            },
            Goal::Import | Goal::Total | Goal::Memory => ratio,
        })
    }

    /// Compares the winner with the start on the whole snapshot, in pairs whose order alternates. Their number does not
    /// depend on the first ratios, which would turn noise into wins.
    fn confirm(&self, winner: &Candidate, whole: &Path) -> Result<(Option<Confirmation>, Outcome)> {
        let pairs = self.options.pairs;
        let most = if self.options.budget.is_some() { pairs.max(MOST_PAIRS) } else { pairs };
        self.observer.note(&format!("the winner, {}, and the start on the whole snapshot", winner.name()));
        let report = self.compare(whole, std::slice::from_ref(winner), most, Order::Interleaved, 1.0)?;
        let Some(figures) = report.figures.variants.get(1) else { return Ok((None, Outcome::OutOfTime)) };
        if figures.failed > 0 {
            return Ok((None, Outcome::Failed { why: figures.errors.join("; ") }));
        }
        let time = figures.to_reference.as_ref().and_then(|ratios| ratios.ratios.get("wall_seconds").cloned());
        let (Some(ratio), Some(time)) = (self.ratio(figures), time) else { return Ok((None, Outcome::OutOfTime)) };
        let outcome = judge(&ratio, &time, self.options.goal);
        Ok((Some(Confirmation { ratio, time }), outcome))
    }
}

/// Judges the pairs on the whole snapshot.
fn judge(ratio: &Ratio, time: &Ratio, goal: Goal) -> Outcome {
    if ratio.pairs < FEWEST_PAIRS as usize {
        return Outcome::OutOfTime;
    }
    if !statistics::is_below(ratio, 1.0) {
        let more = statistics::more_pairs(ratio, 1.0).and_then(|more| u32::try_from(more.max(1)).ok());
        return more.map_or(Outcome::WithinNoise, |more_pairs| Outcome::NotDecided { more_pairs });
    }
    if goal == Goal::Memory && time.ratio > MEMORY_PATIENCE { Outcome::TooSlow } else { Outcome::Better }
}

/// Returns the candidates that are better than the start, the best first.
fn rank(ratios: Vec<(Candidate, Option<f64>)>) -> Vec<Candidate> {
    let mut better: Vec<_> = ratios.into_iter().filter_map(|(one, ratio)| Some((one, ratio?))).collect();
    better.retain(|(_, ratio)| *ratio < 1.0);
    better.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    better.into_iter().map(|(candidate, _)| candidate).collect()
}

/// Returns the best third of the ranked candidates, and the best one combined with those after it.
fn select(mut ranked: Vec<Candidate>) -> Vec<Candidate> {
    let Some(best) = ranked.first().cloned() else { return ranked };
    let mut all = best.clone();
    let mut combined = Vec::new();
    for other in ranked.iter().skip(1).take(COMBINED - 1) {
        combined.extend(best.with(other));
        if let Some(more) = all.with(other).filter(|more| more.changes.len() <= MOST_CHANGES) {
            all = more;
            combined.push(all.clone());
        }
    }
    ranked.truncate(ranked.len().div_ceil(KEEP_ONE_OF));
    for candidate in combined.into_iter().filter(|one| one.changes.len() <= MOST_CHANGES) {
        if !ranked.contains(&candidate) {
            ranked.push(candidate);
        }
    }
    ranked
}

/// The sizes of the samples, in bytes. A snapshot that is too small to be cut is measured twice.
fn sample_sizes(bytes: u64) -> Vec<u64> {
    let parts = [bytes / GROWTH.pow(3), bytes / GROWTH.pow(2), bytes / GROWTH];
    let sizes: Vec<u64> = parts.into_iter().filter(|&size| size >= MIN_SAMPLE).collect();
    match sizes[..] {
        [] => vec![bytes; 2],
        [only] => vec![only; 2],
        _ => sizes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tune::Change;

    fn judged(pairs: &[(f64, f64)]) -> Outcome {
        let ratio = statistics::ratio(pairs).expect("pairs");
        judge(&ratio, &ratio, Goal::Total)
    }

    #[test]
    fn only_a_shown_gain_is_a_win() {
        assert_eq!(judged(&[(0.90, 1.0), (0.91, 1.0), (0.89, 1.0)]), Outcome::Better);
        assert_eq!(judged(&[(0.5, 1.0), (0.5, 1.0)]), Outcome::OutOfTime, "two pairs show nothing");
        // Mean -0.0512 and deviation 0.0951: of 15 pairs 2.145 * 0.0951 / sqrt(15) is larger, of 16 it is 0.0507.
        assert_eq!(judged(&[(0.95, 1.0), (1.045, 1.0), (0.864, 1.0)]), Outcome::NotDecided { more_pairs: 13 });
        assert_eq!(judged(&[(1.01, 1.0), (1.2, 1.0), (0.95, 1.0)]), Outcome::WithinNoise, "no gain in the mean");
        let (less, slow) = (statistics::ratio(&[(0.5, 1.0); 3]).expect("pairs"), statistics::ratio(&[(2.0, 1.0); 3]));
        assert_eq!(judge(&less, &slow.expect("pairs"), Goal::Memory), Outcome::TooSlow);
    }

    /// Searches a table: each change multiplies the cost by its value.
    fn search_table(changes: &[(&str, &str)], rounds: usize) -> (Option<String>, Vec<usize>) {
        let change = |(option, value): &(&str, &str)| Change { option: (*option).into(), value: (*value).into() };
        let mut alive: Vec<_> = changes.iter().map(|one| Candidate { changes: vec![change(one)] }).collect();
        let (mut best, mut seen) = (None, Vec::new());
        for _ in 0..rounds {
            seen.push(alive.len());
            let factor = |change: &Change| change.value.parse::<f64>().ok();
            let cost = |one: &Candidate| one.changes.iter().map(factor).product::<Option<f64>>();
            let ranked = rank(alive.into_iter().map(|one| (one.clone(), cost(&one))).collect());
            best = ranked.first().map(Candidate::name);
            alive = select(ranked);
        }
        (best, seen)
    }

    #[test]
    fn search_combines_the_best_changes() {
        let changes = [
            ("a.b.x", "0.9"),
            ("a.b.x", "0.8"),
            ("a.b.y", "0.7"),
            ("a.b.z", "1.3"),
            ("a.b.w", "0.95"),
            ("a.b.v", "broken"),
        ];
        for rounds in [2, 3] {
            let (best, seen) = search_table(&changes, rounds);
            assert_eq!(best.as_deref(), Some("w=0.95, x=0.8, y=0.7"));
            assert!(seen.iter().all(|count| *count <= 6), "fewer on more: {seen:?}");
        }
        assert_eq!(search_table(&changes, 1).0.as_deref(), Some("y=0.7"));
        assert_eq!(search_table(&[("a.b.x", "1.1"), ("a.b.y", "1.0")], 3), (None, vec![2, 0, 0]));
    }

    #[test]
    fn samples_grow_fourfold_up_to_a_quarter() {
        let sizes = |bytes: u64| sample_sizes(bytes).into_iter().map(|bytes| bytes >> 20).collect::<Vec<_>>();
        assert_eq!(sizes(4 << 30), [64, 256, 1024]);
        assert_eq!(sizes(256 << 20), [16, 64]);
        assert_eq!(sizes(100 << 20), [25, 25]);
        assert_eq!(sizes(20 << 20), [20, 20], "a small one is its own sample");
    }
}
