//! Finds, lists and removes the work of unfinished imports.
//!
//! A directory counts as that of an import if it belongs to this user and has a journal or a lock, or is empty. It is removed
//! under its lock, so never while an import works in it. If the removal is killed, the rest is found again.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::identity::is_spill;
use crate::load::journal::{Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::load::target::{Target, is_empty_dir, owner_of, parent};
use crate::os::{files, private};
use crate::progress::CancellationToken;
use crate::report::{CLEAN_SCHEMA, CleanReport, Leftover};
use crate::rocks::sweep_scratch;

/// The end of the names of directories with unfinished work.
const PARTIAL: &[u8] = b".partial";

/// Deletes the unfinished import or seed of the database `dir`, or all those in the directory `dir`. The report lists
/// which ones are kept, e.g. a running import.
///
/// # Errors
/// [`Error::Io`]: the directory cannot be listed.
pub fn clean(dir: impl AsRef<Path>) -> Result<CleanReport> {
    files::check_path("the directory", dir.as_ref())?;
    let mut report = find(dir.as_ref())?;
    remove(&mut report, &CancellationToken::default())?;
    Ok(report)
}

/// Finds the work of unfinished imports: directories in `dir`, `dir` itself, and that of the database `dir`.
pub(crate) fn find(dir: &Path) -> Result<CleanReport> {
    let mut beside = dir.file_name().unwrap_or_default().to_owned();
    beside.push(".partial");
    let mut paths = vec![dir.to_owned(), dir.with_file_name(beside)];
    match dir.read_dir() {
        Ok(entries) => {
            for entry in entries {
                paths.push(entry.map_err(Error::io("list", dir))?.path());
            }
        }
        Err(_) if paths.iter().any(|path| is_partial(path)) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(Error::io("list", dir)(error)),
    }
    paths.sort();
    paths.dedup();
    let partial = paths.iter().filter(|path| is_partial(path));
    let mut found = partial.filter_map(|path| describe(path).transpose()).collect::<Result<Vec<_>>>()?;
    for path in paths.iter().filter(|path| is_spill(path)) {
        let shown = path.display().to_string();
        let is_it = |work: &String| files::is_same(Path::new(work), path);
        if !found.iter().flat_map(|one| &one.work).any(is_it) {
            let kept = match owner_of(path) {
                Ok(Some(owner)) => format!("an import is working on it ({owner})"),
                _ => "it has partitions of an import of another place: clean the directory of its database; if there is nothing \
                      left of it, remove this by hand"
                    .into(),
            };
            let (bytes, kept) = (size(path), Some(kept));
            found.push(Leftover { path: shown, work: Vec::new(), bytes, complete: false, removed: false, kept });
        }
    }
    let dir = dir.display().to_string();
    Ok(CleanReport { schema: CLEAN_SCHEMA.into(), dir, dry_run: true, found, removed_bytes: 0 })
}

/// Removes the found work that need not be kept, and notes the outcome in `report`.
pub(crate) fn remove(report: &mut CleanReport, stop: &CancellationToken) -> Result<()> {
    report.dry_run = false;
    let dir = PathBuf::from(&report.dir);
    [dir.as_path(), parent(&dir)].into_iter().for_each(sweep_scratch);
    for found in report.found.iter_mut().filter(|found| found.kept.is_none()) {
        if stop.is_cancelled() {
            return Err(Error::Interrupted { hint: "run the same command again; it resumes".into() });
        }
        found.kept = match remove_one(Path::new(&found.path)) {
            // The others are removed nevertheless.
            Err(error @ (Error::Io { .. } | Error::State { .. })) => Some(error.to_string()),
            kept => kept?,
        };
        found.removed = found.kept.is_none();
        let left: u64 = found.work.iter().chain([&found.path]).map(|dir| size(Path::new(dir))).sum();
        report.removed_bytes += found.bytes.saturating_sub(left);
    }
    Ok(())
}

/// Removes one directory. Returns the reason if it is kept.
fn remove_one(partial: &Path) -> Result<Option<String>> {
    let target = target(partial)?;
    let lock = match target.lock() {
        Ok(lock) => lock,
        Err(Error::State { reason, .. }) => return Ok(Some(reason)),
        Err(error) => return Err(error),
    };
    // Read again under the lock: an import may have begun or ended meanwhile.
    let known = Journal::peek(partial);
    if let Some(reason) = reason_to_keep(&target, &known) {
        return Ok(Some(reason));
    }
    failpoint::reach("clean");
    let removed = target.remove();
    lock.release();
    match removed {
        Err(Error::State { path, reason, .. }) => Ok(Some(format!("{} {reason}", path.display()))),
        Err(error) => Err(error),
        Ok(()) => Ok(target.foreign().map(|path| format!("{} is not of an import", path.display()))),
    }
}

/// Describes a directory; `None` if no import created it.
fn describe(partial: &Path) -> Result<Option<Leftover>> {
    let known = Journal::peek(partial);
    // FUSE cannot always remove an empty directory.
    if known.identity.is_none() && !has_lock(partial) && !is_empty_dir(partial) {
        return Ok(None);
    }
    let mut leftover = Leftover {
        path: partial.display().to_string(),
        work: Vec::new(),
        bytes: size(partial),
        complete: known.is_complete,
        removed: false,
        kept: None,
    };
    if !private::is_own_dir(partial) {
        leftover.kept = Some("another user may have filled it".into());
        return Ok(Some(leftover));
    }
    // No import has a database of such a name.
    let Ok(target) = target(partial) else { return Ok(None) };
    let work = target.spill_elsewhere();
    leftover.bytes += work.as_deref().map_or(0, size);
    leftover.work = work.iter().map(|dir| dir.display().to_string()).collect();
    leftover.kept = owner_of(&target.partial)?.map(|owner| format!("an import is working on it ({owner})"));
    if leftover.kept.is_none() {
        leftover.kept = reason_to_keep(&target, &known);
    }
    Ok(Some(leftover))
}

/// The reason to keep work that cannot be repeated.
fn reason_to_keep(target: &Target, known: &ResumedState) -> Option<String> {
    let has = |path: &Path| path.symlink_metadata().is_ok();
    if let Some(mount) = target.first_mount() {
        return Some(format!("{} is a mount point: unmount it first", mount.display()));
    }
    if known.opened.is_some() || known.is_restoring || has(&target.backup) {
        return Some(format!(
            "it has what {} was before an import into it, which is not finished: run that import again, or start it over",
            target.db.display()
        ));
    }
    let keep_old = known.identity.as_ref().and_then(|identity| identity.keep_old.as_ref());
    match (target.is_finished(), keep_old) {
        (Err(Error::State { reason, .. }), _) => Some(reason),
        (Err(error), _) => Some(error.to_string()),
        (Ok(true), Some(place)) if has(&target.swap) => Some(format!(
            "it has the replaced database, which --keep-old moves to {}: run the same import again",
            place.display()
        )),
        (Ok(_), _) => {
            target.first_foreign().map(|path| format!("{} is not of an import: move it away first", path.display()))
        }
    }
}

/// The target of the import whose work is in a directory.
fn target(partial: &Path) -> Result<Target> {
    let name = partial.file_name().unwrap_or_default().as_bytes();
    let name = OsStr::from_bytes(name.strip_suffix(PARTIAL).unwrap_or(name));
    Target::new(&ImportOptions::new(PathBuf::new(), partial.with_file_name(name)))
}

/// True if a path is a directory, not a link to one, with the name of unfinished work.
fn is_partial(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.len() > PARTIAL.len() && name.ends_with(PARTIAL) && path.symlink_metadata().is_ok_and(|there| there.is_dir())
}

/// True if a directory has the lock of an import, which creates it first and removes it last.
fn has_lock(partial: &Path) -> bool {
    let mut text = String::new();
    let read = private::read_file(&partial.join("lock")).map(|file| file.take(200).read_to_string(&mut text));
    matches!(read, Ok(Ok(_))) && text.starts_with("process ") && text.contains(" on ")
}

/// The size of all readable files in a directory.
fn size(dir: &Path) -> u64 {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(there) if there.is_dir() => size(&entry.path()),
        Ok(there) => there.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
