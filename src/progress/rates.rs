//! How fast blocks of a log are read, 100,000 after 100,000: whether an import slows down as its chain goes on.

use serde::{Deserialize, Serialize};

/// How fast blocks were read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Speed {
    /// Blocks read so far in this run.
    pub blocks: u64,
    /// Seconds since reading began.
    pub seconds: f64,
    /// Blocks a second since the row before.
    pub blocks_per_second: f64,
}

/// Blocks of a log in an interval.
const INTERVAL: u64 = 100_000;

/// The times at which intervals ended.
#[derive(Debug, Default)]
pub(super) struct IntervalRates {
    /// Blocks that an earlier run had read, and seconds until they were counted.
    start: (u64, f64),
    /// Blocks and seconds since the phase began, each time so many more had been read.
    marks: Vec<(u64, f64)>,
}

impl IntervalRates {
    /// Begins after the blocks that an earlier run had read, up to `counted`, at an unknown speed.
    pub fn begin_behind(&mut self, counted: u64, seconds: f64) {
        self.start = (counted, seconds);
    }

    /// Notes that the counter has gone from `before` to `after`, so many seconds after the phase began.
    pub fn reach(&mut self, before: u64, after: u64, seconds: f64) {
        let whole = |blocks: u64| blocks.saturating_sub(self.start.0) / INTERVAL;
        // A thread that notes late would make the next interval too short.
        let is_late = self.marks.last().is_some_and(|(known, _)| *known >= after);
        if whole(before) != whole(after) && !is_late {
            self.marks.push((after, seconds));
        }
    }

    fn row(&self, index: usize) -> Option<Speed> {
        let &(blocks, seconds) = self.marks.get(index)?;
        let before = index.checked_sub(1).and_then(|index| self.marks.get(index)).unwrap_or(&self.start);
        let blocks_per_second = blocks.saturating_sub(before.0) as f64 / (seconds - before.1).max(f64::EPSILON);
        Some(Speed { blocks: blocks.saturating_sub(self.start.0), seconds, blocks_per_second })
    }

    /// All intervals.
    pub fn rows(&self) -> Vec<Speed> {
        (0..self.marks.len()).filter_map(|index| self.row(index)).collect()
    }

    /// Blocks a second over the last one.
    pub fn last(&self) -> Option<f64> {
        self.row(self.marks.len().checked_sub(1)?).map(|row| row.blocks_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(intervals: &IntervalRates) -> Vec<(u64, f64)> {
        intervals.rows().iter().map(|row| (row.blocks, row.blocks_per_second)).collect()
    }

    #[test]
    fn every_whole_stretch_has_its_own_rate() {
        let mut intervals = IntervalRates::default();
        assert_eq!(intervals.last(), None);
        intervals.reach(0, 60_000, 1.0);
        assert_eq!((intervals.last(), intervals.rows().len()), (None, 0));
        intervals.reach(60_000, 100_000, 2.0);
        assert_eq!(intervals.last(), Some(50_000.0));
        intervals.reach(100_000, 199_999, 3.0);
        assert_eq!(intervals.last(), Some(50_000.0));
        // What is beyond the mark belongs to the stretch that it ends.
        intervals.reach(199_999, 220_000, 3.0);
        assert_eq!(rates(&intervals), [(100_000, 50_000.0), (220_000, 120_000.0)]);
    }

    #[test]
    fn what_an_earlier_run_had_read_says_nothing_about_this_one() {
        let mut intervals = IntervalRates::default();
        intervals.begin_behind(5_030_000, 0.5);
        intervals.reach(5_030_000, 5_110_000, 1.0);
        assert_eq!(intervals.last(), None);
        intervals.reach(5_110_000, 5_130_000, 1.5);
        assert_eq!(rates(&intervals), [(100_000, 100_000.0)]);
    }

    #[test]
    fn a_thread_that_comes_late_changes_nothing() {
        let mut intervals = IntervalRates::default();
        intervals.reach(190_000, 210_000, 2.0);
        intervals.reach(90_000, 110_000, 2.1);
        assert_eq!(rates(&intervals), [(210_000, 105_000.0)]);
    }
}
