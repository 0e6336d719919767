//! Invented runs for tests.

use crate::report::OptionRow;
use crate::report::bench::{
    BenchRun, COPY, CacheInfo, ImportFigures, LookupTimes, ProcessFigures, RUN_SCHEMA, ReadFigures, Reads, RunFailure,
    ScanFigures, ScanKind,
};
use crate::rocks::{Level, ReadCounts};

const MIB: u64 = 1 << 20;

pub(crate) fn copy(round: u32, seconds: f64) -> BenchRun {
    BenchRun { import: None, scan: None, reads: None, ..run(COPY, round, seconds, 1.0) }
}

pub(crate) fn failed(variant: &str, round: u32, error: &str) -> BenchRun {
    let failure = RunFailure {
        action: "import".into(),
        exit: Some(1),
        signal: None,
        error: error.into(),
        hint: Some("try another way".into()),
    };
    let run = run(variant, round, 1.0, 1.0);
    BenchRun { failure: Some(failure), process: None, import: None, scan: None, reads: None, ..run }
}

/// Returns a run with an import of `seconds` and a database with `lookups` per second.
pub(crate) fn run(variant: &str, round: u32, seconds: f64, lookups: f64) -> BenchRun {
    let latency = |slower: f64| LookupTimes {
        count: 1000,
        per_second: Some(lookups / slower),
        p50_ns: Some((8e8 * slower / lookups) as u64),
        p99_ns: Some((3e9 * slower / lookups) as u64),
        p999_ns: Some((9e9 * slower / lookups) as u64),
        max_ns: Some((1e10 * slower / lookups) as u64),
    };
    let counts = |slower: f64| ReadCounts {
        file_reads: (100.0 * slower) as u64,
        file_bytes: (1_600_000.0 * slower) as u64,
        value_bytes: 1_000_000,
        cache_hits: 1000 - (100.0 * slower) as u64,
        cache_misses: (100.0 * slower) as u64,
        filtered: 0,
    };
    let reads = |slower: f64| ReadFigures {
        resident_before: Some(if slower > 1.0 { 0.0 } else { 1.0 }),
        resident_after_hits: Some(if slower > 1.0 { 0.4 } else { 1.0 }),
        open_seconds: 0.002 * slower,
        block_cache_bytes: 32 * MIB,
        hit: latency(slower),
        hit_counts: Some(counts(slower)),
        missing_keys: 0,
        miss: latency(slower / 4.0),
        miss_counts: Some(ReadCounts { value_bytes: 0, filtered: 1000, ..counts(slower / 4.0) }),
        threads: 2,
        hits_per_second_threads: Some(lookups * 1.8 / slower),
        misses_per_second_threads: Some(lookups * 7.0 / slower),
        multi_get_keys: 100,
        multi_get_per_second: Some(lookups * 1.5 / slower),
        iterate_bytes_per_second: Some(2e9 / slower),
        iterate_records_per_second: Some(2e6 / slower),
        iterate_complete: true,
        peak_rss_bytes: Some(60 * MIB),
        cpu_seconds: Some(0.4),
    };
    BenchRun {
        schema: RUN_SCHEMA.into(),
        variant: variant.into(),
        round,
        position: 0,
        warmup: false,
        started_unix_seconds: 1_790_000_000 + u64::from(round),
        cache: CacheInfo { state: "warm".into(), how: "the snapshot was read before".into() },
        failure: None,
        process: Some(ProcessFigures {
            seconds,
            user_seconds: seconds,
            system_seconds: seconds / 4.0,
            peak_rss_bytes: Some(400 * MIB),
            peak_anonymous_bytes: Some(100 * MIB),
            read_bytes: Some(3 * MIB),
            written_bytes: Some(300 * MIB),
            disk_read_bytes: Some(0),
            disk_written_bytes: Some(300 * MIB),
            open_files: Some(40),
        }),
        import: Some(ImportFigures {
            import_seconds: seconds * 0.75,
            compact_seconds: seconds * 0.25,
            check_seconds: None,
            phases: [("plan", 0.0), ("read", 0.5), ("build", 0.25), ("compact", 0.25)]
                .map(|(name, share)| (name.to_owned(), share * seconds))
                .to_vec(),
            source_bytes: 256 * MIB,
            payload_bytes: 250 * MIB,
            blocks: 250_000,
            digest: "00".into(),
            loader: "ingest".into(),
            rocksdb_written_bytes: Some(260 * MIB),
            sst_files: 17,
            levels: [(0, 1), (6, 16)].map(|(level, files)| Level { level, files, bytes: files * 15 * MIB }).to_vec(),
            level0_files_before_compaction: None,
            stalls: None,
            stall_seconds: None,
            disk_bytes: Some(262 * MIB),
            sample: None,
            options: vec![OptionRow {
                option: "table.block_size".into(),
                value: "16384".into(),
                default: "4096".into(),
                from: Some("ingest.toml:33".into()),
            }],
            rocksdb_version: "11.12.0".into(),
        }),
        scan: Some(ScanFigures {
            kind: ScanKind::Links,
            seconds: 0.25,
            records: 250_000,
            bytes: 250 * MIB,
            missing: Some(0),
            resident_before: Some(0.5),
        }),
        reads: Some(Reads { cold: Some(reads(8.0)), warm: Some(reads(1.0)) }),
        notes: Vec::new(),
    }
}
