//! One run of a comparison: a line of `runs.ndjson`.
//!
//! What could not be measured is `null`, never 0.

use serde::{Deserialize, Serialize};

use super::super::OptionRow;
use crate::rocks::{Level, ReadCounts};

/// The version of a run's record; it changes when a field changes its meaning or goes.
pub const RUN_SCHEMA: &str = "bedload-bench-run-3";

/// The name of the variant that is no import: a copy of the snapshot.
pub const COPY: &str = "cp";

/// One run: an import and what was measured of its database, or a copy of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// The variant; [`COPY`] for the copy.
    pub variant: String,
    /// The round, from 0; every variant runs once in each.
    pub round: u32,
    /// The place in the round, from 0.
    pub position: u32,
    /// Whether the round only warms up: kept, but not counted.
    pub warmup: bool,
    /// When it began, in seconds since 1970.
    pub started_unix_seconds: u64,
    /// The page cache before it began.
    pub cache: CacheInfo,
    /// Why it failed; `null` when it did not.
    pub failure: Option<Failure>,
    /// What the system counted for the process.
    pub process: Option<ProcessFigures>,
    /// What the import reported.
    pub import: Option<ImportFigures>,
    /// The scan that follows an import in a node.
    pub scan: Option<ScanFigures>,
    /// Reads from the finished database.
    pub reads: Option<Reads>,
    /// Work on it after that, as a node has it.
    #[serde(default)]
    pub node: Option<NodeFigures>,
    /// What else should be known of it, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The page cache before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// `warm` or `cold`.
    pub state: String,
    /// How it was brought about.
    pub how: String,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done: `import`, `scan`, `reads`, `node`, `copy`.
    pub action: String,
    /// The program's exit code; `null` when a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The program's own words.
    pub error: String,
    /// Its hint.
    pub hint: Option<String>,
}

/// What the system counted for one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessFigures {
    /// From before it was started until it had ended.
    pub seconds: f64,
    /// Processor time in user mode.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// The most memory it had resident at once, mapped files included.
    pub peak_rss_bytes: Option<u64>,
    /// The most memory of its own (anonymous pages) that a sample saw.
    pub peak_anonymous_bytes: Option<u64>,
    /// Bytes it read through system calls, from the page cache or not.
    pub read_bytes: Option<u64>,
    /// Bytes it wrote through system calls.
    pub written_bytes: Option<u64>,
    /// Bytes it made the disk read.
    pub disk_read_bytes: Option<u64>,
    /// Bytes it made the disk write.
    pub disk_written_bytes: Option<u64>,
    /// The most open files that a sample saw.
    pub open_files: Option<u64>,
    /// Memory over time.
    pub memory: Vec<MemorySample>,
}

/// A sample of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemorySample {
    /// Since it was started.
    pub seconds: f64,
    /// Resident, mapped files included.
    pub rss_bytes: u64,
    /// Anonymous.
    pub anonymous_bytes: u64,
}

/// What an import reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportFigures {
    /// Until the last block was written: everything but compaction and checking.
    pub import_seconds: f64,
    /// The final compaction, and opening once as the node will.
    pub compact_seconds: f64,
    /// Counting and digesting the finished database, which only the memtable loader needs; `null` without.
    pub check_seconds: Option<f64>,
    /// Name and seconds of each phase, in their order.
    pub phases: Vec<(String, f64)>,
    /// Bytes of the source on disk.
    pub source_bytes: u64,
    /// Bytes of all blocks.
    pub payload_bytes: u64,
    /// Blocks read.
    pub blocks: u64,
    /// The content digest: all variants of one key layout must agree.
    pub digest: String,
    /// The loader.
    pub loader: String,
    /// When each step of the source had been taken.
    pub curve: Vec<ReadStep>,
    /// Where in the source RocksDB held writers back, or had compacted.
    #[serde(default)]
    pub pressure: Vec<Pressure>,
    /// Bytes per second over the first tenth of the source.
    pub first_tenth_bytes_per_second: Option<u64>,
    /// Bytes per second over the last tenth.
    pub last_tenth_bytes_per_second: Option<u64>,
    /// Bytes that RocksDB wrote, or the loader for it.
    pub rocksdb_written_bytes: Option<u64>,
    /// SST files of the finished database.
    pub sst_files: u64,
    /// Files and bytes of each level of the finished database.
    #[serde(default)]
    pub levels: Vec<Level>,
    /// Files at level 0 before the final compaction; `null` where nothing goes through level 0.
    pub level0_files_before_compaction: Option<u64>,
    /// How often writers were held back; `null` where nothing is written through RocksDB.
    pub stalls: Option<u64>,
    /// How long.
    pub stall_seconds: Option<f64>,
    /// Bytes of the finished database's files, as they take room on the disk.
    pub disk_bytes: Option<u64>,
    /// Options of the finished database that were set or differ from RocksDB's defaults.
    pub options: Vec<OptionRow>,
    /// What ran.
    pub rocksdb_version: String,
}

/// A place in the source, and when it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadStep {
    /// Bytes read, of the source as stored on disk.
    pub bytes: u64,
    /// Seconds since reading began.
    pub seconds: f64,
}

/// A part of the source during which RocksDB was busy with itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Bytes of the source where it began, by samples.
    pub from_bytes: u64,
    /// Bytes of the source where it ended.
    pub to_bytes: u64,
    /// What it was.
    pub what: PressureKind,
}

/// What RocksDB did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PressureKind {
    /// A compaction took files from level 0.
    Compaction,
    /// It slowed writers down, or stopped them.
    Stall,
}

/// How a database is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanKind {
    /// Following all links from the roots, as a node does that validates its chain.
    Links,
    /// One block after the other by number, as a node does that replays a block log.
    Number,
    /// One record after the other in the order of their keys, where there is nothing to walk from.
    Order,
}

impl ScanKind {
    /// In words, for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Links => "all links from the roots",
            Self::Number => "all blocks by number",
            Self::Order => "all records in the order of their keys",
        }
    }
}

/// The scan that follows an import in a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanFigures {
    /// How.
    pub kind: ScanKind,
    /// How long it took, opening included.
    pub seconds: f64,
    /// Records it read.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Links to blocks that are not there; `null` for a scan that follows none.
    pub missing: Option<u64>,
    /// The share of the database that was in the page cache when it began, from 0 to 1.
    #[serde(default)]
    pub resident_before: Option<f64>,
}

/// Reads from the finished database, each in a process of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// With nothing of the database in memory.
    pub cold: Option<ReadFigures>,
    /// With all of it in the page cache, and the block cache filled by the same reads done before.
    pub warm: Option<ReadFigures>,
}

/// Reads from one database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadFigures {
    /// The share of the database's pages that were in the page cache before it was opened.
    pub resident_before: Option<f64>,
    /// The same after the first lookups, of keys that are there: what they and the read-ahead have brought into memory.
    #[serde(default)]
    pub resident_after_hits: Option<f64>,
    /// Opening it with its own options.
    pub open_seconds: f64,
    /// The block cache it had, in bytes.
    pub block_cache_bytes: u64,
    /// Single lookups of keys that are there, on one thread.
    pub hit: LookupTimes,
    /// What they made RocksDB read.
    #[serde(default)]
    pub hit_counts: Option<ReadCounts>,
    /// Single lookups of keys that are not there, on one thread.
    pub miss: LookupTimes,
    /// What they made RocksDB read.
    #[serde(default)]
    pub miss_counts: Option<ReadCounts>,
    /// Threads of the next two.
    pub threads: usize,
    /// Lookups per second of keys that are there, on all threads together.
    pub hits_per_second_threads: Option<f64>,
    /// Lookups per second of keys that are not there, on all threads together.
    pub misses_per_second_threads: Option<f64>,
    /// Keys in one `multi_get`.
    pub multi_get_keys: usize,
    /// Keys per second through `multi_get`, on one thread.
    pub multi_get_per_second: Option<f64>,
    /// Bytes of keys and values per second of going through all records in order, on one thread.
    pub iterate_bytes_per_second: Option<f64>,
    /// Records per second of the same.
    pub iterate_records_per_second: Option<f64>,
    /// Whether the iteration reached the end within its time.
    pub iterate_complete: bool,
    /// The most memory the process had resident at once.
    pub peak_rss_bytes: Option<u64>,
    /// Processor time of the process.
    pub cpu_seconds: Option<f64>,
}

/// Reads of existing keys and batches of new blocks, on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// Reads and new blocks together.
    pub operations: u64,
    /// Whether these are all that were asked for: they end after a time.
    pub complete: bool,
    /// How long they took.
    pub seconds: f64,
    /// Operations per second.
    pub per_second: Option<f64>,
    /// The reads.
    pub read: LookupTimes,
    /// The batches.
    pub write: LookupTimes,
    /// Blocks in the batches.
    pub new_blocks: u64,
    /// Bytes of their keys and values.
    pub new_bytes: u64,
    /// How often RocksDB held a batch back.
    pub stalls: u64,
    /// How long.
    pub stall_seconds: f64,
    /// Memtables written to level 0 meanwhile.
    pub flushes: u64,
    /// Compactions meanwhile.
    pub compactions: u64,
    /// The most memory the process had resident at once.
    pub peak_rss_bytes: Option<u64>,
}

/// How long single operations took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookupTimes {
    /// How many were made.
    pub count: u64,
    /// Lookups per second.
    pub per_second: Option<f64>,
    /// Half took no longer, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub p99_ns: Option<u64>,
    /// 999 of 1,000 took no longer.
    pub p999_ns: Option<u64>,
    /// The slowest.
    pub max_ns: Option<u64>,
    /// How they are spread: upper bound in nanoseconds and number, in quarters of a power of two; empty ones left out.
    pub histogram: Vec<(u64, u64)>,
}
