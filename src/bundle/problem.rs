//! Errors of bundles.

use crate::error::{InputKind, Problem};

/// The reason why a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleProblem {
    #[error("there is no such directory")]
    NoDirectory,
    #[error("the place has no bundle: the file latest is missing")]
    NoBundle,
    #[error("the file latest does not name a bundle: it must contain 64 hex digits and at most one line feed")]
    Latest,
    #[error("the bundle names it, but it does not exist")]
    Missing,
    #[error("it is {found} bytes long, but the bundle declares {expected}")]
    Length { found: u64, expected: u64 },
    #[error("it exceeds the limit of {most} bytes")]
    TooLong { most: u64 },
    #[error("it is not a regular file: {0}")]
    NoFile(String),
    #[error("its BLAKE3 is {found}, but the bundle declares {expected}")]
    Bytes { found: String, expected: String },
    #[error("it changed while it was fetched: {0}")]
    Changed(String),
    #[error("its schema is `{schema}`, but this program reads `{known}`")]
    Schema { schema: String, known: &'static str },
    /// The description is invalid or contradicts itself.
    #[error("it is not a valid description: {0}")]
    Form(String),
    #[error("it does not match its description: {0}")]
    Content(String),
    #[error("its signature bundle.json.minisig is not valid: {0}")]
    Signature(String),
    #[error("the parts do not match: {0}")]
    Mismatch(String),
    #[error("it does not match the report of its import: {0}")]
    NotAsImported(String),
}

impl Problem for BundleProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::NoBundle | Self::NoDirectory => InputKind::Missing,
            Self::Missing => InputKind::Incomplete,
            Self::Bytes { .. } => InputKind::HashMismatch,
            Self::Schema { .. } => InputKind::Unsupported,
            Self::Signature(_) => InputKind::Signature,
            _ => InputKind::Damaged,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::NoBundle | Self::NoDirectory => "pass the directory or the URL of `bedload bundle --to`".into(),
            Self::Latest | Self::Form(_) | Self::TooLong { .. } | Self::Content(_) => {
                "ask the publisher or use another copy; `bedload bundle` writes it again".into()
            }
            Self::Signature(_) => {
                "ask the publisher for the current key and a signed copy (`bedload bundle --sign`); without --trust \
                 the signature is not checked"
                    .into()
            }
            Self::Missing | Self::NoFile(_) | Self::Length { .. } | Self::Bytes { .. } => {
                "the copy is incomplete or was altered: use another copy and run the same command again, which keeps valid \
                 files; --restart begins with the newest bundle"
                    .into()
            }
            Self::Changed(_) => "run the same command again, which keeps valid files".into(),
            Self::Schema { .. } => "use the version of bedload that made it, or a newer one".into(),
            Self::Mismatch(_) => {
                "run that shard again with the program, source and options of the others, then the same command".into()
            }
            Self::NotAsImported(_) => {
                "run `bedload verify` for details; import the snapshot again and bundle that database".into()
            }
        }
    }
}
