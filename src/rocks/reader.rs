//! Reading of a database with the options it was written with.
//!
//! A read-only database is not locked, and nothing is written, not even a log. A node may use it at the same time; its
//! later writes are not seen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rust_rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBPinnableSlice, DBRawIterator, Env, LiveFile,
    Options, Range, ReadOptions, properties,
};

use super::checks::{check_is_no_leveldb, check_options, no_database};
use super::merge_operator::{is_foreign, reading_options};
use super::store::LEAST_OPEN_FILES;
use super::{Group, OptionsFile, ReadCounts, file_totals, log_format, open_db, wrap};
use crate::error::{Error, Result, StateKind};

/// The comparator of keys in reverse order.
pub(super) const REVERSE_BYTEWISE: &str = "rocksdb.ReverseBytewiseComparator";

const SCAN_AHEAD: usize = 1 << 20;

/// Most keys of one lookup; RocksDB divides longer lists. It reads all of them before it counts their bytes, so the first
/// lookups are short.
const LOOKUPS: usize = 32;
const FIRST_LOOKUPS: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderOptions {
    pub cache: usize,
    /// SST files that are open at the same time. Each keeps its index and filter in memory.
    pub open_files: i32,
    /// Opens a database with missing or damaged files. Reading them fails.
    pub lenient: bool,
    /// Most lookups ascend, so the system may read ahead.
    pub in_order: bool,
}

impl ReaderOptions {
    pub const fn once() -> Self {
        Self { cache: 8 << 20, open_files: 64, lenient: false, in_order: false }
    }

    /// For scans: RocksDB keeps the files open that a scan reads, whatever the limit is.
    pub const fn scans() -> Self {
        Self { open_files: LEAST_OPEN_FILES, ..Self::once() }
    }
}

pub(crate) struct Reader {
    db: DB,
    pub path: PathBuf,
    pub families: Vec<String>,
    /// Its newest OPTIONS file.
    options_file: OptionsFile,
    /// Bytes that a scan reads ahead in each SST file that it merges.
    pub ahead: usize,
    counted: Option<Options>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An SST file of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataFile {
    pub family: String,
    pub path: PathBuf,
    pub level: i32,
    /// Its size in bytes, according to the MANIFEST.
    pub size: u64,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    /// The counts in its properties, from [`Reader::counted_files`]; otherwise zeros.
    pub counts: FileCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileCounts {
    /// All entries: records, deletions and merge operands.
    pub entries: u64,
    /// Deletions of single keys.
    pub deletions: u64,
    pub range_deletions: u64,
    pub merge_operands: u64,
    /// Bytes of all keys, each with RocksDB's trailer of 8 bytes.
    pub raw_key_bytes: u64,
    pub raw_value_bytes: u64,
}

impl DataFile {
    pub fn number(&self) -> Option<u64> {
        self.path.file_stem()?.to_str()?.parse().ok()
    }
}

/// The properties of an SST file that limit the size of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableSize {
    pub entries: u64,
    pub blocks: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Bytes of its index in the file, which has a key of each block.
    pub index: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileTotals {
    pub entries: u64,
    /// Deletions among the entries, those of ranges included.
    pub deletions: u64,
    /// At least 1 if there is one, in a file or in the WAL.
    pub merge_operands: u64,
    pub value_bytes: u64,
    /// Bytes of keys and values.
    pub raw_bytes: u64,
    pub filter_bytes: u64,
    pub index_bytes: u64,
    pub tables: Vec<TableSize>,
}

/// A value, which pins its block.
type Value<'a> = DBPinnableSlice<'a>;

impl Reader {
    /// Opens the database at `path` with its stored options, or with RocksDB's defaults.
    pub fn open(path: &Path, options: &ReaderOptions) -> Result<Self> {
        Ok(Self::open_with(path, options, |_, families| families)?.0)
    }

    /// Opens the database as [`Reader::open`] does, after `adjust` has changed its options and column families. Also
    /// returns the options it was opened with.
    pub(super) fn open_with(
        path: &Path,
        options: &ReaderOptions,
        adjust: impl FnOnce(&mut Options, Vec<ColumnFamilyDescriptor>) -> Vec<ColumnFamilyDescriptor> + Send,
    ) -> Result<(Self, Options)> {
        if !path.join("CURRENT").exists() {
            return Err(no_database(path));
        }
        Self::open_as(path, options.cache, |db_options, families| {
            db_options.set_max_open_files(options.open_files);
            // With the default of 64 shards, each of which keeps a file open, the limit would be 64 at least.
            db_options.set_table_cache_num_shard_bits(0);
            // A mapped file that is cut meanwhile would end the process by a signal.
            db_options.set_allow_mmap_reads(false);
            db_options.set_paranoid_checks(!options.lenient);
            db_options.set_advise_random_on_open(!options.in_order);
            adjust(db_options, families)
        })
    }

    /// Opens the database at `path` read-only as a node would: with all its own options, also the number of open files,
    /// and a block cache of `cache` bytes, which no OPTIONS file has. What is read is counted.
    pub fn open_as_node(path: &Path, cache: usize) -> Result<Self> {
        let (reader, options) = Self::open_as(path, cache, |options, families| {
            ReadCounts::attach(options);
            families
        })?;
        Ok(Self { counted: Some(options), ..reader })
    }

    /// Opens the database read-only with its own options and column families, after `adjust` has changed them. Returns the
    /// options too.
    fn open_as(
        path: &Path,
        cache: usize,
        adjust: impl FnOnce(&mut Options, Vec<ColumnFamilyDescriptor>) -> Vec<ColumnFamilyDescriptor> + Send,
    ) -> Result<(Self, Options)> {
        let (mut options, families, options_file) = load(path, cache)?;
        // It would drop records without an error.
        options.set_best_efforts_recovery(false);
        // RocksDB crashes if there are too many.
        options.set_table_cache_num_shard_bits(6);
        let families = adjust(&mut options, families);
        let names = families.iter().map(|family| family.name().to_owned()).collect();
        let db = open_db(path, || DB::open_cf_descriptors_read_only(&options, path, families, false))?;
        Ok((
            Self { db, path: path.to_owned(), families: names, options_file, ahead: SCAN_AHEAD, counted: None },
            options,
        ))
    }

    /// True if the keys of a column family ascend in reverse order.
    pub fn is_reversed(&self, family: &str) -> bool {
        self.stored_option(family, "comparator") == Some(REVERSE_BYTEWISE)
    }

    pub(super) fn stored_option(&self, family: &str, name: &str) -> Option<&str> {
        let family = self.options_file.family(family)?;
        family.cf.iter().chain(&family.table).find(|line| line.name == name).map(|line| line.value.as_str())
    }

    /// Reads of lookups so far; `None` if they are not counted.
    pub fn counts(&self) -> Option<ReadCounts> {
        self.counted.as_ref().map(ReadCounts::of)
    }

    /// Looks up a key and returns the size of its value.
    pub fn size_of(&self, family: &str, key: &[u8]) -> Result<Option<usize>> {
        let found = self.db.get_pinned_cf(self.family(family)?, key).map_err(wrap("read from", &self.path))?;
        Ok(found.map(|value| value.len()))
    }

    /// True if a key exists. Its block does not stay in the block cache.
    pub fn has_key(&self, family: &str, key: &[u8]) -> Result<bool> {
        let found = self.db.get_pinned_cf_opt(self.family(family)?, key, &scan_options());
        Ok(found.map_err(wrap("read from", &self.path))?.is_some())
    }

    /// Approximate bytes of the records of a range. Opens the files that begin or end in it.
    pub(super) fn approximate_size(&self, family: &str, range: Range<'_>) -> Result<u64> {
        let sizes = self.db.get_approximate_sizes_cf(self.family(family)?, &[range]);
        Ok(sizes.map_err(wrap("inspect", &self.path))?.into_iter().sum())
    }

    /// Reads all files, filters as well as records.
    pub(super) fn verify_checksum(&self) -> Result<()> {
        self.db.verify_checksum_opt(&scan_options()).map_err(wrap("read from", &self.path))
    }

    /// The sequence number of the last change; 0 if files were only ingested.
    pub fn last_sequence(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    pub fn files(&self) -> Result<Vec<DataFile>> {
        let files = self.db.live_files().map_err(wrap("list the files of", &self.path))?;
        // RocksDB returns paths as text, which not every path is. Files may be elsewhere (`cf_paths`).
        let own = self.path.to_string_lossy();
        let dir = |text: &str| if text == own { self.path.clone() } else { text.into() };
        let data_file = |file: LiveFile| DataFile {
            family: file.column_family_name,
            path: dir(&file.directory).join(file.name.trim_start_matches('/')),
            level: file.level,
            size: file.size as u64,
            smallest: file.start_key.unwrap_or_default(),
            largest: file.end_key.unwrap_or_default(),
            counts: FileCounts::default(),
        };
        Ok(files.into_iter().map(data_file).collect())
    }

    /// The SST files with their counts. No key may be in two files of a column family.
    pub fn counted_files(&self) -> Result<Vec<DataFile>> {
        let mut files = self.files()?;
        for file in &mut files {
            let found = Arc::new(OnceLock::new());
            let mut options = scan_options();
            options.set_iterate_upper_bound([file.largest.as_slice(), &[0]].concat());
            let first = Arc::clone(&found);
            // The first table that RocksDB filters has the key. The filter skips all tables, so no record is read.
            options.set_table_filter(move |table| {
                first.get_or_init(|| FileCounts {
                    entries: table.num_entries(),
                    deletions: table.num_deletions(),
                    range_deletions: table.num_range_deletions(),
                    merge_operands: table.num_merge_operands(),
                    raw_key_bytes: table.raw_key_size(),
                    raw_value_bytes: table.raw_value_size(),
                });
                false
            });
            let mut iterator = self.db.raw_iterator_cf_opt(self.family(&file.family)?, options);
            iterator.seek(&file.smallest);
            iterator.status().map_err(wrap("read from", &file.path))?;
            file.counts = found.get().copied().unwrap_or_default();
        }
        Ok(files)
    }

    /// Scans the records from `from` (or the first) up to `to` (or the last), without `to`. Checksums are verified, and
    /// no block stays in the block cache.
    pub fn scan(&self, family: &str, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Scan<'_>> {
        let mut options = scan_options();
        options.set_readahead_size(self.ahead);
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        let mut iterator = self.db.raw_iterator_cf_opt(self.family(family)?, options);
        match from {
            Some(from) => iterator.seek(from),
            None => iterator.seek_to_first(),
        }
        Ok(Scan { iterator, path: self.path.clone() })
    }

    /// A scan for random access, without a position.
    pub fn pick(&self, family: &str) -> Result<Scan<'_>> {
        let iterator = self.db.raw_iterator_cf_opt(self.family(family)?, scan_options());
        Ok(Scan { iterator, path: self.path.clone() })
    }

    /// Looks up many keys. The results are in the order of the keys. `sorted` is true if the keys ascend.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        family: &str,
        keys: &[K],
        sorted: bool,
    ) -> Result<Vec<Result<Option<Value<'_>>>>> {
        let found = self.db.batched_multi_get_pinned_cf(self.family(family)?, keys, sorted);
        Ok(found.into_iter().map(|value| value.map_err(|error| wrap("read from", &self.path)(error))).collect())
    }

    /// Looks up ascending keys, and calls `visit` with the index of each key and its value while it returns true. About
    /// `limit` bytes of values are in memory at once.
    pub fn visit_values<K: AsRef<[u8]>>(
        &self,
        family: &str,
        keys: &[K],
        limit: u64,
        mut visit: impl FnMut(usize, Option<Value<'_>>) -> Result<bool>,
    ) -> Result<()> {
        let (family, mut options) = (self.family(family)?, ReadOptions::default());
        options.set_value_size_soft_limit(limit);
        let failed = |error| wrap("read from", &self.path)(error);
        let (mut at, mut count) = (0, FIRST_LOOKUPS);
        while at < keys.len() {
            let (start, end) = (at, keys.len().min(at + count));
            for value in self.db.batched_multi_get_pinned_cf_opt(family, &keys[start..end], true, &options) {
                match value {
                    // The limit is reached.
                    Err(error) if error.kind() == rust_rocksdb::ErrorKind::Aborted => break,
                    Err(error) => return Err(failed(error)),
                    Ok(value) => {
                        if !visit(at, value)? {
                            return Ok(());
                        }
                        at += 1;
                    }
                }
            }
            count = if at == end { LOOKUPS.min(2 * count) } else { (at - start).max(1) };
            // One value exceeds the limit.
            if at == start {
                if !visit(at, self.db.get_pinned_cf(family, &keys[at]).map_err(failed)?)? {
                    return Ok(());
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// Totals of all files of a column family, from their properties; 0 if a file cannot be opened.
    pub fn totals(&self, family: &str) -> Result<FileTotals> {
        Ok(file_totals(&self.db, self.family(family)?).unwrap_or_default())
    }

    /// As [`Reader::totals`], but a file that cannot be opened is an error.
    pub fn checked_totals(&self, family: &str) -> Result<FileTotals> {
        file_totals(&self.db, self.family(family)?).map_err(wrap("read from", &self.path))
    }

    /// The number of blob files of a column family, their bytes, and those that no record refers to.
    pub fn blobs(&self, family: &str) -> Result<(u64, u64, u64)> {
        let number = |name: &str| super::number(&self.db, self.family(family)?, name, &self.path);
        let live = number("rocksdb.live-blob-file-size")?;
        Ok((number("rocksdb.num-blob-files")?, live, number("rocksdb.live-blob-file-garbage-size")?))
    }

    /// Entries of all files and memtables of a column family, overwritten ones and deletions included.
    pub fn entries(&self, family: &str) -> Result<u64> {
        Ok(self.totals(family)?.entries + self.unflushed(family)?)
    }

    /// Entries of the memtables of a column family, read from the WAL.
    pub fn unflushed(&self, family: &str) -> Result<u64> {
        let entries = |name| super::number(&self.db, self.family(family)?, name, &self.path);
        Ok(entries(properties::NUM_ENTRIES_ACTIVE_MEM_TABLE)? + entries(properties::NUM_ENTRIES_IMM_MEM_TABLES)?)
    }

    fn family(&self, name: &str) -> Result<&ColumnFamily> {
        self.db.cf_handle(name).ok_or_else(|| {
            let hint = format!("--column-family takes one of: {}", self.families.join(", "));
            Error::state(&self.path, StateKind::Mismatch, format!("has no column family `{name}`"), hint)
        })
    }
}

/// Loads the stored options of a database, with a block cache of `cache` bytes. Returns the OPTIONS file too.
fn load(path: &Path, cache: usize) -> Result<(Options, Vec<ColumnFamilyDescriptor>, OptionsFile)> {
    log_format::check(path)?;
    check_is_no_leveldb(path)?;
    let file = check_options(path)?;
    let env = Env::new().map_err(wrap("open", path))?;
    let cache = Cache::new_lru_cache(cache);
    match Options::load_latest(path, env, true, cache.clone()) {
        Ok((options, families)) => {
            let readable = |family: ColumnFamilyDescriptor| {
                if !is_foreign(&file, family.name()) {
                    return Ok(family);
                }
                let of = file.family(family.name()).map(|family| file.options(family)).unwrap_or_default();
                // A foreign comparator is refused later.
                let comparator = of.get(Group::Cf, "comparator").filter(|name| *name == REVERSE_BYTEWISE);
                let (mut own, mut table) = (reading_options(path, comparator, None)?, BlockBasedOptions::default());
                table.set_block_cache(&cache);
                own.set_block_based_table_factory(&table);
                Ok(ColumnFamilyDescriptor::new(family.name(), own))
            };
            Ok((options, families.into_iter().map(readable).collect::<Result<_>>()?, file))
        }
        Err(error) if error.kind() == rust_rocksdb::ErrorKind::NotFound => {
            let describe = |name: &String| ColumnFamilyDescriptor::new(name, Options::default());
            Ok((Options::default(), column_families(path)?.iter().map(describe).collect(), file))
        }
        Err(error) => Err(wrap("read the options of", path)(error)),
    }
}

/// The names of the column families that the MANIFEST has.
pub(crate) fn column_families(path: &Path) -> Result<Vec<String>> {
    log_format::check(path)?;
    DB::list_cf(&Options::default(), path).map_err(wrap("list the column families of", path))
}

fn scan_options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options.set_total_order_seek(true);
    options
}

pub(crate) struct Scan<'a> {
    iterator: DBRawIterator<'a>,
    path: PathBuf,
}

impl Scan<'_> {
    /// The current record; `None` at the end, and at an unreadable block, which [`Scan::status`] reports.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        self.iterator.item()
    }

    pub fn next(&mut self) {
        self.iterator.next();
    }

    /// Goes to the first record at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.iterator.seek(key);
    }

    pub fn seek_to_last(&mut self) {
        self.iterator.seek_to_last();
    }

    /// Checks that all blocks so far could be read.
    pub fn status(&self) -> Result<()> {
        self.iterator.status().map_err(wrap("read from", &self.path))
    }
}
