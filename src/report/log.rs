//! Reports of an import about a block log.

use serde::{Deserialize, Serialize};

use crate::blocks::chain::Family;
use crate::hash::content_digest::ContentDigest;
use crate::rocks::Level;
pub use crate::source::block_log::{BlockRef, IndexUse, LogLayout, Packings};
use crate::text::size::counted;

/// The report of an import of a block log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogReport {
    /// `steem`, `hive` or `antelope`.
    pub family: String,
    /// The chain id, if the log has it (Antelope).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    /// Number of files of the log.
    pub parts: u64,
    /// The layout, which `bedload export` needs to restore the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LogLayout>,
    /// The first block that was imported.
    pub first: BlockRef,
    /// The last block that was imported. No later block confirms its id.
    pub last: BlockRef,
    /// The checks of the import.
    pub verified: LogVerified,
    /// Parts that the import did not check or cannot check. Damage in them is not found.
    pub not_covered: Vec<String>,
    /// Numbers of blocks by compression.
    pub packings: Packings,
    /// Index files beside the log.
    pub indexes: Vec<IndexUse>,
    /// Bytes after the last complete block, which were omitted.
    pub trimmed_bytes: u64,
    /// Number of blocks that were compared with a checkpoint.
    pub checkpoints: u64,
    /// Number of transactions; `null` if they were not counted.
    pub transactions: Option<u64>,
    /// Blocks with operations of unknown kinds, whose merkle roots were not checked.
    pub unknown_operations: u64,
    /// The column families.
    pub families: Vec<FamilyReport>,
}

/// The checks of a block log during an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogVerified {
    /// Ids, links and the merkle roots of transactions.
    #[default]
    Hash,
    /// Ids and links (`--verify links`).
    Links,
    /// Nothing (`--verify none`).
    None,
}

/// Lists the parts of a log that checks of `verified` do not cover. `unknown` blocks have operations of unknown kinds.
pub(crate) fn not_covered(
    (family, version): (Family, u32),
    verified: LogVerified,
    first: u32,
    unknown: u64,
    expects: bool,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    match verified {
        LogVerified::None => return vec!["anything".into()],
        LogVerified::Links => all.push("the transactions of all blocks: only links were verified".into()),
        LogVerified::Hash if unknown > 0 => {
            all.push(format!(
                "the transactions of {} with operations of unknown kinds",
                counted(unknown, "block", "blocks")
            ));
        }
        LogVerified::Hash => {}
    }
    if !expects {
        all.push("the header of the last block: to verify it, import with the expected head".into());
    }
    if family == Family::Antelope {
        all.push("the producers' signatures and the extensions of blocks, which are part of no id and no root".into());
        if matches!(version, 2 | 3) && first == 1 {
            all.push("the version of the log, 2 or 3, which have the same layout".into());
        }
        if version == 4 {
            all.push("the pruning state of blocks and the padding after them".into());
        }
        if first != 1 || verified != LogVerified::Hash {
            all.push("the genesis state or chain id at the log's beginning".into());
        }
    }
    all
}

/// A column family of the finished database.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FamilyReport {
    /// The name of the column family.
    pub name: String,
    /// Number of records.
    pub records: u64,
    /// Omitted records: repetitions of a transaction id.
    pub duplicates: u64,
    /// The content digest.
    pub digest: ContentDigest,
    /// The content digest of the omitted records.
    #[serde(default)]
    pub duplicate_digest: ContentDigest,
    /// The levels with files.
    pub levels: Vec<Level>,
}
