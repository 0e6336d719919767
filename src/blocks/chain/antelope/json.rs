//! Transactions of EOSIO and Antelope as JSON, by the names that nodes use.
//!
//! An action's data stays hex: its meaning is in the ABI of its contract, which the block does not contain.

use std::io::Read;

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};

use super::super::reader::Reader;
use super::super::{ChainProblem, Header, Name};
use super::transactions::{MAX_PACKED, MAX_RECEIPTS, MAX_UNPACKED, PRUNABLE, Packed, SMALLEST, Unpacker};
use super::{ID_LEN, extensions};

/// The most actions of a transaction, and authorizations of an action.
const MAX_ACTIONS: u32 = 1 << 16;
/// The names of a receipt's states.
const STATES: [&str; 5] = ["executed", "soft_fail", "hard_fail", "delayed", "expired"];

/// The transactions of a block.
pub(in super::super) fn transactions(version: u32, block: &[u8], header: &Header) -> Result<Value, ChainProblem> {
    let mut reader = Reader::new(block, header.header_len);
    if version == PRUNABLE {
        reader.u8("the prune state")?;
    }
    let mut all = Vec::new();
    for _ in 0..reader.count("the transactions", MAX_RECEIPTS, SMALLEST)? {
        all.push(receipt(&mut reader, version)?);
    }
    Ok(Value::Array(all))
}

fn receipt(reader: &mut Reader<'_>, version: u32) -> Result<Value, ChainProblem> {
    let state = reader.u8("a transaction receipt")?;
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| fields.insert(name.into(), value);
    add("status", STATES.get(usize::from(state)).map_or_else(|| state.into(), |name| (*name).into()));
    add("cpu_usage_us", reader.u32("a transaction receipt")?.into());
    add("net_usage_words", reader.varint("a receipt's net usage")?.into());
    let offset = reader.at();
    match reader.u8("a transaction receipt")? {
        // A deferred transaction: only its id is in the block.
        0 => add("id", HEXLOWER.encode(&reader.array::<ID_LEN>("a transaction's id")?).into()),
        1 => {
            let packed = Packed::read(reader, version)?;
            add("id", packed.id(&mut Unpacker::default())?.to_string().into());
            add("compression", if packed.compression == 0 { "none" } else { "zlib" }.into());
            add("transaction", unpacked(&packed)?)
        }
        found => return Err(ChainProblem::Unexpected { offset, expected: "0 or 1", found: found.into() }),
    };
    Ok(Value::Object(fields))
}

fn unpacked(packed: &Packed<'_>) -> Result<Value, ChainProblem> {
    if packed.compression == 0 {
        return transaction(&mut Reader::new(packed.transaction, 0));
    }
    let mut bytes = Vec::new();
    let limit = MAX_UNPACKED as u64 + 1;
    let read = flate2::read::ZlibDecoder::new(packed.transaction).take(limit).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() > MAX_UNPACKED {
        return Err(ChainProblem::Zlib { offset: packed.offset, max: MAX_UNPACKED });
    }
    transaction(&mut Reader::new(&bytes, 0))
}

fn transaction(reader: &mut Reader<'_>) -> Result<Value, ChainProblem> {
    const INSIDE: &str = "a transaction";
    let expiration = reader.u32(INSIDE)?;
    let block_num = u16::from_le_bytes(reader.array(INSIDE)?);
    let block_prefix = reader.u32(INSIDE)?;
    let net_words = reader.varint(INSIDE)?;
    let cpu_ms = reader.u8(INSIDE)?;
    let delay = reader.varint(INSIDE)?;
    let context_free = actions(reader)?;
    let actions = actions(reader)?;
    let start = reader.at();
    extensions(reader, "a transaction's extensions")?;
    Ok(json!({
        "expiration": expiration,
        "ref_block_num": block_num,
        "ref_block_prefix": block_prefix,
        "max_net_usage_words": net_words,
        "max_cpu_usage_ms": cpu_ms,
        "delay_sec": delay,
        "context_free_actions": context_free,
        "actions": actions,
        "transaction_extensions": HEXLOWER.encode(reader.since(start)),
    }))
}

fn actions(reader: &mut Reader<'_>) -> Result<Vec<Value>, ChainProblem> {
    const INSIDE: &str = "an action";
    let name = |reader: &mut Reader<'_>| Ok(Name::from_number(reader.u64(INSIDE)?).to_string());
    let mut all = Vec::new();
    for _ in 0..reader.count("a transaction's actions", MAX_ACTIONS, 18)? {
        let (account, action) = (name(reader)?, name(reader)?);
        let mut authorization = Vec::new();
        for _ in 0..reader.count("an action's authorizations", MAX_ACTIONS, 16)? {
            authorization.push(json!({ "actor": name(reader)?, "permission": name(reader)? }));
        }
        let data = HEXLOWER.encode(reader.bytes("an action's data", MAX_PACKED)?);
        all.push(json!({ "account": account, "name": action, "authorization": authorization, "data": data }));
    }
    Ok(all)
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
        let found = transaction(&mut Reader::new(&transaction_bytes, 0)).expect("a transaction");
        let text = Name::from_number(0x5530_ea03_3482_a600).to_string();
        assert_eq!((&found["expiration"], &found["ref_block_num"]), (&json!(9), &json!(7)));
        assert_eq!(
            found["actions"],
            json!([{
                "account": text, "name": text, "authorization": [{ "actor": text, "permission": text }], "data": "abcd",
            }])
        );
        for len in 0..transaction_bytes.len() {
            assert!(transaction(&mut Reader::new(&transaction_bytes[..len], 0)).is_err(), "cut to {len}");
        }
    }
}
