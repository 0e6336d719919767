//! Problems of inputs and their compression.

use super::formats::{Compression, SumFunction};
use crate::error::{InputKind, Problem};

/// A problem of an input or its compression. The offset of `Truncated` is the end of the input, of `TrailingData` the
/// surplus, of others the start of the frame.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CompressionProblem {
    #[error("the file is empty")]
    Empty,
    #[error("it is a directory")]
    Directory,
    #[error("there is no such file")]
    NotFound,
    #[error("its links lead in a circle")]
    Loop,
    #[error("it is neither a supported URL nor an existing file")]
    Url,
    #[error("its {function} is {found}, but {from} declares {expected}")]
    Checksum { function: SumFunction, found: String, expected: String, from: String },
    #[error("no permission to read it")]
    NoPermission,
    #[error("the {compression} data ends in the middle of a frame")]
    Truncated { compression: Compression },
    #[error("the {compression} frame is damaged: {detail}")]
    Corrupt { compression: Compression, detail: String },
    #[error("what follows the last {compression} frame is not {compression}")]
    TrailingData { compression: Compression },
    #[error("unpacking this {compression} frame takes {} MiB of memory, allowed are {} MiB", needed.div_ceil(MIB), limit / MIB)]
    NeedsMemory { compression: Compression, needed: u64, limit: u64 },
    #[error("the zstd frame has a window of {window} bytes, supported are up to {most}")]
    WindowTooLarge { window: u64, most: u64 },
    #[error("the zstd frame needs the dictionary {id}")]
    DictionaryNeeded { id: u32 },
    #[error("inside the {outer} data is {inner} data")]
    Nested { outer: Compression, inner: Compression },
}

const MIB: u64 = 1 << 20;

impl Problem for CompressionProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::Checksum { .. } => InputKind::HashMismatch,
            Self::Empty | Self::Truncated { .. } => InputKind::Truncated,
            Self::Corrupt { .. } | Self::TrailingData { .. } => InputKind::Damaged,
            Self::Directory => InputKind::NotASnapshot,
            Self::NotFound | Self::Loop | Self::Url => InputKind::Missing,
            Self::NoPermission => InputKind::Denied,
            Self::NeedsMemory { .. }
            | Self::WindowTooLarge { .. }
            | Self::DictionaryNeeded { .. }
            | Self::Nested { .. } => InputKind::Unsupported,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Empty => "check the download, or the program that wrote it".into(),
            Self::Directory => "name the snapshot file, not its directory".into(),
            Self::NotFound => "check the path".into(),
            Self::Loop => "name the file itself; namei -l {file} shows where each link leads".into(),
            Self::Url => {
                "give a URL as https://host/name (http, https, s3, gs or az), or pipe it in (curl -fL {file} | bedload import - --db DIR)"
                    .into()
            }
            Self::Checksum { .. } => {
                "one of the two is wrong: compare the sum with the publisher's page, and check the download, or the program that wrote it"
                    .into()
            }
            Self::NoPermission => "check who may read it: ls -l {file}".into(),
            Self::Truncated { .. } => {
                "compare its size and sha256 with the publisher's, or check the exit code of its producer".into()
            }
            Self::Corrupt { .. } => "the file is damaged: compare its sha256 with the publisher's".into(),
            Self::TrailingData { .. } => {
                "compare its size with the publisher's; if the surplus is known to be harmless, cut the file there \
                 (truncate -s)"
                    .into()
            }
            Self::NeedsMemory { compression: Compression::Xz, .. } => {
                "raise --memory, or unpack it first: xz -dc {file} | bedload import - --db DIR".into()
            }
            Self::NeedsMemory { .. } => {
                "raise --memory, or unpack it first: zstd -dc --long=31 {file} | bedload import - --db DIR".into()
            }
            Self::WindowTooLarge { .. } => {
                "check the file (zstd -lv {file}); if it is valid, unpack it with the tool that wrote it".into()
            }
            Self::DictionaryNeeded { .. } => {
                "unpack it with that dictionary first: zstd -dc -D DICTIONARY {file} | bedload import - --db DIR".into()
            }
            Self::Nested { outer, inner } => {
                format!("take the outer layer off first: {outer} -dc {{file}} > {{file}}.{}", inner.describe().2)
            }
        }
    }
}
