//! Cuts sections into zstd frames.

use std::hash::Hasher;
use std::io;

use twox_hash::XxHash64;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::source::input::zstd_frame::{MAGIC, MAX_BLOCK};

/// Compressed bytes of a frame, about.
pub const FRAME_TARGET: usize = 8 << 10;
/// The compression level that Forest uses.
pub const LEVEL: i32 = 3;

/// Window descriptor for 2 MiB, which is what level 3 declares for content of unknown size.
const WINDOW_2_MIB: u8 = 0x58;

/// The end of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Position among the packed bytes.
    pub end: usize,
    /// Sections of the batch up to the end of this frame.
    pub sections: usize,
}

/// Compresses sections into frames.
///
/// Every batch begins and ends a frame. Batches may be packed by many threads: the bytes depend only on the batch and
/// the version of zstd.
pub struct Packer {
    zstd: Compressor<'static>,
}

impl Packer {
    /// Creates a packer with Forest's level.
    pub fn new() -> io::Result<Self> {
        let mut zstd = Compressor::new(LEVEL)?;
        zstd.set_parameter(CParameter::ContentSizeFlag(false))?;
        zstd.set_parameter(CParameter::ChecksumFlag(false))?;
        Ok(Self { zstd })
    }

    /// Appends the frames of one batch to `packed` and their ends to `frames`. `ends` are the ascending ends of the
    /// sections in `bytes`; the last one is the end of `bytes`.
    ///
    /// # Panics
    /// If `ends` does not ascend or is outside `bytes`.
    pub fn pack(
        &mut self,
        bytes: &[u8],
        ends: impl IntoIterator<Item = usize>,
        packed: &mut Vec<u8>,
        frames: &mut Vec<Frame>,
    ) -> io::Result<()> {
        let before = packed.len();
        let (mut start, mut sections) = (0, 0);
        // The compressed size is known only afterwards, so the batch's ratio so far decides when to close a frame. The
        // first frame expects one half.
        let mut raw_target = FRAME_TARGET * 2;
        for end in ends {
            sections += 1;
            if end - start < raw_target && end < bytes.len() {
                continue;
            }
            self.frame(&bytes[start..end], packed)?;
            frames.push(Frame { end: packed.len(), sections });
            start = end;
            let ratio_packed = (packed.len() - before).max(1) as u64;
            raw_target = (FRAME_TARGET as u64 * end as u64 / ratio_packed).max(1) as usize;
        }
        Ok(())
    }

    fn frame(&mut self, content: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        let start = packed.len();
        packed.resize(start + zstd::zstd_safe::compress_bound(content.len()), 0);
        let written = self.zstd.compress_to_buffer(content, &mut packed[start..])?;
        packed.truncate(start + written);
        Ok(())
    }
}

/// Returns a zstd frame of uncompressed `content`. Its length depends only on that of the content, so a frame with a
/// blank header can be overwritten once the roots are known.
///
/// ```text
/// 28 b5 2f fd | flags (04: checksum) | window | block .. | checksum: low half of XXH64
/// block = last (1 bit), type 0 (2 bits), length (21 bits) as 3 little-endian bytes | bytes
/// ```
pub fn stored_frame(content: &[u8], checksum: bool) -> Vec<u8> {
    let mut frame = Vec::with_capacity(content.len() + 16);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[u8::from(checksum) << 2, WINDOW_2_MIB]);
    let blocks = content.len().div_ceil(MAX_BLOCK).max(1);
    for number in 0..blocks {
        let block = &content[number * MAX_BLOCK..content.len().min((number + 1) * MAX_BLOCK)];
        let head = (block.len() as u32) << 3 | u32::from(number + 1 == blocks);
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    if checksum {
        let mut hasher = XxHash64::with_seed(0);
        hasher.write(content);
        frame.extend_from_slice(&hasher.finish().to_le_bytes()[..4]);
    }
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn stored_frame_unpacks_to_its_content(len in 0usize..300_000, checksum: bool) {
            let content: Vec<u8> = (0..len).map(|n| ((n * n) >> 7) as u8).collect();
            let frame = stored_frame(&content, checksum);
            prop_assert_eq!(&zstd::decode_all(frame.as_slice()).expect("decode a stored frame"), &content);
            if checksum {
                let mut damaged = frame;
                *damaged.last_mut().expect("a frame has bytes") ^= 1;
                let error = zstd::decode_all(damaged.as_slice()).expect_err("the checksum is wrong");
                prop_assert!(error.to_string().contains("checksum"), "{}", error);
            }
        }

        #[test]
        fn frames_hold_whole_sections(
            lens in proptest::collection::vec(1usize..4000, 1..400), random in 1usize..40,
        ) {
            let mut bytes = Vec::new();
            let mut ends = Vec::new();
            for len in lens {
                let at = bytes.len();
                let noise = |n: usize| ((at + n).wrapping_mul(2_654_435_761) >> 13) as u8;
                bytes.extend((0..len).map(|n| if n % 40 < random { noise(n) } else { 0 }));
                ends.push(bytes.len());
            }
            let (mut packed, mut frames) = (vec![1, 2, 3], Vec::new());
            Packer::new().expect("zstd").pack(&bytes, ends.iter().copied(), &mut packed, &mut frames).expect("pack");
            let (mut from, mut unpacked) = (3, 0);
            for frame in &frames {
                let content = zstd::decode_all(&packed[from..frame.end]).expect("decode a frame");
                let end = ends[frame.sections - 1];
                prop_assert_eq!(&content, &bytes[unpacked..end]);
                prop_assert!(frame.end - from < 3 * FRAME_TARGET);
                (from, unpacked) = (frame.end, end);
            }
            prop_assert_eq!(unpacked, bytes.len());
            prop_assert_eq!(from, packed.len());
        }
    }
}
