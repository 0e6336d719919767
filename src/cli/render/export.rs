//! The report of `bedload export`.

use crate::report::{ExportReport, ExportedLog};
use crate::text::size::human;

use crate::cli::render::numbers::{counted, grouped, throughput, took};
use crate::cli::render::rows::{NAMES, Rows};
use crate::cli::render::walk::{malformed, missing};

pub fn text(report: &ExportReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    let file = match (report.committed, report.file.as_str()) {
        (_, "-") => "standard output".into(),
        (true, file) => file.to_owned(),
        (false, file) => format!("{file} was not written: blocks are missing"),
    };
    rows.add("file", file);
    let is_packed = report.bytes != report.car_bytes;
    let before = if is_packed { format!(" ({} before compression)", human(report.car_bytes)) } else { String::new() };
    rows.add("format", format!("{}, {}{before}", report.format, human(report.bytes)));
    match &report.log {
        Some(log) => add_log(&mut rows, log, is_packed),
        None => rows.add("roots", if report.roots.is_empty() { "none".into() } else { report.roots.join(", ") }),
    }
    let whole = if report.all_records == Some(true) { ", all imported blocks" } else { "" };
    rows.add("blocks", format!("{}, {}{whole}", grouped(report.blocks), human(report.payload_bytes)));
    rows.add_some("left out", report.left_out.filter(|&count| count > 0).map(left_out));
    rows.add("digest", report.digest.to_string());
    if report.missing > 0 {
        rows.add("missing", missing(report.missing, report.missing_allowed));
    }
    if report.malformed > 0 {
        rows.add("malformed", malformed(report.malformed));
    }
    rows.add("time", format!("{}, {}", took(report.seconds), throughput(report.payload_bytes, report.seconds)));
    for block in &report.first_missing {
        let from = block.parent.as_ref().map(|parent| format!(", named by {parent}")).unwrap_or_default();
        let epoch = block.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
        rows.add_lines(&format!("  missing: {}{from}{epoch}\n", block.cid));
    }
    rows.into_text()
}

/// The records that no root leads to.
fn left_out(count: u64) -> String {
    let records = counted(count, "record", "records");
    format!("{records} not reachable from these roots; --root adds roots, --all exports every record")
}

fn add_log(rows: &mut Rows, log: &ExportedLog, packed: bool) {
    let version = if log.version > 0 { format!(" version {}", log.version) } else { String::new() };
    let same = if log.identical {
        format!("{}byte for byte the log that was imported", if packed { "unpacked, " } else { "" })
    } else {
        format!("the same blocks as in the log that was imported; {}", log.differs.join("; "))
    };
    let [first, last] = [log.first.number, log.last.number].map(|number| grouped(number.into()));
    rows.add("chain", format!("{}{version}, blocks {first} to {last}", log.family));
    rows.add("head", format!("{last} {}", log.last.id));
    rows.add("original", same);
}
