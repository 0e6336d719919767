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
    /// Blocks written, each once.
    pub blocks: u64,
    /// Their size in bytes.
    pub payload_bytes: u64,
    /// Size of the CAR or log before compression, in bytes.
    pub car_bytes: u64,
    /// Size of what was written, in bytes.
    pub bytes: u64,
    /// The content digest of the blocks written, under the database's own keys.
    pub digest: ContentDigest,
    /// True if these are all records that the import wrote, by count and digest; `null` when that is not known.
    pub all_records: Option<bool>,
    /// Records of the database that the roots do not lead to, or the most there can be. `null` unless links are followed.
    pub(crate) left_out: Option<u64>,
    /// Distinct blocks that are not in the database although they should be exported.
    pub missing: u64,
    /// Number of these that may be missing: headers below the given epoch name them.
    pub missing_allowed: u64,
    /// The first ten missing blocks, in the order of discovery.
    pub first_missing: Vec<MissingBlock>,
    /// Blocks that do not match their codec, and links that are not CIDs or longer than 65,535 bytes.
    pub malformed: u64,
    /// True if nothing is missing that may not be, or the database never held more than this.
    pub complete: bool,
    /// True if the file was committed under its name: an incomplete one only when that was allowed.
    pub committed: bool,
    /// Facts of a block log.
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
    /// Version of an Antelope log, 0 for others.
    pub version: u32,
    /// The first block.
    pub first: BlockRef,
    /// The last block.
    pub last: BlockRef,
    /// True if it is, before compression, byte for byte the log that was imported.
    pub identical: bool,
    /// Differences of the imported log.
    pub differs: Vec<String>,
}

/// A block that is linked to and not there.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "cli", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct MissingBlock {
    /// Its CID in the usual text form.
    pub cid: String,
    /// The block with the link; `null` for a root.
    pub parent: Option<String>,
    /// The epoch of the header it was found below; `null` where there is none.
    pub epoch: Option<u64>,
    /// True if it may be missing.
    pub allowed: bool,
}
