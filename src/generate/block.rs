//! The body of one generated block, of an exact size.
//!
//! ```text
//! DAG-CBOR  [tag: bytes, [link, ..], [entry, ..], tail: bytes]
//! entry     [key: 21 bytes, [code: 38 bytes, nonce, balance: 11 bytes]]      81 bytes, like a row of the state tree
//! raw       tag (8 bytes) | entries without regard to CBOR | tail
//! ```
//!
//! Every block of a snapshot has another tag. Keys, tails and parts of the numbers are random, codes come from a short
//! list, and the rest is structure. So zstd and lz4 halve a snapshot as they halve real state.

use super::cbor::{self, BlockName, LINK_LEN, head_len};
use super::random::Noise;

pub(super) const SMALLEST: usize = smallest_with(0);

const TAG_LEN: usize = 8;
const CODES: usize = 16;
const ENTRY_LEN: usize = 81;
const KEY_AT: usize = 3;
const CODE_AT: usize = KEY_AT + 20 + 3;
const NONCE_AT: usize = CODE_AT + 38 + 1;
const BALANCE_AT: usize = NONCE_AT + 4 + 1;

/// A row with zeros instead of its random parts.
const ENTRY: [u8; ENTRY_LEN] = {
    let mut entry = [0; ENTRY_LEN];
    entry[0] = 0x82;
    entry[1] = 0x55;
    entry[2] = 0x01;
    entry[KEY_AT + 20] = 0x83;
    entry[KEY_AT + 21] = 0x58;
    entry[KEY_AT + 22] = 0x26;
    entry[NONCE_AT - 1] = 0x1a;
    // The number is at least 2^16, so four bytes are its shortest form.
    entry[NONCE_AT + 1] = 1;
    entry[BALANCE_AT - 1] = 0x4b;
    entry
};

#[derive(Debug)]
pub(super) struct Filler {
    codes: [[u8; 38]; CODES],
}

/// The smallest DAG-CBOR block with this many links.
pub(super) const fn smallest_with(links: usize) -> usize {
    1 + 1 + TAG_LEN + head_len(links as u64) + links * LINK_LEN + 1 + 1
}

impl Filler {
    pub(super) fn new(seed: u64) -> Self {
        let mut noise = Noise::new(seed, u64::MAX);
        let codes = std::array::from_fn(|_| {
            let mut code = BlockName { codec: cbor::RAW, digest: [0; 32] };
            noise.fill(&mut code.digest);
            code.bytes()
        });
        Self { codes }
    }

    /// Appends a raw body of `len` bytes, at least [`SMALLEST`].
    pub(super) fn raw(&self, out: &mut Vec<u8>, len: usize, tag: u64, noise: &mut Noise) {
        let end = out.len() + len;
        out.extend_from_slice(&tag.to_le_bytes());
        while end - out.len() >= ENTRY_LEN {
            self.entry(out, noise);
        }
        tail(out, end - out.len(), noise);
    }

    /// Appends a DAG-CBOR body of `len` bytes, at least [`smallest_with`] its links.
    pub(super) fn dag_cbor(&self, out: &mut Vec<u8>, len: usize, tag: u64, links: &[BlockName], noise: &mut Noise) {
        let base = smallest_with(links.len()) - 2;
        let left = len - base;
        let mut entries = (left - 2) / ENTRY_LEN;
        while head_len(entries as u64) + entries * ENTRY_LEN + 1 > left {
            entries -= 1;
        }
        let mut rest = left - head_len(entries as u64) - entries * ENTRY_LEN;
        // No byte string has 25 bytes with its shortest head: 23 bytes make 24, 24 bytes make 26.
        let longer_tag = rest == 25;
        rest -= usize::from(longer_tag);

        cbor::head(out, cbor::ARRAY, 4);
        cbor::head(out, cbor::BYTES, (TAG_LEN + usize::from(longer_tag)) as u64);
        out.extend_from_slice(&tag.to_le_bytes());
        if longer_tag {
            out.push(0);
        }
        cbor::head(out, cbor::ARRAY, links.len() as u64);
        links.iter().for_each(|name| cbor::link(out, name));
        cbor::head(out, cbor::ARRAY, entries as u64);
        (0..entries).for_each(|_| self.entry(out, noise));
        let tail_len = if rest <= 24 { rest - 1 } else { rest - 2 };
        cbor::head(out, cbor::BYTES, tail_len as u64);
        tail(out, tail_len, noise);
    }

    fn entry(&self, out: &mut Vec<u8>, noise: &mut Noise) {
        let mut entry = ENTRY;
        let (a, b, c) = (noise.next(), noise.next(), noise.next());
        entry[KEY_AT..KEY_AT + 8].copy_from_slice(&a.to_le_bytes());
        entry[KEY_AT + 8..KEY_AT + 16].copy_from_slice(&b.to_le_bytes());
        entry[KEY_AT + 16..KEY_AT + 20].copy_from_slice(&c.to_le_bytes()[..4]);
        let pick = noise.next();
        entry[CODE_AT..CODE_AT + 38].copy_from_slice(&self.codes[(pick % CODES as u64) as usize]);
        entry[NONCE_AT + 2..NONCE_AT + 4].copy_from_slice(&c.to_le_bytes()[4..6]);
        entry[BALANCE_AT + 4..BALANCE_AT + 11].copy_from_slice(&pick.to_le_bytes()[1..]);
        out.extend_from_slice(&entry);
    }
}

/// The end of a block: random bytes, then as many zeros.
fn tail(out: &mut Vec<u8>, len: usize, noise: &mut Noise) {
    let start = out.len();
    out.resize(start + len, 0);
    noise.fill(&mut out[start..start + len.div_ceil(2)]);
}

#[cfg(test)]
mod tests {
    use ipld_core::ipld::Ipld;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn block_has_size_links_and_shortest_encoding(
            extra in prop_oneof![0usize..600, 600usize..70_000], count in 0usize..40, seed: u64,
        ) {
            let links: Vec<BlockName> = (0..count).map(|n| BlockName { codec: cbor::RAW, digest: [n as u8; 32] }).collect();
            let len = smallest_with(count) + extra;
            let mut body = Vec::new();
            Filler::new(seed).dag_cbor(&mut body, len, seed, &links, &mut Noise::new(seed, 1));
            prop_assert_eq!(body.len(), len);
            let decoded: Ipld = serde_ipld_dagcbor::from_slice(&body).expect("decode a generated block");
            prop_assert_eq!(&serde_ipld_dagcbor::to_vec(&decoded).expect("encode it again"), &body);
            let mut found = Vec::new();
            decoded.references(&mut found);
            prop_assert_eq!(found, links.iter().map(BlockName::cid).collect::<Vec<_>>());
        }

        #[test]
        fn a_raw_block_has_its_size(len in SMALLEST..5000, seed: u64) {
            let mut body = Vec::new();
            Filler::new(seed).raw(&mut body, len, seed, &mut Noise::new(seed, 1));
            prop_assert_eq!(body.len(), len);
        }
    }
}
