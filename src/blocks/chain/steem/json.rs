//! Transactions of Steem and Hive as JSON: operations by their names, and their fields by the names that nodes use.
//!
//! Numbers are numbers, amounts are text as `1.000 STEEM`, keys and signatures are hex; what is not UTF-8 is
//! `{"hex": ".."}`. Structures inside a field, such as authorities, are lists in the order of the layout. A variant is a
//! list that begins with its tag.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::reader::BlockReader;
use super::super::{ChainProblem, Family, Header};
use super::field::{FieldType, MAX_ITEMS, MAX_TEXT, skip, variant};
use super::operations;
use super::transactions::{FRONT, MAX_OPERATIONS, MAX_TRANSACTIONS, SIGNATURES, SMALLEST, id};
use super::types::FUTURE;

pub(in super::super) fn transactions(family: Family, block: &[u8], header: &Header) -> Result<Value, ChainProblem> {
    let mut reader = BlockReader::new(block, header.header_len);
    let count = reader.count("the transactions", MAX_TRANSACTIONS, SMALLEST)?;
    (0..count).map(|_| transaction(&mut reader, family, header.number)).collect()
}

fn transaction(reader: &mut BlockReader<'_>, family: Family, block: u32) -> Result<Value, ChainProblem> {
    let start = reader.at();
    let mut front = values(reader, family, FRONT, "a transaction")?.into_iter();
    let count = reader.count("a transaction's operations", MAX_OPERATIONS, 1)?;
    let operations: Value = (0..count).map(|_| operation(reader, family, block)).collect::<Result<_, _>>()?;
    let extensions = value(reader, family, &FUTURE, "a transaction's extensions")?;
    let digest = Sha256::digest(reader.since(start));
    let signatures = values(reader, family, SIGNATURES, "a transaction's signatures")?.pop();
    Ok(json!({
        "id": id(&digest.into()),
        "ref_block_num": front.next(),
        "ref_block_prefix": front.next(),
        "expiration": front.next(),
        "operations": operations,
        "extensions": extensions,
        "signatures": signatures,
    }))
}

fn operation(reader: &mut BlockReader<'_>, family: Family, block: u32) -> Result<Value, ChainProblem> {
    let operation = operations::read(reader, family, block)?;
    let values = values(reader, family, operation.fields, operation.title)?;
    let fields: Map<String, Value> = operation.names(family).map(str::to_owned).zip(values).collect();
    Ok(json!({ "type": operation.name, "value": fields }))
}

fn values(
    reader: &mut BlockReader<'_>,
    family: Family,
    fields: &[FieldType],
    inside: &'static str,
) -> Result<Vec<Value>, ChainProblem> {
    fields.iter().map(|field| value(reader, family, field, inside)).collect()
}

fn value(
    reader: &mut BlockReader<'_>,
    family: Family,
    field: &FieldType,
    inside: &'static str,
) -> Result<Value, ChainProblem> {
    let one_or_list = |mut values: Vec<Value>| match values.len() {
        1 => values.pop().unwrap_or_default(),
        _ => Value::Array(values),
    };
    let start = reader.at();
    Ok(match field {
        FieldType::Fixed(len) => fixed(reader.take(*len, inside)?),
        FieldType::Signed16 => i16::from_le_bytes(reader.array(inside)?).into(),
        FieldType::Bool => reader.bool(inside)?.into(),
        FieldType::Text => text(reader.bytes(inside, MAX_TEXT)?),
        FieldType::Asset => {
            skip(reader, family, &[FieldType::Asset], inside)?;
            asset(reader.since(start))
        }
        FieldType::Group(fields) => Value::Array(values(reader, family, fields, inside)?),
        FieldType::Optional(fields) => match reader.bool(inside)? {
            true => one_or_list(values(reader, family, fields, inside)?),
            false => Value::Null,
        },
        FieldType::List(fields) => {
            let count = reader.count(inside, MAX_ITEMS, 1)?;
            (0..count).map(|_| values(reader, family, fields, inside).map(one_or_list)).collect::<Result<_, _>>()?
        }
        FieldType::Variant(kinds) => {
            let (tag, fields) = variant(reader, kinds, inside)?;
            std::iter::once(tag.into()).chain(values(reader, family, fields, inside)?).collect()
        }
        FieldType::SignedHeader => {
            skip(reader, family, &[FieldType::SignedHeader], inside)?;
            HEXLOWER.encode(reader.since(start)).into()
        }
    })
}

/// A number of up to eight bytes; hex of more.
fn fixed(bytes: &[u8]) -> Value {
    let mut number = [0; 8];
    match number.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            u64::from_le_bytes(number).into()
        }
        None => HEXLOWER.encode(bytes).into(),
    }
}

fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "hex": HEXLOWER.encode(bytes) }),
    }
}

/// Formats an asset that [`skip`] has checked.
fn asset(bytes: &[u8]) -> Value {
    let (amount, symbol) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let amount = i64::from_le_bytes(*amount);
    let (digits, name) = match symbol {
        [0x03, 0x20, 0xbc, 0xbe] => (3, "HBD".into()),
        [0x23, 0x20, 0xbc, 0xbe] => (3, "HIVE".into()),
        [0x46, 0x20, 0xbc, 0xbe] => (6, "VESTS".into()),
        [digits, name @ ..] => (usize::from(*digits), String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()),
        [] => (0, String::new()),
    };
    let sign = if amount < 0 { "-" } else { "" };
    let all = format!("{:0>width$}", amount.unsigned_abs(), width = digits + 1);
    let (whole, part) = all.split_at(all.len() - digits);
    let point = if digits > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{part} {name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base-128 length and the bytes.
    fn text(text: &str) -> Vec<u8> {
        [&[text.len() as u8][..], text.as_bytes()].concat()
    }

    fn read(family: Family, operation_bytes: &[u8]) -> Result<Value, ChainProblem> {
        operation(&mut BlockReader::new(operation_bytes, 0), family, 1)
    }

    #[test]
    fn operations_are_written_with_field_names() {
        let vote = [&[0][..], &text("alice"), &text("bob"), &text("a-post"), &(-2500i16).to_le_bytes()].concat();
        assert_eq!(
            read(Family::Steem, &vote),
            Ok(json!({
                "type": "vote",
                "value": { "voter": "alice", "author": "bob", "permlink": "a-post", "weight": -2500 },
            }))
        );
        let amount = [&1_005i64.to_le_bytes()[..], b"\x03STEEM\0\0"].concat();
        let transfer = [&[2][..], &text("alice"), &text("bob"), &amount, &[2, 0xff, 0xfe]].concat();
        assert_eq!(
            read(Family::Steem, &transfer),
            Ok(json!({
                "type": "transfer",
                "value": { "from": "alice", "to": "bob", "amount": "1.005 STEEM", "memo": { "hex": "fffe" } },
            }))
        );
        let nai = [&5i64.to_le_bytes()[..], b"\x23\x20\xbc\xbe"].concat();
        let savings = [&[33][..], &text("a"), &7u32.to_le_bytes(), &text("b"), &nai, &text("")].concat();
        assert_eq!(
            read(Family::Hive, &savings),
            Ok(json!({
                "type": "transfer_from_savings",
                "value": { "from": "a", "request_id": 7, "to": "b", "amount": "0.005 HIVE", "memo": "" },
            }))
        );
        let (steem, hive) = (operations::find(Family::Steem, 39), operations::find(Family::Hive, 39));
        let names = |family, found: Option<&operations::Operation>| found.map(|found| found.names(family).nth(2));
        assert_eq!(names(Family::Steem, steem), Some(Some("reward_sbd")));
        assert_eq!(names(Family::Hive, hive), Some(Some("reward_hbd")));
        for len in 0..savings.len() {
            assert!(read(Family::Hive, &savings[..len]).is_err(), "cut to {len}");
        }
        assert!(matches!(read(Family::Steem, &[0x7f]), Err(ChainProblem::UnknownOperation { tag: 0x7f, .. })));
    }

    #[test]
    fn operation_field_names_are_distinct() {
        for family in [Family::Steem, Family::Hive] {
            for operation in (0..60).filter_map(|tag| operations::find(family, tag)) {
                let names: std::collections::HashSet<&str> = operation.names(family).collect();
                assert_eq!(names.len(), operation.fields.len(), "{}", operation.name);
                assert!(names.iter().all(|name| !name.contains('|')), "{names:?}");
            }
        }
    }
}
