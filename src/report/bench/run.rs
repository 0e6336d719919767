//! One run of a comparison: a line of `runs.ndjson`. A value that was not measured is `null`, never 0.

use serde::{Deserialize, Serialize};

use super::super::{OptionRow, SampleReport};
use crate::rocks::{Level, ReadCounts};

/// The version of a run's record. It changes if a field is removed or changes its meaning.
pub const RUN_SCHEMA: &str = "bedload-bench-run-4";

/// The name of the variant that copies the snapshot instead of importing it.
pub const COPY: &str = "cp";

/// One run: an import and the measurements of its database, or a copy of the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchRun {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// The variant; [`COPY`] for the copy.
    pub variant: String,
    /// The round, from 0. Every variant runs once in each.
    pub round: u32,
    /// The place in the round, from 0.
    pub position: u32,
    /// True if the round only warms up. Its runs are recorded and do not count.
    pub warmup: bool,
    /// The time of its start, in seconds since 1970.
    pub started_unix_seconds: u64,
    pub cache: CacheInfo,
    pub failure: Option<RunFailure>,
    /// The kernel's figures of the process.
    pub process: Option<ProcessFigures>,
    /// BenchFigures from the import's report.
    pub import: Option<ImportFigures>,
    /// The scan after the import.
    pub scan: Option<ScanFigures>,
    pub reads: Option<Reads>,
    /// Notes for the user.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// `warm` or `cold`.
    pub state: String,
    /// How bedload filled or emptied it.
    pub how: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// The step: `import`, `scan`, `reads` or `copy`.
    pub action: String,
    /// The exit code; `null` if a signal ended the process.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    /// The error message of the process.
    pub error: String,
    pub hint: Option<String>,
}

/// The kernel's figures of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFigures {
    /// Wall time from before its start to its end.
    pub seconds: f64,
    /// Processor time in user mode.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// The peak of resident memory, mapped files included.
    pub peak_rss_bytes: Option<u64>,
    /// The peak of anonymous memory, from samples.
    pub peak_anonymous_bytes: Option<u64>,
    /// Bytes read through system calls, from the page cache or the disk.
    pub read_bytes: Option<u64>,
    /// Bytes written through system calls.
    pub written_bytes: Option<u64>,
    /// Bytes that the disk read for it.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that the disk wrote for it.
    pub disk_written_bytes: Option<u64>,
    /// The highest number of open files, from samples.
    pub open_files: Option<u64>,
}

/// Figures of an import, most of them from its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportFigures {
    /// Seconds until the last block was written: all but compaction and checking.
    pub import_seconds: f64,
    /// Seconds of the final compaction and of opening the database once as the node will.
    pub compact_seconds: f64,
    /// Seconds of counting and digesting the finished database; only the memtable loader does it.
    pub check_seconds: Option<f64>,
    /// Name and seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// The size of the source on disk.
    pub source_bytes: u64,
    pub payload_bytes: u64,
    pub blocks: u64,
    /// The content digest. All variants with the same key layout must have the same one.
    pub digest: String,
    pub loader: String,
    /// Bytes of SST files and WAL that RocksDB or the loader wrote.
    pub rocksdb_written_bytes: Option<u64>,
    /// SST files of the finished database.
    pub sst_files: u64,
    /// Files and bytes of each level of the finished database.
    #[serde(default)]
    pub levels: Vec<Level>,
    /// Files at level 0 before the final compaction; only with the memtable loader.
    pub level0_files_before_compaction: Option<u64>,
    /// How often RocksDB delayed or stopped writers; only with the memtable loader.
    pub stalls: Option<u64>,
    /// Seconds of the stalls.
    pub stall_seconds: Option<f64>,
    /// Disk space of the finished database.
    pub disk_bytes: Option<u64>,
    /// The estimate for the whole database, if a sample of it was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleReport>,
    /// Options of the finished database that were set or differ from RocksDB's defaults.
    pub options: Vec<OptionRow>,
    pub rocksdb_version: String,
}

/// The order in which a scan reads a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanKind {
    /// Follows all links from the roots, as a node does that validates its chain.
    Links,
    /// Reads the blocks by number, as a node does that replays a block log.
    Number,
    /// Reads the records in the order of their keys, because there are no roots.
    Order,
}

impl ScanKind {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Links => "all links from the roots",
            Self::Number => "all blocks by number",
            Self::Order => "all records in the order of their keys",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanFigures {
    pub kind: ScanKind,
    /// Its duration, opening included.
    pub seconds: f64,
    pub records: u64,
    pub bytes: u64,
    /// Links to missing blocks; `null` unless it follows links.
    pub missing: Option<u64>,
    /// The share of the database that was in the page cache at its start, from 0 to 1.
    pub resident_before: Option<f64>,
}

/// Reads from the finished database, each in a process of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// With none of the database in memory.
    pub cold: Option<ReadFigures>,
    /// With all of it in the page cache, and the block cache filled by the same reads.
    pub warm: Option<ReadFigures>,
}

/// Reads from one database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadFigures {
    /// The share of the database that was in the page cache before it was opened.
    pub resident_before: Option<f64>,
    /// The same after the first lookups of existing keys, which bring data into memory.
    pub resident_after_hits: Option<f64>,
    /// Seconds of opening it with its own options.
    pub open_seconds: f64,
    /// The size of the block cache.
    pub block_cache_bytes: u64,
    /// Single lookups of existing keys, on one thread.
    pub hit: LookupTimes,
    /// RocksDB's counters of these lookups.
    pub hit_counts: Option<ReadCounts>,
    /// The number of their keys that the database does not have: a file of keys may have others than a sample.
    #[serde(default)]
    pub missing_keys: u64,
    /// Single lookups of missing keys, on one thread.
    pub miss: LookupTimes,
    /// RocksDB's counters of these lookups.
    pub miss_counts: Option<ReadCounts>,
    /// Threads of the next two figures.
    pub threads: usize,
    /// Lookups of existing keys per second, on all threads together.
    pub hits_per_second_threads: Option<f64>,
    /// Lookups of missing keys per second, on all threads together.
    pub misses_per_second_threads: Option<f64>,
    /// Keys in one `multi_get`.
    pub multi_get_keys: usize,
    /// Keys per second through `multi_get`, on one thread.
    pub multi_get_per_second: Option<f64>,
    /// Bytes of keys and values per second of an iteration in order, on one thread.
    pub iterate_bytes_per_second: Option<f64>,
    /// Records per second of the iteration.
    pub iterate_records_per_second: Option<f64>,
    /// True if the iteration reached the end before its time limit.
    pub iterate_complete: bool,
    /// The peak of the process's resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// Processor time of the process.
    pub cpu_seconds: Option<f64>,
}

/// Durations of single lookups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookupTimes {
    pub count: u64,
    pub per_second: Option<f64>,
    /// The median, in nanoseconds.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p999_ns: Option<u64>,
    /// The slowest lookup.
    pub max_ns: Option<u64>,
}
