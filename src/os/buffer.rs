//! Large buffers: anonymous memory that costs nothing before it is written, in huge pages where the
//! system gives them. Reading blocks in key order jumps through all of the data; with small pages every jump would
//! also miss the TLB.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use memmap2::{MmapMut, MmapOptions};

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

/// A fixed piece of zeroed memory outside the heap; it goes back to the system at once when dropped.
pub struct Buffer(MmapMut);

impl Buffer {
    /// Reserves `len` bytes; pages are taken from the system when they are first written.
    ///
    /// # Errors
    /// [`Error::Io`]: the system has no address space left, or refuses to commit the memory.
    pub fn new(len: usize) -> Result<Self> {
        let map = MmapMut::map_anon(len.max(1)).map_err(Error::io("reserve memory for", Path::new("a buffer")))?;
        if len >= HUGE_FROM {
            // Advice only: a system without huge pages works all the same.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self(map))
    }

    /// The same with pages that the system gives all at once, which costs it less than one after the other.
    ///
    /// # Errors
    /// As [`Buffer::new`].
    pub fn populated(len: usize) -> Result<Self> {
        let map = MmapOptions::new().len(len.max(1)).populate().map_anon();
        Ok(Self(map.map_err(Error::io("reserve memory for", Path::new("a buffer")))?))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
