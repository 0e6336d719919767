//! Large buffers: anonymous memory that costs nothing before it is written, in huge pages where the
//! system gives them. Reading blocks in key order jumps through all of the data; with small pages every jump would
//! also miss the TLB.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use memmap2::{MmapMut, MmapRaw};

use crate::error::{Error, Result};

/// From this size on, in bytes, huge pages are requested.
const HUGE_FROM: usize = 2 << 20;

/// Makes `buffer` hold `len` bytes or more. What it held is lost where it grows, and nothing is written: the system gives
/// zeroed pages when they are first used.
pub fn make_room(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        *buffer = vec![0; len];
    }
}

/// Bytes that a [`Slab`] takes from the system at a time.
const SLAB: usize = 4 * HUGE_FROM;

/// A fixed piece of zeroed memory outside the heap; it goes back to the system at once when dropped, or with the last
/// buffer of its [`Slab`].
pub struct Buffer {
    memory: Arc<MmapRaw>,
    at: usize,
    len: usize,
}

impl Buffer {
    /// Reserves `len` bytes; pages are taken from the system when they are first written.
    ///
    /// # Errors
    /// [`Error::Io`]: the system has no address space left, or refuses to commit the memory.
    pub fn new(len: usize) -> Result<Self> {
        Ok(Self { memory: Arc::new(reserve(len)?), at: 0, len })
    }
}

fn reserve(len: usize) -> Result<MmapRaw> {
    let map = MmapMut::map_anon(len.max(1)).map_err(Error::io("reserve memory for", Path::new("a buffer")))?;
    if len >= HUGE_FROM {
        // Advice only: a system without huge pages works all the same.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map.into())
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are within the memory, and only this buffer has them.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.at), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(self.at), self.len) }
    }
}

/// Makes buffers that are smaller than a huge page and share one: the system takes a fault for each page that is first
/// written.
#[derive(Default)]
pub struct Slab {
    memory: Option<Arc<MmapRaw>>,
    used: usize,
}

impl Slab {
    /// A buffer of `len` bytes.
    ///
    /// # Errors
    /// As [`Buffer::new`].
    pub fn buffer(&mut self, len: usize) -> Result<Buffer> {
        if len >= HUGE_FROM {
            return Buffer::new(len);
        }
        let memory = match &self.memory {
            Some(memory) if memory.len() - self.used >= len => memory,
            _ => {
                self.used = 0;
                self.memory.insert(Arc::new(reserve(SLAB)?))
            }
        };
        let at = self.used;
        self.used += len;
        Ok(Buffer { memory: Arc::clone(memory), at, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_slab_share_no_byte_and_outlive_it() {
        let mut slab = Slab::default();
        let lengths =
            [1, 4096, 700_001, HUGE_FROM - 1, HUGE_FROM, HUGE_FROM - 1, 0, HUGE_FROM - 1, 512 << 10, SLAB + 1, 77];
        let mut buffers: Vec<_> = lengths.iter().map(|len| slab.buffer(*len).expect("memory")).collect();
        drop(slab);
        for (mark, buffer) in (1..).zip(&mut buffers) {
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(mark);
        }
        for ((mark, buffer), len) in (1..).zip(&buffers).zip(lengths) {
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|byte| *byte == mark));
        }
    }
}
