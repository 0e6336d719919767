//! Delays between tries, and the end of trying.

use std::time::{Duration, Instant};

use super::body::LEAST_RATE;
use super::fault::Fault;
use crate::failpoint;

/// Longest time without progress.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest time without progress before the first byte, so that a wrong name or a dead server shows at once.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// The first pause; each is twice the one before, up to the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);
/// Fewest tries, however long they take.
const LEAST_TRIES: u32 = 3;
/// Tries at a server that breaks the protocol.
const WRONG_TRIES: u32 = 4;

pub(super) struct Backoff {
    patience: Duration,
    /// Bytes and tries since the last progress.
    since: Instant,
    received: u64,
    tries: u32,
}

impl Backoff {
    /// For requests after the first success.
    pub fn new() -> Self {
        Self { patience: longest(), since: Instant::now(), received: 0, tries: 0 }
    }

    pub fn first() -> Self {
        let patience = failpoint::network_patience().unwrap_or(FIRST_PATIENCE);
        Self { patience, ..Self::new() }
    }

    pub fn optional() -> Self {
        Self { patience: Duration::ZERO, ..Self::new() }
    }

    /// Restarts the clock, unless a try has failed since the last progress.
    pub fn begin(&mut self) {
        if self.tries == 0 {
            *self = Self { patience: self.patience, ..Self::new() };
        }
    }

    /// Adds received bytes. Restarts the clock and the tries if the bytes are enough to count as progress.
    pub fn add_received(&mut self, bytes: u64) {
        self.received += bytes;
        if self.received as f64 >= LEAST_RATE as f64 * self.since.elapsed().max(FIRST).as_secs_f64() {
            *self = Self { patience: self.patience, ..Self::new() };
        }
    }

    /// Returns the delay before the next try, or the fault if there is none.
    pub fn next(&mut self, fault: Fault) -> Result<Duration, Fault> {
        self.tries += 1;
        let elapsed = self.since.elapsed();
        let asked = match &fault {
            Fault::Changed(_) | Fault::Permanent(_) | Fault::Local(_) => return Err(fault),
            Fault::Protocol(_) if self.tries >= WRONG_TRIES => return Err(fault),
            Fault::Protocol(_) => None,
            Fault::Transient { .. } if self.tries >= LEAST_TRIES && elapsed >= self.patience => {
                return Err(fault);
            }
            // A long `Retry-After` must not extend the time limit.
            Fault::Transient { pause, .. } => pause.map(|pause| pause.min(longest().saturating_sub(elapsed))),
        };
        let doubled = FIRST.saturating_mul(1 << self.tries.min(16).saturating_sub(1)).min(LONGEST);
        // Connections that failed together must not retry together.
        let jittered = doubled.mul_f64(0.5 + fastrand::f64());
        Ok(asked.map_or(jittered, |asked| asked + jittered))
    }
}

/// Returns the time without progress after which an import fails.
fn longest() -> Duration {
    failpoint::network_patience().unwrap_or(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let mut backoff = Backoff::optional();
        let first = backoff.next(Fault::transient("a")).expect("another try");
        assert!(first >= FIRST / 2 && first <= FIRST * 2);
        let pause = Some(Duration::from_secs(7));
        let asked = backoff.next(Fault::Transient { what: "b".into(), pause }).expect("another try");
        assert!(asked >= Duration::from_secs(7));
        backoff.next(Fault::transient("c")).expect_err("enough");
        backoff.add_received(1);
        backoff.next(Fault::transient("too little")).expect_err("enough");
        backoff.add_received(LEAST_RATE);
        backoff.next(Fault::transient("progress")).expect("another try");
        backoff.next(Fault::Changed("d".into())).expect_err("never");
    }

    #[test]
    fn requested_delays_end_within_three_minutes() {
        for mut backoff in [Backoff::new(), Backoff::first()] {
            let (mut all, years) = (Duration::ZERO, Duration::from_secs(120));
            while let Ok(pause) = backoff.next(Fault::Transient { what: "503".into(), pause: Some(years) }) {
                all += pause;
                backoff.since = backoff.since.checked_sub(pause).expect("the machine has run that long");
            }
            assert!(all >= PATIENCE && all < PATIENCE + Duration::from_secs(2), "{all:?}");
        }
    }
}
