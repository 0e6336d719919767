//! Better options for this snapshot on this machine, searched for around a preset.
//!
//! ```text
//! one change at a time  ->  samples that grow fourfold  ->  the better third remains,  ->  the winner against the
//! (space)                   (sample, halving)               and its changes together       start, on the whole (confirm)
//! ```
//!
//! On each sample a run of the start that does not count warms up, and the start is run again between candidates, so that
//! every ratio is to runs of the same minute. Samples only choose what is tried on the whole: what counts is the last step,
//! interleaved pairs of the start and the winner on the whole snapshot, for which the rest of a budget is spent. A win whose
//! interval reaches one is none, and no preset is written for it.
//!
//! Every run is stored (`run_store`): a search that is started again reuses them.

mod halving;
mod preset_file;
mod run_store;
mod sample;
mod space;
mod todo;
mod trials;

use std::path::PathBuf;
use std::time::Duration;

pub use preset_file::preset_file;
pub use space::{Candidate, candidates};

use serde_json::json;

use self::halving::Rung;
use self::run_store::{RunStore, Stage};
use self::todo::Todo;
use self::trials::Trials;
use super::measure::{Runner, WorkDir};
use super::pace::Pace;
use super::{Clock, Step, absolute, machine, object, snapshot, text_digest};
use crate::error::{Error, Result};
use crate::os::scratch_dir::ScratchDir;
use crate::preset::Preset;
use crate::progress::CancellationToken;
use crate::report::bench::SnapshotInfo;
use crate::report::tune::{Goal, Outcome, TUNE_SCHEMA, TuneReport};

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

/// The most pairs that a budget of time is spent on: more would show differences that matter to none.
const MOST_PAIRS: u32 = 100;

/// When so many candidates or more are all better than the start, it is the start that is wrong.
const SUSPICIOUS: usize = 4;

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

    /// A run begins.
    fn begins(&self, step: &Step) {
        let _ = step;
    }

    /// A part of the run begins: what it does, in a word.
    fn does(&self, action: &'static str) {
        let _ = action;
    }

    /// The cost of a run is known: which candidate, and its cost relative to the start in the same round.
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
        "schema": "bedload-tune-identity-2",
        "snapshot": absolute(&options.source),
        "snapshot_bytes": source.bytes,
        "snapshot_modified_ms": source.modified_ms,
        "preset": options.preset,
        "preset_text": text_digest(&start.all_text()),
        "goal": options.goal,
        "seed": options.seed,
        "dir": absolute(&options.dir),
        "bedload": env!("CARGO_PKG_VERSION"),
    });
    let store = RunStore::open(&options.out, &object(identity))?;
    let work_dir = WorkDir::take(&options.dir)?;
    // Beside the folder that runs have to themselves, which each of them renews.
    let samples =
        ScratchDir::create(&options.dir, ".bedload-tune-").map_err(Error::io("create a folder in", &options.dir))?;
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
        watch: &|action| observer.does(action),
    };
    let mut trials = Trials {
        options,
        runner,
        samples: samples.path(),
        store,
        clock,
        search,
        observer,
        rungs: Vec::new(),
        warm: None,
        pace: Pace::default(),
        todo: Todo::default(),
    };
    let rungs = trials.rungs_of(&source)?;
    trials.todo = Todo::new(source.bytes, options.pairs, &rungs, tried);
    let winner = halving::search(&mut trials, all, &rungs)?;
    let rungs = std::mem::take(&mut trials.rungs);
    let (confirmation, outcome) = match &winner {
        None => (None, Outcome::NothingBetter),
        Some(winner) => trials.confirm(winner)?,
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
    drop(trials);
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
    sizes.into_iter().map(|bytes| Rung { bytes, first: 0, rounds: SAMPLE_ROUNDS }).collect()
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
