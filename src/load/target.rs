//! The places an import writes to: `<db>.partial` beside the database, and what is in it.
//!
//! ```text
//! <db>.partial/
//!   lock        held while an import runs; says whose it is
//!   journal     what is done and durable, line by line
//!   spill/      partitions (in `<name>.<hash of where it is>.spill` below --work-dir when that is given)
//!   sst/        finished SST files, until RocksDB takes them over
//!   db/         the database, until it gets its name
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::journal::{Journal, Progressed};
use super::options::ImportOptions;
use super::publish::{RECORD, sync_dir};
use crate::error::{Error, Result};

/// The paths of one import.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The final name.
    pub db: PathBuf,
    /// `<db>.partial`.
    pub partial: PathBuf,
    /// Partitions.
    pub spill: PathBuf,
    /// SST files before they are ingested.
    pub sst: PathBuf,
    /// The database before it has its name.
    pub staging: PathBuf,
    /// Whether the database is there already and is added to.
    pub into_existing: bool,
}

/// The right to work on a target; given back when it is dropped, and by the system when its owner dies.
pub(super) struct Lock(File);

impl Target {
    /// Works out the paths; looks at nothing and creates nothing.
    ///
    /// # Errors
    /// A name that no directory can have.
    pub fn new(options: &ImportOptions) -> Result<Self> {
        let db = options.db.clone();
        let Some(name) = db.file_name() else {
            return Err(Error::Usage {
                reason: format!("{} is no name for a database", db.display()),
                hint: "give --db the path of a directory that does not exist yet".into(),
            });
        };
        let with = |ending: &str| {
            let mut name = name.to_owned();
            name.push(ending);
            name
        };
        let partial = db.with_file_name(with(".partial"));
        let spill = match &options.work_dir {
            Some(dir) => spill_below(dir, &partial),
            None => partial.join("spill"),
        };
        let into_existing = options.into_existing;
        Ok(Self { spill, sst: partial.join("sst"), staging: partial.join("db"), partial, db, into_existing })
    }

    /// Removes the partitions that an import with this work directory has left.
    pub fn clear_spill_below(&self, work_dir: &Path) -> Result<()> {
        remove(&spill_below(work_dir, &self.partial), |path| std::fs::remove_dir_all(path))
    }

    /// Checks that an import may write here.
    ///
    /// # Errors
    /// A database that is already there without `into_existing`, or is not there with it.
    pub fn check(&self) -> Result<()> {
        let exists = self.db.symlink_metadata().is_ok() && !is_empty_dir(&self.db);
        if exists && !self.into_existing {
            return Err(Error::State {
                path: self.db.clone(),
                reason: "already exists".into(),
                hint: "choose another --db, or add to it with --into-existing".into(),
            });
        }
        if self.into_existing && !self.db.join("CURRENT").exists() {
            return Err(Error::State {
                path: self.db.clone(),
                reason: "is no RocksDB database to import into".into(),
                hint: "leave --into-existing out to make a new one".into(),
            });
        }
        Ok(())
    }

    /// Whether an import into this target was complete and died before it had cleaned up.
    pub fn is_finished(&self) -> bool {
        !self.into_existing && self.db.join(RECORD).exists() && Journal::peek(&self.partial).complete
    }

    /// Takes the lock, making the partial directory.
    ///
    /// # Errors
    /// Another import holds it, or the directory cannot be made.
    pub fn lock(&self) -> Result<Lock> {
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
        }
    }

    /// `None` when the file was removed between opening and locking it: an import has just ended.
    fn try_lock(&self) -> Result<Option<Lock>> {
        std::fs::create_dir_all(&self.partial).map_err(Error::io("create", &self.partial))?;
        let path = self.partial.join("lock");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // Who it is only helps; that it is taken is certain.
                let _ = (&mut file).take(200).read_to_string(&mut owner);
                return Err(Error::State {
                    path: self.db.clone(),
                    reason: format!("another import is working on it ({})", owner.trim()),
                    hint: "wait for it, or stop it".into(),
                });
            }
            Err(error) => return Err(Error::io("lock", &path)(error.into())),
        }
        let mine = file.metadata().map_err(Error::io("look at", &path))?.ino();
        if !path.metadata().is_ok_and(|there| there.ino() == mine) {
            return Ok(None);
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        file.set_len(0)
            .and_then(|()| file.write_all(format!("process {} on {host}\n", std::process::id()).as_bytes()))
            .map_err(Error::io("write", &path))?;
        Ok(Some(Lock(file)))
    }

    /// Makes the directories that are missing.
    pub fn create(&self) -> Result<()> {
        for dir in [&self.sst, &self.spill] {
            std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        sync_dir(&self.partial)
    }

    /// Removes everything an import has left but the lock, so that it can start over.
    pub fn clear(&self) -> Result<()> {
        // The journal first: without it nothing here means anything.
        remove(&Journal::path(&self.partial), |path| std::fs::remove_file(path))?;
        for dir in [&self.spill, &self.sst, &self.staging] {
            remove(dir, |path| std::fs::remove_dir_all(path))?;
        }
        Ok(())
    }

    /// Removes the database under its working name.
    pub fn remove_staging(&self) -> Result<()> {
        remove(&self.staging, |path| std::fs::remove_dir_all(path))
    }

    /// Removes everything that is not the finished database.
    pub fn remove(&self) -> Result<()> {
        self.clear()?;
        remove(&self.partial, |path| std::fs::remove_dir_all(path))
    }

    /// Removes what a complete import has left. The journal goes last: until then it says that all this may go.
    pub fn remove_leftovers(&self) -> Result<()> {
        for dir in [&self.spill, &self.sst, &self.staging] {
            remove(dir, |path| std::fs::remove_dir_all(path))?;
        }
        self.remove()
    }

    /// Removes the partial directory if nothing has been done in it.
    pub fn remove_if_unused(&self) -> Result<()> {
        if Journal::path(&self.partial).exists() { Ok(()) } else { self.remove() }
    }

    /// Where the database is while it is worked on.
    pub fn working(&self) -> &Path {
        if self.into_existing { &self.db } else { &self.staging }
    }

    /// Checks that what the journal names is there, and removes what it does not name.
    ///
    /// # Errors
    /// Something is missing: somebody was here.
    pub fn reconcile(&self, known: &Progressed) -> Result<()> {
        if known.ingested || known.complete {
            return Ok(());
        }
        let missing = |what: String| Err(Error::damaged_work(&self.partial, format!("lacks {what}")));
        for file in &known.files {
            let path = self.sst.join(&file.name);
            match path.metadata() {
                Ok(metadata) if metadata.len() == file.bytes => {}
                Ok(_) => return missing(format!("a whole {}", path.display())),
                // While RocksDB takes files over they leave one by one; the database then knows them all.
                Err(_) if known.ingesting => {}
                Err(_) => return missing(path.display().to_string()),
            }
        }
        for entry in self.sst.read_dir().map_err(Error::io("list", &self.sst))? {
            let entry = entry.map_err(Error::io("list", &self.sst))?;
            if !known.files.iter().any(|file| entry.file_name() == file.name.as_str()) {
                remove(&entry.path(), |path| std::fs::remove_file(path))?;
            }
        }
        Ok(())
    }
}

impl Lock {
    /// Gives the lock back.
    pub fn release(self) {
        drop(self.0);
    }
}

/// Where the partitions of the import in `partial` lie in a work directory. Several imports may share one, also those
/// of databases with the same name in different places.
fn spill_below(work_dir: &Path, partial: &Path) -> PathBuf {
    let whole = std::path::absolute(partial).unwrap_or_else(|_| partial.to_owned());
    let mut name = partial.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.spill", twox_hash::XxHash3_64::oneshot(whole.as_os_str().as_bytes())));
    work_dir.join(name)
}

fn remove(path: &Path, how: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
    match how(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}
