//! What can be wrong with a bundle.

use crate::error::Problem;

/// Why a bundle is not taken, or not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleProblem {
    /// There is no bundle.
    #[error("there is no bundle here: the file latest is missing")]
    NoBundle,
    /// `latest` does not hold an id.
    #[error("the file latest names no bundle: it must hold 64 hex digits and at most one line feed")]
    Latest,
    /// A file is not there.
    #[error("it is not there, and the bundle names it")]
    Missing,
    /// A file is not of the length that the bundle says.
    #[error("it has {found} bytes, the bundle says {expected}")]
    Length {
        /// Its bytes.
        found: u64,
        /// Those that were promised.
        expected: u64,
    },
    /// A small file is longer than any that this program reads.
    #[error("it is longer than {most} bytes, the limit for such a file")]
    TooLong {
        /// The limit.
        most: u64,
    },
    /// Something else than a file stands under its name.
    #[error("it is no file: {what}")]
    NoFile {
        /// What the system says.
        what: String,
    },
    /// A file has other bytes.
    #[error("its BLAKE3 is {found}, and must be {expected}")]
    Bytes {
        /// Its sum.
        found: String,
        /// That which it must have.
        expected: String,
    },
    /// A file changed while it was read.
    #[error("it changed while it was fetched: {what}")]
    Changed {
        /// In what.
        what: String,
    },
    /// The bundle is of another version.
    #[error("its form is `{schema}`, and this program reads `{known}`")]
    Schema {
        /// As it says.
        schema: String,
        /// As this program writes it.
        known: &'static str,
    },
    /// The description is not one, or contradicts itself.
    #[error("it describes no bundle: {reason}")]
    Form {
        /// What is wrong.
        reason: String,
    },
    /// A file has other records than the description says.
    #[error("the bundle does not describe it: {what}")]
    Content {
        /// In what they differ.
        what: String,
    },
    /// No trusted key has signed the description.
    #[error("its signature bundle.json.minisig is not taken: {reason}")]
    Signature {
        /// Why not.
        reason: String,
    },
    /// Parts of shards do not belong together.
    #[error("the parts do not come to a bundle: {reason}")]
    Apart {
        /// What does not fit.
        reason: String,
    },
    /// The database is not what the import made.
    #[error("it is not what its import has made: {what}")]
    NotAsImported {
        /// What differs.
        what: String,
    },
}

impl Problem for BundleProblem {
    fn hint(&self) -> String {
        match self {
            Self::NoBundle => "name the directory or the URL that `bedload bundle --to` was given".into(),
            Self::Latest | Self::Form { .. } | Self::TooLong { .. } | Self::Content { .. } => {
                "ask the publisher, or take another copy; `bedload bundle` writes it anew".into()
            }
            Self::Signature { .. } => {
                "ask the publisher for the key that signs now and for a signed copy (`bedload bundle --sign`); without --trust \
                 nothing says who made it"
                    .into()
            }
            Self::Missing | Self::NoFile { .. } | Self::Length { .. } | Self::Bytes { .. } => {
                "the copy is not whole or was altered: take another one, and run the same command again; what was fetched \
                 and is right is kept (--restart begins with the newest bundle)"
                    .into()
            }
            Self::Changed { .. } => "run the same command again; what was fetched and is right is kept".into(),
            Self::Schema { .. } => "take the version of bedload that made it, or a newer one".into(),
            Self::Apart { .. } => {
                "run that shard again, with the same program, source and options as the others; then the same command".into()
            }
            Self::NotAsImported { .. } => {
                "`bedload verify` says more; import the snapshot again and bundle that database".into()
            }
        }
    }
}
