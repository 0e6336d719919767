//! The places an import writes to: `<db>.partial` beside the database, and what is in it.
//!
//! ```text
//! <db>.partial/
//!   lock        held while an import runs; names the process
//!   journal     what is done and durable, line by line
//!   spill/      partitions (in `<name>.<hash of where it is>.<random>.spill` below --work-dir when that is given)
//!   sst/        finished SST files, until RocksDB ingests them
//!   db/         the database, until it gets its name
//!   checkpoint/ what an existing database was before the import, until that is complete
//!   check/      finished SST files while they are compared with an existing database
//! ```
//!
//! Both directories are this user's own and closed to others ([`private`]): only this user has put files into them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};
use crate::load::journal::{Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::os::files::UNFINISHED;
use crate::os::files::sync_dir;
use crate::os::private;
use crate::rocks::is_database_file;
use crate::schema::RECORD_FILE;
use crate::sort::spill::is_partition;

/// Held while an import runs.
const LOCK: &str = "lock";

/// The list of a checkpoint's files, each with its checksum, or its length where it is a link.
pub(super) const SUMS: &str = "sums";

/// What the names of directories with partitions end with, in a work directory.
const SPILL: &str = ".spill";

/// The paths of one import.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The final name.
    pub db: PathBuf,
    /// `<db>.partial`.
    pub partial: PathBuf,
    /// Partitions. In a work directory the path is certain only after [`Target::create`].
    pub spill: PathBuf,
    /// SST files before they are ingested.
    pub sst: PathBuf,
    /// The database before it has its name.
    pub staging: PathBuf,
    /// The checkpoint of an existing database before the import.
    pub checkpoint: PathBuf,
    /// A database of the finished files alone, to be scanned.
    pub scratch: PathBuf,
    /// Whether the import adds to an existing database.
    pub into_existing: bool,
    work_dir: Option<PathBuf>,
    restart: bool,
}

/// The lock on a target; released when it is dropped, and by the system when its owner dies.
pub(super) struct Lock(File);

impl Target {
    /// Works out the paths; creates nothing.
    ///
    /// # Errors
    /// [`Error::Usage`]: a name that no directory can have.
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
        let (sst, staging) = (partial.join("sst"), partial.join("db"));
        let (checkpoint, scratch) = (partial.join("checkpoint"), partial.join("check"));
        let (into_existing, work_dir, restart) = (options.into_existing, options.work_dir.clone(), options.restart);
        let spill = PathBuf::new();
        let mut target =
            Self { spill, sst, staging, checkpoint, scratch, partial, db, into_existing, work_dir, restart };
        target.spill = target.spills().pop().unwrap_or_else(|| {
            // It does not exist yet; the path only shows where room is needed.
            options.work_dir.as_deref().unwrap_or(&target.partial).join(spill_prefix(&target.partial))
        });
        Ok(target)
    }

    /// The directories of this import's partitions: in a work directory all that its runs may have left.
    fn spills(&self) -> Vec<PathBuf> {
        match &self.work_dir {
            Some(dir) => spills_below(dir, &self.partial),
            None => vec![self.partial.join("spill")],
        }
    }

    /// Removes the partitions that an import with this work directory has left.
    pub fn clear_spill_below(&self, work_dir: &Path) -> Result<()> {
        spills_below(work_dir, &self.partial).iter().try_for_each(|dir| self.remove_dir(dir))
    }

    /// Checks that an import may write here.
    ///
    /// # Errors
    /// [`Error::State`]: a database that exists without `into_existing`, or does not exist with it.
    pub fn check(&self) -> Result<()> {
        // An empty directory is replaced by the rename; a link to one is not.
        let exists = self.db.symlink_metadata().is_ok_and(|there| !there.is_dir() || !is_empty_dir(&self.db));
        if exists && !self.into_existing {
            return Err(Error::State {
                path: self.db.clone(),
                reason: "already exists".into(),
                hint: "choose another --db, or add to it with --into-existing".into(),
            });
        }
        if self.into_existing && !self.db.join("CURRENT").exists() {
            if self.checkpoint.exists() {
                return Err(Error::State {
                    path: self.db.clone(),
                    reason: "has lost its CURRENT since an import into it began".into(),
                    hint: format!(
                        "to go back to what it was before, put the files of {} in place of its own",
                        self.checkpoint.display()
                    ),
                });
            }
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
        self.db.join(RECORD_FILE).exists() && Journal::peek(&self.partial).complete
    }

    /// Takes the lock, making the partial directory.
    ///
    /// # Errors
    /// [`Error::State`]: another import holds it, or another user may have prepared the directory; [`Error::Io`]: it cannot
    /// be made.
    pub fn lock(&self) -> Result<Lock> {
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
        }
    }

    /// `None` when the file was removed between opening and locking it: an import has just ended.
    fn try_lock(&self) -> Result<Option<Lock>> {
        private::create_dir(&self.partial)?;
        let path = self.partial.join(LOCK);
        // An import makes its lock first and removes it last.
        let is_own = || path.symlink_metadata().is_ok() || Journal::path(&self.partial).symlink_metadata().is_ok();
        if !is_empty_dir(&self.partial) && !is_own() {
            return Err(Error::State {
                path: self.partial.clone(),
                reason: "holds files that are not of an import".into(),
                hint: "choose another --db, or move away what is there".into(),
            });
        }
        let mut file = match private::open_file(&path, true) {
            // It is no lock that a process could hold.
            Err(Error::State { .. }) if self.restart => {
                private::remove(&path)?;
                private::open_file(&path, true)?
            }
            opened => opened?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // The name of the owner is only a help in the message.
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
    ///
    /// # Errors
    /// [`Error::State`]: there is something else in the place of one; [`Error::Io`]: the system refuses one.
    pub fn create(&mut self) -> Result<()> {
        for dir in [&self.sst, &self.staging, &self.partial.join("spill")] {
            if dir.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
                return Err(Error::damaged_work(dir, "has something here that is no directory"));
            }
        }
        self.spill = match (self.spills().pop(), &self.work_dir) {
            (Some(spill), _) => spill,
            (None, Some(dir)) => new_spill_below(dir, &self.partial)?,
            (None, None) => self.partial.join("spill"),
        };
        private::create_dir(&self.sst)?;
        private::create_dir(&self.spill)?;
        sync_dir(&self.partial)
    }

    /// Removes everything an import has left but the lock, so that it can start over.
    ///
    /// # Errors
    /// As [`Target::has_only_the_database`]; [`Error::Io`]: the system refuses to remove something.
    pub fn clear(&self) -> Result<()> {
        // The journal first: without it no run uses the rest.
        private::remove(&Journal::path(&self.partial))?;
        self.remove_work()?;
        self.has_only_the_database()
    }

    /// Checks that the directory that becomes the database has only an import's files.
    ///
    /// # Errors
    /// [`Error::State`]: there is another file.
    pub fn has_only_the_database(&self) -> Result<()> {
        let names = self.staging.read_dir().into_iter().flatten().flatten();
        match names.map(|entry| entry.file_name()).find(|name| !name.to_str().is_some_and(is_ours)) {
            Some(name) => Err(Error::State {
                path: self.staging.join(name),
                reason: "is not of an import, and stands where its database is made".into(),
                hint: "move it away and run the same command again, or choose another --db".into(),
            }),
            None => Ok(()),
        }
    }

    /// A file that is left after a complete import; `None` when another import has begun there.
    pub fn foreign(&self) -> Option<PathBuf> {
        let all = self.spills().into_iter().chain([self.partial.clone()]);
        let path =
            all.filter(|_| self.partial.join(LOCK).symlink_metadata().is_err()).find_map(|dir| first_in(&dir))?;
        Some(first_in(&path).unwrap_or(path))
    }

    /// Removes a directory of an import, but no file that is not of one.
    pub fn remove_dir(&self, dir: &Path) -> Result<()> {
        private::remove_dir(dir, is_ours)
    }

    fn remove_work(&self) -> Result<()> {
        let making = self.checkpoint.with_extension("new");
        let dirs = [&self.sst, &self.staging, &self.scratch, &self.checkpoint, &making];
        self.spills().iter().chain(dirs).try_for_each(|dir| self.remove_dir(dir))
    }

    /// Removes the database under its working name.
    pub fn remove_staging(&self) -> Result<()> {
        self.remove_dir(&self.staging)
    }

    /// Removes the checkpoint of an existing database, atomically.
    pub fn remove_checkpoint(&self) -> Result<()> {
        let going = self.checkpoint.with_extension("new");
        self.remove_dir(&going)?;
        std::fs::rename(&self.checkpoint, &going).map_err(Error::io("remove", &self.checkpoint))?;
        self.remove_dir(&going)
    }

    /// Removes everything that is not the finished database.
    pub fn remove(&self) -> Result<()> {
        self.clear()?;
        private::remove(&self.partial.join(LOCK))?;
        match std::fs::remove_dir(&self.partial) {
            // What is left is not ours, or another import has just begun.
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
                Err(Error::io("remove", &self.partial)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes what a complete import has left, the journal last: until then a next run sees that the import is complete.
    pub fn remove_leftovers(&self) -> Result<()> {
        self.remove_work()?;
        self.remove()
    }

    /// Removes the partial directory if nothing has been done in it.
    pub fn remove_if_unused(&self) -> Result<()> {
        if Journal::path(&self.partial).exists() { Ok(()) } else { self.remove() }
    }

    /// The path of the database while the import works on it.
    pub fn working(&self) -> &Path {
        if self.into_existing { &self.db } else { &self.staging }
    }

    /// Checks that what the journal names is there, and removes what it does not name.
    ///
    /// # Errors
    /// [`Error::State`]: something is missing: another program has changed it.
    pub fn reconcile(&self, known: &ResumedState) -> Result<()> {
        if known.ingested || known.complete {
            return Ok(());
        }
        let missing = |what: String| Err(Error::work_lacks(&self.partial, what));
        for file in &known.files {
            let path = self.sst.join(&file.name);
            match path.symlink_metadata() {
                Ok(there) if there.is_file() && there.len() == file.bytes => {}
                Ok(_) => return missing(format!("a whole {}", path.display())),
                // While RocksDB ingests files they move one by one; the database then has them all.
                Err(_) if known.ingesting => {}
                Err(_) => return missing(path.display().to_string()),
            }
        }
        for entry in self.sst.read_dir().map_err(Error::io("list", &self.sst))? {
            let entry = entry.map_err(Error::io("list", &self.sst))?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| is_ours(name) && known.files.iter().all(|file| file.name != name)) {
                private::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Lock {
    /// Releases the lock.
    pub fn release(self) {
        drop(self.0);
    }
}

/// The prefix of the names of directories with partitions of the import in `partial`. Several imports may share
/// a work directory, also those of databases with the same name in different places.
fn spill_prefix(partial: &Path) -> OsString {
    let whole = std::path::absolute(partial).unwrap_or_else(|_| partial.to_owned());
    let mut name = partial.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.", twox_hash::XxHash3_64::oneshot(whole.as_os_str().as_bytes())));
    name
}

/// The directories in a work directory that hold partitions of the import in `partial`. Other users may write there too:
/// their directories are skipped.
fn spills_below(work_dir: &Path, partial: &Path) -> Vec<PathBuf> {
    let prefix = spill_prefix(partial);
    let is_spill = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(prefix.as_bytes()) && name.ends_with(SPILL.as_bytes()) && private::is_own_dir(path)
    };
    let entries = work_dir.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_spill).collect()
}

/// Makes a new such directory, with an unpredictable name.
fn new_spill_below(work_dir: &Path, partial: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(work_dir).map_err(Error::io("create", work_dir))?;
    let made = tempfile::Builder::new()
        .prefix(&spill_prefix(partial))
        .rand_bytes(16)
        .suffix(SPILL)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(work_dir);
    Ok(made.map_err(Error::io("create a directory in", work_dir))?.keep())
}

/// Whether a file of that name below the partial directory is of an import.
fn is_ours(name: &str) -> bool {
    is_database_file(name)
        || is_partition(name)
        || name.ends_with(UNFINISHED)
        // RocksDB's directory for a WAL that is kept.
        || [RECORD_FILE, SUMS, "archive"].contains(&name)
}

/// Anything that is in a directory.
fn first_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.read_dir().ok()?.next()?.ok()?.path())
}

fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}
