//! The statistics of a database.

use serde::Serialize;

use crate::hash::content_digest::ContentDigest;
use crate::report::{Advice, ImportReport};
use crate::rocks::Level;

pub const STAT_SCHEMA: &str = "bedload-stat-1";

/// The statistics of a database.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StatReport {
    /// Name and version of this document.
    pub schema: String,
    /// The database's path as the user gave it.
    pub db: String,
    /// The RocksDB that last wrote its options; `null` when it has no OPTIONS file.
    pub rocksdb: Option<String>,
    /// The number of the last change to it. It is 0 where files were ingested and nothing was ever written.
    pub last_sequence: u64,
    /// Warnings about it, with advice.
    pub warnings: Vec<Advice>,
    /// Its column families.
    pub column_families: Vec<FamilyStat>,
    /// The record of the import (`BEDLOAD.json`); `null` if there is none.
    pub import: Option<ImportReport>,
}

/// A column family.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FamilyStat {
    /// Its name.
    pub name: String,
    /// Levels that have files.
    pub levels: Vec<Level>,
    /// SST files.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Entries in them: as many as records, unless some were overwritten or deleted since.
    pub entries: u64,
    /// Bytes of filters: memory they take once loaded.
    pub filter_bytes: u64,
    /// Bytes of indexes: memory they take once loaded.
    pub index_bytes: u64,
    /// Options that differ from RocksDB's defaults.
    pub options: Vec<OptionStat>,
    /// Records by reading all of them; `null` unless requested.
    pub records: Option<u64>,
    /// Bytes of the records' values; `null` unless requested.
    pub payload_bytes: Option<u64>,
    /// The content digest; `null` unless requested.
    pub digest: Option<ContentDigest>,
}

/// An option that differs from RocksDB's default.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct OptionStat {
    /// `scope.option`, under RocksDB's own name.
    pub option: String,
    /// Its value.
    pub value: String,
    /// RocksDB's default; `null` for an option this RocksDB does not know.
    pub default: Option<String>,
}
