//! What is measured: one row each, from which every table, file and chart is made.

use super::run::{LookupTimes, NodeFigures, ReadFigures, Run};

/// What a metric is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Things per second.
    PerSecond,
    /// Things.
    Count,
    /// A ratio.
    Factor,
}

/// Which end is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower.
    Lower,
    /// The higher.
    Higher,
}

/// One thing that is measured.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Its name in files.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which end is the good one.
    pub better: Better,
    /// What it means, in a line.
    pub doc: &'static str,
    get: fn(&Run) -> Option<f64>,
}

impl Metric {
    /// Its value in a run; `None` where it was not measured.
    pub fn of(&self, run: &Run) -> Option<f64> {
        (self.get)(run).filter(|value| value.is_finite())
    }
}

/// The metric with this key.
pub fn metric(key: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.key == key)
}

fn cold(run: &Run) -> Option<&ReadFigures> {
    run.reads.as_ref()?.cold.as_ref()
}

fn warm(run: &Run) -> Option<&ReadFigures> {
    run.reads.as_ref()?.warm.as_ref()
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Bytes of files read for each byte of the values that hits found.
fn read_amplification(reads: &ReadFigures) -> Option<f64> {
    let counts = reads.hit_counts?;
    (counts.value_bytes > 0).then(|| counts.file_bytes as f64 / counts.value_bytes as f64)
}

/// The share of the blocks that hits found in the block cache.
fn in_cache(reads: &ReadFigures) -> Option<f64> {
    let counts = reads.hit_counts?;
    let all = counts.cache_hits + counts.cache_misses;
    (all > 0).then(|| counts.cache_hits as f64 / all as f64)
}

/// Bytes of files read for a key that is not there.
fn bytes_of_a_miss(reads: &ReadFigures) -> Option<f64> {
    (reads.miss.count > 0).then_some(reads.miss_counts?.file_bytes as f64 / reads.miss.count as f64)
}

fn node(run: &Run) -> Option<&NodeFigures> {
    run.node.as_ref()
}

/// The geometric mean of the lookups per second that were measured: hits and misses, cold and warm.
fn lookups(run: &Run) -> Option<f64> {
    let rates: Vec<f64> = [cold(run), warm(run)]
        .into_iter()
        .flatten()
        .flat_map(|reads| [&reads.hit, &reads.miss])
        .filter_map(|latency: &LookupTimes| latency.per_second)
        .filter(|&rate| rate > 0.0)
        .collect();
    (!rates.is_empty()).then(|| (rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len() as f64).exp())
}

macro_rules! metrics {
    ($($key:ident $label:literal $unit:ident $better:ident $doc:literal $get:expr;)+) => {
        /// All metrics, the most important first.
        pub const METRICS: &[Metric] = &[$(Metric {
            key: stringify!($key),
            label: $label,
            unit: Unit::$unit,
            better: Better::$better,
            doc: $doc,
            get: $get,
        }),+];
    };
}

metrics! {
    total_seconds "total" Seconds Lower "the import's wall time and the scan that follows it"
        |run| Some(run.process.as_ref()?.seconds + run.scan.as_ref()?.seconds);
    wall_seconds "wall" Seconds Lower "from the start of the import's process to its end; for the copy, cp and sync"
        |run| Some(run.process.as_ref()?.seconds);
    import_seconds "import" Seconds Lower "reading, sorting, building, writing, ingesting and publishing"
        |run| Some(run.import.as_ref()?.import_seconds);
    compact_seconds "compact" Seconds Lower "the final compaction, and opening once as the node will"
        |run| Some(run.import.as_ref()?.compact_seconds);
    check_seconds "check" Seconds Lower "counting and digesting the finished database: only the memtable loader needs it"
        |run| run.import.as_ref()?.check_seconds;
    scan_seconds "scan" Seconds Lower "following all links from the roots; of a block log all blocks by number"
        |run| Some(run.scan.as_ref()?.seconds);
    scan_resident "cached before scan" Factor Higher "share of the database that the import had left in the page cache"
        |run| run.scan.as_ref()?.resident_before;
    cpu_seconds "CPU" Seconds Lower "processor time of the import, user and system"
        |run| run.process.as_ref().map(|process| process.user_seconds + process.system_seconds);
    peak_rss_bytes "peak memory" Bytes Lower "resident at once, mapped files included"
        |run| number(run.process.as_ref()?.peak_rss_bytes);
    peak_anonymous_bytes "own memory" Bytes Lower "anonymous memory at most, by samples: what the page cache cannot take back"
        |run| number(run.process.as_ref()?.peak_anonymous_bytes);
    disk_bytes "size" Bytes Lower "what the database takes on the disk"
        |run| number(run.import.as_ref()?.disk_bytes);
    write_amplification "RocksDB wrote / payload" Factor Lower "bytes of SST files and WAL written, over bytes of all blocks"
        |run| {
            let import = run.import.as_ref()?;
            Some(import.rocksdb_written_bytes? as f64 / import.payload_bytes as f64)
        };
    rocksdb_written_bytes "RocksDB wrote" Bytes Lower "bytes of SST files and WAL written"
        |run| number(run.import.as_ref()?.rocksdb_written_bytes);
    read_bytes "read" Bytes Lower "bytes the process read through system calls; mapped files are not in it"
        |run| number(run.process.as_ref()?.read_bytes);
    written_bytes "written" Bytes Lower "bytes the process wrote through system calls"
        |run| number(run.process.as_ref()?.written_bytes);
    disk_read_bytes "read from disk" Bytes Lower "bytes the process made the disk read"
        |run| number(run.process.as_ref()?.disk_read_bytes);
    disk_written_bytes "written to disk" Bytes Lower "bytes the process made the disk write"
        |run| number(run.process.as_ref()?.disk_written_bytes);
    first_tenth "first tenth" BytesPerSecond Higher "speed of reading over the first tenth of the source"
        |run| number(run.import.as_ref()?.first_tenth_bytes_per_second);
    last_tenth "last tenth" BytesPerSecond Higher "speed of reading over the last tenth of the source"
        |run| number(run.import.as_ref()?.last_tenth_bytes_per_second);
    stalls "stalls" Count Lower "how often RocksDB held writers back"
        |run| number(run.import.as_ref()?.stalls);
    stall_seconds "stalled" Seconds Lower "how long it did"
        |run| run.import.as_ref()?.stall_seconds;
    sst_files "SST files" Count Lower "in the finished database"
        |run| number(run.import.as_ref().map(|import| import.sst_files));
    level0_files "L0 before compaction" Count Lower "files at level 0 before the final compaction"
        |run| number(run.import.as_ref()?.level0_files_before_compaction);
    open_files "open files" Count Lower "open at once at most, by samples"
        |run| number(run.process.as_ref()?.open_files);
    lookups_per_second "lookups" PerSecond Higher "geometric mean over hits and misses, cold and warm, on one thread"
        lookups;
    cold_open_seconds "cold open" Seconds Lower "opening the database with none of it in memory"
        |run| Some(cold(run)?.open_seconds);
    cold_hit_p50 "cold hit p50" Nanoseconds Lower "lookup of a key that is there, nothing in memory"
        |run| number(cold(run)?.hit.p50_ns);
    cold_hit_p99 "cold hit p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(cold(run)?.hit.p99_ns);
    cold_hit_p999 "cold hit p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(cold(run)?.hit.p999_ns);
    cold_hit_per_second "cold hits" PerSecond Higher "lookups of keys that are there, one thread"
        |run| cold(run)?.hit.per_second;
    cold_hit_per_second_threads "cold hits, all threads" PerSecond Higher "the same on all threads together"
        |run| cold(run)?.hits_per_second_threads;
    cold_miss_p50 "cold miss p50" Nanoseconds Lower "lookup of a key that is not there, nothing in memory"
        |run| number(cold(run)?.miss.p50_ns);
    cold_miss_p99 "cold miss p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(cold(run)?.miss.p99_ns);
    cold_miss_p999 "cold miss p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(cold(run)?.miss.p999_ns);
    cold_miss_per_second "cold misses" PerSecond Higher "lookups of keys that are not there, one thread"
        |run| cold(run)?.miss.per_second;
    cold_miss_per_second_threads "cold misses, all threads" PerSecond Higher "the same on all threads together"
        |run| cold(run)?.misses_per_second_threads;
    cold_multi_get_per_second "cold multi_get" PerSecond Higher "keys per second in batches, one thread"
        |run| cold(run)?.multi_get_per_second;
    cold_iterate "cold iteration" BytesPerSecond Higher "all records in order, one thread"
        |run| cold(run)?.iterate_bytes_per_second;
    cold_read_amplification "cold read / value" Factor Lower "bytes of SST files read by cold hits, over bytes of the values found"
        |run| read_amplification(cold(run)?);
    cold_cache_hits "cold block cache hits" Factor Higher "share of the blocks that cold hits found in the block cache"
        |run| in_cache(cold(run)?);
    cold_miss_bytes "cold read per miss" Bytes Lower "bytes of SST files read for a key that is not there, nothing in memory"
        |run| bytes_of_a_miss(cold(run)?);
    warm_open_seconds "warm open" Seconds Lower "opening the database with all of it in the page cache"
        |run| Some(warm(run)?.open_seconds);
    warm_hit_p50 "warm hit p50" Nanoseconds Lower "lookup of a key that is there, everything in memory"
        |run| number(warm(run)?.hit.p50_ns);
    warm_hit_p99 "warm hit p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(warm(run)?.hit.p99_ns);
    warm_hit_p999 "warm hit p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(warm(run)?.hit.p999_ns);
    warm_hit_per_second "warm hits" PerSecond Higher "lookups of keys that are there, one thread"
        |run| warm(run)?.hit.per_second;
    warm_hit_per_second_threads "warm hits, all threads" PerSecond Higher "the same on all threads together"
        |run| warm(run)?.hits_per_second_threads;
    warm_miss_p50 "warm miss p50" Nanoseconds Lower "lookup of a key that is not there, everything in memory"
        |run| number(warm(run)?.miss.p50_ns);
    warm_miss_p99 "warm miss p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(warm(run)?.miss.p99_ns);
    warm_miss_p999 "warm miss p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(warm(run)?.miss.p999_ns);
    warm_miss_per_second "warm misses" PerSecond Higher "lookups of keys that are not there, one thread"
        |run| warm(run)?.miss.per_second;
    warm_miss_per_second_threads "warm misses, all threads" PerSecond Higher "the same on all threads together"
        |run| warm(run)?.misses_per_second_threads;
    warm_multi_get_per_second "warm multi_get" PerSecond Higher "keys per second in batches, one thread"
        |run| warm(run)?.multi_get_per_second;
    warm_iterate "warm iteration" BytesPerSecond Higher "all records in order, one thread"
        |run| warm(run)?.iterate_bytes_per_second;
    warm_read_amplification "warm read / value" Factor Lower "bytes of SST files read by warm hits, from the page cache, over bytes of the values found"
        |run| read_amplification(warm(run)?);
    warm_cache_hits "warm block cache hits" Factor Higher "share of the blocks that warm hits found in the block cache"
        |run| in_cache(warm(run)?);
    node_per_second "node operations" PerSecond Higher "reads and new blocks per second, as a node has them, one thread"
        |run| node(run)?.per_second;
    node_read_p50 "node read p50" Nanoseconds Lower "lookup of a key that is there, between writes"
        |run| number(node(run)?.read.p50_ns);
    node_read_p99 "node read p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(node(run)?.read.p99_ns);
    node_read_p999 "node read p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(node(run)?.read.p999_ns);
    node_write_p50 "node write p50" Nanoseconds Lower "a batch of new blocks with the WAL, not synced, between reads"
        |run| number(node(run)?.write.p50_ns);
    node_write_p99 "node write p99" Nanoseconds Lower "the same, 99 of 100"
        |run| number(node(run)?.write.p99_ns);
    node_write_p999 "node write p99.9" Nanoseconds Lower "the same, 999 of 1,000"
        |run| number(node(run)?.write.p999_ns);
    node_stalls "node stalls" Count Lower "how often RocksDB held a batch of new blocks back"
        |run| node(run).map(|node| node.stalls as f64);
    node_stall_seconds "node stalled" Seconds Lower "how long it did"
        |run| Some(node(run)?.stall_seconds);
}
