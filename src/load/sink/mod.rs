//! Sinks of records: SST files, and batches for the memtables of an open database.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest};
use crate::load::built::{FamilyDone, SstFile, Tally};
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::planner;
use crate::load::sink::batches::{BatchBuilder, BatchChannel, SharedBatch, write_beside};
use crate::load::sink::sst::{RotatingSstWriter, SstFolder};
use crate::parallel::{ItemOrder, Pull};
use crate::rocks::{SstOptions, Store, Writer};
use crate::sort::Borders;
use crate::sort::record_set::RecordParts;

pub(super) mod batches;
pub(super) mod sst;

/// Writes the records of one column family, and counts them.
pub(in crate::load) struct Sink<'a> {
    output: SinkOutput<'a>,
    tally: Tally,
}

enum SinkOutput<'a> {
    /// Drops records and does not count them: the import does not make the column family.
    Discard,
    /// Drops records that the column family has already.
    CountOnly,
    Files(Box<RotatingSstWriter<'a>>),
    Batches(Writer<'a>, SharedBatch),
}

impl Sink<'_> {
    pub fn only_count(&mut self) {
        if !self.is_discarded() {
            self.output = SinkOutput::CountOnly;
        }
    }

    /// Writes a record whose value follows its key. Keys of files must ascend.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        if self.is_discarded() {
            return Ok(());
        }
        self.put_with_digest(record.split_at(key_len), || ContentDigest::of_section(record, key_len))
    }

    /// As [`Sink::put`], with the digest of the record, which is computed once the record is in its file: it may be in a source that
    /// another process changes meanwhile.
    pub fn put_with_digest(
        &mut self,
        (key, value): RecordParts<'_>,
        digest: impl FnOnce() -> ContentDigest,
    ) -> Result<()> {
        let digest = match &mut self.output {
            SinkOutput::Discard | SinkOutput::CountOnly => digest(),
            SinkOutput::Files(files) => files.put((key, value), digest)?,
            SinkOutput::Batches(writer, batch) => {
                batch.borrow_mut().put(writer, key, value);
                digest()
            }
        };
        self.tally.written.add(digest);
        Ok(())
    }

    /// Counts a record as a duplicate of an earlier one with the same key.
    pub fn repeated(&mut self, digest: ContentDigest) {
        self.tally.duplicates.add(digest);
    }

    /// The tally so far; `None` if records are discarded.
    pub fn tally(&self) -> Option<Tally> {
        (!self.is_discarded()).then_some(self.tally)
    }

    /// Completes and syncs the open file, or sends the rest of the batch. Returns the files that were written.
    pub fn finish(self) -> Result<FamilyDone> {
        let files = match self.output {
            SinkOutput::Files(files) => files.finish()?,
            SinkOutput::Batches(_, batch) => {
                batch.borrow_mut().send_rest();
                Vec::new()
            }
            SinkOutput::Discard | SinkOutput::CountOnly => Vec::new(),
        };
        Ok(FamilyDone { files, tally: self.tally, repeats: Vec::new() })
    }

    /// As [`Sink::finish`]. It is an error if other records than the `verified` ones are in the files or went to RocksDB.
    pub fn finish_verified(self, verified: Content, partial: &Path) -> Result<FamilyDone> {
        let (tally, has_files) = (self.tally(), matches!(self.output, SinkOutput::Files(_)));
        let done = self.finish()?;
        let given = match tally {
            _ if has_files => done.files.iter().map(SstFile::content).sum(),
            Some(tally) => tally.read(),
            None => verified,
        };
        if given != verified {
            return Err(Error::damaged_work(partial, format!("was to have {verified} of a range, and has {given}")));
        }
        Ok(done)
    }

    fn is_discarded(&self) -> bool {
        matches!(self.output, SinkOutput::Discard)
    }
}

/// Makes the sinks of an import, for the column families that it makes.
pub(in crate::load) enum Sinks<'a> {
    Files {
        folder: SstFolder<'a>,
        options: Vec<(&'a str, SstOptions)>,
    },
    Batches {
        job: &'a Job<'a>,
        store: &'a Store,
        families: &'a ColumnFamilies<'a>,
        /// Bytes of memtables at which they are flushed.
        most: u64,
        written: AtomicU64,
    },
}

impl<'a> Sinks<'a> {
    /// Sinks of files, numbered after those of earlier sinks and runs.
    pub fn files(job: &'a Job<'a>, families: &ColumnFamilies<'a>) -> Result<Self> {
        let folder = SstFolder::new(&job.target.sst, job.plan, job.resumed.files());
        Ok(Self::Files { folder, options: families.sst(job)? })
    }

    pub fn batches(job: &'a Job<'a>, store: &'a Store, families: &'a ColumnFamilies<'a>) -> Self {
        let most = planner::unflushed_bytes(job.plan, job.loading);
        Self::Batches { job, store, families, most, written: AtomicU64::new(0) }
    }

    /// Returns the sink of a column family. A file ends at each of the `borders`; batches are gathered in `batch`.
    pub fn sink(&self, family: &str, borders: Borders, batch: Option<&SharedBatch>) -> Result<Sink<'_>> {
        let output = match self {
            Self::Files { folder, options } => {
                let options = options.iter().find(|(name, _)| *name == family);
                let files = |options| SinkOutput::Files(Box::new(folder.writer(options, borders)));
                options.map_or(SinkOutput::Discard, |(_, options)| files(options))
            }
            Self::Batches { families, .. } if !families.has(family) => SinkOutput::Discard,
            Self::Batches { job, store, .. } => {
                let batch = batch.ok_or_else(|| Error::broken_invariant("a thread gathers no batch"))?;
                SinkOutput::Batches(store.writer(family, &job.preset.write())?, batch.clone())
            }
        };
        Ok(Sink { output, tally: Tally::default() })
    }

    /// Lets threads take items from `source` until it has none left or the caller cancels, and write their records. `worker`
    /// makes the state of a thread; it gets the batch that gathers the records of the thread, if they go through memtables.
    pub fn pull<S: Send, T, W>(
        &self,
        job: &Job<'_>,
        threads: usize,
        source: S,
        worker: impl Fn(Option<SharedBatch>) -> W + Sync,
        next: impl Fn(&mut S, &mut W) -> Result<Option<T>> + Sync,
        work: impl Fn(&mut W, T, &ItemOrder<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let next = |source: &mut S, worker: &mut W| {
            if job.options.stop.is_cancelled() {
                return Ok(None);
            }
            self.check_memory()?;
            next(source, worker)
        };
        let pull = Pull::new(source);
        self.run(&|error| pull.fail(error), |channel| {
            pull.run(0..threads, |_| {
                let gathered = channel.clone().map(|channel| BatchBuilder::shared(channel, job.plan));
                pull.each(&mut worker(gathered), next, &work);
            });
        });
        pull.finish().map(drop)
    }

    /// Builds those of the ranges that no earlier run has built, and notes each in the journal. `build` returns the column family and
    /// its files; its memory is for one record. Returns the files of all runs.
    pub fn build_ranges<'n>(
        &self,
        job: &Job<'_>,
        threads: usize,
        ranges: Vec<u32>,
        build: impl Fn(u32, &mut Vec<u8>) -> Result<(&'n str, FamilyDone)> + Sync,
    ) -> Result<FamilyDone> {
        let known = job.resumed.built.files.iter();
        let (bytes, records) =
            known.fold((0, 0), |(bytes, records), file| (bytes + file.bytes, records + file.records));
        job.progress.add_earlier(bytes, records);
        let all = Mutex::new(job.resumed.built.clone());
        let next = |ranges: &mut std::vec::IntoIter<u32>, _: &mut Vec<u8>| {
            Ok(ranges.find(|number| !job.resumed.is_built(*number)))
        };
        let work = |record: &mut Vec<u8>, number: u32, _: &ItemOrder<'_>| {
            let (family, mut built) = build(number, record)?;
            built.files.iter_mut().for_each(|file| family.clone_into(&mut file.family));
            job.note_built(&(number..number + 1), family, &built)?;
            all.lock().add(&built);
            Ok(())
        };
        self.pull(job, threads, ranges.into_iter(), |_| Vec::new(), next, work)?;
        job.options.check_cancelled()?;
        Ok(all.into_inner())
    }

    /// Runs `work`, whose threads write to sinks. With batches other threads write these meanwhile, and report the first
    /// failure of each to `fail`.
    pub fn run<T>(&self, fail: &(dyn Fn(Error) + Sync), work: impl FnOnce(Option<BatchChannel>) -> T) -> T {
        match self {
            Self::Files { .. } => work(None),
            Self::Batches { job, store, written, .. } => {
                let work = |channel| work(Some(channel));
                let (done, batches) = write_beside(store, job.preset, job.plan.threads, fail, work);
                written.fetch_add(batches, Ordering::Relaxed);
                done
            }
        }
    }

    /// Flushes memtables that exceed the memory budget.
    pub fn check_memory(&self) -> Result<()> {
        let Self::Batches { store, families, most, .. } = self else { return Ok(()) };
        let bytes = || families.names().map(|name| store.memtables_of(name)).sum::<Result<u64>>();
        if *most < u64::MAX && bytes()? >= *most { self.flush() } else { Ok(()) }
    }

    /// Flushes all memtables. Files are complete when their sinks are finished.
    pub fn flush(&self) -> Result<()> {
        let Self::Batches { store, families, .. } = self else { return Ok(()) };
        families.names().try_for_each(|name| store.flush(name))
    }

    /// True if records go into files, which a later run can use.
    pub fn are_durable(&self) -> bool {
        matches!(self, Self::Files { .. })
    }

    pub fn written_batches(&self) -> u64 {
        if let Self::Batches { written, .. } = self { written.load(Ordering::Relaxed) } else { 0 }
    }
}
