//! The plan of an import, decided before it starts.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::escape::shown_in_line;
use crate::text::size::{counted, human};

/// The plan of an import.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The source as the user gave it; for several sources, the first one and the number of others. Empty in an import
    /// report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The preset. Empty in an import report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preset: String,
    /// The origin of the preset's name: `command line`, the path of `config.toml`, or `default`.
    /// Empty in an import report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) preset_from: String,
    /// The memory budget in bytes; 0 in older reports.
    #[serde(default)]
    pub(crate) budget_bytes: u64,
    /// The part of the budget for blocks and their index, in bytes. Decompression, copies and links take the rest.
    pub memory: u64,
    /// Number of threads.
    pub threads: usize,
    /// The size at which an SST is closed, in bytes.
    pub(crate) sst_bytes: u64,
    /// Bytes of a CAR per read.
    pub(crate) chunk_bytes: u64,
    /// The size of the decompressed source in bytes, if known or estimated.
    pub expected_bytes: Option<u64>,
    /// The space needed on each file system.
    #[serde(default)]
    pub space: Vec<Space>,
    /// Bytes of memory for comparing keys and links, in addition to `memory`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) links_bytes: u64,
    /// Expected number of open files.
    pub(crate) open_files: u64,
    /// The method of the import.
    #[serde(flatten)]
    pub(crate) method: Method,
}

/// The method of an import.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Method {
    /// Sorts the blocks of a CAR and builds SST files, which RocksDB ingests.
    CarSst {
        /// The sort.
        sort: SortPlan,
    },
    /// Writes the blocks of a CAR through memtables.
    CarMemtable {
        /// The memtables.
        memtable: MemtablePlan,
    },
    /// Builds SST files from the blocks of a log, which are in key order already; RocksDB ingests them.
    BlockLogSst {
        /// The log.
        log: LogPlan,
    },
    /// Copies ranges of a database into SST files, which RocksDB ingests.
    DatabaseSst {
        /// The ranges.
        ranges: LogPlan,
    },
    /// Sorts records of streams and builds SST files, which RocksDB ingests.
    RecordsSst {
        /// The records.
        records: RecordsPlan,
    },
    /// Writes the blocks of a log through memtables.
    BlockLogMemtable {
        /// The log.
        log: LogPlan,
        /// The memtables.
        memtable: MemtablePlan,
    },
}

impl Default for Method {
    fn default() -> Self {
        Self::CarSst { sort: SortPlan::default() }
    }
}

/// The sort of the blocks of a CAR.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct SortPlan {
    /// True if blocks are spilled to files from the first block on. After an import: true if any were spilled.
    pub spill: bool,
    /// True if blocks are spilled once they do not fit into memory. After an import: true if this happened.
    #[serde(default)]
    pub may_spill: bool,
    /// True if partitions stay in the page cache: the machine has memory for all blocks beyond the budget.
    #[serde(default)]
    pub cached: bool,
    /// True if partitions contain references to the source, whose blocks stay in the page cache.
    #[serde(default)]
    pub by_reference: bool,
    /// Limit of blocks and entries in memory, in bytes.
    pub hold_bytes: u64,
    /// The partitions.
    pub partitions: PartitionPlan,
}

/// The partitions of records, which are sorted one by one.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct PartitionPlan {
    /// Bits of the digest that choose the partition.
    pub bits: u32,
    /// Bytes per append to a partition.
    pub piece_bytes: u64,
    /// Size of a partition that can be sorted in memory, in bytes.
    pub sort_bytes: u64,
}

/// Reading of a block log or a database in the order of its keys.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct LogPlan {
    /// Bytes of the source per range; one thread builds the files of a range.
    pub range_bytes: u64,
    /// Column families to create.
    pub families: Vec<String>,
    /// The partitions of the transaction ids, if these are indexed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<PartitionPlan>,
}

/// The sort of records of streams.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct RecordsPlan {
    /// Limit of records and entries in memory, in bytes. More records go into sorted runs.
    pub(crate) hold_bytes: u64,
    /// Bytes of records that a thread takes from memory at once.
    pub(crate) range_bytes: u64,
    /// Column families to create.
    pub(crate) families: Vec<String>,
    /// The column family of dumps, which name none.
    pub(crate) dump_family: String,
    /// True if the records are sorted, so that their runs are the files of the database.
    pub(crate) is_sorted: bool,
    /// The treatment of duplicates.
    pub(crate) duplicates: Duplicates,
    /// True if streams without a mark at their end were accepted.
    pub(crate) allow_no_trailer: bool,
    /// After an import: true if records were written to runs and merged.
    pub(crate) spill: bool,
}

/// The treatment of a key that occurs more than once in streams of records.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Duplicates {
    /// With the same value it counts as one record. Another value is an error.
    #[default]
    Same,
    /// It is an error.
    Error,
    /// The first record is stored, in the order of the sources.
    First,
    /// The last record is stored.
    Last,
}

/// Writing through memtables.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct MemtablePlan {
    /// Threads that write batches.
    pub writer_threads: usize,
    /// Size of a batch, in bytes.
    pub batch_bytes: u64,
    /// Most records of a batch.
    pub batch_count: u64,
    /// Limit of RocksDB's write buffers, in bytes.
    pub write_buffer_bytes: u64,
    /// Expected files of level 0 before the final compaction, if the size of the source is known.
    pub level0_files: Option<u64>,
    /// True if there is a final compaction.
    pub compact: bool,
}

/// The space needed on one file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Space {
    /// The directory, or its nearest existing ancestor.
    pub path: String,
    /// Type of the file system, e.g. `ext4`; hex digits if unknown.
    pub(crate) file_system: String,
    /// Device number of the file system.
    pub(crate) device: u64,
    /// The data for this directory: `database`, `partitions`, or both; with `--replace` also the database that is
    /// replaced.
    pub holds: String,
    /// Additional bytes needed at the peak; `null` if the size of the source is unknown.
    pub needed_bytes: Option<u64>,
    /// Part of `needed_bytes` that compression cannot reduce.
    pub(crate) certain_bytes: u64,
    /// Minimum of additional bytes: the partitions, and nearly the whole source if the database is not compressed.
    #[serde(default)]
    pub least_bytes: u64,
    /// Bytes free for this user.
    pub free_bytes: u64,
}

impl Plan {
    /// A plan without facts of the machine, for bundles.
    pub(crate) fn published(is_log: bool) -> Self {
        let method = if is_log { Method::BlockLogSst { log: LogPlan::default() } } else { Method::default() };
        Self { method, ..Self::default() }
    }

    pub(crate) fn sort(&self) -> Option<&SortPlan> {
        if let Method::CarSst { sort } = &self.method { Some(sort) } else { None }
    }

    /// True if blocks or references are spilled from the first block on.
    pub(crate) fn spills(&self) -> bool {
        self.sort().is_some_and(|sort| sort.spill)
    }

    /// True if the blocks themselves are spilled, not references to them.
    pub(crate) fn spills_blocks(&self) -> bool {
        self.sort().is_some_and(|sort| sort.spill && !sort.by_reference)
    }

    pub(crate) fn log(&self) -> Option<&LogPlan> {
        match &self.method {
            Method::BlockLogSst { log } | Method::BlockLogMemtable { log, .. } => Some(log),
            _ => None,
        }
    }

    /// The plan of streams of records.
    pub(crate) fn records(&self) -> Option<&RecordsPlan> {
        if let Method::RecordsSst { records } = &self.method { Some(records) } else { None }
    }

    /// The ranges of a database that is copied.
    pub(crate) fn ranges(&self) -> Option<&LogPlan> {
        if let Method::DatabaseSst { ranges } = &self.method { Some(ranges) } else { None }
    }

    pub(crate) fn memtable(&self) -> Option<&MemtablePlan> {
        match &self.method {
            Method::CarMemtable { memtable } | Method::BlockLogMemtable { memtable, .. } => Some(memtable),
            _ => None,
        }
    }

    /// Describes the plan in one line for people.
    pub fn describe(&self) -> String {
        let Self { source, preset, preset_from, .. } = self;
        let chosen = match source.as_str() {
            "" => String::new(),
            _ => format!("{}: ", shown_in_line(&format!("{source}, preset {preset} ({preset_from})"))),
        };
        let (threads, memory) = (counted(self.threads as u64, "thread", "threads"), human(self.budget_bytes));
        let how = match &self.method {
            Method::CarSst { sort } => {
                let way = match (sort.spill, sort.may_spill) {
                    (true, _) if sort.by_reference => {
                        "leave the blocks in the source file (in the page cache), and sort partitions in memory"
                    }
                    (true, _) => "spill to partitions, then sort each in memory",
                    (false, true) => "sort in memory if all fits, else spill to partitions and sort each in memory",
                    (false, false) => "sort in memory",
                };
                let (partitions, sst) =
                    (counted(1 << sort.partitions.bits, "partition", "partitions"), human(self.sst_bytes));
                let excess = sort.excess(self.expected_bytes).filter(|_| sort.spill);
                let why = excess.map_or_else(String::new, |excess| format!(", because {excess}"));
                format!("{way}{why}: {threads}, {memory} of memory, {partitions}, SSTs of up to {sst}")
            }
            Method::BlockLogSst { log } => format!(
                "build in the order of the chain: {threads}, {memory} of memory, ranges of {}{}",
                human(log.range_bytes),
                log.describe_families()
            ),
            Method::DatabaseSst { ranges } => format!(
                "copy in the order of keys: {threads}, {memory} of memory, ranges of {}{}",
                human(ranges.range_bytes),
                ranges.describe_families()
            ),
            Method::RecordsSst { records } => {
                let way = match records.is_sorted {
                    true => "build files in the order of the stream".to_owned(),
                    false => format!("sort in memory, beyond {} in files that are merged", human(records.hold_bytes)),
                };
                format!("{way}: {threads}, {memory} of memory{}", describe_families(&records.families))
            }
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
        format!("{chosen}{how}{links}{space}{elsewhere}")
    }

    /// Checks that every file system has the least space needed.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: a file system has less.
    pub fn check_space(&self) -> Result<()> {
        let lacking = self.space.iter().find(|space| space.least_bytes > space.free_bytes);
        lacking.map_or(Ok(()), |space| Err(space.missing()))
    }

    /// The intended size of SST files for `total` bytes.
    pub(crate) fn sst_target(&self, total: u64) -> u64 {
        sst_target(total, self.sst_bytes)
    }
}

/// The intended number of SST files. It does not depend on the number of threads, so that each machine makes the same files.
const SSTS: u64 = 32;

const LEAST_SST: u64 = 1 << 20;

/// The intended size of SST files for `total` bytes, at most `sst_bytes`.
pub(crate) fn sst_target(total: u64, sst_bytes: u64) -> u64 {
    (total / SSTS).max(LEAST_SST).min(sst_bytes)
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl SortPlan {
    /// The reason for spilling, if `bytes` of blocks with their index do not fit into memory.
    pub(crate) fn excess(&self, bytes: Option<u64>) -> Option<String> {
        let bytes = bytes.filter(|bytes| !fits(*bytes, self.hold_bytes))?;
        let (bytes, most) = (human(bytes), human(self.hold_bytes));
        Some(format!("the blocks (about {bytes}) and their index exceed the memory for them ({most})"))
    }
}

/// True if `bytes` of blocks fit into `memory` with their entries: 16 bytes in a growing vector for a block of 1 KiB.
pub(crate) fn fits(bytes: u64, memory: u64) -> bool {
    bytes + bytes / 32 <= memory
}

impl LogPlan {
    fn describe_families(&self) -> String {
        describe_families(&self.families)
    }
}

fn describe_families(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| shown_in_line(name)).collect();
    format!(", column families {}", names.join(", "))
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
    /// The error of a file system with less space.
    pub(crate) fn missing(&self) -> Error {
        let Self { path, needed_bytes, least_bytes, free_bytes, .. } = self;
        let needed = Some(needed_bytes.unwrap_or(*least_bytes));
        Error::NoSpace { path: path.into(), needed, free: *free_bytes, source: None }
    }

    pub(crate) fn describe(&self) -> String {
        let needed =
            self.needed_bytes.map_or_else(|| "an unknown amount".to_owned(), |it| format!("up to {}", human(it)));
        format!(
            "{}: needs {needed}; {} free at {} ({})",
            self.holds,
            human(self.free_bytes),
            self.path,
            self.file_system
        )
    }
}
