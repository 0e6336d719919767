//! The two write paths of a block log: finished files that RocksDB ingests, and batches that it writes.
//!
//! With files, a range is durable as soon as its own are synced. With batches, nothing is until memtables are flushed: so
//! from time to time no worker gets another range until all that were given out are written and flushed, and only then the
//! journal names them. What an interrupted run has written beyond that is written again, to the same records.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::Result;
use crate::failpoint;
use crate::load::block_log::output::{BatchSink, Output};
use crate::load::built::{FamilyDone, RangeDone};
use crate::load::checkpoint::Clock;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::journal::Entry;
use crate::load::planner;
use crate::load::sink::batches::BatchBuilder;
use crate::load::sink::memtable::{flush, full_from};
use crate::load::sink::sst::SstFolder;
use crate::os::files::sync_dir;
use crate::rocks::{SstOptions, Store};
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::sort::borders::Borders;
use crate::sort::spill::Extent;

/// How records get into the database.
pub(super) enum WritePath<'a> {
    Files(Box<FileWrites<'a>>),
    Batches(BatchWrites<'a>),
}

/// SST files that are being built.
pub(super) struct FileWrites<'a> {
    job: &'a Job<'a>,
    blocks: Option<SstOptions>,
    ids: Option<SstOptions>,
    transactions: Option<SstOptions>,
    folder: SstFolder<'a>,
}

/// A database that is written to.
pub(super) struct BatchWrites<'a> {
    job: &'a Job<'a>,
    pub store: &'a Store,
    families: &'a ColumnFamilies<'a>,
    full_from: u64,
    pause: Mutex<Pause>,
    /// Ranges that have been given to the writers and are not durable.
    unsaved: Mutex<Vec<RangeDone>>,
    /// Batches that were written.
    pub batches: AtomicU64,
}

/// When the next checkpoint is due.
struct Pause {
    clock: Clock,
    /// Bytes of the log given out.
    given: u64,
    /// No worker gets a range until what was given out has been made durable.
    paused: bool,
}

/// Where the records of one range go.
pub(super) struct Outputs<'a> {
    pub blocks: Output<'a>,
    pub ids: Output<'a>,
    /// Ids of transactions are also sorted: see `transactions`.
    pub transactions: Option<BatchSink<'a>>,
    batches: Option<Rc<RefCell<BatchBuilder>>>,
}

impl<'a> WritePath<'a> {
    /// Through files, with numbers behind those of an earlier run.
    pub fn files(job: &'a Job<'a>, families: &ColumnFamilies<'_>) -> Result<Self> {
        Ok(Self::Files(Box::new(FileWrites {
            job,
            blocks: families.names().next().map(|name| families.sst(job, name)).transpose()?.flatten(),
            ids: families.sst(job, BLOCK_IDS)?,
            transactions: families.sst(job, TRANSACTIONS)?,
            folder: SstFolder::new(&job.target.sst, job.plan.sst_bytes, &job.resumed.files),
        })))
    }

    /// Through the memtables of an open database.
    pub fn batches(job: &'a Job<'a>, store: &'a Store, families: &'a ColumnFamilies<'a>) -> Result<Self> {
        let clock = Clock::new(0, None).at_most(planner::unflushed_bytes(job.plan, job.loading));
        let pause = Pause { clock, given: 0, paused: false };
        Ok(Self::Batches(BatchWrites {
            job,
            store,
            families,
            full_from: full_from(job)?,
            pause: Mutex::new(pause),
            unsaved: Mutex::default(),
            batches: AtomicU64::new(0),
        }))
    }

    /// The outputs of one range; `batches` are those of its thread, where records go into batches.
    pub fn outputs(&self, batches: Option<&Rc<RefCell<BatchBuilder>>>) -> Result<Outputs<'_>> {
        match self {
            Self::Files(building) => Ok(Outputs {
                blocks: Output::to_files(
                    building.blocks.as_ref().map(|sst| building.folder.writer(sst, Borders::default())),
                ),
                ids: Output::to_files(building.ids.as_ref().map(|sst| building.folder.writer(sst, Borders::default()))),
                transactions: None,
                batches: None,
            }),
            Self::Batches(writing) => {
                let sink = |name: &str| -> Result<Option<BatchSink<'_>>> {
                    let Some(batches) = batches.filter(|_| writing.families.has(name)) else { return Ok(None) };
                    let writer = writing.store.writer(name, &writing.job.preset.write())?;
                    Ok(Some(BatchSink { writer: Rc::new(writer), batches: batches.clone() }))
                };
                let blocks = writing.families.names().next().unwrap_or_default();
                Ok(Outputs {
                    blocks: Output::to_batches(sink(blocks)?),
                    ids: Output::to_batches(sink(BLOCK_IDS)?),
                    transactions: sink(TRANSACTIONS)?,
                    batches: batches.cloned(),
                })
            }
        }
    }

    /// Where a sorted partition of transactions goes.
    pub fn sorted_transactions(&self, borders: Borders) -> Result<Output<'_>> {
        match self {
            Self::Files(building) => {
                Ok(Output::to_files(building.transactions.as_ref().map(|sst| building.folder.writer(sst, borders))))
            }
            Self::Batches(writing) => {
                Ok(Output::rewrite(writing.store.writer(TRANSACTIONS, &writing.job.preset.write())?))
            }
        }
    }

    /// Makes such a partition durable.
    pub fn sync_transactions(&self, done: &FamilyDone) -> Result<()> {
        match self {
            Self::Files(building) => sync_dir(&building.job.target.sst),
            Self::Batches(writing) if done.tally.duplicates > 0 => writing.store.flush(TRANSACTIONS),
            Self::Batches(_) => Ok(()),
        }
    }

    /// Whether no worker may have another range now.
    pub fn is_paused(&self) -> bool {
        let Self::Batches(writing) = self else { return false };
        let mut pause = writing.pause.lock();
        let given = pause.given;
        // A memtable that is as good as full becomes a file anyway: flushing it then makes no file more.
        let nearly_full = || writing.store.active_memtable().is_ok_and(|bytes| bytes >= writing.full_from);
        pause.paused |= pause.clock.is_due_by_time(given, nearly_full);
        pause.paused
    }

    /// Notes that so many bytes of the log were given out.
    pub fn given(&self, bytes: u64) {
        if let Self::Batches(writing) = self {
            writing.pause.lock().given += bytes;
        }
    }

    /// Takes a range whose outputs are finished; returns it if it is durable.
    pub fn finish(&self, done: RangeDone) -> Result<Option<RangeDone>> {
        match self {
            Self::Files(building) => {
                failpoint::reach("range-synced");
                sync_dir(&building.job.target.sst)?;
                building.job.journal.append(&Entry::Range(Box::new(done.clone())))?;
                failpoint::reach("range");
                if let Some(uploads) = building.job.uploads {
                    uploads.add(&building.job.options.column_family, &done.blocks.files)?;
                    uploads.add(BLOCK_IDS, &done.ids.files)?;
                }
                Ok(Some(done))
            }
            Self::Batches(writing) => {
                writing.unsaved.lock().push(done);
                Ok(None)
            }
        }
    }

    /// Makes all ranges durable that were given out, and returns them. No worker may hold one.
    pub fn make_durable(&self, extents: impl FnOnce() -> Result<Vec<(u32, Extent)>>) -> Result<Vec<RangeDone>> {
        match self {
            Self::Files(_) => Ok(Vec::new()),
            Self::Batches(writing) => writing.make_durable(extents),
        }
    }
}

impl BatchWrites<'_> {
    fn make_durable(&self, extents: impl FnOnce() -> Result<Vec<(u32, Extent)>>) -> Result<Vec<RangeDone>> {
        self.pause.lock().paused = false;
        let mut ranges = std::mem::take(&mut *self.unsaved.lock());
        if ranges.is_empty() || !flush(self.job, self.store, self.families)? {
            return Ok(Vec::new());
        }
        let extents = extents()?;
        ranges.sort_by_key(|range| range.first.number);
        let mut joined: Vec<RangeDone> = Vec::new();
        for range in ranges {
            let rest = match joined.last_mut() {
                Some(last) => last.join(range),
                None => Some(range),
            };
            joined.extend(rest);
        }
        failpoint::reach("range-synced");
        for range in &mut joined {
            range.extents.clone_from(&extents);
            self.job.journal.append(&Entry::Range(Box::new(range.clone())))?;
        }
        failpoint::reach("range");
        Ok(joined)
    }

    /// Counts batches that were written.
    pub fn wrote(&self, batches: u64) {
        self.batches.fetch_add(batches, Ordering::Relaxed);
    }
}

impl Outputs<'_> {
    /// From now on only counts records, which are in the database already.
    pub fn only_count(&mut self) {
        self.blocks.only_count();
        self.ids.only_count();
        self.transactions = None;
    }

    /// Completes the outputs; returns what went to blocks and to ids, which is in files or sent to the writers.
    pub fn finish(self) -> Result<(FamilyDone, FamilyDone)> {
        let done = (self.blocks.finish()?, self.ids.finish()?);
        if let Some(batches) = self.batches {
            batches.borrow_mut().send_rest();
        }
        Ok(done)
    }
}
