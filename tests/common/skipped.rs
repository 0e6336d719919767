//! The notice of a test that cannot run. The library's unit tests use this file as well.

use std::io::Write;

/// Prints that this test, or a part of it, is skipped. `scripts/run-tests` then counts the test as ignored.
pub fn skipped(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    // The harness captures what print macros write.
    let _ = writeln!(std::io::stdout(), "SKIPPED: {}: {reason}", thread.name().unwrap_or("unknown"));
}
