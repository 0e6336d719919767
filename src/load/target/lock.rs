//! The lock of a directory of an import.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result, StateKind};
use crate::os::private;

/// The name of the lock. It is held while an import runs and names the process.
pub(super) const LOCK: &str = "lock";

/// Longest wait for a file system that removes an open file only after it was closed, and the time between two checks.
const CLOSING: Duration = Duration::from_secs(2);
const CLOSING_STEP: Duration = Duration::from_millis(10);

/// The lock of a directory. It is released when it is dropped, and by the system when its owner dies.
#[derive(Debug)]
pub(in crate::load) struct Lock {
    file: Option<File>,
    dir: PathBuf,
}

impl Lock {
    /// Takes the lock in `dir` for work on `what`, and writes this process into it. `None` if the file was removed between
    /// opening and locking it: an import has just ended. `replace` removes a lock that is not a regular file, which no
    /// process can hold.
    pub fn take(dir: &Path, what: &Path, replace: bool) -> Result<Option<Self>> {
        let path = dir.join(LOCK);
        let mut file = match private::open_file(&path, true) {
            Err(Error::State { .. }) if replace => {
                private::remove(&path)?;
                private::open_file(&path, true)?
            }
            // An import that has just ended has removed the directory.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let hint = "wait for it, or stop it";
                let reason = format!("another import is working on it ({})", owner_in(&file));
                return Err(Error::state(what, StateKind::Busy, reason, hint));
            }
            Err(error) => return Err(Error::io("lock", path)(error.into())),
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let owner = format!("process {} on {host}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(owner.as_bytes())).map_err(Error::io("write", &path))?;
        let mine = file.metadata().map_err(Error::io("read metadata of", &path))?.ino();
        let is_there = path.metadata().is_ok_and(|there| there.ino() == mine);
        Ok(is_there.then(|| Self { file: Some(file), dir: dir.to_owned() }))
    }

    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Lock {
    /// Removes the directory if it is empty. The lock was removed while it was open; until it is closed, FUSE and NFS keep
    /// it under another name.
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // A process that another thread has just forked has the file, too, until it executes its program.
            let _ = flock(&file, FlockOperation::Unlock);
        }
        let is_closing =
            |name: OsString| [".fuse_hidden", ".nfs"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        let deadline = Instant::now() + CLOSING;
        while std::fs::remove_dir(&self.dir).is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty)
            && Instant::now() < deadline
            && self.dir.read_dir().is_ok_and(|entries| entries.flatten().all(|entry| is_closing(entry.file_name())))
        {
            std::thread::sleep(CLOSING_STEP);
        }
    }
}

/// The owner that a lock names, for messages.
fn owner_in(lock: &File) -> String {
    let mut owner = String::new();
    let _ = lock.take(200).read_to_string(&mut owner);
    let owner = owner.trim();
    // It has the lock, and has not written its number yet.
    if owner.is_empty() { "it has just begun".into() } else { owner.to_owned() }
}

/// The process that holds the lock in a directory, if one does. Creates nothing.
pub(in crate::load) fn owner_of(dir: &Path) -> Result<Option<String>> {
    let path = dir.join(LOCK);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let file = private::read_file(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(Some(owner_in(&file))),
        Err(error) => Err(Error::io("lock", &path)(error.into())),
        Ok(()) => {
            let _ = flock(&file, FlockOperation::Unlock);
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_lock_is_free_despite_a_forked_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let take = || Lock::take(dir.path(), dir.path(), false).expect("free").expect("there");
        let lock = take();
        // The same open file, as in a process that was forked.
        let _copy = lock.file.as_ref().expect("open").try_clone().expect("a descriptor");
        lock.release();
        take().release();
    }
}
