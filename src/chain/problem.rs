//! What can be wrong with one block.

/// What is wrong with a block. Offsets are bytes from the block's start.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainProblem {
    /// It ends where more must follow.
    #[error("the block ends inside {inside}, at byte {offset} of the block")]
    Truncated {
        /// Where the part begins that is cut.
        offset: usize,
        /// Which part.
        inside: &'static str,
    },
    /// A variable-length number that does not end, or has more than 32 bits.
    #[error("{what} at byte {offset} of the block is a number of more than 32 bits")]
    VarintTooLong {
        /// Where the number begins.
        offset: usize,
        /// Which number.
        what: &'static str,
    },
    /// A length or count over its limit.
    #[error("{what} at byte {offset} of the block claims {len}, the limit is {max}")]
    TooLong {
        /// Where the length stands.
        offset: usize,
        /// Of what it is the length.
        what: &'static str,
        /// The claimed length.
        len: u32,
        /// The limit.
        max: u32,
    },
    /// A value that cannot stand there.
    #[error("byte {offset} of the block: {found} where {expected} must be")]
    Unexpected {
        /// Where it stands.
        offset: usize,
        /// What must be there.
        expected: &'static str,
        /// What is there instead.
        found: u64,
    },
    /// A name with other characters than names have.
    #[error("byte {offset} of the block: {what} is no name of printable characters")]
    Name {
        /// Where the name begins.
        offset: usize,
        /// Whose name.
        what: &'static str,
    },
    /// The parent has the highest number there is.
    #[error("the block's parent has the number {}: there is no number for the block", u32::MAX)]
    NumberTooLarge,
}

impl ChainProblem {
    /// The next step for the person who sees it.
    pub fn hint(&self) -> String {
        "the block log is damaged, or of another chain: compare its sha256 with the publisher's".into()
    }
}
