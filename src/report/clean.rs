//! Leftovers of unfinished imports.

use serde::Serialize;

pub const CLEAN_SCHEMA: &str = "bedload-clean-1";

/// Leftovers of unfinished imports, and those of them that were removed.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CleanReport {
    pub(crate) schema: String,
    /// The directory as the user gave it.
    pub(crate) dir: String,
    /// True if nothing may be removed.
    pub(crate) dry_run: bool,
    /// The leftovers, in the order of paths.
    pub found: Vec<Leftover>,
    /// Bytes that were removed.
    pub removed_bytes: u64,
}

/// The leftovers of one import.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Leftover {
    /// Its directory.
    pub path: String,
    /// Its directories with partitions in a work directory.
    pub(crate) work: Vec<String>,
    /// The size of all files in them.
    pub bytes: u64,
    /// True if the import was complete, and had only to give the database its name or to clean up.
    pub(crate) complete: bool,
    /// True if it was removed.
    pub removed: bool,
    /// The reason why it is kept; `null` if it can be removed.
    pub kept: Option<String>,
}
