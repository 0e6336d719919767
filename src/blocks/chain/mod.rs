//! The blocks of Steem, Hive and Antelope chains: header, id and transactions of one stored block.
//!
//! Ids and roots are always computed from the stored bytes, because real chains have values that no program would write
//! today. Signatures are not checked against keys: that needs a chain's state.
//!
//! ```text
//! Steem, Hive   signed header | transactions
//!               id = sha224(signed header, signature included)[0..20], its first four bytes replaced by the number
//!
//! Antelope      header | signature | transactions | extensions
//!               id = sha256(header, signature left out), its first four bytes replaced by the number
//! ```
//!
//! A block's number is the one in the first four bytes (big-endian) of `previous`, plus one.

mod antelope;
mod field;
mod id;
mod merkle;
mod name;
mod problem;
mod reader;
mod steem;
#[cfg(test)]
pub(crate) mod tests;
mod types;

pub(crate) use antelope::header::{action_root, block_id as antelope_id};
pub(crate) use antelope::transactions::root as antelope_root;
pub use id::Id;
pub use name::Name;
pub use problem::ChainProblem;
pub(crate) use steem::batch::SteemBatch;
pub(crate) use steem::header::block_id as steem_id;
pub(crate) use steem::transactions::root as steem_root;
pub use types::{BlockTransactions, Family, Header, TransactionOptions};

/// Reads a block's header and computes its id. `block` may be longer than the block.
///
/// `version` is that of an Antelope log (headers are the same in all of them) and 0 for Steem and Hive.
pub fn header(family: Family, _version: u32, block: &[u8]) -> Result<Header, ChainProblem> {
    match family {
        Family::Steem | Family::Hive => steem::header::header(block),
        Family::Antelope => antelope::header::header(block),
    }
}

/// Reads a block's transactions to the end of the block, and does what the options require.
///
/// `version` is that of an Antelope log, 0 for Steem and Hive. In version 4 the block begins after the entry's size and
/// compression, may lack pruned data, and may be followed by padding. `header` is the result of [`header()`] for `block`.
pub fn check_transactions(
    family: Family,
    version: u32,
    block: &[u8],
    header: &Header,
    options: &TransactionOptions,
) -> Result<BlockTransactions, ChainProblem> {
    match family {
        Family::Steem | Family::Hive => steem::transactions::check(family, block, header, options),
        Family::Antelope => antelope::transactions::check(version, block, header, options),
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
        Family::Steem | Family::Hive => steem::transactions::to_json(family, block, header),
        Family::Antelope => antelope::json::transactions(version, block, header),
    }
}
