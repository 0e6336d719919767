//! A database as a whole: make, open, take over files, compact, look at.

use std::path::{Path, PathBuf};

use rust_rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, FlushOptions, Options};

use super::option_map::OptionMap;
use super::options::{self, Refusal};
use super::options_file::OptionsFile;
use super::settings::{CompactionSettings, IngestSettings};
use super::wrap;
use crate::error::{Error, Result};

/// RocksDB's name for the column family that every database has.
const DEFAULT_FAMILY: &str = "default";

/// An open database, and the column family in it that is worked on.
pub(crate) struct Store {
    db: DB,
    path: PathBuf,
    family: String,
}

/// One level of the tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// Number of the level; 0 is where memtables are flushed to.
    pub level: i32,
    /// SST files in it.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Store {
    /// Makes a database with the options of `map`, and `family` in it.
    ///
    /// # Errors
    /// RocksDB refuses the options or the directory.
    pub fn create(path: &Path, map: &OptionMap, family: &str) -> Result<Self> {
        Self::with_options(path, map, family, true)
    }

    /// Opens a database that [`Store::create`] has made, with the options it is to keep.
    ///
    /// # Errors
    /// RocksDB refuses the options.
    pub fn reopen(path: &Path, map: &OptionMap, family: &str) -> Result<Self> {
        Self::with_options(path, map, family, false)
    }

    fn with_options(path: &Path, map: &OptionMap, family: &str, create: bool) -> Result<Self> {
        let mut options = build(path, map)?;
        if create {
            options.create_if_missing(true);
            options.create_missing_column_families(true);
        }
        let mut families = vec![DEFAULT_FAMILY];
        if family != DEFAULT_FAMILY {
            families.push(family);
        }
        let descriptors = families
            .into_iter()
            .map(|name| Ok(ColumnFamilyDescriptor::new(name, build(path, map)?)))
            .collect::<Result<Vec<_>>>()?;
        let db = DB::open_cf_descriptors(&options, path, descriptors).map_err(wrap("open", path))?;
        Ok(Self { db, path: path.to_owned(), family: family.to_owned() })
    }

    /// Opens a database that is there, each column family with the options it has; `family` is made with those of
    /// `map` where it is missing.
    ///
    /// # Errors
    /// It is no database, another process has it open, or its options name something this RocksDB does not know.
    pub fn open(path: &Path, map: &OptionMap, family: &str) -> Result<Self> {
        let file = OptionsFile::latest(path)?;
        let mut own = map.clone();
        if let Some(found) = file.family(family).or_else(|| file.family(DEFAULT_FAMILY)) {
            own = file.options(found);
        }
        let mut options = build(path, &own)?;
        options.create_if_missing(false);
        options.create_missing_column_families(true);
        let mut names = DB::list_cf(&options, path).map_err(wrap("list the column families of", path))?;
        if !names.iter().any(|name| name == family) {
            names.push(family.to_owned());
        }
        let descriptors = names
            .into_iter()
            .map(|name| {
                let map = file.family(&name).map_or_else(|| map.clone(), |found| file.options(found));
                Ok(ColumnFamilyDescriptor::new(name, build(path, &map)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let db = DB::open_cf_descriptors(&options, path, descriptors).map_err(wrap("open", path))?;
        Ok(Self { db, path: path.to_owned(), family: family.to_owned() })
    }

    fn family(&self) -> Result<&ColumnFamily> {
        self.db.cf_handle(&self.family).ok_or_else(|| Error::Rocks {
            action: "find the column family in",
            path: self.path.clone(),
            message: self.family.clone(),
        })
    }

    /// Takes over finished files.
    ///
    /// # Errors
    /// RocksDB refuses them, e.g. because they overlap what is there and `settings` do not allow that.
    pub fn ingest(&self, files: Vec<PathBuf>, settings: &IngestSettings) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let options = options::ingest_options(settings);
        self.db.ingest_external_file_cf_opts(self.family()?, &options, files).map_err(wrap("ingest into", &self.path))
    }

    /// Compacts the whole column family down to its last level.
    ///
    /// # Errors
    /// RocksDB fails, e.g. because the disk is full. Its C interface does not say that it did, so what is left above
    /// the last level tells.
    pub fn compact(&self, settings: &CompactionSettings) -> Result<()> {
        let options = options::compact_options(settings);
        self.db.compact_range_cf_opt(self.family()?, None::<&[u8]>, None::<&[u8]>, &options);
        let levels = self.levels()?;
        match levels.iter().find(|level| level.level == 0) {
            Some(level) => Err(Error::Rocks {
                action: "compact",
                path: self.path.clone(),
                message: format!("{} files are left at level 0; RocksDB's LOG in it says why", level.files),
            }),
            _ => Ok(()),
        }
    }

    /// Writes what is in memtables to files.
    ///
    /// # Errors
    /// RocksDB fails, e.g. because the disk is full.
    pub fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cf_opt(self.family()?, &options).map_err(wrap("flush", &self.path))
    }

    /// Records in the files of the column family, overwritten ones included.
    ///
    /// # Errors
    /// RocksDB does not tell.
    pub fn records(&self) -> Result<u64> {
        let files = self.db.live_files().map_err(wrap("list the files of", &self.path))?;
        Ok(files.iter().filter(|file| file.column_family_name == self.family).map(|file| file.num_entries).sum())
    }

    /// Files and bytes of each level of the column family that has any.
    ///
    /// # Errors
    /// RocksDB does not tell.
    pub fn levels(&self) -> Result<Vec<Level>> {
        let mut levels: Vec<Level> = Vec::new();
        for file in self.db.live_files().map_err(wrap("list the files of", &self.path))? {
            if file.column_family_name != self.family {
                continue;
            }
            match levels.iter_mut().find(|level| level.level == file.level) {
                Some(level) => {
                    level.files += 1;
                    level.bytes += file.size as u64;
                }
                None => levels.push(Level { level: file.level, files: 1, bytes: file.size as u64 }),
            }
        }
        levels.sort_by_key(|level| level.level);
        Ok(levels)
    }
}

/// Options for a database at `path`; a refusal names it.
pub(super) fn build(path: &Path, map: &OptionMap) -> Result<Options> {
    options::build(map).map_err(|Refusal(message)| Error::Rocks {
        action: "set the options of",
        path: path.to_owned(),
        message,
    })
}

/// The options that a database's column family has, from its OPTIONS file; `None` where it has no such family.
///
/// # Errors
/// There is no OPTIONS file, or it cannot be read.
pub(crate) fn options_of(path: &Path, family: &str) -> Result<Option<OptionMap>> {
    let file = OptionsFile::latest(path)?;
    Ok(file.family(family).map(|found| file.options(found)))
}
