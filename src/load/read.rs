//! Reading the source: every thread takes the next chunk in turn, then checks and routes its blocks beside the others.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::options::ImportOptions;
use super::plan::Plan;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::sort::entries::{Entry, Heap, Unsorted};
use crate::sort::key::KeyLayout;
use crate::sort::router::Router;
use crate::sort::spill::{Pieces, Spill};
use crate::source::car::chunks::{Chunk, ChunkBytes, Chunks, Tail};
use crate::source::car::{CidSpan, read_cid};
use crate::verify::{Checker, Claim, problem_of};

/// How many blocks are hashed side by side.
const LANES: usize = 64;

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
    chunks: Mutex<Chunks>,
    options: &'a ImportOptions,
    plan: &'a Plan,
    progress: &'a Progress<'a>,
    router: &'a Router,
    spill: &'a Spill,
    /// Set once more is held than the plan allows: from then on everything goes to disk.
    spilling: AtomicBool,
    held_bytes: AtomicU64,
    failed: Mutex<Option<(u64, Error)>>,
    stopped: AtomicBool,
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
        chunks: Mutex::new(chunks),
        options,
        plan,
        progress,
        router: &router,
        spill: &spill,
        spilling: AtomicBool::new(plan.spill),
        held_bytes: AtomicU64::new(0),
        failed: Mutex::new(None),
        stopped: AtomicBool::new(false),
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
    if let Some((_, error)) = lock(&shared.failed).take() {
        return Err(error);
    }
    if options.stop.asked() {
        return Err(super::interrupted());
    }
    let blocks = workers.iter().map(|worker| worker.blocks).sum();
    let payload = workers.iter().map(|worker| worker.payload).sum();
    if spilled {
        for worker in &mut workers {
            // Somebody may have been done before the budget was found too small.
            worker.spill_what_is_held()?;
            worker.pieces.flush(&spill)?;
        }
    }
    let (tail, consumed) = {
        let chunks = lock(&shared.chunks);
        (chunks.tail(), chunks.consumed())
    };
    let held_bytes = shared.held_bytes.load(Ordering::Relaxed);
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
            let (body, span) = body(chunk, start as usize)?;
            let from = layout.key_start(&span);
            let key = body.get(from..span.len as usize)?;
            Some((key, span.digest as usize - from))
        })
    });
    Router::learn(sample, plan.partition_bits)
}

/// The body (CID and block) of the section at `start`, which lies whole in the chunk.
fn body(chunk: &Chunk, start: usize) -> Option<(&[u8], CidSpan)> {
    let bytes = chunk.bytes.get(start..)?;
    let (len, body) = unsigned_varint::decode::u64(bytes).ok()?;
    let body = body.get(..len as usize)?;
    let span = read_cid(body).ok()??;
    (span.len as usize <= body.len()).then_some((body, span))
}

/// A chunk that stays in memory.
struct HeldChunk {
    index: u32,
    bytes: ChunkBytes,
}

/// One thread of the reading phase.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    checker: Checker,
    pieces: Pieces,
    entries: Vec<Vec<Entry>>,
    held: Vec<HeldChunk>,
    spare: Option<Buffer>,
    blocks: u64,
    payload: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Self {
        let partitions = shared.router.partitions();
        Self {
            shared,
            checker: Checker::default(),
            pieces: Pieces::new(partitions, shared.plan.piece_bytes as usize),
            entries: (0..partitions).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            spare: None,
            blocks: 0,
            payload: 0,
        }
    }

    fn run(&mut self, mut mine: Option<Chunk>) {
        let shared = self.shared;
        while !shared.options.stop.asked() {
            let next = match mine.take() {
                Some(chunk) => Ok(Some(chunk)),
                None if shared.stopped.load(Ordering::Relaxed) => return,
                None => {
                    let mut chunks = lock(&shared.chunks);
                    let next = chunks.next(self.spare.take());
                    shared.progress.reach(chunks.consumed());
                    next
                }
            };
            let outcome = match next {
                Ok(Some(chunk)) => {
                    let base = chunk.base;
                    self.take(chunk).map_err(|error| (base, error))
                }
                Ok(None) => return,
                Err(error) => Err((u64::MAX, error)),
            };
            if let Err((base, error)) = outcome {
                // The chunks before this one are all in somebody's hands and will be looked through: the first fault
                // in the order of the file is the one that is told, however the threads were scheduled.
                let base = if let Error::BadInput { offset: Some(offset), .. } = &error { *offset } else { base };
                let mut failed = lock(&shared.failed);
                if failed.as_ref().is_none_or(|(known, _)| base < *known) {
                    *failed = Some((base, error));
                }
                shared.stopped.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Checks and routes the blocks of one chunk.
    fn take(&mut self, chunk: Chunk) -> Result<()> {
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
        let blocks = chunk.starts.len() as u64;
        for group in chunk.starts.chunks(LANES) {
            let mut bodies = [(&[][..], CidSpan { len: 0, multihash: 0, digest: 0, codec: 0, hash: 0 }, 0); LANES];
            for (slot, &start) in bodies.iter_mut().zip(group) {
                let found = body(&chunk, start as usize);
                let Some((bytes, span)) = found else { return Err(self.explain(&chunk, start as usize)) };
                *slot = (bytes, span, start);
            }
            let bodies = &bodies[..group.len()];
            if shared.options.verify {
                self.check(&chunk, bodies)?;
            }
            for (bytes, span, start) in bodies {
                let from = layout.key_start(span);
                let end = span.len as usize;
                let route = shared.router.route(&bytes[from..end], span.digest as usize - from);
                self.payload += (bytes.len() - end) as u64;
                if spilling {
                    let len_bytes = varint_len(bytes.len() as u64);
                    let start = *start as usize;
                    let section = &chunk.bytes[start..start + len_bytes + bytes.len()];
                    self.pieces.add(shared.spill, route.partition, section)?;
                } else if let Some(entries) = self.entries.get_mut(route.partition as usize) {
                    entries.push(Entry::new(route.prefix, chunk.index, *start));
                }
            }
        }
        self.blocks += blocks;
        shared.progress.add(0, blocks);
        if spilling {
            self.spare = chunk.bytes.into_buffer();
        } else {
            self.held.push(HeldChunk { index: chunk.index, bytes: chunk.bytes });
        }
        Ok(())
    }

    fn check(&mut self, chunk: &Chunk, bodies: &[(&[u8], CidSpan, u32)]) -> Result<()> {
        let empty = Claim { code: 0, digest: &[], data: &[] };
        let mut claims = [empty; LANES];
        for (claim, (bytes, span, _)) in claims.iter_mut().zip(bodies) {
            let (cid, data) = bytes.split_at(span.len as usize);
            *claim = Claim { code: span.hash, digest: &cid[span.digest as usize..], data };
        }
        let claims = &claims[..bodies.len()];
        self.checker.check(claims).map_err(|failure| {
            let (bytes, span, start) = bodies[failure.index];
            let problem = problem_of(&bytes[..span.len as usize], &claims[failure.index], &failure);
            let offset = chunk.base + u64::from(start);
            Error::bad_input(&self.shared.options.source, offset, problem)
        })
    }

    /// A section that cannot be read: says why, as reading it one by one does.
    fn explain(&self, chunk: &Chunk, start: usize) -> Error {
        let limit = self.shared.options.max_block_size;
        let (problem, at) = match crate::source::car::next_section(&chunk.bytes, start, limit) {
            Err(found) => found,
            Ok(_) => (crate::source::car::CarProblem::Truncated { inside: "a CID" }, start),
        };
        Error::bad_input(&self.shared.options.source, chunk.base + at as u64, problem)
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
