//! Writing batches into a column family.

use std::path::Path;

use rust_rocksdb::{ColumnFamily, DB, WriteBatch, WriteOptions};

use super::settings::WriteSettings;
use super::{options, wrap};
use crate::error::Result;

/// Records to be written together.
#[derive(Default)]
pub(crate) struct Batch {
    inner: WriteBatch,
    records: u64,
    bytes: u64,
}

impl Batch {
    /// Records in it.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of their keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Empties it; its memory stays.
    pub fn clear(&mut self) {
        self.inner.clear();
        (self.records, self.bytes) = (0, 0);
    }
}

/// One thread's way into a column family.
pub(crate) struct Writer<'a> {
    db: &'a DB,
    path: &'a Path,
    family: &'a ColumnFamily,
    options: WriteOptions,
}

impl<'a> Writer<'a> {
    pub(super) fn new(db: &'a DB, path: &'a Path, family: &'a ColumnFamily, settings: &WriteSettings) -> Self {
        Self { db, path, family, options: options::write_options(settings) }
    }

    /// Adds a record to a batch; nothing is written yet.
    pub fn put(&self, batch: &mut Batch, key: &[u8], value: &[u8]) {
        batch.inner.put_cf(self.family, key, value);
        batch.records += 1;
        batch.bytes += (key.len() + value.len()) as u64;
    }

    /// Writes a batch. Returns when RocksDB has it, which takes long while it stalls writers.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.db.write_opt(&batch.inner, &self.options).map_err(wrap("write to", self.path))
    }
}
