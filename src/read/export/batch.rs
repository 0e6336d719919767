//! Whole sections of a CAR, or blocks of a log, that are packed together.

use super::options::interrupted;
use crate::error::Error;
use crate::source::forest::Frame;

/// Whole sections, and their compressed form.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub bytes: Vec<u8>,
    /// End offset of each section.
    pub ends: Vec<usize>,
    /// The hash of each section's CID in the index, where there is one.
    pub hashes: Vec<u64>,
    pub packed: Vec<u8>,
    /// The frames of `packed`.
    pub frames: Vec<Frame>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.packed.clear();
        self.frames.clear();
    }
}

/// The writer has ended; its own error is the cause.
#[derive(Debug)]
pub(super) struct Gone;

impl From<Gone> for Error {
    /// Never reaches the caller of an export: `WriterPool::run` returns the writer's own error first.
    fn from(_: Gone) -> Self {
        interrupted()
    }
}
