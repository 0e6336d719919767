//! Problems of one block.

use super::Id;

/// A problem of a block. Offsets are bytes from the block's start.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainProblem {
    /// It ends where more must follow.
    #[error("the block ends inside {inside}, at byte {offset} of the block")]
    Truncated {
        /// Start of the truncated part.
        offset: usize,
        /// Name of the part.
        inside: &'static str,
    },
    /// A variable-length number that does not end, or has more than 32 bits.
    #[error("{what} at byte {offset} of the block is a number of more than 32 bits")]
    VarintTooLong {
        /// Start of the number.
        offset: usize,
        /// Name of the number.
        what: &'static str,
    },
    /// An operation with a tag that no operation of the family has.
    #[error("block {block} has an operation of the unknown type {tag}, at byte {offset} of the block")]
    UnknownOperation {
        /// The number of the block.
        block: u32,
        /// The operation's tag.
        tag: u32,
        /// Offset of the tag.
        offset: usize,
    },
    /// The transactions are not those that the header commits to.
    #[error(
        "the transactions of block {block} do not match its header: their merkle root is {computed}, the header's {header}"
    )]
    Merkle {
        /// The number of the block.
        block: u32,
        /// The root in the header.
        header: Id,
        /// The root of the transactions.
        computed: Id,
    },
    /// A transaction that cannot be unpacked.
    #[error("the packed transaction at byte {offset} of the block is no zlib stream of at most {max} bytes")]
    Zlib {
        /// Start of the packed transaction.
        offset: usize,
        /// Largest decompressed size of a transaction.
        max: usize,
    },
    /// Bytes behind the last part of a block.
    #[error("the block goes on for {extra} bytes behind its end, at byte {offset}")]
    TrailingBytes {
        /// Expected end of the block.
        offset: usize,
        /// Number of bytes after it.
        extra: usize,
    },
    /// A length or count over its limit.
    #[error("{what} at byte {offset} of the block claims {len}, the limit is {max}")]
    TooLong {
        /// Offset of the length.
        offset: usize,
        /// The part that has this length.
        what: &'static str,
        /// The claimed length.
        len: u32,
        /// The limit.
        max: u32,
    },
    /// A value that cannot be there.
    #[error("byte {offset} of the block: {found} where {expected} must be")]
    Unexpected {
        /// Its offset.
        offset: usize,
        /// The expected value.
        expected: &'static str,
        /// The actual value.
        found: u64,
    },
    /// A name with other characters than names have.
    #[error("byte {offset} of the block: {what} is no name of printable characters")]
    Name {
        /// Start of the name.
        offset: usize,
        /// The owner of the name.
        what: &'static str,
    },
    /// The parent has the highest number there is.
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
