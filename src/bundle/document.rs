//! `bundle.json`: what a bundle holds. One type is written and read.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::problem::BundleProblem;
use crate::hash::Function;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::preset::Loader;
use crate::read::read_multihash;
use crate::report::{ImportReport, LogReport, SCHEMA as RECORD_SCHEMA};
use crate::rocks::releases::Release;
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};
use crate::sort::key::KeyLayout;
use crate::source::car::read_cid;

/// The version of the description.
pub(super) const SCHEMA: &str = "bedload-bundle-1";
/// The version of the description of a part.
pub(super) const PART_SCHEMA: &str = "bedload-part-1";

/// The longest description, in bytes: some hundred thousand files.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// The largest file, in bytes.
const MAX_FILE: u64 = 1 << 44;
/// The longest key, in bytes.
const MAX_KEY: usize = 64 << 10;
/// The longest name of a column family.
const MAX_FAMILY: usize = 255;
/// Digits of a BLAKE3.
const DIGITS: usize = 64;

/// What a bundle holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Name and version of this document.
    pub schema: String,
    /// The oldest RocksDB that is known to read the files.
    pub oldest_rocksdb: String,
    /// The report of the import without what was measured, and without the paths of the machine.
    pub record: ImportReport,
    /// The files, by column family and key.
    pub files: Vec<BundleFile>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// Its name: its BLAKE3, and `.sst`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The BLAKE3 of its bytes, as hex.
    pub blake3: String,
    /// The column family that it belongs to.
    pub column_family: String,
    /// The first key in it, as hex.
    pub first: String,
    /// The last key in it, as hex.
    pub last: String,
    /// Records in it.
    pub records: u64,
    /// Their content digest.
    pub digest: ContentDigest,
}

impl BundleFile {
    /// What is in it.
    pub fn content(&self) -> Content {
        Content { records: self.records, digest: self.digest }
    }

    /// Whether both hold the same records under the same keys. Files of different imports have different bytes all the same.
    pub fn holds_what(&self, other: &Self) -> bool {
        (&self.column_family, &self.first, &self.last, self.content())
            == (&other.column_family, &other.first, &other.last, other.content())
    }

    /// Its first and its last key.
    pub(super) fn keys(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        let key = |text: &str| match data_encoding::HEXLOWER.decode(text.as_bytes()) {
            Ok(key) if key.len() <= MAX_KEY => Ok(key),
            _ => Err(format!("{} has a key that is none", self.name)),
        };
        Ok((key(&self.first)?, key(&self.last)?))
    }
}

/// The name of a file with this BLAKE3.
pub(super) fn file_name(blake3: &str) -> String {
    format!("{blake3}.sst")
}

/// Whether a text is a BLAKE3 as hex.
pub(crate) fn is_sum(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What an import has put into each column family that it has made, by its record.
pub(super) fn families(record: &ImportReport) -> Vec<(String, Content)> {
    match &record.log {
        None => {
            let content = Content { records: record.blocks.written, digest: record.digest };
            vec![(record.column_family.clone(), content)]
        }
        Some(log) => {
            let content =
                |family: &crate::report::FamilyReport| Content { records: family.records, digest: family.digest };
            log.families.iter().map(|family| (family.name.clone(), content(family))).collect()
        }
    }
}

impl Bundle {
    /// Its bytes as they are stored, and its id.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, String), BundleProblem> {
        let form = |reason: String| BundleProblem::Form { reason };
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| form(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(form(format!("{} files are too many", self.files.len())));
        }
        let id = blake3::hash(&bytes).to_hex().to_string();
        Ok((bytes, id))
    }

    /// Whether the bytes are those of this id.
    pub fn compare(bytes: &[u8], id: &str) -> Result<(), BundleProblem> {
        let found = blake3::hash(bytes).to_hex().to_string();
        match found == id {
            true => Ok(()),
            false => Err(BundleProblem::Bytes { found, expected: id.to_owned() }),
        }
    }

    /// Reads the description with this id. Whatever is in it must be known here: what would be passed over could say that the
    /// files are something else.
    pub fn read(bytes: &[u8], id: &str) -> Result<Self, BundleProblem> {
        Self::compare(bytes, id)?;
        let bundle = Self::parse(bytes, SCHEMA)?;
        match &bundle.record.shard {
            Some(shard) => {
                Err(BundleProblem::Form { reason: format!("it is shard {}/{} alone", shard.number, shard.of) })
            }
            None => Ok(bundle),
        }
    }

    /// Reads a description, or a part of one, as `known` says.
    pub fn parse(bytes: &[u8], known: &'static str) -> Result<Self, BundleProblem> {
        #[derive(Deserialize)]
        struct Start {
            schema: String,
        }
        let form = |reason: String| BundleProblem::Form { reason };
        // Another version may have any fields.
        let Start { schema } = serde_json::from_slice(bytes).map_err(|error| form(error.to_string()))?;
        if schema != known {
            return Err(match schema.starts_with(known.trim_end_matches(|end: char| end.is_ascii_digit())) {
                true => BundleProblem::Schema { schema: schema.chars().take(64).collect(), known },
                false => form("it has another schema".into()),
            });
        }
        let bundle: Self = serde_json::from_slice(bytes).map_err(|error| form(error.to_string()))?;
        bundle.check().map_err(form)?;
        match bundle.to_bytes() {
            Ok((own, _)) if own == bytes => Ok(bundle),
            _ => Err(form(
                "it is not written as this program writes it: a newer program has made it, or none of bedload".into(),
            )),
        }
    }

    /// Checks everything that does not need the files.
    fn check(&self) -> Result<(), String> {
        let record = &self.record;
        if record.schema != RECORD_SCHEMA {
            return Err(format!("the report in it is not of the form {RECORD_SCHEMA}"));
        }
        check_record(record)?;
        if Release::parse(&self.oldest_rocksdb).is_none_or(|oldest| oldest > Release::built_in()) {
            return Err("oldest_rocksdb is no release, or one after the RocksDB of this program".into());
        }
        let expected = families(record);
        if expected.first().is_none_or(|(name, _)| *name != record.column_family) {
            return Err("the report in it names other column families".into());
        }
        let mut names = HashSet::new();
        for (name, _) in &expected {
            if name.is_empty() || name.len() > MAX_FAMILY || !names.insert(name) {
                return Err("the report in it has a column family twice, or one without a proper name".into());
            }
        }
        let mut files = self.files.iter().peekable();
        let (mut sums, mut bytes) = (HashSet::new(), 0u64);
        for (family, content) in expected {
            let (mut found, mut before): (Content, Option<Vec<u8>>) = (Content::default(), None);
            while let Some(file) = files.next_if(|file| file.column_family == family) {
                let BundleFile { name, blake3, .. } = file;
                if !is_sum(blake3) || *name != file_name(blake3) {
                    return Err("a file is not named for its BLAKE3".into());
                }
                if !sums.insert(blake3) {
                    return Err(format!("{name} is in it twice"));
                }
                if file.bytes == 0 || file.bytes > MAX_FILE || file.records == 0 {
                    return Err(format!("{name} has {} bytes and {} records", file.bytes, file.records));
                }
                bytes = bytes.checked_add(file.bytes).ok_or("its files are too long")?;
                let (first, last) = file.keys()?;
                if let Some(key) = [&first, &last].into_iter().find(|key| !is_key(record, &family, key)) {
                    let key = data_encoding::HEXLOWER.encode(key);
                    return Err(format!("{name} has the key {key}, which {family} cannot have"));
                }
                if first > last || before.is_some_and(|before| before >= first) {
                    return Err(format!("the keys of {name} are not behind those of the file before it"));
                }
                before = Some(last);
                let records = found.records.checked_add(file.records).ok_or("its files have too many records")?;
                found.merge(file.content());
                found.records = records;
            }
            if found != content {
                return Err(format!("the files of {family} have {found}, its import wrote {content}"));
            }
        }
        if let (Some(log), Some(first)) = (&record.log, self.files.first()) {
            let mut blocks = self.files.iter().filter(|file| file.column_family == record.column_family);
            let ends = (first.keys()?.0, blocks.next_back().unwrap_or(first).keys()?.1);
            if ends != (log.first.number.to_be_bytes().to_vec(), log.last.number.to_be_bytes().to_vec()) {
                return Err("the first or the last block in it is not that of its files".into());
            }
        }
        match files.next() {
            Some(file) => {
                Err(format!("{} is of no column family that the import made, or in the wrong place", file.name))
            }
            None => Ok(()),
        }
    }
}

/// Checks what a record says of itself, and what is believed of it later.
fn check_record(record: &ImportReport) -> Result<(), String> {
    let of_files = "the report in it is not of an import into a database of its own that RocksDB has ingested";
    if record.into_existing || record.memtable.is_some() || record.loader != Loader::Ingest.to_string() {
        return Err(of_files.into());
    }
    if record.part.is_some() {
        return Err("the report in it is of a part of another bundle".into());
    }
    let add_up = |read: u64, written: u64, more: u64| written.checked_add(more) == Some(read);
    let blocks = &record.blocks;
    if !add_up(blocks.read, blocks.written, blocks.duplicate) {
        return Err("the report in it says that other blocks were read than were written or came twice".into());
    }
    if record.log.is_some() != (record.key == KeyLayout::Number) {
        return Err("the report in it has a key layout that its kind of source cannot have".into());
    }
    if record.hash_functions.is_some() != (record.key == KeyLayout::Digest) {
        return Err("the report in it names hash functions where keys do, or does not where they do not".into());
    }
    record.log.as_ref().map_or(Ok(()), |log| check_log(record, log))
}

fn check_log(record: &ImportReport, log: &LogReport) -> Result<(), String> {
    let has_own = record.column_family == DEFAULT && log.families.first().is_some_and(|family| family.name == DEFAULT);
    if !has_own || log.families.iter().skip(1).any(|family| ![BLOCK_IDS, TRANSACTIONS].contains(&family.name.as_str()))
    {
        return Err("the report in it names other column families".into());
    }
    if !["steem", "hive", "antelope"].contains(&log.family.as_str()) {
        return Err("the report in it is of a log of no chain that this program knows".into());
    }
    let wrong = "the report in it counts other blocks than its log has";
    let count = u64::from(log.last.number).checked_sub(log.first.number.into()).map(|more| more + 1);
    if count != Some(record.blocks.written) {
        return Err(wrong.into());
    }
    for family in &log.families {
        let read = if family.name == TRANSACTIONS { log.transactions } else { Some(record.blocks.read) };
        if read.is_some_and(|read| family.records.checked_add(family.duplicates) != Some(read)) {
            return Err(wrong.into());
        }
        let is_own = (family.records, family.digest) == (record.blocks.written, record.digest);
        if family.name == DEFAULT && !is_own {
            return Err(wrong.into());
        }
    }
    Ok(())
}

/// Whether a column family of an import can have this key.
fn is_key(record: &ImportReport, family: &str, key: &[u8]) -> bool {
    if let Some(log) = &record.log {
        let id = if log.family == "antelope" { 32 } else { 20 };
        return key.len() == if family == DEFAULT { 4 } else { id };
    }
    match record.key {
        KeyLayout::Cid => read_cid(key).ok().flatten().is_some_and(|cid| cid.len as usize == key.len()),
        KeyLayout::Multihash => read_multihash(key).is_some(),
        KeyLayout::Digest => {
            let functions = record.hash_functions.as_deref().unwrap_or_default();
            // Of a function that is not known here nothing is known of its digests either.
            let fits =
                |code: &u64| Function::from_code(*code).is_none_or(|it| it.digest_lengths().contains(&key.len()));
            functions.is_empty() || functions.iter().any(fits)
        }
        KeyLayout::Number => false,
    }
}
