//! Problems of CARs.

use std::path::PathBuf;

use crate::error::{InputKind, Problem};
use crate::text::escape::shell_word;
use crate::text::size::{counted, grouped, human};

/// A problem of a CAR. Lengths are in bytes; `needs` is a memory budget that suffices.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CarProblem {
    #[error("the snapshot ends inside {inside}")]
    Truncated { inside: &'static str },
    #[error("this is neither a CAR nor a block log: {reason}")]
    NotACar { reason: String },
    #[error("this is not a CAR: it is {what}")]
    Foreign { what: &'static str, hint: &'static str },
    #[error("the header claims {len} bytes, the limit is {}", human(super::MAX_HEADER))]
    HeaderTooLong { len: u64 },
    #[error("the header cannot be read: {reason}")]
    Header { reason: String },
    #[error("CAR version {version} is not supported here")]
    Version { version: u64 },
    #[error("the CARv2 header cannot be right: {reason}")]
    V2Header { reason: String },
    #[error("{what} is a number of more than 64 bits")]
    VarintTooLong { what: &'static str },
    #[error("{what} is written with more bytes than it needs")]
    VarintNotMinimal { what: &'static str },
    #[error("no CAR (*.car, *.car.zst, *.car.gz, *.car.xz, *.car.lz4) and no block log is in this directory")]
    NothingInDirectory,
    #[error("it is a RocksDB database, not a snapshot")]
    Database { dir: PathBuf },
    #[error("two CARs in one file: here the header of another one begins")]
    Concatenated,
    #[error("the bytes after the data of this CARv2 are not a CAR, and their end is unknown")]
    IndexInConcatenation,
    #[error("it is named like a CAR, but is not a file")]
    NoFileInDirectory,
    #[error("the roots of all sources have more than {} together", human(super::MAX_ROOTS))]
    TooManyRoots,
    #[error("a block of {} is over the limit of {}", human(*len), human(*max))]
    BlockTooLarge { len: u64, max: u64 },
    #[error("a block of {} does not fit a memory budget of {}", human(*len), human(*budget))]
    BlockOverBudget { len: u64, budget: u64, needs: u64 },
    #[error("a header of {} does not fit a memory budget of {}", human(*len), human(*budget))]
    HeaderOverBudget { len: u64, budget: u64, needs: u64 },
    #[error("a header of {} roots is too long for the record of an import", grouped(*roots))]
    HeaderOverRecord { roots: u64 },
    #[error("a CID of {len} bytes exceeds the limit of {max} bytes")]
    CidTooLong { len: u64, max: u64 },
    #[error("a section of {len} bytes ends inside its CID")]
    SectionTooShort { len: u64 },
    #[error("CID version {version} does not exist")]
    CidVersion { version: u64 },
    #[error("a digest of {digest} bytes is longer than its section of {section} bytes")]
    DigestTooLong { digest: u64, section: u64 },
    #[error("null padding: a section of length zero")]
    NullPadding,
    #[error("null padding is followed by other bytes")]
    DataAfterPadding,
    #[error("the block is in its CID, which has no digest to be its key")]
    NoDigest,
    #[error("the blocks lack {} of {} roots: {first}", grouped(*missing), grouped(*of))]
    MissingRoots { missing: u64, of: u64, first: String },
    #[error("the blocks lack {} of the {} that they link to: {first}", grouped(*missing), grouped(*of))]
    MissingLinks { missing: u64, of: u64, first: String },
    #[error("{} not what their codec says, so that not all links could be followed", counted(*malformed, "block or link is", "blocks or links are"))]
    UnreadableLinks { malformed: u64 },
    #[error("two different blocks have the key {key}")]
    Conflict { key: String },
}

impl Problem for CarProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::Truncated { .. } => InputKind::Truncated,
            Self::MissingRoots { .. } | Self::MissingLinks { .. } => InputKind::Incomplete,
            Self::NotACar { .. }
            | Self::Foreign { .. }
            | Self::NothingInDirectory
            | Self::Database { .. }
            | Self::NoFileInDirectory => InputKind::NotASnapshot,
            Self::Version { .. }
            | Self::Concatenated
            | Self::IndexInConcatenation
            | Self::TooManyRoots
            | Self::BlockTooLarge { .. }
            | Self::BlockOverBudget { .. }
            | Self::HeaderOverBudget { .. }
            | Self::HeaderOverRecord { .. }
            | Self::CidTooLong { .. }
            | Self::NullPadding
            | Self::NoDigest => InputKind::Unsupported,
            _ => InputKind::Damaged,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Truncated { .. } => {
                "the download is incomplete: compare its size and sha256 with the publisher's".into()
            }
            Self::Foreign { hint, .. } => (*hint).into(),
            Self::NotACar { .. } => {
                "give a CAR snapshot (.car, .car.zst, .forest.car.zst) or a block log; was a web page saved instead? \
                `--format block-log` tells what is wrong with a damaged log"
                    .into()
            }
            Self::BlockTooLarge { .. } => "if the block is real, raise --max-block-size".into(),
            Self::BlockOverBudget { needs, .. } => format!(
                "run it again with --memory {}; if the block is the F3 data of a Filecoin snapshot, leave it out with --f3 skip",
                human(*needs).replace(' ', "")
            ),
            Self::CidTooLong { .. } => "leave the block out: its bytes are in the links to it".into(),
            Self::HeaderOverBudget { needs, .. } => {
                format!("run it again with --memory {}", human(*needs).replace(' ', ""))
            }
            Self::HeaderOverRecord { .. } => "import a CAR with fewer roots; `bedload inspect {file}` lists them".into(),
            Self::NothingInDirectory => "name the files; bedload does not search subdirectories".into(),
            Self::Database { dir } => {
                let dir = shell_word(dir);
                format!(
                    "bedload verify {dir} checks it, bedload stat {dir} describes it; to rebuild it, import its snapshot: \
                     bedload import SNAPSHOT --db {dir} --replace"
                )
            }
            Self::Concatenated => "import it with: bedload import {file} --db DIR --concatenated".into(),
            Self::IndexInConcatenation => {
                "a CARv2 with an index cannot be joined with others: give each file by its own name".into()
            }
            Self::NoFileInDirectory => "move it out of the directory, or name the files".into(),
            Self::TooManyRoots => "import fewer sources at a time, the others with --into-existing".into(),
            Self::NullPadding => "`--null-padding eof` takes it as the end of the snapshot".into(),
            Self::Conflict { .. } => {
                "the snapshot (or the database it is added to) is damaged, or the key layout (--key) lets two blocks share \
                 a key: `--key cid` tells them apart"
                    .into()
            }
            Self::NoDigest => "use `--key cid` or `--key multihash`".into(),
            Self::MissingRoots { .. } => {
                "a node that starts from these roots needs them: the snapshot is cut, or a part of another one".into()
            }
            Self::MissingLinks { .. } => {
                "a lite snapshot omits the blocks before its tail; one that was cut after a block is incomplete: compare its \
                 size and sha256 with the publisher's"
                    .into()
            }
            Self::UnreadableLinks { .. } => {
                "the blocks match their hashes, so the program that wrote them made them so: `bedload walk` names them".into()
            }
            Self::Version { .. } => "give a CAR of version 1 or 2".into(),
            _ => "the snapshot is damaged: download it again and compare its sha256 with the publisher's".into(),
        }
    }
}
