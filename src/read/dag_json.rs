//! Blocks as [dag-json](https://ipld.io/specs/codecs/dag-json/spec/), in their own order. Early chain data has text that is not
//! UTF-8; replacement characters are shown for it.

use data_encoding::BASE64_NOPAD;
use serde_json::{Map, Value, json};

use super::header::chain_header;
use super::keys::cid_text;
use super::links::{Field, Malformed, codec, each_field, link};
use crate::blocks::cbor::{ItemHead, LINK_TAG, head, string};

/// Deepest nesting of a block that is decoded. `serde_json` reads 127 levels.
const MAX_DEPTH: u32 = 120;

/// Converts a block to JSON; to bytes if its codec has no JSON form.
pub(crate) fn dag_json(codec: u64, block: &[u8]) -> Result<Value, Malformed> {
    match codec {
        codec::DAG_CBOR => cbor(block, 0).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value).ok_or(Malformed),
        codec::DAG_PB => pb(block).ok_or(Malformed),
        _ => Ok(bytes(block)),
    }
}

/// Field names of a Filecoin header, as in the JSON of nodes.
const NAMES: &str = "Miner Ticket ElectionProof BeaconEntries WinPoStProof Parents ParentWeight Height ParentStateRoot \
                     ParentMessageReceipts Messages BLSAggregate Timestamp BlockSig ForkSignaling ParentBaseFee";

/// Converts a header to JSON with field names; `None` if the block is not a header.
pub(crate) fn header_json(block: &[u8]) -> Option<Value> {
    chain_header(block)?;
    let Ok(Value::Array(values)) = dag_json(codec::DAG_CBOR, block) else { return None };
    Some(NAMES.split(' ').zip(values).collect())
}

/// Converts one item and returns the bytes after it. Maps with a repeated key and integers below -2^63, which JSON values cannot
/// represent, are malformed.
fn cbor(block: &[u8], depth: u32) -> Option<(Value, &[u8])> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (ItemHead { major, value, info }, mut rest) = head(block)?;
    let json = match major {
        0 => value.into(),
        1 => (-1 - i64::try_from(value).ok()?).into(),
        2 | 3 => {
            let content;
            (content, rest) = string(value, rest)?;
            if major == 2 { bytes(content) } else { text(content) }
        }
        4 => {
            let mut items = Vec::new();
            for _ in 0..value {
                let item;
                (item, rest) = cbor(rest, depth + 1)?;
                items.push(item);
            }
            items.into()
        }
        5 => {
            let mut fields = Map::new();
            for _ in 0..value {
                let (key, content) = head(rest).filter(|(key, _)| key.major == 3)?;
                let (key, content) = string(key.value, content)?;
                let item;
                (item, rest) = cbor(content, depth + 1)?;
                if fields.insert(String::from_utf8_lossy(key).into(), item).is_some() {
                    return None;
                }
            }
            fields.into()
        }
        6 => {
            let cid;
            (cid, rest) = link(rest).filter(|_| value == LINK_TAG)?;
            link_json(cid)
        }
        _ => match info {
            20 => false.into(),
            21 => true.into(),
            22 => Value::Null,
            // dag-cbor has no NaN and no infinities.
            26 => serde_json::Number::from_f64(f32::from_bits(value as u32).into())?.into(),
            27 => serde_json::Number::from_f64(f64::from_bits(value))?.into(),
            _ => return None,
        },
    };
    Some((json, rest))
}

/// Returns the logical form of a dag-pb node.
fn pb(block: &[u8]) -> Option<Value> {
    let (mut data, mut links) = (None, Vec::new());
    each_field(block, |number, value| {
        match (number, value) {
            (1, Field::Bytes(content)) if data.is_none() => data = Some(bytes(content)),
            (2, Field::Bytes(content)) => links.push(pb_link(content)?),
            _ => return None,
        }
        Some(())
    })?;
    let data = data.map(|data| ("Data", data));
    Some(data.into_iter().chain([("Links", links.into())]).collect())
}

fn pb_link(content: &[u8]) -> Option<Value> {
    let mut link = Map::new();
    each_field(content, |number, value| {
        let (name, value) = match (number, value) {
            (1, Field::Bytes(cid)) => ("Hash", link_json(cid)),
            (2, Field::Bytes(name)) => ("Name", text(name)),
            (3, Field::Number(size)) => ("Tsize", size.into()),
            _ => return None,
        };
        link.insert(name.into(), value).is_none().then_some(())
    })?;
    Some(link.into())
}

fn link_json(cid: &[u8]) -> Value {
    json!({ "/": cid_text(cid) })
}

fn bytes(content: &[u8]) -> Value {
    json!({ "/": { "bytes": BASE64_NOPAD.encode(content) } })
}

fn text(content: &[u8]) -> Value {
    String::from_utf8_lossy(content).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(block: &[u8]) -> serde_json::Value {
        dag_json(codec::DAG_CBOR, block).expect("dag-cbor")
    }

    #[test]
    fn each_kind_of_value_has_its_form() {
        // [0, -1, h'0102', "a\"b", {"x": null}, true, 1.5, 18446744073709551615]
        let block = [
            &[0x88, 0x00, 0x20, 0x42, 1, 2, 0x63, b'a', b'"', b'b', 0xa1, 0x61, b'x', 0xf6, 0xf5, 0xfb][..],
            &1.5f64.to_be_bytes(),
            &[0x1b, 255, 255, 255, 255, 255, 255, 255, 255],
        ]
        .concat();
        let expected = json!([0, -1, {"/": {"bytes": "AQI"}}, "a\"b", {"x": null}, true, 1.5, u64::MAX]);
        assert_eq!(json(&block), expected);
    }

    #[test]
    fn a_link_is_its_cid() {
        let cid = cid::Cid::try_from("bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke").expect("a CID");
        let block = serde_ipld_dagcbor::to_vec(&cid).expect("encode");
        assert_eq!(json(&block), json!({"/": cid.to_string()}));
    }

    #[test]
    fn repeated_dag_pb_field_is_malformed() {
        let data = [0x0a, 1, b'a'];
        assert_eq!(dag_json(codec::DAG_PB, &data), Ok(json!({"Data": {"/": {"bytes": "YQ"}}, "Links": []})));
        assert_eq!(dag_json(codec::DAG_PB, &[data, data].concat()), Err(Malformed));
    }

    #[test]
    fn invalid_utf_8_is_shown_lossily() {
        assert_eq!(json(&[0x63, b'a', 0xff, b'b']), "a\u{fffd}b");
    }

    #[test]
    fn nesting_without_end_is_malformed_not_a_crash() {
        assert_eq!(dag_json(codec::DAG_CBOR, &[0x81; 100_000]), Err(Malformed));
        let deepest = [&[0x81; MAX_DEPTH as usize][..], &[0x80]].concat();
        let text = dag_json(codec::DAG_CBOR, &deepest).expect("lists").to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "`get --json` reads it back");
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_out_is_json(block: Vec<u8>) {
            for codec in [codec::DAG_CBOR, codec::DAG_PB, codec::RAW] {
                if let Ok(value) = dag_json(codec, &block) {
                    let text = value.to_string();
                    proptest::prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
                }
            }
        }
    }
}
