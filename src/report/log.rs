//! What an import tells about a block log.

use serde::{Deserialize, Serialize};

use crate::chain::{Family, Header};
use crate::digest::ContentDigest;
use crate::rocks::Level;
pub use crate::source::block_log::IndexUse;

/// What only a block log has to tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogReport {
    /// `steem`, `hive` or `antelope`.
    pub family: String,
    /// The chain's id, where the log says it (Antelope).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    /// Files it consists of.
    pub parts: u64,
    /// How it lay: what `bedload export` needs to write it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LogLayout>,
    /// The first block that was imported.
    pub first: BlockRef,
    /// The last one; no block behind it vouches for its id.
    pub last: BlockRef,
    /// What was checked.
    pub verified: LogVerified,
    /// What was not checked, and what nothing in a log vouches for: damage there is not found.
    pub not_covered: Vec<String>,
    /// How the blocks lie in the log.
    pub packings: Packings,
    /// Files beside the log that say where its blocks are.
    pub indexes: Vec<IndexUse>,
    /// Bytes behind the last whole block that were left out.
    pub trimmed_bytes: u64,
    /// Blocks that were compared with a checkpoint.
    pub checkpoints: u64,
    /// Transactions; `null` when they were not counted.
    pub transactions: Option<u64>,
    /// Operations of unknown kinds that were passed over, one a block: the merkle roots of these blocks were not checked.
    pub unknown_operations: u64,
    /// The column families.
    pub families: Vec<FamilyReport>,
    /// Speed over the chain.
    pub speed: Vec<Speed>,
}

/// What an import checked in a block log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogVerified {
    /// Ids, links and the merkle roots of transactions.
    #[default]
    Hash,
    /// Ids and links (`--verify links`).
    Links,
    /// Nothing (`--verify none`).
    None,
}

/// What is not covered where `verified` was checked in a log of `family` and `version` that begins with block `first`:
/// `unknown` blocks have operations of unknown kinds, and the caller `expects` the last block's id or does not.
pub(crate) fn not_covered(
    (family, version): (Family, u32),
    verified: LogVerified,
    first: u32,
    unknown: u64,
    expects: bool,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    match verified {
        LogVerified::None => return vec!["anything: --verify none".into()],
        LogVerified::Links => all.push("the transactions of all blocks: --verify links".into()),
        LogVerified::Hash if unknown > 0 => {
            all.push(format!("the transactions of {unknown} blocks with operations of unknown kinds"));
        }
        LogVerified::Hash => {}
    }
    if !expects {
        all.push("the last block's header, which no block behind it names: see --expect-head".into());
    }
    if family == Family::Antelope {
        all.push("the producers' signatures and the extensions of blocks, which are part of no id and no root".into());
        if matches!(version, 2 | 3) && first == 1 {
            all.push("whether the log has version 2 or 3, which are laid out alike".into());
        }
        if version == 4 {
            all.push("the pruning state of blocks and the padding behind them".into());
        }
        if first != 1 || verified != LogVerified::Hash {
            all.push("the genesis state or chain id at the log's beginning".into());
        }
    }
    all
}

/// How a log lay, beyond its blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLayout {
    /// Bytes from its beginning to the end of its last whole block; `null` where it was several files, was pruned, or was
    /// not imported as a whole.
    pub bytes: Option<u64>,
    /// Whether it was pruned (Antelope).
    pub pruned: bool,
    /// What stood before its first block, as hex (Antelope).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A block by its number and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRef {
    /// Its number.
    pub number: u32,
    /// Its id as hex.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl BlockRef {
    pub(crate) fn of(header: &Header) -> Self {
        Self { number: header.number, id: header.id.to_string(), timestamp_ms: header.timestamp_ms }
    }
}

/// What is in a block log, as a look at it finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogInfo {
    /// `steem`, `hive` or `antelope`. A log of Hive without packed blocks looks like one of Steem.
    pub family: String,
    /// The chain's id, where the log says it (Antelope).
    pub chain_id: Option<String>,
    /// Files it consists of.
    pub parts: u64,
    /// The first block.
    pub first: Option<BlockRef>,
    /// The last whole one.
    pub last: Option<BlockRef>,
    /// How the blocks lie; `null` when not all of them were looked at.
    pub packings: Option<Packings>,
    /// Files beside it that say where its blocks are, and whether they agree with it as far as was looked.
    pub indexes: Vec<IndexUse>,
    /// Bytes behind the last whole block.
    pub rest_bytes: u64,
}

/// How blocks lie in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packings {
    /// As they are.
    pub raw: u64,
    /// Packed with zstd.
    pub zstd: u64,
    /// Packed with zstd and a dictionary.
    pub zstd_dictionary: u64,
    /// Bytes of all of them in the log.
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

/// A column family of the finished database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyReport {
    /// Its name.
    pub name: String,
    /// Records in it.
    pub records: u64,
    /// Records of the log that were left out: later ones of a transaction that occurs more than once.
    pub duplicates: u64,
    /// The content digest.
    pub digest: ContentDigest,
    /// The content digest of the records that were left out.
    #[serde(default)]
    pub duplicate_digest: ContentDigest,
    /// Its levels.
    pub levels: Vec<Level>,
}

/// How fast blocks were read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Blocks read so far in this run.
    pub blocks: u64,
    /// Seconds since reading began.
    pub seconds: f64,
    /// Blocks a second since the row before.
    pub blocks_per_second: f64,
}
