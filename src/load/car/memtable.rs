//! A CAR with the memtable loader: batches into memtables with the options of the preset, then one final compaction.
//!
//! It is slower than building SSTs. It exists because option sets must be compared, and because a database with data may need
//! it. Threads take chunks, verify the blocks and gather batches; others write the batches, and wait while RocksDB stalls
//! writers. The records of the finished database are counted and digested.

use std::path::Path;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::Content;
use crate::load::car::blocks::{BlockReader, conflict};
use crate::load::car::completeness::report_f3;
use crate::load::car::counts::Counts;
use crate::load::car::fingerprints::{FingerprintSum, FingerprintWriter, Fingerprints, key_hash};
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{Compacted, check_content, compact, memtable_report, watched};
use crate::load::context::{Job, Loaded};
use crate::load::existing::ExistingRecords;
use crate::load::journal::{Checkpoint, Entry, SourceDelta};
use crate::load::sink::batches::{BatchBuilder, BatchChannel};
use crate::load::sink::{Sink, Sinks};
use crate::os::buffer::Buffer;
use crate::parallel::{self, Pull};
use crate::progress::{Event, Phase};
use crate::rocks::{Meter, Store, find_key};
use crate::sort::{Borders, ClassCounts, LARGE, Record};
use crate::source::car::{Chunks, SourceRead, Tail};

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
    let counts = Counts::new(chunks.sources(), &[]);
    let load = Load { job, fingerprints, known, counts };
    let sinks = Sinks::batches(job, &store, &families);
    let (checkpoint, tail, sources) = watched(job, &store, None, || load.run(&sinks, chunks))?;
    let batches = sinks.written_batches();
    drop(sinks);
    let f3 = report_f3(job, &sources)?;
    let compacted = compact(job, store, &families, &meter)?;
    failpoint::reach("compacted");
    let noted = load.check(&compacted, &checkpoint)?;
    let Content { records, digest } = noted.records;
    failpoint::reach("checked");
    let (memtable, rocksdb_written) = memtable_report(&meter, batches, compacted.level0_files);
    Ok(Loaded {
        blocks: checkpoint.blocks,
        payload: checkpoint.payload,
        consumed: checkpoint.consumed,
        tail,
        records,
        duplicates: checkpoint.blocks.saturating_sub(records),
        existing: records.saturating_sub(noted.fresh.records),
        digest,
        levels: compacted.levels(&options.column_family),
        rocksdb_written: (!options.into_existing).then_some(rocksdb_written),
        memtable: Some(memtable),
        f3,
        sources,
        repeats: noted.repeats,
        ..Loaded::default()
    })
}

struct Load<'a> {
    job: &'a Job<'a>,
    fingerprints: Fingerprints,
    /// The records that an existing database had before.
    known: Option<ExistingRecords>,
    counts: Counts,
}

impl Load<'_> {
    /// Compares the blocks that were read with the fingerprints, and the distinct records of these with what the finished
    /// database has more than before. Returns the sum of the fingerprints.
    fn check(&self, compacted: &Compacted, read: &Checkpoint) -> Result<FingerprintSum> {
        let Job { options, progress, target, plan, .. } = *self.job;
        let family = &options.column_family;
        progress.begin(Phase::Check, self.known.is_none().then_some(read.payload));
        // The rest of the budget is for RocksDB, which has the database open.
        let sorting = usize::try_from(plan.memory / 2).unwrap_or(usize::MAX) / plan.threads;
        let noted = parallel::pool(plan.threads)?.install(|| self.fingerprints.sum(sorting))?;
        if noted.read != read.content() {
            let what = format!("is damaged: its fingerprints have {}, {} were verified", noted.read, read.content());
            return Err(Error::damaged_work(&target.spill, what));
        }
        if let Some(hash) = noted.conflict {
            let key = find_key(&compacted.reader, family, |key| key_hash(key) == hash)?;
            return Err(conflict(&self.job.sources.shown(), &key.unwrap_or_default(), None));
        }
        let mut expected = noted.fresh;
        if let Some(ExistingRecords { reader, family: Some(family) }) = &self.known {
            expected.merge(self.job.scan(reader, &reader.files()?, family).content()?.0);
        }
        let (found, _) = self.job.scan(&compacted.reader, &compacted.files, family).content()?;
        check_content(self.job, found, expected)?;
        Ok(noted)
    }

    /// Reads everything and writes it, until the last memtable is flushed.
    fn run(&self, sinks: &Sinks<'_>, chunks: Chunks) -> Result<(Checkpoint, Tail, Vec<SourceRead>)> {
        let Job { options, plan, progress, journal, .. } = *self.job;
        let pull = Pull::new(chunks);
        sinks.run(&|error| pull.fail(error), |channel| {
            let read = |_| self.read(sinks, &pull, channel.clone()).unwrap_or_else(|error| pull.fail(error));
            pull.run(0..plan.threads, read);
        });
        let mut chunks = pull.finish()?;
        options.check_cancelled()?;
        sinks.flush()?;
        chunks.warning().into_iter().for_each(|message| progress.report(&Event::Warning { message }));
        let (content, payload) = self.counts.total();
        // By this a run after the last step compares the source.
        let checkpoint = Checkpoint::at(&chunks, content, payload, ClassCounts::default());
        let tail = chunks.tail();
        let delta = SourceDelta { sources: self.counts.take_delta(&mut chunks, &mut 0), marks: Vec::new() };
        journal.append(&Entry::Held { checkpoint, padding: tail.padding, delta })?;
        failpoint::reach("read-done");
        Ok((checkpoint, tail, self.counts.all(&mut chunks)))
    }

    /// Reads on one thread: gathers verified blocks into batches.
    fn read(&self, sinks: &Sinks<'_>, pull: &Pull<Chunks>, channel: Option<BatchChannel>) -> Result<()> {
        let Job { options, plan, progress, .. } = *self.job;
        let mut reader = BlockReader::new(self.job);
        let batch = channel.map(|channel| BatchBuilder::shared(channel, plan));
        let mut gatherer = Gatherer {
            sink: sinks.sink(&options.column_family, Borders::default(), batch.as_ref())?,
            notes: self.fingerprints.writer(),
            payload: 0,
            source: 0,
            spare: None,
        };
        let next = |chunks: &mut Chunks, gatherer: &mut Gatherer<'_>| {
            if options.stop.is_cancelled() {
                return Ok(None);
            }
            sinks.check_memory()?;
            let next = chunks.next(gatherer.spare.take())?;
            progress.reach(chunks.consumed());
            Ok(next)
        };
        pull.each(&mut gatherer, next, |gatherer, chunk, _| {
            let before = gatherer.content();
            (gatherer.source, gatherer.payload) = (chunk.source, 0);
            match &self.known {
                None => reader.each(&chunk, &[], |block| gatherer.add(block.record(options.key), false))?,
                Some(known) => {
                    let mut blocks = Vec::with_capacity(chunk.starts.len());
                    reader.each(&chunk, &[], |block| {
                        blocks.push((block.place(&chunk), block.record(options.key)));
                        Ok(())
                    })?;
                    gatherer.add_unless_other(known, &chunk.name, &blocks)?;
                }
            }
            chunk.bytes.check()?;
            let added = gatherer.content().without(before);
            progress.add(0, added.records);
            self.counts.add(chunk.source, added, gatherer.payload, reader.take_omitted());
            gatherer.spare = chunk.bytes.release().filter(|spare| (spare.len() as u64) < LARGE);
            Ok(())
        });
        gatherer.sink.finish()?;
        gatherer.notes.finish()
    }
}

/// The state of one reading thread.
struct Gatherer<'a> {
    sink: Sink<'a>,
    notes: FingerprintWriter<'a>,
    /// The source of the current chunk, and the bytes of the values in it.
    source: u32,
    payload: u64,
    spare: Option<Buffer>,
}

impl Gatherer<'_> {
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
        self.sink.put_with_digest(bytes.split_at(key_len), || digest)?;
        self.payload += record.value().len() as u64;
        Ok(())
    }
}
