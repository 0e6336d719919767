//! What can be wrong with the compression of a snapshot.

use super::{Compression, SumFunction};
use crate::error::Problem;

/// What is wrong with the compression of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionProblem {
    /// There is not a single byte.
    #[error("the file is empty")]
    Empty,
    /// The name is that of a directory.
    #[error("it is a directory")]
    Directory,
    /// There is nothing of that name.
    #[error("there is no such file")]
    NotFound,
    /// Links in the name lead to each other.
    #[error("its links lead in a circle")]
    Loop,
    /// The name is a URL of a kind that is not read.
    #[error("it is a URL of a kind that is not read, and there is no such file")]
    Url,
    /// The bytes are not those that the publisher has summed.
    #[error("its {function} is {found}, and should be {expected} by {from}")]
    Checksum {
        /// What sums them.
        function: SumFunction,
        /// The sum of what was read.
        found: String,
        /// What it should be.
        expected: String,
        /// Where that is from.
        from: String,
    },
    /// The operating system does not let us read it.
    #[error("no permission to read it")]
    NoPermission,
    /// The input ends where more must follow; the offset is where it ends.
    #[error("the {compression} data ends in the middle of a frame")]
    Truncated {
        /// How the snapshot is compressed.
        compression: Compression,
    },
    /// A frame does not unpack or fails its checksum; the offset is where the frame begins.
    #[error("the {compression} frame is damaged: {detail}")]
    Corrupt {
        /// How the snapshot is compressed.
        compression: Compression,
        /// The decoder's own words.
        detail: String,
    },
    /// Something else follows the last whole frame; the offset is where it begins.
    #[error("what follows the last {compression} frame is not {compression}")]
    TrailingData {
        /// How the snapshot is compressed.
        compression: Compression,
    },
    /// A frame needs more memory than unpacking may use.
    #[error("unpacking this {compression} frame takes {} MiB of memory, allowed are {} MiB", needed.div_ceil(MIB), limit / MIB)]
    NeedsMemory {
        /// How the snapshot is compressed.
        compression: Compression,
        /// What the frame needs, in bytes; for xz rounded up to a power of two.
        needed: u64,
        /// What it may have, in bytes.
        limit: u64,
    },
    /// A zstd frame has a window that no decoder accepts.
    #[error("the zstd frame has a window of {window} bytes, supported are up to {most}")]
    WindowTooLarge {
        /// The window the frame requires, in bytes.
        window: u64,
        /// The largest window supported, in bytes.
        most: u64,
    },
    /// A zstd frame was packed with a dictionary.
    #[error("the zstd frame needs the dictionary {id}")]
    DictionaryNeeded {
        /// The dictionary's number, as the frame states it.
        id: u32,
    },
    /// The snapshot was packed twice.
    #[error("inside the {outer} data is {inner} data")]
    Nested {
        /// The layer that was taken off.
        outer: Compression,
        /// The layer below it.
        inner: Compression,
    },
}

const MIB: u64 = 1 << 20;

impl Problem for CompressionProblem {
    fn hint(&self) -> String {
        match self {
            Self::Empty => "download the snapshot again".into(),
            Self::Directory => "name the snapshot file, not the folder it lies in".into(),
            Self::NotFound => "check the path".into(),
            Self::Loop => "name the file itself; namei -l {file} shows where each link leads".into(),
            Self::Url => {
                "give a URL as https://host/name (http, https, s3, gs or az), or pipe it in (curl -fL {file} | bedload import - --db DIR)"
                    .into()
            }
            Self::Checksum { .. } => {
                "one of both is wrong: compare the sum with the publisher's page, and download the snapshot again"
                    .into()
            }
            Self::NoPermission => "check who may read it: ls -l {file}".into(),
            Self::Truncated { .. } => {
                "the download is incomplete: compare its size and sha256 with the publisher's".into()
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
                let tool = outer.tool();
                format!("take the outer layer off first: {tool} -dc {{file}} > {{file}}.{}", inner.suffix())
            }
        }
    }
}
