//! Problems of block logs.

use std::path::PathBuf;

use crate::blocks::chain::{ChainProblem, Id};
use crate::error::{InputKind, Problem};
use crate::text::size::human;

/// The place where Hive publishes its dictionaries.
const DICTIONARIES: &str =
    "https://gitlab.syncad.com/hive/hive, submodule libraries/chain/compression_dictionaries, files NNNM.dict.zst";

/// A problem of a block log. `number` is a block, `last` the last complete block before the place.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogProblem {
    #[error("this is not a block log: {reason}")]
    NotALog { reason: String },
    #[error("the head of the log cannot be right: {reason}")]
    Preamble { reason: String },
    #[error("the log is torn: block {last} ({id}) is the last complete one, and {} follow it", human(*rest))]
    Torn { last: u32, id: Id, rest: u64 },
    #[error("the log contains no complete block")]
    Empty,
    #[error("block {number} has no end: no word within {} after its start has its position", human(super::MAX_BLOCK as u64))]
    NoEnd { number: u32 },
    #[error("{}", of_block(*number, problem))]
    Block { number: u32, problem: ChainProblem },
    #[error("block {number} says that it follows {previous}, but block {} has the id {before}", number.wrapping_sub(1))]
    Link { number: u32, previous: Id, before: Id },
    #[error("expected block {expected}, found block {found}")]
    Number { expected: u32, found: u32 },
    #[error("the head of the log gives the chain id {head}, block 1 names {named}")]
    Genesis { head: Id, named: Id },
    #[error("the head of the log declares block {head} as the first, but the first is block {found}")]
    HeadFirst { head: u32, found: u32 },
    #[error("the log begins with block {first} and ends with block {last}")]
    Backwards { first: u32, last: u32 },
    #[error("{} is compressed with the dictionary {dictionary:03}M, which is not {}", the_block(*number), given(looked))]
    MissingDictionary { number: Option<u32>, dictionary: u8, looked: Option<PathBuf> },
    #[error("the dictionary {} cannot be used: {reason}", path.display())]
    Dictionary { path: PathBuf, reason: String },
    #[error("{} cannot be decompressed{}: {reason}", the_block(*number), with_dictionary(*dictionary))]
    Unpack { number: Option<u32>, dictionary: Option<u8>, reason: String },
    #[error("{}, decompressed with the dictionary {dictionary:03}M, is not the block that must be here", the_block(*number))]
    WrongDictionary { number: Option<u32>, dictionary: u8 },
    #[error("block {number} has the id {found}, not {expected}")]
    Checkpoint { number: u32, expected: Id, found: Id },
    #[error("the last block is {found} ({id}), not {expected}")]
    Head { expected: u32, found: u32, id: Id },
}

impl LogProblem {
    /// Sets the number of the block in a problem of decompression.
    pub fn at_block(self, number: Option<u32>) -> Self {
        match self {
            Self::MissingDictionary { dictionary, looked, .. } => {
                Self::MissingDictionary { number, dictionary, looked }
            }
            Self::Unpack { dictionary, reason, .. } => Self::Unpack { number, dictionary, reason },
            problem => problem,
        }
    }

    /// True if the log may be valid: the caller did not give the right dictionaries.
    pub fn lacks_dictionary(&self) -> bool {
        matches!(self, Self::MissingDictionary { .. } | Self::Dictionary { .. })
    }
}

fn of_block(number: u32, problem: &ChainProblem) -> String {
    match problem {
        // Their texts have the number.
        ChainProblem::UnknownOperation { .. } | ChainProblem::Merkle { .. } => problem.to_string(),
        _ => format!("block {number}: {problem}"),
    }
}

fn the_block(number: Option<u32>) -> String {
    number.map_or_else(|| "the block".into(), |number| format!("block {number}"))
}

fn given(dir: &Option<PathBuf>) -> String {
    dir.as_ref().map_or_else(|| "given".into(), |dir| format!("in {}", dir.display()))
}

fn with_dictionary(number: Option<u8>) -> String {
    number.map_or_else(String::new, |number| format!(" with the dictionary {number:03}M"))
}

impl Problem for LogProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::NotALog { .. } => InputKind::NotASnapshot,
            Self::Torn { .. } | Self::Empty => InputKind::Truncated,
            Self::Block { problem: ChainProblem::Merkle { .. }, .. }
            | Self::Link { .. }
            | Self::Genesis { .. }
            | Self::Checkpoint { .. }
            | Self::Head { .. } => InputKind::HashMismatch,
            Self::Block { problem: ChainProblem::UnknownOperation { .. }, .. }
            | Self::MissingDictionary { .. }
            | Self::Dictionary { .. }
            | Self::WrongDictionary { .. } => InputKind::Unsupported,
            _ => InputKind::Damaged,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::NotALog { .. } => {
                "give a block_log (Steem, Hive) or blocks.log (EOSIO, Antelope), the directory of one, or a CAR".into()
            }
            Self::Torn { last, .. } => {
                format!("`--tail trim` imports up to block {last} and leaves the rest out")
            }
            Self::MissingDictionary { dictionary, .. } => format!(
                "give the directory that has {dictionary:03}M.dict.zst with --dictionaries; published at {DICTIONARIES}"
            ),
            Self::Dictionary { .. } | Self::WrongDictionary { .. } => {
                format!("fetch the dictionaries again; published at {DICTIONARIES}")
            }
            Self::Block { problem, .. } => problem.hint(),
            Self::Checkpoint { .. } | Self::Head { .. } => {
                "the log belongs to another chain or fork, or the number or id given is wrong".into()
            }
            Self::Genesis { .. } => "the genesis state at the log's beginning is damaged: compare the log's sha256 with the \
                publisher's; `--verify links` imports the blocks without this check"
                .into(),
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
