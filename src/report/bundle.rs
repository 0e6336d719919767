//! The result of publishing a bundle.

use serde::Serialize;

pub const BUNDLED_SCHEMA: &str = "bedload-bundled-1";

/// The result of publishing a bundle.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct BundleReport {
    /// Name and version of this report.
    pub schema: String,
    /// The database's path as the user gave it; empty if parts were joined.
    pub db: String,
    /// The place of the bundle.
    pub place: String,
    /// The id: BLAKE3 of `bundle.json`; for a part, the name of its set of parts.
    pub id: String,
    /// The number of the shard, if only its part was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Number of joined parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<u32>,
    /// Number of records of all column families.
    pub records: u64,
    /// Number of files.
    pub files: u64,
    /// Size of the files, in bytes.
    pub bytes: u64,
    /// Number of uploaded files: those that the place did not have.
    pub uploaded_files: u64,
    /// Size of the uploaded files, in bytes.
    pub uploaded_bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
}
