//! Flips every bit of a small source, one at a time. The import refuses the changed file, or yields exactly the records
//! of an independent reading.

use std::collections::BTreeMap;

use sha2::{Digest, Sha224, Sha256};

use super::common::car::{header, rooted};
use super::common::crash::{Case, Chance, From, Way};
use super::common::log::{antelope_log, raw};
use super::common::model::Key;
use super::imports::{World, blocks, snapshot_of};
use super::judge::*;
use super::{Context, Tell, logs};

pub struct Small {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    args: &'static [&'static str],
    read: fn(&[u8]) -> Option<Families>,
    /// The part of the file that contains a bit.
    place: fn(&[u8], usize) -> &'static str,
}

pub fn car() -> Small {
    Small { name: "CAR", bytes: rooted(&blocks(9, 40, 60, true)), args: &[], read: read_car, place: place_in_car }
}

pub fn steem(links: bool) -> Small {
    let (blocks, _) = logs::steem(8, 30, 3);
    let (name, args): (_, &[&str]) = if links { ("Steem log, links", LINKS) } else { ("Steem log", ALL) };
    Small { name, bytes: raw(&blocks), args, read: read_steem, place: place_in_steem }
}

pub fn antelope(links: bool) -> Small {
    let (blocks, _) = logs::antelope(8, 3);
    let (name, args): (_, &[&str]) = if links { ("Antelope log, links", LINKS) } else { ("Antelope log", ALL) };
    Small { name, bytes: antelope_log(3, &blocks), args, read: read_antelope, place: place_in_antelope }
}

/// Links of a log are checked, and nothing else.
const LINKS: &[&str] = &["--verify", "links"];
/// Merkle roots are checked too.
const ALL: &[&str] = &["--verify", "hash"];

/// Flips bits from `at.index` on: a few at a time, because each takes little.
pub fn flips(small: &Small, _: &World, at: &Context, _: &mut Chance, tell: Tell<'_>) {
    let bits = small.bytes.len() as u64 * 8;
    // Neighbours far apart: a part of the bits is spread over the file.
    let bit = (at.index.wrapping_mul(7_368_787) + at.seed) % bits;
    let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
    let mut flipped = small.bytes.clone();
    flipped[byte] ^= mask;
    let file = at.dir.join("source");
    std::fs::write(&file, &flipped).expect("room");
    let mut case = Case::new(at.dir, snapshot_of(file, 0), Way::Memory, From::File);
    case.args = small.args.iter().map(Into::into).collect();
    let place = (small.place)(&small.bytes, byte);
    let what = format!("{}: byte {byte} ^ {mask:#04x}, {place}", small.name);
    let judge = || {
        let ended = ends(case.start(), &[0, 3])?;
        if ended.code == Some(3) {
            return refused(&case.db);
        }
        let Some(families) = (small.read)(&flipped) else {
            return fail(Harm::Wrong, "accepted, and cannot be read in another way");
        };
        Wanted::new(at.dir.join("wanted"), &families, &Families::new()).check_database(&case.db)?;
        at.uncovered(small.name, place);
        Ok(Outcome::Uncovered)
    };
    tell(&what, judge());
}

/// A number in base 128, and the bytes after it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// CIDs and data of a CAR; `None` when it is not one, or a digest is not that of its data.
fn read_car(bytes: &[u8]) -> Option<Families> {
    let (len, rest) = number(bytes)?;
    let mut rest = rest.get(len as usize..)?;
    let mut records = BTreeMap::new();
    while !rest.is_empty() {
        let (len, after) = number(rest)?;
        let section = after.get(..len as usize)?;
        rest = &after[len as usize..];
        let hash = match section {
            [0x12, 0x20, ..] => section,
            [1, codec @ ..] => number(codec)?.1,
            _ => return None,
        };
        let (function, digest) = number(hash)?;
        let (digest_len, digest) = number(digest)?;
        let data = digest.get(digest_len as usize..)?;
        let digest = &digest[..digest_len as usize];
        let is_right = match function {
            0 => digest == data,
            0x12 => digest == &Sha256::digest(data)[..],
            0xb220 => digest == blake2b_simd::Params::new().hash_length(32).hash(data).as_bytes(),
            _ => false,
        };
        let cid = &section[..section.len() - data.len()];
        if !is_right {
            return None;
        }
        records.insert(Key::Cid.of(cid), data.to_vec());
    }
    Some(BTreeMap::from([("default".into(), records)]))
}

fn place_in_car(bytes: &[u8], byte: usize) -> &'static str {
    let (len, rest) = number(bytes).expect("a header");
    let header_len = bytes.len() - rest.len() + len as usize;
    debug_assert!(header_len >= header(&[]).len());
    if byte < header_len {
        return "the root in the header";
    }
    let mut at = header_len;
    loop {
        let (len, after) = number(&bytes[at..]).expect("a section");
        let start = bytes.len() - after.len();
        if byte < start {
            return "the length of a section";
        }
        if byte < start + len as usize {
            let is_codec = bytes[start] == 1 && byte == start + 1;
            return if is_codec { "the codec of a CID" } else { "a section" };
        }
        at = start + len as usize;
    }
}

/// Ranges of the blocks of a log.
fn frames(log: &[u8], from: usize) -> Option<Vec<&[u8]>> {
    let mut end = log.len();
    let mut frames = Vec::new();
    while end > from {
        let word = log.get(end.checked_sub(8)?..end)?;
        let start = usize::try_from(u64::from_le_bytes(word.try_into().ok()?)).ok()?;
        frames.push(log.get(start..end - 8)?);
        end = start;
    }
    frames.reverse();
    (end == from).then_some(frames)
}

/// Blocks by number, and their ids by what a header's length is and its hash.
fn read_log(frames: &[&[u8]], previous_at: usize, id: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Families> {
    let (mut by_number, mut ids) = (BTreeMap::new(), BTreeMap::new());
    for block in frames {
        let previous = block.get(previous_at..previous_at + 4)?;
        let number = (u32::from_be_bytes(previous.try_into().ok()?).checked_add(1)?).to_be_bytes();
        let mut id = id(block)?;
        id[..4].copy_from_slice(&number);
        by_number.insert(number.to_vec(), block.to_vec());
        ids.insert(id, number.to_vec());
    }
    Some(BTreeMap::from([("default".into(), by_number), ("block_ids".into(), ids)]))
}

/// Bytes of a Steem header with its signature; the bodies of its extensions are skipped.
fn steem_header(block: &[u8]) -> Option<usize> {
    let witness = number(block.get(24..)?)?.0 as usize;
    let extensions = 24 + 1 + witness + 20;
    let mut at = extensions + 1;
    for _ in 0..*block.get(extensions)? {
        at += 1 + [0, 4, 8].get(usize::from(*block.get(at)?))?;
    }
    Some(at + 65)
}

fn read_steem(log: &[u8]) -> Option<Families> {
    let id = |block: &[u8]| Some(Sha224::digest(block.get(..steem_header(block)?)?)[..20].to_vec());
    read_log(&frames(log, 0)?, 0, id)
}

/// The part of a log that contains a byte; `part` names it within a block.
fn place_in_log(log: &[u8], first: usize, byte: usize, part: fn(&[u8], usize) -> &'static str) -> &'static str {
    if byte < first {
        return "what stands before the first block";
    }
    let all = frames(log, first).expect("a log");
    let mut start = first;
    for (index, block) in all.iter().enumerate() {
        let end = start + block.len();
        if byte < end {
            let part = part(block, byte - start);
            let is_followed = part != HEADER || index + 1 < all.len();
            return if is_followed { part } else { "the header of the last block, which no block follows" };
        }
        if byte < end + 8 {
            return "a word behind a block";
        }
        start = end + 8;
    }
    "nothing"
}

const HEADER: &str = "the header of a block";

fn place_in_steem(log: &[u8], byte: usize) -> &'static str {
    place_in_log(
        log,
        0,
        byte,
        |block, at| {
            if at < steem_header(block).expect("a block") { HEADER } else { "transactions" }
        },
    )
}

/// Bytes of an Antelope header without new producers and extensions.
const ANTELOPE_HEADER: usize = 4 + 8 + 2 + 32 + 32 + 32 + 4 + 1 + 1;

/// Version, number, genesis and totem, as `antelope_log` writes them.
const ANTELOPE_START: usize = 4 + 4 + (8 + 1 + 33 + 68) + 8;

fn read_antelope(log: &[u8]) -> Option<Families> {
    let id = |block: &[u8]| match block.get(ANTELOPE_HEADER - 2..ANTELOPE_HEADER)? {
        [0, 0] => Some(Sha256::digest(&block[..ANTELOPE_HEADER]).to_vec()),
        _ => None,
    };
    read_log(&frames(log, ANTELOPE_START)?, 14, id)
}

fn place_in_antelope(log: &[u8], byte: usize) -> &'static str {
    place_in_log(log, ANTELOPE_START, byte, |block, at| match at {
        _ if at < ANTELOPE_HEADER => HEADER,
        _ if at < ANTELOPE_HEADER + 66 => "the producer's signature",
        _ if at + 1 == block.len() => "the extensions of a block",
        _ => "transactions",
    })
}
