//! Blocks of Steem and Hive.

use sha2::{Digest, Sha256};

use super::super::random::{MILLION, Noise};
use super::bytes::{reference, signature, text, varint};
use super::steem_operations::Operations;
use super::words::Words;
use crate::blocks::chain::{self, Id};

/// The time of block 1: 2016-03-24T16:05:00, in seconds since 1970.
const START: u64 = 1_458_835_500;
const INTERVAL: u64 = 3;

/// Transactions of a block: 3 % of the blocks have none, half have up to 13, one in a thousand has 80 or more.
const TRANSACTIONS: &[(u64, u64)] =
    &[(30_000, 1), (250_000, 8), (500_000, 14), (900_000, 30), (990_000, 55), (999_000, 81), (MILLION, 161)];

/// Writes the transactions of a block. Returns their number and merkle root.
pub(super) fn body(words: &Words, hive: bool, block: u64, noise: &mut Noise, out: &mut Vec<u8>) -> (u32, Id) {
    let count = noise.draw(TRANSACTIONS) as usize - 1;
    varint(out, count);
    let mut leaves = Vec::with_capacity(count);
    for _ in 0..count {
        let start = out.len();
        let time = time(block);
        reference(out, block, noise);
        out.extend(time.wrapping_add(30 + noise.below(30) as u32).to_le_bytes());
        let nai = hive && noise.below(4) == 0;
        Operations { words, out, noise, hive, nai, block, time }.write();
        varint(out, 0);
        varint(out, 1);
        signature(out, noise);
        leaves.push(Sha256::digest(&out[start..]).into());
    }
    (count as u32, chain::steem_root(&mut leaves))
}

/// Writes the signed header of a block; returns its id.
pub(super) fn header(words: &Words, block: u32, previous: Id, root: Id, noise: &mut Noise, out: &mut Vec<u8>) -> Id {
    let start = out.len();
    out.extend_from_slice(previous.as_bytes());
    out.extend(time(block.into()).to_le_bytes());
    // A round has 21 witnesses, which change slowly.
    let witness = u64::from(block % 21) + 21 * u64::from(block >> 16);
    text(out, words.account(&mut Noise::new(witness, 4)));
    out.extend_from_slice(root.as_bytes());
    let extensions: &[u8] = match noise.below(200) {
        0 => b"\x01\x01\x00\x13\x00\x00",
        1 => b"\x02\x01\x00\x13\x00\x00\x02\x00\x14\x00\x00\x80\x6d\x0c\x5a",
        _ => b"\x00",
    };
    out.extend_from_slice(extensions);
    signature(out, noise);
    chain::steem_id(&out[start..], block)
}

fn time(block: u64) -> u32 {
    (START + (block.saturating_sub(1)) * INTERVAL) as u32
}
