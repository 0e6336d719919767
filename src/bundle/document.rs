//! `bundle.json`: the description of a bundle.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::problem::BundleProblem;
use crate::hash::Function;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::preset::Loader;
use crate::read::{read_multihash, whole_cid};
use crate::report::{ImportReport, LogReport, SCHEMA as RECORD_SCHEMA};
use crate::rocks::releases::Release;
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};
use crate::sort::key::KeyLayout;

pub(super) const SCHEMA: &str = "bedload-bundle-1";
pub(super) const PART_SCHEMA: &str = "bedload-part-1";

/// Longest description, in bytes: some hundred thousand files.
pub(super) const MAX_BYTES: u64 = 64 << 20;

const MAX_FILE: u64 = 1 << 44;
const MAX_KEY: usize = 64 << 10;
const MAX_FAMILY: usize = 255;
const DIGITS: usize = 64;

/// The description of a bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Name and version of this document.
    pub schema: String,
    /// Oldest RocksDB release that is known to read the files.
    pub oldest_rocksdb: String,
    /// The import's report without measurements and local paths.
    pub record: ImportReport,
    /// The files, sorted by column family and key.
    pub files: Vec<BundleFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// BLAKE3 and `.sst`.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file, as hex.
    pub blake3: String,
    /// Column family of the file.
    pub column_family: String,
    /// First key, as hex.
    pub first: String,
    /// Last key, as hex.
    pub last: String,
    /// Number of records.
    pub records: u64,
    /// Content digest of the records.
    pub digest: ContentDigest,
}

impl BundleFile {
    pub fn content(&self) -> Content {
        Content { records: self.records, digest: self.digest }
    }

    /// True if both files have the same records. The bytes of files from different imports differ even then.
    pub fn has_same_records(&self, other: &Self) -> bool {
        (&self.column_family, &self.first, &self.last, self.content())
            == (&other.column_family, &other.first, &other.last, other.content())
    }

    pub(super) fn keys(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = |text: &str| match data_encoding::HEXLOWER.decode(text.as_bytes()) {
            Ok(key) if key.len() <= MAX_KEY => Ok(key),
            _ => Err(format!("{} has an invalid key", self.name)),
        };
        Ok((key(&self.first)?, key(&self.last)?))
    }
}

pub(super) fn file_name(blake3: &str) -> String {
    format!("{blake3}.sst")
}

/// True if `text` is a BLAKE3 as hex.
pub(crate) fn is_sum(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn require(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// Records of each column family, according to the import's report.
pub(super) fn families(record: &ImportReport) -> Vec<(String, Content)> {
    let row = |name: &str, records, digest| (name.to_owned(), Content { records, digest });
    match &record.log {
        None => vec![row(&record.column_family, record.blocks.written, record.digest)],
        Some(log) => log.families.iter().map(|family| row(&family.name, family.records, family.digest)).collect(),
    }
}

impl Bundle {
    /// Returns the stored bytes and the id.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, String), BundleProblem> {
        let form = BundleProblem::Form;
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| form(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(form(format!("{} files are too many", self.files.len())));
        }
        let id = blake3::hash(&bytes).to_hex().to_string();
        Ok((bytes, id))
    }

    /// Checks that `bytes` have this id.
    pub fn compare(bytes: &[u8], id: &str) -> Result<(), BundleProblem> {
        let found = blake3::hash(bytes).to_hex().to_string();
        if found == id { Ok(()) } else { Err(BundleProblem::Bytes { found, expected: id.to_owned() }) }
    }

    /// Reads the description with this id. Unknown fields are errors, because they could change the meaning of the files.
    pub fn read(bytes: &[u8], id: &str) -> Result<Self, BundleProblem> {
        Self::compare(bytes, id)?;
        let bundle = Self::parse(bytes, SCHEMA)?;
        match &bundle.record.shard {
            Some(shard) => Err(BundleProblem::Form(format!("it is shard {}/{} alone", shard.number, shard.of))),
            None => Ok(bundle),
        }
    }

    /// Reads a description with the schema `known`.
    pub fn parse(bytes: &[u8], known: &'static str) -> Result<Self, BundleProblem> {
        #[derive(Deserialize)]
        struct Start {
            schema: String,
        }
        let form = BundleProblem::Form;
        // Another version may have any fields.
        let Start { schema } = serde_json::from_slice(bytes).map_err(|error| form(error.to_string()))?;
        if schema != known {
            return Err(match schema.starts_with(known.trim_end_matches(|end: char| end.is_ascii_digit())) {
                true => BundleProblem::Schema { schema: schema.chars().take(64).collect(), known },
                false => form("it has a different schema".into()),
            });
        }
        let bundle: Self = serde_json::from_slice(bytes).map_err(|error| form(error.to_string()))?;
        bundle.check().map_err(form)?;
        match bundle.to_bytes() {
            Ok((own, _)) if own == bytes => Ok(bundle),
            _ => Err(form("its formatting differs from bedload's: a newer version or another program wrote it".into())),
        }
    }

    /// Checks everything that does not need the files.
    fn check(&self) -> Result<(), String> {
        let record = &self.record;
        require(record.schema == RECORD_SCHEMA, format!("its report does not have the schema {RECORD_SCHEMA}"))?;
        check_record(record)?;
        let is_readable = Release::parse(&self.oldest_rocksdb).is_some_and(|oldest| oldest <= Release::built_in());
        require(is_readable, "oldest_rocksdb is not a release, or is newer than this program's RocksDB")?;
        let expected = families(record);
        let is_first = expected.first().is_some_and(|(name, _)| *name == record.column_family);
        require(is_first, "its report names other column families")?;
        let mut names = HashSet::new();
        let is_valid = |name: &String| !name.is_empty() && name.len() <= MAX_FAMILY;
        let all_valid = expected.iter().all(|(name, _)| is_valid(name) && names.insert(name));
        require(all_valid, "its report repeats a column family, or names one invalidly")?;
        let mut files = self.files.iter().peekable();
        let (mut sums, mut bytes) = (HashSet::new(), 0u64);
        for (family, content) in expected {
            let (mut found, mut before): (Content, Option<Vec<u8>>) = (Content::default(), None);
            while let Some(file) = files.next_if(|file| file.column_family == family) {
                let BundleFile { name, blake3, .. } = file;
                require(is_sum(blake3) && *name == file_name(blake3), "a file is not named for its BLAKE3")?;
                require(sums.insert(blake3), format!("{name} is in it twice"))?;
                let has_size = file.bytes > 0 && file.bytes <= MAX_FILE && file.records > 0;
                require(has_size, format!("{name} has {} bytes and {} records", file.bytes, file.records))?;
                bytes = bytes.checked_add(file.bytes).ok_or("its files are too long")?;
                let (first, last) = file.keys()?;
                if let Some(key) = [&first, &last].into_iter().find(|key| !is_key(record, &family, key)) {
                    let key = data_encoding::HEXLOWER.encode(key);
                    return Err(format!("{name} has the key {key}, which {family} cannot have"));
                }
                let ascends = first <= last && before.is_none_or(|before| before < first);
                require(ascends, format!("the keys of {name} do not follow those of the previous file"))?;
                before = Some(last);
                let records = found.records.checked_add(file.records).ok_or("its files have too many records")?;
                found.merge(file.content());
                found.records = records;
            }
            require(found == content, format!("the files of {family} have {found}, its import wrote {content}"))?;
        }
        if let (Some(log), Some(first)) = (&record.log, self.files.first()) {
            let mut blocks = self.files.iter().filter(|file| file.column_family == record.column_family);
            let ends = (first.keys()?.0, blocks.next_back().unwrap_or(first).keys()?.1);
            let expected = (log.first.number.to_be_bytes().to_vec(), log.last.number.to_be_bytes().to_vec());
            require(ends == expected, "the first or last block in its report does not match its files")?;
        }
        files
            .next()
            .map_or(Ok(()), |file| Err(format!("{} has an unknown column family or is out of order", file.name)))
    }
}

/// Checks that the report is consistent and of a kind that can be published.
fn check_record(record: &ImportReport) -> Result<(), String> {
    let is_ingested = !record.into_existing && record.memtable.is_none() && record.loader == Loader::Ingest.to_string();
    require(is_ingested, "its report is not of an import into a new database by ingest")?;
    require(record.part.is_none(), "its report is of a part of another bundle")?;
    require(record.key != KeyLayout::Any, "its report is of the copy of a database")?;
    let blocks = &record.blocks;
    require(
        blocks.written.checked_add(blocks.duplicate) == Some(blocks.read),
        "in its report, the blocks read are not the sum of blocks written and duplicates",
    )?;
    let is_log = record.key == KeyLayout::Number;
    require(record.log.is_some() == is_log, "its report has a key layout that its source cannot have")?;
    let needs_functions = record.key == KeyLayout::Digest;
    require(
        record.hash_functions.is_some() == needs_functions,
        "its report must name hash functions if, and only if, keys are digests",
    )?;
    record.log.as_ref().map_or(Ok(()), |log| check_log(record, log))
}

fn check_log(record: &ImportReport, log: &LogReport) -> Result<(), String> {
    let mut families = log.families.iter();
    let has_own = record.column_family == DEFAULT && families.next().is_some_and(|family| family.name == DEFAULT);
    let has_known = families.all(|family| [BLOCK_IDS, TRANSACTIONS].contains(&family.name.as_str()));
    require(has_own && has_known, "its report names other column families")?;
    let is_known = ["steem", "hive", "antelope"].contains(&log.family.as_str());
    require(is_known, "its report is of a log of an unknown chain")?;
    let count = u64::from(log.last.number).checked_sub(log.first.number.into()).map(|more| more + 1);
    let mut matches = count == Some(record.blocks.written);
    for family in &log.families {
        let read = if family.name == TRANSACTIONS { log.transactions } else { Some(record.blocks.read) };
        matches &= read.is_none_or(|read| family.records.checked_add(family.duplicates) == Some(read));
        let is_own = (family.records, family.digest) == (record.blocks.written, record.digest);
        matches &= is_own || family.name != DEFAULT;
    }
    require(matches, "the block counts in its report do not match its log")
}

/// True if the column family can contain this key.
fn is_key(record: &ImportReport, family: &str, key: &[u8]) -> bool {
    if let Some(log) = &record.log {
        let id = if log.family == "antelope" { 32 } else { 20 };
        return key.len() == if family == DEFAULT { 4 } else { id };
    }
    match record.key {
        KeyLayout::Cid => whole_cid(key).is_some(),
        KeyLayout::Multihash => read_multihash(key).is_some(),
        KeyLayout::Digest => {
            let functions = record.hash_functions.as_deref().unwrap_or_default();
            // The digest lengths of an unknown hash function are unknown.
            let fits =
                |code: &u64| Function::from_code(*code).is_none_or(|it| it.digest_lengths().contains(&key.len()));
            functions.is_empty() || functions.iter().any(fits)
        }
        KeyLayout::Number | KeyLayout::Any => false,
    }
}
