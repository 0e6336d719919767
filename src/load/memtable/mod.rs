//! The memtable loader: batches into memtables with whatever options the preset names, then one final compaction.
//!
//! It is slower than building SSTs, and exists because option sets must be compared, and because a database that holds
//! data may need it. Threads take chunks, check the blocks and gather batches; others write the batches, and wait there
//! when RocksDB holds writers back. What came out is counted and digested from the finished database.
//!
//! Here is the way of a CAR. What a block log has in common with it is in the files beside; its own way is in
//! `load/log/memtables`.

mod plan;
mod settle;
mod writers;

use std::sync::{Mutex, PoisonError};

pub(super) use plan::plan;
pub(super) use settle::Settled;
pub(super) use writers::{Gatherer, Outbox, beside_writers};

use super::blocks::BlockReader;
use super::existing::Held;
use super::families::Families;
use super::feed::{Feed, Position};
use super::import::Loaded;
use super::ingest::damaged_by;
use super::job::Job;
use super::journal::{Entry, Mark};
use super::ledger::{Ledger, Pen, key_hash};
use super::{descriptors, lock, read as reading};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::parallel;
use crate::progress::Phase;
use crate::report::MemtableReport;
use crate::rocks::option_map::Group;
use crate::rocks::{Meter, Store, Writer, find_key};
use crate::sort::key::Record;
use crate::source::car::chunks::{Chunk, Chunks, Tail};

/// What a memtable may lack to count as full, as a share of it, as its reciprocal.
const NEARLY: u64 = 8;

/// Bytes in memtables up to which they are flushed when somebody asks to stop. More would take too long to wait for: it
/// is read again instead.
const QUICK: u64 = 64 << 20;

impl Job<'_> {
    /// From the first block to a database that is closed and ready, not yet under its name.
    pub fn load_through_memtables(&self, chunks: Chunks) -> Result<Loaded> {
        self.write_all(chunks).map_err(|error| self.explain(error))
    }

    fn write_all(&self, mut chunks: Chunks) -> Result<Loaded> {
        let Self { options, target, .. } = *self;
        let families = Families::of_car(self).written_to();
        let meter = Meter::default();
        let before = self.before.read.as_ref();
        chunks.map();
        let ledger = match before {
            Some((mark, extents)) => {
                reading::skip(&mut chunks, mark, options, self.before.touched)?;
                self.progress.take_up(mark.consumed, mark.blocks);
                Ledger::resume(&target.spill, self.plan.expected_bytes, extents)?
            }
            None => Ledger::resume(&target.spill, self.plan.expected_bytes, &[])?,
        };
        let (store, held) = match self.existing {
            Some(existing) => {
                let store = existing.open(self, Some(&meter))?;
                (store, Some(existing.held(&options.column_family)?))
            }
            None => (self.open_staging(&families, before.is_some(), &meter)?, None),
        };
        let full_from = self.full_from()?;
        let held = held.as_ref();
        let load = Load { job: self, store: &store, families: &families, ledger: &ledger, held, full_from };
        let written = load.run(chunks)?;
        let settled = self.settle(store, &families, &meter)?;
        failpoint::reach("settled");
        let records = self.check(&settled, &written, &ledger, held)?;
        failpoint::reach("checked");
        let (memtable, rocksdb_written) = tell(&meter, written.batches, settled.level0_files);
        Ok(Loaded {
            blocks: written.blocks,
            payload: written.payload,
            consumed: written.consumed,
            tail: written.tail,
            spilled: false,
            records: records.records,
            duplicates: written.blocks.saturating_sub(records.records),
            digest: records.digest,
            levels: settled.levels(&options.column_family),
            rocksdb_written: (!options.into_existing).then_some(rocksdb_written),
            memtable: Some(memtable),
            log: None,
        })
    }

    /// The database under its working name: a new one, or what an earlier run `has_begun` to write.
    ///
    /// # Errors
    /// RocksDB refuses it, or it is gone.
    pub(super) fn open_staging(&self, families: &Families<'_>, has_begun: bool, meter: &Meter) -> Result<Store> {
        let staging = &self.target.staging;
        if !has_begun {
            // Nothing in it was durable.
            self.target.remove_staging()?;
            return Store::create_families(staging, &families.loading(), Some(meter));
        }
        if !staging.join("CURRENT").exists() {
            return Err(Error::damaged_work(&self.target.partial, format!("lacks {}", staging.display())));
        }
        // A compaction may have begun: what it has made is opened as it was being made.
        let options = if self.before.read_done.is_some() { families.settling() } else { families.loading() };
        Store::reopen_families(staging, &options, Some(meter)).map_err(damaged_by)
    }

    /// Bytes from which on a memtable is as good as full.
    pub(super) fn full_from(&self) -> Result<u64> {
        let buffer = descriptors::number(&self.loading, Group::Cf, "write_buffer_size")?.max(1) as u64;
        Ok(buffer - buffer / NEARLY)
    }

    /// Writes the memtables of these column families to files; `false` when somebody has asked to stop and it would take
    /// long.
    pub(super) fn flush(&self, store: &Store, families: &Families<'_>) -> Result<bool> {
        if self.options.stop.asked() {
            let held: u64 = families.names().map(|name| store.memtables_of(name)).sum::<Result<_>>()?;
            if held > QUICK {
                return Ok(false);
            }
        }
        families.names().try_for_each(|name| store.flush(name)).map(|()| true)
    }

    /// Compares what was read with what was noted, and the distinct records of that with what the finished database has
    /// more than before; those records.
    fn check(&self, settled: &Settled, written: &Written, ledger: &Ledger, held: Option<&Held>) -> Result<Content> {
        let Self { options, progress, target, .. } = *self;
        let family = &options.column_family;
        progress.begin(Phase::Check, held.is_none().then_some(written.payload));
        let noted = parallel::pool(self.plan.threads)?.install(|| ledger.sum())?;
        let verified = Content { records: written.blocks, digest: written.digest };
        if noted.read != verified {
            let what = format!("is damaged: its ledger has {}, {verified} were verified", noted.read);
            return Err(Error::damaged_work(&target.spill, what));
        }
        if let Some(conflict) = noted.conflict {
            let key = find_key(&settled.reader, family, |key| key_hash(key) == conflict)?;
            return Err(self.conflict(&key.unwrap_or_default(), None));
        }
        let mut expected = noted.fresh;
        if let Some(held) = held
            && let Some(family) = held.family()
        {
            expected.merge(self.scan(&held.reader, &held.reader.files()?, family).content()?.0);
        }
        let (found, _) = self.scan(&settled.reader, &settled.files, family).content()?;
        self.is_as_written(&found, expected.records, expected.digest)?;
        Ok(noted.records)
    }

    /// Compares what is there with what was written.
    pub(super) fn is_as_written(&self, found: &Content, records: u64, digest: ContentDigest) -> Result<()> {
        if (records, digest) == (found.records, found.digest) {
            return Ok(());
        }
        Err(Error::Rocks {
            action: "read back",
            path: self.target.working().to_owned(),
            message: format!(
                "{records} records with the digest {digest} were written, {} with {} are there",
                found.records, found.digest
            ),
        })
    }

    /// A database that was there before is not as it was; what an earlier run has written elsewhere may be damaged.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Interrupted { .. } if self.options.into_existing => Error::Interrupted {
                hint: "a part of the blocks may be in the database already; run the same command again".into(),
            },
            error if self.options.into_existing => error,
            error => self.damaged(error),
        }
    }
}

/// What RocksDB did while it was written to, and the bytes that it wrote.
pub(super) fn tell(meter: &Meter, batches: u64, level0_files_before_settling: u64) -> (MemtableReport, u64) {
    let counted = meter.read();
    let report = MemtableReport {
        batches,
        flushes: counted.flushes,
        flush_bytes_written: counted.flush_written,
        wal_bytes_written: counted.wal_written,
        stalls: counted.stalls,
        stall_seconds: counted.stalled.as_secs_f64(),
        level0_files_before_settling,
        compactions: counted.compactions,
        compaction_bytes_read: counted.compaction_read,
        compaction_bytes_written: counted.compaction_written,
    };
    (report, counted.flush_written + counted.wal_written + counted.compaction_written)
}

/// What the threads share while they write.
struct Load<'a> {
    job: &'a Job<'a>,
    store: &'a Store,
    families: &'a Families<'a>,
    ledger: &'a Ledger,
    /// What the database held before, where it was there.
    held: Option<&'a Held>,
    /// Bytes from which on a memtable is as good as full.
    full_from: u64,
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
}

impl Load<'_> {
    /// Reads everything and writes it, until the last memtable has become a file.
    fn run(&self, chunks: Chunks) -> Result<Written> {
        let Job { options, plan, preset, progress, .. } = *self.job;
        let feed = Feed::new(chunks, options, progress);
        let mut all = Mutex::new(Written::default());
        if let Some((mark, _)) = &self.job.before.read {
            let Mark { blocks, payload, digest, .. } = *mark;
            *lock(&all) = Written { blocks, payload, digest, ..Written::default() };
        }
        self.job.watched(self.store, None, || {
            loop {
                let fail = |error| feed.fail(u64::MAX, error);
                let ((), batches) = beside_writers(self.store, preset, plan.threads, &fail, |outbox| {
                    parallel::run_workers(plan.threads, || self.read(&feed, outbox.clone(), &all), fail);
                });
                let position = feed.pause()?;
                let written = all.get_mut().unwrap_or_else(PoisonError::into_inner);
                (written.tail, written.consumed) = (position.tail, position.consumed);
                written.batches += batches;
                self.make_durable(&position, written)?;
                if position.ended {
                    return Ok(std::mem::take(written));
                }
                if options.stop.asked() {
                    return Err(super::interrupted());
                }
            }
        })
    }

    /// Everything given out so far is in files; the journal says so.
    fn make_durable(&self, position: &Position, written: &Written) -> Result<()> {
        if !self.job.flush(self.store, self.families)? {
            return Err(super::interrupted());
        }
        let extents = self.ledger.sync()?;
        let mark = Mark {
            offset: position.offset,
            consumed: position.consumed,
            checksum: position.checksum,
            blocks: written.blocks,
            payload: written.payload,
            digest: written.digest,
        };
        failpoint::reach("read-synced");
        if position.ended {
            self.job.journal.append(&Entry::ReadDone { mark, extents, padding: position.tail.padding })?;
            failpoint::reach("read-done");
        } else {
            self.job.journal.append(&Entry::Read { mark, extents })?;
            failpoint::reach("read");
        }
        Ok(())
    }

    /// One thread that reads: gathers checked blocks into batches.
    fn read(&self, feed: &Feed<'_>, outbox: Outbox, all: &Mutex<Written>) {
        let Job { options, plan, preset, progress, .. } = *self.job;
        let gather = || -> Result<Written> {
            let mut reader = BlockReader::new(options, self.job.journal);
            let mut part = Part {
                load: self,
                writer: self.store.writer(&preset.write())?,
                gatherer: Gatherer::new(outbox, plan),
                pen: self.ledger.pen(),
                done: Written::default(),
            };
            // A memtable that is as good as full becomes a file anyway: flushing it then makes no file more.
            let nearly_full = || self.store.active_memtable().is_ok_and(|bytes| bytes >= self.full_from);
            feed.each(nearly_full, |chunk: Chunk| {
                let before = part.done.blocks;
                match self.held {
                    None => reader
                        .each(&chunk, |block| block.record(options.key).map_or(Ok(()), |it| part.add(it, false)))?,
                    Some(held) => {
                        let mut blocks = Vec::with_capacity(chunk.starts.len());
                        reader.each(&chunk, |block| {
                            blocks.extend(block.record(options.key).map(|record| (block.start, record)));
                            Ok(())
                        })?;
                        part.add_unless_other(held, &chunk, &blocks)?;
                    }
                }
                chunk.bytes.check()?;
                progress.add(0, part.done.blocks - before);
                Ok(chunk.bytes.release())
            });
            part.finish()
        };
        match gather() {
            Ok(done) => {
                let mut all = lock(all);
                all.blocks += done.blocks;
                all.payload += done.payload;
                all.digest.merge(done.digest);
            }
            Err(error) => feed.fail(u64::MAX, error),
        }
    }
}

/// What one reading thread does.
struct Part<'a> {
    load: &'a Load<'a>,
    writer: Writer<'a>,
    gatherer: Gatherer,
    pen: Pen<'a>,
    done: Written,
}

impl Part<'_> {
    /// Adds the blocks of a chunk, each of which the database holds in the same form or not at all.
    fn add_unless_other(&mut self, held: &Held, chunk: &Chunk, blocks: &[(u32, Record<'_>)]) -> Result<()> {
        let keys: Vec<&[u8]> = blocks.iter().map(|(_, record)| record.key()).collect();
        let mut holds = vec![false; keys.len()];
        held.look_up(&keys, false, |index, value| {
            let (start, record) = blocks[index];
            holds[index] = true;
            let at = chunk.base + u64::from(start);
            if record.value() == value { Ok(()) } else { Err(self.load.job.conflict(record.key(), Some(at))) }
        })?;
        blocks.iter().zip(holds).try_for_each(|((_, record), holds)| self.add(*record, holds))
    }

    /// Notes a record and puts it into a batch; `holds` says that the database held it before.
    fn add(&mut self, record: Record<'_>, holds: bool) -> Result<()> {
        let digest = record.digest();
        self.pen.note(record, digest, holds)?;
        self.gatherer.put(&self.writer, record.key(), record.value());
        self.done.blocks += 1;
        self.done.digest.merge(digest);
        self.done.payload += record.value().len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<Written> {
        self.gatherer.hand_over_rest();
        self.pen.put_down()?;
        Ok(self.done)
    }
}
