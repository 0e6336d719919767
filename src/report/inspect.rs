//! The contents of a snapshot or of a database.

use serde::Serialize;

use super::{BlockRef, IndexUse, Packings};
use crate::hash::content_digest::ContentDigest;
use crate::rocks::FamilyFacts;

pub const INSPECT_SCHEMA: &str = "bedload-inspect-3";

/// The contents of a snapshot or of a database. A quick inspection leaves fields `null`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InspectReport {
    /// Name and version of this document.
    pub schema: String,
    /// The path of the snapshot; `-` for a pipe.
    pub source: String,
    /// `car`, `block-log` or `rocksdb`.
    pub format: String,
    /// Version of the format.
    pub version: u64,
    /// Compression of the snapshot: `none`, `zstd`, `gzip`, and others.
    pub compression: String,
    /// Size on disk, or bytes read from a pipe.
    pub bytes: Option<u64>,
    /// True if the inspection read and hashed every block; false if it read only the head and the tail.
    pub full: bool,
    /// True if the inspected part has no error.
    pub valid: bool,
    /// Roots in the header.
    pub roots: Vec<RootInfo>,
    /// The header of a CARv2.
    pub v2: Option<V2Info>,
    /// Number of blocks, duplicates included. A quick inspection takes the number from the index.
    pub blocks: Option<u64>,
    /// Number of distinct blocks.
    pub distinct: Option<u64>,
    /// Number of duplicates.
    pub duplicates: Option<u64>,
    /// Size of all blocks in bytes, duplicates included.
    pub payload_bytes: Option<u64>,
    /// Bytes of null padding after the blocks.
    pub null_padding: Option<u64>,
    /// Content digest. A database with CIDs as keys has the same digest.
    pub digest: Option<ContentDigest>,
    /// Blocks by size.
    pub sizes: Option<Vec<SizeClass>>,
    /// Blocks by the codec of their content.
    pub codecs: Option<Vec<CodeCount>>,
    /// Blocks by hash function.
    pub hashes: Option<Vec<CodeCount>>,
    /// zstd frames of a compressed snapshot.
    pub zstd: Option<ZstdInfo>,
    /// Metadata of an FRC-0108 snapshot.
    pub metadata: Option<MetadataInfo>,
    /// Head of the chain, if the roots are Filecoin headers.
    pub head: Option<HeadInfo>,
    /// Parts, blocks and indexes of a block log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogInfo>,
    /// Column families of a RocksDB database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseInfo>,
    /// Number of blocks that do not match their CIDs.
    pub bad_blocks: Option<u64>,
    /// The first ten blocks that do not match their CIDs, in the order of the file.
    pub first_bad: Vec<BadBlock>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A root.
#[derive(Debug, Clone, Serialize)]
pub struct RootInfo {
    /// CID of the root in the usual text form.
    pub cid: String,
    /// True if the block of the root is in the snapshot; `null` if a quick inspection did not find the block.
    pub present: Option<bool>,
}

/// The header of a CARv2.
#[derive(Debug, Clone, Serialize)]
pub struct V2Info {
    /// Offset of the inner CARv1 in bytes.
    pub data_offset: u64,
    /// Length of the inner CARv1 in bytes.
    pub data_bytes: u64,
    /// Offset of the index in bytes; 0 if there is no index.
    pub index_offset: u64,
    /// True if the header declares an index of all blocks.
    pub fully_indexed: bool,
}

/// Blocks of similar size.
#[derive(Debug, Clone, Serialize)]
pub struct SizeClass {
    /// Largest size of the class in bytes: 0, 1, 3, 7, and so on.
    pub up_to: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

/// Blocks that share a multicodec.
#[derive(Debug, Clone, Serialize)]
pub struct CodeCount {
    /// The multicodec.
    pub code: u64,
    /// Name of the multicodec; `null` if bedload does not know it.
    pub name: Option<String>,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

/// The zstd frames around a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ZstdInfo {
    /// Number of frames with data, empty frames included.
    pub frames: u64,
    /// Number of frames with data that end with a checksum.
    pub checksums: u64,
    /// Number of skippable frames, e.g. an index.
    pub skippable: u64,
    /// Size of the skippable frames in bytes.
    pub skippable_bytes: u64,
    /// Largest window in bytes. Decompression needs this much memory.
    pub window: u64,
}

/// The metadata of an FRC-0108 snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct MetadataInfo {
    /// Version of the snapshot format.
    pub version: u64,
    /// CIDs of the head tipset's headers.
    pub head_tipset: Vec<String>,
    /// CID of the F3 data; `null` if the snapshot has none.
    pub f3: Option<String>,
    /// Size of the F3 data in bytes; `null` if the inspection did not find them.
    pub f3_bytes: Option<u64>,
}

/// The head of a Filecoin chain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeadInfo {
    /// Epoch of the head tipset.
    pub epoch: u64,
    /// Time of the head tipset, in seconds since 1970.
    pub timestamp: u64,
    /// Number of headers of the head tipset in the snapshot.
    pub headers: u64,
}

/// A block that does not match its CID.
#[derive(Debug, Clone, Serialize)]
pub struct BadBlock {
    /// Offset of the section in the decompressed snapshot, in bytes.
    pub offset: u64,
    /// The problem.
    pub message: String,
}

/// The result of inspecting a block log.
#[derive(Debug, Clone, Serialize)]
pub struct LogInfo {
    /// `steem`, `hive` or `antelope`. A log of Hive without packed blocks looks like one of Steem.
    pub family: String,
    /// Id of the chain; `null` if the log does not contain it. Logs of Antelope do.
    pub chain_id: Option<String>,
    /// Number of files.
    pub parts: u64,
    /// The first block.
    pub first: Option<BlockRef>,
    /// The last complete block.
    pub last: Option<BlockRef>,
    /// Number of blocks by packing; `null` if not all blocks were read.
    pub packings: Option<Packings>,
    /// Index files beside the log, and the result of comparing them with the inspected part.
    pub indexes: Vec<IndexUse>,
    /// Number of bytes after the last complete block.
    pub rest_bytes: u64,
}

/// The result of inspecting a RocksDB database.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseInfo {
    /// Version of the RocksDB that wrote the OPTIONS file; `null` without that file.
    pub rocksdb: Option<String>,
    /// Number of SST files.
    pub files: u64,
    /// Size of the write-ahead log, in bytes.
    pub wal_bytes: u64,
    /// True if `bedload import` can copy all records into a new database.
    pub can_be_rebuilt: bool,
    /// The column families.
    pub(crate) column_families: Vec<FamilyFacts>,
}
