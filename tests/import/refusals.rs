//! Imports that are refused, with little memory, and snapshots to begin with.

use crate::common::car::*;
use crate::common::run::{Done, Place, Run, import, import_pipe};

/// The address space a refusal may take, in MiB: room for threads and libraries, not for claimed lengths.
pub const ADDRESS_SPACE: u64 = 2048;

fn small(run: Run) -> Done {
    run.args(&["--memory", "64MiB", "--threads", "2"]).within(ADDRESS_SPACE).run()
}

/// Imports a wrong snapshot from a file, with little memory.
#[track_caller]
pub fn refused(bytes: &[u8], offset: impl Into<Option<u64>>, reason: &str) {
    let place = Place::new();
    small(import(&place, place.file("wrong.car", bytes))).refused(3, offset, reason);
}

/// Imports a wrong snapshot from a pipe.
#[track_caller]
pub fn refused_piped(bytes: &[u8], offset: impl Into<Option<u64>>, reason: &str) {
    small(import_pipe(&Place::new(), bytes)).refused(3, offset, reason);
}

/// Imports a wrong snapshot from a file and from a pipe.
#[track_caller]
pub fn refused_both(bytes: &[u8], offset: impl Into<Option<u64>> + Copy, reason: &str) {
    refused(bytes, offset, reason);
    refused_piped(bytes, offset, reason);
}

/// Imports a valid snapshot with `tail` after it, which is refused `after` bytes into it.
#[track_caller]
pub fn tail_refused(tail: &[u8], after: u64, reason: &str) {
    let (bytes, at) = followed_by(tail);
    refused_both(&bytes, at + after, reason);
}

/// A section with this content.
pub fn framed(content: &[u8]) -> Vec<u8> {
    [varint(content.len() as u64), content.to_vec()].concat()
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
