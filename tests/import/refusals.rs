//! Imports that are refused, with little memory, and snapshots to begin with.

use crate::common::car::*;
use crate::common::run::{Import, Place, import, import_pipe};

/// The address space a refusal may take, in MiB: room for threads and libraries, not for claimed lengths.
pub const ADDRESS_SPACE: u64 = 2048;

/// Imports a wrong snapshot from a file, with little memory.
pub fn refused(bytes: &[u8], offset: impl Into<Option<u64>> + Copy, reason: &str) {
    let place = Place::new();
    let run = |run: Import| run.args(&["--memory", "64MiB", "--threads", "2"]).within(ADDRESS_SPACE).run();
    run(import(&place, place.file("wrong.car", bytes))).refused(3, offset, reason);
}

/// Imports a wrong snapshot from a pipe.
pub fn refused_piped(bytes: &[u8], offset: impl Into<Option<u64>> + Copy, reason: &str) {
    let place = Place::new();
    let run = import_pipe(&place, bytes).args(&["--memory", "64MiB", "--threads", "2"]).within(ADDRESS_SPACE);
    run.run().refused(3, offset, reason);
}

/// From a file and from a pipe alike.
pub fn refused_both(bytes: &[u8], offset: impl Into<Option<u64>> + Copy, reason: &str) {
    refused(bytes, offset, reason);
    refused_piped(bytes, offset, reason);
}

/// Three blocks; lengths of one and of two bytes.
pub fn blocks() -> Vec<Block> {
    vec![block(b"the first"), sha256(RAW, &noise(1, 150)), block(&noise(2, 20))]
}

/// Blocks of half a MiB together: more than is read to find the header.
pub fn many() -> Vec<Block> {
    (0..500).map(|i| block(&noise(i, 1000 + i as usize % 7))).collect()
}

/// A right snapshot, then `tail`; and where the tail begins.
pub fn followed_by(tail: &[u8]) -> (Vec<u8>, u64) {
    let mut bytes = rooted(&blocks());
    let at = bytes.len() as u64;
    bytes.extend(tail);
    (bytes, at)
}
