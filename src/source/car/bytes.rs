//! Where the bytes of a CAR come from: a file that is read at places, one that is mapped, or a stream.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};

use crate::error::{Error, Result};
use crate::os::mmap::Mapped;
use crate::source::car::read_ahead::{ReadAhead, read_at_most};
use crate::source::foreign;
use crate::source::input::ByteStream;

/// Bytes that are read at once where they are only passed by.
const PASSED: usize = 64 << 10;

/// The most that is read of a stream that is no CAR, to see whether it ends as a table of RocksDB, in bytes. Tables are
/// seldom larger.
const MOST_TO_THE_END: usize = 320 << 20;

/// How far ahead of the reading position the system is advised to read, in bytes.
const READ_AHEAD: u64 = 16 << 20;

/// The data of the source that is read now.
pub(super) enum Bytes {
    File { file: File, at: u64, ahead: Ahead },
    Mapped { file: File, map: Arc<Mapped>, at: usize, advised: u64 },
    Stream(Box<dyn ByteStream>),
}

impl Bytes {
    /// The last eight bytes of what begins with `head`, which has been read; zeros where they cannot be had. A stream is
    /// read for them, up to the size of a table of RocksDB, where it begins as one.
    pub fn tail(&mut self, head: &[u8]) -> [u8; 8] {
        let mut tail = [0; 8];
        let found = match self {
            Self::Mapped { .. } => None,
            Self::Stream(_) if !foreign::begins_as_table(head) => None,
            Self::File { file, .. } => {
                let end = file.metadata().ok().and_then(|metadata| metadata.len().checked_sub(8));
                end.and_then(|end| file.read_exact_at(&mut tail, end).ok())
            }
            Self::Stream(stream) => {
                let mut last = head.last_chunk().copied().unwrap_or_default();
                let ended = to_the_end(&mut **stream, &mut last);
                tail = last;
                ended
            }
        };
        found.map_or([0; 8], |()| tail)
    }

    /// Goes to an offset of the data; a stream is there already.
    pub fn seek(&mut self, offset: u64) {
        match self {
            Self::File { at, .. } => *at = offset,
            Self::Mapped { map, at, .. } => *at = usize::try_from(offset).unwrap_or(usize::MAX).min(map.len()),
            Self::Stream(_) => {}
        }
    }

    pub fn fill(&mut self, buf: &mut [u8], name: &Path) -> Result<usize> {
        match self {
            Self::Stream(stream) => stream.fill(buf),
            Self::Mapped { map, at, .. } => {
                let rest = &map[*at..];
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                *at += len;
                map.check()?;
                Ok(len)
            }
            Self::File { at, ahead: Ahead::Threads(threads), .. } => {
                let filled = threads.fill(buf, *at).map_err(Error::io("read", name))?;
                *at += filled as u64;
                Ok(filled)
            }
            Self::File { file, at, ahead: Ahead::Advised(advised) } => {
                let filled = read_at_most(file, buf, *at).map_err(Error::io("read", name))?;
                *at += filled as u64;
                advise(file, *at, advised);
                Ok(filled)
            }
        }
    }
}

/// What reads a file ahead.
pub(super) enum Ahead {
    /// The system was advised to read up to there.
    Advised(u64),
    /// Threads have read it up to some pieces ahead.
    Threads(ReadAhead),
}

impl Default for Ahead {
    fn default() -> Self {
        Self::Advised(0)
    }
}

impl Ahead {
    /// From now on threads read ahead.
    ///
    /// # Errors
    /// [`Error::Io`]: the system refuses a thread.
    pub fn start_threads(&mut self, file: &File, name: &Path) -> Result<()> {
        let file = file.try_clone().map_err(Error::io("open", name))?;
        *self = Self::Threads(ReadAhead::new(file)?);
        Ok(())
    }
}

/// Reads a stream to its end, of which `last` becomes the last bytes; `None` where it is too long or cannot be read.
fn to_the_end(stream: &mut dyn ByteStream, last: &mut [u8; 8]) -> Option<()> {
    let mut buf = vec![0; PASSED.max(last.len())];
    for _ in 0..MOST_TO_THE_END / buf.len() {
        let filled = stream.fill(&mut buf).ok()?;
        match buf[..filled].last_chunk() {
            Some(chunk) => *last = *chunk,
            None => {
                last.rotate_left(filled);
                last[8 - filled..].copy_from_slice(&buf[..filled]);
            }
        }
        if filled < buf.len() {
            return Some(());
        }
    }
    None
}

/// Advises the system to read ahead.
pub(super) fn advise(file: &File, at: u64, advised: &mut u64) {
    if at + READ_AHEAD / 2 > *advised {
        let from = (*advised).max(at);
        // Advice only: without it the next read waits for the disk.
        let _ = fadvise(file, from, NonZeroU64::new(READ_AHEAD), Advice::WillNeed);
        *advised = from + READ_AHEAD;
    }
}

/// A stream without bytes: what is read when nothing is open.
pub(super) struct Nothing;

impl ByteStream for Nothing {
    fn fill(&mut self, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn consumed(&self) -> u64 {
        0
    }
}
