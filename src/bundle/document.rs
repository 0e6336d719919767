//! `bundle.json`: what a bundle holds. One type is written and read.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::problem::BundleProblem;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::report::{ImportReport, SCHEMA as RECORD_SCHEMA};

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

    fn keys(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
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
    ///
    /// # Errors
    /// [`BundleProblem::Form`]: it is too long.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, String), BundleProblem> {
        let form = |reason: String| BundleProblem::Form { reason };
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| form(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(form(format!("{} files are too many", self.files.len())));
        }
        let id = blake3::hash(&bytes).to_hex().to_string();
        Ok((bytes, id))
    }

    /// Reads the description with this id.
    ///
    /// # Errors
    /// [`BundleProblem`]: it is none, another one, of another version, or contradicts itself.
    pub fn read(bytes: &[u8], id: &str) -> Result<Self, BundleProblem> {
        let found = blake3::hash(bytes).to_hex().to_string();
        if found != id {
            return Err(BundleProblem::Bytes { found, expected: id.to_owned() });
        }
        let bundle = Self::parse(bytes, SCHEMA)?;
        match &bundle.record.shard {
            Some(shard) => {
                Err(BundleProblem::Form { reason: format!("it is shard {}/{} alone", shard.number, shard.of) })
            }
            None => Ok(bundle),
        }
    }

    /// Reads a description, or a part of one, as `known` says.
    ///
    /// # Errors
    /// [`BundleProblem`]: it is none, of another version, or contradicts itself.
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
        Ok(bundle)
    }

    /// Checks everything that does not need the files.
    fn check(&self) -> Result<(), String> {
        let record = &self.record;
        if record.schema != RECORD_SCHEMA {
            return Err(format!("the report in it is not of the form {RECORD_SCHEMA}"));
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
        match files.next() {
            Some(file) => {
                Err(format!("{} is of no column family that the import made, or in the wrong place", file.name))
            }
            None => Ok(()),
        }
    }
}
