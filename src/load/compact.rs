//! The final compaction, and the check of its result.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::error::{Error, Result};
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::os::resources;
use crate::parallel;
use crate::progress::{Backlog, Phase};
use crate::rocks::{DataFile, Level, Meter, Reader, ReaderOptions, Store, levels_of};
use crate::text::size::counted;

/// How often RocksDB's backlog is read.
const WATCH: Duration = Duration::from_millis(200);

/// A database after the final compaction, open for reading.
pub(in crate::load) struct Compacted {
    pub reader: Reader,
    pub files: Vec<DataFile>,
    /// Files at level 0 before the final compaction, of all families.
    pub level0_files: u64,
}

impl Compacted {
    /// The levels of a column family.
    pub fn levels(&self, family: &str) -> Vec<Level> {
        levels_of(self.files.iter().filter(|file| file.family == family).map(|file| (file.level, file.size)))
    }
}

/// The final compaction of all that was loaded; then the database is opened once with the options of its node, so that
/// its OPTIONS file has them.
pub(in crate::load) fn compact(
    job: &Job<'_>,
    store: Store,
    families: &ColumnFamilies<'_>,
    meter: &Meter,
) -> Result<Compacted> {
    let Job { preset, target, .. } = *job;
    let before = families.names().map(|name| store.levels(name)).collect::<Result<Vec<_>>>()?;
    let level0_files = before.iter().flatten().filter(|level| level.level == 0).map(|level| level.files).sum();
    compact_levels(job, store, families, &before, meter)?;
    if let Some(existing) = job.existing {
        existing.lock_again()?;
    } else {
        Store::reopen(&target.staging, &families.node(), None).map(Store::close)?;
    }
    let reader = Reader::open(target.working(), &ReaderOptions::once())?;
    let files = reader.files()?;
    let compacted = Compacted { reader, files, level0_files };
    if preset.final_compaction() {
        families.names().try_for_each(|name| check_compacted(job, name, &compacted.levels(name)))?;
    }
    Ok(compacted)
}

/// Compacts the levels of `before`, and closes the database.
fn compact_levels(
    job: &Job<'_>,
    store: Store,
    families: &ColumnFamilies<'_>,
    before: &[Vec<Level>],
    meter: &Meter,
) -> Result<()> {
    let Job { options, preset, target, progress, .. } = *job;
    if !preset.final_compaction() {
        progress.begin(Phase::Compact, None);
        store.close();
        return Ok(());
    }
    // Files in the last level stay where they are.
    let above = |levels: &Vec<Level>| -> u64 {
        let last = levels.iter().map(|level| level.level).max().filter(|&level| level > 0);
        levels.iter().filter(|level| Some(level.level) != last).map(|level| level.bytes).sum()
    };
    let above = before.iter().map(above).sum();
    progress.begin(Phase::Compact, Some(above));
    let store = if options.into_existing || families.compacting() == families.loading() {
        store
    } else {
        store.close();
        Store::reopen(&target.staging, &families.compacting(), Some(meter))?
    };
    let outcome = watched(job, &store, Some(above), || {
        families.names().try_for_each(|name| {
            if options.stop.is_cancelled() { Ok(()) } else { store.compact(name, &preset.compaction()) }
        })
    });
    if options.stop.is_cancelled() {
        return Err(Error::interrupted());
    }
    outcome?;
    store.close();
    Ok(())
}

/// Checks that a compaction that has not failed has also done its work.
fn check_compacted(job: &Job<'_>, family: &str, levels: &[Level]) -> Result<()> {
    let compacted = match levels {
        [] => true,
        // In an existing database its own compactions may be running.
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
    Err(Error::Rocks {
        action: "compact",
        path: job.target.working().to_owned(),
        message: format!("not everything of {family} has gone to the last level: {}", found.join(", ")),
    })
}

/// Runs `work` while another thread reports RocksDB's backlog, and stops a compaction on cancellation. `moving` is how
/// many bytes a final compaction has to move.
pub(in crate::load) fn watched<T>(job: &Job<'_>, store: &Store, moving: Option<u64>, work: impl FnOnce() -> T) -> T {
    let (over, is_over) = bounded::<()>(0);
    let written = || resources::io_bytes().map_or(0, |(_, written)| written);
    let before = written();
    std::thread::scope(|scope| {
        let watch = move || {
            let mut cancelled = false;
            loop {
                // A backlog that is not known is not shown; `work` reports what is wrong.
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
        // Without the thread the work goes on without a backlog.
        let _ = parallel::start(scope, watch);
        let result = work();
        drop(over);
        result
    })
}
