//! The rate at which blocks of a log are read, per 100,000 blocks.

const INTERVAL: u64 = 100_000;

/// The rate of the last interval.
#[derive(Debug, Default)]
pub(super) struct IntervalRate {
    /// Blocks that an earlier run read.
    earlier: u64,
    /// Blocks and seconds at the end of the last interval.
    last: (u64, f64),
    /// Blocks a second over the last interval.
    pub rate: Option<f64>,
}

impl IntervalRate {
    /// Begins after `blocks`, which an earlier run read.
    pub fn begin(&mut self, blocks: u64, seconds: f64) {
        *self = Self { earlier: blocks, last: (blocks, seconds), rate: None };
    }

    /// Notes that the counter went from `before` to `after`.
    pub fn reach(&mut self, before: u64, after: u64, seconds: f64) {
        let whole = |blocks: u64| blocks.saturating_sub(self.earlier) / INTERVAL;
        // A late thread would make the next interval too short.
        if whole(before) != whole(after) && after > self.last.0 {
            self.rate = Some((after - self.last.0) as f64 / (seconds - self.last.1).max(f64::EPSILON));
            self.last = (after, seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_has_its_own_rate() {
        let mut rate = IntervalRate::default();
        assert_eq!(rate.rate, None);
        rate.reach(0, 60_000, 1.0);
        assert_eq!(rate.rate, None);
        rate.reach(60_000, 100_000, 2.0);
        assert_eq!(rate.rate, Some(50_000.0));
        rate.reach(100_000, 199_999, 3.0);
        assert_eq!(rate.rate, Some(50_000.0));
        // Blocks beyond the mark belong to the interval that it ends.
        rate.reach(199_999, 220_000, 3.0);
        assert_eq!(rate.rate, Some(120_000.0));
    }

    #[test]
    fn resumed_blocks_do_not_count() {
        let mut rate = IntervalRate::default();
        rate.begin(5_030_000, 0.5);
        rate.reach(5_030_000, 5_110_000, 1.0);
        assert_eq!(rate.rate, None);
        rate.reach(5_110_000, 5_130_000, 1.5);
        assert_eq!(rate.rate, Some(100_000.0));
    }

    #[test]
    fn late_thread_changes_nothing() {
        let mut rate = IntervalRate::default();
        rate.reach(190_000, 210_000, 2.0);
        rate.reach(90_000, 110_000, 2.1);
        assert_eq!(rate.rate, Some(105_000.0));
    }
}
