//! What a reader of a CAR hands out: whole sections, in memory or mapped.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::os::buffer::Buffer;
use crate::os::mmap::Mapped;
use crate::os::resources::prefetch;

/// Whole sections, one behind the other.
pub(crate) struct Chunk {
    /// Which chunk this is, counted from 0.
    pub index: u32,
    /// The source that it is of, counted from 0, and the name of that.
    pub source: u32,
    pub name: Arc<Path>,
    /// The offset of its first byte in the decompressed source.
    pub base: u64,
    /// Whole sections and nothing else.
    pub bytes: ChunkBytes,
    /// Where each section begins in `bytes`.
    pub starts: Vec<u32>,
}

/// The bytes of a chunk: read into memory, or mapped from the page cache.
pub(crate) enum ChunkBytes {
    /// Only the first `len` bytes belong to the chunk.
    Read { buffer: Buffer, len: usize },
    /// `len` bytes from `at` of a mapped file.
    Mapped { map: Arc<Mapped>, at: usize, len: usize },
}

impl ChunkBytes {
    /// Whether the bytes were really there when they were read.
    ///
    /// # Errors
    /// [`Error::Io`]: the file was cut, or the disk failed, meanwhile.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Read { .. } => Ok(()),
            Self::Mapped { map, .. } => map.check(),
        }
    }

    /// As many bytes of the source as these, which `chunks` chunks later are likely to hold, and mapped by now; none where
    /// chunks are read.
    pub fn ahead(&self, chunks: usize) -> &[u8] {
        let Self::Mapped { map, at, len } = self else { return &[] };
        let from = at.saturating_add(len.saturating_mul(chunks)).min(map.len());
        let bytes = &map[from..from.saturating_add(*len).min(map.len())];
        map.populate(from, bytes.len());
        bytes
    }

    /// Releases the bytes. The buffer, if they had one, can be used again.
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

/// How far ahead of a hop bytes are prefetched. All of them will be hashed, and hops alone are too far apart for the
/// processor to detect their direction.
const ASK_AHEAD: usize = 8 << 10;

/// Prefetches 1 KiB behind what was prefetched before.
pub(crate) fn prefetch_ahead(bytes: &[u8], at: usize) {
    let from = at.saturating_add(ASK_AHEAD).min(bytes.len());
    for line in bytes[from..(from + 1088).min(bytes.len())].iter().step_by(64) {
        prefetch(line);
    }
}
