//! Chunks of a CAR: whole sections, in memory or mapped.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::os::buffer::Buffer;
use crate::os::mmap::Mapped;
use crate::os::resources::prefetch;

/// Consecutive whole sections.
pub(crate) struct Chunk {
    pub index: u32,
    pub source: u32,
    pub name: Arc<Path>,
    /// Offset of the first byte in the decompressed source.
    pub base: u64,
    pub bytes: ChunkBytes,
    /// Start of each section in `bytes`.
    pub starts: Vec<u32>,
}

pub(crate) enum ChunkBytes {
    Read { buffer: Buffer, len: usize },
    Mapped { map: Arc<Mapped>, at: usize, len: usize },
}

impl ChunkBytes {
    /// Fails if a mapped file was cut, or the disk failed, while the bytes were used.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Read { .. } => Ok(()),
            Self::Mapped { map, .. } => map.check(),
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        let bytes = if let Self::Read { buffer, .. } = self { buffer.len() } else { self.len() };
        bytes as u64
    }

    /// Moves the bytes into a `new` buffer if they take less than half of theirs, and returns the old one.
    pub fn shrink(&mut self, new: impl FnOnce(usize) -> Result<Buffer>) -> Result<Option<Buffer>> {
        let Self::Read { buffer, len } = self else { return Ok(None) };
        if *len > buffer.len() / 2 {
            return Ok(None);
        }
        let mut small = new(len.next_multiple_of(rustix::param::page_size()))?;
        small[..*len].copy_from_slice(&buffer[..*len]);
        Ok(Some(std::mem::replace(buffer, small)))
    }

    /// Keeps the first bytes.
    pub fn truncate(&mut self, to: usize) {
        let (Self::Read { len, .. } | Self::Mapped { len, .. }) = self;
        *len = to.min(*len);
    }

    /// Populates the likely bytes of the chunk that is `chunks` later, and returns them. Empty if chunks are not mapped.
    pub fn ahead(&self, chunks: usize) -> &[u8] {
        let Self::Mapped { map, at, len } = self else { return &[] };
        let from = at.saturating_add(len.saturating_mul(chunks)).min(map.len());
        let bytes = &map[from..from.saturating_add(*len).min(map.len())];
        map.populate(from, bytes.len());
        bytes
    }

    /// Releases the bytes, and returns their buffer for reuse.
    pub fn release(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } => Some(buffer),
            Self::Mapped { map, at, len } => {
                map.release(at, len);
                None
            }
        }
    }
}

impl Deref for ChunkBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Read { buffer, len } => &buffer[..*len],
            Self::Mapped { map, at, len } => &map[*at..*at + *len],
        }
    }
}

/// Distance ahead of a hop at which bytes are prefetched. All will be hashed, and hops are too far apart for the processor's
/// own prefetching.
const ASK_AHEAD: usize = 8 << 10;

/// Prefetches the next 1 KiB.
pub(crate) fn prefetch_ahead(bytes: &[u8], at: usize) {
    let from = at.saturating_add(ASK_AHEAD).min(bytes.len());
    for line in bytes[from..(from + 1088).min(bytes.len())].iter().step_by(64) {
        prefetch(line);
    }
}
