//! Names and sizes in imported databases.

pub(crate) const DEFAULT: &str = "default";

/// The column family with the numbers of a log's blocks by id.
pub(crate) const BLOCK_IDS: &str = "block_ids";

/// The column family with the places of a log's transactions by id.
pub(crate) const TRANSACTIONS: &str = "transactions";

/// Bytes of a block's key in `default` of a log: its number, big-endian.
pub(crate) const NUMBER: usize = 4;

/// Bytes of a value in `transactions`: number of the block, big-endian, and place in it.
pub(crate) const PLACE: usize = 8;

/// The record of the import, in the directory of the database.
pub(crate) const RECORD_FILE: &str = "BEDLOAD.json";
