//! How many connections, and how large the parts: by what is measured while it runs.

/// Connections to begin with, and at most.
pub(super) const FIRST: usize = 4;
pub(super) const MOST: usize = 32;
/// Bytes of a part at least and at most.
pub(super) const LEAST_PART: u64 = 256 << 10;
const MOST_PART: u64 = 8 << 20;
/// Parts on their way are lost by a kill, on the average half of each: together they are this share of the file, as its
/// reciprocal, so that a hundred kills lose an eightieth. But no part takes more than a second, or less than this share of one:
/// between two of them a connection waits for an answer.
const SHARE: u64 = 4000;
const LEAST_SHARE: u64 = 4;
/// The same for bytes ahead of an import that is slower than the network: this share, unless that is too little to keep
/// many connections busy.
const AHEAD_SHARE: u64 = 100;
const LEAST_AHEAD: u64 = 32 << 20;

/// Bytes ahead of the consumer of a file of `bytes`, of which `memory` is for them.
pub(super) fn ahead(bytes: u64, memory: u64) -> u64 {
    memory.min((bytes / AHEAD_SHARE).max(LEAST_AHEAD))
}
/// More connections must give so much more to be kept.
const GAIN: f64 = 1.08;
/// Measurements after a step that gave nothing until the next one.
const HOLD: u32 = 24;

/// Looks for the number of connections beyond which nothing more comes.
#[derive(Debug)]
pub(super) struct Pace {
    pub connections: usize,
    most: usize,
    /// Whether the user has fixed it.
    fixed: bool,
    /// What came before the last step, and the number it was made from.
    before: Option<(f64, usize)>,
    hold: u32,
}

impl Pace {
    /// Begins with `fixed` connections, or with few; `memory` holds two parts for each at least.
    pub fn new(fixed: Option<u16>, memory: u64) -> Self {
        let room = usize::try_from(memory / (2 * LEAST_PART)).unwrap_or(MOST).max(1);
        let connections = fixed.map_or(FIRST, usize::from).clamp(1, room);
        Self { connections, most: MOST.min(room), fixed: fixed.is_some(), before: None, hold: 0 }
    }

    /// Tasks that there must be.
    pub fn tasks(&self) -> usize {
        if self.fixed { self.connections } else { self.most }
    }

    /// Takes a measurement: bytes a second, and whether the import waits for them.
    pub fn measured(&mut self, rate: f64, is_waited_for: bool) {
        if self.fixed || !is_waited_for {
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

    /// The server wants fewer requests.
    pub fn slow_down(&mut self) {
        self.before = None;
        self.hold = HOLD;
        if !self.fixed {
            self.connections = (self.connections / 2).max(1);
        }
    }

    /// Bytes of the next part of a file of `bytes`.
    pub fn part(&self, rate: f64, bytes: u64, memory: u64) -> u64 {
        let connections = self.connections as u64;
        let most = (memory / (2 * connections)).clamp(1, MOST_PART);
        let second = rate as u64 / connections;
        (bytes / SHARE / connections).clamp(second / LEAST_SHARE, second).clamp(LEAST_PART.min(most), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_grow_while_that_gives_more() {
        let mut pace = Pace::new(None, 1 << 30);
        // A server that gives 10 to each connection, and 120 in all.
        let rate = |pace: &Pace| 10.0 * pace.connections.min(12) as f64;
        for _ in 0..20 {
            pace.measured(rate(&pace), true);
        }
        assert!((12..=18).contains(&pace.connections), "{pace:?}");
        pace.slow_down();
        assert!(pace.connections <= 9, "{pace:?}");
        let before = pace.connections;
        (0..100).for_each(|_| pace.measured(rate(&pace), false));
        assert_eq!(pace.connections, before, "the import is what is waited for");
    }

    #[test]
    fn parts_fit_the_memory() {
        for memory in [1 << 10, 1 << 20, 5 << 20, 1 << 30] {
            for fixed in [None, Some(1), Some(7), Some(64)] {
                let pace = Pace::new(fixed, memory);
                for (rate, bytes) in [(0.0, 0), (1e6, 1 << 20), (1e9, 1 << 40), (1e9, u64::MAX)] {
                    let part = pace.part(rate, bytes, memory);
                    assert!(part > 0 && part * pace.connections as u64 <= memory, "{pace:?} {part}");
                }
            }
        }
        assert_eq!(Pace::new(Some(3), 1 << 30).tasks(), 3);
    }

    #[test]
    fn what_is_on_its_way_is_a_small_share_of_the_file_or_a_moment() {
        let pace = Pace::new(Some(8), 1 << 30);
        let on_its_way = |rate: f64, bytes: u64| pace.part(rate, bytes, 1 << 30) * 8;
        assert_eq!(on_its_way(16e6, 40_000_000_000), 10_000_000, "a share");
        assert_eq!(on_its_way(16e6, 1 << 40), 16_000_000, "a second");
        assert_eq!(on_its_way(16e6, 1 << 20), 4_000_000, "a quarter of a second");
        assert_eq!((ahead(1 << 30, 1 << 28), ahead(1 << 40, 1 << 28), ahead(1 << 30, 1)), (32 << 20, 1 << 28, 1));
    }
}
