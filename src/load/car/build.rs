//! Building SST files: partitions in the order of their keys, each sorted on its own, on all threads.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::load::built::FamilyDone;
use crate::load::built::Tally;
use crate::load::car::blocks::conflict;
use crate::load::car::held::Held;
use crate::load::car::read::Blocks;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::load::planner::WORKER_FIXED;
use crate::load::sink::sst::{RotatingSstWriter, SST_COPIES, SstFolder};
use crate::load::source_identity::changed;
use crate::load::sources::Sources;
use crate::load::uploads::Uploads;
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::os::files::sync_dir;
use crate::parallel::{self, MemoryLimit};
use crate::progress::Progress;
use crate::report::{Plan, SortPlan};
use crate::rocks::SstOptions;
use crate::sort::borders::Borders;
use crate::sort::entries::{BlockArena, Entry as SortEntry};
use crate::sort::key::Record;
use crate::sort::router::{Group, Router};
use crate::sort::runs::Runs;
use crate::sort::spill::{Extent, Spill};
use crate::source::car::chunk::{ChunkBytes, prefetch_ahead};
use crate::source::car::{Section, Step, next_section};

/// The least memory for sorting a partition outside of memory, in bytes: less makes too many runs.
const LEAST_RUNS: u64 = 4 << 20;

/// Records between two bumps of the progress counters.
const BATCH: u64 = 256;

/// The input of building.
pub(in crate::load) struct BuildContext<'a> {
    pub options: &'a ImportOptions,
    pub sources: &'a Sources,
    pub plan: &'a Plan,
    pub sort: &'a SortPlan,
    pub sst: &'a SstOptions,
    /// Where the files go.
    pub dir: &'a Path,
    pub progress: &'a Progress<'a>,
    pub journal: &'a Journal,
    pub uploads: Option<&'a Uploads<'a>>,
    /// What an earlier run has done.
    pub resumed: &'a ResumedState,
}

/// Builds the SSTs of everything held that an earlier run has not built, and returns all of them.
pub(in crate::load) fn build(blocks: &Blocks, building: &BuildContext<'_>) -> Result<FamilyDone> {
    let BuildContext { plan, resumed, .. } = *building;
    let jobs = jobs(blocks, plan, resumed);
    let Blocks { held, router, largest, .. } = blocks;
    let longest = largest.iter().copied().max().unwrap_or_default();
    let room = match held {
        Held::Spilled(_) => building.options.memory_budget() - plan.links_bytes,
        // Beside the blocks, for which reading has left it free.
        Held::Memory { .. } => SST_COPIES * longest,
    };
    let builder = Builder {
        building,
        folder: SstFolder::new(building.dir, plan.sst_bytes, &resumed.files),
        stopped: AtomicBool::new(false),
        router,
        largest,
        room,
        limit: (longest > 0).then(|| MemoryLimit::new(room)),
    };
    let make = || (FamilyDone::default(), None);
    // Where all cores may be used, one worker more: it uses them while another waits until the disk has its file. Workers of
    // spilled partitions have a share of the memory each, so no other is added.
    let waits = matches!(held, Held::Memory { .. }) && plan.threads >= parallel::cores();
    let stop = |_: &Error| builder.stopped.store(true, Ordering::Relaxed);
    let workers = std::thread::scope(|scope| {
        // Freeing a file waits for a disk that is told what is free: no worker does, unless the disk falls behind.
        let (built_ones, unneeded) = crossbeam_channel::bounded::<Range<u32>>(plan.threads);
        let deleting = match held {
            Held::Spilled(spill) => {
                let delete = move || unneeded.iter().flatten().try_for_each(|partition| spill.delete(partition));
                Some(parallel::start(scope, move || delete().inspect_err(stop))?)
            }
            Held::Memory { .. } => {
                drop(unneeded);
                None
            }
        };
        let workers =
            parallel::for_each(plan.threads + usize::from(waits), jobs.len(), make, |(built, spare), item| {
                built.add(&builder.job(&jobs[item], held, spare).inspect_err(stop)?);
                // Their blocks are in synced files now; the disk never holds both for long. An error: nobody deletes, or that
                // failed and ends this as well.
                let _ = built_ones.send(jobs[item].partitions.clone());
                Ok(())
            });
        drop(built_ones);
        let deleted = deleting.map_or(Ok(Ok(())), |deleting| deleting.join());
        // What it stopped ended as interrupted: the reason is its own.
        deleted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        workers
    })?;
    let (files, repeats) = (resumed.files.clone(), resumed.repeats.clone());
    let mut built = FamilyDone { files, tally: resumed.tally, repeats };
    workers.iter().for_each(|(made, _)| built.add(made));
    Ok(built)
}

/// What one worker builds at a time: the partitions of one file or more that an earlier run has not built.
fn jobs(blocks: &Blocks, plan: &Plan, resumed: &ResumedState) -> Vec<Group> {
    let holds_some = |partition: u32| match &blocks.held {
        Held::Memory { entries, .. } => entries.get(partition as usize).is_some_and(|entries| entries.len() > 0),
        Held::Spilled(spill) => spill.extent(partition).bytes > 0,
    };
    let framed = &blocks.checkpoint.framed;
    let groups = blocks.router.groups(framed, plan.sst_target(framed.all().bytes));
    let is_left = |one: u32| holds_some(one) && !resumed.is_built(one);
    groups.into_iter().filter(|group| group.partitions.clone().any(is_left)).collect()
}

struct Builder<'a> {
    building: &'a BuildContext<'a>,
    folder: SstFolder<'a>,
    stopped: AtomicBool,
    router: &'a Router,
    /// For each partition, the length of its longest large section.
    largest: &'a [u64],
    /// Memory for building, in bytes; shared out among the workers if any section is large.
    room: u64,
    limit: Option<MemoryLimit>,
}

impl<'a> Deref for Builder<'a> {
    type Target = BuildContext<'a>;
    fn deref(&self) -> &BuildContext<'a> {
        self.building
    }
}

impl Builder<'_> {
    /// Builds the SSTs of some partitions; `spare` is memory to read the next ones into. If a partition has a large section,
    /// no more workers build at the same time than have room for it.
    fn job(&self, group: &Group, held: &Held, spare: &mut Option<Buffer>) -> Result<FamilyDone> {
        let Some(limit) = &self.limit else { return self.build(group, held, spare) };
        let needs = |partition| self.needs(held, partition);
        let bytes = group.partitions.clone().map(needs).max().unwrap_or_default();
        let _share = (bytes > 0).then(|| limit.take(bytes));
        // Memory that is kept for the next partition is not part of a share.
        let built = self.build(group, held, spare);
        *spare = None;
        built
    }

    fn largest(&self, partition: u32) -> u64 {
        self.largest.get(partition as usize).copied().unwrap_or_default()
    }

    /// Returns the memory for sorting a partition in memory, and for sorting it outside of memory, in bytes. RocksDB's copies of
    /// a large section come on top, and the section itself if it is not part of a partition in memory.
    fn sort_bytes(&self, partition: u32) -> (u64, u64) {
        let all = self.sort.partitions.sort_bytes;
        let largest = self.largest(partition);
        if largest == 0 {
            return (all, all);
        }
        let rest = self.room.saturating_sub(SST_COPIES * largest + WORKER_FIXED);
        // The readers of runs take half of it.
        (all.min(rest), all.min((2 * rest.saturating_sub(largest)).max(LEAST_RUNS)))
    }

    /// The most memory that building a partition takes, in bytes.
    fn needs(&self, held: &Held, partition: u32) -> u64 {
        let largest = self.largest(partition);
        let copies = SST_COPIES * largest;
        let Held::Spilled(spill) = held else { return copies };
        let (in_memory, outside) = self.sort_bytes(partition);
        let Extent { bytes, blocks, .. } = spill.extent(partition);
        // References are small; their sections fill what there is.
        let bytes = if spill.referenced().is_some() { in_memory } else { bytes };
        let whole = bytes + blocks * size_of::<SortEntry>() as u64;
        WORKER_FIXED + copies + if whole <= in_memory { whole } else { outside + largest }
    }

    fn build(&self, group: &Group, held: &Held, spare: &mut Option<Buffer>) -> Result<FamilyDone> {
        let Group { partitions: job, borders } = group;
        let mut output = Output::new(self, borders.clone());
        for partition in job.clone() {
            self.may_go_on()?;
            match held {
                Held::Memory { arena, copies, entries, contents } => {
                    let mut entries = entries[partition as usize].take();
                    // Dropped once its records are in files: these take the pages that it had.
                    let copies = copies.get(partition as usize).and_then(|copies| copies.lock().take());
                    let arena = copies.as_ref().unwrap_or(arena);
                    let verified = contents[partition as usize];
                    output.partition(arena, &mut entries, verified, |found| {
                        let (found, verified) = (found.records, verified.records);
                        let what = format!(
                            "partition {partition} has {found} records, which are not the {verified} that were verified"
                        );
                        // The source that changed.
                        let blamed = self
                            .resumed
                            .identity
                            .as_ref()
                            .and_then(|identity| identity.still_holds(self.options).err());
                        blamed.unwrap_or_else(|| changed(&self.sources.shown(), &what))
                    })?;
                }
                Held::Spilled(spill) => self.spilled(spill, partition, &mut output, spare)?,
            }
        }
        let mine = output.finish()?;
        failpoint::reach("built-synced");
        sync_dir(self.dir)?;
        let FamilyDone { files, tally, repeats } = mine.clone();
        self.journal.append(&Entry::Built { first: job.start, end: job.end, files, tally, repeats })?;
        failpoint::reach("built");
        self.uploads.map_or(Ok(()), |uploads| uploads.add(&self.options.column_family, &mine.files))?;
        Ok(mine)
    }

    /// Checked every few hundred records: a stop leaves the current file unfinished and everything else complete.
    fn may_go_on(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) || self.options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// What is to blame for partitions that are not what was verified: the source, where they refer to it and it changed.
    fn blame(&self, spill: &Spill, error: Error) -> Error {
        let source = self.resumed.identity.as_ref().filter(|_| spill.referenced().is_some());
        source.and_then(|identity| identity.still_holds(self.options).err()).unwrap_or(error)
    }

    fn spilled(
        &self,
        spill: &Spill,
        partition: u32,
        output: &mut Output<'_>,
        spare: &mut Option<Buffer>,
    ) -> Result<()> {
        let router = self.router;
        let extent = spill.extent(partition);
        if extent.bytes == 0 {
            return Ok(());
        }
        let layout = self.options.key;
        let (sort_bytes, outside) = self.sort_bytes(partition);
        let damaged = |found: Content| self.blame(spill, spill.damaged(partition, found));
        let loaded = spill.load(partition, size_of::<SortEntry>(), sort_bytes, spare.take());
        let Some((bytes, marks)) = loaded.map_err(|error| self.blame(spill, error))? else {
            let memory = usize::try_from(outside).unwrap_or(usize::MAX);
            // The limit leaves out the length before a section: twice the limit has room for both.
            let max_section = self.options.max_block_size.saturating_mul(2);
            let whole = spill.with_sections(partition, max_section).map_err(|error| self.blame(spill, error))?;
            let spill = whole.as_ref().unwrap_or(spill);
            let key = self.resumed.digest_key.as_ref();
            let runs = Runs { spill, partition, layout, key, memory, max_section: self.options.max_block_size };
            runs.sorted(|record, source| output.merged(record, source))?;
            output.end_partition(extent.content()).map_err(damaged)?;
            return whole.map_or(Ok(()), |whole| whole.delete(partition));
        };
        let mut entries = Vec::with_capacity(usize::try_from(extent.blocks).unwrap_or_default());
        for section in sections(&bytes) {
            spill.check_room((section.end - section.start) as u64)?;
            let (_, route) = router.route_section(&bytes, &section, layout);
            entries.push(SortEntry::new(route.prefix, 0, section.start as u32));
        }
        let mut arena = BlockArena::new(layout);
        arena.insert(0, bytes, marks);
        output.partition(&arena, &mut entries, extent.content(), damaged)?;
        *spare = arena.take(0).and_then(ChunkBytes::release);
        Ok(())
    }
}

/// The sections of a partition.
fn sections(bytes: &[u8]) -> impl Iterator<Item = Section> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            prefetch_ahead(bytes, at);
            match next_section(bytes, at, u64::MAX) {
                Ok(Step::Section(section)) => {
                    at = section.end;
                    return Some(section);
                }
                Ok(Step::Padding) => at = direct::next_block(at as u64) as usize,
                Ok(Step::Cut { .. } | Step::End) | Err(_) => return None,
            }
        }
    })
}

/// The SST files of one job, and what goes into them.
struct Output<'a> {
    builder: &'a Builder<'a>,
    writer: RotatingSstWriter<'a>,
    /// Tally of the finished partitions.
    tally: Tally,
    /// Tally of the current partition.
    partition: Tally,
    /// Bytes and records not yet reported to the progress counters.
    pending: (u64, u64),
    /// Duplicates by source.
    repeats: BTreeMap<u32, u64>,
    /// The last record of a merge, whose bytes are gone: its key, the fingerprint of its value, and the first of the sources
    /// that have it.
    last: Option<(Vec<u8>, Fingerprint, u32)>,
}

/// Distinguishes two values without keeping them: blocks may have hundreds of MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    len: usize,
    hash: u128,
}

impl Fingerprint {
    fn of(value: &[u8]) -> Self {
        Self { len: value.len(), hash: twox_hash::XxHash3_128::oneshot(value) }
    }
}

impl<'a> Output<'a> {
    fn new(builder: &'a Builder<'a>, borders: Borders) -> Self {
        Self {
            builder,
            writer: builder.folder.writer(builder.sst, borders),
            tally: Tally::default(),
            partition: Tally::default(),
            pending: (0, 0),
            repeats: BTreeMap::new(),
            last: None,
        }
    }

    /// Sorts a partition that is in memory and appends its records. `verified` was read; where something else is there by
    /// now, the error is what `changed` makes of it.
    fn partition(
        &mut self,
        arena: &BlockArena,
        entries: &mut [SortEntry],
        verified: Content,
        changed: impl Fn(Content) -> Error,
    ) -> Result<()> {
        match self.sorted(arena, entries) {
            Err(error @ (Error::BadInput { .. } | Error::Rocks { .. } | Error::Io { .. })) => {
                // What changed may look like a conflict, or like keys out of order.
                let (mut found, key) = (Content::default(), self.builder.resumed.digest_key.as_ref());
                arena.walk(entries).for_each(|(_, record)| found.add(record.checked_digest(key)));
                Err(if found == verified || arena.check().is_err() { error } else { changed(found) })
            }
            Err(error) => Err(error),
            Ok(()) => self.end_partition(verified).map_err(changed),
        }
    }

    /// Sorts entries and appends their records.
    fn sorted(&mut self, arena: &BlockArena, entries: &mut [SortEntry]) -> Result<()> {
        let outcome = self.put_sorted(arena, entries);
        // A file that shrank reads as zeros: the faults that these look like must not hide the cause.
        arena.check()?;
        outcome
    }

    fn put_sorted(&mut self, arena: &BlockArena, entries: &mut [SortEntry]) -> Result<()> {
        arena.sort(entries);
        // The record before, and, once it has come again, the first of the sources that have it.
        let mut previous: Option<(SortEntry, Record<'_>, Option<u32>)> = None;
        for (entry, record) in arena.walk(entries) {
            if let Some((before, previous, first)) = &mut previous
                && previous.key() == record.key()
            {
                let first = first.get_or_insert_with(|| arena.source(*before));
                self.duplicate(record, previous.value() == record.value(), first, arena.source(entry))?;
                continue;
            }
            self.put(record)?;
            previous = Some((entry, record, None));
        }
        Ok(())
    }

    /// Appends a record of a merge, whose memory is gone when the next one comes.
    fn merged(&mut self, record: Record<'_>, source: u32) -> Result<()> {
        let value = Fingerprint::of(record.value());
        if let Some((key, before, first)) = &self.last
            && key == record.key()
        {
            let (same, mut first) = (*before == value, *first);
            self.duplicate(record, same, &mut first, source)?;
            if let Some((_, _, known)) = &mut self.last {
                *known = first;
            }
            return Ok(());
        }
        self.put(record)?;
        self.last = Some((record.key().to_vec(), value, source));
        Ok(())
    }

    /// The same key again: the same block is counted, another one is corruption. It is a duplicate of `first`, the first of
    /// the sources that have it, which may only now be met: they come in any order.
    fn duplicate(&mut self, second: Record<'_>, same: bool, first: &mut u32, source: u32) -> Result<()> {
        self.report(second)?;
        let later = source.max(*first);
        *first = source.min(*first);
        if same {
            *self.repeats.entry(later).or_default() += 1;
            self.partition.duplicates += 1;
            self.partition.checked_digest.merge(second.checked_digest(self.builder.resumed.digest_key.as_ref()));
            return Ok(());
        }
        let name = self.builder.sources.names().get(later as usize).map_or(Path::new(""), PathBuf::as_path);
        Err(conflict(name, second.key(), None))
    }

    fn put(&mut self, record: Record<'_>) -> Result<()> {
        let (bytes, key_len) = record.parts();
        let digest = record.digest();
        self.writer.put(bytes, key_len, digest)?;
        self.partition.digest.merge(digest);
        let key = self.builder.resumed.digest_key.as_ref();
        self.partition.checked_digest.merge(key.map_or(digest, |key| record.checked_digest(Some(key))));
        self.partition.records += 1;
        self.report(record)
    }

    /// Ends a partition, of which `verified` was read: records and duplicates together must have the same content. The
    /// error is the content that was found.
    fn end_partition(&mut self, verified: Content) -> Result<(), Content> {
        let done = std::mem::take(&mut self.partition);
        self.tally.add(done);
        if done.verified() == verified { Ok(()) } else { Err(done.verified()) }
    }

    fn report(&mut self, record: Record<'_>) -> Result<()> {
        self.pending.0 += record.value().len() as u64;
        self.pending.1 += 1;
        if self.pending.1 >= BATCH {
            let (bytes, records) = std::mem::take(&mut self.pending);
            self.builder.progress.add(bytes, records);
            self.builder.may_go_on()?;
        }
        Ok(())
    }

    fn finish(self) -> Result<FamilyDone> {
        let files = self.writer.finish()?;
        self.builder.progress.add(self.pending.0, self.pending.1);
        Ok(FamilyDone { files, tally: self.tally, repeats: self.repeats.into_iter().collect() })
    }
}
