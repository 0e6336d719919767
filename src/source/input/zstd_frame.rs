//! Headers and block lengths of zstd frames, to find the end of a frame without decompressing it
//! (RFC 8878, sections 3.1.1 and 3.1.2).
//!
//! ```text
//!   frame   28 b5 2f fd | descriptor u8 | window u8? | dictionary 0,1,2,4 | content size 0,1,2,4,8 | block ...
//!           | checksum u32, if descriptor bit 2
//!   block   u24 LE: bit 0 last, bits 1-2 type (0 raw, 1 RLE, 2 packed, 3 reserved), bits 3-23 size | content
//! ```

/// The magic number of a frame.
pub const MAGIC: [u8; 4] = super::detect::ZSTD;
/// Longest frame header: magic, descriptor, window, dictionary id, content size.
pub const MAX_FRAME_HEADER: usize = 4 + 1 + 1 + 4 + 8;
/// Length of a block header.
pub const BLOCK_HEADER: usize = 3;
/// Length of a content checksum.
pub const CHECKSUM: usize = 4;
/// Largest content of a block (RFC 8878, 3.1.1.2.4).
pub const MAX_BLOCK: usize = 128 << 10;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Its length, including the magic.
    pub len: usize,
    /// Bytes of decompressed content that the decoder must keep.
    pub window: u64,
    /// Length of the decompressed content, if stated.
    pub content: Option<u64>,
    /// Number of the dictionary; 0 for none.
    pub dictionary: u32,
    /// True if a checksum follows the last block.
    pub checksum: bool,
}

/// A block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// True for the last block of its frame.
    pub last: bool,
    /// Compressed length without the header.
    pub len: usize,
}

/// A reason why a header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FrameProblem {
    #[error("the header is cut")]
    Cut,
    #[error("no zstd magic")]
    NoMagic,
    #[error("a reserved bit of the frame header is set")]
    ReservedBit,
    #[error("a block is of a reserved type")]
    ReservedBlock,
    #[error("a block has {len} bytes, more than {MAX_BLOCK}")]
    BlockTooLong { len: usize },
}

/// Reads a little-endian number of up to eight bytes.
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

/// Returns the length of the frame at the start of `bytes`.
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
        fn frames_end_as_in_libzstd(
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
        fn noise_is_no_longer_frame_than_in_libzstd(noise in proptest::collection::vec(any::<u8>(), 0..64)) {
            let bytes: Vec<u8> = [&super::super::detect::ZSTD[..], &noise].concat();
            if let (Ok(len), Ok(theirs)) = (frame_len(&bytes), zstd_safe::find_frame_compressed_size(&bytes)) {
                prop_assert_eq!(len, theirs);
            }
        }
    }

    #[test]
    fn windows_follow_the_specification() {
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
