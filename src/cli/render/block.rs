//! Single blocks: of a database of a CAR as hex or dag-json, of a block log as the fields of its header.

use crate::read::block::{BlockLookup, FoundBlock};
use serde_json::{Value, json};

use crate::cli::render::numbers::date;

/// The document of one key; `content` is the block in the form the user chose, by its name.
pub fn document(key: &str, block: Option<&[u8]>, (form, content): (&str, Value)) -> Value {
    json!({
        "schema": "bedload-get-1", "key": key, "found": block.is_some(), "bytes": block.map(<[u8]>::len), form: content,
    })
}

/// The fields of a block's header, and its transactions.
pub fn header_fields(lookup: &BlockLookup, found: &FoundBlock) -> Value {
    let header = found.header.as_ref();
    let seconds = header.and_then(|header| u64::try_from(header.timestamp_ms / 1000).ok());
    let mut fields = json!({
        "family": lookup.family.name(),
        "number": found.number,
        "id": header.map(|header| header.id),
        "previous": header.map(|header| header.previous),
        "timestamp_ms": header.map(|header| header.timestamp_ms),
        "time": seconds.map(date),
        "producer": header.map(|header| header.producer.to_string()),
        "bytes": found.block.len(),
        "header_bytes": header.map(|header| header.header_len),
    });
    if let (Some(position), Some(object)) = (found.transaction, fields.as_object_mut()) {
        object.insert("transaction_position".into(), position.into());
    }
    if let Some(object) = fields.as_object_mut() {
        match lookup.transactions(found) {
            Some(Ok(transactions)) => drop(object.insert("transactions".into(), transactions)),
            Some(Err(problem)) => drop(object.insert("transactions_unreadable".into(), problem.to_string().into())),
            None => {}
        }
    }
    fields
}
