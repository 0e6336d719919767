//! The database under its working name while it is written to: opened, flushed, and compared in the end.

use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, damaged_by};
use crate::load::file_limits;
use crate::report::MemtableReport;
use crate::rocks::option_map::Group;
use crate::rocks::{Meter, Store};

/// The share of a memtable that may be free when it counts as full, as its reciprocal.
const NEARLY: u64 = 8;

/// Bytes in memtables up to which they are flushed when the caller cancels. More would take too long: it is read again
/// instead.
const QUICK: u64 = 64 << 20;

/// The database under its working name: a new one, or what an earlier run `has_begun` to write.
///
/// # Errors
/// [`Error::Rocks`]: RocksDB refuses it; [`Error::State`]: it is gone or damaged.
pub(in crate::load) fn open_staging(
    job: &Job<'_>,
    families: &ColumnFamilies<'_>,
    has_begun: bool,
    meter: &Meter,
) -> Result<Store> {
    let staging = &job.target.staging;
    if !has_begun {
        // Nothing in it was durable.
        job.target.remove_staging()?;
        return Store::create(staging, &families.loading(), Some(meter));
    }
    if !staging.join("CURRENT").exists() {
        return Err(Error::work_lacks(&job.target.partial, staging.display()));
    }
    // A compaction may have begun: its files need the options it ran with.
    let options = if job.resumed.read_done.is_some() { families.compacting() } else { families.loading() };
    Store::reopen(staging, &options, Some(meter)).map_err(damaged_by)
}

/// Bytes from which on a memtable is as good as full.
pub(in crate::load) fn full_from(job: &Job<'_>) -> Result<u64> {
    let buffer = file_limits::number(job.loading, Group::Cf, "write_buffer_size")?.max(1) as u64;
    Ok(buffer - buffer / NEARLY)
}

/// Flushes the memtables of these column families; `false` when the caller has cancelled and it would take long.
pub(in crate::load) fn flush(job: &Job<'_>, store: &Store, families: &ColumnFamilies<'_>) -> Result<bool> {
    if job.options.stop.is_cancelled() {
        let held: u64 = families.names().map(|name| store.memtables_of(name)).sum::<Result<_>>()?;
        if held > QUICK {
            return Ok(false);
        }
    }
    families.names().try_for_each(|name| store.flush(name)).map(|()| true)
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
