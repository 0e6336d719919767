//! Named points of an import at which tests kill the program, with the feature `failpoints`, which releases do not
//! have.
//!
//! `BEDLOAD_ABORT_AT=NAME` or `BEDLOAD_ABORT_AT=NAME:N` (the N-th time, from 1) ends the process at once, like
//! SIGKILL, without a message or cleaning up. `BEDLOAD_STOP_AT` stops it by SIGSTOP. `BEDLOAD_DURABLE_BYTES` is the
//! distance of durable points. `BEDLOAD_NETWORK_PATIENCE_MS` and `BEDLOAD_NETWORK_STALL_MS` are network timeouts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A variable that names a point, and the number of times that the point was reached.
struct Failpoint {
    variable: &'static str,
    wanted: OnceLock<Option<(String, u64)>>,
    seen: AtomicU64,
}

impl Failpoint {
    const fn new(variable: &'static str) -> Self {
        Self { variable, wanted: OnceLock::new(), seen: AtomicU64::new(0) }
    }

    fn is_hit(&self, name: &str) -> bool {
        let wanted = self.wanted.get_or_init(|| {
            let value = variable(self.variable)?;
            Some(match value.rsplit_once(':') {
                Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
                None => (value, 1),
            })
        });
        let wanted = wanted.as_ref().filter(|(point, _)| point == name);
        wanted.is_some_and(|(_, count)| self.seen.fetch_add(1, Ordering::Relaxed) + 1 == *count)
    }
}

/// The value of a variable; `None` without the feature.
#[inline]
fn variable(name: &str) -> Option<String> {
    if cfg!(feature = "failpoints") { std::env::var(name).ok() } else { None }
}

/// Ends or stops the process if a test asks for it at this point.
#[inline]
pub(crate) fn reach(name: &str) {
    static ABORT: Failpoint = Failpoint::new("BEDLOAD_ABORT_AT");
    static STOP: Failpoint = Failpoint::new("BEDLOAD_STOP_AT");
    if !cfg!(feature = "failpoints") {
        return;
    }
    if ABORT.is_hit(name) {
        // SAFETY: ends this process; nothing can be left in a bad state that a power cut would not leave.
        unsafe { libc::_exit(137) };
    }
    if STOP.is_hit(name) {
        // SAFETY: a plain system call. This thread gets the signal, so it stops at once; the process continues when SIGCONT comes.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

#[inline]
pub(crate) fn durable_bytes() -> Option<u64> {
    static BYTES: OnceLock<Option<u64>> = OnceLock::new();
    *BYTES.get_or_init(|| variable("BEDLOAD_DURABLE_BYTES")?.parse().ok())
}

pub(crate) fn network_patience() -> Option<Duration> {
    variable("BEDLOAD_NETWORK_PATIENCE_MS")?.parse().ok().map(Duration::from_millis)
}

pub(crate) fn network_stall() -> Option<Duration> {
    variable("BEDLOAD_NETWORK_STALL_MS")?.parse().ok().map(Duration::from_millis)
}
