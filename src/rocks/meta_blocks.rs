//! The blocks of an SST that no scan reads: filters and the like. RocksDB silently does without a filter that it cannot
//! read, so a damaged one shows only as slowness; here it is found.
//!
//! ```text
//! data blocks .. | meta blocks .. | metaindex | footer                a block: contents | u8 compression | u32 checksum
//!
//! metaindex   entries: varint shared | varint own | varint length of value | own part of the name | value
//!             .. | u32 restarts[n] | u32 n                            value: varint offset | varint size of a block
//! footer      u8 checksum type | 40 bytes | u32 format version | u64 88e241b785f4cff7
//!   version 2-5: varint offset | varint size of the metaindex | ..
//!   version 6+:  3e 00 7a 00 | u32 footer checksum | u32 context | u32 size of the metaindex | 24 bytes
//!                (from 8 on that size has 16 bits, and the 16 above them are a gap before the footer)
//! ```
//!
//! Integers are little-endian. From version 6 on a checksum also depends on the file (context) and the block's offset.
//! Damage to the footer, the metaindex or the index is not told here: RocksDB refuses such a file by itself.
//! Format: <https://github.com/facebook/rocksdb/wiki/Rocksdb-BlockBasedTable-Format>.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use twox_hash::{XxHash3_64, XxHash32, XxHash64};

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const FOOTER_LEN: u64 = 53;
const TRAILER_LEN: u64 = 5;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0, 0x7a, 0];

/// The largest metaindex, and the largest meta block, that are believed, in bytes.
const MAX_METAINDEX: u64 = 1 << 20;
const MAX_META_BLOCK: u64 = 1 << 30;

/// The name under which newer metaindexes list the index, which every scan reads.
const INDEX_NAME: &[u8] = b"rocksdb.index";

/// A meta block that does not match its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaFault {
    /// Its name in the metaindex.
    pub name: String,
    /// Where it begins in the file.
    pub offset: u64,
}

#[derive(Debug, Clone, Copy)]
struct Footer {
    checksum: u8,
    context: u32,
    metaindex: Handle,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    offset: u64,
    size: u64,
}

/// Checks the meta blocks of an SST.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check(path: &Path) -> io::Result<Vec<MetaFault>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let Some(footer_at) = size.checked_sub(FOOTER_LEN) else { return Ok(Vec::new()) };
    let mut footer = [0; FOOTER_LEN as usize];
    file.read_exact_at(&mut footer, footer_at)?;
    let Some(footer) = read_footer(&footer, footer_at) else { return Ok(Vec::new()) };
    let Some(metaindex) = read_block(&file, &footer, footer.metaindex, footer_at.min(MAX_METAINDEX))? else {
        return Ok(Vec::new());
    };
    let mut faults = Vec::new();
    for (name, handle) in entries(&metaindex) {
        if name == INDEX_NAME {
            continue;
        }
        let whole = handle.offset.saturating_add(handle.size).saturating_add(TRAILER_LEN) <= footer_at;
        if !whole || read_block(&file, &footer, handle, MAX_META_BLOCK)?.is_none() {
            faults.push(MetaFault { name: String::from_utf8_lossy(&name).into_owned(), offset: handle.offset });
        }
    }
    Ok(faults)
}

fn read_footer(footer: &[u8; FOOTER_LEN as usize], at: u64) -> Option<Footer> {
    let (&checksum, rest) = footer.split_first()?;
    let (part, rest) = rest.split_at_checked(40)?;
    let (version, magic) = rest.split_first_chunk::<4>()?;
    if u64::from_le_bytes(*magic.first_chunk()?) != MAGIC {
        return None;
    }
    let version = u32::from_le_bytes(*version);
    if version < 6 {
        let (metaindex, _) = read_handle(part)?;
        return Some(Footer { checksum, context: 0, metaindex });
    }
    let number = |from: usize| Some(u32::from_le_bytes(*part.get(from..)?.first_chunk()?));
    if part.first_chunk()? != &EXTENDED_MAGIC {
        return None;
    }
    let size = u64::from(number(12)?);
    let (size, gap) = if version >= 8 { (size & 0xffff, size >> 16) } else { (size, 0) };
    let offset = at.checked_sub(TRAILER_LEN + gap + size)?;
    Some(Footer { checksum, context: number(8)?, metaindex: Handle { offset, size } })
}

/// A block's contents; `None` when they do not match the checksum, or cannot be there.
fn read_block(file: &File, footer: &Footer, block: Handle, max: u64) -> io::Result<Option<Vec<u8>>> {
    let file_size = file.metadata()?.len();
    if block.size > max || block.offset.saturating_add(block.size).saturating_add(TRAILER_LEN) > file_size {
        return Ok(None);
    }
    let mut bytes = vec![0; (block.size + TRAILER_LEN) as usize];
    file.read_exact_at(&mut bytes, block.offset)?;
    let contents = block.size as usize;
    let Some(stored) = bytes.get(contents + 1..).and_then(|stored| stored.first_chunk()) else { return Ok(None) };
    let stored = u32::from_le_bytes(*stored);
    let covered = bytes.get(..=contents).unwrap_or_default();
    let matches = checksum(footer.checksum, covered).is_none_or(|sum| {
        let context = match footer.context {
            0 => 0,
            context => context ^ (block.offset as u32).wrapping_add((block.offset >> 32) as u32),
        };
        sum.wrapping_add(context) == stored
    });
    bytes.truncate(contents);
    Ok(matches.then_some(bytes))
}

/// The checksum of a block and its compression byte; `None` for "no checksum" and kinds that do not exist.
fn checksum(kind: u8, covered: &[u8]) -> Option<u32> {
    match kind {
        1 => {
            let crc = crc32c(covered);
            Some(crc.rotate_right(15).wrapping_add(0xa282_ead8))
        }
        2 => Some(XxHash32::oneshot(0, covered)),
        3 => Some(XxHash64::oneshot(0, covered) as u32),
        4 => {
            let (&last, contents) = covered.split_last()?;
            Some(XxHash3_64::oneshot(contents) as u32 ^ u32::from(last).wrapping_mul(0x6b90_83d9))
        }
        _ => None,
    }
}

/// CRC-32C, bit by bit: only old files have it, and meta blocks are small.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// The names in a metaindex and where their blocks are.
fn entries(block: &[u8]) -> Vec<(Vec<u8>, Handle)> {
    let mut found = Vec::new();
    let Some((rest, restarts)) = block.split_last_chunk::<4>() else { return found };
    let restarts = (u32::from_le_bytes(*restarts) & 0x0fff_ffff) as usize;
    let Some(end) = restarts.checked_mul(4).and_then(|len| rest.len().checked_sub(len)) else { return found };
    let mut rest = rest.get(..end).unwrap_or_default();
    let mut name: Vec<u8> = Vec::new();
    while !rest.is_empty() {
        let Some(entry) = read_entry(rest, &mut name) else { break };
        found.push((name.clone(), entry.0));
        rest = entry.1;
    }
    found
}

fn read_entry<'a>(bytes: &'a [u8], name: &mut Vec<u8>) -> Option<(Handle, &'a [u8])> {
    let (shared, rest) = unsigned_varint::decode::u32(bytes).ok()?;
    let (own, rest) = unsigned_varint::decode::u32(rest).ok()?;
    let (value, rest) = unsigned_varint::decode::u32(rest).ok()?;
    let (own, rest) = rest.split_at_checked(own as usize)?;
    let (value, rest) = rest.split_at_checked(value as usize)?;
    name.truncate(shared as usize);
    name.extend_from_slice(own);
    Some((read_handle(value)?.0, rest))
}

fn read_handle(bytes: &[u8]) -> Option<(Handle, &[u8])> {
    let (offset, rest) = unsigned_varint::decode::u64(bytes).ok()?;
    let (size, rest) = unsigned_varint::decode::u64(rest).ok()?;
    Some((Handle { offset, size }, rest))
}

#[cfg(test)]
mod tests {
    use rust_rocksdb::{BlockBasedOptions, ChecksumType, DBCompressionType, Options, SstFileWriter};

    use super::*;

    fn sst(dir: &Path, version: i32, kind: ChecksumType) -> std::path::PathBuf {
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(10.0, false);
        table.set_format_version(version);
        table.set_checksum_type(kind);
        let mut options = Options::default();
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&table);
        let path = dir.join(format!("{version}.sst"));
        let mut writer = SstFileWriter::create(&options);
        writer.open(&path).expect("open");
        for number in 0..2000u32 {
            writer.put(number.to_be_bytes(), [7; 100]).expect("put");
        }
        writer.finish().expect("finish");
        path
    }

    #[test]
    fn a_flipped_bit_in_a_filter_is_found_in_every_format() {
        let dir = tempfile::tempdir().expect("a directory");
        for (version, kind) in [
            (5, ChecksumType::CRC32c),
            (5, ChecksumType::XXHash),
            (5, ChecksumType::XXHash64),
            (5, ChecksumType::XXH3),
            (6, ChecksumType::XXH3),
            (6, ChecksumType::CRC32c),
            (7, ChecksumType::XXH3),
        ] {
            let path = sst(dir.path(), version, kind);
            assert_eq!(check(&path).expect("read"), [], "version {version}");
            let file = File::options().read(true).write(true).open(&path).expect("open");
            let size = file.metadata().expect("metadata").len();
            let mut footer = [0; FOOTER_LEN as usize];
            file.read_exact_at(&mut footer, size - FOOTER_LEN).expect("read");
            let footer = read_footer(&footer, size - FOOTER_LEN).expect("a footer");
            let metaindex = read_block(&file, &footer, footer.metaindex, 1 << 20).expect("read").expect("a metaindex");
            let (name, filter) =
                entries(&metaindex).into_iter().find(|(name, _)| name.starts_with(b"fullfilter.")).expect("a filter");
            assert!(filter.size > 2000);
            let at = filter.offset + 1000;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("read");
            file.write_all_at(&[byte[0] ^ 4], at).expect("write");
            let fault = MetaFault { name: String::from_utf8(name).expect("text"), offset: filter.offset };
            assert_eq!(check(&path).expect("read"), [fault], "version {version}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(0u8.., 0..200), magic: bool) {
            if magic && bytes.len() >= 12 {
                let at = bytes.len() - 12;
                bytes[at..].copy_from_slice(&[6, 0, 0, 0, 0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88]);
            }
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), &bytes).expect("write");
            let _ = check(file.path());
            entries(&bytes);
        }
    }
}
