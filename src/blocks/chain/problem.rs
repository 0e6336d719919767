//! Problems of one block.

use super::Id;

/// A problem of a block. Offsets are bytes from the block's start.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainProblem {
    /// `offset` is the start of the truncated part.
    #[error("the block ends inside {inside}, at byte {offset} of the block")]
    Truncated { offset: usize, inside: &'static str },
    /// A number in base 128 that does not end, or has more than 32 bits.
    #[error("{what} at byte {offset} of the block is a number of more than 32 bits")]
    VarintTooLong { offset: usize, what: &'static str },
    #[error("block {block} has an operation of the unknown type {tag}, at byte {offset} of the block")]
    UnknownOperation { block: u32, tag: u32, offset: usize },
    #[error(
        "the transactions of block {block} do not match its header: their merkle root is {computed}, the header's {header}"
    )]
    Merkle { block: u32, header: Id, computed: Id },
    #[error("the packed transaction at byte {offset} of the block is no zlib stream of at most {max} bytes")]
    Zlib { offset: usize, max: usize },
    #[error("the block goes on for {extra} bytes behind its end, at byte {offset}")]
    TrailingBytes { offset: usize, extra: usize },
    #[error("{what} at byte {offset} of the block claims {len}, the limit is {max}")]
    TooLong { offset: usize, what: &'static str, len: u32, max: u32 },
    #[error("byte {offset} of the block: {found} where {expected} must be")]
    Unexpected { offset: usize, expected: &'static str, found: u64 },
    #[error("byte {offset} of the block: {what} is no name of printable characters")]
    Name { offset: usize, what: &'static str },
    #[error("the block's parent has the number {}: there is no number for the block", u32::MAX)]
    NumberTooLarge,
}

impl ChainProblem {
    /// The next step for the person who sees it.
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownOperation { .. } => "a fork of the chain, or newer than this version of bedload: \
                `--unknown-operations skip` leaves the merkle root of such blocks unchecked, `--verify links` of all"
                .into(),
            Self::Merkle { .. } => {
                "the block's transactions are damaged: compare the log's sha256 with the publisher's, or load it again"
                    .into()
            }
            _ => "the block log is damaged, or of another chain: compare its sha256 with the publisher's".into(),
        }
    }
}
