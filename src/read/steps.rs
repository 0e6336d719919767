//! Links to follow, in a queue or a stack: in memory up to a budget, the rest in a file.
//!
//! ```text
//! entry: u16 length of the CID | CID | u16 length of the parent | parent | u32 tipset | u64 epoch       little-endian
//! ```

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Bytes per read of a queue's file; far more than an entry.
const READ: usize = 1 << 20;

/// Longest link that is followed, in bytes. Only identity CIDs can be longer.
pub(super) const MAX_LINK: usize = u16::MAX as usize;

/// Means "no epoch is known".
const NO_EPOCH: u64 = u64::MAX;

/// Memory of a step on the stack besides its CIDs, in bytes, including the spare capacity of vectors.
const OVERHEAD: usize = 2 * size_of::<LinkStep>();

/// A link to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkStep<B = Vec<u8>> {
    /// CID of the target.
    pub cid: B,
    /// CID of the block that has the link; empty for a root.
    pub parent: B,
    /// Number of tipsets between the head and the header above the link.
    pub tipset: u32,
    /// Epoch of that header.
    pub epoch: Option<u64>,
}

pub(super) type StepRef<'a> = LinkStep<&'a [u8]>;

impl<B: AsRef<[u8]>> LinkStep<B> {
    pub fn as_ref(&self) -> StepRef<'_> {
        LinkStep { cid: self.cid.as_ref(), parent: self.parent.as_ref(), tipset: self.tipset, epoch: self.epoch }
    }

    /// Appends the step as bytes. Links are no longer than [`MAX_LINK`]; a longer parent is an identity CID and is left out.
    pub fn encode(&self, to: &mut Vec<u8>) {
        for part in [self.cid.as_ref(), self.parent.as_ref()] {
            let (len, part) = u16::try_from(part.len()).map_or((0, &[][..]), |len| (len, part));
            to.extend_from_slice(&len.to_le_bytes());
            to.extend_from_slice(part);
        }
        to.extend_from_slice(&self.tipset.to_le_bytes());
        to.extend_from_slice(&self.epoch.unwrap_or(NO_EPOCH).to_le_bytes());
    }
}

impl StepRef<'_> {
    pub fn to_owned(self) -> LinkStep {
        LinkStep { cid: self.cid.to_vec(), parent: self.parent.to_vec(), tipset: self.tipset, epoch: self.epoch }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Option<(StepRef<'_>, &[u8])> {
    fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (len, rest) = bytes.split_first_chunk()?;
        rest.split_at_checked(u16::from_le_bytes(*len).into())
    }
    let (cid, rest) = part(bytes)?;
    let (parent, rest) = part(rest)?;
    let (tipset, rest) = rest.split_first_chunk()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let epoch = Some(u64::from_le_bytes(*epoch)).filter(|&epoch| epoch != NO_EPOCH);
    Some((LinkStep { cid, parent, tipset: u32::from_le_bytes(*tipset), epoch }, rest))
}

/// Returns the complete steps in `bytes`, each with its place.
pub(super) fn steps(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, StepRef<'_>)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let start = bytes.len() - rest.len();
        let (step, after) = decode(rest)?;
        rest = after;
        Some((start..bytes.len() - rest.len(), step))
    })
}

/// A first-in, first-out queue: all pushes happen before the first take.
pub(super) struct Queue {
    held: Vec<u8>,
    budget: usize,
    file: Option<File>,
    written: u64,
    read: u64,
    dir: PathBuf,
    pub len: u64,
}

impl Queue {
    pub fn new(budget: usize, dir: &Path) -> Self {
        Self { held: Vec::new(), budget, file: None, written: 0, read: 0, dir: dir.to_owned(), len: 0 }
    }

    pub fn push(&mut self, step: StepRef<'_>) -> Result<()> {
        step.encode(&mut self.held);
        self.append(&[], 1)
    }

    pub fn append(&mut self, encoded: &[u8], count: u64) -> Result<()> {
        self.held.extend_from_slice(encoded);
        self.len += count;
        if self.held.len() > self.budget { self.spill() } else { Ok(()) }
    }

    pub fn bytes(&self) -> u64 {
        self.written - self.read + self.held.len() as u64
    }

    fn spill(&mut self) -> Result<()> {
        write_at(&mut self.file, &self.dir, &self.held, self.written)?;
        self.written += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Takes complete encoded steps: all of them, or about `limit` bytes; none if the queue is empty. No step may be pushed
    /// afterwards.
    pub fn take_piece(&mut self, limit: usize) -> Result<Vec<u8>> {
        if self.file.is_none() && self.held.len() <= limit {
            self.len = 0;
            return Ok(std::mem::take(&mut self.held));
        }
        self.spill()?;
        // At least one step must fit.
        let limit = limit.max(READ);
        let mut piece = vec![0; usize::try_from(self.bytes()).unwrap_or(limit).min(limit)];
        read_at(&self.file, &self.dir, &mut piece, self.read)?;
        let (end, count) = steps(&piece).fold((0, 0), |(_, count), (place, _)| (place.end, count + 1));
        if end == 0 && self.len > 0 {
            // Another process wrote to the unnamed file.
            let damaged = io::Error::new(io::ErrorKind::InvalidData, "a link that is none");
            return Err(Error::io("read links from", &self.dir)(damaged));
        }
        piece.truncate(end);
        self.read += end as u64;
        self.len -= count;
        Ok(piece)
    }
}

/// A last-in, first-out stack. Its lower part is in the file.
pub(super) struct Stack {
    held: Vec<LinkStep>,
    /// Memory of `held`, in bytes.
    bytes: usize,
    budget: usize,
    dir: PathBuf,
    file: Option<File>,
    /// End offsets of the parts in the file; the last part is the uppermost.
    parts: Vec<u64>,
}

fn bytes_of(step: &LinkStep) -> usize {
    step.cid.len() + step.parent.len() + OVERHEAD
}

impl Stack {
    pub fn new(budget: usize, dir: PathBuf) -> Self {
        Self { held: Vec::new(), bytes: 0, budget, dir, file: None, parts: Vec::new() }
    }

    pub fn push(&mut self, step: LinkStep) -> Result<()> {
        self.bytes += bytes_of(&step);
        self.held.push(step);
        if self.bytes > self.budget && self.held.len() > 1 { self.spill() } else { Ok(()) }
    }

    pub fn pop(&mut self) -> Result<Option<LinkStep>> {
        if self.held.is_empty() {
            self.refill()?;
        }
        let step = self.held.pop();
        self.bytes -= step.as_ref().map_or(0, bytes_of);
        Ok(step)
    }

    /// Returns the steps in memory, the top first.
    pub fn upper(&self) -> impl Iterator<Item = &LinkStep> {
        self.held.iter().rev()
    }

    /// Moves the lower half to the file.
    fn spill(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        for step in self.held.drain(..self.held.len().div_ceil(2)) {
            self.bytes -= bytes_of(&step);
            step.encode(&mut bytes);
        }
        let from = self.parts.last().copied().unwrap_or(0);
        self.parts.push(from + bytes.len() as u64);
        write_at(&mut self.file, &self.dir, &bytes, from)
    }

    fn refill(&mut self) -> Result<()> {
        let Some(end) = self.parts.pop() else { return Ok(()) };
        let from = self.parts.last().copied().unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(end - from).unwrap_or(0)];
        read_at(&self.file, &self.dir, &mut bytes, from)?;
        self.held.extend(steps(&bytes).map(|(_, step)| step.to_owned()));
        self.bytes += self.held.iter().map(bytes_of).sum::<usize>();
        Ok(())
    }
}

/// Writes to the file, which is created in `dir` without a name.
fn write_at(file: &mut Option<File>, dir: &Path, bytes: &[u8], at: u64) -> Result<()> {
    let failed = || Error::io("write links to", dir);
    let file = match file {
        Some(file) => file,
        None => file.insert(tempfile::tempfile_in(dir).map_err(failed())?),
    };
    file.write_all_at(bytes, at).map_err(failed())
}

fn read_at(file: &Option<File>, dir: &Path, bytes: &mut [u8], at: u64) -> Result<()> {
    let read = file.as_ref().map_or(Ok(()), |file| file.read_exact_at(bytes, at));
    read.map_err(Error::io("read links from", dir))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(number: u32) -> LinkStep {
        LinkStep {
            cid: vec![number as u8; 38],
            parent: vec![7; number as usize % 40],
            tipset: number,
            epoch: (!number.is_multiple_of(3)).then_some(number.into()),
        }
    }

    #[test]
    fn queue_keeps_order_in_memory_and_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let count = 40_000;
        for (budget, limit) in [(usize::MAX, 1), (usize::MAX, usize::MAX), (10_000, 1), (0, 1), (0, usize::MAX)] {
            let mut queue = Queue::new(budget, dir.path());
            for numbers in (0..count).collect::<Vec<_>>().chunks(100) {
                let mut encoded = Vec::new();
                let (first, others) = numbers.split_first().expect("numbers");
                queue.push(step(*first).as_ref()).expect("push");
                others.iter().for_each(|&number| step(number).encode(&mut encoded));
                queue.append(&encoded, others.len() as u64).expect("append");
            }
            assert_eq!(queue.len, u64::from(count));
            let bytes = queue.bytes();
            let (mut number, mut pieces, mut taken) = (0, 0, 0);
            loop {
                let piece = queue.take_piece(limit).expect("take");
                if piece.is_empty() {
                    break;
                }
                let mut end = 0;
                for (place, found) in steps(&piece) {
                    assert_eq!(found, step(number).as_ref(), "budget {budget}");
                    (number, end) = (number + 1, place.end);
                }
                assert_eq!(end, piece.len());
                assert!(piece.len() <= limit.max(READ));
                (pieces, taken) = (pieces + 1, taken + piece.len() as u64);
            }
            assert_eq!((number, taken, queue.len, queue.bytes()), (count, bytes, 0, 0), "budget {budget}");
            assert_eq!(pieces > 1, limit == 1, "{pieces} pieces");
        }
    }

    proptest! {
        #[test]
        fn stack_spills_in_order(
            pushes in proptest::collection::vec((1u32..40, 0u32..40), 0..60), budget in 0usize..20_000,
        ) {
            let mut stack = Stack::new(budget, std::env::temp_dir());
            let mut model = Vec::new();
            let mut number = 0;
            for (push, pop) in pushes {
                for _ in 0..push {
                    number += 1;
                    stack.push(step(number)).expect("push");
                    model.push(step(number));
                }
                prop_assert!(stack.upper().zip(model.iter().rev()).all(|(ours, theirs)| ours == theirs));
                for _ in 0..pop {
                    prop_assert_eq!(stack.pop().expect("pop"), model.pop());
                }
            }
            while let Some(expected) = model.pop() {
                prop_assert_eq!(stack.pop().expect("pop"), Some(expected));
            }
            prop_assert_eq!(stack.pop().expect("pop"), None);
            prop_assert_eq!(stack.bytes, 0);
        }
    }
}
