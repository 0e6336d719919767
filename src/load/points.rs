//! Named points of an import at which tests make the program die.
//!
//! `BEDLOAD_ABORT_AT=NAME` or `BEDLOAD_ABORT_AT=NAME:N` (the N-th time, from 1) ends the process as a power cut would:
//! at once, without a word and without cleaning up. Only the crash tests set it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that names the point.
const VARIABLE: &str = "BEDLOAD_ABORT_AT";

/// Dies here if the tests want it.
pub(super) fn reach(name: &str) {
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        Some(match value.rsplit_once(':') {
            Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
            None => (value, 1),
        })
    });
    if let Some((point, count)) = wanted
        && point == name
        && SEEN.fetch_add(1, Ordering::Relaxed) + 1 == *count
    {
        // SAFETY: ends this process; nothing can be left in a bad state that a power cut would not leave.
        unsafe { libc::_exit(137) };
    }
}
