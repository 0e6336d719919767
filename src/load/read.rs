//! Reading the source: every thread takes the next chunk in turn, then checks and routes its blocks beside the others.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::blocks::{Block, BlockReader};
use super::feed::Feed;
use super::options::ImportOptions;
use super::plan::Plan;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::progress::Progress;
use crate::sort::entries::{Entry, Heap, Unsorted};
use crate::sort::key::KeyLayout;
use crate::sort::router::Router;
use crate::sort::spill::{Pieces, Spill};
use crate::source::car::chunks::{Chunk, ChunkBytes, Chunks, Tail};

/// The blocks of a source, checked and routed.
pub(super) struct Blocks {
    pub router: Router,
    pub held: Held,
    /// Blocks read, duplicates included.
    pub blocks: u64,
    /// Bytes of their values, duplicates included.
    pub payload: u64,
    pub tail: Tail,
    /// Bytes of the wrapped source taken.
    pub consumed: u64,
}

/// Where the blocks are now.
pub(super) enum Held {
    Memory {
        heap: Heap,
        /// For each partition, what each worker found.
        entries: Vec<Unsorted>,
        /// Bytes of all of it.
        bytes: u64,
    },
    Spilled(Spill),
}

/// What the workers share.
struct Shared<'a> {
    feed: Feed<'a>,
    options: &'a ImportOptions,
    plan: &'a Plan,
    progress: &'a Progress<'a>,
    router: &'a Router,
    spill: &'a Spill,
    /// Set once more is held than the plan allows: from then on everything goes to disk.
    spilling: AtomicBool,
    held_bytes: AtomicU64,
}

/// Reads everything.
pub(super) fn read(
    mut chunks: Chunks,
    options: &ImportOptions,
    plan: &Plan,
    spill_dir: &Path,
    progress: &Progress<'_>,
) -> Result<Blocks> {
    if !plan.spill {
        chunks.map();
    }
    let mut first = chunks.next(None)?;
    let router = learn(first.as_ref(), plan, options.key);
    let spill = Spill::new(spill_dir.to_owned(), router.partitions());
    let shared = Shared {
        feed: Feed::new(chunks, options, progress),
        options,
        plan,
        progress,
        router: &router,
        spill: &spill,
        spilling: AtomicBool::new(plan.spill),
        held_bytes: AtomicU64::new(0),
    };
    let mut workers: Vec<Worker<'_>> = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for _ in 0..plan.threads {
            let mine = first.take();
            let shared = &shared;
            handles.push(scope.spawn(move || {
                let mut worker = Worker::new(shared);
                worker.run(mine);
                worker
            }));
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(worker) => worker,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    });
    let spilled = shared.spilling.load(Ordering::Relaxed);
    let held_bytes = shared.held_bytes.load(Ordering::Relaxed);
    let (tail, consumed) = shared.feed.finish()?;
    let blocks = workers.iter().map(|worker| worker.blocks).sum();
    let payload = workers.iter().map(|worker| worker.payload).sum();
    if spilled {
        for worker in &mut workers {
            // Somebody may have been done before the budget was found too small.
            worker.spill_what_is_held()?;
            worker.pieces.flush(&spill)?;
        }
    }
    let held = if spilled {
        drop(workers);
        Held::Spilled(spill)
    } else {
        let mut heap = Heap::new(options.key);
        let mut entries: Vec<Unsorted> = (0..router.partitions()).map(|_| Unsorted::default()).collect();
        for worker in workers {
            for held in worker.held {
                heap.insert(held.index, held.bytes);
            }
            for (partition, found) in entries.iter_mut().zip(worker.entries) {
                partition.add(found);
            }
        }
        Held::Memory { heap, entries, bytes: held_bytes }
    };
    Ok(Blocks { router, held, blocks, payload, tail, consumed })
}

/// Learns what the keys look like from the first chunk.
fn learn(first: Option<&Chunk>, plan: &Plan, layout: KeyLayout) -> Router {
    let sample = first.into_iter().flat_map(|chunk| {
        chunk.starts.iter().filter_map(move |&start| {
            let Block { body, cid, .. } = Block::at(chunk, start)?;
            let from = layout.key_start(&cid);
            let key = body.get(from..cid.len as usize)?;
            Some((key, cid.digest as usize - from))
        })
    });
    Router::learn(sample, plan.partition_bits)
}

/// A chunk that stays in memory.
struct HeldChunk {
    index: u32,
    bytes: ChunkBytes,
}

/// One thread of the reading phase.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    reader: BlockReader<'a>,
    pieces: Pieces,
    entries: Vec<Vec<Entry>>,
    held: Vec<HeldChunk>,
    blocks: u64,
    payload: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Self {
        let partitions = shared.router.partitions();
        Self {
            shared,
            reader: BlockReader::new(shared.options),
            pieces: Pieces::new(partitions, shared.plan.piece_bytes as usize),
            entries: (0..partitions).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            blocks: 0,
            payload: 0,
        }
    }

    fn run(&mut self, first: Option<Chunk>) {
        self.shared.feed.each(first, |chunk| self.take(chunk));
    }

    /// Checks and routes the blocks of one chunk; gives its buffer back when nobody needs it any more.
    fn take(&mut self, chunk: Chunk) -> Result<Option<Buffer>> {
        let shared = self.shared;
        let mut spilling = shared.spilling.load(Ordering::Relaxed);
        if spilling {
            self.spill_what_is_held()?;
        } else {
            let entries = chunk.starts.len() * size_of::<Entry>() * 3 / 2;
            let more = (chunk.bytes.len() + entries) as u64;
            let held = shared.held_bytes.fetch_add(more, Ordering::Relaxed) + more;
            if held > shared.plan.hold_bytes {
                shared.spilling.store(true, Ordering::Relaxed);
                spilling = true;
                self.spill_what_is_held()?;
            }
        }
        let layout = shared.options.key;
        let Self { reader, pieces, entries, payload, .. } = self;
        reader.each(&chunk, |block| {
            let Block { body, cid, start } = *block;
            let from = layout.key_start(&cid);
            let route = shared.router.route(&body[from..cid.len as usize], cid.digest as usize - from);
            *payload += block.value_len();
            if spilling {
                let start = start as usize;
                let section = &chunk.bytes[start..start + varint_len(body.len() as u64) + body.len()];
                pieces.add(shared.spill, route.partition, section)?;
            } else if let Some(entries) = entries.get_mut(route.partition as usize) {
                entries.push(Entry::new(route.prefix, chunk.index, start));
            }
            Ok(())
        })?;
        let blocks = chunk.starts.len() as u64;
        self.blocks += blocks;
        shared.progress.add(0, blocks);
        if spilling {
            return Ok(chunk.bytes.into_buffer());
        }
        self.held.push(HeldChunk { index: chunk.index, bytes: chunk.bytes });
        Ok(None)
    }

    /// Moves everything that is held in memory to the partitions on disk.
    fn spill_what_is_held(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let layout = self.shared.options.key;
        for entries in &mut self.entries {
            *entries = Vec::new();
        }
        for held in std::mem::take(&mut self.held) {
            let mut at = 0;
            while let Ok(crate::source::car::Step::Section(section)) =
                crate::source::car::next_section(&held.bytes, at, u64::MAX)
            {
                let from = layout.key_start(&section.cid);
                let cid = &held.bytes[section.cid_start..section.cid_start + section.cid.len as usize];
                let route = self.shared.router.route(&cid[from..], section.cid.digest as usize - from);
                self.pieces.add(self.shared.spill, route.partition, &held.bytes[section.start..section.end])?;
                at = section.end;
            }
        }
        Ok(())
    }
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}
