//! A CAR with the memtable loader: batches into memtables with whatever options the preset names, then one final
//! compaction.
//!
//! It is slower than building SSTs, and exists because option sets must be compared, and because a database that holds
//! data may need it. Threads take chunks, check the blocks and gather batches; others write the batches, and wait there
//! while RocksDB stalls writers. The records of the finished database are counted and digested.

use std::path::Path;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::load::car::blocks::{BlockReader, conflict};
use crate::load::car::counts::Counts;
use crate::load::car::f3;
use crate::load::car::fingerprints::{FingerprintWriter, Fingerprints, Sum, key_hash};
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{Compacted, compact, watched};
use crate::load::context::{Job, Loaded, with_repeats};
use crate::load::existing::Held;
use crate::load::journal::{Checkpoint, Entry, SourceNews};
use crate::load::sink::batches::{BatchBuilder, BatchChannel};
use crate::load::sink::memtable::{MemtableWriter, check_content, report};
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
    let (store, held) = match job.existing {
        Some(existing) => {
            let store = existing.open(job.loading, &options.column_family, job.journal, Some(&meter))?;
            (store, Some(existing.held(&options.column_family)?))
        }
        None => (Store::create(&target.staging, &families.loading(), Some(&meter))?, None),
    };
    let held = held.as_ref();
    let counts = Counts::new(chunks.sources(), &[]);
    let sinks = Sinks::Batches(MemtableWriter::new(job, &store, &families));
    let load = Load { job, sinks: &sinks, fingerprints: &fingerprints, held, counts: &counts };
    let written = watched(job, &store, None, || load.run(chunks))?;
    let batches = sinks.batches();
    drop(sinks);
    let f3 = f3::report(job, &written.sources)?;
    let compacted = compact(job, store, &families, &meter)?;
    failpoint::reach("compacted");
    let noted = check(job, &compacted, &written, &fingerprints, held)?;
    let records = noted.records;
    failpoint::reach("checked");
    let (memtable, rocksdb_written) = report(&meter, batches, compacted.level0_files);
    Ok(Loaded {
        blocks: written.blocks,
        payload: written.payload,
        consumed: written.consumed,
        tail: written.tail,
        spilled: false,
        records: records.records,
        duplicates: written.blocks.saturating_sub(records.records),
        existing: records.records.saturating_sub(noted.fresh.records),
        digest: records.digest,
        levels: compacted.levels(&options.column_family),
        rocksdb_written: (!options.into_existing).then_some(rocksdb_written),
        memtable: Some(memtable),
        f3,
        log: None,
        sources: with_repeats(written.sources, &noted.repeats.into_iter().collect::<Vec<_>>()),
        routed: None,
    })
}

/// Compares the blocks that were read with the fingerprints, and the distinct records of these with what the finished
/// database has more than before. Returns the sum of the fingerprints.
fn check(
    job: &Job<'_>,
    compacted: &Compacted,
    written: &Written,
    fingerprints: &Fingerprints,
    held: Option<&Held>,
) -> Result<Sum> {
    let Job { options, progress, target, .. } = *job;
    let family = &options.column_family;
    progress.begin(Phase::Check, held.is_none().then_some(written.payload));
    // The rest of the budget is for RocksDB, which has the database open.
    let sorting = usize::try_from(job.plan.memory / 2).unwrap_or(usize::MAX) / job.plan.threads;
    let noted = parallel::pool(job.plan.threads)?.install(|| fingerprints.sum(sorting))?;
    let verified = Content { records: written.blocks, digest: written.digest };
    if noted.read != verified {
        let what = format!("is damaged: its fingerprints have {}, {verified} were verified", noted.read);
        return Err(Error::damaged_work(&target.spill, what));
    }
    if let Some(hash) = noted.conflict {
        let key = find_key(&compacted.reader, family, |key| key_hash(key) == hash)?;
        return Err(conflict(&job.sources.shown(), &key.unwrap_or_default(), None));
    }
    let mut expected = noted.fresh;
    if let Some(held) = held
        && let Some(family) = held.family()
    {
        expected.merge(job.scan(&held.reader, &held.reader.files()?, family).content()?.0);
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
    /// What an existing database held before.
    held: Option<&'a Held>,
    counts: &'a Counts,
}

/// What has been written.
#[derive(Debug, Default)]
struct Written {
    blocks: u64,
    payload: u64,
    /// Content digest of all blocks.
    digest: ContentDigest,
    tail: Tail,
    consumed: u64,
    sources: Vec<SourceRead>,
}

impl Load<'_> {
    /// Reads everything and writes it, until the last memtable is flushed.
    fn run(&self, chunks: Chunks) -> Result<Written> {
        let Job { options, plan, progress, journal, .. } = *self.job;
        let all = Mutex::new(Written::default());
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
        let mut written = all.into_inner();
        (written.tail, written.consumed) = (chunks.tail(), chunks.consumed());
        // A run after the last step knows the source by this.
        let checkpoint = Checkpoint {
            source: chunks.source(),
            offset: chunks.position(),
            consumed: written.consumed,
            checksum: chunks.checksum(),
            restart: chunks.restart(),
            blocks: written.blocks,
            payload: written.payload,
            digest: written.digest,
            framed: ClassCounts::default(),
        };
        let news = SourceNews { sources: self.counts.take_delta(&mut chunks, &mut 0), marks: Vec::new() };
        written.sources = self.counts.take(&mut chunks);
        journal.append(&Entry::Held { checkpoint, padding: written.tail.padding, news })?;
        failpoint::reach("read-done");
        Ok(written)
    }

    /// One thread that reads: gathers checked blocks into batches.
    fn read(&self, pull: &Pull<Chunks>, channel: Option<BatchChannel>, all: &Mutex<Written>) {
        let Job { options, plan, progress, .. } = *self.job;
        let gather = || -> Result<Written> {
            let mut reader = BlockReader::new(options, self.job.journal, self.job.links);
            let batch = channel.map(|channel| BatchBuilder::shared(channel, plan));
            let mut part = Part {
                sink: self.sinks.sink(&options.column_family, Borders::default(), batch.as_ref())?,
                notes: self.fingerprints.writer(),
                done: Written::default(),
                source: 0,
                content: Content::default(),
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
                let before = (part.done.blocks, part.done.payload);
                part.source = chunk.source;
                part.content = Content::default();
                match self.held {
                    None => reader.each(&chunk, &[], |block| part.add(block.record(options.key), false))?,
                    Some(held) => {
                        let mut blocks = Vec::with_capacity(chunk.starts.len());
                        reader.each(&chunk, &[], |block| {
                            blocks.push((block.place(&chunk), block.record(options.key)));
                            Ok(())
                        })?;
                        part.add_unless_other(held, &chunk.name, &blocks)?;
                    }
                }
                chunk.bytes.check()?;
                progress.add(0, part.done.blocks - before.0);
                self.counts.add(chunk.source, part.content, part.done.payload - before.1);
                part.spare = chunk.bytes.release().filter(|spare| (spare.len() as u64) < LARGE);
                Ok(())
            });
            part.finish()
        };
        match gather() {
            Ok(done) => {
                let mut all = all.lock();
                all.blocks += done.blocks;
                all.payload += done.payload;
                all.digest.merge(done.digest);
            }
            Err(error) => pull.fail(error),
        }
    }
}

/// The state of one reading thread.
struct Part<'a> {
    sink: Sink<'a>,
    notes: FingerprintWriter<'a>,
    done: Written,
    /// The source of the chunk in hand, and what it has come to.
    source: u32,
    content: Content,
    spare: Option<Buffer>,
}

impl Part<'_> {
    /// Adds blocks, each with its place in the source; it is an error if the database held another block under one of the
    /// keys.
    fn add_unless_other(&mut self, held: &Held, name: &Path, blocks: &[(u64, Record<'_>)]) -> Result<()> {
        let keys: Vec<&[u8]> = blocks.iter().map(|(_, record)| record.key()).collect();
        let mut holds = vec![false; keys.len()];
        held.look_up(&keys, false, |index, value| {
            let (place, record) = blocks[index];
            holds[index] = true;
            if record.value() == value { Ok(()) } else { Err(conflict(name, record.key(), Some(place))) }
        })?;
        blocks.iter().zip(holds).try_for_each(|((_, record), holds)| self.add(*record, holds))
    }

    /// Notes a record and puts it into a batch; `holds` says that the database held it before.
    fn add(&mut self, record: Record<'_>, holds: bool) -> Result<()> {
        let digest = record.digest();
        self.content.add(digest);
        self.notes.note(record, digest, holds, self.source)?;
        let (bytes, key_len) = record.parts();
        self.sink.put(bytes, key_len, digest)?;
        self.done.blocks += 1;
        self.done.digest.merge(digest);
        self.done.payload += record.value().len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<Written> {
        self.sink.finish()?;
        self.notes.finish()?;
        Ok(self.done)
    }
}
