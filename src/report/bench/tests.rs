//! Golden texts of every output, from invented runs. `INSTA_UPDATE=always cargo test --lib report::bench` updates them.

use super::*;
use crate::bench::tests::{copy, failed, run};
use crate::report::{OptionRow, Versions};

/// Returns three rounds of three presets. One of them fails.
pub(crate) fn report() -> BenchReport {
    let mut runs = Vec::new();
    for (round, noise) in [(0, 1.0), (1, 1.04), (2, 0.97)] {
        runs.extend([copy(round, 0.5 * noise), run("ingest", round, 0.8 * noise, 300_000.0)]);
        let mut slow = run("memtable write_buffer_size=32M", round, 3.0 * noise * noise, 120_000.0);
        let import = slow.import.as_mut().expect("an import");
        (import.level0_files_before_compaction, import.stalls, import.stall_seconds) = (Some(9), Some(2), Some(0.125));
        import.check_seconds = Some(0.2);
        slow.notes.push("the scan found 3 links to missing blocks".into());
        runs.extend([slow, failed("forest-unordered-write", round, "write db, or \"not\": No space left on device")]);
    }
    let names = ["ingest", "memtable write_buffer_size=32M", "forest-unordered-write"].map(str::to_owned);
    let variant = |name: &str, set: &[&str], options: Vec<OptionRow>| Variant {
        name: name.to_owned(),
        preset: name.split(' ').next().unwrap_or_default().to_owned(),
        summary: "a preset <for tests>".into(),
        loader: "ingest".into(),
        set: set.iter().map(|&set| set.to_owned()).collect(),
        arguments: Vec::new(),
        options,
    };
    let options = runs[1].import.as_ref().expect("an import").options.clone();
    BenchReport {
        schema: BENCH_SCHEMA.into(),
        machine: BenchMachine {
            cpu: Some("A Processor & Sons".into()),
            cores: 4,
            memory_bytes: Some(16 << 30),
            kernel: Some("Linux 6.1.0".into()),
            system: Some("Some Linux 12".into()),
            file_system: Some("ext4".into()),
            device: Some("/dev/nvme0n1p2".into()),
            dir: "/data/bench".into(),
            versions: Versions { bedload: "0.1.0".into(), rocksdb: "11.12.0".into() },
        },
        snapshot: SnapshotInfo {
            path: "/data/snap|shot.car".into(),
            bytes: 256 << 20,
            blocks: Some(250_000),
            payload_bytes: Some(250 << 20),
        },
        setup: Setup {
            command: Some("bedload bench '/data/snap|shot.car' --runs 3".into()),
            runs: 3,
            warmup: 1,
            seed: 1,
            cache: "warm".into(),
            budget_seconds: None,
            lookups: 1000,
            complete: true,
            notes: Vec::new(),
        },
        variants: vec![
            variant("ingest", &[], options),
            variant("memtable write_buffer_size=32M", &["load.cf.write_buffer_size=32M"], Vec::new()),
            variant("forest-unordered-write", &[], Vec::new()),
        ],
        figures: crate::bench::figures::figures(&names, "ingest", 0.05, &runs),
        runs,
    }
}

#[test]
fn golden_outputs() {
    let mut report = report();
    insta::assert_snapshot!("markdown", markdown(&report));
    let text = serde_json::to_string(&report).expect("it can be written");
    let read: BenchReport = serde_json::from_str(&text).expect("it can be read");
    // A number may be read as its neighbour in the last bit.
    assert_eq!(markdown(&read), markdown(&report));
    // One of each kind shows the schema.
    report.runs.truncate(2);
    report.figures.variants.truncate(1);
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&report).expect("it can be written"));
}

#[test]
fn databases_in_the_page_cache_are_reported() {
    let mut cold = report();
    let note = "by their end up to 40 % of the database was in the page cache";
    assert!(markdown(&cold).contains(note));
    for reads in cold.runs.iter_mut().filter_map(|run| run.reads.as_mut()) {
        reads.cold.as_mut().expect("measured").resident_after_hits = Some(0.02);
    }
    assert!(!markdown(&cold).contains(note));
}

#[test]
fn comparison_without_runs_is_shown() {
    let mut report = report();
    report.runs.clear();
    report.figures = crate::bench::figures::figures(&["ingest".to_owned()], "ingest", 0.05, &[]);
    assert!(report.figures.recommendation.is_none());
    assert!(markdown(&report).contains("| ingest |"));
}

#[test]
fn noisy_copies_are_reported_as_noise() {
    let mut report = report();
    report.runs.retain(|run| run.variant != COPY);
    report.runs.extend([(0, 0.129), (1, 0.206), (2, 1.27)].map(|(round, seconds)| copy(round, seconds)));
    crate::bench::analyse_again(&mut report, None, None).expect("analysed");
    let text = markdown(&report);
    assert!(text.contains("cp too noisy"), "{text}");
    assert!(
        text.contains("the copy of the snapshot took 129 ms to 1.27 s: too noisy to compare imports with"),
        "{text}"
    );
    assert!(!markdown(&self::report()).contains("noisy"));
}

#[test]
fn metric_names_are_unique() {
    for (index, metric) in METRICS.iter().enumerate() {
        assert!(METRICS.iter().skip(index + 1).all(|other| other.key != metric.key && other.label != metric.label));
    }
}

#[test]
fn long_lists_are_shortened() {
    assert_eq!(some_of(&["a"]), "`a`");
    assert_eq!(some_of(&["a", "b", "c", "d"]), "`a`, `b`, `c`, `d`");
    assert_eq!(some_of(&["a", "b", "c", "d", "e"]), "`a`, `b`, `c` and 2 others");
}

#[test]
fn uneven_scans_are_reported() {
    let mut report = report();
    let message = "scans began with 10 % (`ingest`) to 90 % (`memtable write_buffer_size=32M`) of the database in the page \
                cache, as the imports left it; --cold empties it for all";
    assert!(!markdown(&report).contains("scans began"), "all began alike");
    for figures in &mut report.figures.variants {
        let share = if figures.variant == "ingest" { 0.1 } else { 0.9 };
        if let Some(found) = figures.metrics.get_mut("scan_resident") {
            found.median = share;
        }
    }
    assert!(markdown(&report).contains(message), "{}", markdown(&report));
}
