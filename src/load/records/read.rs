//! Reads streams of records into memory. Records that do not fit go into sorted runs: SST files whose keys have the place of each
//! record after its key. The runs of a stream whose records are sorted are the files of the database.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread::ScopedJoinHandle;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::{Content, ContentDigest};
use crate::load::built::SstFile;
use crate::load::column_families::{ColumnFamilies, run_block};
use crate::load::context::Job;
use crate::load::identity;
use crate::load::journal::{Checkpoint, Entry, RunDone, SourceDelta};
use crate::load::planner;
use crate::load::record_streams::{NextChunk, RecordStreams};
use crate::load::sink::Sinks;
use crate::load::sink::sst::SST_COPIES;
use crate::load::source_identity::changed;
use crate::os::files::sync_dir;
use crate::parallel::{self, Pull};
use crate::report::RecordsPlan;
use crate::sort::Borders;
use crate::sort::placed_key::put_placed_key;
use crate::sort::record_set::{RecordSet, SortedChunk};
use crate::source::car::SourceRead;
use crate::text::size::human;

/// Memory that a thread of a merge takes for each run: bytes, blocks, and records. 145 runs took 300 KiB each with blocks of 16 KiB, and
/// 620 KiB with blocks of 64 KiB; 19 runs with records of 1 and 4 MiB took 4 of them each (RocksDB 11.12).
const MERGED: (u64, u64, u64) = (200 << 10, 7, 4);

/// The first and last keys of files may take the budget divided by this, as text. RocksDB and the journal have them several times in
/// memory: 63 files with keys of 65,535 bytes took 5 times these texts.
const KEYS_SHARE: u64 = 6;

/// The least bytes of records for which a thread writes a file of a run.
const LEAST_RANGE: u64 = 4 << 20;

/// Samples of each run.
const SAMPLES: u64 = 32;

/// The records of all streams, in memory or in runs.
pub(super) struct ReadRecords {
    pub set: RecordSet,
    pub runs: Vec<RunDone>,
    pub checkpoint: Checkpoint,
    pub sources: Vec<SourceRead>,
}

/// The records that were read into memory at once.
#[derive(Default)]
struct Filled {
    set: RecordSet,
    content: Content,
    payload: u64,
    /// Records of each stream.
    counts: Vec<u64>,
}

/// Reads all streams, or what an earlier run has not read. `families` have the options of the files of runs.
pub(super) fn read(job: &Job<'_>, mut streams: RecordStreams, families: &ColumnFamilies<'_>) -> Result<ReadRecords> {
    let plan = job.plan.records().ok_or_else(|| Error::broken_invariant("the plan is of another source"))?;
    let mut runs = job.resumed.runs.clone();
    let (mut checkpoint, mut last) = (Checkpoint::default(), None);
    let mut counts = vec![0; streams.count()];
    if let Some(run) = runs.last() {
        streams.skip_to(run.checkpoint.source, run.position, &job.resumed.car.sources)?;
        (checkpoint, last) = (run.checkpoint, run.last.clone());
        counts.iter_mut().zip(&job.resumed.car.sources).for_each(|(count, read)| *count = read.blocks);
        job.progress.add_earlier(checkpoint.consumed, checkpoint.blocks);
    }
    if let Some(bytes) = job.plan.expected_bytes.filter(|_| !plan.is_sorted) {
        check_runs(job, bytes / plan.hold_bytes.max(1), 0)?;
    }
    let set = std::thread::scope(|scope| {
        let mut writing = None;
        loop {
            // Meanwhile a thread may write the records before these.
            let Filled { set, content: more, payload, counts: read } = fill(job, &mut streams, plan)?;
            end_run(job, writing.take(), &mut runs, &mut streams)?;
            job.options.check_cancelled()?;
            let mut content = checkpoint.content();
            content.merge(more);
            let (first, (source, position)) = (checkpoint.source, streams.position());
            checkpoint = Checkpoint {
                source,
                offset: position.offset,
                consumed: streams.consumed(),
                blocks: content.records,
                payload: checkpoint.payload + payload,
                digest: content.digest,
                ..Checkpoint::default()
            };
            counts.iter_mut().zip(read).for_each(|(count, more)| *count += more);
            if plan.is_sorted
                && let Some((source, offset, key)) = set.find_unsorted(&mut last)
            {
                return Err(streams.unsorted(source, offset, key));
            }
            if streams.has_ended() && runs.is_empty() && !plan.is_sorted {
                break Ok(set);
            }
            if !set.is_empty() {
                let (sources, last) = (streams.reads(&counts, first), last.clone());
                let (samples, largest) = (set.samples(set.bytes() / SAMPLES), set.largest);
                let run = RunDone { files: Vec::new(), checkpoint, position, sources, last, largest, samples };
                let write = move || {
                    let files = write_run(job, plan, &set, more, families);
                    Ok((RunDone { files: files.map_err(|error| find_cause(job, &set, more, error))?, ..run }, set))
                };
                writing = Some(parallel::start(scope, write)?);
            }
            if streams.has_ended() || !plan.is_sorted {
                end_run(job, writing.take(), &mut runs, &mut streams)?;
            }
            if streams.has_ended() {
                break Ok(RecordSet::default());
            }
        }
    })?;
    let sources = streams.reads(&counts, 0);
    match &job.resumed.held {
        Some((known, _)) if known.content() != checkpoint.content() => {
            return Err(identity::another_source(job.options, None));
        }
        Some(_) => {}
        None => {
            let delta = SourceDelta { sources: sources.clone(), ..SourceDelta::default() };
            job.journal.append(&Entry::Held { checkpoint, padding: 0, delta })?;
        }
    }
    Ok(ReadRecords { set, runs, checkpoint, sources })
}

/// Returns the cause of an error of writing a set: a change of its source, if the records are no longer those that were `read`.
pub(super) fn find_cause(job: &Job<'_>, set: &RecordSet, read: Content, error: Error) -> Error {
    let is_changed = !set.is_empty() && !matches!(error, Error::Interrupted { .. }) && set.content() != read;
    if is_changed { changed_records(&job.sources.shown()) } else { error }
}

fn changed_records(source: &Path) -> Error {
    changed(source, "its records are not what they were")
}

/// Waits for a run that is written, and notes it.
fn end_run(
    job: &Job<'_>,
    writing: Option<ScopedJoinHandle<'_, Result<(RunDone, RecordSet)>>>,
    runs: &mut Vec<RunDone>,
    streams: &mut RecordStreams,
) -> Result<()> {
    let Some(writing) = writing else { return Ok(()) };
    let (run, set) = writing.join().unwrap_or_else(|panic| resume_unwind(panic))?;
    streams.reuse(set.release());
    check_long_keys(job, runs.iter().chain([&run]).flat_map(|run| &run.files), run.checkpoint.consumed)?;
    // Keys may be long, so they are not copied.
    let entry = Entry::Run(Box::new(run));
    job.journal.append(&entry)?;
    failpoint::reach("run");
    if let Entry::Run(mut run) = entry {
        // Only the journal needs them.
        run.sources = Vec::new();
        runs.push(*run);
    }
    let largest = runs.iter().map(|run| run.largest).max().unwrap_or_default();
    let is_sorted = job.plan.records().is_some_and(|plan| plan.is_sorted);
    if is_sorted { Ok(()) } else { check_runs(job, runs.len() as u64, largest) }
}

/// Memory that a thread of a merge takes for each run whose largest record has as many bytes.
pub(super) fn merge_memory(job: &Job<'_>, largest: u64) -> u64 {
    MERGED.0 + MERGED.1 * run_block(job.plan.memory) + MERGED.2 * largest
}

/// Checks that the memory suffices to merge as many runs.
fn check_runs(job: &Job<'_>, runs: u64, largest: u64) -> Result<()> {
    let (each, budget) = (merge_memory(job, largest), job.options.memory_budget());
    let most = job.plan.memory / each;
    if runs <= most {
        return Ok(());
    }
    let reason = format!("the memory budget suffices to merge {most} sorted runs, and the records make more");
    // Twice the memory merges twice as many runs of twice the size.
    let held = job.plan.records().map_or(1, |plan| plan.hold_bytes).max(1);
    let share = budget as f64 / held as f64 * (budget as f64 / job.plan.memory.max(1) as f64);
    let least = (job.plan.expected_bytes.unwrap_or_default() as f64 * each as f64 * share).sqrt() as u64;
    let needed = least.max(budget) + budget;
    Err(Error::limit(&job.options.db, reason, needed))
}

/// Checks that the memory suffices for the first and last keys of files, which RocksDB and the journal have in memory. The files have
/// the records of `read` bytes.
pub(super) fn check_long_keys<'a>(job: &Job<'_>, files: impl Iterator<Item = &'a SstFile>, read: u64) -> Result<()> {
    let keys = files.map(|file| (file.first.len() + file.last.len()) as u64).sum::<u64>();
    if keys <= job.options.memory_budget() / KEYS_SHARE {
        return Ok(());
    }
    let reason = format!("the first and last keys of the files take {}, because keys are long", human(keys));
    let left = job.plan.expected_bytes.unwrap_or_default().saturating_sub(read);
    // More memory allows more threads, which make smaller files.
    let threads = planner::threads(job.options, job.preset) as f64 / job.plan.threads as f64;
    let more = (KEYS_SHARE as f64 * keys as f64 * threads * left as f64 / read.max(1) as f64) as u64;
    // With twice the memory the rest makes about half the files.
    let budget = job.options.memory_budget();
    let needed = KEYS_SHARE * keys + budget + budget.saturating_mul(more).isqrt() * 3 / 2;
    Err(Error::limit(&job.options.db, reason, needed))
}

/// Reads and sorts chunks until they take the memory of the plan, or the streams end.
fn fill(job: &Job<'_>, streams: &mut RecordStreams, plan: &RecordsPlan) -> Result<Filled> {
    let limits = streams.limits;
    streams.handed_out = 0;
    let filled = Mutex::new(Filled { counts: vec![0; streams.count()], ..Filled::default() });
    let pull = Pull::new(streams);
    let next = |streams: &mut &mut RecordStreams, _: &mut ()| {
        // Threads may still work on chunks that the set does not have.
        let is_full = streams.handed_out >= plan.hold_bytes || filled.lock().set.is_full(plan.hold_bytes);
        if job.options.stop.is_cancelled() || is_full {
            return Ok(None);
        }
        job.progress.reach(streams.consumed());
        streams.next()
    };
    let work = |_: &mut (), NextChunk { mut chunk, index, source, families }, _: &parallel::ItemOrder<'_>| {
        chunk.decode(&limits)?;
        let (mut content, mut payload, mut largest) = (Content::default(), 0, 0);
        for (at, _) in chunk.records() {
            let (key, value) = chunk.record(at);
            content.add_record(key, value);
            payload += value.len() as u64;
            largest = largest.max((key.len() + value.len()) as u64);
        }
        if !chunk.is_unchanged()? {
            return Err(changed_records(&chunk.name));
        }
        let sorted = SortedChunk::new(chunk, index, source, &families);
        let filled = &mut *filled.lock();
        filled.set.push(sorted, largest);
        filled.content.merge(content);
        filled.payload += payload;
        filled.counts[usize::from(source)] += content.records;
        job.progress.add(0, content.records);
        Ok(())
    };
    pull.run(0..job.plan.threads, |_| pull.each(&mut (), next, work));
    let streams = pull.finish()?;
    job.progress.reach(streams.consumed());
    let mut filled = filled.into_inner();
    filled.set.order();
    Ok(filled)
}

/// Threads that may write files at the same time if the largest record has as many bytes.
pub(super) fn writers(job: &Job<'_>, largest: u64) -> usize {
    // Their copies may take a quarter of the budget.
    let most = job.plan.budget_bytes / (4 * SST_COPIES * largest.max(1));
    job.plan.threads.min(most.max(1) as usize)
}

/// Writes the records of a set into synced files. It is an error if these are not the records that were `read`.
fn write_run(
    job: &Job<'_>,
    plan: &RecordsPlan,
    set: &RecordSet,
    read: Content,
    families: &ColumnFamilies<'_>,
) -> Result<Vec<SstFile>> {
    let share = set.bytes().div_ceil(job.plan.threads as u64).max(LEAST_RANGE);
    let (sinks, ranges) = (Sinks::files(job, families)?, set.ranges(share.min(plan.range_bytes)));
    let files = Mutex::new(Vec::new());
    let write = |placed: &mut Vec<u8>, number: usize| {
        job.options.check_cancelled()?;
        let Some(range) = ranges.get(number) else { return Ok(()) };
        let name = plan.families.get(usize::from(range.family)).map_or("", String::as_str);
        let mut sink = sinks.sink(name, Borders::default(), None)?;
        let entries = set.sorted(range);
        for (record, place) in set.records(&entries) {
            let (mut key, value) = record;
            if !plan.is_sorted {
                placed.clear();
                put_placed_key(placed, key, place);
                key = placed;
            }
            sink.put_with_digest((key, value), || ContentDigest::of_record(record.0, record.1))?;
        }
        set.check()?;
        let made = sink.finish()?.files.into_iter().map(|file| SstFile { family: name.to_owned(), ..file });
        files.lock().extend(made);
        Ok(())
    };
    parallel::for_each(writers(job, set.largest), ranges.len(), Vec::new, write)?;
    sync_dir(&job.target.sst)?;
    let files = files.into_inner();
    if files.iter().map(SstFile::content).sum::<Content>() != read {
        return Err(changed_records(&job.sources.shown()));
    }
    Ok(files)
}
