//! Blocks as [dag-json](https://ipld.io/specs/codecs/dag-json/spec/), in their own order. Early chain data has text that is not
//! UTF-8; replacement characters are shown for it.

use std::fmt::Write;

use data_encoding::BASE64_NOPAD;

use super::header::chain_header;
use super::keys::cid_text;
use super::links::{Field, Malformed, codec, field, link};
use crate::blocks::cbor::{Head, head, string};

/// Deepest nesting of a block; dag-cbor decoders have similar limits.
const MAX_DEPTH: u32 = 1024;

/// Converts a block to JSON; to bytes if its codec has no JSON form.
pub(crate) fn dag_json(codec: u64, block: &[u8]) -> Result<String, Malformed> {
    let mut out = String::new();
    match codec {
        codec::DAG_CBOR => cbor(block, &mut out, 0).filter(|rest| rest.is_empty()).map(drop),
        codec::DAG_PB => pb(block, &mut out),
        _ => {
            bytes(block, &mut out);
            Some(())
        }
    }
    .map(|()| out)
    .ok_or(Malformed)
}

/// Field names of a Filecoin header, as in the JSON of nodes.
const NAMES: &str = "Miner Ticket ElectionProof BeaconEntries WinPoStProof Parents ParentWeight Height ParentStateRoot \
                     ParentMessageReceipts Messages BLSAggregate Timestamp BlockSig ForkSignaling ParentBaseFee";

/// Converts a header to JSON with field names; `None` if the block is not a header.
pub(crate) fn header_json(block: &[u8]) -> Option<String> {
    chain_header(block)?;
    let values: Vec<serde_json::Value> = serde_json::from_str(&dag_json(codec::DAG_CBOR, block).ok()?).ok()?;
    let fields: serde_json::Map<_, _> = NAMES.split(' ').map(str::to_owned).zip(values).collect();
    Some(serde_json::Value::Object(fields).to_string())
}

/// Writes one item and returns the bytes after it.
fn cbor<'a>(block: &'a [u8], out: &mut String, depth: u32) -> Option<&'a [u8]> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (Head { major, value, info }, mut rest) = head(block)?;
    match major {
        0 => write!(out, "{value}").ok()?,
        1 => write!(out, "{}", -1 - i128::from(value)).ok()?,
        2 | 3 => {
            let (content, behind) = string(value, rest)?;
            if major == 2 {
                bytes(content, out)
            } else {
                text(content, out)
            }
            rest = behind;
        }
        4 => {
            out.push('[');
            for item in 0..value {
                separate(item, out);
                rest = cbor(rest, out, depth + 1)?;
            }
            out.push(']');
        }
        5 => {
            out.push('{');
            for item in 0..value {
                separate(item, out);
                let (key, behind) = head(rest).filter(|(key, _)| key.major == 3)?;
                let (key, behind) = string(key.value, behind)?;
                text(key, out);
                out.push(':');
                rest = cbor(behind, out, depth + 1)?;
            }
            out.push('}');
        }
        6 => {
            let (cid, behind) = link(rest).filter(|_| value == 42)?;
            write_link(cid, out);
            rest = behind;
        }
        _ => match info {
            20 => out.push_str("false"),
            21 => out.push_str("true"),
            22 => out.push_str("null"),
            26 => float(f64::from(f32::from_bits(value as u32)), out)?,
            27 => float(f64::from_bits(value), out)?,
            _ => return None,
        },
    }
    Some(rest)
}

fn float(value: f64, out: &mut String) -> Option<()> {
    // dag-cbor has no NaN and no infinities.
    out.push_str(&serde_json::Number::from_f64(value)?.to_string());
    Some(())
}

/// Writes the logical form of a dag-pb node.
fn pb(block: &[u8], out: &mut String) -> Option<()> {
    let (mut data, mut links) = (None, Vec::new());
    let mut rest = block;
    while !rest.is_empty() {
        let (number, value, behind) = field(rest)?;
        rest = behind;
        match (number, value) {
            (1, Field::Bytes(content)) => data = Some(content),
            (2, Field::Bytes(content)) => links.push(content),
            _ => return None,
        }
    }
    out.push('{');
    if let Some(data) = data {
        out.push_str("\"Data\":");
        bytes(data, out);
        out.push(',');
    }
    out.push_str("\"Links\":[");
    for (number, mut rest) in (0..).zip(links) {
        separate(number, out);
        out.push('{');
        let mut fields = 0;
        while !rest.is_empty() {
            let (number, value, behind) = field(rest)?;
            rest = behind;
            separate(fields, out);
            fields += 1;
            match (number, value) {
                (1, Field::Bytes(cid)) => {
                    out.push_str("\"Hash\":");
                    write_link(cid, out);
                }
                (2, Field::Bytes(name)) => {
                    out.push_str("\"Name\":");
                    text(name, out);
                }
                (3, Field::Number(size)) => write!(out, "\"Tsize\":{size}").ok()?,
                _ => return None,
            }
        }
        out.push('}');
    }
    out.push_str("]}");
    Some(())
}

fn write_link(cid: &[u8], out: &mut String) {
    out.push_str("{\"/\":");
    text(cid_text(cid).as_bytes(), out);
    out.push('}');
}

fn bytes(content: &[u8], out: &mut String) {
    out.push_str("{\"/\":{\"bytes\":\"");
    BASE64_NOPAD.encode_append(content, out);
    out.push_str("\"}}");
}

fn text(content: &[u8], out: &mut String) {
    out.push_str(&serde_json::Value::from(String::from_utf8_lossy(content)).to_string());
}

fn separate(item: u64, out: &mut String) {
    if item > 0 {
        out.push(',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(block: &[u8]) -> serde_json::Value {
        serde_json::from_str(&dag_json(codec::DAG_CBOR, block).expect("dag-cbor")).expect("JSON")
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
        let expected = serde_json::json!([0, -1, {"/": {"bytes": "AQI"}}, "a\"b", {"x": null}, true, 1.5, u64::MAX]);
        assert_eq!(json(&block), expected);
    }

    #[test]
    fn a_link_is_its_cid() {
        let cid = cid::Cid::try_from("bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke").expect("a CID");
        let block = serde_ipld_dagcbor::to_vec(&cid).expect("encode");
        assert_eq!(json(&block), serde_json::json!({"/": cid.to_string()}));
    }

    #[test]
    fn invalid_utf_8_is_shown_lossily() {
        assert_eq!(json(&[0x63, b'a', 0xff, b'b']), "a\u{fffd}b");
    }

    #[test]
    fn nesting_without_end_is_malformed_not_a_crash() {
        assert_eq!(dag_json(codec::DAG_CBOR, &[0x81; 100_000]), Err(Malformed));
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_out_is_json(block: Vec<u8>) {
            for codec in [codec::DAG_CBOR, codec::DAG_PB, codec::RAW] {
                if let Ok(text) = dag_json(codec, &block) {
                    proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
                }
            }
        }
    }
}
