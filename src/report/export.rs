//! The result of an export.

use serde::Serialize;

use super::BlockRef;
use crate::hash::content_digest::ContentDigest;

pub const EXPORT_SCHEMA: &str = "bedload-export-2";

/// The result of an export.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct ExportReport {
    /// Name and version of this document.
    pub schema: String,
    /// The database's path as the user gave it.
    pub db: String,
    /// The file; `-` for a stream.
    pub file: String,
    /// `car`, `car.zst` or `forest.car.zst`; `log` or `log.zst` for a block log.
    pub format: String,
    /// The selected blocks: `linked` (in the order of links), `all` (in the order of keys), `listed`, or a `range` of a log.
    pub selection: String,
    /// The roots in the header: CIDs in their usual text form.
    pub roots: Vec<String>,
    /// Number of written blocks, each once.
    pub blocks: u64,
    /// Size of the written blocks, in bytes.
    pub payload_bytes: u64,
    /// Size of the CAR or log before compression, in bytes.
    pub car_bytes: u64,
    /// Size of the output, in bytes.
    pub bytes: u64,
    /// The content digest of the written blocks, with the keys of the database.
    pub digest: ContentDigest,
    /// True if the export has all records of the import, by count and digest; `null` if unknown.
    pub all_records: Option<bool>,
    /// Number of records that the roots do not lead to, or an upper bound; `null` unless links are followed.
    pub(crate) left_out: Option<u64>,
    /// Number of distinct blocks to export that are not in the database.
    pub missing: u64,
    /// Part of `missing` that headers below the given epoch name, and that may be missing.
    pub missing_allowed: u64,
    /// The first ten missing blocks, in the order of discovery.
    pub first_missing: Vec<MissingBlock>,
    /// Blocks that do not match their codec, and links that are not CIDs or longer than 65,535 bytes.
    pub malformed: u64,
    /// True if no required block is missing, or if the export has every record of the import.
    pub complete: bool,
    /// True if the file got its name. An incomplete file gets it only if the options allow missing blocks.
    pub committed: bool,
    /// The block log, if the database was made from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<ExportedLog>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A block log that was written.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ExportedLog {
    /// `steem`, `hive` or `antelope`.
    pub family: String,
    /// Version of an Antelope log; 0 for other chains.
    pub version: u32,
    /// The first block.
    pub first: BlockRef,
    /// The last block.
    pub last: BlockRef,
    /// True if the log equals the imported log byte for byte, before compression.
    pub identical: bool,
    /// Reasons why the log differs from the imported log.
    pub differs: Vec<String>,
}

/// A block that is linked to and missing.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "cli", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MissingBlock {
    /// The CID in its usual text form.
    pub cid: String,
    /// The block with the link; `null` for a root.
    pub parent: Option<String>,
    /// The epoch of the header that leads to the block; `null` if there is none.
    pub epoch: Option<u64>,
    /// True if the block may be missing.
    pub allowed: bool,
}
