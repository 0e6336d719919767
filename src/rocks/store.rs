//! A database that is open for writing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rust_rocksdb::properties::{self, PropName};
use rust_rocksdb::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, Env, FlushOptions, Options,
    WriteOptions,
};

use super::options::{self, Refusal};
use super::{
    CompactionSettings, Group, IngestSettings, Meter, OptionMap, OptionsFile, WriteSettings, Writer, file_totals,
    log_format, open_db, wrap,
};
use crate::error::{Error, Result};
use crate::os::files::{open_regular, read_at_most};
use crate::progress::{Backlog, Writes};

pub(super) const DEFAULT_FAMILY: &str = "default";

/// The fewest files that RocksDB keeps open.
pub(crate) const LEAST_OPEN_FILES: i32 = 20;

/// Bytes of RocksDB's log that are searched for the reason of a failure.
const LOG_TAIL: u64 = 64 << 10;

pub(crate) struct Store {
    db: DB,
    path: PathBuf,
    family: String,
}

/// A level of a column family.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// The number of the level. Memtables are flushed to level 0.
    pub level: i32,
    /// Number of SST files.
    pub files: u64,
    /// Size of the SST files, in bytes.
    pub bytes: u64,
}

impl Store {
    /// Creates a database with column families, each with its own options. The first one gives the options of the
    /// database. A `meter` counts the background work.
    pub fn create(path: &Path, families: &[(&str, &OptionMap)], meter: Option<&Meter>) -> Result<Self> {
        log_format::check(path)?;
        Self::connect(None, path, families, [true; 2], meter)
    }

    /// Opens a database of [`Store::create`] with the options that it keeps.
    pub fn reopen(path: &Path, families: &[(&str, &OptionMap)], meter: Option<&Meter>) -> Result<Self> {
        log_format::check(path)?;
        Self::connect(None, path, families, [false; 2], meter)
    }

    /// Opens a finished database with the options of its node, but for those while importing, and calls `inspect`. Then its OPTIONS file
    /// gets all options of the node.
    pub fn inspect_for_node<T>(
        path: &Path,
        families: &[(&str, &OptionMap)],
        inspect: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let own = options_while_importing();
        let maps: Vec<_> = families.iter().map(|(name, map)| (*name, map.overlaid(&own))).collect();
        let maps: Vec<_> = maps.iter().map(|(name, map)| (*name, map)).collect();
        let found = inspect(&Self::reopen(path, &maps, None)?)?;
        let node = families.first().map_or_else(OptionMap::default, |(_, map)| options::defaults().overlaid(map));
        let of_node = own.iter().map(|(group, name, _)| (name, node.get(group, name).unwrap_or_default()));
        OptionsFile::set_in_database(path, of_node)?;
        Ok(found)
    }

    /// Opens a database with the options of each column family, in an environment or in the file system. The options of the
    /// first one are those of the database. `create` is true for the database and for column families that are created if
    /// missing. A `meter` keeps the options.
    pub(super) fn connect(
        env: Option<&Env>,
        path: &Path,
        families: &[(&str, &OptionMap)],
        create: [bool; 2],
        meter: Option<&Meter>,
    ) -> Result<Self> {
        let defaults = OptionMap::default();
        let (family, map) = families.first().copied().unwrap_or((DEFAULT_FAMILY, &defaults));
        options::check_threads(map)?;
        let mut options = build(path, map)?;
        env.into_iter().for_each(|env| options.set_env(env));
        options.create_if_missing(create[0]);
        options.create_missing_column_families(create[1]);
        if meter.is_some() {
            options.enable_statistics();
        }
        let descriptor = |(name, map): &(&str, &OptionMap)| {
            // A bundle names its column families. rust-rocksdb would panic, on a thread whose panic aborts.
            if name.contains('\0') {
                let message = "the name of a column family contains a NUL byte";
                return Err(Error::of_rocks("open", path, message.into()));
            }
            Ok(ColumnFamilyDescriptor::new(*name, build(path, map)?))
        };
        let descriptors = families.iter().map(descriptor).collect::<Result<Vec<_>>>()?;
        let db = open_db(path, || DB::open_cf_descriptors(&options, path, descriptors))?;
        meter.into_iter().for_each(|meter| meter.keep(options.clone()));
        Ok(Self { db, path: path.to_owned(), family: family.to_owned() })
    }

    /// Moves the database past sequence number 0, where ingesting files leaves it. RocksDB before its change 13155
    /// drops every ingested key if it compacts during a snapshot of number 0.
    ///
    /// It deletes a missing key of `default`. A compaction removes the file of the deletion. The key sorts before all
    /// others, so the compaction touches no other file.
    pub fn leave_sequence_zero(&self) -> Result<()> {
        if self.db.latest_sequence_number() > 0 {
            return Ok(());
        }
        let mut key = Vec::new();
        while self.db.get_pinned(&key).map_err(wrap("read from", &self.path))?.is_some() {
            key.push(0);
        }
        // Without the WAL, for which RocksDB would allocate as much as for a memtable. The flush makes the deletion
        // durable.
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        self.db.delete_opt(&key, &unlogged).map_err(wrap("write to", &self.path))?;
        self.flush(DEFAULT_FAMILY)?;
        let mut forced = CompactOptions::default();
        forced.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db.compact_range_opt(Some(&key), Some(&key), &forced);
        // RocksDB's C interface does not report failures of compactions. After a failure the next write fails with the
        // reason.
        let files = self.db.live_files().map_err(wrap("list the files of", &self.path))?;
        if files.iter().any(|file| file.column_family_name == DEFAULT_FAMILY && file.start_key.as_ref() == Some(&key)) {
            self.db.delete_opt(&key, &unlogged).map_err(wrap("compact", &self.path))?;
            let message = "a deletion is left, and no reason is known".into();
            return Err(Error::Rocks { action: "compact", path: self.path.clone(), message });
        }
        Ok(())
    }

    /// Opens an existing database with its own options, and creates `family` with those of `map` if it is missing.
    /// Moves the database past sequence number 0.
    pub fn open(path: &Path, map: &OptionMap, family: &str, meter: Option<&Meter>) -> Result<Self> {
        log_format::check(path)?;
        let file = OptionsFile::latest(path)?;
        let stored = |name: &str| file.family(name).map(|found| file.options(found));
        let mut names = DB::list_cf(&Options::default(), path).map_err(wrap("list the column families of", path))?;
        if !names.iter().any(|name| name == family) {
            names.push(family.to_owned());
        }
        // The options of a stored column family have those of the database.
        names.sort_by_key(|name| (name != family || stored(name).is_none(), name != DEFAULT_FAMILY));
        let own = |name: &String| stored(name).unwrap_or_else(|| map.clone());
        let maps: Vec<_> = names.iter().map(own).collect();
        let families: Vec<_> = names.iter().map(String::as_str).zip(&maps).collect();
        let store = Self { family: family.to_owned(), ..Self::connect(None, path, &families, [false, true], meter)? };
        store.leave_sequence_zero()?;
        Ok(store)
    }

    pub(super) fn get(&self, family: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.db.get_cf(self.named(family)?, key).map_err(wrap("read from", &self.path))
    }

    pub fn writer(&self, family: &str, settings: &WriteSettings) -> Result<Writer<'_>> {
        Ok(Writer::new(&self.db, &self.path, self.named(family)?, settings))
    }

    /// The work that waits for flushes and compactions.
    pub fn backlog(&self) -> Result<Backlog> {
        let number = |name: &PropName| super::number(&self.db, self.named(&self.family)?, name, &self.path);
        Ok(Backlog {
            level0_files: number(&properties::num_files_at_level(0))?,
            pending_bytes: number(properties::ESTIMATE_PENDING_COMPACTION_BYTES)?,
            writes: match (number(properties::IS_WRITE_STOPPED)?, number(properties::ACTUAL_DELAYED_WRITE_RATE)?) {
                (0, 0) => Writes::Flow,
                (0, _) => Writes::Delayed,
                _ => Writes::Stopped,
            },
        })
    }

    /// Bytes in all memtables of a column family, including those that are being flushed.
    pub fn memtables_of(&self, family: &str) -> Result<u64> {
        super::number(&self.db, self.named(family)?, properties::CUR_SIZE_ALL_MEM_TABLES, &self.path)
    }

    /// Ends a running [`Store::compact`], without its result.
    pub fn cancel_compaction(&self) {
        self.db.disable_manual_compaction();
    }

    fn named(&self, family: &str) -> Result<&ColumnFamily> {
        let (action, path) = ("find the column family in", &self.path);
        let missing = || Error::Rocks { action, path: path.clone(), message: family.to_owned() };
        self.db.cf_handle(family).ok_or_else(missing)
    }

    pub fn ingest(&self, family: &str, files: Vec<PathBuf>, settings: &IngestSettings) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let options = options::ingest_options(settings);
        self.db
            .ingest_external_file_cf_opts(self.named(family)?, &options, files)
            .map_err(wrap("ingest into", &self.path))
    }

    /// Compacts a whole column family down to its last level.
    pub fn compact(&self, family: &str, settings: &CompactionSettings) -> Result<()> {
        let options = options::compact_options(settings);
        self.db.compact_range_cf_opt(self.named(family)?, None::<&[u8]>, None::<&[u8]>, &options);
        let failed = |message| Error::Rocks { action: "compact", path: self.path.clone(), message };
        let errors = self.db.property_int_value(properties::BACKGROUND_ERRORS).map_err(wrap("inspect", &self.path))?;
        if let Some(errors @ 1..) = errors {
            let log = tail(&self.path.join("LOG")).unwrap_or_default();
            return Err(failed(match last_error(&log) {
                Some(error) => format!("{errors} background errors, the last: {error}"),
                None => format!("{errors} background errors; RocksDB's LOG in it says which"),
            }));
        }
        match self.levels(family)?.iter().find(|level| level.level == 0) {
            Some(level) => {
                Err(failed(format!("{} files are left at level 0; RocksDB's LOG in it says why", level.files)))
            }
            _ => Ok(()),
        }
    }

    /// Writes the memtables of a column family to files.
    pub fn flush(&self, family: &str) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cf_opt(self.named(family)?, &options).map_err(wrap("flush", &self.path))
    }

    /// Records in the files of a column family, including overwritten ones.
    pub fn records(&self, name: &str) -> Result<u64> {
        // From the files' properties: the list of live files knows only those that RocksDB happens to have opened.
        let totals = file_totals(&self.db, self.named(name)?).map_err(wrap("count the records of", &self.path))?;
        Ok(totals.entries)
    }

    /// Files and bytes of each level of a column family that has files.
    pub fn levels(&self, family: &str) -> Result<Vec<Level>> {
        let files = self.db.live_files().map_err(wrap("list the files of", &self.path))?;
        let own = files.iter().filter(|file| file.column_family_name == family);
        Ok(levels_of(own.map(|file| (file.level, file.size as u64))))
    }
}

pub(crate) fn levels_of(files: impl Iterator<Item = (i32, u64)>) -> Vec<Level> {
    let mut levels: BTreeMap<i32, Level> = BTreeMap::new();
    for (level, size) in files {
        let level = levels.entry(level).or_insert(Level { level, files: 0, bytes: 0 });
        level.files += 1;
        level.bytes += size;
    }
    levels.into_values().collect()
}

/// Counts the files that one scan merges: all of level 0, and one of each other level.
pub(crate) fn count_merged_files(levels: &[Level]) -> u64 {
    levels.iter().map(|level| if level.level == 0 { level.files } else { 1 }).sum::<u64>().max(1)
}

/// Options of a database while an import has it open. The fewest files are open, because each has its index and filter in memory. RocksDB
/// adds no column family of statistics, whose records would be counted.
pub(crate) fn options_while_importing() -> OptionMap {
    let files = LEAST_OPEN_FILES.to_string();
    let own = [("max_open_files", &*files), ("table_cache_numshardbits", "0"), ("persist_stats_to_disk", "false")];
    own.into_iter().map(|(name, value)| (Group::Db, name, value)).collect()
}

/// Options for a database at `path`, which errors name.
pub(super) fn build(path: &Path, map: &OptionMap) -> Result<Options> {
    let refused = |Refusal(message)| Error::Rocks { action: "set the options of", path: path.to_owned(), message };
    options::build(map).map_err(refused)
}

/// The options of a column family, from the OPTIONS file; `None` if there is no such family.
pub(crate) fn options_of(path: &Path, family: &str) -> Result<Option<OptionMap>> {
    let file = OptionsFile::latest(path)?;
    Ok(file.family(family).map(|found| file.options(found)))
}

fn tail(path: &Path) -> std::io::Result<String> {
    let file = open_regular(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_TAIL);
    let mut bytes = vec![0; LOG_TAIL as usize];
    let len = read_at_most(&file, &mut bytes, from)?;
    bytes.truncate(len);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// RocksDB's message about the last failure in its log.
fn last_error(log: &str) -> Option<&str> {
    let begins = |line: &str| ["IO error: ", "Corruption: "].iter().filter_map(|words| line.find(words)).min();
    let error = log.lines().rev().find_map(|line| line.get(begins(line)?..))?;
    Some(error.split(", Accumulated").next().unwrap_or(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_failure_in_log_is_found() {
        let log = "2026/11/22 1 [WARN] Background IO error IO error: No space left on device: While appending to file: 1.sst\n\
                   2026/11/22 1 [ERROR] Waiting after background compaction error: IO error: No space left on device: While \
                   appending to file: 2.sst, Accumulated background error counts: 1\n2026/11/22 1 Shutdown complete\n";
        let words = "IO error: No space left on device: While appending to file: 2.sst";
        assert_eq!(last_error(log), Some(words));
        assert_eq!(last_error("2026/11/22 1 Shutdown complete\n"), None);
    }
}
