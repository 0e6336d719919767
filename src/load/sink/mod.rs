//! Sinks of records: SST files, and batches for the memtables of an open database.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::load::built::SstFile;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::planner;
use crate::load::sink::batches::{BatchChannel, BatchWriter, SharedBatch, write_beside};
use crate::load::sink::sst::{RotatingSstWriter, SstFolder};
use crate::rocks::{SstOptions, Store};
use crate::sort::borders::Borders;

pub(super) mod batches;
pub(super) mod sst;

/// Writes the records of one column family.
pub(in crate::load) enum Sink<'a> {
    /// Drops records: the import does not make the column family.
    Discard,
    /// Drops records that the column family has already; the caller counts them.
    CountOnly,
    Files(Box<RotatingSstWriter<'a>>),
    Batches(BatchWriter<'a>),
}

impl Sink<'_> {
    /// Writes a record whose value follows its key, and whose digest the caller has. Keys of files must ascend.
    pub fn put(&mut self, record: &[u8], key_len: usize, digest: ContentDigest) -> Result<()> {
        match self {
            Self::Discard | Self::CountOnly => Ok(()),
            Self::Files(files) => files.put(record, key_len, digest),
            Self::Batches(batches) => {
                let (key, value) = record.split_at(key_len);
                batches.put(key, value);
                Ok(())
            }
        }
    }

    /// Completes and syncs the open file, or sends the rest of the batch. Returns the files that were written.
    pub fn finish(self) -> Result<Vec<SstFile>> {
        match self {
            Self::Files(files) => return files.finish(),
            Self::Batches(batches) => batches.send_rest(),
            Self::Discard | Self::CountOnly => {}
        }
        Ok(Vec::new())
    }
}

/// Makes the sinks of an import, for the column families that it makes.
pub(in crate::load) enum Sinks<'a> {
    Files {
        folder: SstFolder<'a>,
        options: Vec<(&'a str, SstOptions)>,
    },
    /// Batches for the memtables of an open database.
    Batches {
        job: &'a Job<'a>,
        store: &'a Store,
        families: &'a ColumnFamilies<'a>,
        /// Bytes of memtables at which they are flushed.
        most: u64,
        /// Batches that were written.
        written: AtomicU64,
    },
}

impl<'a> Sinks<'a> {
    /// Sinks of files, numbered after those of an earlier run.
    pub fn files(job: &'a Job<'a>, families: &ColumnFamilies<'a>) -> Result<Self> {
        let folder = SstFolder::new(&job.target.sst, job.plan.sst_bytes, job.resumed.files());
        Ok(Self::Files { folder, options: families.sst(job)? })
    }

    /// Sinks of batches for an open database.
    pub fn batches(job: &'a Job<'a>, store: &'a Store, families: &'a ColumnFamilies<'a>) -> Self {
        let most = planner::unflushed_bytes(job.plan, job.loading);
        Self::Batches { job, store, families, most, written: AtomicU64::new(0) }
    }

    /// Returns the sink of a column family. A file ends at each of the `borders`; batches are gathered in `batch`.
    pub fn sink(&self, family: &str, borders: Borders, batch: Option<&SharedBatch>) -> Result<Sink<'_>> {
        match self {
            Self::Files { folder, options } => {
                let options = options.iter().find(|(name, _)| *name == family);
                Ok(options.map_or(Sink::Discard, |(_, options)| Sink::Files(Box::new(folder.writer(options, borders)))))
            }
            Self::Batches { families, .. } if !families.has(family) => Ok(Sink::Discard),
            Self::Batches { job, store, .. } => {
                let batch = batch.ok_or_else(|| Error::broken_invariant("a thread gathers no batch"))?;
                let writer = store.writer(family, &job.preset.write())?;
                Ok(Sink::Batches(BatchWriter::new(writer, batch.clone())))
            }
        }
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

    /// Batches that were written.
    pub fn written_batches(&self) -> u64 {
        if let Self::Batches { written, .. } = self { written.load(Ordering::Relaxed) } else { 0 }
    }
}
