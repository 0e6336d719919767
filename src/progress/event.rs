//! Progress as data: phases, events and samples, and the observer that receives them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// A phase of an import or of another command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Phase {
    /// Opens the source and chooses a plan.
    #[default]
    Plan,
    /// Reads the source, verifies every block, and spills blocks that do not fit.
    Read,
    /// Sorts, and builds SST files.
    Build,
    /// RocksDB ingests the files.
    Ingest,
    /// Compacts the database into its final form.
    Compact,
    /// Counts and digests the records of the finished database.
    Check,
    /// Renames the database to its final name.
    Commit,
    /// Verifies the records of a database.
    Verify,
    /// Follows links through a database.
    Walk,
    /// Writes blocks of a database into a snapshot.
    Export,
    /// Generates a snapshot.
    Generate,
    /// Measures the machine.
    Measure,
    /// Imports a small generated snapshot to forecast an import.
    Sample,
}

/// The names of the phases, in the order of the variants.
const PHASES: [&str; 13] = [
    "plan", "read", "build", "ingest", "compact", "check", "commit", "verify", "walk", "export", "generate", "measure",
    "sample",
];

impl Phase {
    /// Returns the name in output and reports.
    pub fn name(self) -> &'static str {
        PHASES[self as usize]
    }
}

/// The counters of a call at one time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Seconds since the start.
    pub seconds: f64,
    /// The phase at that time.
    pub phase: Phase,
    /// Bytes done in this phase: of the source as stored on disk while reading, of blocks while building.
    pub bytes: u64,
    /// Total bytes of this phase, if known.
    pub total: Option<u64>,
    /// Blocks done in this phase. In the phase `measure`: measurements.
    pub blocks: u64,
    /// Total blocks of this phase, if an index counts them.
    pub total_blocks: Option<u64>,
    /// RocksDB's backlog, while RocksDB writes or compacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Network traffic, while the source is read from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Blocks per second over the last complete 100,000 blocks of a block log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_blocks_per_second: Option<f64>,
    /// Estimated seconds until the last phase ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
}

impl Sample {
    /// Returns the completed share of the phase, from 0 to 1: of its blocks if their total is known, else of its bytes.
    pub fn done(&self) -> Option<f64> {
        let of = |done: u64, total: u64| done.min(total) as f64 / total.max(1) as f64;
        match (self.total_blocks, self.total) {
            (Some(total), _) => Some(of(self.blocks, total)),
            (None, total) => total.filter(|&total| total > 0).map(|total| of(self.bytes, total)),
        }
    }
}

/// The network traffic of a call.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Network {
    /// Bytes received.
    pub received_bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Seconds spent waiting for the network.
    pub waited_seconds: f64,
}

impl Network {
    pub(crate) fn new(received_bytes: u64, connections: u64, waited_seconds: f64) -> Self {
        Self { received_bytes, connections, waited_seconds }
    }
}

/// The work that RocksDB has yet to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backlog {
    /// Files at level 0.
    pub level0_files: u64,
    /// Bytes that compactions have yet to move: RocksDB's estimate, or the rest of the final compaction.
    pub pending_bytes: u64,
    /// The state of writers.
    pub writes: Writes,
}

/// The state of writers: RocksDB stalls them if flushes or compactions fall behind.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Writes {
    /// Writers run at full speed.
    Flow,
    /// RocksDB delays writers.
    Delayed,
    /// RocksDB stops writers.
    Stopped,
}

/// An event of a call, reported immediately.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The import has chosen its plan.
    Planned {
        /// The plan.
        plan: Box<Plan>,
    },
    /// A phase begins.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// A phase ended.
    PhaseDone {
        /// The phase.
        phase: Phase,
        /// Duration of the phase, in seconds.
        seconds: f64,
        /// Bytes processed.
        bytes: u64,
        /// Blocks processed.
        blocks: u64,
        /// Part of `bytes` that an earlier run processed.
        earlier_bytes: u64,
    },
    /// An earlier run is resumed.
    Resumed {
        /// Bytes of the source that need not be read again.
        source_bytes: u64,
        /// SST files that the earlier run built.
        built_files: u64,
    },
    /// Memory is full: the import spills blocks to files from now on.
    Spills {
        /// Limit of blocks and entries in memory, in bytes.
        held_bytes: u64,
    },
    /// A problem that does not stop the import.
    Warning {
        /// The text of the warning.
        message: String,
    },
}

/// Receives the progress of a call: events on the thread that runs the call, samples on another thread. Both methods
/// must return quickly. After a panic in one of them, the import continues without an observer.
///
/// ```
/// use bedload::progress::{Event, Observer, Sample};
///
/// struct Log;
///
/// impl Observer for Log {
///     fn event(&self, event: &Event) {
///         if let Event::PhaseDone { phase, seconds, .. } = event {
///             println!("{} took {seconds:.1} s", phase.name());
///         }
///     }
///
///     fn sample(&self, sample: &Sample) {
///         println!("{}: {} of {:?} bytes", sample.phase.name(), sample.bytes, sample.total);
///     }
/// }
///
/// // A closure receives the events only.
/// let observer: &dyn Observer = &|event: &Event| println!("{event:?}");
/// ```
pub trait Observer: Sync {
    /// Receives an event.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Receives the counters, about ten times a second.
    fn sample(&self, sample: &Sample) {
        let _ = sample;
    }
}

impl<F: Fn(&Event) + Sync> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

macro_rules! forward {
    ($([$($generics:tt)*] $observer:ty),*) => {$(
        impl<$($generics)*> Observer for $observer {
            fn event(&self, event: &Event) {
                (**self).event(event);
            }

            fn sample(&self, sample: &Sample) {
                (**self).sample(sample);
            }
        }
    )*};
}

// A box of any observer could be a closure, too.
forward!([T: Observer + Send + ?Sized] Arc<T>, ['a] Box<dyn Observer + 'a>, ['a] Box<dyn Observer + Send + 'a>);

/// An observer that ignores events and samples.
#[derive(Debug, Clone, Default)]
pub struct Silent;

impl Observer for Silent {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_names_match_their_json() {
        for name in PHASES {
            let phase: Phase = serde_json::from_value(name.into()).expect(name);
            assert_eq!(phase.name(), name);
        }
    }
}
