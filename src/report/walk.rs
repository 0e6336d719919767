//! The result of a walk.

use serde::{Deserialize, Serialize};

use super::MissingBlock;

pub const WALK_SCHEMA: &str = "bedload-walk-1";

/// The result of a walk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WalkReport {
    /// Name and version of this document.
    pub schema: String,
    /// The database's path as the user gave it.
    pub db: String,
    /// The roots of the walk: CIDs in their usual text form.
    pub roots: Vec<String>,
    /// True if no link leads to a block that is missing and must not be.
    pub complete: bool,
    /// Tipsets the walk was limited to; `null` for all.
    pub tipsets: Option<u32>,
    /// Distinct blocks of the database that the roots lead to.
    pub reachable: u64,
    /// Their size in bytes.
    pub reachable_bytes: u64,
    /// Distinct blocks that are linked to and not there.
    pub missing: u64,
    /// Number of these that may be missing: headers below the given epoch name them.
    pub missing_allowed: u64,
    /// Records of the database that nothing leads to; `null` when the walk was limited.
    pub unreachable: Option<u64>,
    /// Distinct links to sector commitments, which name no block.
    pub commitments: u64,
    /// Distinct identity CIDs that occur only in links: they carry their block inside.
    pub identity: u64,
    /// Blocks that do not match their codec, and links that are not CIDs or longer than 65,535 bytes.
    pub malformed: u64,
    /// Depth of the walk in links: along the chain of headers, and from there to the deepest block below them.
    pub depth: u64,
    /// The first ten missing blocks, in the order of discovery.
    pub first_missing: Vec<MissingBlock>,
    /// The first ten unreachable records, in the order of their keys.
    pub first_unreachable: Vec<String>,
    /// Duration in seconds.
    pub seconds: f64,
}
