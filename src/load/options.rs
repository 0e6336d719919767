//! The options of an import.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use derive_setters::Setters;
use serde::{Deserialize, Serialize};

use crate::blocks::chain::Id;
use crate::error::{Error, Result};
use crate::load::callbacks::{Filter, SourceReader};
use crate::os::resources;
use crate::preset::Overrides;
use crate::progress::CancellationToken;
pub use crate::progress::plan::Duplicates;
use crate::sort::{KeyLayout, Shard};
use crate::source::block_log::TornTail;
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding, RawCid, Section};
use crate::source::input::STDIN;
use crate::source::remote::{NetworkOptions, take_secrets};

/// The options of an import.
#[derive(Debug, Clone, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The snapshot, or `-` for standard input. Several CARs, or directories of CARs, become one database that has each
    /// block once. A block log is one source.
    #[setters(skip)]
    pub(crate) sources: Vec<PathBuf>,
    /// The reader of the source `-`, instead of standard input.
    #[setters(skip)]
    pub(crate) reader: Option<SourceReader>,
    /// The filter of blocks. Defaults to none.
    #[setters(skip)]
    pub(crate) filter: Option<Filter>,
    /// The format of the source. Defaults to detection from the first bytes.
    pub(crate) format: Format,
    /// The path of the database.
    #[setters(into)]
    pub(crate) db: PathBuf,
    /// Memory of the import, in bytes, at least 16 MiB. Defaults to half of the memory of the machine or its cgroup.
    pub(crate) memory: Option<u64>,
    /// Number of threads that read and verify blocks and build SST files. Defaults to the preset's
    /// `load.ingest.threads`. The memtable loader's writers are `load.write.writer_threads`.
    pub(crate) threads: Option<usize>,
    /// The key that a block is stored under. Defaults to the layout that the existing database records, or else to the CID.
    #[setters(rename = "key")]
    pub(crate) given_key: Option<KeyLayout>,
    /// The key that the import uses; known once it has begun.
    #[setters(skip)]
    pub(crate) key: KeyLayout,
    /// The column family that takes the blocks. Defaults to the one that the existing database records, or else to `default`.
    #[setters(rename = "column_family", into)]
    pub(crate) given_column_family: Option<String>,
    /// The column family that the import uses; known once it has begun.
    #[setters(skip)]
    pub(crate) column_family: String,
    /// The column families of a RocksDB database that are copied. Defaults to all.
    #[setters(skip)]
    pub(crate) families: Vec<String>,
    /// The column families of a RocksDB database that are not copied. Defaults to none.
    #[setters(skip)]
    pub(crate) skipped_families: Vec<String>,
    /// The directory that a replaced database is moved to. Defaults to none: it is deleted.
    #[setters(into)]
    pub(crate) keep_old: Option<PathBuf>,
    /// Copies only some ranges of a database, with about as many bytes of its files. Defaults to all.
    #[setters(skip)]
    pub(crate) sample: Option<u64>,
    /// Verifies every block against its hash. Defaults to `true`. The report records `false`.
    pub(crate) verify: bool,
    /// Accepts several CARs joined in one file. Defaults to an error.
    pub(crate) concatenated: bool,
    /// The meaning of a section of length zero. Defaults to damage.
    pub(crate) null_padding: NullPadding,
    /// The longest block in bytes. Defaults to one byte less than 2 GiB.
    pub(crate) max_block_size: u64,
    /// The treatment of a Filecoin snapshot's F3 data. Defaults to [`F3Data::Store`].
    pub(crate) f3: F3Data,
    /// Options of block logs.
    pub(crate) log: LogOptions,
    /// The range of the digest that is imported. Defaults to all.
    #[setters(skip)]
    pub(crate) shard: Option<Shard>,
    /// The directory of spilled partitions. Defaults to `<db>.partial`.
    #[setters(into)]
    pub(crate) work_dir: Option<PathBuf>,
    /// The place of blocks until they are sorted. Defaults to [`PlanChoice::Auto`].
    pub(crate) plan: PlanChoice,
    /// Adds to an existing database. No process, including this one, may have it open.
    pub(crate) into_existing: bool,
    /// Replaces the RocksDB database at the path, and deletes the old one. No process, including this one, may have it
    /// open.
    pub(crate) replace: bool,
    /// Remove the database when its files are published: it never gets its name.
    #[setters(skip)]
    pub(crate) discard: bool,
    /// The treatment of unfinished work. Defaults to [`Unfinished::Resume`].
    pub(crate) unfinished: Unfinished,
    /// The check of a CAR's roots and links. Defaults to [`Links::Ignore`].
    pub(crate) links: Links,
    /// The preset, by name or path. Defaults to the preset that `overrides` names, or else to `ingest`.
    #[setters(into)]
    pub(crate) preset: Option<String>,
    /// Overrides of the preset. Defaults to none.
    pub(crate) overrides: Overrides,
    /// Options of sources on the network.
    pub(crate) network: NetworkOptions,
    /// The checksum of the source: `sha256:` and hex digits, or a file or URL with the checksum. Defaults to the
    /// checksum that is published beside a file on the network.
    #[setters(into)]
    pub(crate) checksum: Option<String>,
    /// Bytes that the plan assumes for the source instead of its own size.
    #[setters(skip)]
    pub(crate) assumed_bytes: Option<u64>,
    /// The treatment of keys that occur more than once in streams of records. Defaults to [`Duplicates::Same`].
    pub(crate) duplicates: Duplicates,
    /// Accepts streams of records without a mark at their end: one that was cut looks complete. Defaults to an error.
    pub(crate) allow_no_trailer: bool,
    /// True if the source is a bundle: hints name options of `seed`.
    #[setters(skip)]
    pub(crate) is_seed: bool,
    /// The token that cancels the import.
    pub(crate) stop: CancellationToken,
}

/// The treatment of unfinished work of an earlier import into the same database.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Unfinished {
    /// Resumes the work. Fails if the work is damaged, or belongs to another source, other options (the work
    /// directory counts) or another version of bedload.
    Resume,
    /// Resumes the work if possible. Otherwise warns, deletes the work and starts over; if a part of a pipe has been
    /// read by then, the import fails, and the next import starts over.
    ResumeOrRestart,
    /// Deletes the work and starts over.
    Restart,
}

/// The treatment of a Filecoin snapshot's F3 data (FRC-0108), one raw block of any size per source. F3 data are always
/// read and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum F3Data {
    /// Stores the F3 data as a record, which needs four times their size as memory.
    #[default]
    Store,
    /// Does not store the F3 data.
    Skip,
}

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Detected from the first bytes.
    #[default]
    Auto,
    /// A CAR.
    Car,
    /// The block log of a Steem, Hive or Antelope chain.
    BlockLog,
}

/// Options of block logs.
#[derive(Debug, Clone, PartialEq, Default, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct LogOptions {
    /// The directory of Hive's dictionaries. Defaults to none.
    #[setters(into)]
    pub(crate) dictionaries: Option<PathBuf>,
    /// The treatment of a log that ends inside a block. Defaults to an error.
    pub(crate) tail: TornTail,
    /// The first block to import. Defaults to block 1, which the log must have, or to the first block of a part, a pruned or a
    /// partial log.
    pub(crate) from: Option<u32>,
    /// The last block to import. Defaults to the last block of the log.
    pub(crate) to: Option<u32>,
    /// The number and id that the last block must have.
    pub(crate) expect_head: Option<(u32, Id)>,
    /// Numbers of blocks, and the ids that they must have.
    pub(crate) checkpoints: Vec<(u32, Id)>,
    /// The indexes to build. Defaults to the ids of blocks.
    #[setters(skip)]
    pub(crate) indexes: Indexes,
    /// Checks only ids and links, not the merkle roots of transactions. This is faster and does not detect damaged
    /// transactions. The report names the check.
    pub(crate) links_only: bool,
    /// Skips operations of unknown kinds, and counts their blocks, instead of refusing them.
    pub(crate) skip_unknown_operations: bool,
}

/// The check of a CAR's roots and links. Missing roots are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Links {
    /// Links are not followed.
    #[default]
    Ignore,
    /// Links are not followed. A root without a block is an error.
    Roots,
    /// Links are followed. The report counts the missing blocks.
    Check,
    /// Links are followed. A missing block, an unreadable block and a root without a block are errors.
    Require,
}

impl Links {
    pub(crate) fn are_followed(self) -> bool {
        matches!(self, Self::Check | Self::Require)
    }
}

/// Column families that find the records of a block log by an id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Indexes {
    pub ids: bool,
    pub transactions: bool,
}

impl Indexes {
    pub const NONE: Self = Self { ids: false, transactions: false };
}

impl Default for Indexes {
    fn default() -> Self {
        Self { ids: true, transactions: false }
    }
}

impl fmt::Display for Indexes {
    /// Writes the value of `--indexes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.ids, self.transactions) {
            (true, true) => "ids,transactions",
            (true, false) => "ids",
            (false, true) => "transactions",
            (false, false) => "none",
        })
    }
}

impl LogOptions {
    /// Chooses the column families that find blocks and transactions by their ids. Defaults to blocks alone.
    pub fn indexes(mut self, ids: bool, transactions: bool) -> Self {
        self.indexes = Indexes { ids, transactions };
        self
    }

    /// True if block `number` must have a certain id.
    pub(crate) fn pins(&self, number: u32) -> bool {
        self.checkpoints.iter().chain(&self.expect_head).any(|(pinned, _)| *pinned == number)
    }
}

/// The place of blocks until they are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PlanChoice {
    /// In memory if all blocks fit the budget, else in files.
    #[default]
    Auto,
    /// In memory; in files from the first block that does not fit.
    Memory,
    /// In files.
    Spill,
    /// In an uncompressed source; files have references to them. The page cache should have room for the source.
    Source,
}

impl ImportOptions {
    /// Creates options for an import of `source` into the database `db`.
    pub fn new(source: impl Into<PathBuf>, db: impl Into<PathBuf>) -> Self {
        Self {
            sources: vec![source.into()],
            reader: None,
            filter: None,
            format: Format::Auto,
            f3: F3Data::default(),
            log: LogOptions::default(),
            db: db.into(),
            memory: None,
            threads: None,
            key: KeyLayout::Cid,
            given_key: None,
            column_family: "default".into(),
            given_column_family: None,
            families: Vec::new(),
            skipped_families: Vec::new(),
            keep_old: None,
            sample: None,
            verify: true,
            concatenated: false,
            null_padding: NullPadding::Error,
            max_block_size: DEFAULT_MAX_BLOCK,
            shard: None,
            work_dir: None,
            plan: PlanChoice::Auto,
            into_existing: false,
            replace: false,
            discard: false,
            unfinished: Unfinished::Resume,
            links: Links::Ignore,
            preset: None,
            overrides: Overrides::default(),
            network: NetworkOptions::default(),
            checksum: None,
            assumed_bytes: None,
            duplicates: Duplicates::default(),
            allow_no_trailer: false,
            is_seed: false,
            stop: CancellationToken::default(),
        }
    }

    /// Creates options for a source that `reader` delivers. Its name in reports is `-`. The options can be used in one
    /// call of [`crate::import`] or [`crate::plan`]. To resume an interrupted import, pass a reader that delivers the
    /// source from its beginning: the import skips what it has stored. If the reader panics, the import returns
    /// [`Error::Io`], whose source has the message of the panic.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use bedload::testing::generate::{Profile, Spec, write};
    /// # let mut snapshot = std::io::Cursor::new(Vec::new());
    /// # write(&Spec::new(Profile::Mainnet, 1 << 20), &mut snapshot)?;
    /// # snapshot.set_position(0);
    /// use bedload::ImportOptions;
    ///
    /// let is_small = |_: &bedload::RawCid, block: &[u8]| block.len() < 10_000;
    /// let options = ImportOptions::from_reader(snapshot, dir.path().join("chain")).filter(is_small);
    /// let blocks = bedload::import(&options, &bedload::progress::Silent)?.blocks;
    /// println!("{} written, {} omitted", blocks.written, blocks.omitted.unwrap_or_default());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_reader(reader: impl Read + Send + 'static, db: impl Into<PathBuf>) -> Self {
        Self { reader: Some(SourceReader::new(reader)), ..Self::new(STDIN, db) }
    }

    /// Creates options for a [`Sorter`](crate::Sorter) or a [`SortedWriter`](crate::SortedWriter).
    pub fn of_records(db: impl Into<PathBuf>) -> Self {
        Self::new(STDIN, db)
    }

    /// Replaces the sources by a reader.
    pub(crate) fn read_from(self, reader: impl Read + Send + 'static) -> Self {
        Self { reader: Some(SourceReader::new(reader)), sources: vec![STDIN.into()], ..self }
    }

    /// Stores only the blocks of a CAR for which `keeps` returns true. `keeps` receives the CID and the data of each
    /// verified block, on any thread, and some blocks more than once. Counts, digest and links are those of the stored
    /// blocks; the report counts the omitted ones. To resume, pass the same filter: bedload cannot compare filters. If `keeps`
    /// panics, the import returns [`Error::Io`], whose source has the message of the panic, and the next call resumes.
    pub fn filter(mut self, keeps: impl Fn(&RawCid, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Filter::new(keeps));
        self
    }

    /// True if the block of a section in `bytes` is stored.
    pub(crate) fn keeps(&self, section: &Section, bytes: &[u8]) -> Result<bool> {
        self.filter.as_ref().map_or(Ok(true), |filter| filter.keeps(section, bytes))
    }

    /// Sets several sources.
    pub fn sources<S: Into<PathBuf>>(mut self, sources: impl IntoIterator<Item = S>) -> Self {
        self.sources = sources.into_iter().map(Into::into).collect();
        self
    }

    /// The only source, or the first one.
    pub(crate) fn source(&self) -> &Path {
        self.sources.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The options with sources whose names have no secrets.
    pub(crate) fn without_secrets(&self) -> Self {
        let mut options = self.clone();
        options.sources.iter_mut().for_each(|source| take_secrets(source, &mut options.network));
        options
    }

    /// Fails if the caller has cancelled the import.
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        if self.stop.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// The memory that the import may use, in bytes: as requested, or half of the machine's.
    pub(crate) fn memory_budget(&self) -> u64 {
        self.memory.or_else(|| resources::memory().map(|all| all / 2)).unwrap_or(1 << 30)
    }
}
