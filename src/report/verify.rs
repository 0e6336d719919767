//! The result of a verification.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::hash::content_digest::ContentDigest;
use crate::report::{Advice, LogVerified};
use crate::sort::key::KeyLayout;

pub const VERIFY_SCHEMA: &str = "bedload-verify-4";

/// The result of a verification.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Name and version of this document.
    pub schema: String,
    /// The database's path as the user gave it.
    pub db: String,
    /// True if the verification found no problem.
    pub valid: bool,
    /// The conclusion.
    pub(crate) verdict: VerifyVerdict,
    /// The reason why the import is not confirmed; `null` unless `verdict` is `intact` or `differs`.
    pub(crate) not_confirmed: Option<String>,
    /// The column family that holds the blocks.
    pub column_family: String,
    /// The key of a block.
    pub key: KeyLayout,
    /// The origin of `key`.
    pub key_from: KeyFrom,
    /// Number of SST files, of all column families.
    pub files: u64,
    /// Size of the SST files, in bytes.
    pub file_bytes: u64,
    /// Number of records to pick; `null` if every record was verified.
    pub sample: Option<u64>,
    /// Number of records whose values were verified against the hashes in their keys.
    pub records: u64,
    /// Size of the verified values, in bytes.
    pub payload_bytes: u64,
    /// The content digest; `null` for a sample.
    pub digest: Option<ContentDigest>,
    /// The records according to `BEDLOAD.json`; `null` without that file.
    pub recorded: Option<Recorded>,
    /// The comparison with the source; `null` when none was requested.
    pub against: Option<Against>,
    /// Notes that are not problems.
    pub notes: Vec<String>,
    /// Results for a database of a block log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<VerifiedLog>,
    /// The problems.
    pub problems: Problems,
    /// Warnings about the database, with advice.
    pub warnings: Vec<Advice>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// The conclusion of a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VerifyVerdict {
    /// Every record of the import is there as it was written, and nothing is damaged.
    Confirmed,
    /// Nothing that was read is damaged. Records of the import may be missing.
    Intact,
    /// Nothing that was read is damaged, but the database does not match the snapshot.
    Differs,
    /// Something is damaged, or records of the import are missing.
    #[default]
    Damaged,
}

/// The origin of the key layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum KeyFrom {
    /// `BEDLOAD.json`.
    Record,
    /// The caller.
    Caller,
    /// An assumption.
    #[default]
    Assumed,
}

/// The records according to `BEDLOAD.json`.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The source's path as the user of the import gave it.
    pub source: String,
    /// False after an import into an existing database: other records are expected.
    pub whole: bool,
    /// Number of records.
    pub records: u64,
    /// The content digest of the records.
    pub digest: ContentDigest,
    /// Records in excess of the recorded number, if a program has opened the database since and nothing is damaged.
    pub more_than_recorded: u64,
    /// True if all records of the import are confirmed: by count and digest, by the snapshot, or by the unchanged files.
    pub confirmed: bool,
}

/// A comparison with the source, record by record.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Against {
    /// The source's path as the user gave it.
    pub source: String,
    /// Number of blocks of the source, duplicates included.
    pub blocks: u64,
    /// Number of distinct blocks of the source.
    pub distinct: u64,
    /// The content digest of the distinct blocks.
    pub digest: ContentDigest,
    /// True if the database was imported from a source with this digest; `null` if unknown.
    pub imported: Option<bool>,
    /// Number of records that the database and the source have.
    pub same: u64,
    /// Number of records that only the database has.
    pub extra: u64,
    /// Number of blocks of the source whose records cannot be read.
    pub unreadable: u64,
}

/// Results for a database made from a block log.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifiedLog {
    /// The checks of the import.
    pub import_verified: LogVerified,
    /// Parts that the import could not check. Damage in them is not found.
    pub not_covered: Vec<String>,
    /// Number of blocks whose merkle root was computed from their transactions and compared.
    pub roots: u64,
    /// Number of blocks with operations of unknown kinds, whose merkle root cannot be computed.
    pub unknown_operations: u64,
}

/// The problems of a database.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Problems {
    /// Total number.
    pub total: u64,
    /// Number of each kind.
    pub kinds: BTreeMap<ProblemKind, u64>,
    /// The first ten problems: of files, of the record, then in the order of keys.
    pub first: Vec<VerifyProblem>,
}

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProblemKind {
    /// RocksDB cannot open the database.
    Open,
    /// A file is missing, or its size or checksum does not match.
    File,
    /// `BEDLOAD.json` cannot be read, or was changed after the import.
    Record,
    /// The counts in `BEDLOAD.json` do not add up: blocks read are not blocks written plus duplicates.
    Tally,
    /// There are more or fewer records than recorded.
    Count,
    /// The content digest does not match the recorded one.
    Digest,
    /// A block of a file does not match its checksum, or cannot be read.
    Checksum,
    /// A key does not match the layout.
    Key,
    /// A value does not match the hash in its key.
    Hash,
    /// A block does not link to the previous block.
    Link,
    /// A block's transactions do not match the merkle root in its header, or cannot be read.
    Root,
    /// A column family of ids does not match the blocks.
    Index,
    /// A value cannot be verified: its key names an unknown hash function.
    Function,
    /// A block of the source is not in the database.
    Missing,
    /// A record is not in the source.
    Extra,
    /// A block differs between the source and the database.
    Differs,
    /// The database was imported from another source.
    Source,
}

/// The names of the kinds, in the order of the variants.
const KINDS: [&str; 17] = [
    "open", "file", "record", "tally", "count", "digest", "checksum", "key", "hash", "link", "root", "index",
    "function", "missing", "extra", "differs", "source",
];

impl ProblemKind {
    /// Returns the name in output and reports.
    pub fn name(self) -> &'static str {
        KINDS[self as usize]
    }
}

/// A problem.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifyProblem {
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The key: a CID in its usual text form if keys are CIDs, else hex.
    pub key: Option<String>,
    /// The file with the problem.
    pub file: Option<String>,
    /// The description.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_names_match_their_json() {
        for name in KINDS {
            let kind: ProblemKind = serde_json::from_value(name.into()).expect(name);
            assert_eq!(kind.name(), name);
        }
    }
}
