//! Writing batches into a column family.

use std::path::Path;

use rust_rocksdb::{ColumnFamily, DB, WriteBatch, WriteOptions};

use super::{WriteSettings, options, wrap};
use crate::error::Result;

#[derive(Default)]
pub(crate) struct Batch {
    inner: WriteBatch,
    pub records: u64,
    pub bytes: u64,
}

impl Batch {
    /// Removes the records. The memory stays.
    pub fn clear(&mut self) {
        self.inner.clear();
        (self.records, self.bytes) = (0, 0);
    }
}

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

    pub fn put(&self, batch: &mut Batch, key: &[u8], value: &[u8]) {
        batch.inner.put_cf(self.family, key, value);
        batch.records += 1;
        batch.bytes += (key.len() + value.len()) as u64;
    }

    /// Writes a batch. This takes long while RocksDB stalls writers.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.db.write_opt(&batch.inner, &self.options).map_err(wrap("write to", self.path))
    }
}
