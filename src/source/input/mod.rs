//! Bytes of a snapshot, however they are compressed: a plain file, a pipe, a file on the network, zstd, xz, gzip or lz4.
//!
//! The compression is detected by content and never by name. A plain regular file is handed over as it is, to be read at
//! any place; everything else becomes a stream that is read and unpacked on threads of its own, ahead of the thread that
//! consumes it. One layer of compression is taken off; a second one is an error.
//!
//! ```text
//!   file, pipe ──► Source ──► frames ──► decoders (one or many) ──► chunks in order ──► ByteStream
//!                  offsets    detect     zstd in parallel,          bounded, recycled   double compression?
//!                                        xz, gzip, lz4 on one
//! ```
//!
//! What it does not do: look at the snapshot itself, or map files into memory (a file that shrinks while it is read
//! would kill the process; read this way it is a truncated input).

mod ahead;
mod detect;
mod gzip;
mod hashing;
mod look;
mod lz4;
mod open;
mod prefixed;
mod problem;
mod remote;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod xz;
pub mod zstd_frame;
mod zstd_stream;
mod zstd_worker;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use detect::is_compressed;
pub(crate) use hashing::Expected;
pub use hashing::SumFunction;
pub(crate) use look::{Look, look, look_at_remote};
#[cfg(any(test, feature = "testing"))]
pub use open::from_reader;
pub use open::open;
pub(crate) use open::{STDIN, refused};
pub(crate) use prefixed::{Prefixed, peek};
pub use problem::CompressionProblem;
pub(crate) use remote::{Packed, Remote};
pub use stream::{Extent, InputOptions};

use crate::error::Result;
use crate::source::forest;

/// How a snapshot is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Nothing: the bytes of the file are the snapshot's.
    None,
    /// One or more zstd frames.
    Zstd,
    /// zstd frames with Forest's index behind them; the frames are independent of each other.
    ForestZstd,
    /// xz.
    Xz,
    /// gzip, one or more members.
    Gzip,
    /// lz4 frames.
    Lz4,
}

impl Compression {
    /// Its name in reports: unlike in messages, Forest's snapshots have one of their own.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd => "zstd",
            Self::ForestZstd => "forest-zstd",
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
        }
    }

    /// The command that decompresses it.
    fn tool(self) -> &'static str {
        match self {
            Self::None => "cat",
            Self::Zstd | Self::ForestZstd => "zstd",
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
        }
    }

    /// What the names of such files end in, by custom.
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "car",
            Self::Zstd | Self::ForestZstd => "zst",
            Self::Xz => "xz",
            Self::Gzip => "gz",
            Self::Lz4 => "lz4",
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Zstd | Self::ForestZstd => "zstd",
            Self::Xz => "xz",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
        })
    }
}

/// An opened snapshot.
pub struct Input {
    /// The name for messages: the path, or `-` for a pipe.
    pub name: PathBuf,
    /// Size on disk in bytes; `None` for a pipe.
    pub size: Option<u64>,
    /// How it is compressed.
    pub compression: Compression,
    /// How many blocks it holds, when that is known before reading it (Forest's index). A block that was written into
    /// two frames counts twice, one that was written twice into the same frame counts once.
    pub blocks: Option<u64>,
    /// Where the bytes come from.
    pub body: Body,
    /// The regular file that was opened by its name.
    pub file: Option<File>,
    /// The file on the network, and how to read it again from its middle.
    pub(crate) remote: Option<Arc<Remote>>,
    /// The sum that its bytes are compared with when the last of them has been read.
    pub(crate) expected: Option<Arc<Expected>>,
}

#[cfg(any(test, feature = "testing"))]
impl Input {
    /// Bytes that are not compressed, from elsewhere.
    pub fn plain(name: &str, size: u64, body: Body) -> Self {
        let (blocks, file, remote, expected) = Default::default();
        Self {
            name: name.into(),
            size: Some(size),
            compression: Compression::None,
            blocks,
            body,
            file,
            remote,
            expected,
        }
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("size", &self.size)
            .field("compression", &self.compression)
            .field("blocks", &self.blocks)
            .finish_non_exhaustive()
    }
}

/// Where the decompressed bytes of an [`Input`] come from.
pub enum Body {
    /// A plain local file: may be read at any place, by many threads (`read_at`).
    File(File),
    /// Everything else: decompressed bytes, front to back.
    Stream(Box<dyn ByteStream>),
}

/// Decompressed bytes, front to back.
pub trait ByteStream: Send {
    /// Fills `buf` as far as there is data. Less than `buf.len()` means the clean end of the input: every frame was
    /// whole, every checksum right, nothing behind it.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput): a damaged or cut compression; [`Error::Io`](crate::Error::Io): the
    /// operating system's refusal. After an error every further call fails.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Bytes of the compressed input consumed so far, for progress against [`Input::size`].
    fn consumed(&self) -> u64;

    /// The last place at or before `before`, an offset in the decompressed bytes that was delivered, where a later run may
    /// begin; `None` where that is the beginning only.
    fn restart(&self, before: u64) -> Option<Restart> {
        let _ = before;
        None
    }
}

/// A place in the middle of a source where unpacking can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Offset in the decompressed bytes.
    pub(crate) unpacked: u64,
    /// Offset in the source.
    pub(crate) packed: u64,
    /// The sum of the source up to there or a little before, where one is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<hashing::HashState>,
}
