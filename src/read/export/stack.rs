//! A stack of links to follow: in memory up to the budget, the lower part in a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::queue::{Step, decode};
use crate::error::{Error, Result};

/// Memory of a step besides its CIDs, in bytes, including the spare capacity of vectors.
const OVERHEAD: usize = 2 * size_of::<Step>();

pub(super) struct Stack {
    held: Vec<Step>,
    /// Memory of `held`, in bytes.
    bytes: usize,
    budget: usize,
    dir: PathBuf,
    file: Option<File>,
    /// End offsets of the parts in the file; the last part is the uppermost.
    parts: Vec<u64>,
}

fn bytes_of(step: &Step) -> usize {
    step.cid.len() + step.parent.len() + OVERHEAD
}

impl Stack {
    /// Creates an empty stack with about `budget` bytes of memory and a file in `dir`.
    pub fn new(budget: usize, dir: PathBuf) -> Self {
        Self { held: Vec::new(), bytes: 0, budget, dir, file: None, parts: Vec::new() }
    }

    pub fn push(&mut self, step: Step) -> Result<()> {
        self.bytes += bytes_of(&step);
        self.held.push(step);
        if self.bytes > self.budget && self.held.len() > 1 {
            self.spill().map_err(Error::io("write links to", &self.dir))?;
        }
        Ok(())
    }

    /// Pops the top step.
    pub fn pop(&mut self) -> Result<Option<Step>> {
        if self.held.is_empty() {
            self.refill().map_err(Error::io("read links from", &self.dir))?;
        }
        let step = self.held.pop();
        self.bytes -= step.as_ref().map_or(0, bytes_of);
        Ok(step)
    }

    /// Returns the next steps that are in memory.
    pub fn upper(&self) -> impl Iterator<Item = &Step> {
        self.held.iter().rev()
    }

    /// Moves the lower half to the file.
    fn spill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.dir)?,
        };
        let lower: Vec<Step> = self.held.drain(..self.held.len().div_ceil(2)).collect();
        let mut bytes = Vec::new();
        for step in &lower {
            self.bytes -= bytes_of(step);
            step.encode(&mut bytes);
        }
        let from = self.parts.last().copied().unwrap_or(0);
        file.write_all_at(&bytes, from)?;
        self.parts.push(from + bytes.len() as u64);
        self.file = Some(file);
        Ok(())
    }

    /// Reads the uppermost part back from the file.
    fn refill(&mut self) -> io::Result<()> {
        let (Some(end), Some(file)) = (self.parts.pop(), &self.file) else { return Ok(()) };
        let from = self.parts.last().copied().unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(end - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from)?;
        let mut at = 0;
        while let Some((step, end)) = decode(&bytes, at) {
            self.bytes += bytes_of(&step);
            self.held.push(step);
            at = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(number: u32) -> Step {
        Step {
            cid: vec![number as u8; 38],
            parent: vec![7; number as usize % 40],
            tipset: number,
            epoch: (!number.is_multiple_of(3)).then_some(number.into()),
        }
    }

    proptest! {
        #[test]
        fn it_is_a_stack_whatever_its_budget(
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
