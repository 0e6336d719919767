//! What the caller of a comparison can choose.

use std::path::PathBuf;
use std::time::Duration;

use super::matrix::{Variant, Vary};
use super::schedule::Order;
use crate::progress::CancellationToken;
use crate::source::remote::NetworkOptions;

/// Rounds when the user gives no number: the fewest that give a useful interval.
pub const DEFAULT_RUNS: u32 = 3;

/// Lookups of each kind when the user gives no number.
pub const DEFAULT_LOOKUPS: u64 = 2000;

/// Operations of the workload when the user gives no number and there are lookups.
pub const DEFAULT_NODE_OPS: u64 = 10_000;

/// The share by which a variant may be slower than another and still be recommended, when the user gives none.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// What to compare, on what, and how.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The snapshot.
    pub source: PathBuf,
    /// How a snapshot on the network is fetched.
    pub network: NetworkOptions,
    /// The command that asked for it, for the report.
    pub command: Option<String>,
    /// The program whose `import`, `walk` and `bench-read` are run.
    pub program: PathBuf,
    /// Presets, by name or path.
    pub presets: Vec<String>,
    /// A search compares these instead of `presets`: no copy runs, and the source may have another name next time.
    pub(super) variants: Vec<Variant>,
    /// What is set in all of them.
    pub set: Vec<String>,
    /// What varies.
    pub vary: Vec<Vary>,
    /// Rounds that count.
    pub runs: u32,
    /// Rounds before them.
    pub warmup: u32,
    /// How each round is ordered.
    pub order: Order,
    /// What random order and the choice of keys begin with.
    pub seed: u64,
    /// Empty the page cache before each run; otherwise the snapshot is read once before.
    pub cold: bool,
    /// No run is begun that would probably end later than this.
    pub budget: Option<Duration>,
    /// The variant that the others are compared with. Defaults to the first.
    pub reference: Option<String>,
    /// The share by which a variant may be slower than another and still be recommended.
    pub margin: f64,
    /// Lookups of each kind; 0 for none.
    pub lookups: u64,
    /// Operations of the workload after the lookups, as a node has it; 0 for none. It needs the keys of the lookups.
    pub node_ops: u64,
    /// Whether to scan each finished database.
    pub scan: bool,
    /// Where databases are made and removed again. Defaults to `out`.
    pub dir: Option<PathBuf>,
    /// Where results are kept.
    pub out: PathBuf,
    /// Cancelled by the caller to end it.
    pub stop: CancellationToken,
}

impl BenchOptions {
    /// The defaults, for one snapshot.
    pub fn new(source: impl Into<PathBuf>, program: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            network: NetworkOptions::default(),
            command: None,
            program: program.into(),
            presets: Vec::new(),
            variants: Vec::new(),
            set: Vec::new(),
            vary: Vec::new(),
            runs: DEFAULT_RUNS,
            warmup: 0,
            order: Order::Interleaved,
            seed: 1,
            cold: false,
            budget: None,
            reference: None,
            margin: DEFAULT_MARGIN,
            lookups: DEFAULT_LOOKUPS,
            node_ops: DEFAULT_NODE_OPS,
            scan: true,
            dir: None,
            out: out.into(),
            stop: CancellationToken::default(),
        }
    }
}
