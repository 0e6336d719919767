//! The layout of the databases that imports make: names of column families, widths of their records, and the record of
//! the import.

/// RocksDB's name for the column family that every database has.
pub(crate) const DEFAULT: &str = "default";

/// The column family that finds blocks of a log by their ids.
pub(crate) const BLOCK_IDS: &str = "block_ids";

/// The column family that finds transactions of a log by their ids.
pub(crate) const TRANSACTIONS: &str = "transactions";

/// Bytes of a block's key in `default` of a log: its number, big-endian.
pub(crate) const NUMBER: usize = 4;

/// Bytes of a value in `transactions`: number of the block, big-endian, and place in it.
pub(crate) const PLACE: usize = 8;

/// The record of the import, in the directory of the database.
pub(crate) const RECORD_FILE: &str = "BEDLOAD.json";
