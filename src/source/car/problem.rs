//! What can be wrong with a CAR.

use std::path::PathBuf;

use crate::error::Problem;
use crate::text::escape::shell_word;
use crate::text::size::{counted, grouped, human};

/// What is wrong with a CAR.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CarProblem {
    /// It ends where more must follow.
    #[error("the snapshot ends inside {inside}")]
    Truncated {
        /// Which part of the file is cut.
        inside: &'static str,
    },
    /// It is no CAR at all.
    #[error("this is neither a CAR nor a block log: {reason}")]
    NotACar {
        /// What is wrong with it.
        reason: String,
    },
    /// It is something else, which is known.
    #[error("this is not a CAR: it is {what}")]
    Foreign {
        /// What it is.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The header claims a length that no header has.
    #[error("the header claims {len} bytes, the limit is {}", human(super::MAX_HEADER))]
    HeaderTooLong {
        /// The claimed length in bytes.
        len: u64,
    },
    /// The header is no dag-cbor map of `roots` and `version`.
    #[error("the header cannot be read: {reason}")]
    Header {
        /// The decoder's words.
        reason: String,
    },
    /// A version that does not exist, or version 2 inside version 2.
    #[error("CAR version {version} is not supported here")]
    Version {
        /// The version the header names.
        version: u64,
    },
    /// A CARv2 header whose offsets cannot be.
    #[error("the CARv2 header cannot be right: {reason}")]
    V2Header {
        /// Which rule is broken.
        reason: String,
    },
    /// A length of more than 64 bits.
    #[error("{what} is a number of more than 64 bits")]
    VarintTooLong {
        /// Which number.
        what: &'static str,
    },
    /// A length written with more bytes than it needs.
    #[error("{what} is written with more bytes than it needs")]
    VarintNotMinimal {
        /// Which number.
        what: &'static str,
    },
    /// A directory has no file that is named like a CAR.
    #[error("no CAR (*.car, *.car.zst, *.car.gz, *.car.xz, *.car.lz4) and no block log is in this directory")]
    NothingInDirectory,
    /// A directory is a database.
    #[error("it is a RocksDB database, not a snapshot")]
    Database {
        /// The directory.
        dir: PathBuf,
    },
    /// Files were joined: a second header stands where a section may begin.
    #[error("two CARs in one file: here the header of another one begins")]
    Concatenated,
    /// Something that is no header follows the data of a CARv2, where CARs are joined.
    #[error("what follows the data of this CARv2 is no CAR, and where it ends is not known")]
    IndexInConcatenation,
    /// Something in a directory of CARs is named like one, and is no file.
    #[error("it is named like a CAR, and is no file")]
    NoFileInDirectory,
    /// The headers of all sources have more roots than are kept.
    #[error("the roots of all sources have more than {} together", human(super::MAX_ROOTS))]
    TooManyRoots,
    /// A block over the limit.
    #[error("a block of {} is over the limit of {}", human(*len), human(*max))]
    BlockTooLarge {
        /// The claimed length of the section in bytes, CID included.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// A block that cannot be held in the memory budget.
    #[error("a block of {} does not fit a memory budget of {}", human(*len), human(*budget))]
    BlockOverBudget {
        /// The length of the section in bytes.
        len: u64,
        /// The budget in bytes.
        budget: u64,
        /// The smallest budget that takes it, in bytes.
        needs: u64,
    },
    /// A header whose roots cannot be held in the memory budget.
    #[error("a header of {} does not fit a memory budget of {}", human(*len), human(*budget))]
    HeaderOverBudget {
        /// The length of the header in bytes.
        len: u64,
        /// The budget in bytes.
        budget: u64,
        /// A budget that takes it, in bytes.
        needs: u64,
    },
    /// A CID that is longer than any key may be.
    #[error("a CID of {len} bytes exceeds the limit of {max} bytes")]
    CidTooLong {
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// A section that is too short for its CID.
    #[error("a section of {len} bytes ends inside its CID")]
    SectionTooShort {
        /// The section's length in bytes.
        len: u64,
    },
    /// A CID of an unknown version.
    #[error("CID version {version} does not exist")]
    CidVersion {
        /// The version the CID names.
        version: u64,
    },
    /// A digest that is longer than the section it is in.
    #[error("a digest of {digest} bytes is longer than its section of {section} bytes")]
    DigestTooLong {
        /// The claimed length of the digest in bytes.
        digest: u64,
        /// The section's length in bytes.
        section: u64,
    },
    /// A section of length zero: padding.
    #[error("null padding: a section of length zero")]
    NullPadding,
    /// Bytes other than zero behind null padding.
    #[error("null padding is followed by other bytes")]
    DataAfterPadding,
    /// A CID without a digest, where digests are to be the keys.
    #[error("the block is in its CID, which has no digest to be its key")]
    NoDigest,
    /// Roots that the caller requires are not among the blocks.
    #[error("the blocks lack {} of {} roots: {first}", grouped(*missing), grouped(*of))]
    MissingRoots {
        /// How many.
        missing: u64,
        /// How many roots there are.
        of: u64,
        /// The first of them, as CIDs.
        first: String,
    },
    /// Blocks that are linked to, and that the caller requires, are not there.
    #[error("the blocks lack {} of the {} that they link to: {first}", grouped(*missing), grouped(*of))]
    MissingLinks {
        /// How many.
        missing: u64,
        /// How many blocks are linked to.
        of: u64,
        /// Some of them, as CIDs.
        first: String,
    },
    /// Links were not followed because they, or the blocks that have them, cannot be read.
    #[error("{} not what their codec says, so that not all links could be followed", counted(*malformed, "block or link is", "blocks or links are"))]
    UnreadableLinks {
        /// How many.
        malformed: u64,
    },
    /// The same key with two different values.
    #[error("the key {key} stands for two different blocks")]
    Conflict {
        /// The key, as a CID where it is one, else as hex.
        key: String,
    },
}

impl Problem for CarProblem {
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
            Self::NothingInDirectory => "name the files; folders below it are not looked into".into(),
            Self::Database { dir } => {
                let dir = shell_word(dir);
                format!(
                    "bedload verify {dir} checks it, bedload stat {dir} describes it; to rebuild it, import its snapshot: \
                     bedload import SNAPSHOT --db {dir} --replace"
                )
            }
            Self::Concatenated => "give --concatenated: `bedload import` takes both then".into(),
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
                "a lite snapshot leaves out what lies behind its tail; one that was cut at a block's end lacks blocks as \
                 well: compare its size and sha256 with the publisher's"
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
