//! An open database that is written to through its memtables, and the check of its content in the end.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::planner;
use crate::load::sink::batches::{BatchChannel, BatchWriter, SharedBatch, write_beside};
use crate::report::MemtableReport;
use crate::rocks::{Meter, Store};

/// Writes batches into the memtables of an open database.
pub(in crate::load) struct MemtableWriter<'a> {
    job: &'a Job<'a>,
    store: &'a Store,
    families: &'a ColumnFamilies<'a>,
    /// Bytes of memtables from which on they are flushed.
    most: u64,
    /// Batches that were written.
    pub batches: AtomicU64,
}

impl<'a> MemtableWriter<'a> {
    pub fn new(job: &'a Job<'a>, store: &'a Store, families: &'a ColumnFamilies<'a>) -> Self {
        let most = planner::unflushed_bytes(job.plan, job.loading);
        Self { job, store, families, most, batches: AtomicU64::new(0) }
    }

    /// Returns the writer of a column family into `batch`; `None` if the import does not make the column family.
    pub fn writer(&self, family: &str, batch: &SharedBatch) -> Result<Option<BatchWriter<'_>>> {
        let writer = || self.store.writer(family, &self.job.preset.write());
        let writer = self.families.has(family).then(writer).transpose()?;
        Ok(writer.map(|writer| BatchWriter::new(writer, batch.clone())))
    }

    /// Runs `work`, whose threads gather batches, while other threads write them. The first failure of each of these goes
    /// to `fail`.
    pub fn run<T>(&self, fail: &(dyn Fn(Error) + Sync), work: impl FnOnce(BatchChannel) -> T) -> T {
        let Job { plan, preset, .. } = *self.job;
        let (done, batches) = write_beside(self.store, preset, plan.threads, fail, work);
        self.batches.fetch_add(batches, Ordering::Relaxed);
        done
    }

    /// Flushes the memtables if they exceed the memory budget.
    pub fn check_memory(&self) -> Result<()> {
        let bytes = || self.families.names().map(|name| self.store.memtables_of(name)).sum::<Result<u64>>();
        if self.most < u64::MAX && bytes()? >= self.most { self.flush() } else { Ok(()) }
    }

    /// Flushes the memtables.
    pub fn flush(&self) -> Result<()> {
        self.families.names().try_for_each(|name| self.store.flush(name))
    }
}

/// Compares what is `found` in the database with what was `written` to it.
pub(in crate::load) fn check_content(job: &Job<'_>, found: Content, written: Content) -> Result<()> {
    if found == written {
        return Ok(());
    }
    Err(Error::Rocks {
        action: "read back",
        path: job.target.working().to_owned(),
        message: format!(
            "{} records with the digest {} were written, {} with {} are there",
            written.records, written.digest, found.records, found.digest
        ),
    })
}

/// The counters of RocksDB's work, and the bytes that it wrote.
pub(in crate::load) fn report(
    meter: &Meter,
    batches: u64,
    level0_files_before_compaction: u64,
) -> (MemtableReport, u64) {
    let counted = meter.read();
    let report = MemtableReport {
        batches,
        flushes: counted.flushes,
        flush_bytes_written: counted.flush_written,
        wal_bytes_written: counted.wal_written,
        stalls: counted.stalls,
        stall_seconds: counted.stalled.as_secs_f64(),
        level0_files_before_compaction,
        compactions: counted.compactions,
        compaction_bytes_read: counted.compaction_read,
        compaction_bytes_written: counted.compaction_written,
    };
    (report, counted.flush_written + counted.wal_written + counted.compaction_written)
}
