//! What Forest writes behind the frames of a `.forest.car.zst`: an index and a footer, both in skippable frames.
//!
//! ```text
//!   zstd frame with the CAR header | zstd frames of whole blocks ...
//!   skippable frame(s): the index                      50 2a 4d 18 | length u32 | content   (one per 4 GiB)
//!     f0 be ad de 00 00 00 00   version 1
//!     longest distance u64 | collisions u64 | buckets u64
//!     slot * n                                         hash u64, frame offset u64; all ones when empty
//!   footer                                             50 2a 4d 18 | 08 00 00 00 | offset of the index content u64
//! ```
//!
//! All numbers are little-endian. The table has floor(blocks / 0.8) buckets, and at least one slot more than buckets
//! (`forest/src/db/car/forest/index`): from the buckets follows the number of blocks. Only that is taken from it;
//! the frames are found by their own headers. Nothing here is trusted: a footer or an index that does not fit makes
//! the file plain zstd.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::detect::{Magic, PROBE, SKIPPABLE_HEADER, magic};

/// The length of the footer, its skippable header included.
pub const FOOTER: usize = 16;
/// The length of the index's header.
pub const INDEX_HEADER: usize = 32;
/// Skippable frames an index may be spread over: each but the last has nearly 4 GiB.
const MAX_INDEX_FRAMES: usize = 64;
/// The first word of an index of version 1.
const VERSION_1: u64 = 0xdead_bef0;
/// The length of a slot.
const SLOT: u64 = 16;
/// The skippable header of the footer.
const FOOTER_START: [u8; 8] = [0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0];

/// The header of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexHeader {
    /// The distance of the farthest entry from its bucket.
    pub longest_distance: u64,
    /// Entries that share their hash with another.
    pub collisions: u64,
    /// Buckets of the hash table.
    pub buckets: u64,
}

impl IndexHeader {
    /// How many blocks are indexed, given the bytes of the whole index. `None` when the table was not made with
    /// the usual load of 0.8, or does not fit its length.
    pub fn blocks(&self, index_bytes: u64) -> Option<u64> {
        let slots = index_bytes.checked_sub(INDEX_HEADER as u64)?;
        // A slot behind the buckets ends the table.
        let enough = self.buckets.checked_add(1)? <= slots / SLOT;
        let blocks = self.buckets.checked_mul(4)?.div_ceil(5);
        let usual_load = blocks.checked_add(blocks / 4)? == self.buckets;
        (slots.is_multiple_of(SLOT) && enough && usual_load).then_some(blocks)
    }
}

/// Where a file's index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForestTail {
    /// Where the frames end and the index's first skippable header begins.
    pub frames_end: u64,
    /// How many blocks the file holds, if the index has the number.
    pub blocks: Option<u64>,
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().copied().map(u64::from_le_bytes)
}

/// Reads the footer, the last [`FOOTER`] bytes of a file of `size` bytes: the offset of the index's content. `None` if
/// it is no footer, or points where no index can be.
pub fn footer(tail: &[u8], size: u64) -> Option<u64> {
    let rest = tail.strip_prefix(&FOOTER_START)?;
    let index = word(rest).filter(|_| rest.len() == 8)?;
    // Before the index a skippable header and at least one byte of frames, behind it the footer.
    let last = size.checked_sub(FOOTER as u64)?;
    (index > SKIPPABLE_HEADER as u64 && index <= last).then_some(index)
}

/// Reads an index's header; `None` for too few bytes and for an unknown version.
pub fn index_header(bytes: &[u8]) -> Option<IndexHeader> {
    let at = |place: usize| bytes.get(place..).and_then(word);
    (at(0)? == VERSION_1).then_some(())?;
    Some(IndexHeader { longest_distance: at(8)?, collisions: at(16)?, buckets: at(24)? })
}

/// Looks for Forest's index at the end of a file of `size` bytes; `None` if there is none, or none that fits.
///
/// # Errors
/// [`io::Error`]: the operating system does not let us read the file.
pub fn find(file: &File, size: u64) -> io::Result<Option<ForestTail>> {
    find_with(size, |bytes, offset| match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    })
}

/// As [`find`], in memory.
#[cfg(any(test, feature = "testing"))]
pub fn find_in(bytes: &[u8]) -> Option<ForestTail> {
    let read = |into: &mut [u8], offset: u64| {
        let found = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
        found.inspect(|found| into.copy_from_slice(found)).is_some()
    };
    find_with(bytes.len() as u64, |into, offset| Ok(read(into, offset))).ok().flatten()
}

/// `read` fills a buffer from an offset, or says that there is not that much.
pub(super) fn find_with(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<bool>,
) -> io::Result<Option<ForestTail>> {
    let mut tail = [0; FOOTER];
    let Some(last) = size.checked_sub(FOOTER as u64) else { return Ok(None) };
    if !read(&mut tail, last)? {
        return Ok(None);
    }
    let Some(index) = footer(&tail, size) else { return Ok(None) };
    let frames_end = index - SKIPPABLE_HEADER as u64;
    // The index is a row of skippable frames that ends exactly where the footer begins.
    let (mut at, mut index_bytes) = (frames_end, 0u64);
    let mut frames = 0;
    while at != last {
        let mut head = [0; PROBE];
        frames += 1;
        if at > last || frames > MAX_INDEX_FRAMES || !read(&mut head, at)? {
            return Ok(None);
        }
        let Magic::Skippable(length) = magic(&head) else { return Ok(None) };
        index_bytes += u64::from(length);
        at += SKIPPABLE_HEADER as u64 + u64::from(length);
    }
    let mut head = [0; INDEX_HEADER];
    let header = if index_bytes >= INDEX_HEADER as u64 && read(&mut head, index)? { index_header(&head) } else { None };
    Ok(Some(ForestTail { frames_end, blocks: header.and_then(|header| header.blocks(index_bytes)) }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The index of `blocks` blocks, written as Forest does, in skippable frames of at most `piece` bytes.
    fn index(blocks: u64, piece: usize) -> Vec<u8> {
        let buckets = (blocks as f64 / 0.8) as u64;
        let mut content = Vec::new();
        for word in [VERSION_1, 9, 0, buckets] {
            content.extend(word.to_le_bytes());
        }
        content.resize(INDEX_HEADER + (buckets as usize + 1) * SLOT as usize, 0xff);
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
        fn the_header_reports_how_many_blocks_there_are(blocks in 1u64..5_000, piece in 2_000usize..100_000) {
            let found = find_in(&file(b"frames", &index(blocks, piece)));
            prop_assert_eq!(found, Some(ForestTail { frames_end: 6, blocks: Some(blocks) }));
        }

        #[test]
        fn the_count_is_exact_for_large_snapshots_too(blocks in 1u64..1 << 40) {
            let buckets = (blocks as f64 / 0.8) as u64;
            let header = IndexHeader { longest_distance: 0, collisions: 0, buckets };
            prop_assert_eq!(header.blocks(INDEX_HEADER as u64 + (buckets + 1) * SLOT), Some(blocks));
        }

        #[test]
        fn a_damaged_tail_is_never_believed_out_of_bounds(
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
        fn noise_is_no_index(bytes in proptest::collection::vec(any::<u8>(), 0..100), offset in 0u64..120) {
            let _ = index_header(&bytes);
            let bytes = [&bytes[..], &FOOTER_START, &offset.to_le_bytes()].concat();
            if let Some(found) = find_in(&bytes) {
                prop_assert!(found.frames_end < bytes.len() as u64);
            }
        }
    }

    #[test]
    fn a_tail_that_does_not_fit_is_no_index() {
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
    fn an_unknown_layout_gives_no_count() {
        let mut old = index(4, 1 << 20);
        old[8] = 0xef;
        assert_eq!(find_in(&file(b"frames", &old)), Some(ForestTail { frames_end: 6, blocks: None }));
        let mut other_load = index(4, 1 << 20);
        other_load[8 + 24] = 4;
        assert_eq!(find_in(&file(b"frames", &other_load)), Some(ForestTail { frames_end: 6, blocks: None }));
        let header = IndexHeader { longest_distance: 0, collisions: 0, buckets: u64::MAX };
        assert_eq!(header.blocks(u64::MAX), None);
    }
}
