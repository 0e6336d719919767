//! The layout of a log beyond its blocks, and how its blocks are stored: plain data that imports record.

use serde::{Deserialize, Serialize};

use crate::blocks::chain::Header;

/// The longest block, in bytes, as it is stored and unpacked. Hive's own limit is 2 MiB, Antelope's chains have 1 MiB
/// by default.
pub(crate) const MAX_BLOCK: usize = 16 << 20;

/// The treatment of a log that ends inside a block.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TornTail {
    /// Fails. The default.
    #[default]
    Error,
    /// Omits the bytes after the last complete block.
    Trim,
}

/// The layout of a log beyond its blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogLayout {
    /// Bytes up to the end of the last complete block; `null` if the log had several files, was pruned, or was imported
    /// in part.
    pub bytes: Option<u64>,
    /// True if the log was pruned (Antelope).
    pub pruned: bool,
    /// The bytes before the first block, as hex (Antelope).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A block by its number and id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockRef {
    /// The block number.
    pub number: u32,
    /// The block id as hex.
    pub id: String,
    /// The time of the block, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl BlockRef {
    pub(crate) fn of(header: &Header) -> Self {
        Self { number: header.number, id: header.id.to_string(), timestamp_ms: header.timestamp_ms }
    }
}

/// Numbers of blocks in a log, by their compression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Packings {
    /// Blocks without compression.
    pub raw: u64,
    /// Blocks compressed with zstd.
    pub zstd: u64,
    /// Blocks compressed with zstd and a dictionary.
    pub zstd_dictionary: u64,
    /// Size of all blocks in the log, in bytes.
    pub stored_bytes: u64,
}

impl Packings {
    pub(crate) fn add(&mut self, other: Self) {
        self.raw += other.raw;
        self.zstd += other.zstd;
        self.zstd_dictionary += other.zstd_dictionary;
        self.stored_bytes += other.stored_bytes;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    Raw,
    Zstd,
    /// zstd with the dictionary of this number.
    Dictionary(u8),
}
