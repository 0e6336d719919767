//! From the last flush to a database that is closed and ready: the final compaction, and a look at what came out.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use crate::error::{Error, Result};
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::os::resources;
use crate::parallel;
use crate::progress::{Backlog, Phase};
use crate::rocks::{DataFile, Level, Meter, Reader, ReaderOptions, Store, levels_of};

/// How often RocksDB is asked what lies before it.
const WATCH: Duration = Duration::from_millis(200);

/// A database that is settled, opened to be looked at.
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

/// The final compaction of all that was loaded; then the database is opened once as its node will open it, so that
/// its OPTIONS say so.
pub(in crate::load) fn compact(
    job: &Job<'_>,
    store: Store,
    families: &ColumnFamilies<'_>,
    meter: &Meter,
) -> Result<Compacted> {
    let Job { options, target, .. } = *job;
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
    if !options.no_compact {
        families.names().try_for_each(|name| check_compacted(job, name, &compacted.levels(name)))?;
    }
    Ok(compacted)
}

/// Compacts what lies in the levels of `before`, and closes the database.
fn compact_levels(
    job: &Job<'_>,
    store: Store,
    families: &ColumnFamilies<'_>,
    before: &[Vec<Level>],
    meter: &Meter,
) -> Result<()> {
    let Job { options, preset, target, progress, .. } = *job;
    if options.no_compact {
        progress.begin(Phase::Compact, None);
        store.close();
        return Ok(());
    }
    // What lies in the last level already stays where it is.
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

/// Whether a compaction that has not failed has also done its work.
fn check_compacted(job: &Job<'_>, family: &str, levels: &[Level]) -> Result<()> {
    let compacted = match levels {
        [] => true,
        // In a database that was there, its own compactions may be at work.
        [first, ..] if job.options.into_existing => first.level != 0,
        [only] => only.level != 0,
        _ => false,
    };
    if compacted {
        return Ok(());
    }
    let found: Vec<String> =
        levels.iter().map(|level| format!("{} files at level {}", level.files, level.level)).collect();
    Err(Error::Rocks {
        action: "compact",
        path: job.target.working().to_owned(),
        message: format!("not everything of {family} has gone to the last level: {}", found.join(", ")),
    })
}

/// Runs `work` while a thread beside it shows what lies before RocksDB, and stops a compaction when asked to.
/// `moving` is how many bytes a final compaction has to move.
pub(in crate::load) fn watched<T>(job: &Job<'_>, store: &Store, moving: Option<u64>, work: impl FnOnce() -> T) -> T {
    let (over, is_over) = bounded::<()>(0);
    let written = || resources::io_bytes().map_or(0, |(_, written)| written);
    let before = written();
    std::thread::scope(|scope| {
        let watch = move || {
            let mut cancelled = false;
            loop {
                // What cannot be told is not shown; whatever is wrong, the work will hear of it.
                let backlog = store.backlog().ok();
                job.progress.set_backlog(match moving {
                    Some(moving) => {
                        let done = (written() - before).min(moving);
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
        // Without a thread to show it the work goes on all the same.
        let _ = parallel::start(scope, watch);
        let result = work();
        drop(over);
        result
    })
}
