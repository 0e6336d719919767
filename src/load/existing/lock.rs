//! The lock of an existing database.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::error::{Error, Result};
use crate::load::target::Target;
use crate::os::files::{count_descriptors, open_regular};

/// An existing database that only this process may open.
pub(in crate::load) struct Existing<'a> {
    pub(super) target: &'a Target,
    /// RocksDB's own lock file. The lock belongs to the process, so RocksDB can open the database here. When RocksDB closes
    /// it, the lock is lost and must be taken again.
    file: File,
    /// True if this run has begun to open it for writing.
    pub(super) opened: AtomicBool,
}

impl<'a> Existing<'a> {
    /// Takes the lock of the database, as RocksDB does.
    ///
    /// The lock belongs to the process. If this process has the database open already, taking the lock would succeed, and
    /// closing any descriptor of the file would release the lock of that database. So the file is not even opened then.
    pub fn lock(target: &'a Target) -> Result<Self> {
        let path = target.db.join("LOCK");
        if count_descriptors(&path) > 0 {
            return Err(Error::open_here(&target.db));
        }
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(Error::io("open", &path))?;
        let existing = Self { target, file, opened: AtomicBool::new(false) };
        existing.lock_again()?;
        Ok(existing)
    }

    /// True if the locked database still has its name.
    pub fn is_in_place(&self) -> Result<bool> {
        let path = self.target.db.join("LOCK");
        let mine = self.file.metadata().map_err(Error::io("read metadata of", &path))?;
        Ok(path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (mine.dev(), mine.ino())))
    }

    /// Checks that this process has not opened the database since it was locked.
    pub fn check_not_open_here(&self) -> Result<()> {
        match count_descriptors(&self.target.db.join("LOCK")) {
            0 | 1 => Ok(()),
            _ => Err(Error::open_here(&self.target.db)),
        }
    }

    /// Takes the lock again after RocksDB has closed the database.
    pub fn lock_again(&self) -> Result<()> {
        lock(&self.file, &self.target.db, FlockOperation::NonBlockingLockExclusive)
    }
}

/// A lock with which no other process opens a database for writing. It changes nothing in the database's directory.
pub(in crate::load) struct ReadLock {
    _file: File,
}

impl ReadLock {
    /// Takes the lock; `None` if the database has no lock file, like a checkpoint that no program has opened.
    pub fn take(db: &Path) -> Result<Option<Self>> {
        let path = db.join("LOCK");
        // As for `Existing::lock`.
        if count_descriptors(&path) > 0 {
            return Err(Error::open_here(db));
        }
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        lock(&file, db, FlockOperation::NonBlockingLockShared)?;
        Ok(Some(Self { _file: file }))
    }
}

fn lock(file: &File, db: &Path, operation: FlockOperation) -> Result<()> {
    match fcntl_lock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let holder = fcntl_getlk(file, &Flock::from(FlockType::WriteLock));
            let process = holder.ok().flatten().and_then(|lock| lock.pid).map(|pid| pid.as_raw_pid());
            Err(Error::open_elsewhere(db, process))
        }
        Err(error) => Err(Error::io("lock", db.join("LOCK"))(error.into())),
    }
}
