//! The number of connections and the size of parts.
//!
//! The number grows while more connections bring more throughput. Each time as many requests have ended as there are
//! connections, the share of failed requests is computed. If it is too large, the number shrinks by half of that share and
//! grows by one. So the number settles, and falls to one only if all requests fail.

/// Connections to begin with, and at most.
const FIRST: usize = 4;
const MOST: usize = 32;
/// Smallest and largest part, in bytes. A part is the file divided by `PART_SHARE`: a small file must keep all connections
/// busy, and a kill loses the incomplete parts.
const LEAST_PART: u64 = 256 << 10;
const MOST_PART: u64 = 8 << 20;
const PART_SHARE: u64 = 64;
/// Parts of each connection that fit the memory: one is received, the other waits for earlier parts.
const PARTS: u64 = 2;
/// If the import is slower than the network, the file divided by `AHEAD_SHARE` is read ahead, at least `LEAST_AHEAD` bytes, or
/// more if the parts of all connections need it.
const AHEAD_SHARE: u64 = 100;
const LEAST_AHEAD: u64 = 32 << 20;
/// Additional connections are kept if throughput grows by this factor.
const GAIN: f64 = 1.08;
/// Measurements between a step without gain, or failures, and the next step.
const HOLD: u32 = 24;
/// Up to this share of failed requests is ignored.
const TOLERATED: f64 = 0.05;
/// Minimum number of requests from which a share is computed.
const LEAST_REQUESTS: u64 = 4;

#[derive(Debug)]
pub(super) struct Pace {
    pub connections: usize,
    most: usize,
    /// True if the user set the number of connections.
    is_fixed: bool,
    /// Bytes of the file, and of memory.
    bytes: u64,
    memory: u64,
    /// Throughput and connections before the last step.
    before: Option<(f64, usize)>,
    hold: u32,
    /// Requests since the share of failures was last computed.
    requests: u64,
    failed: u64,
}

/// Requests and bytes since the last measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub rate: f64,
    pub is_waited_for: bool,
    /// Requests that ended, and those of them that failed.
    pub requests: u64,
    pub failed: u64,
}

impl Pace {
    /// Begins with `fixed` connections or with a few, for a file of `bytes`. The parts of all connections fit `memory`.
    pub fn new(fixed: Option<u16>, bytes: u64, memory: u64) -> Self {
        let room = usize::try_from(memory / (PARTS * LEAST_PART)).unwrap_or(MOST).max(1);
        let connections = fixed.map_or(FIRST, usize::from).clamp(1, room);
        let (is_fixed, most) = (fixed.is_some(), MOST.min(room));
        Self { connections, most, is_fixed, bytes, memory, before: None, hold: 0, requests: 0, failed: 0 }
    }

    pub fn tasks(&self) -> usize {
        if self.is_fixed { self.connections } else { self.most }
    }

    pub fn measured(&mut self, measured: &Measured) {
        let Measured { rate, is_waited_for, requests, failed } = *measured;
        if self.is_fixed {
            return;
        }
        self.requests += requests;
        self.failed += failed;
        if self.requests >= LEAST_REQUESTS.max(self.connections as u64) {
            let share = self.failed as f64 / self.requests as f64;
            (self.requests, self.failed) = (0, 0);
            if share > TOLERATED {
                let more = usize::from(is_waited_for && share <= 0.5);
                let kept = (self.connections as f64 * (1.0 - share / 2.0)).ceil() as usize;
                self.connections = (kept + more).clamp(1, self.most);
                (self.before, self.hold) = (None, HOLD);
                return;
            }
        }
        if !is_waited_for {
            self.before = None;
            return;
        }
        if let Some((before, from)) = self.before.take()
            && rate < before * GAIN
        {
            (self.connections, self.hold) = (from, HOLD);
            return;
        }
        match self.hold {
            0 if self.connections < self.most => {
                self.before = Some((rate, self.connections));
                self.connections = (self.connections + self.connections.div_ceil(2)).min(self.most);
            }
            0 => {}
            _ => self.hold -= 1,
        }
    }

    pub fn part(&self) -> u64 {
        let most = (self.memory / (PARTS * self.connections as u64)).clamp(1, MOST_PART);
        (self.bytes / PART_SHARE).max(LEAST_PART).min(most)
    }

    /// Returns the maximum number of bytes ahead of the consumer.
    pub fn ahead(&self) -> u64 {
        let parts = PARTS * self.connections as u64 * self.part();
        (self.bytes / AHEAD_SHARE).max(LEAST_AHEAD).max(parts).min(self.memory).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Measures a pipe that gives `rate` for a number of connections, of which each asks for a part a second and
    /// `share` of the requests fail.
    fn run(pace: &mut Pace, rounds: u32, rate: impl Fn(usize) -> f64, share: f64, is_waited_for: bool) {
        let mut failed = 0.0;
        for _ in 0..rounds {
            let requests = pace.connections as u64;
            failed += requests as f64 * share;
            let whole = failed as u64;
            failed -= whole as f64;
            pace.measured(&Measured { rate: rate(pace.connections), is_waited_for, requests, failed: whole });
        }
    }

    #[test]
    fn connections_grow_while_throughput_grows() {
        let mut pace = Pace::new(None, GIB, GIB);
        // A server that gives 10 to each connection, and 120 in all.
        let rate = |connections: usize| 10.0 * connections.min(12) as f64;
        run(&mut pace, 20, rate, 0.0, true);
        assert!((12..=18).contains(&pace.connections), "{pace:?}");
        let before = pace.connections;
        run(&mut pace, 100, rate, 0.0, false);
        assert_eq!(pace.connections, before, "the import is what is waited for");
    }

    /// A third of the requests of a server failed, and the import stayed at one connection.
    #[test]
    fn connections_follow_the_share_of_failures() {
        let rate = |connections: usize| connections as f64;
        for first in [1, 4, 32] {
            let mut pace = Pace::new(None, GIB, GIB);
            pace.connections = first;
            run(&mut pace, 40, rate, 1.0 / 3.0, true);
            assert!((4..=10).contains(&pace.connections), "{pace:?}");
            run(&mut pace, 20, rate, 1.0, true);
            assert_eq!(pace.connections, 1, "{pace:?}");
            run(&mut pace, HOLD + 20, rate, 0.01, true);
            assert!(pace.connections >= 24, "{pace:?}");
        }
    }

    #[test]
    fn parts_fit_the_memory() {
        for memory in [1 << 10, 1 << 20, 5 << 20, GIB] {
            for fixed in [None, Some(1), Some(7), Some(64)] {
                for bytes in [0, 1 << 20, 1 << 40, u64::MAX] {
                    let mut pace = Pace::new(fixed, bytes, memory);
                    run(&mut pace, 9, |connections| connections as f64, 0.0, true);
                    let part = pace.part();
                    assert!(part > 0 && part * pace.connections as u64 <= pace.ahead(), "{pace:?} {part}");
                    assert!(pace.ahead() <= memory, "{pace:?}");
                }
            }
        }
        assert_eq!(Pace::new(Some(3), GIB, GIB).tasks(), 3);
    }

    #[test]
    fn parts_are_8_mib_where_that_is_possible() {
        let of = |connections, bytes, memory| {
            let pace = Pace::new(Some(connections), bytes, memory);
            (pace.part(), pace.ahead())
        };
        const MIB: u64 = 1 << 20;
        assert_eq!(of(4, 40 * GIB, 256 * MIB), (8 * MIB, 256 * MIB));
        assert_eq!(of(32, 40 * GIB, 256 * MIB), (4 * MIB, 256 * MIB), "two for each connection");
        assert_eq!(of(4, 40 * GIB, 4 * MIB), (MIB / 2, 4 * MIB), "a small budget");
        assert_eq!(of(4, GIB, 256 * MIB), (8 * MIB, 64 * MIB));
        assert_eq!(of(4, 64 * MIB, 256 * MIB), (MIB, 32 * MIB), "a small file");
    }
}
