//! The backup of an existing database, and how an import restores the database from it.
//!
//! Before the import changes the database, `<db>.partial/checkpoint` gets all that RocksDB needs to open it: hard links to
//! its SST and blob files, copies of the small files. The backup is made while no process has the database open, because
//! opening it for writing changes it: RocksDB replays its WAL, begins another MANIFEST and deletes what is replayed.
//!
//! ```text
//! checkpoint.new/   incomplete
//! checkpoint/       complete: nothing in the database is changed before it exists
//! ```
//!
//! To restore the database, missing files are linked, the small ones are put in place by rename, CURRENT last, and later
//! files are deleted. The journal has an entry before that begins and one when it is done, so the next run repeats it after a
//! crash. It can be repeated any number of times.
//!
//! A run that is killed leaves a database that opens. The next run restores it, unless [`DatabaseState`] shows that another
//! program has opened it since. Then the records of that program stay, and a new backup is made. If it is not known which
//! program was last, nothing is changed.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result, StateKind};
use crate::failpoint;
use crate::load::existing::Existing;
use crate::load::existing::backup_files::{
    FileKind, check_whole, copy, files, is_whole, link, newest_manifest, opens, put,
};
use crate::load::journal::{DatabaseState, Entry, Journal, ResumedState};
use crate::load::target::{SUMS, Target};
use crate::os::files::{is_same, sync_dir, write_synced};
use crate::rocks::{Meter, OptionMap, OptionsFile, Store};

impl Existing<'_> {
    /// Restores the database after an earlier run, unless another program has opened it since. Returns a warning for the
    /// user.
    pub fn resume(&self, journal: &Journal, before: &mut ResumedState) -> Result<Option<String>> {
        let Target { db, partial, backup, .. } = self.target;
        let was_opened = before.opened.is_some() || before.is_restoring;
        if before.is_complete || (!was_opened && !backup.exists()) {
            return Ok(None);
        }
        if !backup.exists() {
            return Err(Error::incomplete_work(partial, backup.display()));
        }
        if self.is_last_writer(before)? {
            self.restore_with(journal)?;
            before.apply(Entry::Undone);
            return Ok(Some(self.describe_restored()));
        }
        journal.append(&Entry::Undone)?;
        before.apply(Entry::Undone);
        self.target.remove_backup()?;
        Ok(was_opened.then(|| {
            format!(
                "{} has been opened by another program since the import stopped: what it has written stays, and the \
                 import into the database starts over",
                db.display()
            )
        }))
    }

    /// Restores the database before the work of an earlier run is deleted, unless another program has opened it since.
    pub fn restore_before_restart(&self) -> Result<()> {
        let known = Journal::peek(&self.target.partial);
        let Target { db, backup, .. } = self.target;
        if known.is_complete || !backup.exists() {
            return Ok(());
        }
        let is_last_writer = match self.is_last_writer(&known) {
            // The database stays as it is if nothing tells which program changed it.
            Err(Error::State { .. }) => false,
            found => found?,
        };
        if !is_last_writer || (!is_whole(backup) && opens(db)?) {
            return Ok(());
        }
        self.restore_with(&Journal::open(&self.target.partial)?.0)
    }

    /// Checks that it is known which program changed the database last.
    pub fn check_last_writer(&self) -> Result<()> {
        let known = Journal::peek(&self.target.partial);
        if known.is_complete || !self.target.backup.exists() {
            return Ok(());
        }
        self.is_last_writer(&known).map(drop)
    }

    /// True if an earlier run of this import changed the database last, false if another program did. It is an error if that is
    /// not known.
    fn is_last_writer(&self, known: &ResumedState) -> Result<bool> {
        let Target { db, backup, .. } = self.target;
        let now = DatabaseState::of(db)?;
        // A restore puts CURRENT of the backup in place last.
        let is_kept =
            DatabaseState::of(backup).is_ok_and(|kept| kept.manifest == now.manifest && kept.identity == now.identity);
        if known.opened.as_ref() == Some(&now) || (known.is_restoring && is_kept) {
            return Ok(true);
        }
        if opens(db)? {
            let is_unknown = known.is_damaged && known.opened.is_none() && !is_kept;
            return if is_unknown { Err(self.unknown("the journal is damaged")) } else { Ok(false) };
        }
        // A program that opens it begins another MANIFEST, even if CURRENT is damaged later.
        let is_last = match &known.opened {
            Some(opened) => newest_manifest(db)?.as_deref() == Some(opened.manifest.trim()),
            None => is_kept && newest_manifest(backup)? == newest_manifest(db)?,
        };
        if is_last { Ok(true) } else { Err(self.unknown("it does not open any more")) }
    }

    /// The error if it is not known which program changed the database last.
    fn unknown(&self, why: &str) -> Error {
        let Target { db, partial, backup, .. } = self.target;
        let reason =
            format!("nothing tells whether this import or another program changed {} last: {why}", db.display());
        let hint = format!(
            "--restart starts over and keeps the database as it is now; to restore the state before the \
                 import, first replace the files of the database with those of {}",
            backup.display()
        );
        Error::state(partial, StateKind::Modified, reason, hint)
    }

    /// Makes a backup of the database, unless an earlier run has.
    pub fn make_backup(&self) -> Result<()> {
        let Target { db, partial, backup, .. } = self.target;
        if backup.exists() {
            return Ok(());
        }
        self.check_own_wal(&OptionsFile::latest(db)?)?;
        let making = backup.with_extension("new");
        self.target.remove_dir(&making)?;
        std::fs::create_dir(&making).map_err(Error::io("create", &making))?;
        let mut sums = String::new();
        for (name, kind) in files(db)? {
            let (from, to) = (db.join(&name), making.join(&name));
            let sum = match kind {
                FileKind::Data => {
                    link(&from, &to)?;
                    to.metadata().map_err(Error::io("read metadata of", &to))?.len()
                }
                FileKind::Small => copy(&from, &to)?,
                FileKind::Scrap => continue,
            };
            sums.push_str(&format!("{sum:016x} {name}\n"));
        }
        write_synced(&making, SUMS, sums.as_bytes())?;
        std::fs::rename(&making, backup).map_err(Error::io("create", backup))?;
        sync_dir(partial)?;
        failpoint::reach("checkpoint");
        Ok(())
    }

    /// Refuses to replace a database with its WAL elsewhere: the WAL would stay, and the next program with the same options
    /// would replay it into the new database.
    pub fn check_replaceable_wal(&self) -> Result<()> {
        // Options that cannot be read do not keep a damaged database from being replaced.
        OptionsFile::latest(&self.target.db).map_or(Ok(()), |options| self.check_own_wal(&options))
    }

    /// Refuses a database with its WAL elsewhere, which could not be restored.
    fn check_own_wal(&self, options: &OptionsFile) -> Result<()> {
        let db = &self.target.db;
        let elsewhere = options.db.iter().find(|line| line.name == "wal_dir").map(|line| Path::new(&line.value));
        let elsewhere = elsewhere.filter(|dir| !dir.as_os_str().is_empty() && dir.exists() && !is_same(dir, db));
        elsewhere.map_or(Ok(()), |dir| {
            let hint = "let the node open it once with the WAL in the database, or import into a new database";
            let reason = format!("keeps its WAL in another directory, {}", dir.display());
            Err(Error::state(db, StateKind::Other, reason, hint))
        })
    }

    /// Makes the backup, opens the database for writing, and notes its state in the journal.
    pub fn open(&self, loading: &OptionMap, family: &str, journal: &Journal, meter: Option<&Meter>) -> Result<Store> {
        self.make_backup()?;
        self.opened.store(true, Ordering::Relaxed);
        let db = &self.target.db;
        let store = Store::open(db, loading, family, meter)?;
        failpoint::reach("opening");
        journal.append(&Entry::Opened { state: DatabaseState::of(db)? })?;
        failpoint::reach("opened");
        Ok(store)
    }

    /// Restores the database after a failure, if this run has opened it. Returns true if it did. After an error the next run
    /// tries again.
    pub fn restore(&self) -> Result<bool> {
        if !self.opened.load(Ordering::Relaxed) || !self.target.backup.exists() {
            return Ok(false);
        }
        // The journal of this run may be what has failed.
        let (journal, known) = Journal::open(&self.target.partial)?;
        if known.is_complete {
            return Ok(false);
        }
        self.restore_with(&journal)?;
        Ok(true)
    }

    pub fn describe_restored(&self) -> String {
        format!("{} is again as it was before the import", self.target.db.display())
    }

    fn restore_with(&self, journal: &Journal) -> Result<()> {
        self.lock_again()?;
        // A damaged backup must not replace the database.
        check_whole(&self.target.backup)?;
        // From now on the database counts as having no records of this import.
        journal.append(&Entry::Restoring)?;
        failpoint::reach("restoring");
        self.restore_files()?;
        journal.append(&Entry::Undone)
    }

    fn restore_files(&self) -> Result<()> {
        let Target { db, backup, .. } = self.target;
        let kept = files(backup)?;
        for (name, kind) in &kept {
            let (from, to) = (backup.join(name), db.join(name));
            match kind {
                FileKind::Data if to.exists() => {}
                FileKind::Data => link(&from, &to)?,
                _ if name == "CURRENT" => {}
                _ => put(&from, &to)?,
            }
        }
        failpoint::reach("restore");
        let names: BTreeSet<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        let later: Vec<_> = files(db)?.into_iter().filter(|(name, _)| !names.contains(name.as_str())).collect();
        // RocksDB would replay a later WAL.
        let (wal, rest): (Vec<_>, Vec<_>) = later.into_iter().partition(|(name, _)| name.ends_with(".log"));
        let delete = |(name, _): &(String, FileKind)| {
            let path = db.join(name);
            match std::fs::remove_file(&path) {
                // A temporary file of a run that died: this restore has renamed one of the same name.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome.map_err(Error::io("delete", &path)),
            }
        };
        wal.iter().try_for_each(delete)?;
        sync_dir(db)?;
        put(&backup.join("CURRENT"), &db.join("CURRENT"))?;
        sync_dir(db)?;
        failpoint::reach("restored");
        rest.iter().try_for_each(delete)?;
        sync_dir(db)
    }
}
