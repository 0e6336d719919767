//! Detects the compression by the first bytes.
//!
//! ```text
//!   zstd       28 b5 2f fd            (also the varint 40 of a CAR header, but no CAR continues so)
//!   skippable  50..5f 2a 4d 18        then u32 LE length; the same in zstd and in lz4: the next frame decides
//!   lz4        04 22 4d 18
//!   xz         fd 37 7a 58 5a 00
//!   gzip       1f 8b 08
//! ```

use super::source::InputReader;
use super::{Compression, CompressionProblem};
use crate::error::Result;

pub(super) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
pub(super) const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
pub(super) const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// First bytes of a gzip member. The third is the code of deflate, the only method.
pub(super) const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];
/// Bytes 2 to 4 of a skippable frame; the first is 0x50 to 0x5f.
const SKIPPABLE_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];
pub(super) const SKIPPABLE_HEADER: usize = 8;
/// Bytes that decide on the compression.
pub(super) const PROBE: usize = 8;

/// The kind of data that some bytes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Magic {
    Frame(Compression),
    /// A skippable frame of zstd or lz4, with the length of its content.
    Skippable(u32),
    /// The bytes end inside what may be a magic or the header of a skippable frame.
    Cut(Compression),
    Other,
}

/// Detects the kind of data that `head` begins. Fewer than [`PROBE`] bytes mean the end of the input.
pub(super) fn magic(head: &[u8]) -> Magic {
    if let [0x50..=0x5f, rest @ ..] = head {
        return match rest {
            [0x2a, 0x4d, 0x18, a, b, c, d, ..] => Magic::Skippable(u32::from_le_bytes([*a, *b, *c, *d])),
            _ if rest.starts_with(&SKIPPABLE_TAIL) || SKIPPABLE_TAIL.starts_with(rest) => Magic::Cut(Compression::Zstd),
            _ => Magic::Other,
        };
    }
    let known: [(&[u8], Compression); 4] =
        [(&ZSTD, Compression::Zstd), (&LZ4, Compression::Lz4), (&XZ, Compression::Xz), (&GZIP, Compression::Gzip)];
    for (magic, compression) in known {
        if head.starts_with(magic) {
            return Magic::Frame(compression);
        }
        if !head.is_empty() && magic.starts_with(head) {
            return Magic::Cut(compression);
        }
    }
    Magic::Other
}

/// True if these are the first bytes of compressed data.
pub(crate) fn is_compressed(head: &[u8]) -> bool {
    matches!(magic(head), Magic::Frame(_) | Magic::Skippable(_))
}

/// Detects the compression of an input. Skippable frames at its start are skipped.
pub(super) fn detect(source: &mut InputReader) -> Result<Compression> {
    if source.peek(1)?.is_empty() {
        return Err(source.bad(0, CompressionProblem::Empty));
    }
    let mut skipped = false;
    loop {
        let head = source.peek(PROBE)?;
        match magic(head) {
            Magic::Frame(compression) if !skipped || matches!(compression, Compression::Zstd | Compression::Lz4) => {
                return Ok(compression);
            }
            Magic::Cut(compression) => return Err(source.truncated(compression)),
            Magic::Skippable(length) => {
                skipped = true;
                skip_frame(source, length, Compression::Zstd)?;
            }
            // Only skippable frames: a valid empty zstd file.
            Magic::Other if skipped && head.is_empty() => return Ok(Compression::Zstd),
            Magic::Frame(_) | Magic::Other if skipped => {
                return Err(
                    source.bad(source.offset, CompressionProblem::TrailingData { compression: Compression::Zstd })
                );
            }
            Magic::Frame(_) | Magic::Other => return Ok(Compression::None),
        }
    }
}

/// Skips a skippable frame with `length` bytes of content.
fn skip_frame(source: &mut InputReader, length: u32, compression: Compression) -> Result<()> {
    let is_whole = source.skip(SKIPPABLE_HEADER as u64 + u64::from(length))?;
    if is_whole { Ok(()) } else { Err(source.truncated(compression)) }
}

/// Moves to the next frame of `compression` (zstd or lz4), and skips skippable ones. False at the clean end of the input,
/// or at `until`.
pub(super) fn next_frame(source: &mut InputReader, compression: Compression, until: Option<u64>) -> Result<bool> {
    loop {
        if until == Some(source.offset) {
            return Ok(false);
        }
        let head = source.peek(PROBE)?;
        match magic(head) {
            Magic::Frame(found) if found == compression => return Ok(true),
            Magic::Skippable(length) => skip_frame(source, length, compression)?,
            Magic::Other if head.is_empty() => return Ok(false),
            Magic::Cut(cut) if cut == compression || cut == Compression::Zstd => {
                return Err(source.truncated(compression));
            }
            _ => return Err(source.bad(source.offset, CompressionProblem::TrailingData { compression })),
        }
    }
}
