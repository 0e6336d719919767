//! The last steps of the memtable loader: the final compaction, the checks of its result, and its report.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::error::{Error, Result};
use crate::hash::Content;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::os::resources;
use crate::parallel;
use crate::progress::{Backlog, Phase};
use crate::report::MemtableReport;
use crate::rocks::{DataFile, Level, Meter, Reader, ReaderOptions, Store, levels_of};
use crate::text::size::counted;

const WATCH: Duration = Duration::from_millis(200);

/// A database after the final compaction, open for reading.
pub(in crate::load) struct Compacted {
    pub reader: Reader,
    pub files: Vec<DataFile>,
    /// Files at level 0 before the final compaction, of all families.
    pub level0_files: u64,
}

impl Compacted {
    pub fn levels(&self, family: &str) -> Vec<Level> {
        levels_of(self.files.iter().filter(|file| file.family == family).map(|file| (file.level, file.size)))
    }
}

/// Compacts all that was loaded. Then opens the database once with the options of its node, so that its OPTIONS file has them.
pub(in crate::load) fn compact(
    job: &Job<'_>,
    store: Store,
    families: &ColumnFamilies<'_>,
    meter: &Meter,
) -> Result<Compacted> {
    let Job { options, preset, target, progress, .. } = *job;
    let before = families.names().map(|name| store.levels(name)).collect::<Result<Vec<_>>>()?;
    let level0_files = before.iter().flatten().filter(|level| level.level == 0).map(|level| level.files).sum();
    // Files in the last level stay where they are.
    let above = |levels: &Vec<Level>| -> u64 {
        let last = levels.iter().map(|level| level.level).max().filter(|&level| level > 0);
        levels.iter().filter(|level| Some(level.level) != last).map(|level| level.bytes).sum()
    };
    let above = preset.final_compaction().then(|| before.iter().map(above).sum());
    progress.begin(Phase::Compact, above);
    if above.is_some() {
        let store = if options.into_existing || families.compacting() == families.loading() {
            store
        } else {
            drop(store);
            Store::reopen(&target.staging, &families.compacting(), Some(meter))?
        };
        let compact = |name: &str| {
            if options.stop.is_cancelled() { Ok(()) } else { store.compact(name, &preset.compaction()) }
        };
        let outcome = watched(job, &store, above, || families.names().try_for_each(compact));
        options.check_cancelled()?;
        outcome?;
    } else {
        drop(store);
    }
    if let Some(existing) = job.existing {
        existing.lock_again()?;
    } else {
        Store::inspect_for_node(&target.staging, &families.node(), |_| Ok(()))?;
    }
    let reader = Reader::open(target.working(), &ReaderOptions::once())?;
    let files = reader.files()?;
    let compacted = Compacted { reader, files, level0_files };
    if preset.final_compaction() {
        families.names().try_for_each(|name| check_compacted(job, name, &compacted.levels(name)))?;
    }
    Ok(compacted)
}

/// Checks that a successful compaction has moved everything to the last level.
fn check_compacted(job: &Job<'_>, family: &str, levels: &[Level]) -> Result<()> {
    let compacted = match levels {
        [] => true,
        // An existing database may compact by itself.
        [first, ..] if job.options.into_existing => first.level != 0,
        [only] => only.level != 0,
        _ => false,
    };
    if compacted {
        return Ok(());
    }
    let found: Vec<String> = levels
        .iter()
        .map(|level| format!("{} at level {}", counted(level.files, "file", "files"), level.level))
        .collect();
    let message = format!("not everything of {family} has gone to the last level: {}", found.join(", "));
    Err(Error::Rocks { action: "compact", path: job.target.working().to_owned(), message })
}

/// Runs `work` while another thread reports RocksDB's backlog, and stops a compaction on cancellation. A final compaction has
/// to move `moving` bytes.
pub(in crate::load) fn watched<T>(job: &Job<'_>, store: &Store, moving: Option<u64>, work: impl FnOnce() -> T) -> T {
    let (over, is_over) = bounded::<()>(0);
    let written = || resources::io_bytes().map_or(0, |(_, written)| written);
    let before = written();
    std::thread::scope(|scope| {
        let watch = move || {
            let mut cancelled = false;
            loop {
                // `work` reports what is wrong if the backlog is unknown.
                let backlog = store.backlog().ok();
                job.progress.set_backlog(match moving {
                    Some(moving) => {
                        let done = written().saturating_sub(before).min(moving);
                        job.progress.reach(done);
                        backlog.map(|backlog| Backlog { pending_bytes: moving - done, ..backlog })
                    }
                    None => backlog,
                });
                if moving.is_some() && job.options.stop.is_cancelled() && !cancelled {
                    store.cancel_compaction();
                    cancelled = true;
                }
                if is_over.recv_timeout(WATCH) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        // Without the thread there is no backlog.
        let _ = parallel::start(scope, watch);
        let result = work();
        drop(over);
        result
    })
}

/// Compares the content that was `found` in the database with the content that was `written` to it.
pub(in crate::load) fn check_content(job: &Job<'_>, found: Content, written: Content) -> Result<()> {
    if found == written {
        return Ok(());
    }
    let Content { records, digest } = written;
    let there = format!("{} with {} are there", found.records, found.digest);
    let message = format!("{records} records with the digest {digest} were written, {there}");
    Err(Error::Rocks { action: "read back", path: job.target.working().to_owned(), message })
}

/// The counters of RocksDB's work, and the bytes that it wrote.
pub(in crate::load) fn memtable_report(
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
