//! Block logs built byte by byte: chains of Steem and Antelope blocks with right ids, links and merkle roots, in any
//! framing. A block has one transaction at most, which is noise inside.

use std::collections::BTreeMap;

use ripemd::Ripemd160;
use sha2::{Digest, Sha224, Sha256};

use super::car::{noise, varint};
use super::model::Model;

#[derive(Debug, Clone)]
pub struct LogBlock {
    pub number: u32,
    pub id: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// Blocks `first` to `last` of a chain whose ids have so many bytes. The first one follows zeros if it is block 1.
fn chain(first: u32, last: u32, seed: u64, id: usize, block: impl Fn(u32, &[u8]) -> LogBlock) -> Vec<LogBlock> {
    let mut previous = vec![0; id];
    if first > 1 {
        previous[..4].copy_from_slice(&(first - 1).to_be_bytes());
        previous[4..].copy_from_slice(&noise(seed + 77, id - 4));
    }
    let next = |number| {
        let block = block(number, &previous);
        previous.clone_from(&block.id);
        block
    };
    (first..=last).map(next).collect()
}

/// Blocks of a chain of Steem; each `seed` makes a different chain.
pub fn steem(first: u32, last: u32, seed: u64) -> Vec<LogBlock> {
    chain(first, last, seed, 20, |number, previous| {
        let len = (u64::from(number) * 7919 + seed) % 900;
        let transaction = (len >= 300).then(|| custom(&noise(seed + 1_000_000 + u64::from(number), len as usize)));
        let root = |bytes: &Vec<u8>| <[u8; 20]>::from(Ripemd160::digest(Sha256::digest(bytes)));
        let root = transaction.as_ref().map(root).unwrap_or_default();
        let body = [&[transaction.is_some().into()], &transaction.unwrap_or_default()[..]].concat();
        steem_block(number, previous, &root, &body, seed)
    })
}

/// The block of Steem with this merkle root in its header, and `body` after it.
pub fn steem_block(number: u32, previous: &[u8], root: &[u8], body: &[u8], seed: u64) -> LogBlock {
    let mut bytes = previous.to_vec();
    bytes.extend((1_458_835_500 + number * 3).to_le_bytes());
    bytes.extend(b"\x08producer");
    bytes.extend(root);
    bytes.push(0);
    bytes.extend(noise(seed + u64::from(number), 65));
    let mut id = Sha224::digest(&bytes)[..20].to_vec();
    id[..4].copy_from_slice(&number.to_be_bytes());
    bytes.extend(body);
    LogBlock { number, id, bytes }
}

/// A transaction of Steem without signatures that carries `data` in a custom operation.
fn custom(data: &[u8]) -> Vec<u8> {
    // One operation, without accounts.
    let operation = [1, 15, 0, 7, 0];
    [&noise(data.len() as u64, 10)[..], &operation, &varint(data.len() as u64), data, &[0, 0]].concat()
}

pub fn genesis() -> Vec<u8> {
    [&[1; 8][..], &[0], &[2; 33], &[3; 68]].concat()
}

/// The bytes after the signature of an Antelope block whose only receipt holds `data` as its transaction, and the merkle
/// root. Version 4 has its own format.
fn receipt(version: u32, data: &[u8]) -> (Vec<u8>, [u8; 32]) {
    let usage = [0, 9, 0, 0, 0, 7];
    let with_length = [&varint(data.len() as u64), data].concat();
    let mut bytes = if version == 4 { vec![0, 1] } else { vec![1] };
    bytes.extend(usage);
    // Compression and the absence of signatures and context-free data; in version 4 also that nothing is pruned.
    bytes.extend(if version == 4 { &[1, 0, 0, 0, 0][..] } else { &[1, 0, 0, 0] });
    bytes.extend(&with_length);
    bytes.push(0);
    let prunable = Sha256::digest([0, 0]);
    let packed = Sha256::new().chain_update([0]).chain_update(&with_length).chain_update(prunable).finalize();
    (bytes, Sha256::new().chain_update(usage).chain_update(packed).finalize().into())
}

/// The block of Antelope with this merkle root in its header, and `body` after the signature.
pub fn antelope_block(number: u32, previous: &[u8], root: &[u8], body: &[u8], seed: u64) -> LogBlock {
    let mut bytes = (1_000_000 + number).to_le_bytes().to_vec();
    bytes.extend(0x5530_ea00_0000_0000u64.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(previous);
    bytes.extend(root);
    // The first block has the chain's id where others have the root of their actions.
    bytes.extend(if number == 1 { Sha256::digest(genesis()).into() } else { [7; 32] });
    bytes.extend([0; 4]);
    bytes.extend([0, 0]);
    let mut id = Sha256::digest(&bytes).to_vec();
    id[..4].copy_from_slice(&number.to_be_bytes());
    bytes.push(0);
    bytes.extend(noise(seed + u64::from(number), 65));
    bytes.extend(body);
    LogBlock { number, id, bytes }
}

/// Blocks of an Antelope chain, as in a log of this version.
pub fn antelope(version: u32, first: u32, last: u32, seed: u64) -> Vec<LogBlock> {
    chain(first, last, seed, 32, |number, previous| {
        let len = (u64::from(number) * 104_729 + seed) % 700;
        let (body, root) = if len < 60 {
            (vec![0; if version == 4 { 3 } else { 2 }], [0; 32])
        } else {
            receipt(version, &noise(seed + 2_000_000 + u64::from(number), len as usize))
        };
        antelope_block(number, previous, &root, &body, seed)
    })
}

/// Blocks of Antelope that each name one transaction by its id alone, as they do that execute a delayed one; after `every`
/// blocks the ids repeat.
pub fn delayed(count: u32, every: u32) -> Vec<LogBlock> {
    chain(1, count, 8, 32, |number, previous| {
        // Status, processor time, words of the net.
        let (usage, id) = ([0, 9, 0, 0, 0, 7], noise(u64::from(number % every), 32));
        let root = Sha256::new().chain_update(usage).chain_update(&id).finalize();
        antelope_block(number, previous, &root, &[&[1][..], &usage, &[0], &id, &[0]].concat(), 8)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    Raw,
    Zstd,
}

pub fn log(blocks: &[LogBlock], packed: impl Fn(u32) -> Packed) -> Vec<u8> {
    let mut log = Vec::new();
    for block in blocks {
        let mut word = log.len() as u64;
        match packed(block.number) {
            Packed::Raw => log.extend(&block.bytes),
            Packed::Zstd => {
                let mut encoder = zstd::bulk::Compressor::new(3).expect("an encoder");
                encoder.include_contentsize(false).expect("an option");
                log.extend(&encoder.compress(&block.bytes).expect("room")[4..]);
                word |= 1 << 63;
            }
        }
        log.extend(word.to_le_bytes());
    }
    log
}

pub fn raw(blocks: &[LogBlock]) -> Vec<u8> {
    log(blocks, |_| Packed::Raw)
}

/// Offsets of the blocks of a log, from the words after them.
pub fn words(log: &[u8]) -> Vec<u64> {
    let mut end = log.len();
    let mut words = Vec::new();
    while end > 0 {
        let word = u64::from_le_bytes(log[end - 8..end].try_into().expect("8 bytes"));
        words.push(word);
        end = (word & ((1 << 48) - 1)) as usize;
    }
    words.reverse();
    words
}

/// The positions of words as an index has them.
pub fn index(log: &[u8]) -> Vec<u8> {
    words(log).into_iter().flat_map(|word| (word & ((1 << 48) - 1)).to_le_bytes()).collect()
}

/// The artifacts of a log, version 1.0 or 1.1.
pub fn artifacts(log: &[u8], blocks: &[LogBlock], minor: u8) -> Vec<u8> {
    let (first, last) = (blocks[0].number, blocks[blocks.len() - 1].number);
    let mut bytes = last.to_le_bytes().to_vec();
    bytes.extend([b'g'; 41]);
    bytes.extend([1, minor, 0]);
    if minor == 1 {
        bytes.extend(first.to_le_bytes());
        bytes.extend([0; 4]);
    }
    for (word, block) in words(log).into_iter().zip(blocks) {
        bytes.extend(word.to_le_bytes());
        bytes.extend(&block.id[4..20]);
    }
    bytes
}

pub fn antelope_log(version: u32, blocks: &[LogBlock]) -> Vec<u8> {
    let first = blocks[0].number;
    let genesis = genesis();
    let mut log = version.to_le_bytes().to_vec();
    if version > 1 {
        log.extend(first.to_le_bytes());
    }
    if version < 3 || first == 1 {
        log.extend(&genesis);
    } else {
        log.extend(Sha256::digest(&genesis));
    }
    if version > 1 {
        log.extend([0xff; 8]);
    }
    for block in blocks {
        let start = log.len() as u64;
        if version == 4 {
            log.extend((block.bytes.len() as u32 + 13).to_le_bytes());
            log.push(0);
        }
        log.extend(&block.bytes);
        log.extend(start.to_le_bytes());
    }
    log
}

pub fn model(blocks: &[LogBlock]) -> Model {
    let records: BTreeMap<Vec<u8>, Vec<u8>> =
        blocks.iter().map(|block| (block.number.to_be_bytes().to_vec(), block.bytes.clone())).collect();
    let payload = blocks.iter().map(|block| block.bytes.len() as u64).sum();
    Model { records, read: blocks.len() as u64, payload }
}

/// The import ended well, and the database holds exactly these blocks and their ids.
#[track_caller]
pub fn holds(done: &super::run::Done, blocks: &[LogBlock]) {
    done.succeeded();
    let model = model(blocks);
    assert_eq!(done.text("/key"), "number");
    assert_eq!(done.number("/blocks/read"), model.read);
    assert_eq!(done.number("/blocks/written"), model.read);
    assert_eq!(done.number("/payload_bytes"), model.payload);
    assert_eq!(done.text("/digest"), model.digest());
    assert!(super::model::records(&done.db) == model.records, "the database holds other blocks");
    let ids = blocks.iter().map(|block| (block.id.clone(), block.number.to_be_bytes().to_vec())).collect();
    assert!(super::model::family(&done.db, "block_ids") == ids, "the database holds other ids");
    let last = &blocks[blocks.len() - 1];
    assert_eq!((done.number("/log/last/number"), done.text("/log/last/id")), (last.number.into(), &hex(&last.id)[..]));
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
