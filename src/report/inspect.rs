//! The contents of a snapshot.

use serde::Serialize;

use super::{BlockRef, IndexUse, Packings};
use crate::hash::content_digest::ContentDigest;

pub const INSPECT_SCHEMA: &str = "bedload-inspect-3";

/// The contents of a snapshot. Fields that a quick inspection does not find are `null`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InspectReport {
    /// Name and version of this document.
    pub schema: String,
    /// The path as given by the user; `-` for a pipe.
    pub source: String,
    /// `car` or `block-log`.
    pub format: String,
    /// Version of the format.
    pub version: u64,
    /// Its compression: `none`, `zstd`, ...
    pub compression: String,
    /// Size on disk, or bytes read from a pipe.
    pub bytes: Option<u64>,
    /// True if everything was read and hashed, or head and tail only.
    pub full: bool,
    /// True if nothing is wrong with it, as far as was inspected.
    pub valid: bool,
    /// The roots.
    pub roots: Vec<RootInfo>,
    /// The header of a CARv2.
    pub v2: Option<V2Info>,
    /// Blocks, duplicates included; in a quick inspection according to the index.
    pub blocks: Option<u64>,
    /// Distinct blocks.
    pub distinct: Option<u64>,
    /// Blocks that occurred before.
    pub duplicates: Option<u64>,
    /// Bytes of all blocks, duplicates included.
    pub payload_bytes: Option<u64>,
    /// Bytes of null padding after the blocks.
    pub null_padding: Option<u64>,
    /// The content digest, as of a database keyed by CID.
    pub digest: Option<ContentDigest>,
    /// Blocks by size.
    pub sizes: Option<Vec<SizeClass>>,
    /// Blocks by the codec of their content.
    pub codecs: Option<Vec<CodeCount>>,
    /// Blocks by hash function.
    pub hashes: Option<Vec<CodeCount>>,
    /// The zstd frames around it.
    pub zstd: Option<ZstdInfo>,
    /// The metadata of an FRC-0108 snapshot.
    pub metadata: Option<MetadataInfo>,
    /// The chain's head, when the roots are Filecoin headers.
    pub head: Option<HeadInfo>,
    /// Facts of a block log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogInfo>,
    /// Blocks that do not match their CIDs.
    pub bad_blocks: Option<u64>,
    /// The first ten of them, in the order of the file.
    pub first_bad: Vec<BadBlock>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A root.
#[derive(Debug, Clone, Serialize)]
pub struct RootInfo {
    /// Its CID in the usual text form.
    pub cid: String,
    /// True if its block is in the snapshot; `null` when a quick inspection did not find it.
    pub present: Option<bool>,
}

/// The header of a CARv2.
#[derive(Debug, Clone, Serialize)]
pub struct V2Info {
    /// Start of the inner CARv1.
    pub data_offset: u64,
    /// Length of the inner CARv1 in bytes.
    pub data_bytes: u64,
    /// Start of the index; 0 if there is none.
    pub index_offset: u64,
    /// True if the index claims to hold all blocks.
    pub fully_indexed: bool,
}

/// Blocks of similar size.
#[derive(Debug, Clone, Serialize)]
pub struct SizeClass {
    /// The largest size in it, in bytes: 0, 1, 3, 7, ..
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
    /// Its name, where it is known here.
    pub name: Option<String>,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
}

/// The zstd frames around a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ZstdInfo {
    /// Frames that readers unpack, also those that hold nothing.
    pub frames: u64,
    /// Number of these frames that end with a checksum.
    pub checksums: u64,
    /// Frames that readers skip, such as an index.
    pub skippable: u64,
    /// Their size in bytes.
    pub skippable_bytes: u64,
    /// The largest window, in bytes: what unpacking must keep.
    pub window: u64,
}

/// The metadata of an FRC-0108 snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct MetadataInfo {
    /// Version of the snapshot's form.
    pub version: u64,
    /// CIDs of the head tipset's headers.
    pub head_tipset: Vec<String>,
    /// CID of the F3 data, if there is any.
    pub f3: Option<String>,
    /// Its size in bytes; `null` when it was not found.
    pub f3_bytes: Option<u64>,
}

/// The head of a Filecoin chain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeadInfo {
    /// The epoch.
    pub epoch: u64,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// Headers of the head tipset that were found.
    pub headers: u64,
}

/// A block that does not match its CID.
#[derive(Debug, Clone, Serialize)]
pub struct BadBlock {
    /// Offset of its section in the decompressed snapshot.
    pub offset: u64,
    /// The problem.
    pub message: String,
}

/// The result of inspecting a block log.
#[derive(Debug, Clone, Serialize)]
pub struct LogInfo {
    /// `steem`, `hive` or `antelope`. A log of Hive without packed blocks looks like one of Steem.
    pub family: String,
    /// The chain's id, where the log says it (Antelope).
    pub chain_id: Option<String>,
    /// Files it consists of.
    pub parts: u64,
    /// The first block.
    pub first: Option<BlockRef>,
    /// The last complete block.
    pub last: Option<BlockRef>,
    /// How the blocks are packed; `null` when not all of them were read.
    pub packings: Option<Packings>,
    /// Index files beside it, and whether they agree with it as far as was inspected.
    pub indexes: Vec<IndexUse>,
    /// Bytes after the last complete block.
    pub rest_bytes: u64,
}
