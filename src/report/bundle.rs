//! The result of publishing a bundle.

use serde::Serialize;

pub const BUNDLED_SCHEMA: &str = "bedload-bundled-1";

/// The result of publishing a bundle.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct BundleReport {
    /// Name and version of this report.
    pub schema: String,
    /// The database's path as the user gave it; empty where parts were joined.
    pub db: String,
    /// The place of the bundle.
    pub place: String,
    /// Its id: the BLAKE3 of its `bundle.json`. Of a part, the name of the set that it belongs to.
    pub id: String,
    /// The number of the shard, where only its part was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Number of joined parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<u32>,
    /// Records in it, of all column families.
    pub records: u64,
    /// Files in it.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Files that were not there and were written.
    pub uploaded_files: u64,
    /// Their size in bytes.
    pub uploaded_bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
}
