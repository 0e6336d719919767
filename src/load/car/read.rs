//! Reading the source: each thread takes the next chunk in turn, verifies its blocks and routes them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::Content;
use crate::load::car::blocks::{Block, BlockReader};
use crate::load::car::counts::Counts;
use crate::load::car::partition_setup::{learn_router, prepare_spill};
use crate::load::car::resume_source::{another_source, check_whole, skip};
use crate::load::car::stored_blocks::{StoredBlocks, WorkerBlocks};
use crate::load::checkpoint::{self, CheckpointClock};
use crate::load::context::Job;
use crate::load::journal::{Checkpoint, Entry, PartitionCheckpoint, SourceDelta};
use crate::load::options::PlanChoice;
use crate::load::planner;
use crate::load::sink::sst::SST_COPIES;
use crate::load::source_identity::changed;
use crate::os::buffer::Buffer;
use crate::os::mmap::MAX_MAPS;
use crate::parallel::{self, MemoryLimit, MemoryShare, Pull};
use crate::progress::Event;
use crate::report::SortPlan;
use crate::sort::{ClassCounts, LARGE, PartitionBuffers, Reference, Router, SortEntry, Spill, source_at};
use crate::source::car::{Chunk, ChunkBytes, Chunks, SourceRead, Step, Tail, next_section};
use crate::text::size::human;

/// The next chunk is read only if the large blocks of all workers take at most the budget divided by this. One large block is
/// always read.
const LARGE_SHARE: u64 = 16;

/// The verified and routed blocks of the sources.
pub(super) struct ReadBlocks {
    pub router: Router,
    pub stored: StoredBlocks,
    pub checkpoint: Checkpoint,
    pub tail: Tail,
    pub sources: Vec<SourceRead>,
    /// For each partition, the length of its longest section of [`LARGE`] bytes or more.
    pub largest: Vec<u64>,
}

/// The state that the workers share.
struct ReadState<'a> {
    job: &'a Job<'a>,
    sort: &'a SortPlan,
    router: &'a Router,
    spill: &'a Spill,
    /// For each worker, the sections that it has not appended to partitions yet.
    pieces: Vec<Mutex<PartitionBuffers>>,
    /// True if the blocks exceed the planned memory: then all go to disk.
    spilling: AtomicBool,
    /// Workers that still have blocks in memory.
    holders: AtomicUsize,
    held_bytes: AtomicU64,
    framed: Mutex<ClassCounts>,
    /// The bytes of a piece, if blocks are copied out of their chunks.
    copies: Option<usize>,
    counts: Counts,
    /// The memory of the large blocks of all workers, and the length of the longest one.
    large: MemoryLimit,
    longest: AtomicU64,
}

/// The source, which one thread reads at a time.
struct SourceReader {
    chunks: Chunks,
    /// The chunk that the router learned from, until a worker takes it.
    first: Option<Chunk>,
    clock: CheckpointClock,
    /// The first source that the journal does not have to its end.
    noted: u32,
}

/// Reads all sources from the checkpoint of an earlier run.
pub(super) fn read(job: &Job<'_>, sort: &SortPlan, mut chunks: Chunks) -> Result<ReadBlocks> {
    let Job { options, sources, plan, journal, resumed, .. } = *job;
    let before = resumed.car.read.as_ref().filter(|_| resumed.car.router.is_some());
    let spilling = sort.spill || before.is_some();
    // Without a digest key the source must not be read twice. A resumed import may have another plan than the first run.
    let has_key = resumed.digest_key.is_some();
    if !spilling && has_key {
        chunks.map();
    }
    let mut checkpoint = Checkpoint::default();
    if let Some((known, _)) = before {
        checkpoint = *known;
        chunks.resume_sources(&resumed.car.sources);
        skip(&mut chunks, &checkpoint, job)?;
        job.progress.add_earlier(checkpoint.consumed, checkpoint.framed.all().blocks);
    }
    let first = chunks.next(None)?;
    let router = match &resumed.car.router {
        Some(router) => router.clone(),
        None => {
            let router = learn_router(first.as_ref(), sort.partitions.bits, options.key).of_shard(options.shard);
            let by_reference = sort.by_reference && has_key;
            journal.append(&Entry::Routed { router: router.clone(), by_reference })?;
            router
        }
    };
    let extents = before.map_or(&[][..], |(_, extents)| extents);
    let marks = before.map_or(&[][..], |_| &resumed.car.marks);
    let spill = prepare_spill(job, sort, &router, &chunks)?.resume(extents, marks)?;
    let counts = Counts::new(chunks.sources(), before.map_or(&[][..], |_| &resumed.car.sources));

    let first_bytes = first.as_ref().map_or(0, |chunk| chunk.bytes.len() as u64);
    // By bytes only if partitions hold sections and use the page cache; otherwise by time. A network that is faster than the
    // disk waits for it.
    let by_bytes = spill.referenced.is_none() && !spill.is_direct();
    if spill.is_direct() && spilling {
        chunks.start_readers()?;
    }
    let clock = CheckpointClock::new(chunks.taken - first_bytes, by_bytes.then(|| router.partitions()));
    let clock = if sources.has_remote() { clock.for_network(plan.expected_bytes) } else { clock };
    let piece_bytes = planner::piece_bytes_for(plan, sort, router.partitions());
    let pieces = || Mutex::new(PartitionBuffers::new(router.partitions(), piece_bytes as usize));
    // Blocks that cannot be mapped are copied: a chunk of its own for each of many small files takes a page or more.
    let are_mapped = sources.names.len() <= MAX_MAPS && chunks.is_mapped() && sources.are_plain();
    let piece_size = WorkerBlocks::piece_size(sort.hold_bytes, piece_bytes);
    let shared = ReadState {
        job,
        sort,
        router: &router,
        spill: &spill,
        pieces: (0..plan.threads).map(|_| pieces()).collect(),
        spilling: AtomicBool::new(spilling),
        holders: AtomicUsize::new(if spilling { 0 } else { plan.threads }),
        held_bytes: AtomicU64::new(0),
        framed: Mutex::new(checkpoint.framed),
        copies: (options.shard.is_some() || options.filter.is_some() || !are_mapped).then_some(piece_size),
        counts,
        large: MemoryLimit::new(plan.memory / LARGE_SHARE),
        longest: AtomicU64::new(0),
    };
    let pull = Pull::new(SourceReader { chunks, first, clock, noted: checkpoint.source });
    let make = |(number, pieces)| Worker::new(&shared, number, pieces);
    let mut workers: Vec<_> = (0..).zip(&shared.pieces).map(make).collect();
    std::thread::scope(|scope| {
        // The sender is dropped at the end of this scope: the checkpoint thread then writes the last one and ends.
        let (checkpoints, pending) = checkpoint::channel();
        let (pull, spill) = (&pull, &spill);
        let write = move || checkpoint::write_checkpoints(&pending, spill, journal, |error| pull.fail(error));
        parallel::start(scope, write).map_or_else(|error| pull.fail(error), drop);
        pull.run(&mut workers, |worker| {
            let next = |source: &mut SourceReader, worker: &mut &mut Worker<'_>| {
                let next = match source.first.take() {
                    // The source position is already after this chunk, so a cancelled run must take it too.
                    Some(chunk) => Some(chunk),
                    None if options.stop.is_cancelled() => None,
                    None => {
                        shared.note_checkpoint(source, pull, &checkpoints)?;
                        shared.large.wait();
                        source.chunks.next(worker.spare.take())?
                    }
                };
                job.progress.reach(source.chunks.consumed());
                Ok(next.map(|chunk| (shared.take_share(&chunk), chunk)))
            };
            pull.each(&mut { worker }, next, |worker, (_share, chunk), _| worker.verify_chunk(chunk));
        });
    });
    let SourceReader { mut chunks, mut noted, .. } = pull.finish()?;
    let spilled = shared.spilling.load(Ordering::Relaxed);
    if spilled {
        for worker in &mut workers {
            // A worker may have ended before the budget was found too small.
            worker.spill_held_blocks()?;
        }
        for pieces in &shared.pieces {
            pieces.lock().flush(&spill)?;
        }
    }
    let verified = spill.content().and(workers.iter().map(|worker| worker.blocks.content()).sum());
    let checkpoint = shared.checkpoint(&chunks, verified);
    let tail = chunks.tail();
    chunks.warning().into_iter().for_each(|message| job.progress.report(&Event::Warning { message }));
    if options.stop.is_cancelled() {
        if spilled {
            let read = shared.with_extents(checkpoint, &mut chunks, &mut noted);
            spill.sync(&read.extents)?;
            journal.append(&Entry::Read(read))?;
        }
        return Err(Error::interrupted());
    }
    if let Some((known, _)) = &resumed.held
        && !known.is_same(&checkpoint)
    {
        let found = shared.counts.all(&mut chunks);
        let is_same = |known: &&SourceRead| {
            found.get(known.source as usize).is_some_and(|found| found.content() == known.content())
        };
        let changed = resumed.car.sources.iter().find(|known| !is_same(known));
        return Err(another_source(&chunks, changed.map(|known| known.source), options));
    }
    if spilled {
        let read = shared.with_extents(checkpoint, &mut chunks, &mut noted);
        spill.sync(&read.extents)?;
        failpoint::reach("read-done-synced");
        journal.append(&Entry::ReadDone { read, padding: tail.padding })?;
        failpoint::reach("read-done");
        drop(workers);
        let (sources, largest) = (shared.counts.all(&mut chunks), spill.largest());
        return Ok(ReadBlocks { stored: StoredBlocks::Spilled(spill), router, checkpoint, tail, sources, largest });
    }
    if resumed.held.is_none() {
        let delta = shared.take_delta(&mut chunks, &mut noted);
        journal.append(&Entry::Held { checkpoint, padding: tail.padding, delta })?;
    }
    let sources = shared.counts.all(&mut chunks);
    failpoint::reach("held");
    let workers = workers.into_iter().map(|worker| worker.blocks);
    // Partitions that an earlier run has built are not built again.
    let stored = StoredBlocks::of_workers(workers, &router, options.key, |partition| !resumed.is_built(partition));
    Ok(ReadBlocks { stored, router, checkpoint, tail, sources, largest: spill.largest() })
}

/// Resumes an earlier run that needs no more blocks from the sources; `None` if there is none.
pub(super) fn resume_read(job: &Job<'_>, sort: &SortPlan, chunks: &mut Chunks) -> Result<Option<ReadBlocks>> {
    let resumed = job.resumed;
    let has_all = resumed.car.read_done.is_some() || (resumed.ingested && resumed.held.is_some());
    let (Some(router), Some((checkpoint, padding)), true) = (resumed.car.router.clone(), resumed.whole(), has_all)
    else {
        return Ok(None);
    };
    check_whole(chunks, job)?;
    chunks.resume_sources(&resumed.car.sources);
    let (sources, tail) = (chunks.known(), Tail { padding });
    let Some((_, extents)) = resumed.car.read.as_ref().filter(|_| resumed.car.read_done.is_some()) else {
        let stored = StoredBlocks::of_workers([], &router, job.options.key, |_| false);
        return Ok(Some(ReadBlocks { stored, router, checkpoint, tail, sources, largest: Vec::new() }));
    };
    // The files of partitions that are built may be gone.
    let extents: Vec<_> = extents.iter().copied().filter(|(partition, _)| !resumed.is_built(*partition)).collect();
    let spill = prepare_spill(job, sort, &router, chunks)?.resume(&extents, &resumed.car.marks)?;
    let largest = spill.largest();
    let stored = StoredBlocks::Spilled(spill);
    Ok(Some(ReadBlocks { stored, router, checkpoint, tail, sources, largest }))
}

impl ReadState<'_> {
    /// Reports that the blocks exceed the memory for them, as a warning with `--plan memory`.
    fn report_spilling(&self) {
        let held_bytes = self.sort.hold_bytes;
        self.job.progress.report(&match self.job.options.plan {
            PlanChoice::Memory => Event::Warning {
                message: format!(
                    "the blocks do not fit the {} of memory that they may take: from here on they are spilled to files, \
                     in spite of --plan memory",
                    human(held_bytes)
                ),
            },
            PlanChoice::Auto | PlanChoice::Spill | PlanChoice::Source => Event::Spills { held_bytes },
        });
    }

    /// Takes the memory of a chunk that is one large block. Pages of a mapped file do not count.
    fn take_share(&self, chunk: &Chunk) -> Option<MemoryShare<'_>> {
        let is_large = chunk.bytes.len() as u64 >= LARGE && matches!(chunk.bytes, ChunkBytes::Read { .. });
        is_large.then(|| self.large.take_now(chunk.bytes.len() as u64))
    }

    /// Notes the large block of a chunk in its partition, which is then built with the memory for it.
    fn note_large(&self, chunk: &Chunk) {
        let layout = self.job.options.key;
        for block in chunk.starts.iter().filter_map(|&start| Block::at(chunk, start)) {
            let (_, route) = block.route(self.router, layout);
            self.spill.note_large(route.partition, chunk.bytes.len() as u64);
        }
    }

    /// Takes what the journal does not have yet of the sources.
    fn take_delta(&self, chunks: &mut Chunks, noted: &mut u32) -> SourceDelta {
        SourceDelta { sources: self.counts.take_delta(chunks, noted), marks: self.spill.take_new_marks() }
    }

    /// Completes a checkpoint. No worker may have a chunk.
    fn with_extents(&self, checkpoint: Checkpoint, chunks: &mut Chunks, noted: &mut u32) -> PartitionCheckpoint {
        PartitionCheckpoint { checkpoint, extents: self.spill.extents(), delta: self.take_delta(chunks, noted) }
    }

    fn checkpoint(&self, chunks: &Chunks, verified: Content) -> Checkpoint {
        let (Content { records, .. }, payload) = self.counts.total();
        Checkpoint::at(chunks, Content { records, ..verified }, payload, *self.framed.lock())
    }

    /// Sends a checkpoint if one is due. No worker can take a chunk meanwhile, because the caller has locked the source.
    fn note_checkpoint(
        &self,
        source: &mut SourceReader,
        pull: &Pull<SourceReader>,
        checkpoints: &Sender<PartitionCheckpoint>,
    ) -> Result<()> {
        if !self.spilling.load(Ordering::Relaxed) || self.holders.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        if !source.clock.is_due(source.chunks.taken, || checkpoints.is_empty()) {
            return Ok(());
        }
        // A chunk that a failed worker took half must not count as taken.
        let Some(idle_guard) = pull.idle() else { return Ok(()) };
        for pieces in &self.pieces {
            pieces.lock().flush(self.spill)?;
        }
        let checkpoint = self.checkpoint(&source.chunks, self.spill.content());
        let checkpoint = self.with_extents(checkpoint, &mut source.chunks, &mut source.noted);
        drop(idle_guard);
        // The checkpoint thread ends early only after a failure, which it reports itself.
        let _ = checkpoints.send(checkpoint);
        Ok(())
    }
}

/// One thread of the reading phase.
struct Worker<'a> {
    shared: &'a ReadState<'a>,
    reader: BlockReader<'a>,
    pieces: &'a Mutex<PartitionBuffers>,
    blocks: WorkerBlocks,
    /// True if blocks may still be in memory.
    holds: bool,
    spare: Option<Buffer>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a ReadState<'a>, number: u32, pieces: &'a Mutex<PartitionBuffers>) -> Self {
        Self {
            shared,
            reader: BlockReader::new(shared.job),
            pieces,
            blocks: WorkerBlocks::new(shared.router.partitions(), (number, shared.pieces.len() as u32), shared.copies),
            holds: !shared.spilling.load(Ordering::Relaxed),
            spare: None,
        }
    }

    /// Verifies and routes the blocks of one chunk.
    fn verify_chunk(&mut self, mut chunk: Chunk) -> Result<()> {
        let shared = self.shared;
        let options = shared.job.options;
        let mut framed = ClassCounts::default();
        let all = chunk.starts.len() as u64;
        if options.shard.is_some() {
            self.drop_others(&mut chunk, &mut framed);
        }
        if chunk.bytes.len() as u64 >= LARGE {
            shared.note_large(&chunk);
        }
        let spilling = self.must_spill(&chunk)?;
        let layout = options.key;
        let digest_key = shared.job.resumed.digest_key.as_ref();
        let (mut payload, mut content_here) = (0, Content::default());
        let mut pieces = self.pieces.lock();
        // References name their source themselves.
        let by_reference = shared.spill.referenced.is_some();
        pieces.set_source(if by_reference { 0 } else { chunk.source });
        let Self { reader, blocks, .. } = self;
        let ahead = chunk.bytes.ahead(shared.pieces.len());
        // Most of the next blocks are of other shards.
        let ahead = if options.shard.is_some() { &[] } else { ahead };
        reader.each(&chunk, ahead, |block| {
            let (record, route) = block.route(shared.router, layout);
            payload += block.value_len();
            // The block is still in the core's cache after it was hashed.
            let digest = record.checked_digest(digest_key);
            content_here.add(digest);
            if options.shard.is_none() {
                framed.add(route, block.value_len());
            }
            if spilling {
                let whole = block.whole();
                let reference = Reference { at: block.place(&chunk), len: whole.len() as u32, source: chunk.source };
                let kept = if by_reference { reference.as_bytes() } else { whole };
                pieces.add(shared.spill, route.partition, kept, digest)?;
            } else {
                blocks.add(route, &chunk, block, digest)?;
            }
            Ok(())
        })?;
        drop(pieces);
        shared.framed.lock().merge(&framed);
        shared.counts.add(chunk.source, content_here, payload, reader.take_omitted());
        shared.job.progress.add(0, all);
        if spilling || shared.copies.is_some() {
            // The memory of a large block is freed at once: others may need it.
            self.spare = chunk.bytes.release().filter(|spare| (spare.len() as u64) < LARGE);
        } else {
            self.blocks.keep(chunk);
        }
        Ok(())
    }

    /// Drops the blocks of other shards from a chunk, and counts all.
    fn drop_others(&self, chunk: &mut Chunk, framed: &mut ClassCounts) {
        let layout = self.shared.job.options.key;
        let mut starts = std::mem::take(&mut chunk.starts);
        starts.retain(|&start| {
            // A section that cannot be read is reported by the reader of blocks.
            let Some(block) = Block::at(chunk, start) else { return true };
            let (_, route) = block.route(self.shared.router, layout);
            framed.add(route, block.value_len());
            route.is_own
        });
        chunk.starts = starts;
    }

    /// True if this chunk must go to disk because the budget is exhausted.
    fn must_spill(&mut self, chunk: &Chunk) -> Result<bool> {
        let shared = self.shared;
        if !shared.spilling.load(Ordering::Relaxed) {
            let entries = chunk.starts.len() * size_of::<SortEntry>() * 3 / 2;
            let bytes = match shared.job.options.shard {
                // Only its own blocks are kept.
                Some(_) => {
                    let own = chunk.starts.iter().filter_map(|&start| Block::at(chunk, start));
                    own.map(|block| block.whole().len()).sum()
                }
                None => chunk.bytes.len(),
            };
            let mut more = (bytes + entries + std::mem::take(&mut self.blocks.unused)) as u64;
            if bytes as u64 >= LARGE {
                // Blocks in memory and one large block, which is built at a time, must fit together.
                let before = shared.longest.fetch_max(bytes as u64, Ordering::Relaxed);
                more += SST_COPIES * (bytes as u64).saturating_sub(before);
            }
            let held = shared.held_bytes.fetch_add(more, Ordering::Relaxed) + more;
            if held <= shared.sort.hold_bytes {
                return Ok(false);
            }
            if !shared.spilling.swap(true, Ordering::Relaxed) {
                shared.report_spilling();
            }
        }
        self.spill_held_blocks()?;
        Ok(true)
    }

    /// Moves the blocks of this worker from memory to the partitions on disk.
    fn spill_held_blocks(&mut self) -> Result<()> {
        if !self.holds {
            return Ok(());
        }
        let layout = self.shared.job.options.key;
        let digest_key = self.shared.job.resumed.digest_key.as_ref();
        let mut pieces = self.pieces.lock();
        let (verified, held) = self.blocks.take();
        let mut moved = Content::default();
        for (bytes, marks) in held {
            let mut at = 0;
            while let Ok(Step::Section(section)) = next_section(&bytes, at, u64::MAX) {
                let (record, route) = self.shared.router.route_section(&bytes, &section, layout);
                let digest = record.checked_digest(digest_key);
                pieces.set_source(source_at(&marks, at as u64));
                pieces.add(self.shared.spill, route.partition, section.whole(&bytes), digest)?;
                moved.add(digest);
                at = section.end;
            }
            bytes.check()?;
            bytes.release();
        }
        if moved != verified {
            let what = format!(
                "{} records were read again, which are not the {} that were verified",
                moved.records, verified.records
            );
            return Err(changed(&self.shared.job.sources.shown(), &what));
        }
        self.holds = false;
        self.shared.holders.fetch_sub(1, Ordering::Release);
        Ok(())
    }
}
