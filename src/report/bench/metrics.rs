//! The metrics of a run: one row each. Every table, file and chart is made from these rows.

use std::collections::BTreeMap;

use super::run::{BenchRun, LookupTimes, ReadFigures};
use crate::report::statistics::{self, Ratio};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Nanoseconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Count,
    /// A ratio.
    Factor,
}

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

#[derive(Clone, Copy)]
pub struct Metric {
    /// Its name in files.
    pub key: &'static str,
    /// Its name in tables.
    pub label: &'static str,
    pub unit: Unit,
    pub better: Better,
    get: fn(&BenchRun) -> Option<f64>,
}

impl Metric {
    /// Returns its value in a run; `None` if it was not measured.
    pub fn of(&self, run: &BenchRun) -> Option<f64> {
        (self.get)(run).filter(|value| value.is_finite())
    }

    /// Returns its values in the runs of a variant that count, each with its round.
    pub fn values(&self, runs: &[BenchRun], variant: &str) -> Vec<(u32, f64)> {
        let counted = runs.iter().filter(|run| run.variant == variant && !run.warmup && run.failure.is_none());
        counted.filter_map(|run| Some((run.round, self.of(run)?))).collect()
    }

    /// Returns the ratio of one variant to another, from the rounds that have both.
    pub fn ratio(&self, runs: &[BenchRun], variant: &str, other: &str) -> Option<Ratio> {
        let others: BTreeMap<u32, f64> = self.values(runs, other).into_iter().collect();
        let own = self.values(runs, variant).into_iter();
        let pairs: Vec<(f64, f64)> = own.filter_map(|(round, value)| Some((value, *others.get(&round)?))).collect();
        statistics::ratio(&pairs)
    }
}

pub fn metric(key: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.key == key)
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Returns the bytes read from files for each byte of the values that the hits found.
fn read_amplification(reads: &ReadFigures) -> Option<f64> {
    let counts = reads.hit_counts.filter(|counts| counts.value_bytes > 0)?;
    Some(counts.file_bytes as f64 / counts.value_bytes as f64)
}

/// Returns the share of RocksDB blocks that the hits found in the block cache.
fn cache_hits(reads: &ReadFigures) -> Option<f64> {
    let counts = reads.hit_counts?;
    let all = counts.cache_hits + counts.cache_misses;
    (all > 0).then(|| counts.cache_hits as f64 / all as f64)
}

/// Returns the bytes read from files for each missing key.
fn miss_bytes(reads: &ReadFigures) -> Option<f64> {
    (reads.miss.count > 0).then_some(reads.miss_counts?.file_bytes as f64 / reads.miss.count as f64)
}

/// Returns the geometric mean of the lookups per second: hits and misses, cold and warm.
fn lookups(run: &BenchRun) -> Option<f64> {
    let reads = run.reads.as_ref()?;
    let logs: Vec<f64> = [&reads.cold, &reads.warm]
        .into_iter()
        .flatten()
        .flat_map(|reads| [&reads.hit, &reads.miss])
        .filter_map(|times: &LookupTimes| times.per_second.filter(|rate| *rate > 0.0).map(f64::ln))
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Builds the table. The second list has metrics of reads; each becomes a `cold_` and a `warm_` one.
macro_rules! metrics {
    (
        run { $($key:ident $label:literal $unit:ident $better:ident $get:expr;)+ }
        reads { $($read_key:ident $read_label:literal $read_unit:ident $read_better:ident
            |$reads:ident| $read_get:expr;)+ }
    ) => {
        /// All metrics, the most important first.
        pub const METRICS: &[Metric] = &[
            $(Metric { key: stringify!($key), label: $label, unit: Unit::$unit, better: Better::$better, get: $get },)+
            $(Metric {
                key: concat!("cold_", stringify!($read_key)),
                label: concat!("cold ", $read_label),
                unit: Unit::$read_unit,
                better: Better::$read_better,
                get: |run| {
                    let $reads = run.reads.as_ref()?.cold.as_ref()?;
                    $read_get
                },
            },)+
            $(Metric {
                key: concat!("warm_", stringify!($read_key)),
                label: concat!("warm ", $read_label),
                unit: Unit::$read_unit,
                better: Better::$read_better,
                get: |run| {
                    let $reads = run.reads.as_ref()?.warm.as_ref()?;
                    $read_get
                },
            },)+
        ];
    };
}

metrics! {
    run {
        // The import's wall time and the scan that follows it.
        total_seconds "total" Seconds Lower
            |run| Some(run.wall()? + run.scan.as_ref()?.seconds);
        // From the start of the import's process to its end; for the copy, cp and sync.
        wall_seconds "wall" Seconds Lower
            BenchRun::wall;
        // Reading, sorting, building, writing, ingesting and publishing.
        import_seconds "import" Seconds Lower
            |run| Some(run.import.as_ref()?.import_seconds);
        // The final compaction, and opening once as the node will.
        compact_seconds "compact" Seconds Lower
            |run| Some(run.import.as_ref()?.compact_seconds);
        // Counting and digesting the finished database; only with the memtable loader.
        check_seconds "check" Seconds Lower
            |run| run.import.as_ref()?.check_seconds;
        // Following all links from the roots; all blocks by number for a block log.
        scan_seconds "scan" Seconds Lower
            |run| Some(run.scan.as_ref()?.seconds);
        // Share of the database in the page cache at the start of the scan.
        scan_resident "cached before scan" Factor Higher
            |run| run.scan.as_ref()?.resident_before;
        // Processor time of the import, user and system.
        cpu_seconds "CPU" Seconds Lower
            |run| run.process.as_ref().map(|process| process.user_seconds + process.system_seconds);
        // Peak of resident memory, mapped files included.
        peak_rss_bytes "peak memory" Bytes Lower
            |run| number(run.process.as_ref()?.peak_rss_bytes);
        // Peak of anonymous memory, from samples; the kernel cannot reclaim it.
        peak_anonymous_bytes "own memory" Bytes Lower
            |run| number(run.process.as_ref()?.peak_anonymous_bytes);
        // Disk space of the database.
        disk_bytes "size" Bytes Lower
            |run| number(run.import.as_ref()?.disk_bytes);
        // Estimated size of the copy of the whole database, from the sample.
        whole_bytes "size of all" Bytes Lower
            |run| number(Some(run.import.as_ref()?.sample.as_ref()?.whole_bytes));
        // Bytes of SST files and WAL written, over bytes of all blocks.
        write_amplification "RocksDB wrote / payload" Factor Lower
            |run| {
                let import = run.import.as_ref()?;
                Some(import.rocksdb_written_bytes? as f64 / import.payload_bytes as f64)
            };
        // Bytes of SST files and WAL written.
        rocksdb_written_bytes "RocksDB wrote" Bytes Lower
            |run| number(run.import.as_ref()?.rocksdb_written_bytes);
        // Bytes the process read through system calls, without mapped files.
        read_bytes "read" Bytes Lower
            |run| number(run.process.as_ref()?.read_bytes);
        // Bytes the process wrote through system calls.
        written_bytes "written" Bytes Lower
            |run| number(run.process.as_ref()?.written_bytes);
        // Bytes the disk read for the process.
        disk_read_bytes "read from disk" Bytes Lower
            |run| number(run.process.as_ref()?.disk_read_bytes);
        // Bytes the disk wrote for the process.
        disk_written_bytes "written to disk" Bytes Lower
            |run| number(run.process.as_ref()?.disk_written_bytes);
        // How often RocksDB delayed or stopped writers.
        stalls "stalls" Count Lower
            |run| number(run.import.as_ref()?.stalls);
        // Duration of the stalls.
        stall_seconds "stalled" Seconds Lower
            |run| run.import.as_ref()?.stall_seconds;
        // In the finished database.
        sst_files "SST files" Count Lower
            |run| number(run.import.as_ref().map(|import| import.sst_files));
        // Files at level 0 before the final compaction.
        level0_files "L0 before compaction" Count Lower
            |run| number(run.import.as_ref()?.level0_files_before_compaction);
        // Highest number of open files, from samples.
        open_files "open files" Count Lower
            |run| number(run.process.as_ref()?.open_files);
        // Geometric mean over hits and misses, cold and warm, on one thread.
        lookups_per_second "lookups" PerSecond Higher
            lookups;
    }
    reads {
        // Opening the database.
        open_seconds "open" Seconds Lower
            |reads| Some(reads.open_seconds);
        // Half of the lookups of existing keys were faster.
        hit_p50 "hit p50" Nanoseconds Lower
            |reads| number(reads.hit.p50_ns);
        // 99 of 100 lookups of existing keys were faster.
        hit_p99 "hit p99" Nanoseconds Lower
            |reads| number(reads.hit.p99_ns);
        // 999 of 1,000 lookups of existing keys were faster.
        hit_p999 "hit p99.9" Nanoseconds Lower
            |reads| number(reads.hit.p999_ns);
        // Lookups of existing keys, one thread.
        hit_per_second "hits" PerSecond Higher
            |reads| reads.hit.per_second;
        // Lookups of existing keys, all threads together.
        hit_per_second_threads "hits, all threads" PerSecond Higher
            |reads| reads.hits_per_second_threads;
        // Half of the lookups of missing keys were faster.
        miss_p50 "miss p50" Nanoseconds Lower
            |reads| number(reads.miss.p50_ns);
        // 99 of 100 lookups of missing keys were faster.
        miss_p99 "miss p99" Nanoseconds Lower
            |reads| number(reads.miss.p99_ns);
        // 999 of 1,000 lookups of missing keys were faster.
        miss_p999 "miss p99.9" Nanoseconds Lower
            |reads| number(reads.miss.p999_ns);
        // Lookups of missing keys, one thread.
        miss_per_second "misses" PerSecond Higher
            |reads| reads.miss.per_second;
        // Lookups of missing keys, all threads together.
        miss_per_second_threads "misses, all threads" PerSecond Higher
            |reads| reads.misses_per_second_threads;
        // Keys per second in batches, one thread.
        multi_get_per_second "multi_get" PerSecond Higher
            |reads| reads.multi_get_per_second;
        // All records in order, one thread.
        iterate "iteration" BytesPerSecond Higher
            |reads| reads.iterate_bytes_per_second;
        // Bytes of SST files read by hits, over bytes of the values found.
        read_amplification "read / value" Factor Lower
            |reads| read_amplification(reads);
        // Share of RocksDB blocks that hits found in the block cache.
        cache_hits "block cache hits" Factor Higher
            |reads| cache_hits(reads);
        // Bytes of SST files read for a missing key.
        miss_bytes "read per miss" Bytes Lower
            |reads| miss_bytes(reads);
    }
}
