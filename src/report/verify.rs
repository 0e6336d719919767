//! The result of a verification.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::hash::content_digest::ContentDigest;
use crate::report::{Advice, LogVerified};
use crate::sort::key::KeyLayout;

/// Version of this document. It changes if a field is removed or changes its meaning.
pub const VERIFY_SCHEMA: &str = "bedload-verify-4";

/// The result of a verification.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Name and version of this document.
    pub schema: String,
    /// The database's path as the user gave it.
    pub db: String,
    /// True if nothing is wrong with it, as far as was verified.
    pub valid: bool,
    /// The conclusion.
    pub(crate) verdict: VerifyVerdict,
    /// Why nothing confirms that every record of the import is there; `null` unless `verdict` is `intact`.
    pub(crate) not_confirmed: Option<String>,
    /// The column family that holds the blocks.
    pub column_family: String,
    /// The kind of key of a block.
    pub key: KeyLayout,
    /// The source of that knowledge.
    pub key_from: KeyFrom,
    /// SST files of all column families.
    pub files: u64,
    /// Their size in bytes.
    pub file_bytes: u64,
    /// How many records were to be picked; `null` when every record was verified.
    pub sample: Option<u64>,
    /// Records verified: each value was hashed against its key.
    pub records: u64,
    /// Bytes of their values.
    pub payload_bytes: u64,
    /// The content digest; `null` for a sample.
    pub digest: Option<ContentDigest>,
    /// The contents of `BEDLOAD.json`; `null` if there is none.
    pub recorded: Option<Recorded>,
    /// The comparison with the source; `null` when none was requested.
    pub against: Option<Against>,
    /// Notes that are not problems.
    pub notes: Vec<String>,
    /// Facts of a database made from a block log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<VerifiedLog>,
    /// The problem.
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
    /// Something is damaged, or records of the import are missing.
    #[default]
    Damaged,
}

/// The source of the key layout.
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
    /// The source's path as the user gave it then.
    pub source: String,
    /// True if that is all the database holds; `false` after an import into an existing database.
    pub whole: bool,
    /// Number of records.
    pub records: u64,
    /// Their content digest.
    pub digest: ContentDigest,
    /// Records beyond the recorded count, where a node has opened the database since and nothing is damaged: so many
    /// were written since the import, or more where some of the import are gone, which `confirmed` rules out.
    pub more_than_recorded: u64,
    /// True if all records of the import are shown to be there as it wrote them: by their count and digest, or, beside
    /// records that were written since, by the comparison with the snapshot, or because its files are all in use and
    /// nothing that was written hides a record in them. `false` where nothing shows that.
    pub confirmed: bool,
}

/// A comparison with the source, record by record.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Against {
    /// The source's path as the user gave it.
    pub source: String,
    /// Its blocks, duplicates included.
    pub blocks: u64,
    /// Its distinct blocks.
    pub distinct: u64,
    /// The content digest of these.
    pub digest: ContentDigest,
    /// True if that is the digest of what the database was imported from; `null` when nothing is recorded of the whole.
    pub imported: Option<bool>,
    /// Records that are the same in both.
    pub same: u64,
    /// Records of the database that the source does not have.
    pub extra: u64,
    /// Blocks of the source whose place in the database cannot be read.
    pub unreadable: u64,
}

/// Results for a database made from a block log.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifiedLog {
    /// The checks of the import.
    pub import_verified: LogVerified,
    /// Parts that the import could not check: damage of the log there is in the database and is not found.
    pub not_covered: Vec<String>,
    /// Blocks whose merkle root was computed from their transactions and compared.
    pub roots: u64,
    /// Blocks with operations of unknown kinds, whose merkle root cannot be computed.
    pub unknown_operations: u64,
}

/// Problems: all are counted, the first are listed.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Problems {
    /// Total number.
    pub total: u64,
    /// Number of each kind.
    pub kinds: BTreeMap<ProblemKind, u64>,
    /// The first ten: of files, of the record, then in the order of keys.
    pub first: Vec<Problem>,
}

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProblemKind {
    /// RocksDB does not open the database.
    Open,
    /// A file is missing, has another size than the database says, or is another than the import left.
    File,
    /// `BEDLOAD.json` cannot be read, or was changed after the import.
    Record,
    /// The counts in `BEDLOAD.json` do not add up: what was read is not what was written and what was a duplicate.
    Tally,
    /// There are more or fewer records than recorded.
    Count,
    /// The content digest is another than recorded.
    Digest,
    /// A block of a file does not match its checksum, or cannot be read.
    Checksum,
    /// A key is not what the layout says.
    Key,
    /// A value does not match the hash in its key.
    Hash,
    /// A block does not follow the one before it.
    Link,
    /// A block's transactions do not match the merkle root in its header, or cannot be read.
    Root,
    /// A family of ids does not hold what the blocks say.
    Index,
    /// A value cannot be checked: its key names a hash function that is not known here.
    Function,
    /// A block of the source is not in the database.
    Missing,
    /// A record is not in the source.
    Extra,
    /// A block is another in the source than in the database.
    Differs,
    /// The database was imported from another source than it is compared with.
    Source,
}

impl ProblemKind {
    /// Its name in output and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::File => "file",
            Self::Record => "record",
            Self::Tally => "tally",
            Self::Count => "count",
            Self::Digest => "digest",
            Self::Checksum => "checksum",
            Self::Key => "key",
            Self::Hash => "hash",
            Self::Link => "link",
            Self::Root => "root",
            Self::Index => "index",
            Self::Function => "function",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Differs => "differs",
            Self::Source => "source",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Which kind.
    pub kind: ProblemKind,
    /// The key it is about: a CID in its usual text form where keys are CIDs, else hex.
    pub key: Option<String>,
    /// The file it is in.
    pub file: Option<String>,
    /// The description.
    pub message: String,
}
