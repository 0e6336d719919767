//! Creating and removing the files of an import. No file that an import does not make is removed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result, StateKind};
use crate::load::identity::Identity;
use crate::load::journal::{Journal, ResumedState};
use crate::load::target::Target;
use crate::load::target::lock::{LOCK, Lock};
use crate::load::target::paths::SUMS;
use crate::os::files::{UNFINISHED, create_last_dir, sync_dir};
use crate::os::private;
use crate::rocks::is_database_file;
use crate::schema::RECORD_FILE;
use crate::sort::is_partition;

/// RocksDB's directory for a WAL that is kept.
pub(super) const ARCHIVE: &str = "archive";

/// Files that other programs leave in a database that they have opened: the settings of Python's rocksdict.
pub(in crate::load) const COMPANIONS: [&str; 1] = ["rocksdict-config.json"];

impl Target {
    /// Takes the lock, and creates the partial directory.
    pub fn lock(&self) -> Result<Lock> {
        loop {
            if let Some(dir) = self.work_dir.as_deref().filter(|dir| self.partial.parent() == Some(dir)) {
                create_last_dir(dir)?;
            }
            private::create_dir(&self.partial)?;
            // An import creates its lock first and removes it last.
            let own = [self.partial.join(LOCK), Journal::path(&self.partial)];
            if !is_empty_dir(&self.partial) && !own.iter().any(|path| path.symlink_metadata().is_ok()) {
                let hint = "choose another --db, or move the existing directory away";
                let reason = "holds files that are not of an import";
                return Err(Error::state(&self.partial, StateKind::Exists, reason, hint));
            }
            if let Some(lock) = Lock::take(&self.partial, &self.db, self.restart)? {
                return self.first_mount().map_or(Ok(lock), |mount| Err(private::is_mounted(&mount)));
            }
        }
    }

    /// Creates the missing directories. The journal has its first entry already.
    pub fn create(&mut self, identity: &Identity) -> Result<()> {
        for dir in [&self.sst, &self.staging, &self.partial.join("spill")] {
            if dir.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
                return Err(Error::damaged_work(dir, "has something here that is not a directory"));
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

    /// Removes the partitions that an unfinished import has in a work directory, which only its journal names.
    fn remove_spill_elsewhere(&self) -> Result<()> {
        let Some(dir) = self.spill_elsewhere() else { return Ok(()) };
        let _lock = if self.spill_lock.is_none() { Some(lock_spill(&dir)?) } else { None };
        self.remove_dir(&dir)
    }

    /// Removes everything that an import has left but the lock, so that it can start over.
    pub fn clear(&self) -> Result<()> {
        self.remove_spill_elsewhere()?;
        // Without the journal no run uses the rest.
        private::remove(&Journal::path(&self.partial))?;
        self.remove_work()?;
        self.has_only_the_database()
    }

    /// Checks that the directory that becomes the database has only an import's files.
    pub fn has_only_the_database(&self) -> Result<()> {
        let mut names = self.staging.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.find(|name| !name.to_str().is_some_and(is_ours)).map_or(Ok(()), |name| {
            let reason = "is a foreign file in the directory of the new database";
            let hint = "move it away and run the same command again, or choose another --db";
            Err(Error::state(self.staging.join(name), StateKind::Other, reason, hint))
        })
    }

    /// The first file that is left after a complete import; `None` if another import has begun there.
    pub fn foreign(&self) -> Option<PathBuf> {
        let is_ended = self.partial.join(LOCK).symlink_metadata().is_err();
        let path = [&self.spill, &self.partial].into_iter().filter(|_| is_ended).find_map(|dir| first_in(dir))?;
        Some(first_in(&path).unwrap_or(path))
    }

    /// Removes the files of an import in a directory, and the directory if it is empty then.
    pub fn remove_dir(&self, dir: &Path) -> Result<()> {
        private::remove_dir(dir, is_ours)
    }

    fn remove_work(&self) -> Result<()> {
        self.dirs().iter().try_for_each(|dir| self.remove_dir(dir))
    }

    /// The directories below the partial one.
    fn dirs(&self) -> [PathBuf; 8] {
        let making = self.backup.with_extension("new");
        let [sst, staging, swap, scratch, backup] =
            [&self.sst, &self.staging, &self.swap, &self.scratch, &self.backup].map(Clone::clone);
        let [spill, probe] = ["spill", "probe"].map(|name| self.partial.join(name));
        [spill, sst, staging, swap, scratch, backup, making, probe]
    }

    /// The first file among unfinished work that no import makes. [`Target::remove`] would leave it and remove the rest.
    pub fn first_foreign(&self) -> Option<PathBuf> {
        let dirs: Vec<PathBuf> = self.spill_elsewhere().into_iter().chain(self.dirs()).collect();
        let own = [self.partial.join(LOCK), Journal::path(&self.partial)];
        let entries = self.partial.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        let other = entries.into_iter().find(|path| !dirs.contains(path) && !own.contains(path));
        other.or_else(|| dirs.iter().find_map(|dir| first_not_ours(dir)))
    }

    /// The first mount point below the directories of an unfinished import.
    pub fn first_mount(&self) -> Option<PathBuf> {
        let below = self.partial.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        below.chain(self.spill_elsewhere()).find_map(|path| private::first_mount(&path))
    }

    /// Removes the backup of an existing database, atomically.
    pub fn remove_backup(&self) -> Result<()> {
        let going = self.backup.with_extension("new");
        self.remove_dir(&going)?;
        std::fs::rename(&self.backup, &going).map_err(Error::io("remove", &self.backup))?;
        self.remove_dir(&going)
    }

    pub fn remove(&self) -> Result<()> {
        self.clear()?;
        private::remove(&self.partial.join(LOCK))?;
        match std::fs::remove_dir(&self.partial) {
            // The rest is not ours, or another import has just begun.
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

    /// Removes the partial directory if it has no journal.
    pub fn remove_if_unused(&self) -> Result<()> {
        if Journal::path(&self.partial).exists() { Ok(()) } else { self.remove() }
    }

    /// Checks that the files of the journal exist, and removes other files of an import.
    pub fn reconcile(&self, known: &ResumedState) -> Result<()> {
        if known.ingested || known.is_complete {
            return Ok(());
        }
        let missing = |what: String| Err(Error::incomplete_work(&self.partial, what));
        for file in known.files() {
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
            if name.to_str().is_some_and(|name| is_ours(name) && known.files().all(|file| file.name != name)) {
                private::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Takes the lock of a directory of partitions in a work directory.
fn lock_spill(dir: &Path) -> Result<Lock> {
    Lock::take(dir, dir, false)?.ok_or_else(|| Error::incomplete_work(dir, LOCK))
}

/// True if an import makes files with this name below the partial directory.
fn is_ours(name: &str) -> bool {
    is_database_file(name)
        || is_partition(name)
        || name.ends_with(UNFINISHED)
        || [RECORD_FILE, SUMS, ARCHIVE, LOCK].contains(&name)
        || COMPANIONS.contains(&name)
}

/// The first file in a directory, or below it, whose name no import uses.
fn first_not_ours(dir: &Path) -> Option<PathBuf> {
    let entries = dir.symlink_metadata().is_ok_and(|there| there.is_dir()).then(|| dir.read_dir().ok()).flatten();
    entries.into_iter().flatten().flatten().find_map(|entry| match entry.file_name().to_str().is_some_and(is_ours) {
        true => first_not_ours(&entry.path()),
        false => Some(entry.path()),
    })
}

fn first_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.read_dir().ok()?.next()?.ok()?.path())
}

pub(in crate::load) fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}
