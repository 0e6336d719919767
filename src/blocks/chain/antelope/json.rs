//! Transactions of EOSIO and Antelope as JSON, by the names that nodes use.
//!
//! An action's data stays hex: the ABI of its contract is not in the block.

use std::io::Read;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};

use super::super::reader::BlockReader;
use super::super::{ChainProblem, Header, Name};
use super::header::{ID_LEN, extensions};
use super::transactions::{
    MAX_PACKED, MAX_RECEIPTS, MAX_UNPACKED, PRUNABLE, PackedTransaction, SMALLEST, TransactionUnpacker,
};

/// The most actions of a transaction, and authorizations of an action.
const MAX_ACTIONS: u32 = 1 << 16;
/// The names of a receipt's states.
const STATES: [&str; 5] = ["executed", "soft_fail", "hard_fail", "delayed", "expired"];

pub(in super::super) fn transactions(version: u32, block: &[u8], header: &Header) -> Result<Value, ChainProblem> {
    let mut reader = BlockReader::new(block, header.header_len);
    if version == PRUNABLE {
        reader.u8("the prune state")?;
    }
    let count = reader.count("the transactions", MAX_RECEIPTS, SMALLEST)?;
    (0..count).map(|_| receipt(&mut reader, version)).collect()
}

fn receipt(reader: &mut BlockReader<'_>, version: u32) -> Result<Value, ChainProblem> {
    let state = reader.u8("a transaction receipt")?;
    let mut receipt = json!({
        "status": STATES.get(usize::from(state)).map_or_else(|| state.into(), |name| Value::from(*name)),
        "cpu_usage_us": reader.u32("a transaction receipt")?,
        "net_usage_words": reader.varint("a receipt's net usage")?,
    });
    let offset = reader.at();
    match reader.u8("a transaction receipt")? {
        // Of a deferred transaction only the id is in the block.
        0 => receipt["id"] = HEXLOWER.encode(&reader.array::<ID_LEN>("a transaction's id")?).into(),
        1 => {
            let packed = PackedTransaction::read(reader, version)?;
            receipt["id"] = packed.id(&mut TransactionUnpacker::default())?.to_string().into();
            receipt["compression"] = if packed.compression == 0 { "none" } else { "zlib" }.into();
            receipt["transaction"] = unpacked(&packed)?;
        }
        found => return Err(ChainProblem::Unexpected { offset, expected: "0 or 1", found: found.into() }),
    }
    Ok(receipt)
}

fn unpacked(packed: &PackedTransaction<'_>) -> Result<Value, ChainProblem> {
    if packed.compression == 0 {
        return transaction(&mut BlockReader::new(packed.transaction, 0));
    }
    let mut bytes = Vec::new();
    let limit = MAX_UNPACKED as u64 + 1;
    let read = flate2::read::ZlibDecoder::new(packed.transaction).take(limit).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() > MAX_UNPACKED {
        return Err(ChainProblem::Zlib { offset: packed.offset, max: MAX_UNPACKED });
    }
    transaction(&mut BlockReader::new(&bytes, 0))
}

fn transaction(reader: &mut BlockReader<'_>) -> Result<Value, ChainProblem> {
    const INSIDE: &str = "a transaction";
    // The fields are read in the order of the block.
    let mut transaction = json!({
        "expiration": reader.u32(INSIDE)?,
        "ref_block_num": u16::from_le_bytes(reader.array(INSIDE)?),
        "ref_block_prefix": reader.u32(INSIDE)?,
        "max_net_usage_words": reader.varint(INSIDE)?,
        "max_cpu_usage_ms": reader.u8(INSIDE)?,
        "delay_sec": reader.varint(INSIDE)?,
        "context_free_actions": actions(reader)?,
        "actions": actions(reader)?,
    });
    let start = reader.at();
    extensions(reader, "a transaction's extensions")?;
    transaction["transaction_extensions"] = HEXLOWER.encode(reader.since(start)).into();
    Ok(transaction)
}

fn actions(reader: &mut BlockReader<'_>) -> Result<Value, ChainProblem> {
    let name = |reader: &mut BlockReader<'_>| Ok(Name::from_number(reader.u64("an action")?).to_string());
    let action = |reader: &mut BlockReader<'_>| {
        let (account, action) = (name(reader)?, name(reader)?);
        let count = reader.count("an action's authorizations", MAX_ACTIONS, 16)?;
        let authorization = |_| Ok(json!({ "actor": name(reader)?, "permission": name(reader)? }));
        let authorization: Value = (0..count).map(authorization).collect::<Result<_, ChainProblem>>()?;
        let data = HEXLOWER.encode(reader.bytes("an action's data", MAX_PACKED)?);
        Ok(json!({ "account": account, "name": action, "authorization": authorization, "data": data }))
    };
    (0..reader.count("a transaction's actions", MAX_ACTIONS, 18)?).map(|_| action(reader)).collect()
}

#[cfg(test)]
mod tests {
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
        let found = transaction(&mut BlockReader::new(&transaction_bytes, 0)).expect("a transaction");
        let text = Name::from_number(0x5530_ea03_3482_a600).to_string();
        assert_eq!((&found["expiration"], &found["ref_block_num"]), (&json!(9), &json!(7)));
        assert_eq!(
            found["actions"],
            json!([{
                "account": text, "name": text, "authorization": [{ "actor": text, "permission": text }], "data": "abcd",
            }])
        );
        for len in 0..transaction_bytes.len() {
            assert!(transaction(&mut BlockReader::new(&transaction_bytes[..len], 0)).is_err(), "cut to {len}");
        }
    }
}
