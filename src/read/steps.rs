//! A queue of links to follow: in memory up to the budget, the rest in a file.
//!
//! ```text
//! entry: u16 length of the CID | CID | u16 length of the parent | parent | u32 tipset | u64 epoch       little-endian
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Bytes per read of the file; far more than an entry.
const READ: usize = 1 << 20;

/// Longest link that is followed, in bytes. Only identity CIDs can be longer.
pub(super) const MAX_LINK: usize = u16::MAX as usize;

/// Means "no epoch is known".
const NO_EPOCH: u64 = u64::MAX;

/// A link to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// CID of the target.
    pub cid: Vec<u8>,
    /// CID of the block that has the link; empty for a root.
    pub parent: Vec<u8>,
    /// Number of tipsets between the head and the header above the link.
    pub tipset: u32,
    /// Epoch of that header.
    pub epoch: Option<u64>,
}

/// A [`Step`] that borrows from a queue's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepRef<'a> {
    pub cid: &'a [u8],
    pub parent: &'a [u8],
    pub tipset: u32,
    pub epoch: Option<u64>,
}

/// A first-in, first-out queue: all pushes happen before the first take.
pub(super) struct Queue {
    held: Vec<u8>,
    budget: usize,
    file: Option<File>,
    written: u64,
    read: u64,
    dir: PathBuf,
    len: u64,
}

impl Queue {
    pub fn new(budget: usize, dir: &Path) -> Self {
        Self { held: Vec::new(), budget, file: None, written: 0, read: 0, dir: dir.to_owned(), len: 0 }
    }

    /// Number of steps.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn push(&mut self, step: &Step) -> Result<()> {
        step.encode(&mut self.held);
        self.len += 1;
        self.keep_within_budget()
    }

    /// Appends `count` encoded steps.
    pub fn append(&mut self, encoded: &[u8], count: u64) -> Result<()> {
        self.held.extend_from_slice(encoded);
        self.len += count;
        self.keep_within_budget()
    }

    /// Length of the steps as bytes.
    pub fn bytes(&self) -> u64 {
        self.written - self.read + self.held.len() as u64
    }

    fn keep_within_budget(&mut self) -> Result<()> {
        if self.held.len() > self.budget {
            self.spill().map_err(Error::io("write links to", &self.dir))?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.dir)?,
        };
        file.write_all(&self.held)?;
        self.written += self.held.len() as u64;
        self.file = Some(file);
        self.held.clear();
        Ok(())
    }

    /// Takes up to `count` steps. No step may be pushed afterwards.
    pub fn take(&mut self, count: usize) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(count.min(usize::try_from(self.len).unwrap_or(count)));
        if self.file.is_some() {
            // Steps in memory are the last: complete the file, then read it from its start.
            self.spill_rest().map_err(Error::io("write links to", &self.dir))?;
        }
        while steps.len() < count && self.len > 0 {
            if self.file.is_some() {
                self.refill().map_err(Error::io("read links from", &self.dir))?;
            }
            let before = steps.len();
            let mut at = 0;
            while steps.len() < count
                && let Some((step, end)) = decode(&self.held, at)
            {
                steps.push(step);
                at = end;
                self.len -= 1;
            }
            self.read += at as u64;
            if self.file.is_none() {
                self.held.drain(..at);
            }
            if steps.len() == before {
                break;
            }
        }
        Ok(steps)
    }

    /// Takes complete encoded steps: all of them, or about `limit` bytes; none if the queue is empty. No step may be pushed
    /// afterwards, and `take` must not be called.
    pub fn take_piece(&mut self, limit: usize) -> Result<Vec<u8>> {
        // At least one step must fit.
        let limit = limit.max(READ);
        if self.file.is_some() {
            self.spill_rest().map_err(Error::io("write links to", &self.dir))?;
            self.held.clear();
        }
        let Some(file) = &self.file else {
            if self.held.len() <= limit {
                self.len = 0;
                return Ok(std::mem::take(&mut self.held));
            }
            let (end, count) = whole_steps(&self.held, limit);
            self.len -= count;
            return Ok(self.held.drain(..end).collect());
        };
        let len = usize::try_from(self.written - self.read).unwrap_or(limit).min(limit);
        let mut piece = vec![0; len];
        file.read_exact_at(&mut piece, self.read).map_err(Error::io("read links from", &self.dir))?;
        let (end, count) = whole_steps(&piece, len);
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

    fn spill_rest(&mut self) -> io::Result<()> {
        if self.read == 0 && !self.held.is_empty() {
            self.spill()?;
        }
        Ok(())
    }

    /// Reads the next piece of the file.
    fn refill(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let len = usize::try_from(self.written - self.read).unwrap_or(READ).min(READ);
        self.held.resize(len, 0);
        file.read_exact_at(&mut self.held, self.read)
    }
}

impl Step {
    pub fn encode(&self, to: &mut Vec<u8>) {
        self.as_ref().encode(to);
    }

    pub fn as_ref(&self) -> StepRef<'_> {
        StepRef { cid: &self.cid, parent: &self.parent, tipset: self.tipset, epoch: self.epoch }
    }
}

impl StepRef<'_> {
    /// Appends the step as bytes. Links are no longer than [`MAX_LINK`]; a longer parent is an identity CID and is left out.
    pub fn encode(&self, to: &mut Vec<u8>) {
        for part in [self.cid, self.parent] {
            let (len, part) = u16::try_from(part.len()).map_or((0, &[][..]), |len| (len, part));
            to.extend_from_slice(&len.to_le_bytes());
            to.extend_from_slice(part);
        }
        to.extend_from_slice(&self.tipset.to_le_bytes());
        to.extend_from_slice(&self.epoch.unwrap_or(NO_EPOCH).to_le_bytes());
    }
}

/// Parses the step at `at` and returns its end.
pub(super) fn decode(bytes: &[u8], at: usize) -> Option<(Step, usize)> {
    let (StepRef { cid, parent, tipset, epoch }, end) = decode_ref(bytes, at)?;
    Some((Step { cid: cid.to_vec(), parent: parent.to_vec(), tipset, epoch }, end))
}

/// Parses a step without a copy.
pub(super) fn decode_ref(bytes: &[u8], at: usize) -> Option<(StepRef<'_>, usize)> {
    let all = bytes.get(at..)?;
    let (cid, rest) = part(all)?;
    let (parent, rest) = part(rest)?;
    let (tipset, rest) = rest.split_first_chunk()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let epoch = Some(u64::from_le_bytes(*epoch)).filter(|&epoch| epoch != NO_EPOCH);
    let step = StepRef { cid, parent, tipset: u32::from_le_bytes(*tipset), epoch };
    Some((step, at + all.len() - rest.len()))
}

/// Returns the end of the last complete step within the first `limit` bytes, and the number of steps up to it.
fn whole_steps(bytes: &[u8], limit: usize) -> (usize, u64) {
    let (mut end, mut count) = (0, 0);
    while let Some((_, next)) = decode_ref(bytes, end).filter(|(_, next)| *next <= limit) {
        (end, count) = (next, count + 1);
    }
    (end, count)
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u32) -> Step {
        Step {
            cid: vec![number as u8; 38],
            parent: vec![7; number as usize % 40],
            tipset: number,
            epoch: (!number.is_multiple_of(3)).then_some(number.into()),
        }
    }

    #[test]
    fn steps_keep_their_order_in_memory_and_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for budget in [usize::MAX, 10_000, 0] {
            let mut queue = Queue::new(budget, dir.path());
            for number in 0..40_000 {
                queue.push(&step(number)).expect("push");
            }
            assert_eq!(queue.len(), 40_000);
            let mut number = 0;
            loop {
                let steps = queue.take(777).expect("take");
                if steps.is_empty() {
                    break;
                }
                for taken in steps {
                    assert_eq!(taken, step(number), "budget {budget}");
                    number += 1;
                }
            }
            assert_eq!((number, queue.len()), (40_000, 0), "budget {budget}");
        }
    }

    #[test]
    fn pieces_hold_whole_steps_and_all_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let count = 40_000;
        for budget in [usize::MAX, 10_000, 0] {
            let mut queue = Queue::new(budget, dir.path());
            for numbers in (0..count).collect::<Vec<_>>().chunks(100) {
                let mut encoded = Vec::new();
                numbers.iter().for_each(|&number| step(number).encode(&mut encoded));
                queue.append(&encoded, numbers.len() as u64).expect("append");
            }
            let bytes = queue.bytes();
            let (mut number, mut pieces, mut taken) = (0, 0, 0);
            loop {
                let piece = queue.take_piece(1).expect("take");
                if piece.is_empty() {
                    break;
                }
                let mut at = 0;
                while let Some((found, end)) = decode(&piece, at) {
                    assert_eq!(found, step(number), "budget {budget}");
                    (number, at) = (number + 1, end);
                }
                assert_eq!(at, piece.len());
                assert!(piece.len() <= READ);
                (pieces, taken) = (pieces + 1, taken + piece.len() as u64);
            }
            assert_eq!((number, taken, queue.len(), queue.bytes()), (count, bytes, 0, 0), "budget {budget}");
            assert!(pieces > 1, "{pieces} pieces");
        }
    }
}
