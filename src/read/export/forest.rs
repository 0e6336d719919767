//! Records the frame of each block for the index of a `.forest.car.zst`. `source::forest` writes frames and index.

use std::io;

use super::batch::SectionBatch;
use crate::source::car::CidSpan;
use crate::source::forest::{Index, slot_hash};

/// Hash of a block in the index.
pub(super) fn slot(span: &CidSpan, cid: &[u8]) -> u64 {
    slot_hash(span.codec, span.hash, cid.get(span.digest as usize..).unwrap_or_default())
}

/// Records the blocks of a batch that is written at `position`.
pub(super) fn note(index: &mut Index, batch: &SectionBatch, position: u64) -> io::Result<()> {
    let mut hashes = batch.hashes.iter();
    let (mut start, mut before) = (0, 0);
    for frame in &batch.frames {
        for &hash in hashes.by_ref().take(frame.sections - before) {
            index.add_hash(hash, position + start)?;
        }
        (start, before) = (frame.end as u64, frame.sections);
    }
    Ok(())
}
