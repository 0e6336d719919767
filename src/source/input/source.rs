//! The compressed bytes: a buffered reader with look-ahead and an offset for messages.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use super::{Compression, CompressionProblem};
use crate::error::{Error, Result};

pub(super) const READ_SIZE: usize = 256 << 10;

pub(super) struct InputReader {
    pub(super) name: PathBuf,
    reader: Box<dyn Read + Send>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the input of `buf[start]`.
    pub(super) offset: u64,
    ended: bool,
    /// True if a decoder read past the end.
    pub(super) starved: bool,
    /// True if the reader failed. Then a decoder reports this failure, not damage.
    is_broken: bool,
}

impl InputReader {
    pub(super) fn new(name: &Path, reader: Box<dyn Read + Send>) -> Self {
        let (buf, start, end, offset, ended, starved, is_broken) = Default::default();
        Self { name: name.to_owned(), reader, buf, start, end, offset, ended, starved, is_broken }
    }

    /// Sets the offset of a reader that begins in the middle of the input.
    pub(super) fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    fn buffered(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads once, and again after an interruption by a signal.
    fn read_once(reader: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match reader.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Buffers at least `want` bytes, or all up to the end.
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
                    self.is_broken = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the next `want` bytes; fewer only at the end of the input.
    pub(super) fn peek(&mut self, want: usize) -> Result<&[u8]> {
        self.buffer(want).map_err(Error::io("read", &self.name))?;
        let bytes = self.buffered();
        Ok(bytes.get(..want).unwrap_or(bytes))
    }

    /// Returns the buffered bytes, at least one; empty only at the end.
    pub(super) fn available(&mut self) -> Result<&[u8]> {
        self.buffer(1).map_err(Error::io("read", &self.name))?;
        Ok(self.buffered())
    }

    pub(super) fn take(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Skips `count` bytes. False if the input ends before.
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

    pub(super) fn skip_zeros(&mut self) -> Result<()> {
        loop {
            match self.available()?.iter().take_while(|byte| **byte == 0).count() {
                0 => return Ok(()),
                zeros => self.take(zeros),
            }
        }
    }

    /// Appends `count` bytes to `to`. False if the input ends before. Memory grows only as bytes arrive.
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

    pub(super) fn bad(&self, offset: u64, problem: CompressionProblem) -> Error {
        Error::bad_input(&self.name, offset, problem)
    }

    pub(super) fn truncated(&self, compression: Compression) -> Error {
        self.bad(self.offset + self.buffered().len() as u64, CompressionProblem::Truncated { compression })
    }

    /// Returns the error for a decoder that failed: the reader's failure, the early end, or damage to the frame that began
    /// at `frame`.
    pub(super) fn decoder_failed(&self, compression: Compression, frame: u64, error: io::Error) -> Error {
        if self.is_broken {
            Error::io("read", &self.name)(error)
        } else if self.starved || error.kind() == io::ErrorKind::UnexpectedEof {
            self.truncated(compression)
        } else {
            self.bad(frame, CompressionProblem::Corrupt { compression, detail: error.to_string() })
        }
    }
}

impl Read for InputReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A large read with an empty buffer goes directly into the caller's memory.
        if self.start == self.end && into.len() >= READ_SIZE && !self.ended {
            let count = Self::read_once(&mut *self.reader, into).inspect_err(|_| self.is_broken = true)?;
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

impl BufRead for InputReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.buffer(1)?;
        self.starved |= self.start == self.end;
        Ok(self.buffered())
    }

    fn consume(&mut self, count: usize) {
        self.take(count);
    }
}
