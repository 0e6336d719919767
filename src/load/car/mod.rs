//! Loading of CARs: the blocks come in any order, so they are sorted before SST files are built.

mod blocks;
mod build;
pub(super) mod completeness;
mod counts;
mod fingerprints;
pub(super) mod load;
pub(super) mod memtable;
mod partition_setup;
mod read;
pub(super) mod resume_source;
mod stored_blocks;
