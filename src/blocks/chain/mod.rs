//! The blocks of Steem, Hive and Antelope chains: what one stored block says about itself, and whether it is right.
//!
//! Everything here is a pure function over the stored bytes of ONE block: its header and id ([`header`]), and its
//! transactions with their ids and merkle root ([`check_transactions`]). Ids and roots are always computed from the
//! stored bytes, never from bytes written anew: real chains hold values that no program would write today.
//!
//! ```text
//! Steem, Hive   signed header | transactions
//!               previous[20] | u32 seconds | witness | merkle root[20] | extensions | signature[65]
//!               id = sha224(signed header, signature included)[0..20], its first four bytes replaced by the number
//!
//! Antelope      header | signature | transactions | extensions
//!               u32 half seconds since 2000 | u64 producer | u16 confirmed | previous[32] | transaction root[32]
//!               | action root[32] | u32 schedule version | optional new producers | header extensions
//!               id = sha256(header, signature left out), its first four bytes replaced by the number
//! ```
//!
//! A block's number is the one in the first four bytes (big-endian) of `previous`, plus one.
//!
//! Not here: files and frames, compression, and whether one block follows another (`source`). Signatures are not
//! checked against keys: that needs a chain's state.

mod antelope;
mod id;
mod merkle;
mod name;
mod problem;
mod reader;
mod steem;
#[cfg(test)]
pub(crate) mod tests;
mod transactions;

pub(crate) use antelope::{action_root, block_id as antelope_id, root as antelope_root};
pub use id::Id;
pub use name::Name;
pub use problem::ChainProblem;
pub(crate) use steem::{Batch as SteemBatch, block_id as steem_id, root as steem_root};
pub(crate) use transactions::transactions_json;
pub use transactions::{TransactionOptions, Transactions, check_transactions};

/// Which chain a block comes from, as far as its layout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Steem, and forks that kept its operations.
    Steem,
    /// Hive: headers and ids as in Steem, some more operations, and assets in two packings.
    Hive,
    /// EOSIO and Antelope.
    Antelope,
}

/// The fields of a block's header, and the block's id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    /// The block's number: one more than that of its parent.
    pub number: u32,
    /// The id, computed from the stored bytes.
    pub id: Id,
    /// The parent's id; zeros in block 1.
    pub previous: Id,
    /// When the block was made, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Who made it: a witness (Steem, Hive) or block producer (Antelope).
    pub producer: Name,
    /// Bytes of the header with its signature; transactions start there.
    pub header_len: usize,
}

impl Family {
    /// Bytes of a block id.
    pub fn id_len(self) -> usize {
        match self {
            Self::Steem | Self::Hive => steem::ID_LEN,
            Self::Antelope => antelope::ID_LEN,
        }
    }

    /// The name as users write it.
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

/// Reads a block's header and computes its id. Allocates nothing; what follows the header is not read, so `block` may
/// be longer than the block.
///
/// `version` is that of an Antelope log (headers are the same in all of them) and 0 for Steem and Hive.
pub fn header(family: Family, _version: u32, block: &[u8]) -> Result<Header, ChainProblem> {
    match family {
        Family::Steem | Family::Hive => steem::header(block),
        Family::Antelope => antelope::header(block),
    }
}
