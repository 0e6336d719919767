//! Formats of consecutive frames, each decoded by a decoder of its own.

use std::io::{Error as IoError, Read};

use super::Compression;
use super::ahead::{Decompressor, thread_died};
use super::source::InputReader;
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

    /// Returns the decoder's error in words.
    fn in_words(error: IoError) -> IoError {
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
