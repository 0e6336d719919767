//! The line of an event.

use crate::progress::{Event, Phase};
use crate::report::shown_in_line;
use crate::size::human;

use crate::cli::render::numbers::{grouped, throughput};
use crate::cli::render::screen;

/// The column behind the name of a phase.
const INDENT: usize = 9;

/// The line of an event, broken where the terminal is narrower; `None` where it has none. Text from outside is escaped.
pub fn line(event: &Event) -> Option<String> {
    let line = match event {
        Event::Planned { plan } => format!("plan     {plan}"),
        Event::Resumed { source_bytes, built_files } => {
            format!("resume   {} of the source and {built_files} SST files are done already", human(*source_bytes))
        }
        Event::PhaseDone { phase, seconds, bytes, blocks } => phase_done(*phase, *seconds, *bytes, *blocks)?,
        Event::Warning { message } => format!("warning: {message}"),
        _ => return None,
    };
    Some(screen::fit(&shown_in_line(&line), INDENT, screen::stderr_columns()))
}

/// The line of a phase that is done; `None` where there is nothing to report.
fn phase_done(phase: Phase, seconds: f64, bytes: u64, blocks: u64) -> Option<String> {
    match phase {
        Phase::Plan => None,
        // Reading a log begins after its files were probed; a phase without bytes and blocks has nothing to report.
        Phase::Read | Phase::Build if (bytes, blocks) == (0, 0) => None,
        Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export => Some(format!(
            "{:<8} {seconds:>6.1} s  {} blocks, {}, {}",
            phase.name(),
            grouped(blocks),
            human(bytes),
            throughput(bytes, seconds)
        )),
        Phase::Ingest | Phase::Compact | Phase::Commit => Some(format!("{:<8} {seconds:>6.1} s", phase.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_without_bytes_and_blocks_leaves_no_line() {
        assert_eq!(phase_done(Phase::Read, 0.0, 0, 0), None);
        assert_eq!(phase_done(Phase::Build, 0.1, 0, 0), None);
        let line = "read        2.0 s  1,234 blocks, 8.0 MiB, 4.0 MiB/s";
        assert_eq!(phase_done(Phase::Read, 2.0, 8 << 20, 1234).as_deref(), Some(line));
    }
}
