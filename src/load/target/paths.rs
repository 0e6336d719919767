//! The paths of an import.
//!
//! ```text
//! <db>.partial/
//!   lock        held while an import runs; names the process
//!   journal     what is done and durable, line by line
//!   spill/      partitions; with --work-dir they are in `<name>.<id of the import>.spill` there, with a lock of their own
//!   sst/        finished SST files, until RocksDB ingests them
//!   db/         the database, until it gets its name
//!   exchange/   the complete database before it exchanges names with the one that it replaces; afterwards the replaced one
//!   checkpoint/ the existing database as it was before the import, until the import is complete
//!   check/      finished SST files while they are compared with an existing database or with a bundle's description
//! ```
//!
//! Both directories belong to this user and are closed to others ([`private`]), so no other user can put files into them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::load::journal::Journal;
use crate::load::options::{ImportOptions, Unfinished};
use crate::load::target::lock::Lock;
use crate::os::{files::check_path, private};

/// The list of a backup's files, each with its checksum, or with its length if it is a link.
pub(in crate::load) const SUMS: &str = "sums";

#[derive(Debug, Clone)]
pub(in crate::load) struct Target {
    /// The final name.
    pub db: PathBuf,
    pub partial: PathBuf,
    /// The partitions. In a work directory the path is certain only after [`Target::create`].
    pub spill: PathBuf,
    pub sst: PathBuf,
    /// The database before it has its name.
    pub staging: PathBuf,
    /// The complete database before the exchange of names, and the replaced one after it. No loader works here, so the
    /// replaced one is never taken for unfinished work.
    pub swap: PathBuf,
    pub backup: PathBuf,
    /// A database of the finished files alone, to be scanned.
    pub scratch: PathBuf,
    /// True if the import adds to an existing database.
    pub into_existing: bool,
    pub(super) replace: bool,
    pub(super) is_seed: bool,
    /// The sources, which are not removed with a replaced database.
    pub(super) sources: Vec<PathBuf>,
    pub(super) work_dir: Option<PathBuf>,
    pub(super) restart: bool,
    /// The lock of `spill` in a work directory: `<db>.partial` may have been copied.
    pub(in crate::load) spill_lock: Option<Arc<Lock>>,
}

/// The directory that a path is in.
pub(in crate::load) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The nearest directory above a path that exists: an import may create the work directory that its database is in.
pub(in crate::load) fn existing_parent(path: &Path) -> PathBuf {
    parent(path).ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new(".")).to_owned()
}

impl Target {
    /// Works out the paths; creates nothing.
    pub fn new(options: &ImportOptions) -> Result<Self> {
        let refuse = |reason: String, hint: &str| Err(Error::usage(reason, hint));
        check_path("the database", &options.db)?;
        options.work_dir.iter().try_for_each(|dir| check_path("the work directory", dir))?;
        let shown = options.db.display();
        let Some(name) = options.db.file_name() else {
            let hint = "give --db the path of a directory that does not exist yet";
            return refuse(format!("{shown} is not a name for a database"), hint);
        };
        let is_url = options.db.to_string_lossy().contains("://");
        if is_url || name.as_encoded_bytes().ends_with(b".partial") {
            let what = if is_url {
                "it is a URL: databases are local directories"
            } else {
                "names that end in .partial are reserved for unfinished imports"
            };
            return refuse(format!("cannot make a database at {shown}: {what}"), "give --db another path");
        }
        if options.replace && options.into_existing {
            let hint = "pass only one of them";
            return refuse("replacing a database and adding to it exclude each other".into(), hint);
        }
        // With a trailing slash, the name of a link would mean its target.
        let db = options.db.with_file_name(name);
        let partial = db.with_file_name(with_suffix(name, ".partial"));
        check_path("the database with `.partial`", &partial)?;
        let mut target = Self {
            spill: PathBuf::new(),
            sst: partial.join("sst"),
            staging: partial.join("db"),
            swap: partial.join("exchange"),
            backup: partial.join("checkpoint"),
            scratch: partial.join("check"),
            partial,
            db,
            into_existing: options.into_existing,
            replace: options.replace,
            is_seed: options.is_seed,
            sources: options.sources.clone(),
            work_dir: options.work_dir.clone(),
            restart: options.unfinished == Unfinished::Restart,
            spill_lock: None,
        };
        // The path of a spill directory that does not exist yet only shows where room is needed.
        target.spill = match (target.spill_elsewhere(), &target.work_dir) {
            (Some(spill), Some(_)) => spill,
            (None, Some(dir)) => dir.join(with_suffix(name, ".spill")),
            (_, None) => target.partial.join("spill"),
        };
        Ok(target)
    }

    /// The directory of partitions that an unfinished import has in a work directory, unless it belongs to another user.
    pub fn spill_elsewhere(&self) -> Option<PathBuf> {
        let known = Journal::spill_place(&self.partial)?;
        known.dir(&self.partial, self.work_dir.as_deref()).filter(|dir| private::is_own_dir(dir))
    }

    /// The path of the database while the import works on it.
    pub fn working(&self) -> &Path {
        if self.into_existing { &self.db } else { &self.staging }
    }
}

fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}
