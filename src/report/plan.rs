//! The plan of an import, decided before it starts: a value that can be printed, compared and tested.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::escape::shown_in_line;
use crate::text::size::{counted, human};

/// The result of a dry run: what would be imported, with which preset, and how.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DryRun {
    /// The source as the user gave it. Of several the first, and how many more.
    pub source: String,
    /// The preset.
    pub preset: String,
    /// The place that names the preset: `command line`, `BEDLOAD_PRESET`, the path of `config.toml`, or `default`.
    pub preset_from: String,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
}

impl DryRun {
    /// One line for people.
    pub fn describe(&self) -> String {
        let Self { source, preset, preset_from, plan } = self;
        let chosen = format!("{source}, preset {preset} ({preset_from})");
        format!("{}: {}", shown_in_line(&chosen), plan.describe())
    }
}

/// How an import will proceed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The memory budget in bytes.
    pub(crate) memory: u64,
    /// Threads that work.
    pub(crate) threads: usize,
    /// The size at which an SST is closed, in bytes.
    pub(crate) sst_bytes: u64,
    /// Bytes of a CAR read at once.
    pub(crate) chunk_bytes: u64,
    /// The size of the decompressed source in bytes, where it is known or can be guessed.
    pub(crate) expected_bytes: Option<u64>,
    /// What is needed of each file system that is written to; with a work directory on another one there are two.
    #[serde(default)]
    pub(crate) space: Vec<Space>,
    /// Bytes of memory, beside `memory`, for the keys and links that are compared; none where links are not followed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) links_bytes: u64,
    /// Files that will be open at once, as far as the source's size is known.
    pub(crate) open_files: u64,
    /// How the records of the source get into the database.
    #[serde(flatten)]
    pub(crate) method: Method,
}

/// How the records of a source get into the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Method {
    /// The blocks of a CAR are sorted and built into SSTs, which RocksDB ingests.
    CarSst {
        /// How they are sorted.
        sort: SortPlan,
    },
    /// The blocks of a CAR are written through memtables.
    CarMemtable {
        /// How they are written.
        memtable: MemtablePlan,
    },
    /// The blocks of a log, which come in the order of their keys, are built into SSTs, which RocksDB ingests.
    BlockLogSst {
        /// How the log is read.
        log: LogPlan,
    },
    /// The blocks of a log are written through memtables.
    BlockLogMemtable {
        /// How the log is read.
        log: LogPlan,
        /// How its records are written.
        memtable: MemtablePlan,
    },
}

/// How the blocks of a CAR are sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortPlan {
    /// Through memory, or through files from the first block on.
    pub spill: bool,
    /// Whether what is held in memory first may turn out not to fit, and then goes through files: the source's size is not
    /// known, or it is too large for the memory that the caller insists on. After an import: whether it has turned out so.
    #[serde(default)]
    pub may_spill: bool,
    /// Whether the machine has memory beyond the budget for all blocks, in its page cache: partitions stay there.
    #[serde(default)]
    pub cached: bool,
    /// Whether partitions only refer to the source, whose blocks the page cache holds.
    #[serde(default)]
    pub by_reference: bool,
    /// Bytes of blocks and entries that may be held before they are spilled.
    pub hold_bytes: u64,
    /// The partitions that they are sorted in.
    pub partitions: PartitionPlan,
}

/// How records are partitioned by their keys, and the partitions sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPlan {
    /// Bits of the digest that choose the partition.
    pub bits: u32,
    /// Bytes appended to a partition at once.
    pub piece_bytes: u64,
    /// Bytes of one partition that can be sorted in memory.
    pub sort_bytes: u64,
}

/// How a block log is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlan {
    /// Bytes of the log that one thread builds into files of their own.
    pub range_bytes: u64,
    /// Column families that are made.
    pub families: Vec<String>,
    /// The partitions of the ids of transactions, where these are indexed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<PartitionPlan>,
}

/// How records are written through memtables.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemtablePlan {
    /// Threads that write batches.
    pub writer_threads: usize,
    /// The size at which a batch is written, in bytes.
    pub batch_bytes: u64,
    /// The records at which a batch is written.
    pub batch_count: u64,
    /// The most that RocksDB's write buffers will take, in bytes.
    pub write_buffer_bytes: u64,
    /// The most files that level 0 is expected to have before the final compaction, where the source's size is known.
    pub level0_files: Option<u64>,
    /// Whether there is a final compaction.
    pub compact: bool,
}

/// What is needed of one file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The directory that is written to, or the nearest one above it that exists.
    pub path: String,
    /// Type of the file system, e.g. `ext4`; hex digits where it has no name here.
    pub file_system: String,
    /// Number of the device it is on.
    pub device: u64,
    /// What is written there: `database`, `partitions`, or both; and whether the database that is replaced stands beside it.
    pub holds: String,
    /// Bytes needed at the peak, beyond what is there already; `null` when the source's size is not known.
    pub needed_bytes: Option<u64>,
    /// Bytes of it that are certain: they cannot be compressed away.
    pub certain_bytes: u64,
    /// Bytes that are needed at least: of partitions those that are certain, of a database that is not compressed nearly all
    /// of its source.
    #[serde(default)]
    pub least_bytes: u64,
    /// Bytes free for this user.
    pub free_bytes: u64,
}

impl Plan {
    /// A plan that says nothing about the machine, for others to read.
    pub(crate) fn published(is_log: bool) -> Self {
        let method = match is_log {
            true => Method::BlockLogSst { log: LogPlan { range_bytes: 0, families: Vec::new(), transactions: None } },
            false => Method::CarSst {
                sort: SortPlan {
                    spill: false,
                    may_spill: false,
                    cached: false,
                    by_reference: false,
                    hold_bytes: 0,
                    partitions: PartitionPlan { bits: 0, piece_bytes: 0, sort_bytes: 0 },
                },
            },
        };
        Self {
            memory: 0,
            threads: 0,
            sst_bytes: 0,
            chunk_bytes: 0,
            expected_bytes: None,
            space: Vec::new(),
            links_bytes: 0,
            open_files: 0,
            method,
        }
    }

    /// How the blocks of a CAR are sorted.
    pub(crate) fn sort(&self) -> Option<&SortPlan> {
        if let Method::CarSst { sort } = &self.method { Some(sort) } else { None }
    }

    /// Whether everything goes through files from the first block on.
    pub(crate) fn spills(&self) -> bool {
        self.sort().is_some_and(|sort| sort.spill)
    }

    /// Whether the blocks go through files of the import's own, and not only their places.
    pub(crate) fn spills_blocks(&self) -> bool {
        self.sort().is_some_and(|sort| sort.spill && !sort.by_reference)
    }

    /// Whether a plain CAR is read again when its records are stored.
    pub(crate) fn reads_twice(&self) -> bool {
        self.sort().is_some_and(|sort| !sort.spill || sort.by_reference)
    }

    /// How a block log is read.
    pub(crate) fn log(&self) -> Option<&LogPlan> {
        match &self.method {
            Method::BlockLogSst { log } | Method::BlockLogMemtable { log, .. } => Some(log),
            Method::CarSst { .. } | Method::CarMemtable { .. } => None,
        }
    }

    /// How records are written through memtables.
    pub(crate) fn memtable(&self) -> Option<&MemtablePlan> {
        match &self.method {
            Method::CarMemtable { memtable } | Method::BlockLogMemtable { memtable, .. } => Some(memtable),
            Method::CarSst { .. } | Method::BlockLogSst { .. } => None,
        }
    }

    /// The plan in one line for people.
    pub fn describe(&self) -> String {
        let (threads, memory) = (counted(self.threads as u64, "thread", "threads"), human(self.memory));
        let how = match &self.method {
            Method::CarSst { sort } => {
                let way = match (sort.spill, sort.may_spill) {
                    (true, _) if sort.by_reference => {
                        "keep the blocks in the source, which the page cache holds, and sort partitions of them in memory"
                    }
                    (true, _) => "spill to partitions, then sort each in memory",
                    (false, true) => "sort in memory if all fits, else spill to partitions and sort each in memory",
                    (false, false) => "sort in memory",
                };
                let (partitions, sst) =
                    (counted(1 << sort.partitions.bits, "partition", "partitions"), human(self.sst_bytes));
                format!("{way}: {threads}, {memory} of memory, {partitions}, SSTs of up to {sst}")
            }
            Method::BlockLogSst { log } => format!(
                "build in the order of the chain: {threads}, {memory} of memory, ranges of {}{}",
                human(log.range_bytes),
                log.describe_families()
            ),
            Method::CarMemtable { memtable } => memtable.describe(&threads),
            Method::BlockLogMemtable { log, memtable } => memtable.describe(&threads) + &log.describe_families(),
        };
        let space: String = self.space.iter().map(|space| format!("; {}", space.describe())).collect();
        // Only partitions go to a work directory.
        let elsewhere =
            if self.space.len() > 1 { "; partitions go to another file system and are copied back" } else { "" };
        let links = match self.links_bytes {
            0 => String::new(),
            bytes => format!("; {} of memory to compare links", human(bytes)),
        };
        how + &links + &space + elsewhere
    }

    /// Whether the disk has room for what is needed at least. An import refuses to start without room for its partitions;
    /// one without room for its database would end with the same error, and keep its work.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: it has not.
    pub fn check_space(&self) -> Result<()> {
        let lacking = self.space.iter().find(|space| space.least_bytes > space.free_bytes);
        lacking.map_or(Ok(()), |space| Err(space.missing()))
    }

    /// The size of SSTs that is aimed at for `total` bytes.
    pub(crate) fn sst_target(&self, total: u64) -> u64 {
        sst_target(total, self.sst_bytes)
    }
}

/// The least number of SSTs that is aimed at, as long as they are no smaller than [`LEAST_SST`]: enough that all threads are busy
/// to the end. Threads are not asked for, so that each machine makes the same files.
const SSTS: u64 = 32;

/// The least size of an SST that is aimed at, in bytes of records.
const LEAST_SST: u64 = 1 << 20;

/// The same for a plan in the making.
pub(crate) fn sst_target(total: u64, sst_bytes: u64) -> u64 {
    (total / SSTS).max(LEAST_SST).min(sst_bytes)
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl LogPlan {
    fn describe_families(&self) -> String {
        format!(", column families {}", self.families.join(", "))
    }
}

impl MemtablePlan {
    fn describe(&self, threads: &str) -> String {
        let level0 = self
            .level0_files
            .map(|files| format!(" from up to {} of level 0", counted(files, "file", "files")))
            .unwrap_or_default();
        let compaction = if self.compact { format!("then compact{level0}") } else { "no final compaction".to_owned() };
        format!(
            "write through memtables: {threads} to read, {} to write, batches of {} or {}, {} of write buffers; \
             {compaction}",
            self.writer_threads,
            human(self.batch_bytes),
            counted(self.batch_count, "record", "records"),
            human(self.write_buffer_bytes)
        )
    }
}

impl Space {
    /// The error of a disk that has less.
    pub(crate) fn missing(&self) -> Error {
        let Self { path, needed_bytes, least_bytes, free_bytes, .. } = self;
        let needed = Some(needed_bytes.unwrap_or(*least_bytes));
        Error::NoSpace { path: path.into(), needed, free: *free_bytes, source: None }
    }

    /// In words, for people.
    pub fn describe(&self) -> String {
        let needed = self.needed_bytes.map_or_else(|| "an unknown amount".to_owned(), human);
        format!("{}: {needed} of {} free at {} ({})", self.holds, human(self.free_bytes), self.path, self.file_system)
    }
}
