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
    /// Version of the RocksDB that wrote the OPTIONS file; `null` without that file.
    pub rocksdb: Option<String>,
    /// RocksDB's last sequence number; 0 if files were ingested and nothing was written.
    pub last_sequence: u64,
    /// Warnings about the database, with advice.
    pub warnings: Vec<Advice>,
    /// The column families.
    pub column_families: Vec<FamilyStat>,
    /// The record of the import (`BEDLOAD.json`); `null` if there is none.
    pub import: Option<ImportReport>,
}

/// A column family.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FamilyStat {
    /// The name of the column family.
    pub name: String,
    /// Levels that have files.
    pub levels: Vec<Level>,
    /// Number of SST files.
    pub files: u64,
    /// Size of the SST files, in bytes.
    pub bytes: u64,
    /// Number of entries; more than records if a node has overwritten or deleted some.
    pub entries: u64,
    /// Size of the filters, in bytes: their memory once loaded.
    pub filter_bytes: u64,
    /// Size of the indexes, in bytes: their memory once loaded.
    pub index_bytes: u64,
    /// Options that differ from RocksDB's defaults.
    pub options: Vec<OptionStat>,
    /// Number of records, counted by reading; `null` unless requested.
    pub records: Option<u64>,
    /// Size of all values, in bytes; `null` unless requested.
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
    /// The value.
    pub value: String,
    /// RocksDB's default; `null` if this version of RocksDB does not have the option.
    pub default: Option<String>,
}
