//! The result of a walk.

use serde::{Deserialize, Serialize};

use super::MissingBlock;

pub const WALK_SCHEMA: &str = "bedload-walk-1";

/// The result of a walk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WalkReport {
    /// Name and version of this document.
    pub schema: String,
    /// The path of the database.
    pub db: String,
    /// CIDs of the roots of the walk in the usual text form.
    pub roots: Vec<String>,
    /// True if every linked block exists, except those that may be missing.
    pub complete: bool,
    /// Number of tipsets that the walk was limited to; `null` if it was not limited.
    pub tipsets: Option<u32>,
    /// Number of distinct blocks that the roots link to, directly or through other blocks.
    pub reachable: u64,
    /// Size of the reachable blocks in bytes.
    pub reachable_bytes: u64,
    /// Number of distinct linked blocks that are not in the database.
    pub missing: u64,
    /// Number of missing blocks that may be missing, because only headers below the given epoch link to them.
    pub missing_allowed: u64,
    /// Number of records that the walk did not reach; `null` if the walk was limited.
    pub unreachable: Option<u64>,
    /// Number of distinct links to sector commitments, which have no block.
    pub commitments: u64,
    /// Number of distinct identity CIDs that occur only in links. An identity CID contains its block.
    pub identity: u64,
    /// Number of blocks that do not match their codec, and of links that are no CIDs or exceed 65,535 bytes.
    pub malformed: u64,
    /// Depth of the walk in links: along the chain of headers, then to the deepest block below a header.
    pub depth: u64,
    /// The first ten missing blocks, in the order of discovery.
    pub first_missing: Vec<MissingBlock>,
    /// The first ten unreachable records, in the order of their keys.
    pub first_unreachable: Vec<String>,
    /// Duration in seconds.
    pub seconds: f64,
}
