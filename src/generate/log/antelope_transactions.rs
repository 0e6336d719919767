//! Transactions of Antelope blocks: transfers of tokens, moves of games, messages.

use flate2::{Compress, Compression, FlushCompress};
use sha2::{Digest, Sha256};

use super::super::random::{MILLION, Noise};
use super::antelope::{PRUNABLE, account, extensions, number, time};
use super::bytes::{random, reference, signature, text, varint};
use super::words::Words;
use crate::blocks::chain::{self, Id};

/// Transactions of a block: 10 % of the blocks have none, half have up to 11, one in a thousand has 80 or more.
const TRANSACTIONS: &[(u64, u64)] =
    &[(100_000, 1), (250_000, 6), (500_000, 12), (900_000, 30), (990_000, 50), (999_000, 81), (MILLION, 161)];

#[derive(Debug, Clone, Copy)]
pub(super) struct BlockKind {
    pub(super) block: u64,
    pub(super) version: u32,
    pub(super) savanna: bool,
}

/// Writes the transactions and extensions of a block; returns how many transactions, and their merkle root.
pub(super) fn body(words: &Words, kind: BlockKind, zlib: &mut Zlib, noise: &mut Noise, out: &mut Vec<u8>) -> (u32, Id) {
    let count = noise.draw(TRANSACTIONS) as usize - 1;
    let mut leaves = Vec::with_capacity(count);
    let mut pruned = 0;
    if kind.version == PRUNABLE {
        // State 2 is complete. One block in 16 has lost prunable data.
        out.push(2);
    }
    let state = out.len().wrapping_sub(1);
    varint(out, count);
    let prune = kind.version == PRUNABLE && noise.below(16) == 0;
    for _ in 0..count {
        leaves.push(receipt(words, kind, prune, zlib, noise, out, &mut pruned));
    }
    extensions(kind.savanna, noise, out);
    if pruned > 0 {
        out[state] = 0;
        // The entry keeps its size.
        out.resize(out.len() + pruned, 0);
    }
    (count as u32, chain::antelope_root(&mut leaves, kind.savanna))
}

/// Writes a receipt and returns the leaf of the tree. `pruned` counts removed bytes.
fn receipt(
    words: &Words,
    kind: BlockKind,
    prune: bool,
    zlib: &mut Zlib,
    noise: &mut Noise,
    out: &mut Vec<u8>,
    pruned: &mut usize,
) -> [u8; 32] {
    let start = out.len();
    // Of a deferred transaction only the id is in the block.
    let deferred = noise.below(40) == 0;
    out.push(if deferred { noise.below(5) as u8 } else { 0 });
    out.extend((100 + noise.below(2000) as u32).to_le_bytes());
    varint(out, 12 + noise.below(200) as usize);
    let usage_end = out.len();
    if deferred {
        out.push(0);
        random(out, 32, noise);
        return sum(&[&out[start..usage_end], &out[usage_end + 1..]]);
    }
    out.push(1);
    let compressed = u8::from(noise.below(20) == 0);
    let mut transaction = Vec::with_capacity(256);
    write(words, kind.block, noise, &mut transaction);
    if compressed == 1 {
        transaction = zlib.pack(&transaction);
    }
    let mut prunable = Vec::with_capacity(80);
    varint(&mut prunable, 1);
    prunable.push(0);
    signature(&mut prunable, noise);
    text(&mut prunable, b"");
    let prunable_digest = sum(&[&prunable]);
    if kind.version == PRUNABLE {
        out.push(compressed);
        if prune && noise.below(2) == 0 {
            out.push(1);
            out.extend(prunable_digest);
            *pruned += prunable.len() - prunable_digest.len();
        } else {
            out.push(0);
            out.extend_from_slice(&prunable);
        }
    } else {
        let (signatures, data) = prunable.split_at(prunable.len() - 1);
        out.extend_from_slice(signatures);
        out.push(compressed);
        out.extend_from_slice(data);
    }
    let at = out.len();
    text(out, &transaction);
    let packed = sum(&[&[compressed], &out[at..], &prunable_digest]);
    sum(&[&out[start..usage_end], &packed])
}

/// Writes a transaction: header, one or two actions, nothing else.
fn write(words: &Words, block: u64, noise: &mut Noise, out: &mut Vec<u8>) {
    out.extend(time(block).wrapping_add(30 + noise.below(30) as u32).to_le_bytes());
    reference(out, block, noise);
    out.extend([0, 0, 0, 0]);
    let actions = 1 + usize::from(noise.below(6) == 0);
    varint(out, actions);
    for _ in 0..actions {
        let actor = account(words, noise);
        let mut data = Vec::with_capacity(128);
        let (contract, action) = match noise.below(4) {
            0 | 1 => {
                data.extend(actor.to_le_bytes());
                data.extend(account(words, noise).to_le_bytes());
                data.extend(noise.below(1 << 34).to_le_bytes());
                data.extend_from_slice(b"\x04EOS\0\0\0\0");
                let memo = noise.below(160) as usize;
                words.prose(memo, noise, &mut data);
                (number(b"eosio.token"), number(b"transfer"))
            }
            2 => {
                let moves = 1 + noise.below(30);
                varint(&mut data, moves as usize);
                for n in 0..moves {
                    data.extend((n * 3 + noise.below(3)).to_le_bytes());
                    data.extend((noise.below(1000) as u32).to_le_bytes());
                }
                (number(b"pixelgame"), number(b"play"))
            }
            _ => {
                let len = 40 + noise.below(600) as usize;
                words.prose(len, noise, &mut data);
                (number(b"messages"), number(b"post"))
            }
        };
        out.extend(contract.to_le_bytes());
        out.extend(action.to_le_bytes());
        varint(out, 1);
        out.extend(actor.to_le_bytes());
        out.extend(number(b"active").to_le_bytes());
        text(out, &data);
    }
    varint(out, 0);
}

/// Compresses with zlib, with memory that is reused.
pub(super) struct Zlib(Compress);

impl Zlib {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::fast(), true))
    }

    fn pack(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.reset();
        // Room for incompressible bytes.
        let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 64);
        let done = self.0.compress_vec(bytes, &mut packed, FlushCompress::Finish);
        debug_assert_eq!(done.ok(), Some(flate2::Status::StreamEnd));
        packed
    }
}

fn sum(parts: &[&[u8]]) -> [u8; 32] {
    parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into()
}
