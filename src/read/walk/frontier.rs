//! The links that a walk still has to follow, in three queues.
//!
//! ```text
//! chain     parents of headers, and the roots     first, so that one wave covers what many headers link to
//! strict    blocks that must exist                before `lenient`: a block in both counts as required
//! lenient   links of headers below the epoch      their blocks may be missing
//! ```
//!
//! A wave is all steps of one queue. Few wide waves let the walk read the database in key order. The chain waits while the two
//! other queues use the budget.

use std::path::PathBuf;

use parking_lot::Mutex;

use super::super::steps::{Queue, StepRef};
use crate::error::Result;

/// Bytes of steps that a thread gathers for the queues.
const FLUSH_FROM: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkQueue {
    Chain,
    Strict,
    Lenient,
}

const KINDS: [LinkQueue; 3] = [LinkQueue::Chain, LinkQueue::Strict, LinkQueue::Lenient];

pub(super) struct Frontier {
    queues: [Mutex<Queue>; KINDS.len()],
    budget: usize,
    dir: PathBuf,
    /// True while everything below the headers is followed to its end.
    below: bool,
    depth: Depth,
}

/// Number of waves: along the chain, and below headers since the chain was left.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    chain: u64,
    below: [u64; KINDS.len()],
    deepest: u64,
}

/// Steps of one thread that are not in the queues yet.
#[derive(Default)]
pub(super) struct GatheredSteps {
    kinds: [(Vec<u8>, u64); KINDS.len()],
}

impl Frontier {
    /// Creates empty queues; each keeps up to `budget` bytes in memory and the rest in files in `dir`.
    pub fn new(budget: usize, dir: PathBuf) -> Self {
        let queues = KINDS.map(|_| Mutex::new(Queue::new(budget, &dir)));
        Self { queues, budget, dir, below: false, depth: Depth::default() }
    }

    pub fn wave(&mut self) -> Option<Queue> {
        let waiting = self.queues.each_mut().map(|queue| queue.get_mut().bytes());
        let [chain, strict, lenient] = waiting;
        if strict + lenient >= self.budget as u64 || chain == 0 {
            self.below = true;
        }
        self.below &= strict + lenient > 0;
        let kind = match self.below {
            false if chain == 0 => return None,
            false => LinkQueue::Chain,
            true if strict > 0 => LinkQueue::Strict,
            true => LinkQueue::Lenient,
        };
        self.depth.count(kind);
        let empty = Queue::new(self.budget, &self.dir);
        self.queues.get_mut(kind as usize).map(|queue| std::mem::replace(queue.get_mut(), empty))
    }

    /// Longest path in links by waves: along the chain, then below it.
    pub fn depth(&self) -> u64 {
        self.depth.chain.saturating_sub(1) + self.depth.deepest
    }

    pub fn flush(&self, gathered: &mut GatheredSteps) -> Result<()> {
        for (queue, (bytes, count)) in self.queues.iter().zip(&mut gathered.kinds) {
            if *count > 0 {
                queue.lock().append(bytes, *count)?;
                bytes.clear();
                *count = 0;
            }
        }
        Ok(())
    }
}

impl Depth {
    fn count(&mut self, kind: LinkQueue) {
        if kind == LinkQueue::Chain {
            self.chain += 1;
            self.below = Default::default();
        } else if let Some(waves) = self.below.get_mut(kind as usize) {
            *waves += 1;
            self.deepest = self.deepest.max(*waves);
        }
    }
}

impl GatheredSteps {
    pub fn push(&mut self, kind: LinkQueue, step: StepRef<'_>) {
        if let Some((bytes, count)) = self.kinds.get_mut(kind as usize) {
            step.encode(bytes);
            *count += 1;
        }
    }

    pub fn is_full(&self) -> bool {
        self.kinds.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() >= FLUSH_FROM
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::steps::decode;
    use super::*;

    fn add(frontier: &Frontier, kind: LinkQueue, count: u32) {
        let mut gathered = GatheredSteps::default();
        for number in 0..count {
            let cid = number.to_le_bytes();
            gathered.push(kind, StepRef { cid: &cid, parent: &[], tipset: kind as u32, epoch: None });
        }
        frontier.flush(&mut gathered).expect("room");
    }

    fn next(frontier: &mut Frontier) -> Option<(u32, u64)> {
        let mut wave = frontier.wave()?;
        let count = wave.len;
        let piece = wave.take_piece(usize::MAX).expect("steps");
        Some((decode(&piece)?.0.tipset, count))
    }

    #[test]
    fn the_chain_goes_first_then_what_must_be_there() {
        let mut frontier = Frontier::new(1 << 20, std::env::temp_dir());
        for (kind, count) in [(LinkQueue::Lenient, 3), (LinkQueue::Strict, 2), (LinkQueue::Chain, 1)] {
            add(&frontier, kind, count);
        }
        assert_eq!(next(&mut frontier), Some((LinkQueue::Chain as u32, 1)));
        assert_eq!(next(&mut frontier), Some((LinkQueue::Strict as u32, 2)));
        // Everything below the headers is followed before the chain continues.
        add(&frontier, LinkQueue::Strict, 4);
        add(&frontier, LinkQueue::Chain, 5);
        assert_eq!(next(&mut frontier), Some((LinkQueue::Strict as u32, 4)));
        assert_eq!(next(&mut frontier), Some((LinkQueue::Lenient as u32, 3)));
        assert_eq!(next(&mut frontier), Some((LinkQueue::Chain as u32, 5)));
        assert_eq!(next(&mut frontier), None);
        assert_eq!(frontier.depth(), 1 + 2, "two waves of the chain, two of what must be there");
    }

    #[test]
    fn chain_waits_for_work_below_it() {
        let mut frontier = Frontier::new(1000, std::env::temp_dir());
        add(&frontier, LinkQueue::Chain, 1);
        add(&frontier, LinkQueue::Strict, 10);
        assert_eq!(next(&mut frontier), Some((LinkQueue::Chain as u32, 1)), "little: the chain goes on");
        add(&frontier, LinkQueue::Chain, 1);
        add(&frontier, LinkQueue::Strict, 50);
        assert_eq!(next(&mut frontier), Some((LinkQueue::Strict as u32, 60)));
        assert_eq!(next(&mut frontier), Some((LinkQueue::Chain as u32, 1)));
    }
}
