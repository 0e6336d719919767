//! Generated logs, taken apart by a few lines of their own and checked by the functions that check real ones.

mod blocks;
mod files;

use super::{LogEntry, LogSpec, LogSummary, write};

fn generate(spec: &LogSpec) -> (Vec<u8>, Vec<LogEntry>, LogSummary) {
    let (mut log, mut entries) = (Vec::new(), Vec::new());
    let summary = write(spec, &mut log, |entry| {
        entries.push(*entry);
        Ok(())
    });
    (log, entries, summary.expect("write to memory"))
}
