//! The properties of column families that decide if their records can be copied into a new database.

use std::path::Path;

use rust_rocksdb::{BlockBasedOptions, Cache, ColumnFamilyDescriptor, Options};
use serde::{Deserialize, Serialize};

use super::checks::{check_is_no_leveldb, is_whole_table};
use super::log_format::wal_bytes;
use super::merge_operator::{id_of, is_of_rocksdb, is_readable, reading_options};
use super::options::defaults;
use super::options_file::FamilyOptions;
use super::reader::REVERSE_BYTEWISE;
use super::releases::Release;
use super::store::{DEFAULT_FAMILY, levels_of};
use super::{DataFile, FileTotals, Group, Level, OptionMap, OptionsFile, Reader, ReaderOptions, column_families};
use crate::error::{Error, InputKind, Result};
use crate::source::StatedProblem;

/// The comparator of keys in the order of their bytes.
const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// Comparators of keys with user timestamps have names with this end.
const TIMESTAMPS: &str = ".u64ts";

/// The prefix extractors of RocksDB, whose names say everything.
const PREFIX_EXTRACTORS: [&str; 3] = ["rocksdb.FixedPrefix", "rocksdb.CappedPrefix", "rocksdb.Noop"];

/// Options whose database has no last of several levels, and others.
const UNKEPT: [(&str, &str, &str); 2] = [
    ("num_levels", "1", "num_levels=7"),
    ("compaction_style", "kCompactionStyleFIFO", "compaction_style=kCompactionStyleLevel"),
];

pub(crate) const OPEN_ONCE: &str =
    "open it once with its program, and close it; if that fails, restore it from a backup: a copy would lack records";

const LEAVE_OUT: &str = "leave the column family out with --skip-column-family";

/// A column family of an existing database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FamilyFacts {
    /// The name of the column family.
    pub name: String,
    /// The name of the comparator, which orders the keys.
    pub comparator: String,
    /// The merge operator in the OPTIONS file; `null` if there is none.
    pub merge_operator: Option<String>,
    /// The prefix extractor in the OPTIONS file; `null` if there is none.
    pub prefix_extractor: Option<String>,
    /// The compaction filter or its factory in the OPTIONS file; `null` if there is none.
    pub compaction_filter: Option<String>,
    /// The format of the SST files in the OPTIONS file.
    pub table_format: String,
    /// Levels that have files.
    pub levels: Vec<Level>,
    /// Number of entries in SST files: records, overwritten versions, deletions and merge operands.
    pub entries: u64,
    /// Deletions among the entries, those of ranges included.
    pub deletions: u64,
    /// Merge operands among the entries.
    pub merge_operands: u64,
    /// Number of entries that are only in the write-ahead log.
    pub unflushed: u64,
    /// Number of blob files.
    pub blob_files: u64,
    /// Size of the blob files, in bytes.
    pub blob_bytes: u64,
    /// Bytes in the blob files that no record refers to.
    pub blob_garbage_bytes: u64,
    /// Size of the indexes of all SST files, in bytes.
    #[serde(skip)]
    pub(crate) index_bytes: u64,
    /// Bytes of all keys and values in SST files, not compressed.
    #[serde(skip)]
    pub(crate) raw_bytes: u64,
    /// The reason and the way out if its database or its place in it forbids a copy.
    #[serde(skip)]
    blocked: Option<(&'static str, &'static str)>,
    /// True if the database has no OPTIONS file.
    #[serde(skip)]
    lacks_options: bool,
    /// The option that a copy cannot keep, with the way out.
    #[serde(skip)]
    unkept: Option<(&'static str, String)>,
    /// The oldest RocksDB that is known to read files with the options of the OPTIONS file.
    pub oldest_rocksdb: String,
    /// The reason why the records cannot be copied; `null` if they can.
    pub refused: Option<String>,
    /// The way out if the records cannot be copied.
    pub hint: Option<String>,
    /// Properties that a copy does not have, and their consequences.
    pub notes: Vec<String>,
}

/// Returns the option that a copy cannot keep, and the way out.
pub(crate) fn find_unkept(options: &OptionMap) -> Option<(&'static str, String)> {
    let (name, _, instead) = UNKEPT.iter().find(|(name, value, _)| options.get(Group::Cf, name) == Some(value))?;
    Some((name, format!("pass --set node.cf.{instead}, or a --preset")))
}

/// Reads the facts of all column families. Those with a foreign comparator or table format, which RocksDB cannot open, have no
/// counts.
pub(crate) fn family_facts(path: &Path) -> Result<Vec<FamilyFacts>> {
    let mut all = declared_facts(path)?;
    let openable: Vec<&FamilyFacts> = all.iter().filter(|family| family.refused.is_none()).collect();
    // RocksDB opens no database without it.
    if openable.iter().any(|family| family.name == DEFAULT_FAMILY) {
        let reader = open_to_copy(path, &ReaderOptions::once(), &openable)?;
        let files = reader.files()?;
        // RocksDB lists only the files of the column families that are open.
        if openable.len() == all.len() {
            check_newest(path, &files)?;
        }
        let mut opened = all.iter_mut().filter(|family| family.refused.is_none());
        opened.try_for_each(|family| family.count(&reader, &files))?;
    }
    Ok(all)
}

/// Checks that the MANIFEST names the newest SST file. Otherwise it was cut, or the program died before it noted the file.
pub(crate) fn check_newest(dir: &Path, files: &[DataFile]) -> Result<()> {
    let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    // Files of a flushed WAL are not in the database.
    let is_there = |file: &&DataFile| file.path.file_name().is_some_and(|name| dir.join(name).exists());
    let known = files.iter().filter(is_there).filter_map(DataFile::number).max();
    let paths = dir.read_dir().map_err(Error::io("list", dir))?.flatten().map(|entry| entry.path());
    let tables = paths.filter(|path| path.extension().is_some_and(|end| end == "sst") && is_whole_table(path));
    match tables.filter_map(|path| Some((number(&path)?, path))).max() {
        Some((newest, path)) if Some(newest) > known => {
            let reason = format!("the MANIFEST does not name {}, which is newer than all others", path.display());
            Err(Error::bad_input(dir, None, StatedProblem::new(InputKind::Damaged, reason, OPEN_ONCE)))
        }
        _ => Ok(()),
    }
}

/// Opens column families to read all of their records: filters are not read, and indexes are in the cache. RocksDB also
/// requires `default`, which is not listed unless it is one of them.
pub(crate) fn open_to_copy(path: &Path, options: &ReaderOptions, families: &[&FamilyFacts]) -> Result<Reader> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(options.cache));
    table.set_cache_index_and_filter_blocks(true);
    let is_wanted = |name: &str| families.iter().any(|family| family.name == name);
    let mut wanted = Vec::new();
    for facts in declared_facts(path)? {
        if is_wanted(&facts.name) || facts.name == DEFAULT_FAMILY {
            let mut own = facts.reading(path)?;
            own.set_block_based_table_factory(&table);
            wanted.push(ColumnFamilyDescriptor::new(&facts.name, own));
        }
    }
    let (mut reader, _) = Reader::open_with(path, options, |_, _| wanted)?;
    reader.families.retain(|name| is_wanted(name));
    Ok(reader)
}

/// Returns the facts of all column families without opening the database: those of the OPTIONS file.
pub(crate) fn declared_facts(path: &Path) -> Result<Vec<FamilyFacts>> {
    check_is_no_leveldb(path)?;
    // RocksDB writes the file when it opens a database, but does not need it. A failure to write it is no error.
    let file = OptionsFile::of_database(path)?.unwrap_or_default();
    let lacks_options = file.families.is_empty();
    let is_on = |name: &str| file.db.iter().any(|line| line.name == name && line.value == "true");
    let may_have_prepared = is_on("allow_2pc") && wal_bytes(path) > 0;
    let reopen = "open the database once with its program, flush it, and close it";
    let facts = |name: String| {
        let declared = file.families.iter().find(|family| family.name == name);
        let is_bad = name.is_empty() || name.contains(['\0', char::REPLACEMENT_CHARACTER]);
        let blocked = match declared {
            _ if is_bad => Some(("its name is empty or not UTF-8", LEAVE_OUT)),
            None if !lacks_options => Some(("the newest OPTIONS file does not name it", reopen)),
            _ if may_have_prepared => Some(("the WAL of its database may have prepared transactions", reopen)),
            _ => None,
        };
        let mut facts = declared.map_or_else(|| FamilyFacts::new(name), |family| FamilyFacts::declared(&file, family));
        (facts.blocked, facts.lacks_options) = (blocked, lacks_options);
        facts.judge();
        facts
    };
    Ok(column_families(path)?.into_iter().map(facts).collect())
}

impl FamilyFacts {
    /// The facts of a column family without options.
    pub(crate) fn new(name: String) -> Self {
        Self { name, comparator: BYTEWISE.into(), ..Self::default() }
    }

    /// The facts that the OPTIONS file has.
    fn declared(file: &OptionsFile, family: &FamilyOptions) -> Self {
        let options = file.options(family);
        let object =
            |name| options.get(Group::Cf, name).filter(|value| !["nullptr", ""].contains(value)).map(str::to_owned);
        Self {
            name: family.name.clone(),
            comparator: object("comparator").map_or_else(|| BYTEWISE.into(), |text| id_of(&text)),
            merge_operator: object("merge_operator"),
            prefix_extractor: object("prefix_extractor").map(|text| id_of(&text)),
            compaction_filter: object("compaction_filter")
                .or_else(|| object("compaction_filter_factory"))
                .map(|text| id_of(&text)),
            table_format: family.table_format.clone().unwrap_or_else(|| "BlockBasedTable".into()),
            unkept: find_unkept(&options),
            oldest_rocksdb: Release::of_writer(file)
                .into_iter()
                .fold(Release::reading(&options, defaults()), Release::min)
                .to_string(),
            ..Self::default()
        }
    }

    /// True if its keys ascend in reverse order.
    pub(crate) fn is_reversed(&self) -> bool {
        self.comparator == REVERSE_BYTEWISE
    }

    /// The options that belong to its keys and values: a node that takes the options of the copy needs them.
    pub(crate) fn data_options(&self) -> Vec<String> {
        let merge = self.merge_operator.as_ref().filter(|operator| is_readable(operator));
        let is_known = |name: &&String| PREFIX_EXTRACTORS.iter().any(|known| name.starts_with(known));
        let prefix = self.prefix_extractor.as_ref().filter(is_known);
        let merge = merge.map(|operator| format!("node.cf.merge_operator={operator}"));
        merge.into_iter().chain(prefix.map(|name| format!("node.cf.prefix_extractor={name}"))).collect()
    }

    /// The options that reading its records needs. `path` is named in errors.
    pub(super) fn reading(&self, path: &Path) -> Result<Options> {
        reading_options(path, Some(&self.comparator), self.merge_operator.as_deref())
    }

    /// Adds the levels, and the counts of tables, memtables and blob files. `files` are those of all families.
    pub(crate) fn count(&mut self, reader: &Reader, files: &[DataFile]) -> Result<()> {
        self.levels =
            levels_of(files.iter().filter(|file| file.family == self.name).map(|file| (file.level, file.size)));
        self.unflushed = reader.unflushed(&self.name)?;
        let totals = reader.checked_totals(&self.name)?;
        let FileTotals { entries, deletions, merge_operands, .. } = totals;
        (self.index_bytes, self.raw_bytes) = (totals.index_bytes, totals.raw_bytes);
        (self.entries, self.deletions, self.merge_operands) = (entries, deletions, merge_operands);
        (self.blob_files, self.blob_bytes, self.blob_garbage_bytes) = reader.blobs(&self.name)?;
        self.judge();
        Ok(())
    }

    fn judge(&mut self) {
        (self.refused, self.hint) = self.refusal().unzip();
        self.notes = self.losses();
    }

    /// Returns the reason why the records cannot be copied, and the way out.
    fn refusal(&self) -> Option<(String, String)> {
        let refuse = |reason: String, hint: &str| Some((reason, hint.to_owned()));
        let Self { comparator, table_format, .. } = self;
        if let Some((reason, hint)) = self.blocked {
            return refuse(reason.into(), hint);
        }
        if comparator.ends_with(TIMESTAMPS) {
            return refuse(format!("its keys have user timestamps (`{comparator}`)"), LEAVE_OUT);
        }
        if ![BYTEWISE, REVERSE_BYTEWISE].contains(&comparator.as_str()) {
            let reason = format!("its program orders the keys by a comparator of its own, `{comparator}`");
            return refuse(reason, LEAVE_OUT);
        }
        if !table_format.is_empty() && table_format != "BlockBasedTable" {
            return refuse(format!("its files have the format {table_format}"), LEAVE_OUT);
        }
        if self.merge_operands == 0 {
            return None;
        }
        let compact =
            "compact it with the program that wrote it (CompactRange), or leave it out with --skip-column-family";
        let Some(operator) = &self.merge_operator else {
            return refuse("it has pending merge operands, and its OPTIONS file names no operator".into(), compact);
        };
        let name = id_of(operator);
        if !is_of_rocksdb(operator) {
            return refuse(format!("it has pending merge operands of an operator of its program, `{name}`"), compact);
        }
        if !is_readable(operator) {
            return refuse(
                format!("it has pending merge operands of {name}, and its delimiter cannot be read"),
                compact,
            );
        }
        None
    }

    /// Describes the properties that a copy does not have.
    fn losses(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lacks_options {
            notes.push("the database has no OPTIONS file: the copy gets the options of a preset".into());
        }
        notes.extend(self.unkept.iter().map(|(name, way_out)| format!("a copy cannot keep its `{name}`: {way_out}")));
        if let Some(name) = &self.merge_operator
            && !is_of_rocksdb(name)
        {
            notes.push(format!(
                "the merge operator `{}` is of its program, which sets it when it opens the copy",
                id_of(name)
            ));
        }
        if let Some(name) = &self.prefix_extractor
            && !PREFIX_EXTRACTORS.iter().any(|known| name.starts_with(known))
        {
            notes.push(format!(
                "the prefix extractor `{name}` is of its program: files of the copy have no prefix filter until the node compacts them"
            ));
        }
        if let Some(name) = &self.compaction_filter {
            notes.push(format!("the compaction filter `{name}` does not run: records that it would drop are copied"));
        }
        if self.blob_files > 0 {
            notes.push(
                "values in blob files are stored in SST files; a later compaction may move them to blob files again"
                    .into(),
            );
        }
        notes
    }
}
