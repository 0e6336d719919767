//! The blocks of whole logs, read backwards without the library. Unit tests of the library use this file
//! too.

use super::Family;

/// The unpacked blocks of a log. `version` is that of an Antelope log.
pub fn blocks(family: Family, version: u32, log: &[u8], dictionary: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut end = log.len();
    let first = match family {
        Family::Steem | Family::Hive => 0,
        _ => {
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
    assert_eq!(end, first, "the first block begins after the preamble");
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
