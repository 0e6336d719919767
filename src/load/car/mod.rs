//! What only a CAR needs: its blocks come in any order, so they are sorted before they are built.

pub(super) mod add;
pub(super) mod blocks;
mod build;
mod fingerprints;
pub(super) mod load;
pub(super) mod memtable;
pub(super) mod read;
