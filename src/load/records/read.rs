//! Reads streams of records into memory. Records that do not fit go into sorted runs: SST files whose keys have the place of each
//! record after its key. The runs of a stream whose records are sorted are the files of the database.

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::{Content, ContentDigest};
use crate::load::built::SstFile;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::identity;
use crate::load::journal::{Checkpoint, Entry, RunDone, SourceDelta};
use crate::load::record_streams::{NextChunk, RecordStreams};
use crate::load::sink::Sinks;
use crate::os::files::sync_dir;
use crate::parallel::{self, Pull};
use crate::report::RecordsPlan;
use crate::sort::Borders;
use crate::sort::placed_key::put_placed_key;
use crate::sort::record_set::{RecordSet, SortedChunk};
use crate::source::car::SourceRead;

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
pub(super) fn read(job: &Job<'_>, streams: &mut RecordStreams, families: &ColumnFamilies<'_>) -> Result<ReadRecords> {
    let plan = job.plan.records().ok_or_else(|| Error::broken_invariant("the plan is of another source"))?;
    let mut runs = job.resumed.runs.clone();
    let (mut checkpoint, mut last) = (Checkpoint::default(), None);
    let mut counts = vec![0; streams.count()];
    if let Some(run) = runs.last() {
        streams.skip_to(run.checkpoint.source, run.position, &run.sources)?;
        (checkpoint, last) = (run.checkpoint, run.last.clone());
        counts.iter_mut().zip(&run.sources).for_each(|(count, read)| *count = read.blocks);
        job.progress.add_earlier(checkpoint.consumed, checkpoint.blocks);
    }
    let set = loop {
        let Filled { set, content: more, payload, counts: read } = fill(job, streams, plan)?;
        job.options.check_cancelled()?;
        let mut content = checkpoint.content();
        content.merge(more);
        let (source, position) = streams.position();
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
            && let Some((source, offset)) = set.find_unsorted(&mut last)
        {
            return Err(streams.unsorted(source, offset));
        }
        if streams.has_ended() && runs.is_empty() && !plan.is_sorted {
            break set;
        }
        if !set.is_empty() {
            let files = write_run(job, plan, &set, families)?;
            let sources = streams.reads(&counts);
            let run = RunDone { files, checkpoint, position, sources, last: last.clone() };
            job.journal.append(&Entry::Run(Box::new(run.clone())))?;
            failpoint::reach("run");
            runs.push(run);
        }
        streams.reuse(set.into_buffers());
        if streams.has_ended() {
            break RecordSet::default();
        }
    };
    let sources = streams.reads(&counts);
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

/// Reads and sorts chunks until they take the memory of the plan, or the streams end.
fn fill(job: &Job<'_>, streams: &mut RecordStreams, plan: &RecordsPlan) -> Result<Filled> {
    let limits = *streams.limits();
    let filled = Mutex::new(Filled { counts: vec![0; streams.count()], ..Filled::default() });
    let pull = Pull::new(streams);
    let next = |streams: &mut &mut RecordStreams, _: &mut ()| {
        if job.options.stop.is_cancelled() || filled.lock().set.is_full(plan.hold_bytes) {
            return Ok(None);
        }
        job.progress.reach(streams.consumed());
        streams.next()
    };
    let work = |_: &mut (), NextChunk { mut chunk, index, source, families }, _: &parallel::ItemOrder<'_>| {
        chunk.decode(&limits)?;
        let (mut content, mut payload) = (Content::default(), 0);
        for (at, _) in chunk.records() {
            let (record, key_len) = chunk.record(at);
            content.add(ContentDigest::of_section(record, key_len));
            payload += (record.len() - key_len) as u64;
        }
        let sorted = SortedChunk::new(chunk, index, source, &families);
        let filled = &mut *filled.lock();
        filled.set.push(sorted);
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

/// Writes the records of a set into synced files.
fn write_run(
    job: &Job<'_>,
    plan: &RecordsPlan,
    set: &RecordSet,
    families: &ColumnFamilies<'_>,
) -> Result<Vec<SstFile>> {
    let (sinks, ranges) = (Sinks::files(job, families)?, set.ranges(plan.range_bytes));
    let files = Mutex::new(Vec::new());
    let write = |placed: &mut Vec<u8>, number: usize| {
        job.options.check_cancelled()?;
        let Some(range) = ranges.get(number) else { return Ok(()) };
        let name = plan.families.get(usize::from(range.family)).map_or("", String::as_str);
        let mut sink = sinks.sink(name, Borders::default(), None)?;
        let entries = set.sorted(range);
        for (record, key_len, place) in set.records(&entries) {
            if plan.is_sorted {
                sink.put(record, key_len)?;
                continue;
            }
            let (key, value) = record.split_at(key_len);
            placed.clear();
            put_placed_key(placed, key, place);
            let placed_len = placed.len();
            placed.extend_from_slice(value);
            sink.put(placed, placed_len)?;
        }
        let made = sink.finish()?.files.into_iter().map(|file| SstFile { family: name.to_owned(), ..file });
        files.lock().extend(made);
        Ok(())
    };
    parallel::for_each(job.plan.threads, ranges.len(), Vec::new, write)?;
    sync_dir(&job.target.sst)?;
    Ok(files.into_inner())
}
