//! An existing database that is added to: its checkpoint, how an import goes back to it, and the records it held.
//!
//! Before anything is changed in it, `<db>.partial/checkpoint` gets all that RocksDB needs to open it as it is: hard links
//! to its SST and blob files, copies of the small files. This is made while nothing has the database open, because opening
//! it for writing already changes it: RocksDB replays its WAL, begins another MANIFEST and deletes what is replayed.
//!
//! ```text
//! checkpoint.new/   incomplete
//! checkpoint/       complete: nothing in the database is changed before it exists
//! ```
//!
//! After a failure the database goes back to it: missing files are linked, the small ones put in place by rename, CURRENT
//! last, and what came later is deleted. The journal has an entry before that begins and one when it is done, so after
//! a crash on the way the next run begins again; it can be done any number of times.
//!
//! A run that is killed leaves a database that opens. The next run undoes what that run did in it, and does it again,
//! unless another program has opened the database since: then what that has written is kept, and a new checkpoint is
//! taken. [`DatabaseState`] shows which. Where it does not, nothing is changed.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::Hasher;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use twox_hash::XxHash3_64;

use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::load::database_state::DatabaseState;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::load::target::SUMS;
use crate::load::target::Target;
use crate::os::files::{UNFINISHED, count_descriptors, is_same, open_regular, sync_dir, unfinished_name, write_synced};
use crate::report::ImportReport;
use crate::rocks::option_map::OptionMap;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::{Meter, Reader, ReaderOptions, Store, is_database_file};
use crate::schema::RECORD_FILE;
use crate::sort::key::KeyLayout;

/// The reason in the error for a checkpoint with missing or changed files.
const NOT_WHOLE: &str = "its files are not what was put there";

/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// How the checkpoint is read: by keys in any order. Each open file has its index and its filter in memory.
const LOOKING_UP: ReaderOptions = ReaderOptions { cache: 16 << 20, open_files: 128, lenient: false, in_order: false };

/// An existing database that only this process may open: it is added to, or replaced.
pub(super) struct Existing<'a> {
    target: &'a Target,
    /// RocksDB's own lock file. The lock belongs to the process, so RocksDB can open the database here; when RocksDB closes
    /// it, the lock is lost and must be taken again.
    file: File,
    /// Whether this run has begun to open it for writing.
    opened: AtomicBool,
}

/// The kind of a database's file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Never changed once it is written: a link keeps it.
    Data,
    /// Appended to or replaced: a copy keeps it.
    Small,
    /// Of no use to a database that no process has open.
    Scrap,
}

/// The program that did the last thing in an existing database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// An earlier run of this import.
    Import,
    /// Another program.
    Other,
    /// It is not known, with the reason.
    Unknown(&'static str),
}

impl Kind {
    /// `None` for what is not RocksDB's or ours, and for its lock and its own log.
    fn of(name: &str) -> Option<Self> {
        if name.ends_with(UNFINISHED) {
            return Some(Self::Scrap);
        }
        if name != RECORD_FILE && !is_database_file(name) {
            return None;
        }
        match name.rsplit_once('.') {
            Some((_, "sst" | "blob")) => Some(Self::Data),
            Some((_, "dbtmp")) => Some(Self::Scrap),
            _ => (name != "LOCK" && !name.starts_with("LOG")).then_some(Self::Small),
        }
    }
}

/// Completes the options of an import: where the caller chose no key or no column family, those of the existing database count.
///
/// # Errors
/// As [`check_layout`].
pub(super) fn with_layout(mut options: ImportOptions) -> Result<ImportOptions> {
    // Target::new refuses both.
    let is_added_to = options.into_existing && !options.replace;
    let record = if is_added_to { ImportReport::load(&options.db)? } else { None };
    if let Some(record) = record.filter(|record| record.log.is_none()) {
        (options.key, options.column_family) = (record.key, record.column_family);
        if options.given_column_family.is_none() {
            options.overrides.column_family.get_or_insert_with(|| options.column_family.clone());
        }
    }
    options.key = options.given_key.unwrap_or(options.key);
    options.column_family = options.given_column_family.clone().unwrap_or(options.column_family);
    if is_added_to {
        check_layout(&options)?;
    }
    Ok(options)
}

/// Checks that the import would store its blocks where and as the record of the existing database says: readers find only
/// such blocks.
///
/// # Errors
/// [`Error::State`]: it would not; [`Error::Io`]: the record cannot be read.
pub(super) fn check_layout(options: &ImportOptions) -> Result<()> {
    let Some(record) = ImportReport::load(&options.db)? else { return Ok(()) };
    let (key, family) = (options.key.name(), &options.column_family);
    let (recorded_key, recorded_family) = (record.key.name(), &record.column_family);
    if record.log.is_some() || record.key == KeyLayout::Number {
        return Err(Error::State {
            path: options.db.clone(),
            reason: "holds the blocks of a block log, to which nothing can be added".into(),
            hint: "import into a new database: choose another --db".into(),
        });
    }
    if key != recorded_key {
        return Err(Error::State {
            path: options.db.clone(),
            reason: format!("stores its blocks by {recorded_key}, and the import would store them by {key}"),
            hint: format!("leave --key out to store the new blocks by {recorded_key}, or choose another --db"),
        });
    }
    if family != recorded_family {
        return Err(Error::State {
            path: options.db.clone(),
            reason: format!(
                "stores its blocks in the column family `{recorded_family}`, and the import would use `{family}`"
            ),
            hint: format!("leave --column-family out to use `{recorded_family}`, or choose another --db"),
        });
    }
    Ok(())
}

impl<'a> Existing<'a> {
    /// Takes the lock of the database, as RocksDB does.
    ///
    /// The lock belongs to the process. If this process has the database open already, taking the lock would succeed, and
    /// closing any descriptor of the file would release the lock of that database. So the file is not even opened then.
    ///
    /// # Errors
    /// [`Error::State`]: this process or another one has it open; [`Error::Io`]: the system refuses it.
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

    /// Checks that no process has the database open, and keeps no lock: a check before the source is opened, which may
    /// be a pipe that is slow to begin.
    ///
    /// # Errors
    /// As [`Existing::lock`].
    pub fn check_is_free(target: &'a Target) -> Result<()> {
        Self::lock(target).map(drop)
    }

    /// Whether the locked database is still the one under the name.
    ///
    /// # Errors
    /// [`Error::Io`]: the system does not tell.
    pub fn is_in_place(&self) -> Result<bool> {
        let path = self.target.db.join("LOCK");
        let mine = self.file.metadata().map_err(Error::io("look at", &path))?;
        Ok(path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (mine.dev(), mine.ino())))
    }

    /// Checks that this process has not opened the database since it was locked.
    ///
    /// # Errors
    /// [`Error::State`]: it has.
    pub fn check_not_open_here(&self) -> Result<()> {
        match count_descriptors(&self.target.db.join("LOCK")) {
            0 | 1 => Ok(()),
            _ => Err(Error::open_here(&self.target.db)),
        }
    }

    /// Takes the lock again after RocksDB has closed the database.
    ///
    /// # Errors
    /// As [`Existing::lock`].
    pub fn lock_again(&self) -> Result<()> {
        match fcntl_lock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let holder = fcntl_getlk(&self.file, &Flock::from(FlockType::WriteLock));
                let process = holder.ok().flatten().and_then(|lock| lock.pid).map(|pid| pid.as_raw_pid());
                Err(Error::open_elsewhere(&self.target.db, process))
            }
            Err(error) => Err(Error::io("lock", self.target.db.join("LOCK"))(error.into())),
        }
    }

    /// Undoes what an earlier run has done in the database, unless another program has opened it since. Returns a warning
    /// for the user.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk fails; [`Error::State`]: the checkpoint is gone, or it is not known which program has
    /// changed the database.
    pub fn take_up(&self, journal: &Journal, before: &mut ResumedState) -> Result<Option<String>> {
        if before.complete {
            return Ok(None);
        }
        let Target { db, partial, checkpoint, .. } = self.target;
        let was_opened = before.opened.is_some() || before.restoring;
        if !checkpoint.exists() {
            return match was_opened {
                true => Err(Error::work_lacks(partial, checkpoint.display())),
                false => Ok(None),
            };
        }
        match self.last_writer(before)? {
            Writer::Import => {
                self.restore_with(journal)?;
                before.take(Entry::Undone);
                return Ok(Some(self.restored()));
            }
            Writer::Unknown(why) => return Err(self.unknown(why)),
            Writer::Other => {}
        }
        journal.append(&Entry::Undone)?;
        before.take(Entry::Undone);
        self.target.remove_checkpoint()?;
        Ok(was_opened.then(|| {
            format!(
                "{} has been opened by another program since the import stopped: what it has written stays, and the \
                 import into the database starts over",
                db.display()
            )
        }))
    }

    /// Goes back before all that an earlier run has left is deleted, unless another program has opened the database
    /// since.
    ///
    /// # Errors
    /// As [`Existing::take_up`].
    pub fn give_up(&self) -> Result<()> {
        let known = Journal::peek(&self.target.partial);
        let Target { db, checkpoint, .. } = self.target;
        if known.complete
            || !checkpoint.exists()
            || self.last_writer(&known)? != Writer::Import
            || (!is_whole(checkpoint) && opens(db)?)
        {
            return Ok(());
        }
        self.restore_with(&Journal::open(&self.target.partial)?.0)
    }

    /// Checks that it is known which program has changed the database last.
    ///
    /// # Errors
    /// [`Error::State`]: it is damaged, and the database is not what it was.
    pub fn is_known(&self) -> Result<()> {
        let known = Journal::peek(&self.target.partial);
        if known.complete || !self.target.checkpoint.exists() {
            return Ok(());
        }
        match self.last_writer(&known)? {
            Writer::Unknown(why) => Err(self.unknown(why)),
            Writer::Import | Writer::Other => Ok(()),
        }
    }

    /// The program that changed the database last.
    fn last_writer(&self, known: &ResumedState) -> Result<Writer> {
        let Target { db, checkpoint, .. } = self.target;
        let now = DatabaseState::of(db)?;
        // A restore puts CURRENT of the checkpoint in place last.
        let is_kept = DatabaseState::of(checkpoint)
            .is_ok_and(|kept| kept.manifest == now.manifest && kept.identity == now.identity);
        if known.opened.as_ref() == Some(&now) || (known.restoring && is_kept) {
            return Ok(Writer::Import);
        }
        if opens(db)? {
            let is_unknown = known.is_damaged && known.opened.is_none() && !is_kept;
            return Ok(if is_unknown { Writer::Unknown("the journal is damaged") } else { Writer::Other });
        }
        // A program that opens it begins another MANIFEST, even if CURRENT is damaged later.
        let is_last = match &known.opened {
            Some(opened) => newest_manifest(db)?.as_deref() == Some(opened.manifest.trim()),
            None => is_kept && newest_manifest(checkpoint)? == newest_manifest(db)?,
        };
        Ok(if is_last { Writer::Import } else { Writer::Unknown("it does not open any more") })
    }

    /// The error where it is not known which program has changed the database.
    fn unknown(&self, why: &str) -> Error {
        let Target { db, partial, checkpoint, .. } = self.target;
        Error::State {
            path: partial.clone(),
            reason: format!(
                "nothing tells whether this import or another program changed {} last: {why}",
                db.display()
            ),
            hint: format!(
                "--restart starts over and keeps the database as it is now; to go back to what it was before the import, \
                 put the files of {} in place of its own first",
                checkpoint.display()
            ),
        }
    }

    /// Makes a checkpoint of the database, unless an earlier run has.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails; [`Error::State`]: the database has its WAL in another directory.
    pub fn keep(&self) -> Result<()> {
        let Target { db, partial, checkpoint, .. } = self.target;
        if checkpoint.exists() {
            return Ok(());
        }
        self.has_all_in_one_place(&OptionsFile::latest(db)?)?;
        let making = checkpoint.with_extension("new");
        self.target.remove_dir(&making)?;
        std::fs::create_dir(&making).map_err(Error::io("create", &making))?;
        let mut sums = String::new();
        for (name, kind) in files(db)? {
            let (from, to) = (db.join(&name), making.join(&name));
            let sum = match kind {
                Kind::Data => {
                    link(&from, &to)?;
                    to.metadata().map_err(Error::io("look at", &to))?.len()
                }
                Kind::Small => copy(&from, &to)?,
                Kind::Scrap => continue,
            };
            sums.push_str(&format!("{sum:016x} {name}\n"));
        }
        write_synced(&making, SUMS, sums.as_bytes())?;
        std::fs::rename(&making, checkpoint).map_err(Error::io("create", checkpoint))?;
        sync_dir(partial)?;
        failpoint::reach("checkpoint");
        Ok(())
    }

    /// Refuses to replace a database with its WAL elsewhere: that would stay, and the next program with the same options
    /// would replay it into the new database.
    ///
    /// # Errors
    /// [`Error::State`]: it has.
    pub fn can_go(&self) -> Result<()> {
        // Options that cannot be read do not keep a damaged database from being replaced.
        OptionsFile::latest(&self.target.db).map_or(Ok(()), |options| self.has_all_in_one_place(&options))
    }

    /// Refuses a database with its WAL elsewhere, which could not be restored.
    fn has_all_in_one_place(&self, options: &OptionsFile) -> Result<()> {
        let db = &self.target.db;
        let elsewhere = options.db.iter().find(|line| line.name == "wal_dir").map(|line| Path::new(&line.value));
        match elsewhere.filter(|dir| !dir.as_os_str().is_empty() && dir.exists() && !is_same(dir, db)) {
            None => Ok(()),
            Some(dir) => Err(Error::State {
                path: db.clone(),
                reason: format!("keeps its WAL in another directory, {}", dir.display()),
                hint: "let the node open it once with the WAL in the database, or import into a new database".into(),
            }),
        }
    }

    /// The records that the database held before this import.
    ///
    /// # Errors
    /// [`Error::State`]: the checkpoint is damaged; [`Error::Rocks`]: the database itself is; [`Error::Io`]: the disk
    /// fails.
    pub fn held(&self, family: &str) -> Result<Held> {
        let checkpoint = &self.target.checkpoint;
        if !is_whole(checkpoint) {
            return Err(damaged(checkpoint, NOT_WHOLE));
        }
        let reader = Reader::open(checkpoint, &LOOKING_UP).map_err(|error| match error {
            // A checkpoint of a damaged database is damaged, too: then the error is that of the database.
            Error::Rocks { message, .. } if errno_of(&message).is_none() => {
                let own = Reader::open(&self.target.db, &LOOKING_UP).err();
                own.unwrap_or_else(|| damaged(checkpoint, &message))
            }
            error => error,
        })?;
        let family = reader.families().iter().any(|name| name == family).then(|| family.to_owned());
        Ok(Held { reader, family })
    }

    /// Makes the checkpoint, opens the database for writing, and notes its state in the journal.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(&self, loading: &OptionMap, family: &str, journal: &Journal, meter: Option<&Meter>) -> Result<Store> {
        self.keep()?;
        self.opened.store(true, Ordering::Relaxed);
        let db = &self.target.db;
        let store = Store::open(db, loading, family, meter)?;
        failpoint::reach("opening");
        journal.append(&Entry::Opened { state: DatabaseState::of(db)? })?;
        failpoint::reach("opened");
        Ok(store)
    }

    /// After a failure: brings the database back to what it was, where this run has opened it. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk fails; [`Error::State`]: the checkpoint is damaged. The next run tries again.
    pub fn go_back(&self) -> Result<bool> {
        if !self.opened.load(Ordering::Relaxed) || !self.target.checkpoint.exists() {
            return Ok(false);
        }
        // The journal of this run may be what has failed.
        let (journal, known) = Journal::open(&self.target.partial)?;
        if known.complete {
            return Ok(false);
        }
        self.restore_with(&journal)?;
        Ok(true)
    }

    /// The message about a database that has gone back.
    pub fn restored(&self) -> String {
        format!("{} is again as it was before the import", self.target.db.display())
    }

    fn restore_with(&self, journal: &Journal) -> Result<()> {
        self.lock_again()?;
        // A damaged checkpoint must not replace the database.
        if !is_whole(&self.target.checkpoint) {
            return Err(damaged(&self.target.checkpoint, NOT_WHOLE));
        }
        // From here on nothing counts as being in the database.
        journal.append(&Entry::Restoring)?;
        failpoint::reach("restoring");
        self.restore()?;
        journal.append(&Entry::Undone)
    }

    fn restore(&self) -> Result<()> {
        let Target { db, checkpoint, .. } = self.target;
        let kept = files(checkpoint)?;
        for (name, kind) in &kept {
            let (from, to) = (checkpoint.join(name), db.join(name));
            match kind {
                Kind::Data if to.exists() => {}
                Kind::Data => link(&from, &to)?,
                _ if name == "CURRENT" => {}
                _ => put(&from, &to)?,
            }
        }
        failpoint::reach("restore");
        let names: BTreeSet<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
        let later: Vec<_> = files(db)?.into_iter().filter(|(name, _)| !names.contains(name.as_str())).collect();
        // RocksDB would replay a later WAL.
        let (wal, rest): (Vec<_>, Vec<_>) = later.into_iter().partition(|(name, _)| name.ends_with(".log"));
        let delete = |(name, _): &(String, Kind)| {
            let path = db.join(name);
            match std::fs::remove_file(&path) {
                // A temporary file of a run that died: this restore has renamed one of the same name.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome.map_err(Error::io("delete", &path)),
            }
        };
        wal.iter().try_for_each(delete)?;
        sync_dir(db)?;
        put(&checkpoint.join("CURRENT"), &db.join("CURRENT"))?;
        sync_dir(db)?;
        failpoint::reach("restored");
        rest.iter().try_for_each(delete)?;
        sync_dir(db)
    }
}

/// Records that a database held before an import.
pub(super) struct Held {
    pub reader: Reader,
    /// `None` where it did not have the column family.
    family: Option<String>,
}

impl Held {
    /// Looks up `keys`, which ascend where `sorted`, and hands each value to `found` with the key's index.
    ///
    /// # Errors
    /// As [`Reader::get_many`], or what `found` returns.
    pub fn look_up<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        sorted: bool,
        mut found: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(family) = &self.family else { return Ok(()) };
        for (index, value) in self.reader.get_many(family, keys, sorted)?.into_iter().enumerate() {
            if let Some(value) = value? {
                found(index, value.as_ref())?;
            }
        }
        Ok(())
    }

    /// The column family that was there.
    pub fn family(&self) -> Option<&str> {
        self.family.as_deref()
    }
}

fn damaged(checkpoint: &Path, why: &str) -> Error {
    Error::damaged_work(checkpoint, format!("is damaged: {why}"))
}

/// Whether RocksDB finds all files of the database in `dir`.
///
/// # Errors
/// [`Error::Io`]: the system refuses to read it, which says nothing about the database.
pub(super) fn opens(dir: &Path) -> Result<bool> {
    match Reader::open(dir, &ReaderOptions::once()).and_then(|found| found.files()) {
        Ok(_) => Ok(true),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        Err(error @ Error::Io { .. }) => Err(error),
        Err(_) => Ok(false),
    }
}

/// The MANIFEST with the highest number.
fn newest_manifest(dir: &Path) -> Result<Option<String>> {
    let names = files(dir)?.into_iter().map(|(name, _)| name).filter(|name| name.starts_with("MANIFEST-"));
    // Numbers have six digits, or more beyond a million.
    Ok(names.max_by_key(|name| (name.len(), name.clone())))
}

/// The files in a database's directory that are part of it.
fn files(dir: &Path) -> Result<Vec<(String, Kind)>> {
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        found.extend(name.to_str().and_then(|name| Some((name.to_owned(), Kind::of(name)?))));
    }
    Ok(found)
}

/// Links a file; copies it where the file system has no links, or `to` is on another one.
fn link(from: &Path, to: &Path) -> Result<()> {
    match std::fs::hard_link(from, to).map_err(|error| (Errno::from_io_error(&error), error)) {
        Ok(()) => Ok(()),
        Err((Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::PERM | Errno::MLINK), _)) => put(from, to),
        Err((_, error)) => Err(Error::io("link", to)(error)),
    }
}

/// Whether a checkpoint has all its files unchanged. An incomplete one could lose records of the WAL.
fn is_whole(checkpoint: &Path) -> bool {
    let look = || {
        let sums = std::fs::read_to_string(checkpoint.join(SUMS)).ok()?;
        let is_right = |line: &str| {
            let (sum, name) = line.split_once(' ')?;
            let path = checkpoint.join(name);
            let found = match Kind::of(name)? {
                Kind::Data => path.metadata().ok()?.len(),
                Kind::Small => copy_to(&path, std::io::sink()).ok()?,
                Kind::Scrap => return None,
            };
            (u64::from_str_radix(sum, 16) == Ok(found)).then_some(())
        };
        sums.lines().try_for_each(is_right)?;
        Some(files(checkpoint).ok()?.len() == sums.lines().count())
    };
    look() == Some(true)
}

/// Copies a file and syncs the copy; returns the checksum of what was copied.
fn copy(from: &Path, to: &Path) -> Result<u64> {
    let mut file = File::create(to).map_err(Error::io("create", to))?;
    let sum = copy_to(from, &mut file).map_err(Error::io("copy", from))?;
    let permissions = from.metadata().map_err(Error::io("look at", from))?.permissions();
    file.set_permissions(permissions).and_then(|()| file.sync_all()).map_err(Error::io("sync", to))?;
    Ok(sum)
}

fn copy_to(from: &Path, mut to: impl Write) -> std::io::Result<u64> {
    let mut from = open_regular(from)?;
    let mut buffer = vec![0; PIECE];
    let mut sum = XxHash3_64::new();
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(sum.finish());
        }
        sum.write(&buffer[..len]);
        to.write_all(&buffer[..len])?;
    }
}

/// Replaces a file by a copy of another, atomically.
fn put(from: &Path, to: &Path) -> Result<()> {
    let making = unfinished_name(to);
    copy(from, &making)?;
    std::fs::rename(&making, to).map_err(Error::io("replace", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rocksdb_needs_is_kept_and_only_such_files_are_deleted() {
        for (name, kind) in [
            ("000012.sst", Some(Kind::Data)),
            ("000013.blob", Some(Kind::Data)),
            ("000014.log", Some(Kind::Small)),
            ("MANIFEST-000005", Some(Kind::Small)),
            ("OPTIONS-000007", Some(Kind::Small)),
            ("CURRENT", Some(Kind::Small)),
            ("IDENTITY", Some(Kind::Small)),
            ("BEDLOAD.json", Some(Kind::Small)),
            ("000020.dbtmp", Some(Kind::Scrap)),
            ("CURRENT.bedload", Some(Kind::Scrap)),
            ("LOCK", None),
            ("LOG", None),
            ("LOG.old.17", None),
            ("mine.sst", None),
            ("MANIFEST-x", None),
            (".sst", None),
            ("README", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }
}
