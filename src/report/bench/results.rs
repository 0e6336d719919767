//! A whole comparison: `results.json`.

use serde::{Deserialize, Serialize};

use super::super::{OptionRow, Versions};
use super::figures::BenchFigures;
use super::run::BenchRun;

/// The version of this document. It changes if a field is removed or changes its meaning.
pub const BENCH_SCHEMA: &str = "bedload-bench-5";

/// A comparison of presets on one snapshot and one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`BENCH_SCHEMA`].
    pub schema: String,
    pub machine: BenchMachine,
    pub snapshot: SnapshotInfo,
    pub setup: Setup,
    pub variants: Vec<Variant>,
    pub figures: BenchFigures,
    pub runs: Vec<BenchRun>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchMachine {
    pub cpu: Option<String>,
    /// Threads that run at once.
    pub cores: usize,
    pub memory_bytes: Option<u64>,
    /// The kernel's name and version.
    pub kernel: Option<String>,
    pub system: Option<String>,
    /// The file system of `dir`.
    pub file_system: Option<String>,
    /// The device of the file system.
    pub device: Option<String>,
    /// The directory of the databases.
    pub dir: String,
    pub versions: Versions,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// The path as the user gave it.
    pub path: String,
    /// The size on disk.
    pub bytes: u64,
    /// The number of blocks; `null` until one import has succeeded.
    pub blocks: Option<u64>,
    pub payload_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The command, quoted for a shell.
    pub command: Option<String>,
    pub runs: u32,
    pub warmup: u32,
    /// The seed of the order in each round and of the choice of keys.
    pub seed: u64,
    /// The page cache before each import: `warm` or `cold`.
    pub cache: String,
    /// Seconds after which no run starts.
    pub budget_seconds: Option<f64>,
    /// Lookups of one kind; 0 for none.
    pub lookups: u64,
    /// True if all rounds have run.
    pub complete: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A preset with the options and arguments that are set on top of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The preset, and the values that distinguish it from other variants of the preset.
    pub name: String,
    /// The preset as the user named it.
    pub preset: String,
    pub summary: String,
    pub loader: String,
    /// Options on top of the preset, as `stage.scope.option=value`.
    pub set: Vec<String>,
    /// Arguments of the import, as `name=value`.
    pub arguments: Vec<String>,
    /// Options of the finished database, read back from it; empty until an import has succeeded.
    pub options: Vec<OptionRow>,
}

impl BenchReport {
    /// Returns the start times of the first and the last run, in seconds since 1970.
    pub fn period(&self) -> Option<(u64, u64)> {
        let began = || self.runs.iter().map(|run| run.started_unix_seconds);
        Some((began().min()?, began().max()?))
    }
}

impl BenchRun {
    /// Returns the wall time of the import or the copy, in seconds.
    pub fn wall(&self) -> Option<f64> {
        self.process.as_ref().map(|process| process.seconds)
    }
}
