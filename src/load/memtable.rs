//! The memtable loader: batches into memtables with whatever options the preset names, then one final compaction.
//!
//! It is slower than building SSTs, and exists because option sets must be compared, and because a database that holds
//! data may need it. Threads take chunks, check the blocks and gather batches; others write the batches, and wait there
//! when RocksDB holds writers back. What came out is counted and digested from the finished database.

use std::sync::Mutex;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::blocks::BlockReader;
use super::build::show_key;
use super::feed::{Feed, Position};
use super::import::Loaded;
use super::job::Job;
use super::journal::{Entry, Mark};
use super::ledger::{Ledger, Pen, Sum, key_hash, may_conflict};
use super::options::ImportOptions;
use super::plan::{MemtablePlan, Plan};
use super::{descriptors, durable, lock, points, read as reading};
use crate::error::{Error, Result};
use crate::preset::Resolved;
use crate::progress::{Backlog, Phase};
use crate::read;
use crate::report::MemtableReport;
use crate::rocks::option_map::{Group, OptionMap};
use crate::rocks::{Batch, DataFile, Level, Meter, Reader, ReaderOptions, Store, Writer, levels_of};
use crate::size::human;
use crate::sort::key::Record;
use crate::source::car::CarProblem;
use crate::source::car::chunks::{Chunk, Chunks, Tail};
use crate::sys;

/// How often RocksDB is asked what lies before it.
const WATCH: Duration = Duration::from_millis(200);

/// The block cache of the last look at the database, in bytes: nothing is read twice.
const CACHE: usize = 8 << 20;

/// SST files that are open at the same time in that look.
const OPEN_FILES: i32 = 64;

/// Files of level 0 beyond which one compaction of all of them is told to be unwise.
const MANY_LEVEL0: u64 = 500;

/// What a memtable may lack to count as full, as a share of it, as its reciprocal.
const NEARLY: u64 = 8;

/// Bytes a second at which a slow disk or a slow option set still takes records. Each durable point flushes, so that at
/// this speed no file of level 0 holds more than what comes in between two of them.
const SLOW: u64 = 48 << 20;

/// Batches gathered ahead, for each writer.
const AHEAD: usize = 2;

/// Adds to a plan what the options in `loading` come to, and what the user should hear about that.
///
/// # Errors
/// The write buffers do not fit into a budget that the user has named.
pub(super) fn plan(
    plan: &mut Plan,
    options: &ImportOptions,
    preset: &Resolved,
    loading: &OptionMap,
) -> Result<Vec<String>> {
    let number = |group, name| descriptors::number(loading, group, name);
    let buffer = number(Group::Cf, "write_buffer_size")?.max(1) as u64;
    let buffers = number(Group::Cf, "max_write_buffer_number")?.max(1) as u64;
    let cap = match number(Group::Db, "db_write_buffer_size")? {
        bytes @ 1.. => bytes as u64,
        _ => u64::MAX,
    };
    let write_buffer_bytes = buffer.saturating_mul(buffers).min(cap);
    let level0_files = match plan.expected_bytes {
        None => None,
        Some(bytes) => {
            let merged = number(Group::Cf, "min_write_buffer_number_to_merge")?.max(1) as u64;
            let between_points = SLOW * durable::EVERY.as_secs();
            let all = bytes.div_ceil(buffer.saturating_mul(merged).min(cap).min(between_points)) + 1;
            let never = loading.get(Group::Cf, "disable_auto_compactions") == Some("true")
                || loading.get(Group::Cf, "compaction_style") == Some("kCompactionStyleNone");
            let stop = number(Group::Cf, "level0_stop_writes_trigger")?.max(1) as u64;
            Some(if never { all } else { all.min(stop) })
        }
    };
    // Nothing is partitioned, held, or sorted here.
    (plan.partition_bits, plan.hold_bytes, plan.piece_bytes, plan.sort_bytes, plan.spill) = (0, 0, 0, 0, false);
    plan.open_files = descriptors::of_memtable(plan, loading, level0_files.unwrap_or_default())?;
    plan.memtable = Some(MemtablePlan {
        writer_threads: preset.writer_threads(),
        batch_bytes: preset.batch_bytes(),
        batch_count: preset.batch_count(),
        write_buffer_bytes,
        level0_files,
        compact: !options.no_compact,
    });

    let mut warnings = Vec::new();
    // A small source never fills them.
    let needed = write_buffer_bytes.min(plan.expected_bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(5) / 4));
    if needed > plan.memory {
        let reason = format!(
            "preset `{}` fills up to {} of write buffers, more than the memory budget of {}",
            preset.preset,
            human(needed),
            human(plan.memory)
        );
        if options.memory.is_some() {
            let hint =
                "give more --memory, or --set load.cf.write_buffer_size or load.cf.max_write_buffer_number lower";
            return Err(Error::Usage { reason, hint: hint.into() });
        }
        warnings.push(reason);
    }
    if let Some(files) = level0_files.filter(|&files| files > MANY_LEVEL0) {
        warnings.push(format!(
            "{files} files of level 0 are expected; beyond {MANY_LEVEL0} one compaction takes much memory: a larger \
             load.cf.write_buffer_size makes fewer"
        ));
    }
    Ok(warnings)
}

impl Job<'_> {
    /// From the first block to a database that is closed and ready, not yet under its name.
    pub fn load_through_memtables(&self, mut chunks: Chunks) -> Result<Loaded> {
        let Self { options, target, preset, .. } = *self;
        let family = &options.column_family;
        let meter = Meter::default();
        let before = self.before.read.as_ref();
        let all_written = self.before.read_done.is_some();
        if before.is_none() && !options.into_existing && target.staging.exists() {
            // Nothing in it was durable.
            std::fs::remove_dir_all(&target.staging).map_err(Error::io("remove", &target.staging))?;
        }
        let store = if options.into_existing {
            Store::open(&target.db, &self.loading, family, Some(&meter))?
        } else if all_written {
            // A compaction may have begun: what it has made is opened as it was being made.
            Store::reopen(&target.staging, &preset.settling(), family, Some(&meter))?
        } else {
            Store::create(&target.staging, &self.loading, family, Some(&meter))?
        };
        chunks.map();
        let ledger = match before {
            Some((mark, extents)) => {
                reading::skip(&mut chunks, mark, options)?;
                Ledger::resume(&target.spill, self.plan.expected_bytes, extents)?
            }
            None => Ledger::new(&target.spill, self.plan.expected_bytes),
        };
        let buffer = descriptors::number(&self.loading, Group::Cf, "write_buffer_size")?.max(1) as u64;
        let full_from = buffer - buffer / NEARLY;
        let load = Load { job: self, store: &store, ledger: &ledger, full_from };
        let written = load.run(chunks).map_err(|error| self.explain(error))?;

        let before = store.levels()?;
        let level0_files = before.iter().find(|level| level.level == 0).map_or(0, |level| level.files);
        self.settle(store, &before, &meter).map_err(|error| self.explain(error))?;

        let working = target.working();
        let reader = Reader::open(working, &ReaderOptions { cache: CACHE, open_files: OPEN_FILES, lenient: false })?;
        let files = reader.files()?;
        let levels = levels_of(files.iter().filter(|file| file.family == *family).map(|file| (file.level, file.size)));
        if !options.no_compact {
            self.has_settled(&levels)?;
        }
        let sum = self.check(&reader, &files, &written, &ledger)?;
        let counted = meter.read();
        Ok(Loaded {
            blocks: written.blocks,
            payload: written.payload,
            consumed: written.consumed,
            tail: written.tail,
            spilled: false,
            records: sum.records,
            duplicates: written.blocks.saturating_sub(sum.records),
            digest: sum.digest,
            levels,
            rocksdb_written: (!options.into_existing)
                .then_some(counted.flush_written + counted.wal_written + counted.compaction_written),
            memtable: Some(MemtableReport {
                batches: written.batches,
                flushes: counted.flushes,
                flush_bytes_written: counted.flush_written,
                wal_bytes_written: counted.wal_written,
                stalls: counted.stalls,
                stall_seconds: counted.stalled.as_secs_f64(),
                level0_files_before_settling: level0_files,
                compactions: counted.compactions,
                compaction_bytes_read: counted.compaction_read,
                compaction_bytes_written: counted.compaction_written,
            }),
            log: None,
        })
    }

    /// The final compaction of what lies in the levels of `before`; then the database is opened once as its node will
    /// open it, so that its OPTIONS say so.
    fn settle(&self, store: Store, before: &[Level], meter: &Meter) -> Result<()> {
        let Self { options, preset, target, progress, .. } = *self;
        let family = &options.column_family;
        if options.no_compact {
            progress.begin(Phase::Settle, None);
            store.close();
        } else {
            // What lies in the last level already stays where it is.
            let last = before.iter().map(|level| level.level).max().filter(|&level| level > 0);
            let above = before.iter().filter(|level| Some(level.level) != last).map(|level| level.bytes).sum();
            progress.begin(Phase::Settle, Some(above));
            let settling = preset.settling();
            let store = if options.into_existing || settling == self.loading {
                store
            } else {
                store.close();
                Store::reopen(&target.staging, &settling, family, Some(meter))?
            };
            let outcome = self.watched(&store, Some(above), || store.compact(&preset.compaction()));
            if options.stop.asked() {
                return Err(super::interrupted());
            }
            outcome?;
            store.close();
        }
        if options.into_existing {
            return Ok(());
        }
        Store::reopen(&target.staging, &preset.node(), family, None).map(Store::close)
    }

    /// Whether a compaction that has not failed has also done its work.
    fn has_settled(&self, levels: &[Level]) -> Result<()> {
        let settled = match levels {
            [] => true,
            // In a database that was there, its own compactions may be at work.
            [first, ..] if self.options.into_existing => first.level != 0,
            [only] => only.level != 0,
            _ => false,
        };
        if settled {
            return Ok(());
        }
        let found: Vec<String> =
            levels.iter().map(|level| format!("{} files at level {}", level.files, level.level)).collect();
        Err(Error::Rocks {
            action: "compact",
            path: self.target.working().to_owned(),
            message: format!("not everything has gone to the last level: {}", found.join(", ")),
        })
    }

    /// Counts and digests what the source's records came to.
    fn check(&self, reader: &Reader, files: &[DataFile], written: &Written, ledger: &Ledger) -> Result<Sum> {
        let Self { options, progress, .. } = *self;
        let family = &options.column_family;
        progress.begin(Phase::Check, Some(written.payload));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.plan.threads).build().map_err(|error| {
            Error::io("start threads to check", self.target.working())(std::io::Error::other(error))
        })?;
        let noted = if written.noted > 0 { Some(pool.install(|| ledger.sum())?) } else { None };
        if let Some(conflict) = noted.and_then(|sum| sum.conflict) {
            let key = read::find_key(reader, family, |key| key_hash(key) == conflict)?;
            let problem = CarProblem::Conflict { key: show_key(&key.unwrap_or_default()) };
            return Err(Error::bad_input(&options.source, None, problem));
        }
        if options.into_existing {
            return Ok(noted.unwrap_or_default());
        }
        let found = pool.install(|| read::content(reader, files, family, progress, &options.stop))?;
        let all_noted = noted.filter(|_| written.noted == written.blocks);
        if let Some(sum) = all_noted.filter(|sum| (sum.records, sum.digest) != (found.records, found.digest)) {
            return Err(Error::Rocks {
                action: "read back",
                path: self.target.working().to_owned(),
                message: format!(
                    "{} records with the digest {} were written, {} with {} are there",
                    sum.records, sum.digest, found.records, found.digest
                ),
            });
        }
        Ok(Sum { records: found.records, digest: found.digest, conflict: None })
    }

    /// Runs `work` while a thread beside it shows what lies before RocksDB, and stops a compaction when asked to.
    /// `moving` is how many bytes a final compaction has to move.
    fn watched<T>(&self, store: &Store, moving: Option<u64>, work: impl FnOnce() -> T) -> T {
        let (over, is_over) = bounded::<()>(0);
        let written = || sys::io_bytes().map_or(0, |(_, written)| written);
        let before = written();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut cancelled = false;
                loop {
                    // What cannot be told is not shown; whatever is wrong, the work will hear of it.
                    let backlog = store.backlog().ok();
                    self.progress.set_backlog(match moving {
                        Some(moving) => {
                            let done = (written() - before).min(moving);
                            self.progress.reach(done);
                            backlog.map(|backlog| Backlog { pending_bytes: moving - done, ..backlog })
                        }
                        None => backlog,
                    });
                    if moving.is_some() && self.options.stop.asked() && !cancelled {
                        store.cancel_compaction();
                        cancelled = true;
                    }
                    if is_over.recv_timeout(WATCH) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                }
            });
            let result = work();
            drop(over);
            result
        })
    }

    /// A database that was there before is not as it was.
    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Interrupted { .. } if self.options.into_existing => Error::Interrupted {
                hint: "a part of the blocks may be in the database already; run the same command again".into(),
            },
            error => error,
        }
    }
}

/// What the threads share while they write.
struct Load<'a> {
    job: &'a Job<'a>,
    store: &'a Store,
    ledger: &'a Ledger,
    /// Bytes from which on a memtable is as good as full.
    full_from: u64,
}

/// What has been written.
#[derive(Debug, Default)]
struct Written {
    blocks: u64,
    payload: u64,
    batches: u64,
    /// Blocks that are in the ledger.
    noted: u64,
    tail: Tail,
    consumed: u64,
}

impl Load<'_> {
    /// Reads everything and writes it, until the last memtable has become a file.
    fn run(&self, chunks: Chunks) -> Result<Written> {
        let Job { options, plan, preset, progress, .. } = *self.job;
        let feed = Feed::new(chunks, options, progress);
        let writers = preset.writer_threads();
        let mut all = Mutex::new(Written::default());
        if let Some((mark, extents)) = &self.job.before.read {
            let noted = extents.iter().map(|(_, extent)| extent.blocks).sum();
            *lock(&all) = Written { blocks: mark.blocks, payload: mark.payload, noted, ..Written::default() };
        }
        self.job.watched(self.store, None, || {
            loop {
                let (full, to_write) = bounded(writers * AHEAD);
                let (written, empty) = bounded(writers * AHEAD + plan.threads);
                std::thread::scope(|scope| {
                    for _ in 0..writers {
                        let (to_write, written) = (to_write.clone(), written.clone());
                        scope.spawn(|| self.write(&feed, to_write, written, &all));
                    }
                    for _ in 0..plan.threads {
                        let (full, empty) = (full.clone(), empty.clone());
                        scope.spawn(|| self.read(&feed, full, empty, &all));
                    }
                    // The writers end when the last reader has let go.
                    drop(full);
                });
                let position = feed.pause()?;
                let written = all.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
                (written.tail, written.consumed) = (position.tail, position.consumed);
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
        self.store.flush()?;
        let extents = self.ledger.sync()?;
        let mark = Mark {
            offset: position.offset,
            consumed: position.consumed,
            checksum: position.checksum,
            blocks: written.blocks,
            payload: written.payload,
        };
        points::reach("read-synced");
        if position.ended {
            self.job.journal.append(&Entry::ReadDone { mark, extents, padding: position.tail.padding })?;
            points::reach("read-done");
        } else {
            self.job.journal.append(&Entry::Read { mark, extents })?;
            points::reach("read");
        }
        Ok(())
    }

    /// One thread that reads: gathers checked blocks into batches.
    fn read(&self, feed: &Feed<'_>, full: Sender<Batch>, empty: Receiver<Batch>, all: &Mutex<Written>) {
        let Job { options, preset, progress, .. } = *self.job;
        let gather = || -> Result<Written> {
            let mut reader = BlockReader::new(options, self.job.journal);
            let mut gatherer = Gatherer {
                load: self,
                writer: self.store.writer(&preset.write())?,
                batch: Batch::default(),
                limit: (preset.batch_bytes(), preset.batch_count()),
                pen: self.ledger.pen(),
                full,
                empty,
                done: Written::default(),
            };
            // A memtable that is as good as full becomes a file anyway: flushing it then makes no file more.
            let nearly_full = || self.store.active_memtable().is_ok_and(|bytes| bytes >= self.full_from);
            feed.each(nearly_full, |chunk: Chunk| {
                let before = gatherer.done.blocks;
                reader.each(&chunk, |block| {
                    let record = Record::new(block.body, &block.cid, options.key);
                    let Some(record) = record else { return Ok(()) };
                    gatherer.add(record, may_conflict(options.verify, options.key, &block.cid))
                })?;
                chunk.bytes.check()?;
                progress.add(0, gatherer.done.blocks - before);
                Ok(chunk.bytes.release())
            });
            gatherer.finish()
        };
        match gather() {
            Ok(done) => {
                let mut all = lock(all);
                all.blocks += done.blocks;
                all.payload += done.payload;
                all.noted += done.noted;
            }
            Err(error) => feed.fail(u64::MAX, error),
        }
    }

    /// One thread that writes. After a failure it goes on taking batches, so that no reader waits for it.
    fn write(&self, feed: &Feed<'_>, to_write: Receiver<Batch>, written: Sender<Batch>, all: &Mutex<Written>) {
        let mut batches = 0;
        let mut failed = false;
        let writer = self.store.writer(&self.job.preset.write());
        for mut batch in to_write {
            let outcome = match &writer {
                _ if failed => continue,
                Ok(writer) => writer.write(&batch),
                Err(_) => continue,
            };
            match outcome {
                Ok(()) => batches += 1,
                Err(error) => {
                    feed.fail(u64::MAX, error);
                    failed = true;
                    continue;
                }
            }
            batch.clear();
            // There is always room: no more batches exist than it holds.
            let _ = written.try_send(batch);
        }
        if let Err(error) = writer {
            feed.fail(u64::MAX, error);
        }
        lock(all).batches += batches;
    }
}

/// What a reading thread gathers.
struct Gatherer<'a> {
    load: &'a Load<'a>,
    writer: Writer<'a>,
    batch: Batch,
    /// Bytes and records at which a batch is written.
    limit: (u64, u64),
    pen: Pen<'a>,
    full: Sender<Batch>,
    empty: Receiver<Batch>,
    done: Written,
}

impl Gatherer<'_> {
    fn add(&mut self, record: Record<'_>, may_conflict: bool) -> Result<()> {
        self.writer.put(&mut self.batch, record.key(), record.value());
        self.done.blocks += 1;
        self.done.payload += record.value().len() as u64;
        // What a database held before cannot be told from the source's blocks later.
        if may_conflict || self.load.job.options.into_existing {
            self.pen.note(record)?;
            self.done.noted += 1;
        }
        if self.batch.bytes() >= self.limit.0 || self.batch.records() >= self.limit.1 {
            self.hand_over();
        }
        Ok(())
    }

    /// Waits while the writers are behind: this is how RocksDB's back-pressure reaches the reading.
    fn hand_over(&mut self) {
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        // Without writers the import has failed already, and somebody has said why.
        let _ = self.full.send(batch);
    }

    fn finish(mut self) -> Result<Written> {
        if self.batch.records() > 0 {
            self.hand_over();
        }
        self.pen.put_down()?;
        Ok(self.done)
    }
}
