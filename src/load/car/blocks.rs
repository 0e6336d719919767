//! The blocks of a chunk, each verified against its hash.

use std::path::Path;

use data_encoding::HEXLOWER;

use crate::error::{Error, InputKind, Result};
use crate::hash::{Checker, Claim, IDENTITY, problem_of};
use crate::load::context::Job;
use crate::load::links::Gathered;
use crate::sort::{KeyLayout, Record, Route, Router};
use crate::source::StatedProblem;
use crate::source::car::{CarProblem, Chunk, Section, Step, next_section};

/// Blocks that are hashed side by side.
const LANES: usize = 256;

/// A section of a chunk, with the bytes of the chunk.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) struct Block<'c> {
    bytes: &'c [u8],
    pub section: Section,
}

impl<'c> Block<'c> {
    /// The section at `start`, which is complete in the chunk.
    pub fn at(chunk: &'c Chunk, start: u32) -> Option<Self> {
        let Ok(Step::Section(section)) = next_section(&chunk.bytes, start as usize, u64::MAX) else { return None };
        Some(Self { bytes: &chunk.bytes, section })
    }

    /// The record under `layout`.
    pub fn record(&self, layout: KeyLayout) -> Record<'c> {
        Record::new(self.bytes, &self.section, layout)
    }

    /// The record under `layout`, and its route.
    pub fn route(&self, router: &Router, layout: KeyLayout) -> (Record<'c>, Route) {
        router.route_section(self.bytes, &self.section, layout)
    }

    /// CID and value, side by side.
    pub fn body(&self) -> &'c [u8] {
        self.section.body(self.bytes)
    }

    /// The whole section: length, CID and value.
    pub fn whole(&self) -> &'c [u8] {
        self.section.whole(self.bytes)
    }

    pub fn place(&self, chunk: &Chunk) -> u64 {
        chunk.base + self.section.start as u64
    }

    pub fn value_len(&self) -> u64 {
        (self.body().len() - self.section.cid.len as usize) as u64
    }
}

/// One thread's reader of blocks.
pub(in crate::load) struct BlockReader<'a> {
    job: &'a Job<'a>,
    checker: Checker,
    /// Hash functions that this reader has noted in the journal, for keys that do not name their function.
    functions: Vec<u64>,
    gathered: Gathered,
    omitted: u64,
}

impl<'a> BlockReader<'a> {
    pub fn new(job: &'a Job<'a>) -> Self {
        Self { job, checker: Checker::default(), functions: Vec::new(), gathered: Gathered::default(), omitted: 0 }
    }

    /// Returns the number of blocks that the filter has omitted since the last call.
    pub fn take_omitted(&mut self) -> u64 {
        std::mem::take(&mut self.omitted)
    }

    /// Passes the blocks of a chunk to `take`, in their order, without those that the filter omits. The bytes `ahead`, which
    /// the thread reads next, are prefetched into the core's cache while blocks are hashed.
    pub fn each<'c>(
        &mut self,
        chunk: &'c Chunk,
        mut ahead: &[u8],
        mut take: impl FnMut(&Block<'c>) -> Result<()>,
    ) -> Result<()> {
        let mut read = || -> Result<()> {
            let mut blocks = Vec::with_capacity(LANES);
            for group in chunk.starts.chunks(LANES) {
                blocks.clear();
                let mut fault = Ok(());
                for &start in group {
                    match self.block(chunk, start) {
                        Ok(block) => blocks.push(block),
                        Err(error) => {
                            fault = Err(error);
                            break;
                        }
                    }
                }
                // If a block before the fault does not match its hash, that is the first fault.
                if self.job.options.verify {
                    self.check(chunk, &blocks, &mut ahead)?;
                }
                fault?;
                if let Some(filter) = &self.job.options.filter {
                    let all = blocks.len();
                    let mut called = Ok(true);
                    blocks.retain(|block| {
                        if called.is_ok() {
                            called = filter.keeps(&block.section, block.bytes);
                        }
                        matches!(called, Ok(true))
                    });
                    called?;
                    self.omitted += (all - blocks.len()) as u64;
                }
                if let Some(links) = self.job.links {
                    blocks.iter().for_each(|block| links.gather(&block.section.cid, block.body(), &mut self.gathered));
                    links.add(&mut self.gathered)?;
                }
                blocks.iter().try_for_each(&mut take)?;
            }
            Ok(())
        };
        let outcome = read();
        // A file that shrank reads as zeros: the faults that these look like must not hide the cause.
        chunk.bytes.check()?;
        outcome
    }

    /// The block at `start`. Notes its hash function if keys do not name theirs: a later verification must know it. A block
    /// that is in its CID has no digest that could be its key.
    fn block<'c>(&mut self, chunk: &'c Chunk, start: u32) -> Result<Block<'c>> {
        let block = Block::at(chunk, start).ok_or_else(|| self.explain(chunk, start as usize))?;
        let function = block.section.cid.hash;
        if self.job.options.key == KeyLayout::Digest && !self.functions.contains(&function) {
            if function == IDENTITY {
                let hint = "use `--key cid` or `--key multihash`";
                let reason = "the block is in its CID, which has no digest to be its key";
                let problem = StatedProblem::new(InputKind::Unsupported, reason, hint);
                return Err(Error::bad_input(&chunk.name, block.place(chunk), problem));
            }
            self.functions.push(function);
            self.job.journal.note_hash_function(function);
        }
        Ok(block)
    }

    fn check<'c>(&mut self, chunk: &'c Chunk, blocks: &[Block<'c>], ahead: &mut &[u8]) -> Result<()> {
        let claim = |block: &Block<'c>| {
            let cid = block.section.cid;
            let (key, data) = block.body().split_at(cid.len as usize);
            Claim { code: cid.hash, digest: &key[cid.digest as usize..], data }
        };
        let claims: Vec<Claim<'_>> = blocks.iter().map(claim).collect();
        self.checker.check_ahead(&claims, ahead).map_err(|failure| {
            let block = &blocks[failure.index];
            let cid = &block.body()[..block.section.cid.len as usize];
            let problem = problem_of(cid, &claims[failure.index], &failure);
            Error::bad_input(&chunk.name, block.place(chunk), problem)
        })
    }

    /// The error for a section that cannot be read, the same as when sections are read one by one.
    fn explain(&self, chunk: &Chunk, start: usize) -> Error {
        let (problem, at) = match next_section(&chunk.bytes, start, self.job.options.max_block_size) {
            Err(found) => found,
            Ok(_) => (CarProblem::Truncated { inside: "a CID" }, start),
        };
        Error::bad_input(&chunk.name, chunk.base + at as u64, problem)
    }
}

/// The error for a key with two blocks, one of which is in the source `name`.
pub(in crate::load) fn conflict(name: &Path, key: &[u8], at: Option<u64>) -> Error {
    // As a CID where it is one.
    let key = cid::Cid::try_from(key).map_or_else(|_| HEXLOWER.encode(key), |cid| cid.to_string());
    let reason = format!("two different blocks have the key {key}");
    let hint = "the snapshot (or the database it is added to) is damaged, or the key layout (--key) lets two blocks share \
                a key: `--key cid` tells them apart";
    Error::bad_input(name, at, StatedProblem::new(InputKind::Damaged, reason, hint))
}
