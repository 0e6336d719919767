//! Problems of block logs.

use crate::error::Problem;
use std::path::PathBuf;

use crate::blocks::chain::{ChainProblem, Id};
use crate::text::size::human;

/// The place where Hive publishes its dictionaries.
const DICTIONARIES: &str =
    "https://gitlab.syncad.com/hive/hive, submodule libraries/chain/compression_dictionaries, files NNNM.dict.zst";

/// A problem of a block log.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogProblem {
    /// It is no block log at all.
    #[error("this is not a block log: {reason}")]
    NotALog {
        /// The reason.
        reason: String,
    },
    /// A directory that has none.
    #[error("it is a directory, and has no block_log, block_log_part.NNNN, blocks.log or blocks-A-B.log")]
    NoLogInDirectory,
    /// The head of an Antelope log cannot be read.
    #[error("the head of the log cannot be right: {reason}")]
    Preamble {
        /// Which rule is broken.
        reason: String,
    },
    /// It ends inside a block, as logs do after a crash.
    #[error("the log is torn: block {last} ({id}) is the last complete one, and {} follow it", human(*rest))]
    Torn {
        /// The last whole block.
        last: u32,
        /// Its id.
        id: Id,
        /// Bytes after it.
        rest: u64,
    },
    /// Not even one whole block.
    #[error("the log contains no complete block")]
    Empty,
    /// The word after a block does not have its position.
    #[error("block {number} has no end: no word within {} after its start has its position", human(super::MAX_BLOCK as u64))]
    NoEnd {
        /// The block that should be here.
        number: u32,
    },
    /// A block whose own bytes are wrong.
    #[error("{}", OfBlock(*number, problem))]
    Block {
        /// The block's number by its place.
        number: u32,
        /// The reason.
        problem: ChainProblem,
    },
    /// A block does not follow the one before it.
    #[error("block {number} says that it follows {previous}, but block {} has the id {before}", number.wrapping_sub(1))]
    Link {
        /// The block.
        number: u32,
        /// The parent's id in the block.
        previous: Id,
        /// The id of the block before it.
        before: Id,
    },
    /// A block with another number than its place.
    #[error("expected block {expected}, found block {found}")]
    Number {
        /// The number that must be here.
        expected: u32,
        /// The number that the block says.
        found: u32,
    },
    /// The head of an Antelope log is of another chain than block 1 says.
    #[error("the head of the log gives the chain id {head}, block 1 names {named}")]
    Genesis {
        /// The id by the head.
        head: Id,
        /// The id that block 1 names.
        named: Id,
    },
    /// The head of an Antelope log names another first block than the log has.
    #[error("the head of the log declares block {head} as the first, but the first is block {found}")]
    HeadFirst {
        /// The number by the head.
        head: u32,
        /// The number of the first block.
        found: u32,
    },
    /// The first block has a higher number than the last one: one of the two is damaged.
    #[error("the log begins with block {first} and ends with block {last}")]
    Backwards {
        /// The number of the first block.
        first: u32,
        /// The number of the last one.
        last: u32,
    },
    /// The log begins later than with block 1.
    #[error("the log begins with block {found}, not with block 1")]
    First {
        /// Its first block.
        found: u32,
    },
    /// A range that the log does not have.
    #[error("block {wanted} is not in the log: it begins with {first}{}", EndsWith(*last))]
    OutOfRange {
        /// The requested block.
        wanted: u32,
        /// The first one in the log.
        first: u32,
        /// The last one, where that is known.
        last: Option<u32>,
    },
    /// A part of a split log is not there.
    #[error("the part {name} is missing")]
    MissingPart {
        /// Its file name.
        name: String,
    },
    /// Two parts between which blocks are missing.
    #[error("the part ends with block {last} and {next} begins with block {first}: {} are missing", Blocks(*first, *last))]
    Gap {
        /// The last block before the gap.
        last: u32,
        /// The first block after the gap.
        first: u32,
        /// The part after the gap.
        next: String,
    },
    /// Two parts that hold the same blocks.
    #[error("the part ends with block {last} and {next} begins again with block {first}")]
    Overlap {
        /// The last block of the first part.
        last: u32,
        /// The first one of the second.
        first: u32,
        /// The second part.
        next: String,
    },
    /// Parts of different kinds or chains.
    #[error("{next} has another format than the parts before it")]
    OtherKind {
        /// The part.
        next: String,
    },
    /// A block is packed with a dictionary that the caller did not give.
    #[error("{} is compressed with the dictionary {dictionary:03}M, which is not {}", TheBlock(*number), Given(looked))]
    MissingDictionary {
        /// The block, where its number is known.
        number: Option<u32>,
        /// The number of the dictionary.
        dictionary: u8,
        /// The directory that was searched.
        looked: Option<PathBuf>,
    },
    /// A file that should be a dictionary.
    #[error("the dictionary {} cannot be used: {reason}", path.display())]
    Dictionary {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A packed block that cannot be unpacked.
    #[error("{} cannot be decompressed{}: {reason}", TheBlock(*number), With(*dictionary))]
    Unpack {
        /// The block, where its number is known.
        number: Option<u32>,
        /// The dictionary it is packed with.
        dictionary: Option<u8>,
        /// The decoder's words.
        reason: String,
    },
    /// A block was unpacked with a dictionary and is no block, or another one.
    #[error("{}, decompressed with the dictionary {dictionary:03}M, is not the block that must be here", TheBlock(*number))]
    WrongDictionary {
        /// The block, where its number is known.
        number: Option<u32>,
        /// The number of the dictionary.
        dictionary: u8,
    },
    /// A block that the caller knows is another one.
    #[error("block {number} has the id {found}, not {expected}")]
    Checkpoint {
        /// The block.
        number: u32,
        /// The id the caller expects.
        expected: Id,
        /// The id it has.
        found: Id,
    },
    /// The last block is not the one the caller expects.
    #[error("the last block is {found} ({id}), not {expected}")]
    Head {
        /// The number the caller expects.
        expected: u32,
        /// The last block.
        found: u32,
        /// Its id.
        id: Id,
    },
    /// A pruned log in a pipe.
    #[error("a pruned log can only be read from its end")]
    PrunedStream,
}

struct Blocks(u32, u32);

impl std::fmt::Display for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (self.1.saturating_add(1), self.0.saturating_sub(1));
        if from == to { write!(f, "block {from}") } else { write!(f, "blocks {from} to {to}") }
    }
}

struct EndsWith(Option<u32>);

impl std::fmt::Display for EndsWith {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |last| write!(f, " and ends with {last}"))
    }
}

struct OfBlock<'a>(u32, &'a ChainProblem);

impl std::fmt::Display for OfBlock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            // They name the block themselves.
            problem @ (ChainProblem::UnknownOperation { .. } | ChainProblem::Merkle { .. }) => problem.fmt(f),
            problem => write!(f, "block {}: {problem}", self.0),
        }
    }
}

struct TheBlock(Option<u32>);

impl std::fmt::Display for TheBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => write!(f, "block {number}"),
            None => f.write_str("the block"),
        }
    }
}

struct Given<'a>(&'a Option<PathBuf>);

impl std::fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(dir) => write!(f, "in {}", dir.display()),
            None => f.write_str("given"),
        }
    }
}

struct With(Option<u8>);

impl std::fmt::Display for With {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |dictionary| write!(f, " with the dictionary {dictionary:03}M"))
    }
}

impl Problem for LogProblem {
    fn hint(&self) -> String {
        match self {
            Self::NotALog { .. } => {
                "give a block_log (Steem, Hive) or blocks.log (EOSIO, Antelope), the directory of one, or a CAR".into()
            }
            Self::NoLogInDirectory => "name a file, or the directory of a block log".into(),
            Self::Torn { last, .. } => {
                format!("`--tail trim` imports up to block {last} and leaves the rest out")
            }
            Self::First { found } => format!("`--from {found}` imports a log that begins later"),
            Self::OutOfRange { first, last: Some(last), .. } => {
                format!("name blocks between {first} and {last}, or leave the option out")
            }
            Self::OutOfRange { first, .. } => format!("name blocks from {first} on, or leave the option out"),
            Self::MissingPart { .. } | Self::Gap { .. } => {
                "fetch what is missing, or import the blocks before it with --to".into()
            }
            Self::Overlap { .. } | Self::OtherKind { .. } => "keep the parts of one log alone in a directory".into(),
            Self::MissingDictionary { dictionary, .. } => format!(
                "give the directory that has {dictionary:03}M.dict.zst with --dictionaries; published at {DICTIONARIES}"
            ),
            Self::Dictionary { .. } | Self::WrongDictionary { .. } => {
                format!("fetch the dictionaries again; published at {DICTIONARIES}")
            }
            Self::Block { problem, .. } => problem.hint(),
            Self::Checkpoint { .. } | Self::Head { .. } => {
                "the log is of another chain or another fork, or the expectation is wrong".into()
            }
            Self::Genesis { .. } => "the genesis state at the log's beginning is damaged: compare the log's sha256 with the \
                publisher's; `--verify links` imports the blocks without this check"
                .into(),
            Self::PrunedStream => "give the file itself instead of a pipe, or undo the pruning (block-log vacuum)".into(),
            Self::Preamble { .. }
            | Self::Empty
            | Self::NoEnd { .. }
            | Self::Link { .. }
            | Self::Number { .. }
            | Self::HeadFirst { .. }
            | Self::Backwards { .. }
            | Self::Unpack { .. } => {
                "the block log is damaged: compare its sha256 with the publisher's, or import the blocks before it with --to"
                    .into()
            }
        }
    }
}
