//! Checks that an import may write to its target.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, StateKind};
use crate::load::target::Target;
use crate::load::target::work_files::{ARCHIVE, COMPANIONS, is_empty_dir};
use crate::os::file_system::is_mount_point;
use crate::os::files::{UNFINISHED, check_parent, resolved};
use crate::os::private;
use crate::report::ImportReport;
use crate::rocks::{is_database, is_database_file};
use crate::schema::RECORD_FILE;
use crate::sort::KeyLayout;

impl Target {
    /// True if the database was made from streams of records.
    fn has_records(&self) -> bool {
        ImportReport::load(&self.db).ok().flatten().is_some_and(|record| record.key == KeyLayout::Any)
    }

    /// Checks that an import may write here: nothing exists, or a database that it may add to or replace.
    pub fn check(&self) -> Result<()> {
        let work_dir = self.work_dir.as_deref();
        work_dir.map_or(Ok(()), |dir| self.check_work_dir(dir))?;
        if work_dir.is_none() || self.db.parent() != work_dir {
            check_parent(&self.db)?;
        }
        let refuse =
            |reason: &str, hint: &str, kind: StateKind| Err(Error::state(&self.db, kind, reason, hint.to_owned()));
        for above in self.db.ancestors().skip(1) {
            if !has_current(above)? {
                continue;
            }
            let reason = format!("would be in the database {}", above.display());
            return refuse(&reason, "choose another --db", StateKind::Other);
        }
        if self.has_old() {
            return self.check_replaceable();
        }
        if self.exists() && !self.into_existing {
            if !has_current(&self.db)? {
                return refuse(
                    "already exists, and is not a RocksDB database",
                    "choose another --db",
                    StateKind::Exists,
                );
            }
            let add = match self.is_seed {
                true => ", update it with --update,",
                // Only blocks can be added, and only to blocks.
                false if self.sources.iter().any(|source| is_database(source)) || self.has_records() => "",
                false => ", add the blocks of a CAR to it with --into-existing,",
            };
            let hint = format!("choose another --db{add} or replace it with --replace");
            return refuse("already exists", &hint, StateKind::Exists);
        }
        if !self.into_existing || has_current(&self.db)? {
            return Ok(());
        }
        if self.backup.exists() {
            let backup = self.backup.display();
            let hint = format!(
                "to restore the state before the import, replace the files of the database with those of {backup}"
            );
            return refuse("has lost its CURRENT since an import into it began", &hint, StateKind::Unfinished);
        }
        let hint = if self.exists() { "choose another --db" } else { "omit --into-existing to create a database" };
        refuse("is not a RocksDB database to import into", hint, StateKind::NoDatabase)
    }

    /// Refuses a work directory that is a file, or that is the database or in it.
    fn check_work_dir(&self, dir: &Path) -> Result<()> {
        check_parent(dir)?;
        let refuse = |reason: String| Err(Error::usage(reason, "give --work-dir another directory"));
        if dir.exists() && !dir.is_dir() {
            return refuse(format!("cannot use the work directory {}: it is a file", dir.display()));
        }
        let place = resolved(dir);
        if [&self.db, &self.partial].iter().any(|own| place.starts_with(resolved(own))) {
            return refuse(format!("cannot use the work directory {}: it is the place of the database", dir.display()));
        }
        Ok(())
    }

    /// True if this import replaces something.
    pub fn has_old(&self) -> bool {
        self.replace && self.exists()
    }

    /// True if the final name is taken. The rename replaces an empty directory, but not a link to one.
    fn exists(&self) -> bool {
        self.db.symlink_metadata().is_ok_and(|there| !there.is_dir() || !is_empty_dir(&self.db))
    }

    /// Refuses to replace a directory with anything but a RocksDB database in it: it is removed afterwards.
    fn check_replaceable(&self) -> Result<()> {
        let refused = |reason: String, hint: &str| {
            Err(Error::state(&self.db, StateKind::Exists, reason, format!("{hint}; nothing was removed")))
        };
        let there = self.db.symlink_metadata().map_err(Error::io("read metadata of", &self.db))?;
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
                "is not a RocksDB database that could be replaced: it has no CURRENT".into(),
                "choose another --db, or move the existing directory away",
            );
        }
        // A database may be replaced by its own copy.
        let is_other = |source: &&PathBuf| is_below(source, &self.db) && !is_below(&self.db, source);
        if let Some(source) = self.sources.iter().find(is_other) {
            return refused(
                format!("is not replaced: {} is in it, which is imported", source.display()),
                "move the snapshot out of the database's directory",
            );
        }
        first_foreign(&self.db)?.map_or(Ok(()), |path| {
            refused(
                format!("is not replaced: {} is not of a RocksDB database", path.display()),
                "move it away if it is to be kept, and run the same command again",
            )
        })
    }
}

/// The first file in a database's directory that neither RocksDB nor an import makes.
fn first_foreign(db: &Path) -> Result<Option<PathBuf>> {
    for entry in db.read_dir().map_err(Error::io("list", db))? {
        let path = entry.map_err(Error::io("list", db))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_dir = path.symlink_metadata().is_ok_and(|there| there.is_dir());
        let is_ours = name == RECORD_FILE || COMPANIONS.contains(&name);
        let found = match name {
            ARCHIVE if is_dir => first_foreign(&path)?,
            _ if !is_dir && (is_ours || is_database_file(name) || name.ends_with(UNFINISHED)) => None,
            _ => Some(path),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// True if a file is in a directory or below it, links followed.
fn is_below(file: &Path, dir: &Path) -> bool {
    file.canonicalize().is_ok_and(|file| dir.canonicalize().is_ok_and(|dir| file.starts_with(dir)))
}

/// True if a directory has the `CURRENT` of a RocksDB database.
fn has_current(db: &Path) -> Result<bool> {
    let path = db.join("CURRENT");
    match path.symlink_metadata() {
        Ok(there) => Ok(there.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::io("read metadata of", path)(error)),
    }
}
