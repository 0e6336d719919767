//! The places an import writes to: `<db>.partial` beside the database, and what is in it.
//!
//! ```text
//! <db>.partial/
//!   lock        held while an import runs; names the process
//!   journal     what is done and durable, line by line
//!   spill/      partitions (in `<name>.<id of the import>.spill` below --work-dir when that is given, with a lock of its own)
//!   sst/        finished SST files, until RocksDB ingests them
//!   db/         the database, until it gets its name
//!   exchange/   the database, whole, when its name is exchanged with that of the one it replaces; then the replaced one
//!   checkpoint/ what an existing database was before the import, until that is complete
//!   check/      finished SST files while they are compared with an existing database, or with what a bundle says
//! ```
//!
//! Both directories are this user's own and closed to others ([`private`]): only this user has put files into them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::load::identity::Identity;
use crate::load::journal::{Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::os::file_system::is_mount_point;
use crate::os::files::{
    UNFINISHED, check_parent, create_last_dir, exchange, exchanges_no_names, resolved, sync_dir, unfinished_name,
};
use crate::os::private;
use crate::report::record::record_checksum;
use crate::rocks::is_database_file;
use crate::schema::RECORD_FILE;
use crate::sort::spill::is_partition;

/// Held while an import runs.
const LOCK: &str = "lock";

/// The list of a checkpoint's files, each with its checksum, or its length where it is a link.
pub(super) const SUMS: &str = "sums";

/// RocksDB's directory for a WAL that is kept.
const ARCHIVE: &str = "archive";

/// Files that other programs leave in a database that they have opened: the settings of Python's rocksdict.
const COMPANIONS: [&str; 1] = ["rocksdict-config.json"];

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
    /// The complete database before it exchanges names with the one that it replaces, which is here afterwards. No loader
    /// works here: the replaced one is never taken for unfinished work.
    pub swap: PathBuf,
    /// The checkpoint of an existing database before the import.
    pub checkpoint: PathBuf,
    /// A database of the finished files alone, to be scanned.
    pub scratch: PathBuf,
    /// Whether the import adds to an existing database.
    pub into_existing: bool,
    replace: bool,
    /// What is imported: it is not removed with a database that is replaced.
    sources: Vec<PathBuf>,
    work_dir: Option<PathBuf>,
    restart: bool,
    /// The lock of `spill`, where that is in a work directory: `<db>.partial` may have been copied.
    spill_lock: Option<Arc<Lock>>,
}

/// The lock of a directory; released when it is dropped, and by the system when its owner dies.
#[derive(Debug)]
pub(super) struct Lock {
    file: Option<File>,
    dir: PathBuf,
}

/// How long to wait for a file system that removes an open file only after it was closed, and how often to look.
const CLOSING: Duration = Duration::from_secs(2);
const CLOSING_STEP: Duration = Duration::from_millis(10);

impl Target {
    /// Works out the paths; creates nothing.
    pub fn new(options: &ImportOptions) -> Result<Self> {
        let Some(name) = options.db.file_name() else {
            return Err(Error::Usage {
                reason: format!("{} is no name for a database", options.db.display()),
                hint: "give --db the path of a directory that does not exist yet".into(),
            });
        };
        let is_url = options.db.to_string_lossy().contains("://");
        if is_url || name.as_encoded_bytes().ends_with(b".partial") {
            let what = if is_url { "a URL: databases are local directories" } else { "a name of unfinished work" };
            return Err(Error::Usage {
                reason: format!("--db {}: it is {what}", options.db.display()),
                hint: "give --db another path".into(),
            });
        }
        if options.replace && options.into_existing {
            return Err(Error::Usage {
                reason: "--replace and --into-existing exclude each other".into(),
                hint: "give one of them: the database goes, or it is added to".into(),
            });
        }
        // With a slash behind it, the name of a link would mean what it leads to.
        let db = options.db.with_file_name(name);
        let with = |ending: &str| {
            let mut name = name.to_owned();
            name.push(ending);
            name
        };
        let partial = db.with_file_name(with(".partial"));
        let (sst, staging, swap) = (partial.join("sst"), partial.join("db"), partial.join("exchange"));
        let (checkpoint, scratch) = (partial.join("checkpoint"), partial.join("check"));
        let (into_existing, replace) = (options.into_existing, options.replace);
        let (work_dir, restart) = (options.work_dir.clone(), options.restart);
        let spill = PathBuf::new();
        let mut target = Self {
            spill,
            sst,
            staging,
            swap,
            checkpoint,
            scratch,
            partial,
            db,
            into_existing,
            replace,
            sources: options.sources.clone(),
            work_dir,
            restart,
            spill_lock: None,
        };
        // The path of a spill directory that does not exist yet only shows where room is needed.
        target.spill = match (target.spill_elsewhere(), &target.work_dir) {
            (Some(spill), Some(_)) => spill,
            (None, Some(dir)) => dir.join(with(".spill")),
            (_, None) => target.partial.join("spill"),
        };
        Ok(target)
    }

    /// The directory of partitions that an unfinished import has in a work directory. Another user's directory is not
    /// returned.
    pub fn spill_elsewhere(&self) -> Option<PathBuf> {
        let known = Journal::spill_place(&self.partial)?;
        known.dir(&self.partial, self.work_dir.as_deref()).filter(|dir| private::is_own_dir(dir))
    }

    /// Releases the lock of the partitions.
    pub fn release_spill(&mut self) {
        self.spill_lock = None;
    }

    /// Removes the partitions that an unfinished import has in a work directory, which only its journal names.
    fn remove_spill_elsewhere(&self) -> Result<()> {
        let Some(dir) = self.spill_elsewhere() else { return Ok(()) };
        let _lock = match &self.spill_lock {
            Some(_) => None,
            None => Some(lock_spill(&dir)?),
        };
        self.remove_dir(&dir)
    }

    /// Who holds the lock, if anybody does. It makes nothing.
    pub fn owner(&self) -> Result<Option<String>> {
        owner_of(&self.partial)
    }

    /// Checks that an import may write here.
    pub fn check(&self) -> Result<()> {
        let work_dir = self.work_dir.as_deref();
        work_dir.map_or(Ok(()), |dir| self.check_work_dir(dir))?;
        if work_dir.is_none() || self.db.parent() != work_dir {
            check_parent(&self.db)?;
        }
        let above = self.db.parent().unwrap_or(Path::new(""));
        if has_current(above)? {
            return Err(Error::State {
                path: self.db.clone(),
                reason: format!("would be in the database {}", above.display()),
                hint: "choose another --db".into(),
            });
        }
        if self.has_old() {
            return self.check_replaceable();
        }
        if self.exists() && !self.into_existing {
            if !has_current(&self.db)? {
                return Err(Error::State {
                    path: self.db.clone(),
                    reason: "already exists, and is no RocksDB database".into(),
                    hint: "choose another --db".into(),
                });
            }
            return Err(Error::State {
                path: self.db.clone(),
                reason: "already exists".into(),
                hint: "choose another --db, add to it with --into-existing (seed: --update), or let the new one take its place \
                       with --replace"
                    .into(),
            });
        }
        if self.into_existing && !has_current(&self.db)? {
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
                hint: match self.exists() {
                    true => "choose another --db".into(),
                    false => "leave --into-existing out to make a new one".into(),
                },
            });
        }
        Ok(())
    }

    /// Refuses a work directory that is a file, or that is the database or in it.
    fn check_work_dir(&self, dir: &Path) -> Result<()> {
        check_parent(dir)?;
        let refuse = |reason: String| Err(Error::Usage { reason, hint: "give --work-dir another directory".into() });
        if dir.exists() && !dir.is_dir() {
            return refuse(format!("--work-dir {}: it is a file, not a directory", dir.display()));
        }
        let place = resolved(dir);
        if [&self.db, &self.partial].iter().any(|own| place.starts_with(resolved(own))) {
            return refuse(format!("--work-dir {}: it is the place of the database", dir.display()));
        }
        Ok(())
    }

    /// Whether there is something that this import replaces.
    pub fn has_old(&self) -> bool {
        self.replace && self.exists()
    }

    /// Whether something has the final name. An empty directory is replaced by the rename; a link to one is not.
    fn exists(&self) -> bool {
        self.db.symlink_metadata().is_ok_and(|there| !there.is_dir() || !is_empty_dir(&self.db))
    }

    /// Refuses to replace what is not a RocksDB database and nothing else: it is removed afterwards.
    fn check_replaceable(&self) -> Result<()> {
        let refused = |reason: String, hint: &str| {
            Err(Error::State { path: self.db.clone(), reason, hint: format!("{hint}; nothing was removed") })
        };
        let there = self.db.symlink_metadata().map_err(Error::io("look at", &self.db))?;
        if !there.is_dir() {
            let what = private::kind(&there);
            return refused(format!("is {what}, which is not replaced"), "give --db the path of the directory itself");
        }
        if is_mount_point(&self.db) {
            return refused(
                "is a mount point, whose name cannot be given to another directory".into(),
                "give --db a directory on that file system, or mount it one level higher",
            );
        }
        if !has_current(&self.db)? {
            return refused(
                "is no RocksDB database that could be replaced: it has no CURRENT".into(),
                "choose another --db, or move away what is there",
            );
        }
        if let Some(source) = self.sources.iter().find(|source| is_below(source, &self.db)) {
            return refused(
                format!("is not replaced: {} is in it, which is imported", source.display()),
                "move the snapshot out of the database's directory",
            );
        }
        match first_foreign(&self.db)? {
            Some(path) => refused(
                format!("is not replaced: {} is not of a RocksDB database", path.display()),
                "move it away if it is to be kept, and run the same command again",
            ),
            None => Ok(()),
        }
    }

    /// Checks that names can be exchanged here, with two directories of no other use.
    pub fn check_exchange(&self) -> Result<()> {
        let dir = self.probe();
        let names = ["1", "2"].map(|name| unfinished_name(&dir.join(name)));
        private::create_dir(&dir)?;
        names.iter().try_for_each(|name| private::create_dir(name))?;
        let outcome = exchange(&names[0], &names[1]);
        let removed = self.remove_dir(&dir);
        outcome.map_err(|error| self.not_exchanged(error)).and(removed)
    }

    /// Exchanges the names of the complete database, set aside, and of the one that it replaces.
    pub fn exchange(&self) -> Result<()> {
        exchange(&self.swap, &self.db).map_err(|error| self.not_exchanged(error))
    }

    fn not_exchanged(&self, error: std::io::Error) -> Error {
        if !exchanges_no_names(&error) {
            return Error::io("replace", &self.db)(error);
        }
        Error::State {
            path: self.db.clone(),
            reason: format!("is on a file system that cannot exchange two names in one step ({error})"),
            hint: "move the old database away and run the same command again, or choose another --db".into(),
        }
    }

    fn probe(&self) -> PathBuf {
        self.partial.join("probe")
    }

    /// Whether an import into this target was complete and died before it had cleaned up.
    pub fn is_finished(&self) -> Result<bool> {
        let known = Journal::peek(&self.partial);
        if self.swap.symlink_metadata().is_ok() {
            let is_new = |dir: &Path| known.exchanging.is_some() && record_checksum(dir) == known.exchanging;
            return match (is_new(&self.db), is_new(&self.swap)) {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(Error::State {
                    path: self.swap.clone(),
                    reason: format!(
                        "nothing tells whether this is the new database or the one that it replaces: neither it nor {} \
                         has the BEDLOAD.json that the journal names",
                        self.db.display()
                    ),
                    hint: "look at both; put the one to keep under the name, and move this one out of the directory, \
                           which --restart then clears"
                        .into(),
                }),
            };
        }
        // As long as the database is there under its working name, another one has the final name.
        let is_named = self.into_existing || self.staging.symlink_metadata().is_err();
        Ok(known.complete && is_named && self.db.join(RECORD_FILE).exists())
    }

    /// Gives the complete database its working name again, if a run died before it exchanged names.
    pub fn take_back(&self) -> Result<()> {
        if self.swap.symlink_metadata().is_err() {
            return Ok(());
        }
        if self.is_finished()? {
            return Err(Error::State {
                path: self.db.clone(),
                reason: "another run has just finished this import".into(),
                hint: "run the same command again: it cleans up".into(),
            });
        }
        std::fs::rename(&self.swap, &self.staging).map_err(Error::io("rename", &self.swap))?;
        sync_dir(&self.partial)
    }

    /// Takes the lock, making the partial directory.
    pub fn lock(&self) -> Result<Lock> {
        loop {
            if let Some(lock) = self.try_lock()? {
                return Ok(lock);
            }
        }
    }

    /// `None` when the file was removed between opening and locking it: an import has just ended.
    fn try_lock(&self) -> Result<Option<Lock>> {
        if let Some(dir) = self.work_dir.as_deref().filter(|dir| self.partial.parent() == Some(dir)) {
            create_last_dir(dir)?;
        }
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
            // An import that has just ended has removed the directory.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        take_lock(&mut file, &path, &self.db)?;
        let mine = file.metadata().map_err(Error::io("look at", &path))?.ino();
        if !path.metadata().is_ok_and(|there| there.ino() == mine) {
            return Ok(None);
        }
        let lock = Lock { file: Some(file), dir: self.partial.clone() };
        self.first_mount().map_or(Ok(Some(lock)), |mount| Err(private::is_mounted(&mount)))
    }

    /// Makes the directories that are missing. The journal names the import already.
    pub fn create(&mut self, identity: &Identity) -> Result<()> {
        for dir in [&self.sst, &self.staging, &self.partial.join("spill")] {
            if dir.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
                return Err(Error::damaged_work(dir, "has something here that is no directory"));
            }
        }
        private::create_dir(&self.sst)?;
        match identity.spill_place().dir(&self.partial, self.work_dir.as_deref()) {
            Some(dir) => {
                self.work_dir.as_deref().map_or(Ok(()), create_last_dir)?;
                private::create_dir(&dir)?;
                self.spill_lock = Some(Arc::new(lock_spill(&dir)?));
                self.spill = dir;
            }
            None => private::create_dir(&self.spill)?,
        }
        sync_dir(&self.partial)
    }

    /// Removes everything an import has left but the lock, so that it can start over.
    pub fn clear(&self) -> Result<()> {
        self.remove_spill_elsewhere()?;
        // Without the journal no run uses the rest.
        private::remove(&Journal::path(&self.partial))?;
        self.remove_work()?;
        self.has_only_the_database()
    }

    /// Checks that the directory that becomes the database has only an import's files.
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
        let is_ended = self.partial.join(LOCK).symlink_metadata().is_err();
        let path = [&self.spill, &self.partial].into_iter().filter(|_| is_ended).find_map(|dir| first_in(dir))?;
        Some(first_in(&path).unwrap_or(path))
    }

    /// Removes a directory of an import, but no file that is not of one.
    pub fn remove_dir(&self, dir: &Path) -> Result<()> {
        private::remove_dir(dir, is_ours)
    }

    fn remove_work(&self) -> Result<()> {
        self.dirs().iter().try_for_each(|dir| self.remove_dir(dir))
    }

    /// The directories below the partial one.
    fn dirs(&self) -> [PathBuf; 8] {
        let making = self.checkpoint.with_extension("new");
        let [sst, staging, swap] = [&self.sst, &self.staging, &self.swap].map(Clone::clone);
        let spill = self.partial.join("spill");
        [spill, sst, staging, swap, self.scratch.clone(), self.checkpoint.clone(), making, self.probe()]
    }

    /// A file among what an unfinished import has left that no import makes; [`Target::remove`] would leave it, and remove the
    /// rest.
    pub fn first_foreign(&self) -> Option<PathBuf> {
        let dirs: Vec<PathBuf> = self.spill_elsewhere().into_iter().chain(self.dirs()).collect();
        let own = [self.partial.join(LOCK), Journal::path(&self.partial)];
        let entries = self.partial.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let other = entries.into_iter().find(|path| !dirs.contains(path) && !own.contains(path));
        other.or_else(|| dirs.iter().find_map(|dir| first_not_ours(dir)))
    }

    /// A mount point below the directories of an unfinished import.
    pub fn first_mount(&self) -> Option<PathBuf> {
        let below = self.partial.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        below.chain(self.spill_elsewhere()).find_map(|path| private::first_mount(&path))
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
        self.remove_spill_elsewhere()?;
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
        drop(self);
    }
}

impl Drop for Lock {
    /// Removes the directory where it is empty. The lock was removed while it was open; until it is closed, FUSE and NFS keep it
    /// under another name.
    fn drop(&mut self) {
        drop(self.file.take());
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

/// The owner that a lock names: only a help in messages.
fn owner_in(lock: &File) -> String {
    let mut owner = String::new();
    let _ = lock.take(200).read_to_string(&mut owner);
    owner.trim().to_owned()
}

/// Takes the lock at `path` and writes this process into it.
fn take_lock(file: &mut File, path: &Path, what: &Path) -> Result<()> {
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let owner = owner_in(file);
            return Err(Error::State {
                path: what.to_owned(),
                reason: format!("another import is working on it ({owner})"),
                hint: "wait for it, or stop it".into(),
            });
        }
        Err(error) => return Err(Error::io("lock", path)(error.into())),
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    file.set_len(0)
        .and_then(|()| file.write_all(format!("process {} on {host}\n", std::process::id()).as_bytes()))
        .map_err(Error::io("write", path))
}

/// Takes the lock of a directory of partitions in a work directory.
fn lock_spill(dir: &Path) -> Result<Lock> {
    let path = dir.join(LOCK);
    let mut file = private::open_file(&path, true)?;
    take_lock(&mut file, &path, dir)?;
    Ok(Lock { file: Some(file), dir: dir.to_owned() })
}

/// The process that holds the lock in a directory, if one does. It makes nothing.
pub(super) fn owner_of(dir: &Path) -> Result<Option<String>> {
    let path = dir.join(LOCK);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let file = private::read_file(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(Some(owner_in(&file))),
        Err(error) => Err(Error::io("lock", &path)(error.into())),
        Ok(()) => Ok(None),
    }
}

/// Whether a file of that name below the partial directory is of an import.
fn is_ours(name: &str) -> bool {
    is_database_file(name)
        || is_partition(name)
        || name.ends_with(UNFINISHED)
        || [RECORD_FILE, SUMS, ARCHIVE, LOCK].contains(&name)
        || COMPANIONS.contains(&name)
}

/// A file in a directory, or below it, that is not of an import by its name.
fn first_not_ours(dir: &Path) -> Option<PathBuf> {
    let entries = dir.symlink_metadata().is_ok_and(|there| there.is_dir()).then(|| dir.read_dir().ok()).flatten();
    entries.into_iter().flatten().flatten().find_map(|entry| match entry.file_name().to_str().is_some_and(is_ours) {
        true => first_not_ours(&entry.path()),
        false => Some(entry.path()),
    })
}

/// A file in a database's directory that RocksDB and imports do not make.
fn first_foreign(db: &Path) -> Result<Option<PathBuf>> {
    for entry in db.read_dir().map_err(Error::io("list", db))? {
        let path = entry.map_err(Error::io("list", db))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_dir = path.symlink_metadata().is_ok_and(|there| there.is_dir());
        let found = match name {
            ARCHIVE if is_dir => first_foreign(&path)?,
            _ if is_dir => Some(path),
            RECORD_FILE => None,
            _ if COMPANIONS.contains(&name) => None,
            _ => (!is_database_file(name) && !name.ends_with(UNFINISHED)).then_some(path),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Whether a file lies in a directory, or below it, whatever links lead there.
fn is_below(file: &Path, dir: &Path) -> bool {
    match (file.canonicalize(), dir.canonicalize()) {
        (Ok(file), Ok(dir)) => file.starts_with(dir),
        _ => false,
    }
}

/// True if a directory holds the `CURRENT` of a RocksDB database.
fn has_current(db: &Path) -> Result<bool> {
    let path = db.join("CURRENT");
    match path.symlink_metadata() {
        Ok(there) => Ok(there.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::io("read metadata of", path)(error)),
    }
}

/// Anything that is in a directory.
fn first_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.read_dir().ok()?.next()?.ok()?.path())
}

fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}
