//! A whole comparison: `results.json`.

use serde::{Deserialize, Serialize};

use super::super::{OptionRow, Versions};
use super::figures::Figures;
use super::run::Run;

/// The version of this document; it changes when a field changes its meaning or goes.
pub const BENCH_SCHEMA: &str = "bedload-bench-4";

/// A comparison of presets on one snapshot and one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`BENCH_SCHEMA`].
    pub schema: String,
    /// Where it was measured.
    pub machine: BenchMachine,
    /// What was imported.
    pub snapshot: SnapshotInfo,
    /// How it was measured.
    pub setup: Setup,
    /// What was compared.
    pub variants: Vec<VariantInfo>,
    /// What came out.
    pub figures: Figures,
    /// The runs themselves.
    pub runs: Vec<Run>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchMachine {
    /// The processor's name.
    pub cpu: Option<String>,
    /// Threads that run at once.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The kernel's name and version.
    pub kernel: Option<String>,
    /// The distribution.
    pub system: Option<String>,
    /// The file system that the databases were written to.
    pub file_system: Option<String>,
    /// The device it is on.
    pub device: Option<String>,
    /// The directory.
    pub dir: String,
    /// What ran.
    pub versions: Versions,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Its path as the user gave it.
    pub path: String,
    /// Its size on disk.
    pub bytes: u64,
    /// Blocks in it; `null` until one import has succeeded.
    pub blocks: Option<u64>,
    /// Their bytes.
    pub payload_bytes: Option<u64>,
}

/// How it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The command, as a shell reads it; `null` where a program called the library.
    #[serde(default)]
    pub command: Option<String>,
    /// Rounds that were requested.
    pub runs: u32,
    /// Rounds before them.
    pub warmup: u32,
    /// `interleaved` or `random`.
    pub order: String,
    /// What `random` and the choice of keys begin with.
    pub seed: u64,
    /// The page cache before each import: `warm` or `cold`.
    pub cache: String,
    /// Seconds after which no run is begun.
    pub budget_seconds: Option<f64>,
    /// Lookups of one kind; 0 for none.
    pub lookups: u64,
    /// Operations of the workload that a node has; 0 for none.
    #[serde(default)]
    pub node_ops: u64,
    /// Whether all rounds have been run.
    pub complete: bool,
    /// What else should be known, in words.
    pub notes: Vec<String>,
}

/// One of the things compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantInfo {
    /// Its name.
    pub name: String,
    /// The preset.
    pub preset: String,
    /// The preset's summary.
    pub summary: String,
    /// The loader.
    pub loader: String,
    /// What is set on top of the preset.
    pub set: Vec<String>,
    /// What the import is given besides.
    pub arguments: Vec<String>,
    /// Options of the finished database, read back from it; none until an import has succeeded.
    pub options: Vec<OptionRow>,
}

impl BenchReport {
    /// The runs that count for `variant`, in the order of the rounds.
    pub fn counted<'a>(&'a self, variant: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.variant == variant && !run.warmup && run.failure.is_none())
    }

    /// When the first and the last of its runs began, in seconds since 1970.
    pub fn period(&self) -> Option<(u64, u64)> {
        let began = || self.runs.iter().map(|run| run.started_unix_seconds);
        Some((began().min()?, began().max()?))
    }

    /// The run whose wall time is the median one: what curves are drawn from.
    pub fn typical<'a>(&'a self, variant: &'a str) -> Option<&'a Run> {
        let mut runs: Vec<&Run> = self.counted(variant).filter(|run| run.process.is_some()).collect();
        let seconds = |run: &&Run| run.process.as_ref().map_or(f64::MAX, |process| process.seconds);
        runs.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }
}
