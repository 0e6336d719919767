//! Named points of an import at which tests make the program die.
//!
//! `BEDLOAD_ABORT_AT=NAME` or `BEDLOAD_ABORT_AT=NAME:N` (the N-th time, from 1) ends the process as a power cut would:
//! at once, without a word and without cleaning up. `BEDLOAD_STOP_AT`, with the same values, stops it there by SIGSTOP
//! instead, so that a test can change a file before it continues the process. Only tests set them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens at a point, the variable that names it, and how often it has been reached.
struct Door {
    variable: &'static str,
    wanted: OnceLock<Option<(String, u64)>>,
    seen: AtomicU64,
}

impl Door {
    const fn new(variable: &'static str) -> Self {
        Self { variable, wanted: OnceLock::new(), seen: AtomicU64::new(0) }
    }

    fn opens_at(&self, name: &str) -> bool {
        let wanted = self.wanted.get_or_init(|| {
            let value = std::env::var(self.variable).ok()?;
            Some(match value.rsplit_once(':') {
                Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
                None => (value, 1),
            })
        });
        wanted
            .as_ref()
            .is_some_and(|(point, count)| point == name && self.seen.fetch_add(1, Ordering::Relaxed) + 1 == *count)
    }
}

/// Dies or stops here if the tests want it.
pub(crate) fn reach(name: &str) {
    static ABORT: Door = Door::new("BEDLOAD_ABORT_AT");
    static STOP: Door = Door::new("BEDLOAD_STOP_AT");
    if ABORT.opens_at(name) {
        // SAFETY: ends this process; nothing can be left in a bad state that a power cut would not leave.
        unsafe { libc::_exit(137) };
    }
    if STOP.opens_at(name) {
        // SAFETY: a plain system call; the process goes on when SIGCONT comes.
        unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
    }
}
