//! Problems of CARs.

use crate::error::{InputKind, Problem};
use crate::text::size::human;

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
    #[error("a block of {} is over the limit of {}", human(*len), human(*max))]
    BlockTooLarge { len: u64, max: u64 },
    #[error("a block of {} does not fit a memory budget of {}", human(*len), human(*budget))]
    BlockOverBudget { len: u64, budget: u64, needs: u64 },
    #[error("a CID of {len} bytes exceeds the limit of {max} bytes")]
    CidTooLong { len: u64, max: u64 },
    #[error("a section of {len} bytes ends inside its CID")]
    SectionTooShort { len: u64 },
    #[error("CID version {version} does not exist")]
    CidVersion { version: u64 },
    #[error("a digest of {digest} bytes is longer than its section of {section} bytes")]
    DigestTooLong { digest: u64, section: u64 },
    #[error("null padding is followed by other bytes")]
    DataAfterPadding,
}

impl Problem for CarProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::Truncated { .. } => InputKind::Truncated,
            Self::NotACar { .. } | Self::Foreign { .. } => InputKind::NotASnapshot,
            Self::Version { .. }
            | Self::BlockTooLarge { .. }
            | Self::BlockOverBudget { .. }
            | Self::CidTooLong { .. } => InputKind::Unsupported,
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
                "pass a CAR snapshot (.car, .car.zst, .forest.car.zst) or a block log; check that the file is not a web page; \
                a stream of records begins with its header, BEDLOADK (docs/kv.md); \
                `bedload import --format block-log` reports why a damaged log is rejected"
                    .into()
            }
            Self::BlockTooLarge { .. } => "if the block is real, raise --max-block-size".into(),
            Self::BlockOverBudget { needs, .. } => format!(
                "run it again with --memory {}; if the block is the F3 data of a Filecoin snapshot, leave it out with --f3 skip",
                human(*needs).replace(' ', "")
            ),
            Self::CidTooLong { .. } => "leave the block out: its bytes are in the links to it".into(),
            Self::Version { .. } => "give a CAR of version 1 or 2".into(),
            _ => "the snapshot is damaged: download it again and compare its sha256 with the publisher's".into(),
        }
    }
}
