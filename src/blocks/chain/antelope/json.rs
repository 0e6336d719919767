//! Transactions of EOSIO and Antelope as JSON, by the names that nodes use.
//!
//! An action's data stays hex: the ABI of its contract is not in the block.

use std::io::Read;

use serde_json::{Value, json};

use super::super::field::{FieldContext, FieldType, read};
use super::super::reader::BlockReader;
use super::super::{ChainProblem, Family, Header};
use super::transactions::{
    MAX_UNPACKED, PackedTransaction, Receipt, ReceiptContent, TransactionUnpacker, each_receipt,
};

const U8: FieldType = FieldType::Fixed(1);
const U16: FieldType = FieldType::Fixed(2);
const U32: FieldType = FieldType::Fixed(4);
const AUTHORIZATION: FieldType = FieldType::Record(&[("actor", FieldType::Name), ("permission", FieldType::Name)]);
const ACTIONS: FieldType = FieldType::List(&[FieldType::Record(&[
    ("account", FieldType::Name),
    ("name", FieldType::Name),
    ("authorization", FieldType::List(&[AUTHORIZATION])),
    ("data", FieldType::Bytes),
])]);
const TRANSACTION: FieldType = FieldType::Record(&[
    ("expiration", U32),
    ("ref_block_num", U16),
    ("ref_block_prefix", U32),
    ("max_net_usage_words", FieldType::Varint),
    ("max_cpu_usage_ms", U8),
    ("delay_sec", FieldType::Varint),
    ("context_free_actions", ACTIONS),
    ("actions", ACTIONS),
    ("transaction_extensions", FieldType::Hex(&[FieldType::List(&[U16, FieldType::Bytes])])),
]);
/// The names of a receipt's states.
const STATES: [&str; 5] = ["executed", "soft_fail", "hard_fail", "delayed", "expired"];

pub(in super::super) fn transactions(version: u32, block: &[u8], header: &Header) -> Result<Value, ChainProblem> {
    let mut transactions = Vec::new();
    let mut unpacker = TransactionUnpacker::default();
    each_receipt(version, block, header, |receipt| {
        let Receipt { state, cpu, net, .. } = receipt;
        let mut json = json!({
            "status": STATES.get(usize::from(state)).map_or_else(|| state.into(), |name| Value::from(*name)),
            "cpu_usage_us": cpu,
            "net_usage_words": net,
            "id": receipt.id(&mut unpacker)?.to_string(),
        });
        // Of a deferred transaction only the id is in the block.
        if let ReceiptContent::Packed(packed) = &receipt.content {
            json["compression"] = if packed.compression == 0 { "none" } else { "zlib" }.into();
            json["transaction"] = unpacked(packed)?;
        }
        transactions.push(json);
        Ok(())
    })?;
    Ok(transactions.into())
}

fn unpacked(packed: &PackedTransaction<'_>) -> Result<Value, ChainProblem> {
    if packed.compression == 0 {
        return transaction(packed.transaction);
    }
    let mut bytes = Vec::new();
    let limit = MAX_UNPACKED as u64 + 1;
    let read = flate2::read::ZlibDecoder::new(packed.transaction).take(limit).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() > MAX_UNPACKED {
        return Err(ChainProblem::Zlib { offset: packed.offset, max: MAX_UNPACKED });
    }
    transaction(&bytes)
}

fn transaction(bytes: &[u8]) -> Result<Value, ChainProblem> {
    let context = FieldContext { family: Family::Antelope, block: 0, inside: "a transaction" };
    read(&mut BlockReader::new(bytes, 0), context, &TRANSACTION)
}

#[cfg(test)]
mod tests {
    use super::super::super::Name;
    use super::*;

    #[test]
    fn a_transaction_has_its_actions_by_name() {
        let name = 0x5530_ea03_3482_a600_u64.to_le_bytes();
        let transaction_bytes = [
            &9u32.to_le_bytes()[..],
            &[7, 0],
            &8u32.to_le_bytes(),
            &[0, 0, 0, 0, 1],
            &name,
            &name,
            &[1],
            &name,
            &name,
            &[2, 0xab, 0xcd],
            &[0],
        ]
        .concat();
        let found = transaction(&transaction_bytes).expect("a transaction");
        let text = Name::from_number(0x5530_ea03_3482_a600).to_string();
        assert_eq!((&found["expiration"], &found["ref_block_num"]), (&json!(9), &json!(7)));
        assert_eq!(
            found["actions"],
            json!([{
                "account": text, "name": text, "authorization": [{ "actor": text, "permission": text }], "data": "abcd",
            }])
        );
        for len in 0..transaction_bytes.len() {
            assert!(transaction(&transaction_bytes[..len]).is_err(), "cut to {len}");
        }
    }
}
