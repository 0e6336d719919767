//! The places an import writes to: `<db>.partial` beside the database, and what is in it.
//!
//! ```text
//! <db>.partial/
//!   journal     what is done and durable, line by line
//!   spill/      partitions (below --work-dir when that is given)
//!   sst/        finished SST files, until RocksDB takes them over
//!   db/         the database, until it gets its name
//! ```

use std::path::{Path, PathBuf};

use super::options::ImportOptions;
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

impl Target {
    /// Works out the paths and checks that an import may write there; creates nothing.
    ///
    /// # Errors
    /// A database that is already there without `into_existing`, or is not there with it; leftovers of an unfinished
    /// import without `restart`; a name that no directory can have.
    pub fn check(options: &ImportOptions) -> Result<Self> {
        let db = options.db.clone();
        let Some(name) = db.file_name() else {
            return Err(Error::Usage {
                reason: format!("{} is no name for a database", db.display()),
                hint: "give --db the path of a directory that does not exist yet".into(),
            });
        };
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = db.with_file_name(partial_name);
        let exists = db.symlink_metadata().is_ok() && !is_empty_dir(&db);
        if exists && !options.into_existing {
            return Err(Error::State {
                path: db,
                reason: "already exists".into(),
                hint: "choose another --db, or add to it with --into-existing".into(),
            });
        }
        if options.into_existing && !db.join("CURRENT").exists() {
            return Err(Error::State {
                path: db,
                reason: "is no RocksDB database to import into".into(),
                hint: "leave --into-existing out to make a new one".into(),
            });
        }
        if partial.symlink_metadata().is_ok() && !options.restart {
            return Err(Error::State {
                path: partial,
                reason: "an earlier import was not finished".into(),
                hint: "--restart throws it away and starts over".into(),
            });
        }
        let spill = options.work_dir.clone().map_or_else(
            || partial.join("spill"),
            |dir| {
                let mut name = name.to_owned();
                name.push(".spill");
                dir.join(name)
            },
        );
        let into_existing = options.into_existing;
        Ok(Self { spill, sst: partial.join("sst"), staging: partial.join("db"), partial, db, into_existing })
    }

    /// Where the database is while it is worked on.
    pub fn working(&self) -> &Path {
        if self.into_existing { &self.db } else { &self.staging }
    }

    /// Makes the directories, throwing away leftovers.
    pub fn create(&self) -> Result<()> {
        self.remove()?;
        for dir in [&self.partial, &self.sst, &self.spill] {
            std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        Ok(())
    }

    /// Removes everything that is not the finished database.
    pub fn remove(&self) -> Result<()> {
        for dir in [&self.spill, &self.partial] {
            match std::fs::remove_dir_all(dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", dir)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_empty_dir(path: &Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_none())
}
