//! A CAR with the memtable loader: batches into memtables with the options of the preset, then one final compaction.
//!
//! It is slower than building SSTs. It exists because option sets must be compared, and because a database with data may need
//! it. Threads take chunks, verify the blocks and gather batches; others write the batches, and wait while RocksDB stalls
//! writers. The records of the finished database are counted and digested.

use std::path::Path;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::load::car::blocks::{BlockReader, conflict};
use crate::load::car::counts::Counts;
use crate::load::car::f3;
use crate::load::car::fingerprints::{FingerprintSum, FingerprintWriter, Fingerprints, key_hash};
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{Compacted, check_content, compact, memtable_report, watched};
use crate::load::context::{Job, Loaded, with_repeats};
use crate::load::existing::ExistingRecords;
use crate::load::journal::{Checkpoint, Entry, SourceDelta};
use crate::load::sink::batches::{BatchBuilder, BatchChannel};
use crate::load::sink::{Sink, Sinks};
use crate::os::buffer::Buffer;
use crate::parallel::{self, Pull};
use crate::progress::{Event, Phase};
use crate::rocks::{Meter, Store, find_key};
use crate::sort::borders::Borders;
use crate::sort::key::Record;
use crate::sort::router::ClassCounts;
use crate::sort::spill::LARGE;
use crate::source::car::chunks::{Chunks, Tail};
use crate::source::car::sources::SourceRead;

/// Loads a CAR from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, chunks: Chunks) -> Result<Loaded> {
    let Job { options, target, .. } = *job;
    let families = ColumnFamilies::of_car(job).written_to();
    let meter = Meter::default();
    let fingerprints = Fingerprints::new(&target.spill, job.plan.expected_bytes);
    let (store, known) = match job.existing {
        Some(existing) => {
            let store = existing.open(job.loading, &options.column_family, job.journal, Some(&meter))?;
            (store, Some(existing.records(&options.column_family)?))
        }
        None => (Store::create(&target.staging, &families.loading(), Some(&meter))?, None),
    };
    let known = known.as_ref();
    let counts = Counts::new(chunks.sources(), &[]);
    let sinks = Sinks::batches(job, &store, &families);
    let load = Load { job, sinks: &sinks, fingerprints: &fingerprints, known, counts: &counts };
    let written = watched(job, &store, None, || load.run(chunks))?;
    let batches = sinks.written_batches();
    drop(sinks);
    let f3 = f3::report(job, &written.sources)?;
    let compacted = compact(job, store, &families, &meter)?;
    failpoint::reach("compacted");
    let noted = check(job, &compacted, &written, &fingerprints, known)?;
    let Content { records, digest } = noted.records;
    failpoint::reach("checked");
    let (memtable, rocksdb_written) = memtable_report(&meter, batches, compacted.level0_files);
    Ok(Loaded {
        blocks: written.content.records,
        payload: written.payload,
        consumed: written.consumed,
        tail: written.tail,
        records,
        duplicates: written.content.records.saturating_sub(records),
        existing: records.saturating_sub(noted.fresh.records),
        digest,
        levels: compacted.levels(&options.column_family),
        rocksdb_written: (!options.into_existing).then_some(rocksdb_written),
        memtable: Some(memtable),
        f3,
        sources: with_repeats(written.sources, &noted.repeats.into_iter().collect::<Vec<_>>()),
        ..Loaded::default()
    })
}

/// Compares the blocks that were read with the fingerprints, and the distinct records of these with what the finished
/// database has more than before. Returns the sum of the fingerprints.
fn check(
    job: &Job<'_>,
    compacted: &Compacted,
    written: &Written,
    fingerprints: &Fingerprints,
    known: Option<&ExistingRecords>,
) -> Result<FingerprintSum> {
    let Job { options, progress, target, .. } = *job;
    let family = &options.column_family;
    progress.begin(Phase::Check, known.is_none().then_some(written.payload));
    // The rest of the budget is for RocksDB, which has the database open.
    let sorting = usize::try_from(job.plan.memory / 2).unwrap_or(usize::MAX) / job.plan.threads;
    let noted = parallel::pool(job.plan.threads)?.install(|| fingerprints.sum(sorting))?;
    if noted.read != written.content {
        let what = format!("is damaged: its fingerprints have {}, {} were verified", noted.read, written.content);
        return Err(Error::damaged_work(&target.spill, what));
    }
    if let Some(hash) = noted.conflict {
        let key = find_key(&compacted.reader, family, |key| key_hash(key) == hash)?;
        return Err(conflict(&job.sources.shown(), &key.unwrap_or_default(), None));
    }
    let mut expected = noted.fresh;
    if let Some(known) = known
        && let Some(family) = &known.family
    {
        expected.merge(job.scan(&known.reader, &known.reader.files()?, family).content()?.0);
    }
    let (found, _) = job.scan(&compacted.reader, &compacted.files, family).content()?;
    check_content(job, found, expected)?;
    Ok(noted)
}

/// The state that the threads share.
struct Load<'a> {
    job: &'a Job<'a>,
    sinks: &'a Sinks<'a>,
    fingerprints: &'a Fingerprints,
    /// The records that an existing database had before.
    known: Option<&'a ExistingRecords>,
    counts: &'a Counts,
}

/// The blocks that were written.
#[derive(Debug, Default)]
struct Written {
    content: Content,
    payload: u64,
    tail: Tail,
    consumed: u64,
    sources: Vec<SourceRead>,
}

impl Load<'_> {
    /// Reads everything and writes it, until the last memtable is flushed.
    fn run(&self, chunks: Chunks) -> Result<Written> {
        let Job { options, plan, progress, journal, .. } = *self.job;
        let all = Mutex::new((Content::default(), 0));
        let pull = Pull::new(chunks);
        self.sinks.run(&|error| pull.fail(error), |channel| {
            pull.run(0..plan.threads, |_| self.read(&pull, channel.clone(), &all));
        });
        let mut chunks = pull.finish()?;
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        self.sinks.flush()?;
        let warning = chunks.warning().map(|message| Event::Warning { message });
        warning.iter().for_each(|warning| progress.report(warning));
        let (content, payload) = all.into_inner();
        // By this a run after the last step compares the source.
        let checkpoint = Checkpoint::at(&chunks, content, payload, ClassCounts::default());
        let tail = chunks.tail();
        let delta = SourceDelta { sources: self.counts.take_delta(&mut chunks, &mut 0), marks: Vec::new() };
        let sources = self.counts.take(&mut chunks);
        journal.append(&Entry::Held { checkpoint, padding: tail.padding, delta })?;
        failpoint::reach("read-done");
        Ok(Written { content, payload, tail, consumed: checkpoint.consumed, sources })
    }

    /// Reads on one thread: gathers verified blocks into batches.
    fn read(&self, pull: &Pull<Chunks>, channel: Option<BatchChannel>, all: &Mutex<(Content, u64)>) {
        let Job { options, plan, progress, .. } = *self.job;
        let gather = || -> Result<()> {
            let mut reader = BlockReader::new(self.job);
            let batch = channel.map(|channel| BatchBuilder::shared(channel, plan));
            let mut part = Part {
                sink: self.sinks.sink(&options.column_family, Borders::default(), batch.as_ref())?,
                notes: self.fingerprints.writer(),
                payload: 0,
                source: 0,
                spare: None,
            };
            let next = |chunks: &mut Chunks, part: &mut Part<'_>| {
                if options.stop.is_cancelled() {
                    return Ok(None);
                }
                self.sinks.check_memory()?;
                let next = chunks.next(part.spare.take())?;
                progress.reach(chunks.consumed());
                Ok(next)
            };
            pull.each(&mut part, next, |part, chunk, _| {
                let (before, payload_before) = (part.content(), part.payload);
                part.source = chunk.source;
                match self.known {
                    None => reader.each(&chunk, &[], |block| part.add(block.record(options.key), false))?,
                    Some(known) => {
                        let mut blocks = Vec::with_capacity(chunk.starts.len());
                        reader.each(&chunk, &[], |block| {
                            blocks.push((block.place(&chunk), block.record(options.key)));
                            Ok(())
                        })?;
                        part.add_unless_other(known, &chunk.name, &blocks)?;
                    }
                }
                chunk.bytes.check()?;
                let added = part.content().without(before);
                progress.add(0, added.records);
                self.counts.add(chunk.source, added, part.payload - payload_before);
                part.spare = chunk.bytes.release().filter(|spare| (spare.len() as u64) < LARGE);
                Ok(())
            });
            let Part { sink, notes, payload, .. } = part;
            let written = sink.finish()?.tally.written;
            notes.finish()?;
            let (all, bytes) = &mut *all.lock();
            all.merge(written);
            *bytes += payload;
            Ok(())
        };
        gather().unwrap_or_else(|error| pull.fail(error));
    }
}

/// The state of one reading thread.
struct Part<'a> {
    sink: Sink<'a>,
    notes: FingerprintWriter<'a>,
    payload: u64,
    /// The source of the current chunk.
    source: u32,
    spare: Option<Buffer>,
}

impl Part<'_> {
    fn content(&self) -> Content {
        self.sink.tally().unwrap_or_default().written
    }

    /// Adds blocks, each with its place in the source. It is an error if the database had another block under one of the
    /// keys.
    fn add_unless_other(&mut self, known: &ExistingRecords, name: &Path, blocks: &[(u64, Record<'_>)]) -> Result<()> {
        let keys: Vec<&[u8]> = blocks.iter().map(|(_, record)| record.key()).collect();
        let mut holds = vec![false; keys.len()];
        known.look_up(&keys, false, |index, value| {
            let (place, record) = blocks[index];
            holds[index] = true;
            if record.value() == value { Ok(()) } else { Err(conflict(name, record.key(), Some(place))) }
        })?;
        blocks.iter().zip(holds).try_for_each(|((_, record), holds)| self.add(*record, holds))
    }

    /// Notes a record and puts it into a batch. `holds` is true if the database had it before.
    fn add(&mut self, record: Record<'_>, holds: bool) -> Result<()> {
        let digest = record.digest();
        self.notes.note(record, digest, holds, self.source)?;
        let (bytes, key_len) = record.parts();
        self.sink.put_with_digest(bytes, key_len, digest)?;
        self.payload += record.value().len() as u64;
        Ok(())
    }
}
