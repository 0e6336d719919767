//! The last lines of a command that has made a database.

use std::path::Path;

use crate::escape::shell_word;
use crate::report::ImportReport;

/// That the database is complete, and the commands that check and read it, each on a line of its own.
pub fn next_steps(report: &ImportReport) -> [String; 3] {
    let db = shell_word(Path::new(&report.db));
    let root = report.source.roots.iter().find(|root| !report.first_missing_roots.contains(root));
    let read = match (&report.log, &report.head, root) {
        (Some(_), ..) => format!("bedload get {db} head"),
        (None, Some(head), _) if head.chain == "filecoin" => format!("bedload get {db} --epoch {}", head.height),
        (None, _, Some(root)) => format!("bedload get {db} {root}"),
        (None, _, None) => format!("bedload stat {db}"),
    };
    ["the database can be used; check and read it:".into(), format!("bedload verify {db}"), read]
}
