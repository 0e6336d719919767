//! Reading the source: every thread takes the next chunk in turn, then checks and routes its blocks beside the others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::load::car::blocks::{Block, BlockReader};
use crate::load::car::counts::Counts;
use crate::load::car::earlier;
use crate::load::car::held::{Held, Hold};
use crate::load::checkpoint;
use crate::load::checkpoint::{Clock, PendingCheckpoint};
use crate::load::journal::{Checkpoint, Entry, Journal, ResumedState, SourceNews};
use crate::load::links::LinkList;
use crate::load::options::{ImportOptions, PlanChoice};
use crate::load::planner;
use crate::load::sink::batches::block_share;
use crate::load::sink::sst::SST_COPIES;
use crate::load::source_identity::changed;
use crate::load::sources::Sources;
use crate::os::buffer::Buffer;
use crate::os::mmap::MAX_MAPS;
use crate::parallel::{self, MemoryLimit, MemoryShare, Pull};
use crate::progress::{Event, Progress};
use crate::report::{Plan, SortPlan};
use crate::sort::entries::Entry as SortEntry;
use crate::sort::key::KeyLayout;
use crate::sort::marks::source_at;
use crate::sort::pieces::PartitionBuffers;
use crate::sort::references::{Reference, ReferencedSource, ReferencedSources};
use crate::sort::router::{ClassCounts, Router};
use crate::sort::spill::{LARGE, Spill};
use crate::source::car::chunk::{Chunk, ChunkBytes};
use crate::source::car::chunks::{Chunks, Tail};
use crate::source::car::sources::SourceRead;
use crate::source::car::{Step, next_section};
use crate::text::size::human;

/// Bytes of sections that the classes of keys are learned from, at most, and the first section in any case. Less than a chunk,
/// however little memory there is: the classes decide where files end.
const SAMPLE: usize = 448 << 10;

/// The share of the budget, as its reciprocal, that large blocks in the hands of workers may take before the next chunk is
/// read. One large block is always read.
const LARGE_SHARE: u64 = 16;

/// Sources that stay open while partitions that refer to them are built; of more, each is opened when it is needed.
const KEPT_OPEN: usize = 16;

/// The blocks of the sources, checked and routed.
pub(in crate::load) struct Blocks {
    pub router: Router,
    pub held: Held,
    pub checkpoint: Checkpoint,
    pub tail: Tail,
    /// What was read of each source.
    pub sources: Vec<SourceRead>,
    /// For each partition, the length of its longest section of [`LARGE`] bytes or more.
    pub largest: Vec<u64>,
}

/// The input of reading.
pub(in crate::load) struct ReadContext<'a> {
    pub options: &'a ImportOptions,
    pub sources: &'a Arc<Sources>,
    pub plan: &'a Plan,
    pub sort: &'a SortPlan,
    pub progress: &'a Progress<'a>,
    pub spill_dir: &'a Path,
    pub journal: &'a Journal,
    /// What an earlier run has done.
    pub resumed: &'a ResumedState,
    /// Where keys and links go, if these are to be compared.
    pub links: Option<&'a LinkList>,
}

/// The state that the workers share.
struct Shared<'a> {
    reading: &'a ReadContext<'a>,
    router: &'a Router,
    spill: &'a Spill,
    /// What each worker has collected for the partitions.
    pieces: Vec<Mutex<PartitionBuffers>>,
    /// Set once more is held than the plan allows: from then on everything goes to disk.
    spilling: AtomicBool,
    /// Workers that still hold chunks in memory from before.
    holders: AtomicUsize,
    held_bytes: AtomicU64,
    blocks: AtomicU64,
    payload: AtomicU64,
    framed: Mutex<ClassCounts>,
    /// Where blocks are copied out of their chunks, the bytes of the pieces that they are copied to.
    copies: Option<usize>,
    counts: Counts,
    /// Memory of large blocks that workers have in hand, and the length of the longest one.
    large: MemoryLimit,
    longest: AtomicU64,
}

/// The part of reading that one thread does at a time.
struct Source {
    chunks: Chunks,
    /// The chunk that the router learned from: no worker has taken it yet, though the source is read beyond it.
    first: Option<Chunk>,
    clock: Clock,
    /// The first source of which the journal does not have everything.
    noted: u32,
}

impl ReadContext<'_> {
    /// Reads everything, from where an earlier run stopped.
    pub fn run(&self, mut chunks: Chunks) -> Result<Blocks> {
        let before = self.resumed.read.as_ref().filter(|_| self.resumed.router.is_some());
        let spilling = self.sort.spill || before.is_some();
        // Without a key nothing is read twice: a resumed import may have another plan than the run that began.
        let has_key = self.resumed.digest_key.is_some();
        if !spilling && has_key {
            chunks.map();
        }
        let mut checkpoint = Checkpoint::default();
        if let Some((known, _)) = before {
            checkpoint = *known;
            chunks.resume_sources(&self.resumed.sources);
            earlier::skip(&mut chunks, &checkpoint, self.options, self.resumed, self.links)?;
            self.progress.take_up(checkpoint.consumed, checkpoint.framed.all().blocks);
        }
        let first = chunks.next(None)?;
        let router = match &self.resumed.router {
            Some(router) => router.clone(),
            None => {
                let router = learn(first.as_ref(), self.sort.partitions.bits, self.options.key);
                let router = router.of_shard(self.options.shard);
                let by_reference = self.sort.by_reference && has_key;
                self.journal.append(&Entry::Routed { router: router.clone(), by_reference })?;
                router
            }
        };
        let extents = before.map_or(&[][..], |(_, extents)| extents);
        let marks = before.map_or(&[][..], |_| &self.resumed.marks);
        let spill = self.spill(&router, &chunks)?.resume(extents, marks)?;
        let known = before.map_or(&[][..], |_| &self.resumed.sources);
        let counts = Counts::new(chunks.sources(), known);

        let first_bytes = first.as_ref().map_or(0, |chunk| chunk.bytes.len() as u64);
        let is_remote = self.sources.has_remote();
        // Files that only refer to blocks are small. What bypasses the page cache is written without a checkpoint. A network
        // that is faster than the disk waits for it.
        let by_bytes = spill.referenced().is_none() && !spill.is_direct();
        if spill.is_direct() && spilling {
            chunks.start_readers()?;
        }
        let clock = Clock::new(chunks.taken() - first_bytes, by_bytes.then(|| router.partitions()));
        let clock = if is_remote { clock.of_network(self.plan.expected_bytes) } else { clock };
        let piece_bytes = planner::piece_bytes_for(self.plan, self.sort, router.partitions());
        let pieces = || Mutex::new(PartitionBuffers::new(router.partitions(), piece_bytes as usize));
        // What cannot be mapped is copied: a chunk of its own for each of many small files takes a page or more.
        let are_few = self.sources.names().len() <= MAX_MAPS;
        let are_mapped = are_few && chunks.is_mapped() && self.sources.are_plain();
        let room = Hold::room(self.sort.hold_bytes, piece_bytes);
        let shared = Shared {
            reading: self,
            router: &router,
            spill: &spill,
            pieces: (0..self.plan.threads).map(|_| pieces()).collect(),
            spilling: AtomicBool::new(spilling),
            holders: AtomicUsize::new(if spilling { 0 } else { self.plan.threads }),
            held_bytes: AtomicU64::new(0),
            blocks: AtomicU64::new(checkpoint.blocks),
            payload: AtomicU64::new(checkpoint.payload),
            framed: Mutex::new(checkpoint.framed),
            copies: (self.options.shard.is_some() || !are_mapped).then_some(room),
            counts,
            large: MemoryLimit::new(self.plan.memory / LARGE_SHARE),
            longest: AtomicU64::new(0),
        };
        let noted = checkpoint.source;
        let pull = Pull::new(Source { chunks, first, clock, noted });
        let make = |(number, pieces)| Worker::new(&shared, number, pieces);
        let mut workers: Vec<_> = (0..).zip(&shared.pieces).map(make).collect();
        std::thread::scope(|scope| {
            // The sender is dropped at the end of this scope: the keeper then makes the last checkpoint durable and ends.
            let (checkpoints, pending) = checkpoint::channel();
            let (pull, spill) = (&pull, &spill);
            let keep = move || checkpoint::keep(&pending, spill, self.journal, |error| pull.fail(error));
            parallel::start(scope, keep).map_or_else(|error| pull.fail(error), drop);
            pull.run(&mut workers, |worker| {
                let next = |source: &mut Source, worker: &mut &mut Worker<'_>| {
                    let next = match source.first.take() {
                        // Taken even after a cancellation: the source is read beyond it.
                        Some(chunk) => Some(chunk),
                        None if self.options.stop.is_cancelled() => None,
                        None => {
                            shared.note_checkpoint(source, pull, &checkpoints)?;
                            shared.large.wait();
                            source.chunks.next(worker.spare.take())?
                        }
                    };
                    self.progress.reach(source.chunks.consumed());
                    Ok(next.map(|chunk| (shared.shset_source(&chunk), chunk)))
                };
                pull.each(&mut { worker }, next, |worker, (_share, chunk), _| worker.take(chunk));
            });
        });
        let Source { mut chunks, mut noted, .. } = pull.finish()?;
        let spilled = shared.spilling.load(Ordering::Relaxed);
        if spilled {
            for worker in &mut workers {
                // A worker may have ended before the budget was found too small.
                worker.spill_what_is_held()?;
            }
            for pieces in &shared.pieces {
                pieces.lock().flush(&spill)?;
            }
        }
        let mut verified = spill.content();
        workers.iter().for_each(|worker| verified.merge(worker.hold.content()));
        let checkpoint = shared.checkpoint(&chunks, verified);
        let tail = chunks.tail();
        let warning = chunks.warning().map(|message| Event::Warning { message });
        warning.iter().for_each(|warning| self.progress.report(warning));
        if self.options.stop.is_cancelled() {
            if spilled {
                let extents = spill.extents();
                spill.sync(&extents)?;
                let news = shared.news(&mut chunks, &mut noted);
                self.journal.append(&Entry::Read { checkpoint, extents, news })?;
            }
            return Err(Error::interrupted());
        }
        if let Some((known, _)) = &self.resumed.held
            && !known.is_same(&checkpoint)
        {
            let found = shared.counts.all(&mut chunks);
            let is_same = |known: &&SourceRead| {
                found.get(known.source as usize).is_some_and(|found| found.content() == known.content())
            };
            let changed = self.resumed.sources.iter().find(|known| !is_same(known));
            return Err(earlier::another_source(&chunks, changed.map(|known| known.source), self.options));
        }
        let news = shared.news(&mut chunks, &mut noted);
        let sources = shared.counts.take(&mut chunks);
        if spilled {
            let extents = spill.extents();
            spill.sync(&extents)?;
            failpoint::reach("read-done-synced");
            self.journal.append(&Entry::ReadDone { checkpoint, extents, padding: tail.padding, news })?;
            failpoint::reach("read-done");
            drop(workers);
            let largest = spill.largest();
            return Ok(Blocks { held: Held::Spilled(spill), router, checkpoint, tail, sources, largest });
        }
        if self.resumed.held.is_none() {
            self.journal.append(&Entry::Held { checkpoint, padding: tail.padding, news })?;
        }
        failpoint::reach("held");
        // What an earlier run has built need not be built again.
        let is_wanted = |partition| !self.resumed.is_built(partition);
        let holds = workers.into_iter().map(|worker| worker.hold);
        let held = Held::of_workers(holds, &router, self.options.key, is_wanted);
        Ok(Blocks { held, router, checkpoint, tail, sources, largest: spill.largest() })
    }

    /// The partitions, which refer to the source where the run that made them decided so.
    fn spill(&self, router: &Router, chunks: &Chunks) -> Result<Spill> {
        let by_reference =
            self.resumed.by_reference.unwrap_or(self.sort.by_reference && self.resumed.digest_key.is_some());
        let spill = Spill::new(self.spill_dir.to_owned(), router.partitions());
        let referred = if by_reference { self.referred(chunks)? } else { None };
        let piece_bytes = planner::piece_bytes_for(self.plan, self.sort, router.partitions());
        // What comes over a network has a checkpoint every moment, each with a block of padding for every partition.
        let cached = self.sort.cached || self.sources.has_remote();
        // The run that began may have had more memory, and have accepted larger blocks.
        let spill = match self.resumed.read {
            Some(_) => spill.within(self.options.memory_budget(), block_share(self.plan)),
            None => spill,
        };
        spill.refer_to(referred).cached(cached, piece_bytes, self.plan.threads)
    }

    /// The files that partitions refer to; `None` where the source is none.
    fn referred(&self, chunks: &Chunks) -> Result<Option<ReferencedSources>> {
        let names = self.sources.names();
        let mut sources = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let file = match names.len() {
                // It may have no name that could be opened again.
                1 => match chunks.file() {
                    Some(file) => Some(file.try_clone().map_err(Error::io("open", name))?),
                    None => return Ok(None),
                },
                2..=KEPT_OPEN => Some(self.sources.reopen(number)?),
                _ => None,
            };
            let bytes = match (&file, self.sources.bytes().get(number)) {
                (_, Some(Some(bytes))) => *bytes,
                (Some(file), _) => file.metadata().map_err(Error::io("look at", name))?.len(),
                (None, _) => return Ok(None),
            };
            sources.push(ReferencedSource { name: name.clone(), bytes, file });
        }
        let known = Arc::clone(self.sources);
        Ok(Some(ReferencedSources { sources, open: Box::new(move |number| known.reopen(number)) }))
    }

    /// Reports that the blocks do not fit the memory for them: as a warning where the caller asked for `--plan memory`.
    fn report_spilling(&self) {
        let held_bytes = self.sort.hold_bytes;
        self.progress.report(&match self.options.plan {
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

    /// Resumes the work of an earlier run that needs nothing more from the source; `None` if there is none.
    pub fn done_before(&self, chunks: &mut Chunks) -> Result<Option<Blocks>> {
        let Some(router) = &self.resumed.router else { return Ok(None) };
        if let (true, Some((checkpoint, padding))) = (self.resumed.ingested, self.resumed.held) {
            earlier::is_whole(chunks, self.resumed, self.options, self.links)?;
            let sources = earlier::all(chunks, self.resumed);
            let held = Held::of_workers([], router, self.options.key, |_| false);
            let tail = Tail { padding };
            return Ok(Some(Blocks { router: router.clone(), held, checkpoint, tail, sources, largest: Vec::new() }));
        }
        let (Some((checkpoint, extents)), Some(padding)) = (&self.resumed.read, self.resumed.read_done) else {
            return Ok(None);
        };
        earlier::is_whole(chunks, self.resumed, self.options, self.links)?;
        // The files of partitions that are built may be gone.
        let extents: Vec<_> =
            extents.iter().copied().filter(|(partition, _)| !self.resumed.is_built(*partition)).collect();
        let sources = earlier::all(chunks, self.resumed);
        let spill = self.spill(router, chunks)?.resume(&extents, &self.resumed.marks)?;
        let tail = Tail { padding };
        let largest = spill.largest();
        let (held, checkpoint) = (Held::Spilled(spill), *checkpoint);
        Ok(Some(Blocks { held, router: router.clone(), checkpoint, tail, sources, largest }))
    }
}

/// Learns the classes of keys from the beginning of the first chunk.
fn learn(first: Option<&Chunk>, bits: u32, layout: KeyLayout) -> Router {
    let sample = first.into_iter().flat_map(|chunk| {
        chunk.starts.iter().filter_map(move |&start| {
            let block = Block::at(chunk, start)?;
            let block = Some(block).filter(|block| start == 0 || block.section.end <= SAMPLE)?;
            Some((block.record(layout).key(), layout.digest_in_key(&block.section.cid)))
        })
    });
    Router::learn(sample, bits)
}

impl Shared<'_> {
    /// Takes the memory of a chunk that is one large block. Pages of a mapped file are none of ours.
    fn shset_source(&self, chunk: &Chunk) -> Option<MemoryShare<'_>> {
        let is_large = chunk.bytes.len() as u64 >= LARGE && matches!(chunk.bytes, ChunkBytes::Read { .. });
        is_large.then(|| self.large.take_now(chunk.bytes.len() as u64))
    }

    /// Notes the large block of a chunk in its partition, whose files are then built with the memory for it.
    fn note_large(&self, chunk: &Chunk) {
        let layout = self.reading.options.key;
        for block in chunk.starts.iter().filter_map(|&start| Block::at(chunk, start)) {
            let (_, route) = block.route(self.router, layout);
            self.spill.note_large(route.partition, chunk.bytes.len() as u64);
        }
    }

    /// What the journal does not have yet of the sources.
    fn news(&self, chunks: &mut Chunks, noted: &mut u32) -> SourceNews {
        SourceNews { sources: self.counts.take_delta(chunks, noted), marks: self.spill.take_new_marks() }
    }

    fn checkpoint(&self, chunks: &Chunks, verified: Content) -> Checkpoint {
        Checkpoint {
            source: chunks.source(),
            offset: chunks.position(),
            consumed: chunks.consumed(),
            checksum: chunks.checksum(),
            restart: chunks.restart(),
            blocks: self.blocks.load(Ordering::Relaxed),
            payload: self.payload.load(Ordering::Relaxed),
            digest: verified.digest,
            framed: *self.framed.lock(),
        }
    }

    /// Notes a checkpoint if one is due. No worker can take a chunk meanwhile: the caller holds the source.
    fn note_checkpoint(
        &self,
        source: &mut Source,
        pull: &Pull<Source>,
        checkpoints: &Sender<PendingCheckpoint>,
    ) -> Result<()> {
        if !self.spilling.load(Ordering::Relaxed) || self.holders.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        if !source.clock.is_due(source.chunks.taken(), || checkpoints.is_empty()) {
            return Ok(());
        }
        // Half a chunk of a worker that failed must not count as taken.
        let Some(nothing_in_hand) = pull.idle() else { return Ok(()) };
        for pieces in &self.pieces {
            pieces.lock().flush(self.spill)?;
        }
        let checkpoint = PendingCheckpoint {
            checkpoint: self.checkpoint(&source.chunks, self.spill.content()),
            extents: self.spill.extents(),
            news: self.news(&mut source.chunks, &mut source.noted),
        };
        drop(nothing_in_hand);
        // The keeper is gone only after a failure, which is reported where it is noted.
        let _ = checkpoints.send(checkpoint);
        Ok(())
    }
}

/// One thread of the reading phase.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    reader: BlockReader<'a>,
    pieces: &'a Mutex<PartitionBuffers>,
    hold: Hold,
    /// Whether chunks may still be held in memory.
    holds: bool,
    spare: Option<Buffer>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, number: u32, pieces: &'a Mutex<PartitionBuffers>) -> Self {
        Self {
            shared,
            reader: BlockReader::new(shared.reading.options, shared.reading.journal, shared.reading.links),
            pieces,
            hold: Hold::new(shared.router.partitions(), (number, shared.pieces.len() as u32), shared.copies),
            holds: !shared.spilling.load(Ordering::Relaxed),
            spare: None,
        }
    }

    /// Checks and routes the blocks of one chunk.
    fn take(&mut self, mut chunk: Chunk) -> Result<()> {
        let shared = self.shared;
        let options = shared.reading.options;
        let mut framed = ClassCounts::default();
        let all = chunk.starts.len() as u64;
        if options.shard.is_some() {
            self.pass_over_others(&mut chunk, &mut framed);
        }
        if chunk.bytes.len() as u64 >= LARGE {
            shared.note_large(&chunk);
        }
        let spilling = self.may_not_hold(&chunk)?;
        let layout = options.key;
        let digest_key = shared.reading.resumed.digest_key.as_ref();
        let (mut payload, mut content_here) = (0, Content::default());
        let mut pieces = self.pieces.lock();
        // References name their source themselves.
        let by_reference = shared.spill.referenced().is_some();
        pieces.set_source(if by_reference { 0 } else { chunk.source });
        let Self { reader, hold, .. } = self;
        let ahead = chunk.bytes.ahead(shared.pieces.len());
        // Most of what comes next is of other shards.
        let ahead = if options.shard.is_some() { &[] } else { ahead };
        reader.each(&chunk, ahead, |block| {
            let (record, route) = block.route(shared.router, layout);
            payload += block.value_len();
            // Summed while the block is in the core's cache, which its hash has brought it into.
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
                hold.add(route, &chunk, block, digest)?;
            }
            Ok(())
        })?;
        drop(pieces);
        let blocks = chunk.starts.len() as u64;
        shared.blocks.fetch_add(blocks, Ordering::Relaxed);
        shared.payload.fetch_add(payload, Ordering::Relaxed);
        shared.framed.lock().merge(&framed);
        shared.counts.add(chunk.source, content_here, payload);
        shared.reading.progress.add(0, all);
        if spilling || shared.copies.is_some() {
            // The memory of a large block goes back at once: others may need it.
            self.spare = chunk.bytes.release().filter(|spare| (spare.len() as u64) < LARGE);
        } else {
            self.hold.keep(chunk);
        }
        Ok(())
    }

    /// Leaves the blocks of other shards out of a chunk, and counts all.
    fn pass_over_others(&self, chunk: &mut Chunk, framed: &mut ClassCounts) {
        let layout = self.shared.reading.options.key;
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

    /// Whether this chunk must go to disk, because the budget is exhausted.
    fn may_not_hold(&mut self, chunk: &Chunk) -> Result<bool> {
        let shared = self.shared;
        if !shared.spilling.load(Ordering::Relaxed) {
            let entries = chunk.starts.len() * size_of::<SortEntry>() * 3 / 2;
            let bytes = match shared.reading.options.shard {
                // Only its own blocks are kept.
                Some(_) => {
                    let own = chunk.starts.iter().filter_map(|&start| Block::at(chunk, start));
                    own.map(|block| block.whole().len()).sum()
                }
                None => chunk.bytes.len(),
            };
            let mut more = (bytes + entries + self.hold.unused()) as u64;
            if bytes as u64 >= LARGE {
                // One of the large blocks is built at a time, beside all that is held.
                let before = shared.longest.fetch_max(bytes as u64, Ordering::Relaxed);
                more += SST_COPIES * (bytes as u64).saturating_sub(before);
            }
            let held = shared.held_bytes.fetch_add(more, Ordering::Relaxed) + more;
            if held <= shared.reading.sort.hold_bytes {
                return Ok(false);
            }
            if !shared.spilling.swap(true, Ordering::Relaxed) {
                shared.reading.report_spilling();
            }
        }
        self.spill_what_is_held()?;
        Ok(true)
    }

    /// Moves everything that is held in memory to the partitions on disk.
    fn spill_what_is_held(&mut self) -> Result<()> {
        if !self.holds {
            return Ok(());
        }
        let layout = self.shared.reading.options.key;
        let digest_key = self.shared.reading.resumed.digest_key.as_ref();
        let mut pieces = self.pieces.lock();
        let (verified, held) = self.hold.take();
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
            return Err(changed(&self.shared.reading.sources.shown(), &what));
        }
        self.holds = false;
        self.shared.holders.fetch_sub(1, Ordering::Release);
        Ok(())
    }
}
