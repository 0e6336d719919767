//! The line of an event.

use crate::progress::{Event, Phase};
use crate::text::size::{counted, human};

use super::status::{counted_units, has_counts};
use crate::cli::render::numbers::{SHORT, throughput, took};

/// The column after the name of a phase.
pub const INDENT: usize = 9;

/// The line of an event; `None` if it has none.
pub fn text(event: &Event, are_records: bool) -> Option<String> {
    Some(match event {
        Event::Planned { plan } => format!("plan     {}", plan.describe()),
        Event::Resumed { source_bytes: 0, built_files: 0 } => "resume   starts over: no checkpoint yet".into(),
        Event::Resumed { source_bytes, built_files } => {
            let files = counted(*built_files, "SST file", "SST files");
            format!("resume   {} of the source and {files} done already", human(*source_bytes))
        }
        Event::PhaseDone { phase, seconds, bytes, blocks, earlier_bytes } => {
            phase_done(*phase, *seconds, (*bytes, *earlier_bytes), (*blocks, are_records))?
        }
        Event::Spills { held_bytes } => {
            let held = human(*held_bytes);
            format!("spill    blocks exceed {held} of memory: the import now spills to files")
        }
        Event::Warning { message } => format!("warning: {message}"),
        _ => return None,
    })
}

/// The line of a phase that is done; `None` if there is nothing to report.
fn phase_done(
    phase: Phase,
    seconds: f64,
    (bytes, earlier): (u64, u64),
    (count, are_records): (u64, bool),
) -> Option<String> {
    let line = format!("{:<8} {:>8}", phase.name(), took(seconds));
    match phase {
        Phase::Plan => None,
        // Reading a log begins after its files were probed; a phase without bytes and blocks has nothing to report.
        Phase::Read | Phase::Build | Phase::Check if (bytes, count) == (0, 0) => None,
        Phase::Ingest | Phase::Compact | Phase::Commit if seconds < SHORT => None,
        _ if has_counts(phase) => {
            let (count, rate) = (counted_units(count, are_records), throughput(bytes.saturating_sub(earlier), seconds));
            Some(format!("{line}  {count}, {}, {rate}", human(bytes)))
        }
        _ => Some(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_phase_has_no_line() {
        assert_eq!(phase_done(Phase::Read, 0.0, (0, 0), (0, false)), None);
        assert_eq!(phase_done(Phase::Build, 0.1, (0, 0), (0, false)), None);
        let line = "read        2.0 s  1,234 blocks, 8.0 MiB, 4.0 MiB/s";
        assert_eq!(phase_done(Phase::Read, 2.0, (8 << 20, 0), (1234, false)).as_deref(), Some(line));
    }

    #[test]
    fn speed_is_that_of_this_run() {
        let line = "read        2.0 s  1,234 blocks, 8.0 MiB, 1.0 MiB/s";
        assert_eq!(phase_done(Phase::Read, 2.0, (8 << 20, 6 << 20), (1234, false)).as_deref(), Some(line));
    }

    #[test]
    fn short_phase_is_omitted_or_in_ms() {
        let line = "read        20 ms  1 record, 1.0 KiB, 50.0 KiB/s";
        assert_eq!(phase_done(Phase::Read, 0.02, (1 << 10, 0), (1, true)).as_deref(), Some(line));
        assert_eq!(phase_done(Phase::Ingest, 0.04, (0, 0), (0, false)), None);
        assert_eq!(phase_done(Phase::Ingest, 0.06, (0, 0), (0, false)).as_deref(), Some("ingest      0.1 s"));
    }
}
