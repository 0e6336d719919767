//! The last step: everything synced, one rename, the parent directory synced.

use std::fs::File;
use std::path::Path;

use super::points;
use super::target::Target;
use crate::error::{Error, Result};

/// What bedload knows about an import, beside RocksDB's files.
pub(super) const RECORD: &str = "BEDLOAD.json";

/// Makes the finished database durable under its working name.
pub(super) fn seal(target: &Target) -> Result<()> {
    if !target.into_existing {
        remove_logs(&target.staging)?;
    }
    sync_dir(target.working())
}

/// Gives the sealed database its name; one that was there before has it already.
pub(super) fn publish(target: &Target) -> Result<()> {
    if target.into_existing {
        return target.remove();
    }
    // An empty directory under the final name may be replaced; anything else makes the rename fail.
    std::fs::rename(&target.staging, &target.db).map_err(Error::io("give its name to", &target.db))?;
    let parent = target.db.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    points::reach("renamed");
    sync_dir(parent)?;
    target.remove()
}

/// RocksDB's own log files name the directory they were written in; nothing else remembers it.
fn remove_logs(dir: &Path) -> Result<()> {
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name == "LOG" || name.starts_with("LOG.old")) {
            std::fs::remove_file(entry.path()).map_err(Error::io("delete", entry.path()))?;
        }
    }
    Ok(())
}

/// Syncs a directory: the names in it.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

/// Writes a small file so that it is there whole or not at all.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()
    };
    write().map_err(Error::io("write", path))
}
