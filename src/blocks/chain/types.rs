//! The types of one block: family, header and transactions.

use super::{Id, Name};

/// A family of chains whose blocks have the same layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Family {
    /// Steem, and forks that kept its operations.
    Steem,
    /// Hive: headers and ids as in Steem, some more operations, and assets in two packings.
    Hive,
    /// EOSIO and Antelope.
    Antelope,
}

impl Family {
    /// Returns the length of a block id, in bytes.
    pub fn id_len(self) -> usize {
        match self {
            Self::Steem | Self::Hive => 20,
            Self::Antelope => 32,
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steem => "steem",
            Self::Hive => "hive",
            Self::Antelope => "antelope",
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The fields of a block's header, and the block's id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    /// The block's number: the parent's number plus one.
    pub number: u32,
    /// The id, computed from the stored bytes.
    pub id: Id,
    /// The parent's id; zeros in block 1.
    pub previous: Id,
    /// Time of the block, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The witness (Steem, Hive) or block producer (Antelope).
    pub producer: Name,
    /// Length of the header with its signature, in bytes. The transactions follow.
    pub header_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionOptions {
    pub ids: bool,
    /// Computes the merkle root and compares it with the header's.
    pub merkle: bool,
    /// Counts an operation of unknown type instead of failing. The end of such an operation is unknown: the block's merkle
    /// root is not checked, and the ids end before its transaction. Antelope blocks have no operations.
    pub skip_unknown: bool,
}

/// The results for a block's transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockTransactions {
    /// The ids in the order of the block; empty when they were not requested.
    pub ids: Vec<Id>,
    /// Skipped operations of unknown type: 0, or 1 for a block that could not be read to its end.
    pub unknown_operations: u64,
}
