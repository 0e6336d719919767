//! The options of an import.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use derive_setters::Setters;

use crate::chain::Id;
use crate::os::resources;
use crate::preset::Overrides;
use crate::progress::CancellationToken;
use crate::sort::key::KeyLayout;
use crate::source::block_log::TornTail;
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding};

/// What to import, where to, and how.
#[derive(Debug, Clone, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The snapshot; `-` is standard input.
    pub source: PathBuf,
    /// What the source is. Defaults to what its first bytes say.
    pub format: Format,
    /// The path of the database.
    pub db: PathBuf,
    /// Memory in bytes that the import may use. Defaults to half of what the machine, or its cgroup, has.
    pub memory: Option<u64>,
    /// Threads that read and check and, with the ingest loader, build SST files. Overrides the preset's
    /// `load.ingest.threads`, which is the default. The memtable loader's writers are `load.write.writer_threads`.
    pub threads: Option<usize>,
    /// The key that a block is stored under. Defaults to the CID.
    pub key: KeyLayout,
    /// The column family that takes the blocks. Defaults to `default`.
    pub column_family: String,
    /// Whether every block is checked against its hash. Defaults to `true`; `false` is written into the report.
    pub verify: bool,
    /// What a section of length zero means. Defaults to damage.
    pub null_padding: NullPadding,
    /// The longest block in bytes. Defaults to one byte less than 2 GiB.
    pub max_block_size: u64,
    /// What becomes of a Filecoin snapshot's F3 data. Defaults to a record like others.
    pub f3: F3Data,
    /// Options of block logs.
    pub log: LogOptions,
    /// Where partitions are spilled to. Defaults to `<db>.partial`.
    pub work_dir: Option<PathBuf>,
    /// Whether blocks go through memory or through files. Defaults to what fits.
    pub plan: PlanChoice,
    /// Add to an existing database.
    pub into_existing: bool,
    /// Let the new database take the place of the RocksDB database that has its name, which is removed then. No process,
    /// the caller's own among them, may have that one open.
    pub replace: bool,
    /// Delete the unfinished work of an earlier import.
    pub restart: bool,
    /// Follow the links of a CAR's blocks while they are read, and report how many lead to no block.
    pub check_links: bool,
    /// The same, and an error if there is one, or one that cannot be read, or a root without its block.
    pub require_links: bool,
    /// Refuse a CAR whose roots are not all among its blocks. Without it they are only reported.
    pub require_roots: bool,
    /// Leave the final compaction out; only where there is one. The report says so.
    pub no_compact: bool,
    /// Choose a plan, report it, and do nothing else.
    pub dry_run: bool,
    /// The preset, by name or path. Defaults to what `overrides` say, and else to `ingest`.
    pub preset: Option<String>,
    /// Overrides of the preset. Defaults to none.
    pub overrides: Overrides,
    /// Cancelled by the caller to end the import.
    pub stop: CancellationToken,
}

/// What becomes of the F3 data of a Filecoin snapshot of version 2 (FRC-0108), one raw block of any size. In every case
/// they are read and verified.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum F3Data {
    /// A record of the database, which needs four times their size as memory.
    #[default]
    Store,
    /// They are left out.
    Skip,
    /// They are written to a new file, which has its name when the import is complete.
    File(PathBuf),
}

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// What its first bytes say.
    #[default]
    Auto,
    /// A CAR.
    Car,
    /// The block log of a Steem, Hive or Antelope chain.
    BlockLog,
}

/// Options of block logs.
#[derive(Debug, Clone, PartialEq, Default, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct LogOptions {
    /// The directory of Hive's dictionaries. Defaults to none.
    pub dictionaries: Option<PathBuf>,
    /// What to do with a log that ends inside a block. Defaults to an error.
    pub tail: TornTail,
    /// The first block to import. Defaults to block 1, which the log must have then, or, where a log is made to begin
    /// later (a part, a pruned or partial log), to its first.
    pub from: Option<u32>,
    /// The last block to import. Defaults to the last one of the log.
    pub to: Option<u32>,
    /// The number and id that the last block must have.
    pub expect_head: Option<(u32, Id)>,
    /// Numbers of blocks, and the ids that they must have.
    pub checkpoints: Vec<(u32, Id)>,
    /// Leave out the family that finds blocks by their ids.
    pub no_id_index: bool,
    /// Make the family that finds transactions by their ids.
    pub index_transactions: bool,
    /// Leave the merkle roots of transactions unchecked: ids and links alone. Faster, and damaged transactions are not
    /// found. The report and the database's record say so.
    pub links_only: bool,
    /// Pass over operations of unknown kinds instead of refusing them, and count their blocks.
    pub skip_unknown_operations: bool,
}

impl LogOptions {
    /// Whether block `number` must have a certain id.
    pub(crate) fn pins(&self, number: u32) -> bool {
        self.checkpoints.iter().chain(&self.expect_head).any(|(pinned, _)| *pinned == number)
    }
}

/// Whether blocks go through memory or through files.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PlanChoice {
    /// Through memory if all of it fits the budget.
    #[default]
    Auto,
    /// Through memory; an input that does not fit goes on through files.
    Memory,
    /// Through files from the first block on.
    Spill,
    /// The blocks of a plain file stay there, and the page cache is trusted to hold them; only their places go through
    /// files.
    Source,
}

impl ImportOptions {
    /// The defaults, for one snapshot and one database.
    pub fn new(source: impl Into<PathBuf>, db: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            format: Format::Auto,
            f3: F3Data::default(),
            log: LogOptions::default(),
            db: db.into(),
            memory: None,
            threads: None,
            key: KeyLayout::Cid,
            column_family: "default".into(),
            verify: true,
            null_padding: NullPadding::Error,
            max_block_size: DEFAULT_MAX_BLOCK,
            work_dir: None,
            plan: PlanChoice::Auto,
            into_existing: false,
            replace: false,
            restart: false,
            check_links: false,
            require_links: false,
            require_roots: false,
            no_compact: false,
            dry_run: false,
            preset: None,
            overrides: Overrides::default(),
            stop: CancellationToken::default(),
        }
    }

    /// Whether links are followed.
    pub(crate) fn follows_links(&self) -> bool {
        self.check_links || self.require_links
    }

    /// The memory that the import may use, in bytes: as requested, or half of what there is.
    pub(crate) fn memory_budget(&self) -> u64 {
        self.memory.or_else(|| resources::memory().map(|all| all / 2)).unwrap_or(1 << 30)
    }
}
