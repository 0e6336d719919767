//! What unfinished imports have left.

use serde::Serialize;

/// The version of this document; it changes when a field changes its meaning or goes.
pub const CLEAN_SCHEMA: &str = "bedload-clean-1";

/// What unfinished imports have left, and what was removed of it.
#[derive(Debug, Clone, Serialize)]
pub struct CleanReport {
    /// Name and version of this document.
    pub schema: String,
    /// The directory as the user gave it.
    pub dir: String,
    /// Whether nothing was to be removed.
    pub dry_run: bool,
    /// What was found, in the order of paths.
    pub found: Vec<Leftover>,
    /// Bytes that were removed.
    pub removed_bytes: u64,
}

/// What one import has left.
#[derive(Debug, Clone, Serialize)]
pub struct Leftover {
    /// Its directory.
    pub path: String,
    /// Its directories with partitions in a work directory.
    pub work: Vec<String>,
    /// The size of all files in them.
    pub bytes: u64,
    /// Whether the import was complete, and had only to give the database its name or to clean up.
    pub complete: bool,
    /// Whether it was removed.
    pub removed: bool,
    /// Why it was not, or would not be; none where nothing stands against it.
    pub kept: Option<String>,
}
