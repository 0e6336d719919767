//! The outside of zstd frames: headers and block lengths, enough to find where a frame ends without unpacking it
//! (RFC 8878, sections 3.1.1 and 3.1.2).
//!
//! ```text
//!   frame   28 b5 2f fd | descriptor u8 | window u8? | dictionary 0,1,2,4 | content size 0,1,2,4,8 | block ...
//!           | checksum u32, if descriptor bit 2
//!   block   u24 LE: bit 0 last, bits 1-2 type (0 raw, 1 RLE, 2 packed, 3 reserved), bits 3-23 size | content
//! ```

/// What every frame begins with.
pub const MAGIC: [u8; 4] = super::detect::ZSTD;
/// Bytes after which any frame header is known: magic, descriptor, window, dictionary id, content size.
pub const MAX_FRAME_HEADER: usize = 4 + 1 + 1 + 4 + 8;
/// The length of a block's header.
pub const BLOCK_HEADER: usize = 3;
/// The length of a content checksum.
pub const CHECKSUM: usize = 4;
/// The most content any block has (RFC 8878, 3.1.1.2.4).
pub const MAX_BLOCK: usize = 128 << 10;

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Its length, magic included.
    pub len: usize,
    /// How far back the frame refers, in bytes: what unpacking must keep.
    pub window: u64,
    /// The length of the unpacked content, if stated.
    pub content: Option<u64>,
    /// The dictionary's number; 0 for none.
    pub dictionary: u32,
    /// A checksum follows the last block.
    pub checksum: bool,
}

/// What a block's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// No block follows in this frame.
    pub last: bool,
    /// Length of what follows the header in the file.
    pub len: usize,
}

/// Why a header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// The slice ends inside of it.
    #[error("the header is cut")]
    Cut,
    /// It does not begin with the magic of a zstd frame.
    #[error("no zstd magic")]
    NoMagic,
    /// A bit is set that must not be.
    #[error("a reserved bit of the frame header is set")]
    ReservedBit,
    /// A block has the type that does not exist.
    #[error("a block is of a reserved type")]
    ReservedBlock,
    /// A block is longer than any may be.
    #[error("a block has {len} bytes, more than {MAX_BLOCK}")]
    BlockTooLong {
        /// The length it states.
        len: usize,
    },
}

/// Little-endian, up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Splits off the first `count` bytes.
fn split<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], FrameProblem> {
    let (head, rest) = bytes.split_at_checked(count).ok_or(FrameProblem::Cut)?;
    *bytes = rest;
    Ok(head)
}

/// Reads the frame header at the start of `bytes`; [`MAX_FRAME_HEADER`] bytes are always enough.
///
/// # Errors
/// [`FrameProblem::NoMagic`], [`FrameProblem::ReservedBit`] or [`FrameProblem::Cut`]: not a zstd frame, a reserved bit,
/// or too few bytes.
pub fn frame_header(bytes: &[u8]) -> Result<FrameHeader, FrameProblem> {
    let mut rest = bytes;
    if split(&mut rest, 4)? != MAGIC {
        return Err(FrameProblem::NoMagic);
    }
    let descriptor = number(split(&mut rest, 1)?);
    if descriptor & 1 << 3 != 0 {
        return Err(FrameProblem::ReservedBit);
    }
    let single_segment = descriptor & 1 << 5 != 0;
    let window = if single_segment { None } else { Some(number(split(&mut rest, 1)?)) };
    let dictionary = split(&mut rest, [0, 1, 2, 4][descriptor as usize & 3])?;
    let content = match (descriptor >> 6, single_segment) {
        (0, false) => None,
        (0, true) => Some(number(split(&mut rest, 1)?)),
        // The two-byte form begins where the one-byte form ends.
        (1, _) => Some(number(split(&mut rest, 2)?) + 256),
        (2, _) => Some(number(split(&mut rest, 4)?)),
        _ => Some(number(split(&mut rest, 8)?)),
    };
    let window = match window {
        // Five bits of exponent, three of mantissa: at most 15/8 * 2^41.
        Some(byte) => {
            let base = 1u64 << (10 + (byte >> 3));
            base + base / 8 * (byte & 7)
        }
        None => content.unwrap_or_default(),
    };
    Ok(FrameHeader {
        len: bytes.len() - rest.len(),
        window,
        content,
        // At most four bytes.
        dictionary: number(dictionary) as u32,
        checksum: descriptor & 1 << 2 != 0,
    })
}

/// Reads the block header at the start of `bytes`.
///
/// # Errors
/// [`FrameProblem::ReservedBlock`], [`FrameProblem::BlockTooLong`] or [`FrameProblem::Cut`]: a reserved type, a block
/// too long, or too few bytes.
pub fn block_header(bytes: &[u8]) -> Result<BlockHeader, FrameProblem> {
    let bits = number(bytes.get(..BLOCK_HEADER).ok_or(FrameProblem::Cut)?) as usize;
    let size = bits >> 3;
    if size > MAX_BLOCK {
        return Err(FrameProblem::BlockTooLong { len: size });
    }
    let len = match bits >> 1 & 3 {
        0 | 2 => size,
        1 => 1,
        _ => return Err(FrameProblem::ReservedBlock),
    };
    Ok(BlockHeader { last: bits & 1 != 0, len })
}

/// The length of the whole frame at the start of `bytes`.
///
/// # Errors
/// As [`frame_header`] and [`block_header`]; also [`FrameProblem::Cut`]: the frame is cut.
#[cfg(any(test, feature = "testing"))]
pub fn frame_len(bytes: &[u8]) -> Result<usize, FrameProblem> {
    let header = frame_header(bytes)?;
    let mut at = header.len;
    loop {
        let block = block_header(bytes.get(at..).unwrap_or_default())?;
        at += BLOCK_HEADER + block.len;
        if block.last {
            break;
        }
    }
    if header.checksum {
        at += CHECKSUM;
    }
    if at > bytes.len() { Err(FrameProblem::Cut) } else { Ok(at) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zstd::zstd_safe;

    use super::*;

    proptest! {
        /// libzstd finds the same ends and the same sizes.
        #[test]
        fn frames_end_where_libzstd_says(
            data in proptest::collection::vec(0u8..4, 0..200_000),
            level in 1i32..6, checksum: bool, size: bool, garbage in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut encoder = zstd::bulk::Compressor::new(level).unwrap();
            encoder.include_checksum(checksum).unwrap();
            encoder.include_contentsize(size).unwrap();
            let mut packed = encoder.compress(&data).unwrap();
            let len = packed.len();
            packed.extend(&garbage);
            prop_assert_eq!(frame_len(&packed), Ok(len));
            prop_assert_eq!(zstd_safe::find_frame_compressed_size(&packed).ok(), Some(len));
            let header = frame_header(&packed).unwrap();
            prop_assert_eq!(header.checksum, checksum);
            prop_assert_eq!(header.content, zstd_safe::get_frame_content_size(&packed).unwrap());
            prop_assert_eq!(frame_len(&packed[..len - 1]), Err(FrameProblem::Cut));
        }

        /// Whatever the bytes, the answer is the same as libzstd's or stricter, and nothing panics.
        #[test]
        fn noise_never_ends_where_libzstd_disagrees(noise in proptest::collection::vec(any::<u8>(), 0..64)) {
            let bytes: Vec<u8> = [&super::super::detect::ZSTD[..], &noise].concat();
            if let (Ok(len), Ok(theirs)) = (frame_len(&bytes), zstd_safe::find_frame_compressed_size(&bytes)) {
                prop_assert_eq!(len, theirs);
            }
        }
    }

    #[test]
    fn windows_follow_the_formula_of_the_specification() {
        let window = |byte| frame_header(&[0x28, 0xb5, 0x2f, 0xfd, 0, byte]).map(|header| header.window);
        assert_eq!(window(0), Ok(1024));
        assert_eq!(window(1), Ok(1024 + 128));
        assert_eq!(window((27 - 10) << 3), Ok(128 << 20));
        assert_eq!(window(255), Ok((1 << 41) / 8 * 15));
    }

    #[test]
    fn reserved_bits_and_blocks_are_refused() {
        assert_eq!(frame_header(&[0x28, 0xb5, 0x2f, 0xfd, 8, 0]), Err(FrameProblem::ReservedBit));
        assert_eq!(block_header(&[0b111, 0, 0]), Err(FrameProblem::ReservedBlock));
        assert_eq!(block_header(&[0, 0, 0xff]), Err(FrameProblem::BlockTooLong { len: 0xff0000 >> 3 }));
        assert_eq!(block_header(&[0, 0]), Err(FrameProblem::Cut));
    }
}
