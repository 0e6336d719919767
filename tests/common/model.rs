//! The expected content of a database: a sorted map, and its digest computed from the definition.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::car::Block;

/// The key of a block, computed from the bytes of its CID alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Cid,
    Multihash,
    Digest,
}

impl Key {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cid => "cid",
            Self::Multihash => "multihash",
            Self::Digest => "digest",
        }
    }

    pub fn of(self, cid: &[u8]) -> Vec<u8> {
        let after_varint = |bytes: &[u8]| bytes.iter().position(|byte| byte & 0x80 == 0).expect("a whole number") + 1;
        let multihash = match cid {
            [0x12, 0x20, ..] => 0,
            _ => 1 + after_varint(&cid[1..]),
        };
        let function = multihash + after_varint(&cid[multihash..]);
        let digest = function + after_varint(&cid[function..]);
        match self {
            Self::Cid => cid.to_vec(),
            Self::Multihash => cid[multihash..].to_vec(),
            Self::Digest => cid[digest..].to_vec(),
        }
    }
}

/// The records of a database, and how many blocks they came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub records: BTreeMap<Vec<u8>, Vec<u8>>,
    pub read: u64,
    /// Bytes of their values, each time they were read.
    pub payload: u64,
}

impl Model {
    pub fn new<'a>(blocks: impl IntoIterator<Item = &'a Block>, key: Key) -> Self {
        let mut model = Self { records: BTreeMap::new(), read: 0, payload: 0 };
        for (cid, data) in blocks {
            model.records.insert(key.of(cid), data.clone());
            model.read += 1;
            model.payload += data.len() as u64;
        }
        model
    }

    /// The sum modulo 2^128 of XXH3-128 of key and value, seeded with the key's length, as 32 hex digits.
    pub fn digest(&self) -> String {
        let sum = self.records.iter().fold(0u128, |sum, (key, value)| {
            let record = [&key[..], value].concat();
            sum.wrapping_add(twox_hash::XxHash3_128::oneshot_with_seed(key.len() as u64, &record))
        });
        format!("{sum:032x}")
    }
}

/// All records of a finished database, read with RocksDB itself.
pub fn records(db: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    family(db, "default")
}

/// [`records`] of a column family.
pub fn family(db: &Path, name: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let options = rust_rocksdb::Options::default();
    let names = BTreeSet::from(["default", name]);
    let db = rust_rocksdb::DB::open_cf_for_read_only(&options, db, names, false).expect("a database");
    db.iterator_cf(db.cf_handle(name).expect("a family"), rust_rocksdb::IteratorMode::Start)
        .map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("a record"))
        .collect()
}
