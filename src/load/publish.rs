//! The last step: everything synced, one rename, the parent directory synced.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::existing::in_the_making;
use super::target::Target;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::os::files::read_regular;
use crate::os::private;
use crate::report::RecordedFile;
use crate::report::record::checksum;
use crate::rocks::options_file::{MAX_FILE, OptionsFile};

/// The files of the database in `dir` that say which it is and how it is opened, for its record.
///
/// # Errors
/// There is no OPTIONS file, or one of them cannot be read.
pub(super) fn small_files(dir: &Path) -> Result<Vec<RecordedFile>> {
    // The options may leave this one out.
    let identity = Some(dir.join("IDENTITY")).filter(|path| path.exists());
    let record = |path: PathBuf| {
        let bytes = read_regular(&path, MAX_FILE).map_err(Error::io("read", &path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(RecordedFile { name, checksum: checksum(&bytes) })
    };
    identity.into_iter().chain([OptionsFile::latest_path(dir)?]).map(record).collect()
}

/// Makes the finished database durable under its working name.
///
/// # Errors
/// The disk fails, or something that is not of the import stands there.
pub(super) fn seal(target: &Target) -> Result<()> {
    if !target.into_existing {
        target.has_only_the_database()?;
        remove_leftovers(&target.staging)?;
    }
    sync_dir(target.working())
}

/// Gives the sealed database its name; one that was there before has it already.
pub(super) fn publish(target: &Target) -> Result<()> {
    if target.into_existing {
        return target.remove_leftovers();
    }
    // An empty directory under the final name may be replaced; anything else makes the rename fail.
    std::fs::rename(&target.staging, &target.db).map_err(Error::io("give its name to", &target.db))?;
    let parent = target.db.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    failpoint::reach("renamed");
    sync_dir(parent)?;
    target.remove_leftovers()
}

/// RocksDB's own log files name the directory they were written in, and beside the newest OPTIONS it keeps one that says
/// how the database was loaded; nothing else remembers either.
fn remove_leftovers(dir: &Path) -> Result<()> {
    let newest = OptionsFile::latest_path(dir)?;
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_log = name == "LOG" || name.starts_with("LOG.old");
        if is_log || (name.starts_with("OPTIONS-") && path != newest) {
            std::fs::remove_file(&path).map_err(Error::io("delete", &path))?;
        }
    }
    Ok(())
}

/// Syncs a directory: the names in it.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

/// Writes a small file into `dir` so that it is there whole or as it was before.
pub(super) fn write_synced(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.join(name);
    if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        return Err(Error::damaged_work(path, "has a directory in the place of this file"));
    }
    let making = in_the_making(&path);
    private::remove(&making)?;
    let write = || {
        let mut file = File::create_new(&making)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    write().map_err(Error::io("write", &path))?;
    std::fs::rename(&making, &path).map_err(Error::io("replace", &path))?;
    sync_dir(dir)
}
