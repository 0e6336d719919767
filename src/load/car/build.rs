//! Building SST files from partitions, each of which is sorted alone, on all threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::hash::Content;
use crate::hash::fingerprint::fingerprint;
use crate::load::built::{FamilyDone, Tally};
use crate::load::car::blocks::conflict;
use crate::load::car::read::ReadBlocks;
use crate::load::car::stored_blocks::StoredBlocks;
use crate::load::context::Job;
use crate::load::planner::WORKER_FIXED;
use crate::load::sink::sst::{RotatingSstWriter, SST_COPIES, SstFolder};
use crate::load::source_identity::changed;
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::parallel::{self, MemoryLimit};
use crate::report::SortPlan;
use crate::rocks::SstOptions;
use crate::sort::{BlockArena, Borders, PartitionExtent, PartitionGroup, Record, Router, Runs, SortEntry, Spill};
use crate::source::car::{ChunkBytes, Section, Step, next_section, prefetch_ahead};

/// The least memory for sorting a partition in runs, in bytes: less makes too many runs.
const LEAST_RUNS: u64 = 4 << 20;

/// Records between two updates of the progress counters.
const BATCH: u64 = 256;

/// Builds the SSTs of all blocks that an earlier run has not built. Returns the files of both runs.
pub(super) fn build(job: &Job<'_>, sort: &SortPlan, sst: &SstOptions, blocks: &ReadBlocks) -> Result<FamilyDone> {
    let Job { plan, resumed, .. } = *job;
    let groups = groups(job, blocks);
    let ReadBlocks { stored, router, largest, .. } = blocks;
    let longest = largest.iter().copied().max().unwrap_or_default();
    let room = match stored {
        StoredBlocks::Spilled(_) => job.options.memory_budget() - plan.links_bytes,
        // Reading has left it free.
        StoredBlocks::Memory { .. } => SST_COPIES * longest,
    };
    let builder = Builder {
        job,
        sort,
        sst,
        folder: SstFolder::new(&job.target.sst, plan, &resumed.built.files),
        stopped: AtomicBool::new(false),
        router,
        largest,
        room,
        limit: (longest > 0).then(|| MemoryLimit::new(room)),
    };
    let make = || (FamilyDone::default(), None);
    // If all cores may be used, one more worker uses them while another waits for the disk. Workers of spilled partitions have
    // a share of the memory each, so no worker is added there.
    let waits = matches!(stored, StoredBlocks::Memory { .. }) && plan.threads >= parallel::cores();
    let stop = |_: &Error| builder.stopped.store(true, Ordering::Relaxed);
    let workers = std::thread::scope(|scope| {
        // Deleting a file waits for the disk. Workers do not wait, unless the disk is slower than they are.
        let (built_ones, unneeded) = crossbeam_channel::bounded::<Range<u32>>(plan.threads);
        let delete = move || match stored {
            StoredBlocks::Spilled(spill) => unneeded.iter().flatten().try_for_each(|partition| spill.delete(partition)),
            StoredBlocks::Memory { .. } => Ok(()),
        };
        let deleting = parallel::start(scope, move || delete().inspect_err(stop))?;
        let threads = plan.threads + usize::from(waits);
        let workers = parallel::for_each(threads, groups.len(), make, |(built, spare), item| {
            built.add(&builder.build(&groups[item], stored, spare).inspect_err(stop)?);
            // The blocks are in synced files now. Sending fails if there is nothing to delete, or if deleting failed.
            let _ = built_ones.send(groups[item].partitions.clone());
            Ok(())
        });
        drop(built_ones);
        // The workers that it stopped return an interruption: its own error is the reason.
        deleting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        workers
    })?;
    let mut built = resumed.built.clone();
    workers.iter().for_each(|(made, _)| built.add(made));
    Ok(built)
}

/// Groups of partitions with blocks that an earlier run has not built. One worker builds a group at a time.
fn groups(job: &Job<'_>, blocks: &ReadBlocks) -> Vec<PartitionGroup> {
    let has_blocks = |partition: u32| match &blocks.stored {
        StoredBlocks::Memory { entries, .. } => entries.get(partition as usize).is_some_and(|found| found.len() > 0),
        StoredBlocks::Spilled(spill) => spill.extent(partition).bytes > 0,
    };
    let framed = &blocks.checkpoint.framed;
    let groups = blocks.router.groups(framed, job.plan.sst_target(framed.all().bytes));
    let is_left = |one: u32| has_blocks(one) && !job.resumed.is_built(one);
    groups.into_iter().filter(|group| group.partitions.clone().any(is_left)).collect()
}

struct Builder<'a> {
    job: &'a Job<'a>,
    sort: &'a SortPlan,
    sst: &'a SstOptions,
    folder: SstFolder<'a>,
    stopped: AtomicBool,
    router: &'a Router,
    /// For each partition, the length of its longest large section.
    largest: &'a [u64],
    /// Memory for building, in bytes; shared out among the workers if any section is large.
    room: u64,
    limit: Option<MemoryLimit>,
}

impl Builder<'_> {
    fn largest(&self, partition: u32) -> u64 {
        self.largest.get(partition as usize).copied().unwrap_or_default()
    }

    /// Returns the memory for sorting a partition in memory, and for sorting it in runs, in bytes, without RocksDB's copies of
    /// a large section, and without the section itself if it is not part of a partition in memory.
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
    fn needs(&self, stored: &StoredBlocks, partition: u32) -> u64 {
        let largest = self.largest(partition);
        let copies = SST_COPIES * largest;
        let StoredBlocks::Spilled(spill) = stored else { return copies };
        let (in_memory, outside) = self.sort_bytes(partition);
        let PartitionExtent { bytes, blocks, .. } = spill.extent(partition);
        // References are small; their sections fill the memory.
        let bytes = if spill.referenced.is_some() { in_memory } else { bytes };
        let whole = bytes + blocks * size_of::<SortEntry>() as u64;
        WORKER_FIXED + copies + if whole <= in_memory { whole } else { outside + largest }
    }

    /// Builds the SSTs of a group. `spare` is memory to read the next partition into. If a partition has a large section, only
    /// as many workers build at the same time as have memory for it.
    fn build(&self, group: &PartitionGroup, stored: &StoredBlocks, spare: &mut Option<Buffer>) -> Result<FamilyDone> {
        let PartitionGroup { partitions, borders } = group;
        let needed =
            || partitions.clone().map(|partition| self.needs(stored, partition)).max().filter(|&bytes| bytes > 0);
        let _share = self.limit.as_ref().and_then(|limit| needed().map(|bytes| limit.take(bytes)));
        let mut output = GroupOutput::new(self, borders.clone());
        for partition in partitions.clone() {
            self.check_cancelled()?;
            match stored {
                StoredBlocks::Memory { arena, copies, entries, contents } => {
                    let mut entries = entries[partition as usize].take();
                    // Dropped when its records are in files, which take its pages.
                    let copies = copies.get(partition as usize).and_then(|copies| copies.lock().take());
                    let arena = copies.as_ref().unwrap_or(arena);
                    let verified = contents[partition as usize];
                    output.partition(arena, &mut entries, verified, |found| {
                        let (found, verified) = (found.records, verified.records);
                        let what = format!(
                            "partition {partition} has {found} records, which are not the {verified} that were verified"
                        );
                        // The error of the source that changed, if one is found.
                        self.job.check_sources().err().unwrap_or_else(|| changed(&self.job.sources.shown(), &what))
                    })?;
                }
                StoredBlocks::Spilled(spill) => output.spilled(spill, partition, spare)?,
            }
        }
        if self.limit.is_some() {
            // Memory that is kept for the next partition is not part of a share.
            *spare = None;
        }
        let built = output.finish()?;
        self.job.note_built(partitions, &self.job.options.column_family, &built)?;
        Ok(built)
    }

    /// Checked every few hundred records: a stop leaves the current file unfinished and everything else complete.
    fn check_cancelled(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) || self.job.options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Replaces the error of a partition by that of a changed source, if partitions refer to sources and one changed.
    fn attribute_to_source(&self, spill: &Spill, error: Error) -> Error {
        spill.referenced.as_ref().and_then(|_| self.job.check_sources().err()).unwrap_or(error)
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
struct GroupOutput<'a> {
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
    /// The last record of a merge, whose bytes are gone because blocks may have hundreds of MiB: its key, the length and the
    /// fingerprint of its value, and its first source.
    last: Option<(Vec<u8>, (usize, u128), u32)>,
}

impl<'a> GroupOutput<'a> {
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

    /// Sorts a partition in memory and appends its records. If these are not the `verified` ones, `changed` makes the error.
    fn partition(
        &mut self,
        arena: &BlockArena,
        entries: &mut [SortEntry],
        verified: Content,
        changed: impl Fn(Content) -> Error,
    ) -> Result<()> {
        let outcome = self.put_sorted(arena, entries);
        // A file that shrank reads as zeros: the faults that these look like must not hide the cause.
        match arena.check().and(outcome) {
            Err(error @ (Error::BadInput { .. } | Error::Rocks { .. } | Error::Io { .. })) => {
                // Changed bytes may look like a conflict, or like keys out of order.
                let (mut found, key) = (Content::default(), self.builder.job.resumed.digest_key.as_ref());
                arena.walk(entries).for_each(|(_, record)| found.add(record.checked_digest(key)));
                Err(if found == verified || arena.check().is_err() { error } else { changed(found) })
            }
            Err(error) => Err(error),
            Ok(()) => self.end_partition(verified).map_err(changed),
        }
    }

    /// Writes a partition that was spilled.
    fn spilled(&mut self, spill: &Spill, partition: u32, spare: &mut Option<Buffer>) -> Result<()> {
        let builder = self.builder;
        let extent = spill.extent(partition);
        if extent.bytes == 0 {
            return Ok(());
        }
        let layout = builder.job.options.key;
        let (sort_bytes, outside) = builder.sort_bytes(partition);
        let damaged = |found: Content| builder.attribute_to_source(spill, spill.damaged_error(partition, found));
        let loaded = spill.load(partition, size_of::<SortEntry>(), sort_bytes, spare.take());
        let Some((bytes, marks)) = loaded.map_err(|error| builder.attribute_to_source(spill, error))? else {
            let memory = usize::try_from(outside).unwrap_or(usize::MAX);
            // The limit leaves out the length before a section: twice the limit has room for both.
            let max_section = builder.job.options.max_block_size.saturating_mul(2);
            let whole = spill
                .with_sections(partition, max_section)
                .map_err(|error| builder.attribute_to_source(spill, error))?;
            let spill = whole.as_ref().unwrap_or(spill);
            let key = builder.job.resumed.digest_key.as_ref();
            let runs = Runs { spill, partition, layout, key, memory, max_section: builder.job.options.max_block_size };
            runs.sorted(|record, source| self.merged(record, source))?;
            self.end_partition(extent.content()).map_err(damaged)?;
            return whole.map_or(Ok(()), |whole| whole.delete(partition));
        };
        let mut entries = Vec::with_capacity(usize::try_from(extent.blocks).unwrap_or_default());
        for section in sections(&bytes) {
            spill.check_room((section.end - section.start) as u64)?;
            let (_, route) = builder.router.route_section(&bytes, &section, layout);
            entries.push(SortEntry::new(route.prefix, 0, section.start as u32));
        }
        let mut arena = BlockArena::new(layout);
        arena.insert(0, bytes, marks);
        self.partition(&arena, &mut entries, extent.content(), damaged)?;
        *spare = arena.take(0).and_then(ChunkBytes::release);
        Ok(())
    }

    /// Sorts entries and appends their records.
    fn put_sorted(&mut self, arena: &BlockArena, entries: &mut [SortEntry]) -> Result<()> {
        arena.sort(entries);
        // The record before, and its first source if it was repeated.
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

    /// Appends a record of a merge. Its memory is freed before the next record.
    fn merged(&mut self, record: Record<'_>, source: u32) -> Result<()> {
        let value = (record.value().len(), fingerprint(record.value()));
        self.last = match self.last.take() {
            Some((key, before, mut first)) if key == record.key() => {
                self.duplicate(record, before == value, &mut first, source)?;
                Some((key, before, first))
            }
            _ => {
                self.put(record)?;
                Some((record.key().to_vec(), value, source))
            }
        };
        Ok(())
    }

    /// Handles a repeated key: the same block is counted, another block is corruption. Sources come in any order, so `first`,
    /// the first source of the block, may be replaced.
    fn duplicate(&mut self, second: Record<'_>, same: bool, first: &mut u32, source: u32) -> Result<()> {
        self.report(second)?;
        let later = source.max(*first);
        *first = source.min(*first);
        if same {
            *self.repeats.entry(later).or_default() += 1;
            self.partition.duplicates.records += 1;
            self.partition.checked.merge(second.checked_digest(self.builder.job.resumed.digest_key.as_ref()));
            return Ok(());
        }
        let name = self.builder.job.sources.names.get(later as usize).map_or(Path::new(""), PathBuf::as_path);
        Err(conflict(name, second.key(), None))
    }

    fn put(&mut self, record: Record<'_>) -> Result<()> {
        let digest = self.writer.put((record.key(), record.value()), || record.digest())?;
        self.partition.written.add(digest);
        let key = self.builder.job.resumed.digest_key.as_ref();
        self.partition.checked.merge(key.map_or(digest, |key| record.checked_digest(Some(key))));
        self.report(record)
    }

    /// Ends a partition. Its records and duplicates must be the `verified` ones, otherwise the error is their content.
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
            self.builder.job.progress.add(bytes, records);
            self.builder.check_cancelled()?;
        }
        Ok(())
    }

    fn finish(self) -> Result<FamilyDone> {
        let files = self.writer.finish()?;
        self.builder.job.progress.add(self.pending.0, self.pending.1);
        Ok(FamilyDone { files, tally: self.tally, repeats: self.repeats.into_iter().collect() })
    }
}
