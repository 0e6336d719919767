//! The header of a Filecoin block: the fields that a walk along the chain needs.
//!
//! ```text
//! dag-cbor list of 16: miner, ticket, election proof, beacon entries, win-post proof, parents: [link], parent weight,
//!   height: unsigned, parent state root: link, parent receipts: link, messages: link, aggregate, timestamp: unsigned,
//!   signature, fork signaling, parent base fee
//! ```
//!
//! Specification: <https://spec.filecoin.io/#section-systems.filecoin_blockchain.struct.block>.

use super::links::{link, skip_item};
use crate::blocks::cbor::{ItemHead, head, string};

const FIELDS: u64 = 16;

/// The most parents that are accepted. A tipset hardly has more than a dozen blocks.
const MAX_PARENTS: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainHeader {
    /// Number of parents, which are the first links in the block.
    pub parents: u64,
    pub height: u64,
    /// Seconds since 1970.
    pub timestamp: u64,
}

/// Reads a block as the header of a Filecoin block; `None` if it is another block.
pub(crate) fn chain_header(block: &[u8]) -> Option<ChainHeader> {
    // Hardly any block that is not a header passes this test.
    let (list, mut rest) = head(block)?;
    if (list.major, list.value) != (4, FIELDS) {
        return None;
    }
    for major in [2, 4, 4, 4, 4] {
        let (item, _) = head(rest)?;
        if item.major != major {
            return None;
        }
        rest = skip(rest)?;
    }
    let (parents, mut rest) = expect(rest, 4)?;
    if parents.value > MAX_PARENTS {
        return None;
    }
    for _ in 0..parents.value {
        rest = expect_link(rest)?;
    }
    let (_, rest) = expect(rest, 2).and_then(|(weight, rest)| string(weight.value, rest))?;
    let (height, mut rest) = expect(rest, 0)?;
    for _ in 0..3 {
        rest = expect_link(rest)?;
    }
    let (timestamp, _) = expect(skip(rest)?, 0)?;
    Some(ChainHeader { parents: parents.value, height: height.value, timestamp: timestamp.value })
}

fn expect(bytes: &[u8], major: u8) -> Option<(ItemHead, &[u8])> {
    head(bytes).filter(|(head, _)| head.major == major)
}

fn expect_link(bytes: &[u8]) -> Option<&[u8]> {
    let (_, rest) = expect(bytes, 6).filter(|(tag, _)| tag.value == 42)?;
    Some(link(rest)?.1)
}

/// Steps over one item, which may be nested but has no links.
fn skip(bytes: &[u8]) -> Option<&[u8]> {
    let mut has_links = false;
    skip_item(bytes, &mut |_| has_links = true).filter(|_| !has_links)
}

#[cfg(test)]
mod tests {
    use cid::Cid;
    use ipld_core::ipld::Ipld;

    use super::*;

    fn cid(seed: u8) -> Ipld {
        Ipld::Link(Cid::new_v1(0x71, cid::multihash::Multihash::<64>::wrap(0xb220, &[seed; 32]).expect("short")))
    }

    fn header() -> Vec<Ipld> {
        let bytes = Ipld::Bytes(vec![0, 1]);
        vec![
            bytes.clone(),
            Ipld::List(vec![bytes.clone()]),
            Ipld::List(vec![Ipld::Integer(1), bytes.clone()]),
            Ipld::List(vec![]),
            Ipld::List(vec![Ipld::List(vec![bytes.clone()])]),
            Ipld::List(vec![cid(1), cid(2)]),
            bytes.clone(),
            Ipld::Integer(4_000_000),
            cid(3),
            cid(4),
            cid(5),
            Ipld::Null,
            Ipld::Integer(1_700_000_000),
            bytes.clone(),
            Ipld::Integer(0),
            bytes,
        ]
    }

    #[test]
    fn a_header_is_read() {
        let block = serde_ipld_dagcbor::to_vec(&Ipld::List(header())).expect("encode");
        let expected = ChainHeader { parents: 2, height: 4_000_000, timestamp: 1_700_000_000 };
        assert_eq!(chain_header(&block), Some(expected));
    }

    #[test]
    fn header_with_any_wrong_field_is_none() {
        for field in [0, 1, 5, 6, 7, 8, 9, 10, 12] {
            let mut header = header();
            header[field] = Ipld::String("no".into());
            let block = serde_ipld_dagcbor::to_vec(&Ipld::List(header)).expect("encode");
            assert_eq!(chain_header(&block), None, "field {field}");
        }
        let block = serde_ipld_dagcbor::to_vec(&Ipld::List(header()[..15].to_vec())).expect("encode");
        assert_eq!(chain_header(&block), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in 0usize..600) {
            chain_header(&bytes);
            let block = serde_ipld_dagcbor::to_vec(&Ipld::List(header())).expect("encode");
            chain_header(&[&block[..cut.min(block.len())], &bytes].concat());
        }
    }
}
