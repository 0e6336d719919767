//! The compressed bytes: a reader with look-ahead and with the offset that every message names.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use super::{Compression, CompressionProblem};
use crate::error::{Error, Result};

/// Bytes requested from the operating system at once.
pub(super) const READ_SIZE: usize = 256 << 10;

/// A buffered reader that knows where it is.
pub(super) struct Source {
    name: PathBuf,
    reader: Box<dyn Read + Send>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the input of `buf[start]`.
    offset: u64,
    /// The reader has nothing more.
    ended: bool,
    /// The caller requested bytes behind the end.
    starved: bool,
    /// The reader failed: what a decoder reports then is this failure, not damage.
    broken: bool,
}

impl Source {
    pub(super) fn new(name: &Path, reader: Box<dyn Read + Send>) -> Self {
        Self {
            name: name.to_owned(),
            reader,
            buf: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            starved: false,
            broken: false,
        }
    }

    /// The same for a reader that begins in the middle of the input.
    pub(super) fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// The same input read on from here through another reader (which takes over what is buffered, too).
    pub(super) fn read_through(self, wrap: impl FnOnce(Self) -> Result<Box<dyn Read + Send>>) -> Result<Self> {
        let (name, offset) = (self.name.clone(), self.offset);
        let mut source = Self::new(&name, wrap(self)?);
        source.offset = offset;
        Ok(source)
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether a read came back empty because the input has ended.
    pub(super) fn starved(&self) -> bool {
        self.starved
    }

    fn buffered(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads once into `into`, past interruptions by signals.
    fn read_once(reader: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match reader.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Buffers at least `want` bytes, as far as there are any.
    fn buffer(&mut self, want: usize) -> io::Result<()> {
        if self.buf.is_empty() {
            self.buf = vec![0; READ_SIZE];
        }
        debug_assert!(want <= self.buf.len(), "look-ahead of {want} bytes is more than is buffered");
        if self.end - self.start >= want || self.ended {
            return Ok(());
        }
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < want && !self.ended {
            let room = self.buf.get_mut(self.end..).unwrap_or_default();
            match Self::read_once(&mut *self.reader, room) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) => {
                    self.broken = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the next `want` bytes; fewer only where the input ends.
    pub(super) fn peek(&mut self, want: usize) -> Result<&[u8]> {
        self.buffer(want).map_err(Error::io("read", &self.name))?;
        let bytes = self.buffered();
        Ok(bytes.get(..want).unwrap_or(bytes))
    }

    /// Whatever is buffered, at least one byte; empty only at the end.
    pub(super) fn available(&mut self) -> Result<&[u8]> {
        self.buffer(1).map_err(Error::io("read", &self.name))?;
        Ok(self.buffered())
    }

    /// Takes `count` of the buffered bytes.
    pub(super) fn take(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Passes over `count` bytes; false if the input ends before.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<bool> {
        while count > 0 {
            let here = self.available()?.len();
            if here == 0 {
                return Ok(false);
            }
            let step = usize::try_from(count).unwrap_or(usize::MAX).min(here);
            self.take(step);
            count -= step as u64;
        }
        Ok(true)
    }

    /// Appends `count` bytes to `to`; false if the input ends before. Memory grows only with what is really there.
    pub(super) fn append(&mut self, mut count: usize, to: &mut Vec<u8>) -> Result<bool> {
        while count > 0 {
            let here = self.available()?;
            if here.is_empty() {
                return Ok(false);
            }
            let step = count.min(here.len());
            to.extend_from_slice(here.get(..step).unwrap_or(here));
            self.take(step);
            count -= step;
        }
        Ok(true)
    }

    /// A problem of the compression at an offset.
    pub(super) fn bad(&self, offset: u64, problem: CompressionProblem) -> Error {
        Error::bad_input(&self.name, offset, problem)
    }

    /// The input ends here, and must not.
    pub(super) fn truncated(&self, compression: Compression) -> Error {
        self.bad(self.offset + self.buffered().len() as u64, CompressionProblem::Truncated { compression })
    }

    /// What a decoder that reads through `self` reported: the reader's failure, the early end, or damage to the frame
    /// that began at `frame`.
    pub(super) fn decoder_failed(&self, compression: Compression, frame: u64, error: io::Error) -> Error {
        if self.broken {
            Error::io("read", &self.name)(error)
        } else if self.starved || error.kind() == io::ErrorKind::UnexpectedEof {
            self.truncated(compression)
        } else {
            self.bad(frame, CompressionProblem::Corrupt { compression, detail: error.to_string() })
        }
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A large read with nothing buffered goes straight into the caller's memory.
        if self.start == self.end && into.len() >= READ_SIZE && !self.ended {
            let count = Self::read_once(&mut *self.reader, into).inspect_err(|_| self.broken = true)?;
            self.ended = count == 0;
            self.starved |= count == 0;
            self.offset += count as u64;
            return Ok(count);
        }
        let here = self.fill_buf()?;
        let count = here.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), here.get(..count)) {
            to.copy_from_slice(from);
        }
        self.take(count);
        Ok(count)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.buffer(1)?;
        self.starved |= self.start == self.end;
        Ok(self.buffered())
    }

    fn consume(&mut self, count: usize) {
        self.take(count);
    }
}
