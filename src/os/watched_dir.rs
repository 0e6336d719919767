//! Detection of a directory that is replaced while it is read by its path.
//!
//! RocksDB opens files by path when it needs them. If `import --replace` or an update of a seeded database exchanges
//! the directory, RocksDB finds files of the other database and reports damage.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};

use crate::error::{Error, Result};
use crate::os::files::check_path;

/// A directory and its identity at the start of reading.
#[derive(Debug)]
pub(crate) struct WatchedDir {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// Keeps the inode number from being given to another directory.
    _open: Option<OwnedFd>,
}

impl WatchedDir {
    /// Records the directory at `path`, which may be missing.
    pub fn open(path: &Path) -> Self {
        let open = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let identity = open.as_ref().and_then(|open| fstat(open).ok()).map(|found| (found.st_dev, found.st_ino));
        Self { path: path.to_owned(), identity, _open: open }
    }

    pub fn check(&self) -> Result<()> {
        let now = stat(&self.path).ok().map(|found| (found.st_dev, found.st_ino));
        if now == self.identity { Ok(()) } else { Err(Error::Replaced { path: self.path.clone() }) }
    }

    /// Runs `work`. If it fails after the directory was replaced, the error becomes [`Error::Replaced`].
    pub fn guard<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        check_path("the database", &self.path)?;
        work().map_err(|error| match error {
            Error::Usage { .. } | Error::Preset(_) | Error::Interrupted { .. } | Error::NoSpace { .. } => error,
            error => self.check().err().unwrap_or(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_replaced_directory_explains_errors() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, aside) = (dir.path().join("db"), dir.path().join("aside"));
        let fail = || -> Result<()> { Err(Error::io("read", "x")(std::io::ErrorKind::InvalidData.into())) };
        std::fs::create_dir(&path).expect("created");
        let watched = WatchedDir::open(&path);
        assert!(matches!(watched.guard(fail), Err(Error::Io { .. })));
        std::fs::rename(&path, &aside).expect("moved");
        assert!(matches!(watched.guard(fail), Err(Error::Replaced { .. })));
        // Removing the old directory does not free its inode number.
        std::fs::remove_dir(&aside).expect("removed");
        std::fs::create_dir(&path).expect("created");
        assert!(matches!(watched.guard(fail), Err(Error::Replaced { .. })));
        assert!(matches!(watched.guard(|| Err::<(), _>(Error::interrupted())), Err(Error::Interrupted { .. })));
        assert!(watched.guard(|| Ok(())).is_ok());
    }
}
