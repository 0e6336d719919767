//! A CAR with the memtable loader: batches into memtables with whatever options the preset names, then one final
//! compaction.
//!
//! It is slower than building SSTs, and exists because option sets must be compared, and because a database that holds
//! data may need it. Threads take chunks, check the blocks and gather batches; others write the batches, and wait there
//! while RocksDB stalls writers. The records of the finished database are counted and digested.

use std::path::Path;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::load::car::blocks::{BlockReader, conflict};
use crate::load::car::counts::Counts;
use crate::load::car::earlier;
use crate::load::car::fingerprints::{FingerprintWriter, Fingerprints, Sum, key_hash};
use crate::load::checkpoint::Clock;
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{Compacted, compact, watched};
use crate::load::context::{Job, Loaded, with_repeats};
use crate::load::existing::Held;
use crate::load::f3;
use crate::load::journal::{Checkpoint, Entry, SourceNews};
use crate::load::planner;
use crate::load::sink::batches::{BatchBuilder, BatchChannel, write_beside};
use crate::load::sink::memtable::{check_content, flush, full_from, open_staging, report};
use crate::os::buffer::Buffer;
use crate::parallel::{self, Pull};
use crate::progress::{Event, Phase};
use crate::rocks::{Meter, Store, Writer, find_key};
use crate::sort::key::Record;
use crate::sort::router::ClassCounts;
use crate::sort::spill::LARGE;
use crate::source::car::chunks::{Chunks, Tail};
use crate::source::car::sources::SourceRead;
use parking_lot::Mutex;

/// Loads a CAR from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, chunks: Chunks) -> Result<Loaded> {
    write_all(job, chunks).map_err(|error| explain(job, error))
}

fn write_all(job: &Job<'_>, mut chunks: Chunks) -> Result<Loaded> {
    let Job { options, target, .. } = *job;
    let families = ColumnFamilies::of_car(job).written_to();
    let meter = Meter::default();
    let before = job.resumed.read.as_ref();
    let fingerprints = match before {
        Some((checkpoint, extents)) => {
            chunks.take_up(&job.resumed.sources);
            earlier::skip(&mut chunks, checkpoint, options, job.resumed, job.links)?;
            job.progress.take_up(checkpoint.consumed, checkpoint.blocks);
            Fingerprints::resume(&target.spill, job.plan.expected_bytes, extents)?
        }
        None => Fingerprints::resume(&target.spill, job.plan.expected_bytes, &[])?,
    };
    f3::attach(job, &mut chunks);
    let (store, held) = match job.existing {
        Some(existing) => {
            let store = existing.open(job.loading, &options.column_family, job.journal, Some(&meter))?;
            (store, Some(existing.held(&options.column_family)?))
        }
        None => (open_staging(job, &families, before.is_some(), &meter)?, None),
    };
    let full_from = full_from(job)?;
    let held = held.as_ref();
    let counts = Counts::new(chunks.sources(), before.map_or(&[][..], |_| &job.resumed.sources));
    let counts = &counts;
    let load = Load { job, store: &store, families: &families, fingerprints: &fingerprints, held, full_from, counts };
    let written = load.run(chunks)?;
    let f3 = f3::report(job, &written.sources)?;
    let compacted = compact(job, store, &families, &meter)?;
    failpoint::reach("compacted");
    let noted = check(job, &compacted, &written, &fingerprints, held)?;
    let records = noted.records;
    failpoint::reach("checked");
    let (memtable, rocksdb_written) = report(&meter, written.batches, compacted.level0_files);
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

/// Adapts an error: an existing database is changed when this stops; the work of an earlier run may be damaged.
fn explain(job: &Job<'_>, error: Error) -> Error {
    match error {
        Error::Interrupted { .. } if job.options.into_existing => Error::Interrupted {
            hint: "a part of the blocks may be in the database already; run the same command again".into(),
        },
        error if job.options.into_existing => error,
        error => job.damaged(error),
    }
}

/// The state that the threads share.
struct Load<'a> {
    job: &'a Job<'a>,
    store: &'a Store,
    families: &'a ColumnFamilies<'a>,
    fingerprints: &'a Fingerprints,
    /// What an existing database held before.
    held: Option<&'a Held>,
    /// Bytes from which on a memtable is as good as full.
    full_from: u64,
    counts: &'a Counts,
}

/// The source of the threads' chunks.
struct Source {
    chunks: Chunks,
    clock: Clock,
    /// No worker gets a chunk until what was given out has been made durable.
    paused: bool,
    ended: bool,
    /// The first source of which the journal does not have everything.
    noted: u32,
}

/// What has been written.
#[derive(Debug, Default)]
struct Written {
    blocks: u64,
    payload: u64,
    /// Content digest of all blocks.
    digest: ContentDigest,
    batches: u64,
    tail: Tail,
    consumed: u64,
    sources: Vec<SourceRead>,
}

impl Load<'_> {
    /// Reads everything and writes it, until the last memtable is flushed.
    fn run(&self, chunks: Chunks) -> Result<Written> {
        let Job { options, plan, preset, .. } = *self.job;
        let clock = Clock::new(chunks.taken(), None).at_most(planner::unflushed_bytes(plan, self.job.loading));
        let noted = self.job.resumed.read.as_ref().map_or(0, |(checkpoint, _)| checkpoint.source);
        let mut source = Source { chunks, clock, paused: false, ended: false, noted };
        let mut all = Mutex::new(Written::default());
        if let Some((checkpoint, _)) = &self.job.resumed.read {
            let Checkpoint { blocks, payload, digest, .. } = *checkpoint;
            *all.lock() = Written { blocks, payload, digest, ..Written::default() };
        }
        watched(self.job, self.store, None, || {
            loop {
                source.paused = false;
                let pull = Pull::new(source);
                let fail = |error| pull.fail(error);
                let ((), batches) = write_beside(self.store, preset, plan.threads, &fail, |channel| {
                    pull.run(0..plan.threads, |_| self.read(&pull, channel.clone(), &all));
                });
                source = pull.finish()?;
                let written = all.get_mut();
                (written.tail, written.consumed) = (source.chunks.tail(), source.chunks.consumed());
                written.batches += batches;
                self.make_durable(&mut source, written)?;
                if source.ended {
                    let warning = source.chunks.warning().map(|message| Event::Warning { message });
                    warning.iter().for_each(|warning| self.job.progress.report(warning));
                    return Ok(std::mem::take(written));
                }
                if options.stop.is_cancelled() {
                    return Err(Error::interrupted());
                }
            }
        })
    }

    /// Flushes everything given out so far, and notes it in the journal.
    fn make_durable(&self, source: &mut Source, written: &mut Written) -> Result<()> {
        if !flush(self.job, self.store, self.families)? {
            return Err(Error::interrupted());
        }
        let extents = self.fingerprints.sync()?;
        written.sources = self.counts.all(&mut source.chunks);
        let news = SourceNews { sources: self.counts.news(&mut source.chunks, &mut source.noted), marks: Vec::new() };
        let checkpoint = Checkpoint {
            source: source.chunks.source(),
            offset: source.chunks.position(),
            consumed: written.consumed,
            checksum: source.chunks.checksum(),
            restart: source.chunks.restart(),
            blocks: written.blocks,
            payload: written.payload,
            digest: written.digest,
            framed: ClassCounts::default(),
        };
        failpoint::reach("read-synced");
        if source.ended {
            self.job.journal.append(&Entry::ReadDone { checkpoint, extents, padding: written.tail.padding, news })?;
            failpoint::reach("read-done");
        } else {
            self.job.journal.append(&Entry::Read { checkpoint, extents, news })?;
            failpoint::reach("read");
        }
        Ok(())
    }

    /// One thread that reads: gathers checked blocks into batches.
    fn read(&self, pull: &Pull<Source>, channel: BatchChannel, all: &Mutex<Written>) {
        let Job { options, plan, preset, progress, .. } = *self.job;
        let gather = || -> Result<Written> {
            let no_record = || Error::broken_invariant("a block that was verified has no key");
            let mut reader = BlockReader::new(options, self.job.journal, self.job.links);
            let mut part = Part {
                writer: self.store.writer(&options.column_family, &preset.write())?,
                batches: BatchBuilder::new(channel, plan),
                notes: self.fingerprints.writer(),
                done: Written::default(),
                source: 0,
                content: Content::default(),
                spare: None,
            };
            // A memtable that is as good as full becomes a file anyway: flushing it then makes no file more.
            let nearly_full = || self.store.active_memtable().is_ok_and(|bytes| bytes >= self.full_from);
            let next = |source: &mut Source, part: &mut Part<'_>| {
                let taken = source.chunks.taken();
                if options.stop.is_cancelled() {
                    return Ok(None);
                }
                source.paused |= source.clock.is_due_by_time(taken, nearly_full);
                if source.paused {
                    return Ok(None);
                }
                let next = source.chunks.next(part.spare.take())?;
                source.ended |= next.is_none();
                progress.reach(source.chunks.consumed());
                Ok(next)
            };
            pull.each(&mut part, next, |part, chunk, _| {
                let before = (part.done.blocks, part.done.payload);
                part.source = chunk.source;
                part.content = Content::default();
                match self.held {
                    None => reader
                        .each(&chunk, &[], |block| part.add(block.record(options.key).ok_or_else(no_record)?, false))?,
                    Some(held) => {
                        let mut blocks = Vec::with_capacity(chunk.starts.len());
                        reader.each(&chunk, &[], |block| {
                            blocks.push((block.place(&chunk), block.record(options.key).ok_or_else(no_record)?));
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
    writer: Writer<'a>,
    batches: BatchBuilder,
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
        self.batches.put(&self.writer, record.key(), record.value());
        self.done.blocks += 1;
        self.done.digest.merge(digest);
        self.done.payload += record.value().len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<Written> {
        self.batches.send_rest();
        self.notes.finish()?;
        Ok(self.done)
    }
}
