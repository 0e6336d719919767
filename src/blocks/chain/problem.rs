//! Problems of one block.

use super::Id;

/// A problem of a block. Offsets are bytes from the block's start.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
pub enum ChainProblem {
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
    #[error("the packed transaction at byte {offset} of the block is not a zlib stream of at most {max} bytes")]
    Zlib { offset: usize, max: usize },
    #[error("{extra} bytes follow the end of the block, at byte {offset}")]
    TrailingBytes { offset: usize, extra: usize },
    #[error("{what} at byte {offset} of the block: {len} exceeds the limit of {max}")]
    TooLong { offset: usize, what: &'static str, len: u32, max: u32 },
    #[error("byte {offset} of the block: found {found}, expected {expected}")]
    Unexpected { offset: usize, expected: &'static str, found: u64 },
    #[error("byte {offset} of the block: {what} is not a name of printable characters")]
    Name { offset: usize, what: &'static str },
    #[error("the parent has the number {}, so the block cannot have one", u32::MAX)]
    NumberTooLarge,
}

impl ChainProblem {
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownOperation { .. } => "the chain is a fork, or newer than this version of bedload: pass `--unknown-operations skip` to skip \
                the merkle roots of such blocks, or `--verify links` to skip all"
                .into(),
            Self::Merkle { .. } => {
                "the block's transactions are damaged: compare the log's sha256 with the publisher's, or download it again"
                    .into()
            }
            _ => "the block log is damaged or belongs to another chain: compare its sha256 with the publisher's".into(),
        }
    }
}
