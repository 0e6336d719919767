//! Exports everything that the roots link to, depth first, each block once, in the order in which nodes write their snapshots.
//!
//! ```text
//! header of the head | its messages .. | its state .. | its receipts ..    and so on for all headers of the tipset,
//! headers of the tipset before ..                                          then those of their parents
//! ```
//!
//! Parents wait until everything below their children is exported; the placeholder parent of genesis follows genesis directly. All
//! other blocks follow the order of their links. This forbids lookups in key order, but everything on the stack, and everything
//! that it links to, will be needed: if the next block is not in memory, many blocks are fetched at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::batch::SectionLoader;
use super::open::Export;
use super::options::interrupted;
use crate::error::Result;
use crate::hash::fingerprint::fingerprint;
use crate::parallel;
use crate::read::header::chain_header;
use crate::read::keys::whole_cid;
use crate::read::links::{codec, links};
use crate::read::missing::MissingBlocks;
use crate::read::steps::{LinkStep, MAX_LINK, Queue, Stack, StepRef, steps};
use crate::read::visited::Visited;
use crate::source::car::{CidSpan, RawCid, read_cid};

const AHEAD: usize = 1024;

const CHUNK: usize = 64;

/// Links of fetched blocks that are considered for the next fetch. One block may have millions.
const MAX_PREFETCH_LINKS: usize = 16 * AHEAD;

/// Bytes of values that a thread holds besides the fetched blocks.
const VALUES: u64 = 1 << 20;

/// Memory of a fetched block besides its bytes.
const FETCHED: usize = 64;

pub(super) struct DepthFirst<'a> {
    export: &'a Export<'a>,
    pool: rayon::ThreadPool,
    visited: Visited,
    stack: Stack,
    ahead: Prefetched,
    missing: MissingBlocks,
    queue_budget: usize,
    dir: PathBuf,
}

/// Prefetched blocks by the fingerprints of their keys; `None` for missing blocks.
struct Prefetched {
    blocks: HashMap<u128, Option<Vec<u8>>>,
    bytes: usize,
    budget: usize,
    /// Mean size of the fetched blocks.
    mean: usize,
}

struct WantedBlock {
    key: Vec<u8>,
    fingerprint: u128,
    codec: u64,
}

impl<'a> DepthFirst<'a> {
    pub fn new(export: &'a Export<'a>) -> Result<Self> {
        let part = |share: u64| usize::try_from(export.memory / share).unwrap_or(usize::MAX);
        let resources = &export.options.resources;
        let dir = resources.scratch_parent();
        Ok(Self {
            export,
            pool: parallel::pool(resources.thread_count())?,
            visited: Visited::new(export.memory / 4, dir.clone()),
            stack: Stack::new(part(16), dir.clone()),
            ahead: Prefetched { blocks: HashMap::new(), bytes: 0, budget: part(8), mean: 1 << 10 },
            missing: MissingBlocks::new(export.record),
            queue_budget: part(32),
            dir,
        })
    }

    pub fn each(mut self, roots: &[RawCid], loader: &mut SectionLoader<'_>) -> Result<MissingBlocks> {
        let mut level = Queue::new(self.queue_budget, &self.dir);
        for root in roots {
            level.push(LinkStep { cid: root.as_bytes(), parent: &[], tipset: 0, epoch: None })?;
        }
        while level.len > 0 {
            let mut parents = Queue::new(self.queue_budget, &self.dir);
            while level.len > 0 {
                for (_, step) in steps(&level.take_piece(self.queue_budget)?) {
                    self.stack.push(step.to_owned())?;
                    while let Some(step) = self.stack.pop()? {
                        self.visit(&step, &mut parents, loader)?;
                    }
                }
            }
            level = parents;
        }
        Ok(self.missing)
    }

    fn visit(&mut self, step: &LinkStep, parents: &mut Queue, loader: &mut SectionLoader<'_>) -> Result<()> {
        let Some((span, key_start, print)) = self.identify(&step.cid) else {
            self.missing.malformed += 1;
            return Ok(());
        };
        if !self.visited.insert(print)? {
            return Ok(());
        }
        if !self.ahead.blocks.contains_key(&print) {
            self.export.options.resources.stop.check(interrupted)?;
            self.prefetch(step)?;
            if !self.ahead.blocks.contains_key(&print) {
                let wanted = self.wanted(&step.cid, true)?;
                self.fetch(wanted.into_iter().collect())?;
            }
        }
        match self.ahead.take(print) {
            Some(block) => {
                loader.add_section(&step.cid, key_start, &block)?;
                self.push_links(step, span.codec, &block, parents)
            }
            None if span.hash == 0 => {
                let inside = step.cid.get(span.digest as usize..).unwrap_or_default();
                self.push_links(step, span.codec, inside, parents)
            }
            None => {
                self.missing.note(step.as_ref(), self.export.options.allow_missing_below);
                Ok(())
            }
        }
    }

    /// Returns the parts of a CID, the start of the key in it, and the fingerprint of the key; `None` if it is not a CID.
    fn identify(&self, cid: &[u8]) -> Option<(CidSpan, usize, u128)> {
        let span = whole_cid(cid)?;
        let start = self.export.layout.key_start(&span);
        Some((span, start, fingerprint(cid.get(start..).unwrap_or_default())))
    }

    /// Pushes the links of a block, the first on top, and those to parents to their queue.
    fn push_links(&mut self, step: &LinkStep, codec: u64, block: &[u8], parents: &mut Queue) -> Result<()> {
        let header = if codec == codec::DAG_CBOR { chain_header(block) } else { None };
        let epoch = header.map_or(step.epoch, |header| Some(header.height));
        let mut cids = Vec::new();
        let mut too_long = 0;
        let scanned = links(codec, block, &mut |cid| {
            if cid.len() > MAX_LINK {
                too_long += 1;
            } else if !is_commitment(cid) {
                cids.push(cid);
            }
        });
        let link_to = |cid| StepRef { cid, parent: &step.cid, tipset: 0, epoch };
        self.missing.malformed += u64::from(scanned.is_err()) + too_long;
        if let Some(header) = header {
            let count = usize::try_from(header.parents).unwrap_or(usize::MAX).min(cids.len());
            // State, receipts, messages: nodes write messages first.
            if let Some(below @ [_, _, _]) = cids.get_mut(count..) {
                below.rotate_right(1);
            }
            // Genesis has a parent that is no header.
            if header.height > 0 {
                cids.drain(..count).try_for_each(|parent| parents.push(link_to(parent)))?;
            }
        }
        cids.into_iter().rev().try_for_each(|cid| self.stack.push(link_to(cid).to_owned()))
    }

    /// Fetches the block of `first` and the blocks that are needed after it.
    fn prefetch(&mut self, first: &LinkStep) -> Result<()> {
        // Blocks that wait far down the stack are evicted and fetched again later.
        if self.ahead.bytes > self.ahead.budget / 4 * 3 {
            (self.ahead.blocks, self.ahead.bytes) = (HashMap::new(), 0);
        }
        let mut left = self.ahead.room();
        let mut wanted: Vec<WantedBlock> = self.wanted(&first.cid, true)?.into_iter().collect();
        for step in self.stack.upper().take(left) {
            // The steps below were prefetched together with this one.
            match self.identify(&step.cid) {
                Some((_, _, print)) if self.ahead.blocks.contains_key(&print) => break,
                _ => wanted.extend(self.wanted(&step.cid, false)?),
            }
        }
        while !wanted.is_empty() {
            left = left.saturating_sub(wanted.len());
            let cids = self.fetch(std::mem::take(&mut wanted))?;
            let fits = left.min(self.ahead.room());
            for cid in cids {
                if wanted.len() >= fits {
                    break;
                }
                wanted.extend(self.wanted(&cid, false)?);
            }
        }
        Ok(())
    }

    fn wanted(&self, cid: &[u8], visited: bool) -> Result<Option<WantedBlock>> {
        let Some((span, start, fingerprint)) = self.identify(cid) else { return Ok(None) };
        let known = self.ahead.blocks.contains_key(&fingerprint)
            || is_commitment(cid)
            || (!visited && self.visited.contains(fingerprint)?);
        let key = cid.get(start..).unwrap_or_default().to_vec();
        Ok((!known).then_some(WantedBlock { key, fingerprint, codec: span.codec }))
    }

    /// Fetches blocks while they fit the budget, but at least one. Returns their links, except those of headers, which are needed
    /// much later.
    fn fetch(&mut self, mut wanted: Vec<WantedBlock>) -> Result<Vec<Vec<u8>>> {
        wanted.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        wanted.dedup_by(|one, other| one.key == other.key);
        let export = self.export;
        let (room, fetched) = (self.ahead.budget.saturating_sub(self.ahead.bytes), AtomicUsize::new(0));
        let look_up = |chunk: &[WantedBlock]| -> Result<Vec<Option<Vec<u8>>>> {
            let keys: Vec<&[u8]> = chunk.iter().map(|wanted| wanted.key.as_slice()).collect();
            let mut blocks = Vec::with_capacity(keys.len());
            export.reader.visit_values(&export.family, &keys, VALUES, |_, value| {
                let len = value.as_ref().map_or(0, |value| value.len());
                blocks.push(value.map(|value| value.as_ref().to_vec()));
                Ok(fetched.fetch_add(len, Ordering::Relaxed) + len < room)
            })?;
            Ok(blocks)
        };
        let chunks: Vec<&[WantedBlock]> = wanted.chunks(CHUNK).collect();
        let found: Vec<_> = match chunks[..] {
            [chunk] => vec![look_up(chunk)?],
            _ => self.pool.install(|| chunks.par_iter().map(|chunk| look_up(chunk)).collect::<Result<_>>())?,
        };
        let mut cids = Vec::new();
        let found = chunks.iter().zip(found).flat_map(|(chunk, blocks)| chunk.iter().zip(blocks));
        for (wanted, block) in found {
            if let Some(block) = &block
                && !(wanted.codec == codec::DAG_CBOR && chain_header(block).is_some())
            {
                // A malformed block is counted when it is visited.
                let _ = links(wanted.codec, block, &mut |cid| {
                    if cids.len() < MAX_PREFETCH_LINKS {
                        cids.push(cid.to_vec());
                    }
                });
            }
            self.ahead.put(wanted.fingerprint, block);
        }
        Ok(cids)
    }
}

impl Prefetched {
    /// Returns the number of blocks that fit the budget.
    fn room(&self) -> usize {
        (self.budget.saturating_sub(self.bytes) / self.mean.max(1)).clamp(1, AHEAD)
    }

    fn put(&mut self, print: u128, block: Option<Vec<u8>>) {
        let len = block.as_ref().map_or(0, Vec::len);
        self.mean = (self.mean * 63 + len + FETCHED) / 64;
        self.bytes += len + FETCHED;
        self.blocks.insert(print, block);
    }

    fn take(&mut self, print: u128) -> Option<Vec<u8>> {
        let block = self.blocks.remove(&print)?;
        self.bytes = self.bytes.saturating_sub(block.as_ref().map_or(0, Vec::len) + FETCHED);
        block
    }
}

/// True if a link is a sector commitment, which has no block.
fn is_commitment(cid: &[u8]) -> bool {
    let span = read_cid(cid).ok().flatten();
    span.is_some_and(|span| [codec::COMMITMENT_UNSEALED, codec::COMMITMENT_SEALED].contains(&span.codec))
}
