//! Better options for this snapshot on this machine, searched for around a preset.
//!
//! ```text
//! one change at a time  ->  samples that grow fourfold  ->  the better third remains,  ->  the winner against the
//! (space)                   (sample, halving)               and its changes together       start, on the whole (confirm)
//! ```
//!
//! Samples only choose what is tried on the whole: what counts is the last step, interleaved pairs of the start and the
//! winner on the whole snapshot. A win whose interval reaches one is none, and no preset is written for it.
//!
//! Every run is stored (`run_store`): a search that is started again reuses them.

mod halving;
mod preset_file;
mod run_store;
mod sample;
mod space;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use preset_file::preset_file;
pub use space::{Candidate, candidates};

use serde_json::json;

use self::halving::{Measure, Rung};
use self::run_store::{RunStore, Stage};
use super::matrix::Variant;
use super::measure::{Runner, Turn, WorkDir};
use super::{Clock, absolute, machine, object, snapshot, text_digest};
use crate::error::{Error, Result};
use crate::preset::Preset;
use crate::progress::CancellationToken;
use crate::report::bench::{Run, SnapshotInfo, Verdict, metric};
use crate::report::statistics;
use crate::report::tune::{Confirmation, Goal, Outcome, RungReport, TUNE_SCHEMA, TuneReport};

/// The smallest sample, in bytes: less is over before it can be measured.
const MIN_SAMPLE: u64 = 16 << 20;

/// How much larger each sample is than the one before.
const GROWTH: u64 = 4;

/// Rounds on each sample.
const SAMPLE_ROUNDS: u32 = 2;

/// Pairs on the whole snapshot when the user gives no number.
pub const DEFAULT_PAIRS: u32 = 5;

/// The fewest pairs that confirm anything.
const FEWEST_PAIRS: u32 = 3;

/// The part of a budget of time that the search may use; the rest is for the confirmation.
const SEARCH_SHARE: f64 = 0.6;

/// How much longer an import may take that saves memory.
const MEMORY_PATIENCE: f64 = 1.5;

/// Lookups of each kind when reads are what counts.
const LOOKUPS: u64 = 4000;

/// What to search for, around what, and how long.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// The snapshot.
    pub source: PathBuf,
    /// The program whose `import`, `walk` and `bench-read` are run.
    pub program: PathBuf,
    /// The preset to start from, by name or path.
    pub preset: String,
    /// What is to get better.
    pub goal: Goal,
    /// Time for all of it; what an earlier session took is not counted.
    pub budget: Option<Duration>,
    /// Pairs on the whole snapshot.
    pub pairs: u32,
    /// Where samples and databases are made and removed again.
    pub dir: PathBuf,
    /// Where runs are kept.
    pub out: PathBuf,
    /// What the choice of keys begins with.
    pub seed: u64,
    /// Cancelled by the caller to end it.
    pub stop: CancellationToken,
}

/// Receives the progress of a search.
pub trait TuneObserver {
    /// So many candidates are tried on so many bytes.
    fn rung(&self, candidates: usize, bytes: u64, rounds: u32) {
        let _ = (candidates, bytes, rounds);
    }

    /// A run is over: which candidate, and its cost relative to the start in the same round.
    fn ran(&self, candidate: &str, ratio: Option<f64>) {
        let _ = (candidate, ratio);
    }
}

impl TuneObserver for crate::progress::Silent {}

/// Searches for better options.
///
/// # Errors
/// [`Error::Preset`]: there is no such preset; [`Error::BadInput`] or [`Error::Io`]: the snapshot cannot be read;
/// [`Error::State`]: another search is in `out`; [`Error::Usage`]: the start itself fails, or there are too few pairs;
/// [`Error::Interrupted`]: the caller cancelled it.
pub fn tune(options: &TuneOptions, observer: &dyn TuneObserver) -> Result<TuneReport> {
    let source = snapshot::probe(&options.source)?;
    if options.pairs < FEWEST_PAIRS {
        return Err(Error::Usage {
            reason: format!("{} pairs confirm nothing", options.pairs),
            hint: format!("give --pairs {FEWEST_PAIRS} or more"),
        });
    }
    let start = Preset::find(&options.preset)?;
    let all = candidates(&options.preset, options.goal)?;
    let tried = all.len();
    let identity = json!({
        "schema": "bedload-tune-identity-1",
        "snapshot": absolute(&options.source),
        "snapshot_bytes": source.bytes,
        "snapshot_modified_ms": source.modified_ms,
        "preset": options.preset,
        "preset_text": text_digest(&start.text),
        "goal": options.goal,
        "seed": options.seed,
        "dir": absolute(&options.dir),
        "bedload": env!("CARGO_PKG_VERSION"),
    });
    let store = RunStore::open(&options.out, &object(identity))?;
    let work_dir = WorkDir::take(&options.dir)?;
    // Beside the folder that runs have to themselves, which each of them renews.
    let samples = tempfile::Builder::new()
        .prefix("bedload-tune.")
        .tempdir_in(&options.dir)
        .map_err(Error::io("create a folder in", &options.dir))?;
    let clock = Clock::new(options.budget);
    let search = Clock::new(options.budget.map(|budget| budget.mul_f64(SEARCH_SHARE)));
    let runner = Runner {
        program: &options.program,
        source: &options.source,
        cold: false,
        lookups: if options.goal == Goal::Reads { LOOKUPS } else { 0 },
        scan: options.goal == Goal::Total,
        seed: options.seed,
        limit: None,
        keys: store.keys(Stage::Whole)?,
        stop: &options.stop,
        work_dir,
    };
    let mut bench = Bench { options, runner, samples: samples.path(), store, search, observer, rungs: Vec::new() };
    let rungs = bench.rungs_of(&source)?;
    let winner = halving::search(&mut bench, all, &rungs)?;
    let rungs = std::mem::take(&mut bench.rungs);
    let (confirmation, outcome) = match &winner {
        None => (None, Outcome::NothingBetter),
        Some(winner) => bench.confirm(winner, &clock)?,
    };
    let (info, snapshot) = (
        machine(&options.dir),
        SnapshotInfo {
            path: options.source.display().to_string(),
            bytes: source.bytes,
            blocks: None,
            payload_bytes: None,
        },
    );
    drop(bench);
    let mut report = TuneReport {
        schema: TUNE_SCHEMA.into(),
        machine: info,
        snapshot,
        goal: options.goal,
        start: start.name.clone(),
        tried,
        rungs,
        winner: winner.as_ref().map(Candidate::name),
        changes: winner.map(|winner| winner.changes).unwrap_or_default(),
        confirmation,
        outcome,
        preset: None,
    };
    report.preset = preset_file(&start, &report);
    Ok(report)
}

/// The sizes of the samples, in bytes.
fn rungs(bytes: u64) -> Vec<Rung> {
    let mut sizes: Vec<u64> = Vec::new();
    let mut size = bytes / GROWTH;
    while size >= MIN_SAMPLE && sizes.len() < 3 {
        sizes.push(size);
        size /= GROWTH;
    }
    if sizes.is_empty() {
        // Small as it is: all of it.
        sizes.push(bytes);
    }
    sizes.reverse();
    sizes.into_iter().map(|bytes| Rung { bytes, rounds: SAMPLE_ROUNDS }).collect()
}

struct Bench<'a> {
    options: &'a TuneOptions,
    runner: Runner<'a>,
    samples: &'a Path,
    store: RunStore,
    search: Clock,
    observer: &'a dyn TuneObserver,
    rungs: Vec<RungReport>,
}

impl Measure for Bench<'_> {
    fn ratios(&mut self, rung: &Rung, list: &[Candidate]) -> Result<Option<Vec<Option<f64>>>> {
        let sample = self.sample(rung.bytes);
        let sample = if sample.exists() { sample } else { self.options.source.clone() };
        let stage = Stage::Sample(rung.bytes);
        self.observer.rung(list.len(), rung.bytes, rung.rounds);
        let mut pairs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); list.len()];
        let mut failed = vec![false; list.len()];
        for round in 0..rung.rounds {
            let mut start = None;
            let mut found: Vec<Option<f64>> = vec![None; list.len()];
            // The start has another place among the others in every round.
            let turn = round as usize * (list.len() + 1) / rung.rounds as usize;
            for step in 0..=list.len() {
                let index = (step + turn) % (list.len() + 1);
                if self.options.stop.is_cancelled() {
                    return Err(Error::interrupted());
                }
                if !self.search.allows(Duration::ZERO) {
                    return Ok(None);
                }
                let Some(place) = index.checked_sub(1) else {
                    start = Some(self.cost_of_start(&sample, stage, round)?);
                    continue;
                };
                let (Some(candidate), false) = (list.get(place), failed.get(place) == Some(&true)) else { continue };
                let run = self.run(&candidate.variant(&self.options.preset), &sample, stage, round)?;
                let cost = self.cost(&run);
                if let Some(slot) = found.get_mut(place) {
                    *slot = cost;
                }
                if let (None, Some(slot)) = (cost, failed.get_mut(place)) {
                    *slot = true;
                }
            }
            let Some(start) = start else { continue };
            for ((cost, pairs), candidate) in found.iter().zip(&mut pairs).zip(list) {
                self.observer.ran(&candidate.name(), cost.map(|cost| cost / start));
                pairs.extend(cost.map(|cost| (cost, start)));
            }
        }
        let ratios: Vec<Option<f64>> = pairs
            .iter()
            .zip(&failed)
            .map(|(pairs, failed)| statistics::ratio(pairs).filter(|_| !failed).map(|ratio| ratio.ratio))
            .collect();
        self.rungs.push(RungReport {
            bytes: rung.bytes,
            rounds: rung.rounds,
            ratios: list.iter().map(Candidate::name).zip(ratios.iter().copied()).collect(),
        });
        Ok(Some(ratios))
    }
}

impl Bench<'_> {
    fn sample(&self, bytes: u64) -> PathBuf {
        self.samples.join(format!("{bytes}.car"))
    }

    /// The samples, written. What is no CAR is not cut: its only sample is the whole.
    fn rungs_of(&self, source: &snapshot::SourceProfile) -> Result<Vec<Rung>> {
        let bytes = source.bytes;
        let whole = vec![Rung { bytes, rounds: SAMPLE_ROUNDS }];
        if source.folder {
            return Ok(whole);
        }
        let rungs = rungs(bytes);
        for rung in &rungs {
            let target = self.sample(rung.bytes);
            match sample::write(&self.options.source, &target, rung.bytes) {
                Ok(_) => {}
                Err(Error::BadInput { .. }) => {
                    std::fs::remove_file(&target).map_err(Error::io("remove", &target)).or_else(gone)?;
                    return Ok(whole);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rungs)
    }

    /// Runs a variant, unless that has been done.
    fn run(&mut self, variant: &Variant, source: &Path, stage: Stage, round: u32) -> Result<Run> {
        match self.store.run(stage, &variant.name, round) {
            Some(run) => Ok(run.clone()),
            None => self.run_anew(variant, source, stage, round),
        }
    }

    fn run_anew(&mut self, variant: &Variant, source: &Path, stage: Stage, round: u32) -> Result<Run> {
        let turn = Turn { round, position: 0, warmup: false };
        let run = self.runner.import_from(source, &self.store.keys(stage)?, variant, turn)?;
        self.store.keep(stage, run.clone())?;
        Ok(run)
    }

    /// Runs two variants one right after the other; what was stopped between them is measured again.
    fn pair(&mut self, one: &Variant, other: &Variant, round: u32) -> Result<(Run, Run)> {
        let known = |variant: &Variant| self.store.run(Stage::Whole, &variant.name, round).cloned();
        if let (Some(one), Some(other)) = (known(one), known(other)) {
            return Ok((one, other));
        }
        let source = self.runner.source;
        let one = self.run_anew(one, source, Stage::Whole, round)?;
        Ok((one, self.run_anew(other, source, Stage::Whole, round)?))
    }

    /// What a run cost; the lower the better. `None` when it failed or did not measure what counts.
    fn cost(&self, run: &Run) -> Option<f64> {
        if run.failure.is_some() {
            return None;
        }
        let of = |key: &str| metric(key).and_then(|metric| metric.of(run));
        match self.options.goal {
            Goal::Import => of("wall_seconds"),
            Goal::Total => of("total_seconds"),
            Goal::Reads => of("lookups_per_second").filter(|&rate| rate > 0.0).map(|rate| 1.0 / rate),
            Goal::Memory => of("peak_rss_bytes"),
        }
    }

    fn cost_of_start(&mut self, source: &Path, stage: Stage, round: u32) -> Result<f64> {
        let start = Candidate::default().variant(&self.options.preset);
        let run = self.run(&start, source, stage, round)?;
        self.cost(&run).ok_or_else(|| Error::Usage {
            reason: match &run.failure {
                Some(failure) => format!("the start itself fails ({}): {}", failure.action, failure.error),
                None => "the start does not measure what is to get better".into(),
            },
            hint: "start from a preset that imports this snapshot: --preset".into(),
        })
    }

    /// The winner against the start, on the whole snapshot, in pairs whose order alternates.
    fn confirm(&mut self, winner: &Candidate, clock: &Clock) -> Result<(Option<Confirmation>, Outcome)> {
        let source = self.runner.source;
        let variant = winner.variant(&self.options.preset);
        self.observer.rung(1, snapshot::probe(source)?.bytes, self.options.pairs);
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        let mut walls: Vec<(f64, f64)> = Vec::new();
        let mut longest = Duration::ZERO;
        let wall = |run: &Run| run.process.as_ref().map_or(0.0, |process| process.seconds);
        for round in 0..self.options.pairs {
            if self.options.stop.is_cancelled() {
                return Err(Error::interrupted());
            }
            let begun = std::time::Instant::now();
            if !clock.allows(longest) {
                break;
            }
            let start = Candidate::default().variant(&self.options.preset);
            let first_is_winner = round % 2 == 1;
            let (one, other) = if first_is_winner { (&variant, &start) } else { (&start, &variant) };
            let (one, other) = self.pair(one, other, round)?;
            let (won, started) = if first_is_winner { (one, other) } else { (other, one) };
            let (Some(cost), Some(before)) = (self.cost(&won), self.cost(&started)) else {
                let failure = won.failure.or(started.failure).map_or_else(String::new, |it| it.error);
                return Ok((None, Outcome::Failed { why: failure }));
            };
            self.observer.ran(&winner.name(), Some(cost / before));
            pairs.push((cost, before));
            walls.push((wall(&won), wall(&started)));
            longest = longest.max(begun.elapsed());
        }
        let (Some(ratio), Some(time)) = (statistics::ratio(&pairs), statistics::ratio(&walls)) else {
            return Ok((None, Outcome::OutOfTime));
        };
        let outcome = match ratio.verdict {
            _ if ratio.pairs < FEWEST_PAIRS as usize => Outcome::OutOfTime,
            Verdict::Lower if self.options.goal == Goal::Memory && time.ratio > MEMORY_PATIENCE => Outcome::TooSlow,
            Verdict::Lower => Outcome::Better,
            _ => Outcome::WithinNoise,
        };
        Ok((Some(Confirmation { ratio, time, pairs }), outcome))
    }
}

/// What is not there need not be removed.
fn gone(error: Error) -> Result<()> {
    match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_grow_fourfold_up_to_a_quarter_of_the_whole() {
        let sizes = |bytes: u64| rungs(bytes).into_iter().map(|rung| rung.bytes >> 20).collect::<Vec<_>>();
        assert_eq!(sizes(4 << 30), [64, 256, 1024]);
        assert_eq!(sizes(256 << 20), [16, 64]);
        assert_eq!(sizes(100 << 20), [25]);
        assert_eq!(sizes(20 << 20), [20], "a small one is its own sample");
    }
}
