//! Files that bypass the page cache (`O_DIRECT`), for data that is read once or much later. This saves a copy of every
//! byte and memory.
//!
//! Addresses, lengths and offsets are multiples of a block. If the file system refuses that, the page cache is used.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::buffer::Buffer;
use super::files::read_at_most;

/// Alignment that Linux requires on nearly all file systems, in bytes.
pub(crate) const BLOCK: usize = 4096;

/// Bytes that are copied to aligned memory at once.
const COPY: usize = 1 << 20;

/// Switches the bypass of the page cache for a file on or off. False if the file system does not support it.
pub(crate) fn set(file: &File, direct: bool) -> bool {
    let Ok(flags) = fcntl_getfl(file) else { return false };
    let wanted = if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    wanted == flags || fcntl_setfl(file, wanted).is_ok()
}

pub(crate) fn whole_blocks(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK as u64).unwrap_or(bytes)
}

/// Start of the first block after `at`.
pub(crate) fn next_block(at: u64) -> u64 {
    whole_blocks(at.saturating_add(1))
}

pub(crate) fn until_block(start: *const u8) -> usize {
    start.align_offset(BLOCK)
}

/// Writes `bytes` at the start of a block and fills their last block with zeros.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> Result<()> {
    if until_block(bytes.as_ptr()) == 0 && bytes.len().is_multiple_of(BLOCK) {
        return write_blocks(file, bytes, at);
    }
    let mut copy = Buffer::new(bytes.len().min(COPY) + BLOCK).map_err(|_| ErrorKind::OutOfMemory)?;
    for (piece, at) in bytes.chunks(COPY).zip((at..).step_by(COPY)) {
        let whole = whole_blocks(piece.len() as u64) as usize;
        let (front, rest) = copy[..whole].split_at_mut(piece.len());
        front.copy_from_slice(piece);
        rest.fill(0);
        write_blocks(file, &copy[..whole], at)?;
    }
    Ok(())
}

fn write_blocks(file: &File, blocks: &[u8], at: u64) -> Result<()> {
    or_cached(file, || file.write_all_at(blocks, at))
}

/// Reads the first `len` bytes of the file into `buffer`, which has room for the rest of the last block.
pub(crate) fn read_exact(file: &File, buffer: &mut Buffer, len: usize) -> Result<()> {
    let whole = whole_blocks(len as u64) as usize;
    let filled = or_cached(file, || read_at_most(file, &mut buffer[..whole], 0))?;
    if filled < len { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Runs `act`, a second time through the page cache if the file system refuses the blocks (`EINVAL`).
fn or_cached<T>(file: &File, mut act: impl FnMut() -> Result<T>) -> Result<T> {
    match act() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            set(file, false);
            act()
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_set(file: &File) -> bool {
        fcntl_getfl(file).expect("it is open").contains(OFlags::DIRECT)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn direct_write_reads_back_with_zero_padding(
            pieces in prop::collection::vec(prop_oneof![1..3 * BLOCK, COPY - 1..COPY + 2, Just(2 * COPY + 1)], 1..6),
            shift in 0..8_usize,
            read_directly: bool,
        ) {
            let file = tempfile::tempfile().expect("a temporary file");
            set(&file, true);
            let mut expected = Vec::new();
            for len in pieces {
                let bytes: Vec<u8> = (0..shift + len).map(|at| (at % 251 + 1) as u8).collect();
                write_all_at(&file, &bytes[shift..], expected.len() as u64).expect("room");
                expected.extend_from_slice(&bytes[shift..]);
                expected.resize(whole_blocks(expected.len() as u64) as usize, 0);
            }
            set(&file, read_directly);
            let mut found = Buffer::new(expected.len()).expect("memory");
            read_exact(&file, &mut found, expected.len()).expect("readable");
            prop_assert!(found[..expected.len()] == expected);
        }
    }

    #[test]
    fn refused_direct_write_uses_the_page_cache() {
        let file = tempfile::tempfile().expect("a temporary file");
        set(&file, true);
        // A file system without direct I/O refuses nothing.
        let was_set = is_set(&file);
        write_blocks(&file, &[7; 100], 3).expect("no block, and written all the same");
        assert!(!is_set(&file) || !was_set);
        let mut found = [0; 100];
        file.read_exact_at(&mut found, 3).expect("readable");
        assert_eq!(found, [7; 100]);
    }

    #[test]
    fn short_file_is_an_error() {
        let file = tempfile::tempfile().expect("a temporary file");
        set(&file, true);
        write_all_at(&file, &[1; 5000], 0).expect("room");
        let error =
            read_exact(&file, &mut Buffer::new(3 * BLOCK).expect("memory"), 2 * BLOCK + 1).expect_err("two blocks");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
