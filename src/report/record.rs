//! `BEDLOAD.json`: the record that an import leaves in a database.
//!
//! Its last field is a checksum of all the bytes before it, so that a cut or an edit is detected:
//!
//! ```text
//! {
//!   "schema": "bedload-import-6",
//!   ..
//!   "versions": {..},
//!   "checksum": "<XXH3-128 of every byte before this line's comma, as hex>"
//! }
//! ```

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::blocks::chain::Family;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::os::files::read_regular;
use crate::report::{
    BlockRef, F3Report, FamilyReport, Head, LogLayout, LogVerified, NewestSnapshot, Packings, Part, RecordedFile,
};
use crate::rocks::{Level, no_database};
use crate::schema::RECORD_FILE;
use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

/// The largest record that is read, in bytes; real ones have a few hundred KiB at most.
const MAX_RECORD: u64 = 64 << 20;

/// What every version of the record has; the rest of it is for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImportRecord {
    /// The version of the record.
    pub schema: String,
    /// The column family that took the blocks.
    pub column_family: String,
    /// What a block is stored under.
    pub key: KeyLayout,
    /// Whether the blocks were added to a database that held others: then the counts are of the import alone.
    #[serde(default)]
    pub into_existing: bool,
    /// Whether every block was checked against its hash at import.
    pub verified: bool,
    /// What it has of a bundle, where that is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<Part>,
    /// How many records there are.
    pub blocks: RecordedBlocks,
    /// Bytes of the records' values.
    pub payload_bytes: u64,
    /// The content digest of the column family.
    pub digest: ContentDigest,
    /// Where the blocks came from.
    pub source: RecordedSource,
    /// The head of the chain, where a snapshot names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<Head>,
    /// The snapshot whose roots readers begin at, where an older one was added later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newest: Option<NewestSnapshot>,
    /// The sources; older records have them only of several CARs.
    #[serde(default)]
    pub sources: Vec<RecordedCar>,
    /// What only a block log has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<RecordedLog>,
    /// Multicodecs of the hash functions, where the key does not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_functions: Option<Vec<u64>>,
    /// The F3 data of the snapshot that were not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub f3: Vec<F3Report>,
    /// `IDENTITY` and the OPTIONS file, as the import left them.
    #[serde(default)]
    pub small_files: Vec<RecordedFile>,
    /// The SST files of the column family by level, as the import left them.
    #[serde(default)]
    pub levels: Vec<Level>,
}

/// How many records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedBlocks {
    /// In the source.
    pub read: u64,
    /// In the database.
    pub written: u64,
    /// In the source more than once.
    pub duplicate: u64,
}

/// Where the blocks came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedSource {
    /// The path as the user gave it.
    pub path: String,
    /// `car` or another format.
    pub format: String,
    /// Version of the format.
    #[serde(default)]
    pub version: u64,
    /// The roots, as CIDs in their usual text form.
    #[serde(default)]
    pub roots: Vec<String>,
    /// Bytes of null padding behind the blocks.
    #[serde(default)]
    pub null_padding: u64,
}

/// A source of the blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedCar {
    /// The path as the user gave it, or as a directory of CARs had it.
    pub path: String,
}

/// What only a block log has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLog {
    /// `steem`, `hive` or `antelope`.
    pub family: String,
    /// Files it consisted of.
    pub parts: u64,
    /// Its layout; `None` where the import did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LogLayout>,
    /// The first block that was imported.
    pub first: BlockRef,
    /// The last one.
    pub last: BlockRef,
    /// How the blocks were packed.
    pub packings: Packings,
    /// Bytes behind the last whole block that were left out.
    pub trimmed_bytes: u64,
    /// Transactions; `None` when they were not counted.
    #[serde(default)]
    pub transactions: Option<u64>,
    /// What the import checked.
    pub verified: LogVerified,
    /// What it could not cover.
    pub not_covered: Vec<String>,
    /// Operations of unknown kinds that it passed over.
    pub unknown_operations: u64,
    /// The column families.
    pub families: Vec<FamilyReport>,
}

impl ImportRecord {
    /// The roots of the newest snapshot.
    pub fn roots(&self) -> Vec<RawCid> {
        let roots = self.newest.as_ref().map_or(&self.source.roots, |newest| &newest.roots);
        roots.iter().filter_map(|root| root.parse().ok()).collect()
    }

    /// The chain, and the version of its log: how its blocks are read.
    pub(crate) fn chain(&self) -> (Family, u32) {
        let family = match self.log.as_ref().map(|log| log.family.as_str()) {
            Some("antelope") => Family::Antelope,
            Some("hive") => Family::Hive,
            _ => Family::Steem,
        };
        (family, u32::try_from(self.source.version).unwrap_or(0))
    }

    /// The CIDs of the blocks that were left out.
    pub(crate) fn left_out(&self) -> HashSet<Vec<u8>> {
        let newest = self.newest.iter().flat_map(|newest| &newest.f3);
        let cids = self.f3.iter().chain(newest).filter_map(|f3| f3.cid.parse::<RawCid>().ok());
        cids.map(|cid| cid.as_bytes().to_vec()).collect()
    }

    /// Returns the newest snapshot of the database if it stays the newest one when a snapshot with these roots and this head
    /// is added. Without heads to compare, the snapshot that was added last is the newest.
    pub(crate) fn newest_after(&self, roots: &[String], head: Option<&Head>) -> Option<NewestSnapshot> {
        let is_newest = match (&self.head, head) {
            (Some(own), Some(head)) => own.chain == head.chain && own.height > head.height,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => roots.is_empty(),
        };
        let own =
            || NewestSnapshot { path: self.source.path.clone(), roots: self.source.roots.clone(), f3: self.f3.clone() };
        let newest = is_newest.then(|| self.newest.clone().unwrap_or_else(own));
        newest.filter(|newest| !newest.roots.is_empty())
    }

    /// Reads the record of the database in `db`; `None` when it has none.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be read; [`Error::State`]: it is something else than a record.
    pub fn load(db: &Path) -> Result<Option<Self>> {
        Ok(Self::load_sealed(db)?.map(|(record, _)| record))
    }

    /// The same, and whether it is as the import wrote it.
    ///
    /// # Errors
    /// As [`ImportRecord::load`].
    pub(crate) fn load_sealed(db: &Path) -> Result<Option<(Self, bool)>> {
        Ok(Self::load_as(db)?.map(|(record, bytes)| (record, unsealed(&bytes).is_some())))
    }

    /// Reads the record of the database in `db` as a `T`, and its bytes; `None` when it has none.
    ///
    /// # Errors
    /// [`Error::State`] when it is no file of a record's size, or no `T`, or `db` no directory; [`Error::Io`].
    pub(crate) fn load_as<T: serde::de::DeserializeOwned>(db: &Path) -> Result<Option<(T, Vec<u8>)>> {
        let path = db.join(RECORD_FILE);
        let unreadable = |why: &dyn std::fmt::Display| Error::State {
            path: path.clone(),
            reason: format!("is no record of an import: {why}"),
            hint: "move it away to read the database without its record".into(),
        };
        match read_regular(&path, MAX_RECORD) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(record) => Ok(Some((record, bytes))),
                Err(error) => Err(unreadable(&error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(no_database(db)),
            // The directory cannot be searched.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && path.symlink_metadata().is_err() => {
                Err(no_database(db))
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(unreadable(&error)),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }
}

/// The bytes before the checksum.
const SEAL: &[u8] = b",\n  \"checksum\": \"";
/// The bytes behind it.
const END: &[u8] = b"\"\n}";

/// Serialises `report`, an object, with its checksum as the last field, to be written to `path`.
///
/// # Errors
/// [`Error::Io`]: it cannot be serialised.
pub(crate) fn sealed(report: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(report);
    let mut record = json.map_err(|error| Error::io("write", path)(error.into()))?;
    // One more field before the object ends. Records of many sources have tens of MiB, so there is one copy.
    record.truncate(record.strip_suffix(b"\n}").map_or(record.len(), <[u8]>::len));
    let checksum = checksum(&record);
    [SEAL, checksum.as_bytes(), END].iter().for_each(|bytes| record.extend_from_slice(bytes));
    Ok(record)
}

/// What was sealed, as `serde_json` prints it; `None` where it is not as it was.
pub(crate) fn unsealed(record: &[u8]) -> Option<Vec<u8>> {
    let (report, seal) = record.split_at(memchr::memmem::rfind(record, SEAL)?);
    let found = seal.strip_prefix(SEAL)?.strip_suffix(END)?;
    (found == checksum(report).as_bytes()).then(|| [report, b"\n}"].concat())
}

/// [`checksum`] of the record of the database in `db`; `None` where none can be read.
pub(crate) fn record_checksum(db: &Path) -> Option<String> {
    read_regular(&db.join(RECORD_FILE), MAX_RECORD).ok().map(|bytes| checksum(&bytes))
}

/// XXH3-128 of a file's bytes, as hex.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:032x}", twox_hash::XxHash3_128::oneshot(bytes))
}

/// The roots to begin at: those that were given, or those the import recorded.
///
/// # Errors
/// [`Error::Usage`]: there are none; `action` says for what, `hint` what to do about it. Why there are none: no import made
/// the database, or its snapshot had none.
pub(crate) fn roots(given: &[RawCid], record: Option<&ImportRecord>, action: &str, hint: &str) -> Result<Vec<RawCid>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let roots = record.map(ImportRecord::roots).unwrap_or_default();
    if roots.is_empty() {
        return Err(Error::Usage {
            reason: match record {
                Some(record) => format!("no root to {action} from: the header of {} named none", record.source.path),
                None => format!("no root to {action} from: the database has no BEDLOAD.json that names one"),
            },
            hint: hint.into(),
        });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report that cannot be serialised.
    struct Broken;

    impl Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no JSON"))
        }
    }

    #[test]
    fn unserialisable_record_is_an_error() {
        let error = sealed(&Broken, Path::new("db/BEDLOAD.json")).expect_err("nothing to write");
        let Error::Io { action, path, source } = error else { panic!("{error}") };
        assert_eq!((action, path.as_path()), ("write", Path::new("db/BEDLOAD.json")));
        assert_eq!(source.to_string(), "no JSON");
        let record = sealed(&serde_json::json!({ "blocks": 7 }), Path::new("")).expect("a record");
        assert_eq!(unsealed(&record).as_deref(), Some(&b"{\n  \"blocks\": 7\n}"[..]));
    }
}
