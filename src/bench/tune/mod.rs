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
mod options;
mod preset_file;
mod run_store;
mod sample;
mod space;
mod todo;
mod trials;

pub use options::{DEFAULT_PAIRS, TuneObserver, TuneOptions};
pub use preset_file::preset_file;
pub use space::{Candidate, candidates};

use serde_json::json;

use self::options::FEWEST_PAIRS;
use self::run_store::{RunStore, Stage};
use self::todo::Todo;
use self::trials::Trials;
use super::fetch::Fetched;
use super::measure::{Runner, WorkDir};
use super::pace::Pace;
use super::{Clock, machine, object, snapshot, text_digest};
use crate::error::{Error, Result};
use crate::os::scratch_dir::ScratchDir;
use crate::preset::Preset;
use crate::report::bench::SnapshotInfo;
use crate::report::tune::{Goal, Outcome, TUNE_SCHEMA, TuneReport};
use crate::source::remote::take_secrets;

/// The part of a budget of time that the search may use; the rest is for the confirmation.
const SEARCH_SHARE: f64 = 0.6;

/// Lookups of each kind when reads are what counts.
const LOOKUPS: u64 = 4000;

/// Searches for better options.
///
/// # Errors
/// [`Error::Preset`]: there is no such preset; [`Error::BadInput`] or [`Error::Io`]: the snapshot cannot be read;
/// [`Error::State`]: another search is in `out`; [`Error::Usage`]: the start itself fails, or there are too few pairs;
/// [`Error::Interrupted`]: the caller cancelled it.
pub fn tune(options: &TuneOptions, observer: &dyn TuneObserver) -> Result<TuneReport> {
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
    let tried = all.len();
    let identity = json!({
        "schema": "bedload-tune-identity-2",
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
    let store = RunStore::open(&options.out, &object(identity))?;
    let work_dir = WorkDir::take(&options.dir)?;
    // Beside the folder that runs have to themselves, which each of them renews.
    let samples =
        ScratchDir::create(&options.dir, ".bedload-tune-").map_err(Error::io("create a folder in", &options.dir))?;
    let fetched = source.fetch(&options.dir, &options.stop, &|received, bytes| observer.fetches(received, bytes))?;
    let clock = Clock::new(options.budget);
    let search = Clock::new(options.budget.map(|budget| budget.mul_f64(SEARCH_SHARE)));
    let runner = Runner {
        program: &options.program,
        source: fetched.as_ref().map_or(&options.source, Fetched::path),
        cold: false,
        lookups: if options.goal == Goal::Reads { LOOKUPS } else { 0 },
        node_ops: 0,
        scan: options.goal == Goal::Total,
        seed: options.seed,
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
        // No sample was gone through.
        None if rungs.is_empty() => (None, Outcome::OutOfTime),
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
        tried: rungs.first().map_or(0, |rung| rung.ratios.len()),
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
