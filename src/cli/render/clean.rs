//! The report of `bedload clean`.

use crate::report::{CleanReport, shown_in_line};
use crate::text::size::{counted, human};

pub fn text(report: &CleanReport) -> String {
    let mut text = String::new();
    for found in &report.found {
        let state = match &found.kept {
            Some(reason) => format!("kept: {}", shown_in_line(reason)),
            None if found.removed => "removed".to_owned(),
            None if found.complete => "to be removed; it is complete: the same import only renames it".to_owned(),
            None => "to be removed".to_owned(),
        };
        text.push_str(&format!("{}  {}\n  {state}\n", shown_in_line(&found.path), human(found.bytes)));
        for work in &found.work {
            text.push_str(&format!("  with {}\n", shown_in_line(work)));
        }
    }
    let count = report.found.len() as u64;
    match (count, report.dry_run) {
        (0, _) => text.push_str(&format!("no leftovers of unfinished imports in {}\n", shown_in_line(&report.dir))),
        (_, true) => {
            let bytes = report.found.iter().filter(|found| found.kept.is_none()).map(|found| found.bytes).sum();
            let imports = counted(count, "unfinished import", "unfinished imports");
            text.push_str(&format!("{imports}, {} to remove\n", human(bytes)));
        }
        (_, false) => text.push_str(&format!("{} removed\n", human(report.removed_bytes))),
    }
    text
}
