//! What to search for, and what an observer receives.

use std::path::PathBuf;
use std::time::Duration;

use crate::bench::Step;
use crate::progress::CancellationToken;
use crate::report::tune::Goal;
use crate::source::remote::NetworkOptions;

/// Pairs on the whole snapshot when the user gives no number.
pub const DEFAULT_PAIRS: u32 = 5;

/// The fewest pairs that confirm anything.
pub(super) const FEWEST_PAIRS: u32 = 3;

/// What to search for, around what, and how long.
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

    /// So many of the snapshot's bytes have come from the network.
    fn fetches(&self, received: u64, bytes: u64) {
        let _ = (received, bytes);
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
