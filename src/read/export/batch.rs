//! Batches: complete sections of a CAR, or blocks of a log, that are compressed together.

use super::options::interrupted;
use crate::error::Error;
use crate::source::forest::Frame;

/// Complete sections and their compressed form.
#[derive(Debug, Default)]
pub(super) struct SectionBatch {
    pub bytes: Vec<u8>,
    /// End offset of each section.
    pub ends: Vec<usize>,
    /// Index hash of each section's CID, if there is an index.
    pub hashes: Vec<u64>,
    pub packed: Vec<u8>,
    /// Frames of `packed`.
    pub frames: Vec<Frame>,
}

impl SectionBatch {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.packed.clear();
        self.frames.clear();
    }
}

/// The writer has ended because of its own error.
#[derive(Debug)]
pub(super) struct Gone;

impl From<Gone> for Error {
    /// Never reaches the caller of an export: `WriterPool::run` returns the writer's own error first.
    fn from(_: Gone) -> Self {
        interrupted()
    }
}
