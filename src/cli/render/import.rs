//! The report of `bedload import`.

use crate::progress::Speed;
use crate::report::{ImportReport, LogReport, LogVerified, MemtableReport};
use crate::size::human;
use serde_json::Value;

use crate::cli::render::numbers::{phases, sparkline, throughput};
use crate::cli::render::rows::{NAMES, Rows};

/// The most bars of the sparkline of the speed over the chain.
const SPARKLINE: usize = 60;

/// The report for people.
pub fn text(report: &ImportReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    let blocks = &report.blocks;
    rows.add("blocks", format!("{} read, {} written, {} duplicate", blocks.read, blocks.written, blocks.duplicate));
    rows.add("payload", human(report.payload_bytes));
    rows.add("digest", report.digest.to_string());
    rows.add(
        "checked",
        match &report.log {
            _ if !report.verified => "nothing (--verify none)",
            None => "every block against its hash",
            Some(log) => checked_in_log(log.verified),
        },
    );
    let total = report.seconds.get("total").and_then(Value::as_f64).unwrap_or_default();
    rows.add(
        "time",
        format!("{total:.1} s, {} ({})", throughput(report.payload_bytes, total), phases(&report.seconds)),
    );
    if let Some(log) = &report.log {
        add_log(&mut rows, log);
    }
    let levels: Vec<String> = report
        .levels
        .iter()
        .map(|level| format!("L{}: {} files, {}", level.level, level.files, human(level.bytes)))
        .collect();
    let uncompacted = if report.compacted { "" } else { "; not compacted (--no-compact)" };
    rows.add("levels", format!("{}{uncompacted}", levels.join("; ")));
    rows.add_some("RocksDB", report.memtable.as_ref().map(memtable));
    rows.add("cost", cost(report));
    rows.into_text()
}

/// What an import checked in the blocks of a log.
pub fn checked_in_log(verified: LogVerified) -> &'static str {
    match verified {
        LogVerified::Hash => "every block against the one behind it, and its transactions against its merkle root",
        LogVerified::Links => "every block against the one behind it, and no transactions (--verify links)",
        LogVerified::None => "nothing (--verify none)",
    }
}

fn memtable(memtable: &MemtableReport) -> String {
    format!(
        "{} batches, {} flushes, {} stalls ({:.1} s), {} files at level 0 at the end of writing, {} compacted",
        memtable.batches,
        memtable.flushes,
        memtable.stalls,
        memtable.stall_seconds,
        memtable.level0_files_before_compaction,
        human(memtable.compaction_bytes_read)
    )
}

fn cost(report: &ImportReport) -> String {
    let mut cost = Vec::new();
    if let Some(cpu) = report.cpu_seconds {
        let gib = report.payload_bytes as f64 / f64::from(1 << 30);
        let share = if gib > 0.0 { format!(" ({:.2} per GiB)", cpu / gib) } else { String::new() };
        cost.push(format!("{cpu:.1} CPU-seconds{share}"));
    }
    cost.extend(report.peak_rss_bytes.map(|peak| format!("{} of memory at most", human(peak))));
    cost.extend(report.bytes_written.map(|written| format!("{} written", human(written))));
    cost.join(", ")
}

/// The rows of a block log.
fn add_log(rows: &mut Rows, log: &LogReport) {
    rows.add("chain", format!("{}, blocks {} to {}", log.family, log.first.number, log.last.number));
    rows.add("head", format!("{} {}", log.last.number, log.last.id));
    if !log.not_covered.is_empty() {
        rows.add("uncovered", log.not_covered.join("; "));
    }
    let packings = &log.packings;
    if packings.zstd + packings.zstd_dictionary > 0 {
        let (raw, zstd, dictionary) = (packings.raw, packings.zstd, packings.zstd_dictionary);
        rows.add("packed", format!("{raw} raw, {zstd} zstd, {dictionary} with a dictionary"));
    }
    for index in &log.indexes {
        let state = index.reason.as_ref().map_or("used".to_owned(), |reason| format!("ignored: {reason}"));
        rows.add("index", format!("{} ({}) {state}", index.path, index.kind));
    }
    if log.trimmed_bytes > 0 {
        rows.add("trimmed", format!("{} behind the last whole block (--tail trim)", human(log.trimmed_bytes)));
    }
    if log.unknown_operations > 0 {
        rows.add("skipped", format!("{} operations of unknown kinds", log.unknown_operations));
    }
    for family in log.families.iter().skip(1) {
        rows.add("index", format!("{}: {} records, digest {}", family.name, family.records, family.digest));
    }
    if let (Some(first), Some(last)) = (log.speed.first(), log.speed.last()) {
        let rate = |speed: &Speed| speed.blocks_per_second as u64;
        let rates: Vec<f64> = log.speed.iter().map(|speed| speed.blocks_per_second).collect();
        let line = sparkline(&rates, SPARKLINE);
        rows.add("speed", format!("{line} {} blocks/s at first, {} at last", rate(first), rate(last)));
    }
}
