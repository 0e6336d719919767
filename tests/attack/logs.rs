//! Block logs whose transactions and merkle roots are right, with what a database of them must hold.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::common::car::{noise, varint};
use super::common::log::{LogBlock, antelope_block, steem_block};
use super::judge::Families;

/// A chain of Steem blocks: each with up to three transactions of one comment each, about `len` bytes long.
pub fn steem(last: u32, len: usize, seed: u64) -> (Vec<LogBlock>, Families) {
    let mut previous = vec![0; 20];
    let mut transactions = BTreeMap::new();
    let mut blocks = Vec::new();
    for number in 1..=last {
        let mut leaves = Vec::new();
        let mut body = varint(u64::from(number % 4));
        for position in 0..number % 4 {
            let mut unsigned = [&number.to_le_bytes()[..2], &position.to_le_bytes(), &[1, 2, 3, 4, 1, 1]].concat();
            let long = noise(seed + u64::from(number * 4 + position), len);
            for text in [&b""[..], b"", b"author", b"link", b"title", &long, b"{}"] {
                unsigned.extend(varint(text.len() as u64));
                unsigned.extend(text);
            }
            unsigned.push(0);
            let signed = [&unsigned[..], &[1], &noise(u64::from(number), 65)].concat();
            let value = [number.to_be_bytes(), position.to_be_bytes()].concat();
            transactions.insert(Sha256::digest(&unsigned)[..20].to_vec(), value);
            leaves.push(Sha256::digest(&signed).to_vec());
            body.extend(signed);
        }
        let block = steem_block(number, &previous, &steem_root(leaves), &body, seed);
        previous.clone_from(&block.id);
        blocks.push(block);
    }
    let mut families = families(&blocks);
    families.insert("transactions".into(), transactions);
    (blocks, families)
}

/// Pairs are hashed, a last one without a neighbour goes up as it is.
fn steem_root(mut level: Vec<Vec<u8>>) -> Vec<u8> {
    if level.is_empty() {
        return vec![0; 20];
    }
    while level.len() > 1 {
        let parent = |pair: &[Vec<u8>]| match pair {
            [one] => one.clone(),
            pair => Sha256::digest(pair.concat()).to_vec(),
        };
        level = level.chunks(2).map(parent).collect();
    }
    ripemd::Ripemd160::digest(&level[0]).to_vec()
}

/// A chain of Antelope blocks; every second one executes one transaction that was put off.
pub fn antelope(last: u32, seed: u64) -> (Vec<LogBlock>, Families) {
    let mut previous = vec![0; 32];
    let mut blocks = Vec::new();
    for number in 1..=last {
        let id = noise(seed + 1000 + u64::from(number), 32);
        let receipt = [&[0][..], &7u32.to_le_bytes(), &[9], &id].concat();
        let (root, body) = match number % 2 {
            // The digest leaves out the byte that says that only an id follows.
            0 => (Sha256::digest(&receipt).to_vec(), [&[1][..], &receipt[..6], &[0], &id, &[0]].concat()),
            _ => (vec![0; 32], vec![0, 0]),
        };
        let block = antelope_block(number, &previous, &root, &body, seed);
        previous.clone_from(&block.id);
        blocks.push(block);
    }
    let families = families(&blocks);
    (blocks, families)
}

/// Blocks by their numbers, and numbers by their ids.
pub fn families(blocks: &[LogBlock]) -> Families {
    let key = |block: &LogBlock| block.number.to_be_bytes().to_vec();
    BTreeMap::from([
        ("default".into(), blocks.iter().map(|block| (key(block), block.bytes.clone())).collect()),
        ("block_ids".into(), blocks.iter().map(|block| (block.id.clone(), key(block))).collect()),
    ])
}
