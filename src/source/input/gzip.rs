//! gzip: one or more members (<https://www.rfc-editor.org/rfc/rfc1952>), each with its CRC and length checked.
//!
//! Zeros up to the end of the file are padding, as for gzip(1): tapes and block devices leave them. Anything else after a
//! member is refused, including another member after zeros.

use flate2::bufread::GzDecoder;

use super::frames::FrameReader;
use super::source::InputReader;
use super::{Compression, CompressionProblem, detect};
use crate::error::Result;

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
