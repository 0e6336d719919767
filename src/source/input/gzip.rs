//! gzip: one or more members (<https://www.rfc-editor.org/rfc/rfc1952>), each with its CRC and length checked.
//!
//! Zeros up to the end of the file are padding, as gzip(1) has it: tapes and block devices leave them. Everything else that
//! follows a member and is none is refused, another member behind zeros included.

use std::io::Read;

use flate2::bufread::GzDecoder;

use super::ahead::{Decompressor, thread_died};
use super::source::Source;
use super::{Compression, CompressionProblem, detect};
use crate::error::Result;

enum State {
    Between(Source),
    Member(GzDecoder<Source>),
    Failed,
}

/// Unpacks gzip.
pub(super) struct Gzip {
    state: State,
    /// Where the current member begins.
    start: u64,
    consumed: u64,
}

impl Gzip {
    pub(super) fn new(source: Source) -> Self {
        Self { state: State::Between(source), start: 0, consumed: 0 }
    }
}

/// Whether another member begins here, or the input ends.
fn next_member(source: &mut Source) -> Result<bool> {
    match source.peek(detect::GZIP.len())? {
        [] => Ok(false),
        head if head == detect::GZIP => Ok(true),
        head if detect::GZIP.starts_with(head) => Err(source.truncated(Compression::Gzip)),
        _ => {
            let end = source.offset();
            pass_zeros(source)?;
            match source.available()? {
                [] => Ok(false),
                _ => Err(source.bad(end, CompressionProblem::TrailingData { compression: Compression::Gzip })),
            }
        }
    }
}

/// Passes over the zeros that come next.
fn pass_zeros(source: &mut Source) -> Result<()> {
    loop {
        let here = source.available()?;
        let zeros = here.iter().take_while(|byte| **byte == 0).count();
        if zeros == 0 {
            return Ok(());
        }
        source.take(zeros);
    }
}

impl Decompressor for Gzip {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Failed) {
                State::Between(mut source) => {
                    let has_next = next_member(&mut source)?;
                    self.consumed = source.offset();
                    if !has_next {
                        self.state = State::Between(source);
                        return Ok(0);
                    }
                    self.start = source.offset();
                    self.state = State::Member(GzDecoder::new(source));
                }
                State::Member(mut member) => match member.read(out) {
                    Ok(0) => self.state = State::Between(member.into_inner()),
                    Ok(count) => {
                        self.consumed = member.get_ref().offset();
                        self.state = State::Member(member);
                        return Ok(count);
                    }
                    Err(error) => {
                        return Err(member.get_ref().decoder_failed(Compression::Gzip, self.start, error));
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
