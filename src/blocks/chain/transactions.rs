//! The transactions of one block: their ids, and whether they are those that the header commits to.

use super::{ChainProblem, Family, Header, Id, antelope, steem};

/// Options for reading a block's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionOptions {
    /// Computes the transactions' ids.
    pub ids: bool,
    /// Computes the merkle root and compares it with the header's.
    pub merkle: bool,
    /// Counts an operation of unknown type instead of failing. Only Steem and Hive have operations in their blocks.
    ///
    /// The end of such an operation is unknown: the block's merkle root is not checked, and the ids end before its
    /// transaction.
    pub skip_unknown: bool,
}

/// The results for a block's transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transactions {
    /// The ids in the order of the block; empty when they were not requested.
    pub ids: Vec<Id>,
    /// Operations of unknown type that were passed over: 0, or 1 for a block whose rest could not be read. The merkle root
    /// of such a block is not checked.
    pub unknown_operations: u64,
}

/// Reads a block's transactions to the end of the block, and does what the options require.
///
/// `version` is that of an Antelope log, 0 for Steem and Hive. In version 4 the block begins behind the entry's size and
/// compression, may lack what can be pruned, and may be followed by padding. `header` is what [`header`](super::header())
/// gave for the same bytes.
pub fn check_transactions(
    family: Family,
    version: u32,
    block: &[u8],
    header: &Header,
    options: &TransactionOptions,
) -> Result<Transactions, ChainProblem> {
    match family {
        Family::Steem | Family::Hive => steem::check(family, block, header, options),
        Family::Antelope => antelope::check(version, block, header, options),
    }
}

/// A block's transactions as JSON, by the names that nodes use; not checked against its header.
pub(crate) fn transactions_json(
    family: Family,
    version: u32,
    block: &[u8],
    header: &Header,
) -> Result<serde_json::Value, ChainProblem> {
    match family {
        Family::Steem | Family::Hive => steem::transactions_json(family, block, header),
        Family::Antelope => antelope::transactions_json(version, block, header),
    }
}
