//! The report of `bedload verify`.

use crate::report::{KeyFrom, Problems, Recorded, VerifyReport, VerifyVerdict, shown_in_line};
use crate::sort::key::KeyLayout;
use crate::text::size::human;

use crate::cli::render::import::checked_in_log;
use crate::cli::render::numbers::{counted, grouped, throughput, took};
use crate::cli::render::rows::{NAMES, Rows, row};

pub fn text(report: &VerifyReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    rows.add("record", record(report));
    let assumed = match report.key_from {
        KeyFrom::Assumed => " (assumed: nothing says what they are)",
        KeyFrom::Record | KeyFrom::Caller => "",
    };
    rows.add_some("since", report.recorded.as_ref().and_then(since));
    rows.add("keys", format!("{}{assumed}", report.key.name()));
    let files = if report.sample.is_some() { "sizes" } else { "sizes, and the checksums of all RocksDB blocks" };
    rows.add("files", format!("{}, {}: {files}", grouped(report.files), human(report.file_bytes)));
    rows.add("checked", checked(report));
    rows.add_some("digest", report.digest.as_ref().map(ToString::to_string));
    if let Some(against) = &report.against {
        let same = grouped(against.same);
        // A database has each key once.
        let mut text = if report.key == KeyLayout::Any {
            format!("{}: {}, {same} match", against.source, counted(against.blocks, "record", "records"))
        } else {
            let blocks = counted(against.blocks, "block", "blocks");
            format!("{}: {blocks}, {} distinct, {same} match", against.source, grouped(against.distinct))
        };
        if against.extra > 0 {
            text.push_str(&format!(", {} only in the database", counted(against.extra, "record", "records")));
        }
        if against.unreadable > 0 {
            text.push_str(&format!(", {} where the database cannot be read", grouped(against.unreadable)));
        }
        rows.add("source", text);
    }
    if let Some(log) = &report.log {
        if log.unknown_operations > 0 {
            let blocks = counted(log.unknown_operations, "block", "blocks");
            rows.add("skipped", format!("{blocks} with operations of unknown kinds"));
        }
        rows.add("import", checked_in_log(log.import_verified));
        if !log.not_covered.is_empty() {
            rows.add("uncovered", log.not_covered.join("; "));
        }
    }
    rows.add("time", format!("{}, {}", took(report.seconds), throughput(report.payload_bytes, report.seconds)));
    report.notes.iter().for_each(|note| rows.add("note", note));
    add_problems(&mut rows, &report.problems, report.valid);
    rows.add_advice(&report.warnings);
    rows.into_text()
}

/// The last line of the report.
pub fn verdict(report: &VerifyReport) -> String {
    let text = match (report.verdict, &report.not_confirmed) {
        (VerifyVerdict::Confirmed, _) => "confirmed".into(),
        (VerifyVerdict::Damaged, _) => format!("damaged: {}", counted(report.problems.total, "problem", "problems")),
        (VerifyVerdict::Differs, reason) => format!("differs: {}", reason.as_deref().unwrap_or_default()),
        (_, reason) => format!("intact but not confirmed: {}", reason.as_deref().unwrap_or_default()),
    };
    row("verdict", NAMES, &text)
}

fn record(report: &VerifyReport) -> String {
    match &report.recorded {
        Some(recorded) => {
            let part = if recorded.whole {
                ""
            } else {
                "; the database had records before, so count and digest are not compared"
            };
            let records = counted(recorded.records, "record", "records");
            format!("{records} of {}, digest {}{part}", recorded.source, recorded.digest)
        }
        None => "none: without BEDLOAD.json, count and digest are not compared".into(),
    }
}

/// Records written since the import, and their effect on the result.
fn since(recorded: &Recorded) -> Option<String> {
    let more = recorded.more_than_recorded;
    let confirmed = match recorded.confirmed {
        _ if more == 0 => return None,
        true => "no record of the import is missing",
        false => "records of the import may be missing",
    };
    Some(format!("written to since the import: {} more than recorded; {confirmed}", counted(more, "record", "records")))
}

fn checked(report: &VerifyReport) -> String {
    let (records, bytes) = (counted(report.records, "record", "records"), human(report.payload_bytes));
    match report.sample {
        None if report.key == KeyLayout::Number => format!(
            "{records}, {bytes}, each against the one before it and its transactions against its merkle root; \
             index column families against the blocks"
        ),
        None if report.key == KeyLayout::Any => match &report.against {
            Some(_) => format!("{records}, {bytes}, each against the source"),
            None if report.recorded.is_none() => format!("{records}, {bytes}"),
            None => format!("{records}, {bytes}, all together against the digests of the import"),
        },
        Some(_) => format!("{records} picked at random, {bytes}, each against its key"),
        None => format!("{records}, {bytes}, each against its key"),
    }
}

fn add_problems(rows: &mut Rows, problems: &Problems, valid: bool) {
    let kinds: Vec<String> =
        problems.kinds.iter().map(|(kind, count)| format!("{} {}", grouped(*count), kind.name())).collect();
    let text = if valid { "none".into() } else { format!("{} ({})", grouped(problems.total), kinds.join(", ")) };
    rows.add("problems", text);
    for problem in &problems.first {
        rows.add_lines(&format!("  {}: {}\n", problem.kind.name(), shown_in_line(&problem.message)));
        for (name, value) in [("key", &problem.key), ("file", &problem.file)] {
            if let Some(value) = value {
                rows.add_lines(&format!("    {name} {}\n", shown_in_line(value)));
            }
        }
    }
    let unlisted = problems.total - problems.first.len() as u64;
    if unlisted > 0 {
        rows.add_lines(&format!("  and {} more\n", grouped(unlisted)));
    }
}
