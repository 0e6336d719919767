//! Reads the number of blocks from the index and the footer of a `.forest.car.zst`; see `index` for their layout.
//!
//! An index has floor(blocks / 0.8) buckets and at least one slot more (`forest/src/db/car/forest/index`), so the
//! buckets give the number of blocks. bedload takes nothing else from it: it finds frames by their own headers. A file
//! whose footer or index does not fit is read as plain zstd.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::index::{HEAD_LEN, SKIPPABLE_HEAD_LEN, SLOT_LEN, VERSION_1};

/// Length of the footer with its skippable header.
const FOOTER: usize = 16;
/// Most skippable frames of an index: each but the last has nearly 4 GiB.
const MAX_INDEX_FRAMES: usize = 64;
/// Skippable header of the footer.
const FOOTER_START: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0];

/// Returns the number of blocks of an index of `index_bytes` with `buckets`. `None` if its load is not 0.8 or its length
/// does not fit.
fn blocks(buckets: u64, index_bytes: u64) -> Option<u64> {
    let slots = index_bytes.checked_sub(HEAD_LEN as u64)?;
    // An empty slot after the buckets ends the table.
    let enough = buckets.checked_add(1)? <= slots / SLOT_LEN as u64;
    let blocks = buckets.checked_mul(4)?.div_ceil(5);
    let usual_load = blocks.checked_add(blocks / 4)? == buckets;
    (slots.is_multiple_of(SLOT_LEN as u64) && enough && usual_load).then_some(blocks)
}

/// The position of the index in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForestTail {
    /// End of the frames, and start of the first skippable header of the index.
    pub frames_end: u64,
    /// Number of blocks, if the index has it.
    pub blocks: Option<u64>,
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().copied().map(u64::from_le_bytes)
}

/// Reads the offset of the index's content from the footer, the last [`FOOTER`] bytes of a file of `size` bytes. `None`
/// if the bytes are no footer or no index can be at the offset.
fn footer(tail: &[u8], size: u64) -> Option<u64> {
    let rest = tail.strip_prefix(&FOOTER_START)?;
    let index = word(rest).filter(|_| rest.len() == 8)?;
    // A skippable header and at least one byte of frames precede the index, and the footer follows it.
    let last = size.checked_sub(FOOTER as u64)?;
    (index > SKIPPABLE_HEAD_LEN && index <= last).then_some(index)
}

/// Reads the number of buckets in the header of an index. `None` if the bytes are too few or the version is unknown.
pub fn buckets(bytes: &[u8]) -> Option<u64> {
    (word(bytes)? == VERSION_1).then(|| bytes.get(24..).and_then(word)).flatten()
}

/// Finds Forest's index at the end of a file of `size` bytes, if there is one that fits.
pub fn find(file: &File, size: u64) -> io::Result<Option<ForestTail>> {
    find_with(size, |bytes, offset| match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    })
}

/// Finds Forest's index at the end of `bytes`.
#[cfg(any(test, feature = "testing"))]
pub fn find_in(bytes: &[u8]) -> Option<ForestTail> {
    let read = |into: &mut [u8], offset: u64| {
        let found = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
        found.inspect(|found| into.copy_from_slice(found)).is_some()
    };
    find_with(bytes.len() as u64, |into, offset| Ok(read(into, offset))).ok().flatten()
}

/// Finds Forest's index through `read`, which fills a buffer from an offset and returns false past the end.
pub(crate) fn find_with(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<bool>,
) -> io::Result<Option<ForestTail>> {
    let mut tail = [0; FOOTER];
    let Some(last) = size.checked_sub(FOOTER as u64) else { return Ok(None) };
    if !read(&mut tail, last)? {
        return Ok(None);
    }
    let Some(index) = footer(&tail, size) else { return Ok(None) };
    let frames_end = index - SKIPPABLE_HEAD_LEN;
    // The index is a sequence of skippable frames that ends at the footer.
    let (mut at, mut index_bytes) = (frames_end, 0u64);
    let mut frames = 0;
    while at != last {
        let mut head = [0; SKIPPABLE_HEAD_LEN as usize];
        frames += 1;
        if at > last || frames > MAX_INDEX_FRAMES || !read(&mut head, at)? {
            return Ok(None);
        }
        let [0x50..=0x5f, 0x2a, 0x4d, 0x18, length @ ..] = head else { return Ok(None) };
        let length = u64::from(u32::from_le_bytes(length));
        index_bytes += length;
        at += SKIPPABLE_HEAD_LEN + length;
    }
    let mut head = [0; HEAD_LEN];
    let buckets = if index_bytes >= HEAD_LEN as u64 && read(&mut head, index)? { buckets(&head) } else { None };
    Ok(Some(ForestTail { frames_end, blocks: buckets.and_then(|buckets| blocks(buckets, index_bytes)) }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an index of `blocks` blocks as Forest writes it, in skippable frames of at most `piece` bytes.
    fn index(blocks: u64, piece: usize) -> Vec<u8> {
        let buckets = (blocks as f64 / 0.8) as u64;
        let mut content = Vec::new();
        for word in [VERSION_1, 9, 0, buckets] {
            content.extend(word.to_le_bytes());
        }
        content.resize(HEAD_LEN + (buckets as usize + 1) * SLOT_LEN, 0xff);
        content.chunks(piece).flat_map(skippable).collect()
    }

    fn skippable(content: &[u8]) -> Vec<u8> {
        [&FOOTER_START[..4], &(content.len() as u32).to_le_bytes(), content].concat()
    }

    fn file(frames: &[u8], index: &[u8]) -> Vec<u8> {
        let offset = frames.len() as u64 + 8;
        [frames, index, &skippable(&offset.to_le_bytes())].concat()
    }

    proptest! {
        #[test]
        fn header_gives_the_number_of_blocks(blocks in 1u64..5_000, piece in 2_000usize..100_000) {
            let found = find_in(&file(b"frames", &index(blocks, piece)));
            prop_assert_eq!(found, Some(ForestTail { frames_end: 6, blocks: Some(blocks) }));
        }

        #[test]
        fn number_of_blocks_is_exact_for_large_files(blocks in 1u64..1 << 40) {
            let buckets = (blocks as f64 / 0.8) as u64;
            prop_assert_eq!(super::blocks(buckets, HEAD_LEN as u64 + (buckets + 1) * SLOT_LEN as u64), Some(blocks));
        }

        #[test]
        fn damaged_tail_stays_in_bounds(
            blocks in 1u64..50, at: proptest::sample::Index, bit in 0u8..8,
        ) {
            let mut bytes = file(b"some frames", &index(blocks, 1 << 20));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Some(found) = find_in(&bytes) {
                prop_assert_eq!(found.frames_end, 11);
            }
        }

        #[test]
        fn noise_has_no_index(bytes in proptest::collection::vec(any::<u8>(), 0..100), offset in 0u64..120) {
            let _ = buckets(&bytes);
            let bytes = [&bytes[..], &FOOTER_START, &offset.to_le_bytes()].concat();
            if let Some(found) = find_in(&bytes) {
                prop_assert!(found.frames_end < bytes.len() as u64);
            }
        }
    }

    #[test]
    fn unfit_tail_has_no_index() {
        let good = file(b"frames", &index(4, 1 << 20));
        assert!(find_in(&good).is_some());
        let pointing_to = |offset: u64| {
            let mut bytes = good.clone();
            let at = bytes.len() - 8;
            bytes[at..].copy_from_slice(&offset.to_le_bytes());
            find_in(&bytes)
        };
        for offset in [0, 1, 7, 8, 13, 15, good.len() as u64, u64::MAX] {
            assert_eq!(pointing_to(offset), None, "index at {offset}");
        }
        assert_eq!(find_in(&good[..good.len() - 1]), None);
        assert_eq!(find_in(&good[1..]), None, "the index lies elsewhere");
        assert_eq!(find_in(&[]), None);
    }

    #[test]
    fn unknown_layout_gives_no_number() {
        let mut old = index(4, 1 << 20);
        old[8] = 0xef;
        assert_eq!(find_in(&file(b"frames", &old)), Some(ForestTail { frames_end: 6, blocks: None }));
        let mut other_load = index(4, 1 << 20);
        other_load[8 + 24] = 4;
        assert_eq!(find_in(&file(b"frames", &other_load)), Some(ForestTail { frames_end: 6, blocks: None }));
        assert_eq!(blocks(u64::MAX, u64::MAX), None);
    }
}
