//! Formats of consecutive frames, each with a separate decoder.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;

use super::ahead::{Decompressor, thread_died};
use super::source::InputReader;
use super::{Compression, CompressionProblem, detect};
use crate::error::Result;

/// A decoder of one frame. A read of zero bytes is the end of the frame.
pub(super) trait FrameReader: Read + Sized + Send + 'static {
    const COMPRESSION: Compression;

    /// Moves to the next frame. False at the clean end of the input.
    fn find(source: &mut InputReader) -> Result<bool>;
    fn begin(source: InputReader) -> Result<Self>;
    fn source(&self) -> &InputReader;
    /// Ends the frame that began at `start`, and returns the source.
    fn end(self, start: u64) -> Result<InputReader>;

    /// Makes the decoder's error readable.
    fn in_words(error: io::Error) -> io::Error {
        error
    }
}

enum State<F> {
    Between(InputReader),
    Frame(F),
}

pub(super) struct Frames<F> {
    /// `None` after an error.
    state: Option<State<F>>,
    start: u64,
    consumed: u64,
}

impl<F> Frames<F> {
    pub fn new(source: InputReader) -> Self {
        Self { state: Some(State::Between(source)), start: 0, consumed: 0 }
    }
}

impl<F: FrameReader> Decompressor for Frames<F> {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            // Never called again after an error.
            let state = self.state.take().ok_or_else(|| thread_died("-".as_ref()))?;
            self.state = Some(match state {
                State::Between(mut source) => {
                    let has_next = F::find(&mut source)?;
                    self.consumed = source.offset;
                    if !has_next {
                        self.state = Some(State::Between(source));
                        return Ok(0);
                    }
                    self.start = source.offset;
                    State::Frame(F::begin(source)?)
                }
                State::Frame(mut frame) => match frame.read(out) {
                    Ok(0) => State::Between(frame.end(self.start)?),
                    Ok(count) => {
                        self.consumed = frame.source().offset;
                        self.state = Some(State::Frame(frame));
                        return Ok(count);
                    }
                    Err(error) => {
                        return Err(frame.source().decoder_failed(F::COMPRESSION, self.start, F::in_words(error)));
                    }
                },
            });
        }
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

// gzip: one or more members (<https://www.rfc-editor.org/rfc/rfc1952>), each with its CRC and length checked.
//
// Zeros up to the end of the file are padding, as for gzip(1): tapes and block devices leave them. Anything else after a
// member is refused, including another member after zeros.
impl FrameReader for GzDecoder<InputReader> {
    const COMPRESSION: Compression = Compression::Gzip;

    fn find(source: &mut InputReader) -> Result<bool> {
        match source.peek(detect::GZIP.len())? {
            [] => Ok(false),
            head if head == detect::GZIP => Ok(true),
            head if detect::GZIP.starts_with(head) => Err(source.truncated(Compression::Gzip)),
            _ => {
                let end = source.offset;
                source.skip_zeros()?;
                match source.available()? {
                    [] => Ok(false),
                    _ => Err(source.bad(end, CompressionProblem::TrailingData { compression: Compression::Gzip })),
                }
            }
        }
    }

    fn begin(source: InputReader) -> Result<Self> {
        Ok(Self::new(source))
    }

    fn source(&self) -> &InputReader {
        self.get_ref()
    }

    fn end(self, _: u64) -> Result<InputReader> {
        Ok(self.into_inner())
    }
}

// lz4 frames (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>), concatenated, with skippable frames
// anywhere and every checksum verified. Legacy frames (`lz4 -l`) and dictionaries are not supported.
//
// ```text
//   04 22 4d 18 | FLG BD (size u64) HC | block ... | 00 00 00 00 | (content checksum u32, if FLG bit 2)
// ```
//
// `lz4_flex` reports a frame that is cut before a block as finished. So this module checks that a frame is complete: the
// decoder did not read past the end, and the last word is the end mark.
/// FLG: a checksum follows the end mark.
const CONTENT_CHECKSUM: u8 = 1 << 2;

/// A reader that keeps the last eight bytes.
struct LastBytes {
    source: InputReader,
    last: u64,
}

impl Read for LastBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        let got = into.get(..count).unwrap_or_default();
        for byte in got.iter().skip(count.saturating_sub(8)) {
            self.last = self.last << 8 | u64::from(*byte);
        }
        Ok(count)
    }
}

/// A frame. `lz4_flex` does not expect the block size to change, so each frame gets a new decoder.
pub(super) struct Lz4 {
    decoder: FrameDecoder<LastBytes>,
    /// True if a checksum follows the end mark.
    checksum: bool,
}

impl Read for Lz4 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into)
    }
}

impl FrameReader for Lz4 {
    const COMPRESSION: Compression = Compression::Lz4;

    fn find(source: &mut InputReader) -> Result<bool> {
        detect::next_frame(source, Compression::Lz4, None)
    }

    fn begin(mut source: InputReader) -> Result<Self> {
        let Some(flags) = source.peek(5)?.get(4).copied() else {
            return Err(source.truncated(Compression::Lz4));
        };
        let decoder = FrameDecoder::new(LastBytes { source, last: 0 });
        Ok(Self { decoder, checksum: flags & CONTENT_CHECKSUM != 0 })
    }

    fn source(&self) -> &InputReader {
        &self.decoder.get_ref().source
    }

    fn end(self, start: u64) -> Result<InputReader> {
        let LastBytes { source, last } = self.decoder.into_inner();
        if source.starved {
            return Err(source.truncated(Compression::Lz4));
        }
        let end_mark = if self.checksum { last >> 32 } else { last & u64::from(u32::MAX) };
        if end_mark == 0 {
            return Ok(source);
        }
        let detail = "it has an empty block".into();
        Err(source.bad(start, CompressionProblem::Corrupt { compression: Compression::Lz4, detail }))
    }

    /// The text of `lz4_flex` is the name of a variant.
    fn in_words(error: io::Error) -> io::Error {
        use lz4_flex::frame::Error as Lz4Error;
        let text = match error.get_ref().and_then(|inner| inner.downcast_ref::<Lz4Error>()) {
            None => return error,
            Some(Lz4Error::DecompressionError(inner)) => inner.to_string(),
            Some(Lz4Error::UnsupportedBlocksize(size)) => format!("blocks of the kind {size} do not exist"),
            Some(Lz4Error::UnsupportedVersion(version)) => format!("version {version} of the format is not supported"),
            Some(Lz4Error::ReservedBitsSet) => "a reserved bit of its header is set".into(),
            Some(Lz4Error::BlockTooBig) => "a block is larger than its header allows".into(),
            Some(Lz4Error::HeaderChecksumError) => "its header does not match its checksum".into(),
            Some(Lz4Error::BlockChecksumError) => "a block does not match its checksum".into(),
            Some(Lz4Error::ContentChecksumError) => "its content does not match its checksum".into(),
            Some(Lz4Error::DictionaryNotSupported) => "it needs a dictionary, which is not supported".into(),
            Some(Lz4Error::ContentLengthError { expected, actual }) => {
                format!("it has {actual} bytes, but its header declares {expected}")
            }
            Some(_) => "a block's header cannot be right".into(),
        };
        io::Error::new(error.kind(), text)
    }
}
