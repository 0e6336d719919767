//! Proof that a block's bytes are what its CID says, or the block behind it in a chain.

mod chain;
mod checker;
mod function;
mod problem;
mod transactions;

pub(crate) use chain::{Chain, Checked, Expectations, KEY};
pub use checker::{BATCH, Checker, Failure, FailureKind};
pub use function::{Function, MAX_DIGEST, MIN_TRUNCATED};
pub use problem::{HashProblem, problem_of};
pub(crate) use transactions::Lookup;

/// One block to check: the hash function's multicodec, the digest its CID carries, and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Multicodec of the hash function, e.g. `0xb220` for blake2b-256.
    pub code: u64,
    /// The digest as it stands in the CID.
    pub digest: &'a [u8],
    /// The block's bytes.
    pub data: &'a [u8],
}
