//! lz4 frames (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md>), concatenated, with skippable frames
//! anywhere and every checksum checked. Legacy frames (`lz4 -l`) and dictionaries are not supported.
//!
//! ```text
//!   04 22 4d 18 | FLG BD (size u64) HC | block ... | 00 00 00 00 | (content checksum u32, if FLG bit 2)
//! ```
//!
//! `lz4_flex` reads blocks; it calls a frame that is cut before a block finished. So this module checks what follows: a
//! frame is whole only if nothing was requested behind the end and its last word was the end mark.

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;

use super::Compression;
use super::CompressionProblem;
use super::ahead::{Decompressor, thread_died};
use super::detect;
use super::source::Source;
use crate::error::Result;

/// FLG: a checksum follows the end mark.
const CONTENT_CHECKSUM: u8 = 1 << 2;

/// Passes bytes through and remembers the last eight.
struct Tail {
    source: Source,
    last: u64,
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        let got = into.get(..count).unwrap_or_default();
        for byte in got.iter().skip(count.saturating_sub(8)) {
            self.last = self.last << 8 | u64::from(*byte);
        }
        Ok(count)
    }
}

/// A decoder is made for each frame: `lz4_flex` does not expect the block size to change within one.
enum State {
    Between(Tail),
    Frame {
        decoder: FrameDecoder<Tail>,
        /// Where the frame begins.
        start: u64,
        /// A checksum follows its end mark.
        checksum: bool,
    },
    Failed,
}

/// Unpacks lz4.
pub(super) struct Lz4 {
    state: State,
    consumed: u64,
}

impl Lz4 {
    pub(super) fn new(source: Source) -> Self {
        Self { state: State::Between(Tail { source, last: 0 }), consumed: 0 }
    }
}

/// Begins the next frame; stays between frames at the clean end.
fn next_frame(mut tail: Tail) -> Result<State> {
    let source = &mut tail.source;
    if !detect::next_frame(source, Compression::Lz4, None)? {
        return Ok(State::Between(tail));
    }
    let Some(flags) = source.peek(5)?.get(4).copied() else {
        return Err(source.truncated(Compression::Lz4));
    };
    let start = source.offset();
    Ok(State::Frame { decoder: FrameDecoder::new(tail), start, checksum: flags & CONTENT_CHECKSUM != 0 })
}

/// Checks that a frame that `lz4_flex` calls finished is whole.
fn whole(tail: &Tail, start: u64, checksum: bool) -> Result<()> {
    let Tail { source, last } = tail;
    if source.starved() {
        return Err(source.truncated(Compression::Lz4));
    }
    let end_mark = if checksum { last >> 32 } else { last & u64::from(u32::MAX) };
    if end_mark == 0 {
        return Ok(());
    }
    let detail = "it holds an empty block".into();
    Err(source.bad(start, CompressionProblem::Corrupt { compression: Compression::Lz4, detail }))
}

/// What `lz4_flex` found, in words: its own text is the name of a variant.
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
            format!("it holds {actual} bytes, its header says {expected}")
        }
        Some(_) => "a block's header cannot be right".into(),
    };
    io::Error::new(error.kind(), text)
}

impl Decompressor for Lz4 {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Failed) {
                State::Between(tail) => {
                    self.state = next_frame(tail)?;
                    if let State::Between(tail) = &self.state {
                        self.consumed = tail.source.offset();
                        return Ok(0);
                    }
                }
                State::Frame { mut decoder, start, checksum } => match decoder.read(out) {
                    Ok(0) => {
                        whole(decoder.get_ref(), start, checksum)?;
                        self.state = State::Between(decoder.into_inner());
                    }
                    Ok(count) => {
                        self.consumed = decoder.get_ref().source.offset();
                        self.state = State::Frame { decoder, start, checksum };
                        return Ok(count);
                    }
                    Err(error) => {
                        let source = &decoder.get_ref().source;
                        return Err(source.decoder_failed(Compression::Lz4, start, in_words(error)));
                    }
                },
                // Never called again after an error.
                State::Failed => return Err(thread_died("-".as_ref())),
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}
