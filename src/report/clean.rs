//! Leftovers of unfinished imports.

use serde::Serialize;

pub const CLEAN_SCHEMA: &str = "bedload-clean-1";

/// Leftovers of unfinished imports.
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
    /// The directory of the unfinished import.
    pub path: String,
    /// Directories with partitions in a work directory.
    pub(crate) work: Vec<String>,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// True if the import was complete, and had only to give the database its name or to clean up.
    pub(crate) complete: bool,
    /// True if the leftovers were removed.
    pub removed: bool,
    /// The reason for keeping the leftovers; `null` if they can be removed.
    pub kept: Option<String>,
}
