//! Loading of CARs: the blocks come in any order, so they are sorted before SST files are built.

pub(super) mod add;
pub(super) mod blocks;
mod build;
pub(super) mod complete;
mod counts;
pub(super) mod earlier;
mod f3;
mod fingerprints;
mod held;
pub(super) mod load;
pub(super) mod memtable;
pub(super) mod read;
