//! Rows of all commands that make a database.

use std::path::Path;

use crate::report::ImportReport;
use crate::text::escape::shell_word;

use super::rows::Rows;
use crate::cli::render::numbers::{phases, throughput, took};

/// Adds that the database is complete, and the commands that check and read it.
pub fn add_next_steps(rows: &mut Rows, report: &ImportReport) {
    let db = shell_word(Path::new(&report.db));
    let root = report.source.roots.iter().find(|root| !report.first_missing_roots.contains(root));
    let read = match (&report.log, &report.head, root) {
        (Some(_), ..) => format!("bedload get {db} head"),
        (None, Some(head), _) if head.chain == "filecoin" => format!("bedload get {db} --epoch {}", head.height),
        (None, _, Some(root)) => format!("bedload get {db} {root}"),
        (None, _, None) => format!("bedload stat {db}"),
    };
    rows.add("complete", "the database can be used");
    rows.add("check it", format!("bedload verify {db}"));
    // The root may be in another part.
    if report.part.is_none() && report.shard.is_none() {
        rows.add("read it", read);
    }
}

/// The duration; the speed only if no earlier run did a part of the work.
pub fn time(report: &ImportReport, bytes: u64) -> String {
    let total = report.seconds.get("total").copied().unwrap_or_default();
    let mut parts = vec![took(total)];
    match report.resumed {
        true => parts.push("this run alone".into()),
        false if bytes > 0 => parts.push(throughput(bytes, total)),
        false => {}
    }
    let phases = phases(&report.seconds);
    if phases.is_empty() { parts.join(", ") } else { format!("{} ({phases})", parts.join(", ")) }
}
