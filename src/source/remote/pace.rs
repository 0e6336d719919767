//! How many connections, and how large the parts: by what is measured while it runs.

/// Connections to begin with, and at most.
pub(super) const FIRST: usize = 4;
pub(super) const MOST: usize = 32;
/// Bytes of a part at least and at most: what one connection gives in about a second.
pub(super) const LEAST_PART: u64 = 256 << 10;
const MOST_PART: u64 = 8 << 20;
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

    /// Bytes of the next part.
    pub fn part(&self, rate: f64, memory: u64) -> u64 {
        let connections = self.connections as u64;
        let most = (memory / (2 * connections)).clamp(1, MOST_PART);
        ((rate as u64) / connections).clamp(LEAST_PART.min(most), most)
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
                for rate in [0.0, 1e6, 1e9] {
                    let part = pace.part(rate, memory);
                    assert!(part > 0 && part * pace.connections as u64 <= memory, "{pace:?} {part}");
                }
            }
        }
        assert_eq!(Pace::new(Some(3), 1 << 30).tasks(), 3);
    }
}
