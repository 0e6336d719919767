//! The blocks of whole logs, taken apart backwards by a few lines of their own, for tests.

use std::path::{Path, PathBuf};

use crate::chain::Family;

/// The folder of real logs; `None`, said loudly, where it is absent.
pub(crate) fn fixtures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    let named = std::env::var_os("BEDLOAD_FIXTURES").map(PathBuf::from);
    let found = [named, Some(beside)].into_iter().flatten().map(|dir| dir.join("block_log")).find(|dir| dir.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: no real block logs; BEDLOAD_FIXTURES names the folder that has block_log");
    }
    found
}

/// The unpacked blocks of a log. `version` is that of an Antelope log.
pub(crate) fn blocks(family: Family, version: u32, log: &[u8], dictionary: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut end = log.len();
    let first = match family {
        Family::Steem | Family::Hive => 0,
        Family::Antelope => {
            let partial = version >= 3 && log[4..8] != [1, 0, 0, 0];
            if partial { 48 } else { 114 + if version == 1 { 0 } else { 12 } }
        }
    };
    while end > first {
        let word = u64::from_le_bytes(log[end - 8..end].try_into().expect("eight bytes"));
        let start = (word & 0xffff_ffff_ffff) as usize;
        let stored = &log[start..end - 8];
        blocks.push(match (family, word >> 63) {
            (Family::Hive, 1) => unpack(stored, if word >> 56 & 1 == 1 { dictionary } else { None }),
            (Family::Antelope, _) if version == 4 => stored[5..].to_vec(),
            _ => stored.to_vec(),
        });
        end = start;
    }
    assert_eq!(end, first, "the first block begins behind the preamble");
    blocks.reverse();
    blocks
}

fn unpack(frame: &[u8], dictionary: Option<&[u8]>) -> Vec<u8> {
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd], frame].concat();
    let mut unpacked = Vec::new();
    let mut decoder = zstd::stream::Decoder::with_dictionary(&frame[..], dictionary.unwrap_or_default()).expect("zstd");
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).expect("a frame");
    unpacked
}

/// A real log: its name, family, version and blocks.
pub(crate) type Log = (&'static str, Family, u32, Vec<Vec<u8>>);

/// Every block of every real log.
pub(crate) fn real() -> Option<Vec<Log>> {
    let folder = fixtures()?;
    let dictionary = std::fs::read(folder.join("hive/000M.dict.zst")).expect("the dictionary");
    let dictionary = zstd::decode_all(&dictionary[..]).expect("zstd");
    let logs = [
        ("steem_mainnet_1_1000/block_log", Family::Steem, 0),
        ("hive/testnet_hf28.block_log", Family::Hive, 0),
        ("hive/testnet_split_merge_pattern.block_log", Family::Hive, 0),
        ("antelope_v2/blocks.log", Family::Antelope, 2),
        ("antelope_v4/blocks.log", Family::Antelope, 4),
    ];
    let read = |(name, family, version)| {
        let log = std::fs::read(folder.join(name)).expect("a real log");
        (name, family, version, blocks(family, version, &log, Some(&dictionary)))
    };
    Some(logs.map(read).to_vec())
}
