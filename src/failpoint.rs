//! Named points of an import at which tests kill the program. They exist only with the feature `failpoints`, which releases
//! do not have.
//!
//! `BEDLOAD_ABORT_AT=NAME` or `BEDLOAD_ABORT_AT=NAME:N` (the N-th time, from 1) ends the process as a power cut would:
//! at once, without a message and without cleaning up. `BEDLOAD_STOP_AT`, with the same values, stops it by SIGSTOP, so that
//! a test can change a file before it continues the process. `BEDLOAD_DURABLE_BYTES` is the distance of durable points,
//! which is small in crash tests. `BEDLOAD_NETWORK_PATIENCE_MS` and `BEDLOAD_NETWORK_STALL_MS` shorten network timeouts.

#[cfg(feature = "failpoints")]
pub(crate) use enabled::{durable_bytes, network_patience, network_stall, reach};

/// Does nothing: built without failpoints.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn reach(_name: &str) {}

/// Not set: built without failpoints.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn durable_bytes() -> Option<u64> {
    None
}

/// Not set: built without failpoints.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn network_patience() -> Option<std::time::Duration> {
    None
}

/// Not set: built without failpoints.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn network_stall() -> Option<std::time::Duration> {
    None
}

#[cfg(feature = "failpoints")]
mod enabled {
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

    /// Ends or stops the process if a test asks for it at this point.
    pub(crate) fn reach(name: &str) {
        static ABORT: Failpoint = Failpoint::new("BEDLOAD_ABORT_AT");
        static STOP: Failpoint = Failpoint::new("BEDLOAD_STOP_AT");
        if ABORT.is_hit(name) {
            // SAFETY: ends this process; nothing can be left in a bad state that a power cut would not leave.
            unsafe { libc::_exit(137) };
        }
        if STOP.is_hit(name) {
            // SAFETY: a plain system call; the process continues when SIGCONT comes.
            unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
        }
    }

    /// Bytes between two durable points, if a test sets them.
    pub(crate) fn durable_bytes() -> Option<u64> {
        static BYTES: OnceLock<Option<u64>> = OnceLock::new();
        *BYTES.get_or_init(|| std::env::var("BEDLOAD_DURABLE_BYTES").ok()?.parse().ok())
    }

    /// Timeout for a network without data, if a test sets it.
    pub(crate) fn network_patience() -> Option<Duration> {
        milliseconds("BEDLOAD_NETWORK_PATIENCE_MS")
    }

    /// Timeout for a stalled connection, if a test sets it.
    pub(crate) fn network_stall() -> Option<Duration> {
        milliseconds("BEDLOAD_NETWORK_STALL_MS")
    }

    fn milliseconds(variable: &str) -> Option<Duration> {
        Some(Duration::from_millis(std::env::var(variable).ok()?.parse().ok()?))
    }
}
