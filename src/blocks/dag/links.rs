//! The links in a block, found without decoding it: in dag-cbor every tag 42, in dag-pb every link's hash.
//!
//! Text is skipped. Early chain data has strings that are not UTF-8, and a decoder would fail there.

use crate::blocks::cbor::{LINK_TAG, head, string};

/// Multicodecs of CIDs.
pub(crate) mod codec {
    pub const DAG_PB: u64 = 0x70;
    pub const DAG_CBOR: u64 = 0x71;
    pub const RAW: u64 = 0x55;
    /// Sector commitments of Filecoin: they name no block.
    pub const COMMITMENT_UNSEALED: u64 = 0xf101;
    pub const COMMITMENT_SEALED: u64 = 0xf102;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Calls `found` with the bytes of every CID that `block` links to, in order.
pub(crate) fn links<'a>(codec: u64, block: &'a [u8], found: &mut dyn FnMut(&'a [u8])) -> Result<(), Malformed> {
    match codec {
        codec::DAG_CBOR => {
            skip_item(block, &mut |cid| found(cid)).filter(|rest| rest.is_empty()).map(drop).ok_or(Malformed)
        }
        codec::DAG_PB => pb_links(block, found).ok_or(Malformed),
        _ => Ok(()),
    }
}

/// Reads the byte string of a link: a zero and the CID. Returns the CID and the bytes after it.
pub(crate) fn link(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = head(bytes)?;
    let (bytes, rest) = string(head.value, rest)?;
    let (&zero, cid) = bytes.split_first()?;
    (head.major == 2 && zero == 0).then_some((cid, rest))
}

/// Steps over a CBOR item and everything nested in it. `None` if it is malformed or has no end.
pub(super) fn skip_item<'a>(bytes: &'a [u8], found: &mut dyn FnMut(&'a [u8])) -> Option<&'a [u8]> {
    // Items that follow, whatever they are nested in: no stack is needed.
    let (mut items, mut rest) = (1u64, bytes);
    while items > 0 {
        items -= 1;
        let (head, content) = head(rest)?;
        rest = content;
        match head.major {
            2 | 3 => rest = string(head.value, rest)?.1,
            // Every item takes at least a byte, so a count beyond the rest is refused.
            4 if head.value <= rest.len() as u64 => items += head.value,
            5 if head.value <= rest.len() as u64 / 2 => items += 2 * head.value,
            4 | 5 => return None,
            6 if head.value == LINK_TAG => {
                let (cid, after) = link(rest)?;
                found(cid);
                rest = after;
            }
            6 => items += 1,
            _ => {}
        }
    }
    Some(rest)
}

pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads a field. Returns its number, its value, and the bytes after it.
fn field(bytes: &[u8]) -> Option<(u64, Field<'_>, &[u8])> {
    let (key, rest) = unsigned_varint::decode::u64(bytes).ok()?;
    match key & 7 {
        0 => unsigned_varint::decode::u64(rest).ok().map(|(value, rest)| (key >> 3, Field::Number(value), rest)),
        2 => {
            let (len, rest) = unsigned_varint::decode::u64(rest).ok()?;
            string(len, rest).map(|(bytes, rest)| (key >> 3, Field::Bytes(bytes), rest))
        }
        _ => None,
    }
}

/// Reads the fields of a message, until `take` or a malformed field ends it.
pub(crate) fn each_field<'a>(mut message: &'a [u8], mut take: impl FnMut(u64, Field<'a>) -> Option<()>) -> Option<()> {
    while !message.is_empty() {
        let (number, value, rest) = field(message)?;
        take(number, value)?;
        message = rest;
    }
    Some(())
}

fn pb_links<'a>(block: &'a [u8], found: &mut dyn FnMut(&'a [u8])) -> Option<()> {
    each_field(block, |number, value| {
        let (2, Field::Bytes(link)) = (number, value) else { return Some(()) };
        each_field(link, |number, value| {
            if let (1, Field::Bytes(cid)) = (number, value) {
                found(cid);
            }
            Some(())
        })
    })
}

#[cfg(test)]
mod tests {
    use cid::Cid;
    use ipld_core::ipld::Ipld;
    use proptest::prelude::*;

    use super::*;

    fn found(codec: u64, block: &[u8]) -> (Vec<Vec<u8>>, Result<(), Malformed>) {
        let mut cids = Vec::new();
        let result = links(codec, block, &mut |cid| cids.push(cid.to_vec()));
        (cids, result)
    }

    fn cid(seed: u8) -> Cid {
        Cid::new_v1(0x71, cid::multihash::Multihash::<64>::wrap(0xb220, &[seed; 32]).expect("short"))
    }

    fn ipld() -> impl Strategy<Value = Ipld> {
        let leaf = prop_oneof![
            Just(Ipld::Null),
            any::<bool>().prop_map(Ipld::Bool),
            (0..i64::MAX).prop_map(|number| Ipld::Integer(number.into())),
            ".{0,20}".prop_map(Ipld::String),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Ipld::Bytes),
            any::<u8>().prop_map(|seed| Ipld::Link(cid(seed))),
        ];
        leaf.prop_recursive(4, 60, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Ipld::List),
                proptest::collection::btree_map("[a-z]{0,5}", inner, 0..8).prop_map(Ipld::Map),
            ]
        })
    }

    fn model(ipld: &Ipld, cids: &mut Vec<Vec<u8>>) {
        match ipld {
            Ipld::Link(cid) => cids.push(cid.to_bytes()),
            Ipld::List(items) => items.iter().for_each(|item| model(item, cids)),
            Ipld::Map(items) => items.values().for_each(|item| model(item, cids)),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn links_match_a_full_decoder(value in ipld()) {
            let block = serde_ipld_dagcbor::to_vec(&value).expect("encode");
            let mut expected = Vec::new();
            model(&value, &mut expected);
            let (mut cids, result) = found(codec::DAG_CBOR, &block);
            prop_assert_eq!(result, Ok(()));
            // The model's maps are sorted otherwise than dag-cbor's.
            cids.sort();
            expected.sort();
            prop_assert_eq!(cids, expected);
            if !block.is_empty() {
                prop_assert_eq!(found(codec::DAG_CBOR, &block[..block.len() - 1]).1, Err(Malformed));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            found(codec::DAG_CBOR, &bytes).1.ok();
            found(codec::DAG_PB, &bytes).1.ok();
        }
    }

    #[test]
    fn invalid_utf8_does_not_stop_links() {
        let link = serde_ipld_dagcbor::to_vec(&cid(1)).expect("encode");
        let block = [&[0x82, 0x62, 0xff, 0xfe][..], &link].concat();
        assert!(serde_ipld_dagcbor::from_slice::<Ipld>(&block).is_err());
        assert_eq!(found(codec::DAG_CBOR, &block), (vec![cid(1).to_bytes()], Ok(())));
    }

    #[test]
    fn a_count_of_items_is_not_believed() {
        for block in
            [&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0xbb, 0x80, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            assert_eq!(found(codec::DAG_CBOR, block).1, Err(Malformed));
        }
    }

    #[test]
    fn links_of_dag_pb_are_found() {
        let (one, two) = (cid(1).to_bytes(), cid(2).to_bytes());
        let link = |cid: &[u8]| {
            let own = [&[0x0a, cid.len() as u8][..], cid, &[0x12, 1, b'x', 0x18, 5]].concat();
            [&[0x12, own.len() as u8][..], &own].concat()
        };
        let block = [link(&one), vec![0x0a, 2, 8, 1], link(&two)].concat();
        assert_eq!(found(codec::DAG_PB, &block), (vec![one, two], Ok(())));
    }

    #[test]
    fn other_codecs_have_no_links() {
        assert_eq!(found(codec::RAW, &[0xff; 40]), (vec![], Ok(())));
    }
}
