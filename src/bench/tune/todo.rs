//! What is left to run, for the time that progress says is left.

use std::time::Duration;

use super::super::pace::Pace;
use super::halving::{self, Rung};

/// What is left to run, for the time that is left.
#[derive(Default)]
pub(super) struct Todo {
    /// Bytes of the whole snapshot.
    pub whole: u64,
    /// Pairs that the user wants on it.
    pairs: u32,
    /// The samples, and how many candidates each has at most.
    rungs: Vec<(Rung, usize)>,
    /// The runs of the sample, or of the confirmation; and how many are done.
    pub runs: usize,
    pub done: usize,
    /// The sample that is measured now; behind the last one it is the whole.
    at: usize,
}

impl Todo {
    pub fn new(whole: u64, pairs: u32, rungs: &[Rung], candidates: usize) -> Self {
        let mut count = candidates;
        let mut all: Vec<(Rung, usize)> = Vec::new();
        for rung in rungs {
            all.push((*rung, count));
            count = halving::at_most_behind(count);
        }
        if let [only] = rungs {
            // What was put together is measured on it, too.
            all.push((Rung { first: only.first + only.rounds, ..*only }, count));
        }
        Self { whole, pairs, rungs: all, ..Self::default() }
    }

    /// A rung begins, with so many candidates.
    pub fn begin(&mut self, rung: &Rung, candidates: usize) {
        self.at = self.rungs.iter().position(|(known, _)| known == rung).unwrap_or(self.at);
        (self.runs, self.done) = (runs_of(rung, candidates), 0);
    }

    pub fn in_rung(&mut self, done: usize) {
        self.done = done;
    }

    /// A pair begins, of `pairs` as far as is known.
    pub fn in_pair(&mut self, round: u32, pairs: u32) {
        (self.at, self.runs, self.done) = (self.rungs.len(), 2 * pairs.max(round + 1) as usize, 2 * round as usize);
    }

    /// How long everything that is left will probably take.
    pub fn left(&self, pace: &Pace) -> Option<Duration> {
        let now = self.rungs.get(self.at).map_or(self.whole, |(rung, _)| rung.bytes);
        let mut left = pace.expected("", now)? * u32::try_from(self.runs.saturating_sub(self.done)).ok()?;
        for (rung, candidates) in self.rungs.iter().skip(self.at + 1) {
            left += pace.expected("", rung.bytes)? * u32::try_from(runs_of(rung, *candidates)).ok()?;
        }
        if self.at < self.rungs.len() {
            left += pace.expected("", self.whole)? * (2 * self.pairs);
        }
        Some(left)
    }
}

/// The runs of a rung with so many candidates.
fn runs_of(rung: &Rung, candidates: usize) -> usize {
    (candidates + halving::starts_of(candidates)) * rung.rounds as usize
}

#[cfg(test)]
mod tests {
    use super::halving::rungs;
    use super::*;

    #[test]
    fn the_time_that_is_left_counts_everything_that_follows() {
        let rungs = rungs(256 << 20);
        let mut todo = Todo::new(256 << 20, 5, &rungs, 9);
        let mut pace = Pace::default();
        todo.begin(&rungs[0], 9);
        assert_eq!(todo.left(&pace), None);
        pace.note("start", 16 << 20, Duration::from_secs(1));
        // Two rounds of 9 candidates and 4 starts; two of 8 and 3 on four times as much; five pairs on sixteen times.
        assert_eq!(todo.left(&pace), Some(Duration::from_secs(26 + 22 * 4 + 10 * 16)));
        todo.in_rung(20);
        assert_eq!(todo.left(&pace), Some(Duration::from_secs(6 + 22 * 4 + 10 * 16)));
        todo.in_pair(4, 5);
        assert_eq!(todo.left(&pace), Some(Duration::from_secs(2 * 16)));
    }
}
