//! The options of a comparison.

use std::path::PathBuf;
use std::time::Duration;

use super::matrix::Vary;
use super::schedule::Order;
use crate::progress::CancellationToken;
use crate::source::remote::NetworkOptions;

/// The default number of rounds: the fewest that give a useful interval.
pub const DEFAULT_RUNS: u32 = 3;

/// The default number of lookups of each kind.
pub const DEFAULT_LOOKUPS: u64 = 2000;

/// The default share by which a variant may be slower than another one and still be recommended.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// The options of a comparison.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The snapshot.
    pub source: PathBuf,
    pub network: NetworkOptions,
    /// The command of the user, for the report.
    pub command: Option<String>,
    /// The program whose `import`, `walk` and `bench-read` are run.
    pub program: PathBuf,
    /// Presets, by name or path.
    pub presets: Vec<String>,
    /// Options and arguments of all variants.
    pub set: Vec<String>,
    /// Lists of values; the variants are all combinations.
    pub vary: Vec<Vary>,
    /// Rounds that count.
    pub runs: u32,
    /// Rounds before them.
    pub warmup: u32,
    pub order: Order,
    /// The seed of the random order and of the choice of keys.
    pub seed: u64,
    /// True to empty the page cache before each run. Otherwise the snapshot is read once before.
    pub cold: bool,
    /// No run starts that would probably end later.
    pub budget: Option<Duration>,
    /// The variant that the others are compared with; `None` for the first.
    pub reference: Option<String>,
    /// The share by which a variant may be slower than another one and still be recommended.
    pub margin: f64,
    /// Lookups of each kind; 0 for none.
    pub lookups: u64,
    /// True to scan each finished database.
    pub scan: bool,
    /// The directory of the temporary databases; `None` for `out`.
    pub dir: Option<PathBuf>,
    /// The directory of the results.
    pub out: PathBuf,
    /// Cancelled by the caller to end the comparison.
    pub stop: CancellationToken,
}
