//! xz: one or more streams, with zeros between and after them in multiples of four bytes
//! (<https://tukaani.org/xz/xz-file-format.txt>). Every integrity check is verified; unknown ones are refused.

use liblzma::stream::{Action, Error as XzError, Status, Stream, TELL_UNSUPPORTED_CHECK};

use super::ahead::Decompressor;
use super::source::InputReader;
use super::{Compression, CompressionProblem, detect};
use crate::error::{Error, Result};

/// Least memory of liblzma: with less it decompresses nothing.
const LEAST_MEMORY: u64 = 1 << 20;

pub(super) struct Xz {
    source: InputReader,
    stream: Option<Stream>,
    start: u64,
    limit: u64,
}

impl Xz {
    /// Decompresses `source` with at most `memory` bytes for the decoder.
    pub(super) fn new(source: InputReader, memory: u64) -> Self {
        Self { source, stream: None, start: 0, limit: memory.max(LEAST_MEMORY) }
    }

    /// Skips the padding. True if another stream follows, false at the end of the input.
    fn next_stream(&mut self) -> Result<bool> {
        let padding = self.source.offset;
        self.source.skip_zeros()?;
        let trailing = CompressionProblem::TrailingData { compression: Compression::Xz };
        let whole = (self.source.offset - padding).is_multiple_of(4);
        let head = self.source.peek(detect::XZ.len())?;
        if !whole {
            return Err(self.source.bad(padding, trailing));
        }
        match head {
            [] => Ok(false),
            head if head == detect::XZ => Ok(true),
            head if detect::XZ.starts_with(head) => Err(self.source.truncated(Compression::Xz)),
            _ => Err(self.source.bad(self.source.offset, trailing)),
        }
    }

    fn failed(&self, stream: &mut Stream, error: XzError) -> Error {
        let corrupt =
            |detail: &str| CompressionProblem::Corrupt { compression: Compression::Xz, detail: detail.into() };
        let problem = match error {
            XzError::MemLimit => CompressionProblem::NeedsMemory {
                compression: Compression::Xz,
                needed: needed(stream),
                limit: self.limit,
            },
            XzError::Mem => {
                return Error::io("decompress", &self.source.name)(std::io::ErrorKind::OutOfMemory.into());
            }
            XzError::UnsupportedCheck => corrupt("its integrity check is of an unknown kind"),
            XzError::Options => corrupt("it asks for unknown options"),
            XzError::Format => corrupt("not xz"),
            XzError::Data => corrupt("the data or its checksum is wrong"),
            other => corrupt(&other.to_string()),
        };
        self.source.bad(self.start, problem)
    }
}

/// Returns the least power of two that liblzma accepts as a limit after it refused one.
fn needed(stream: &mut Stream) -> u64 {
    (20..63).map(|log| 1u64 << log).find(|limit| stream.set_memlimit(*limit).is_ok()).unwrap_or(u64::MAX)
}

impl Decompressor for Xz {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None if self.next_stream()? => {
                    self.start = self.source.offset;
                    Stream::new_stream_decoder(self.limit, TELL_UNSUPPORTED_CHECK)
                        .map_err(|error| Error::io("decompress", &self.source.name)(std::io::Error::other(error)))?
                }
                None => return Ok(0),
            };
            let input = self.source.available()?;
            let at_end = input.is_empty();
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, out, if at_end { Action::Finish } else { Action::Run });
            let (read, written) = (stream.total_in() - read, stream.total_out() - written);
            // Both are bounded by the lengths of the slices.
            self.source.take(usize::try_from(read).unwrap_or(usize::MAX));
            let written = usize::try_from(written).unwrap_or(usize::MAX);
            match status {
                Ok(Status::StreamEnd) => {}
                Ok(_) if at_end && written == 0 => return Err(self.source.truncated(Compression::Xz)),
                Ok(_) => self.stream = Some(stream),
                Err(error) => return Err(self.failed(&mut stream, error)),
            }
            if written > 0 {
                return Ok(written);
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.source.offset
    }
}
