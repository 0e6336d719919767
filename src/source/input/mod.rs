//! Inputs: a plain file, a pipe or a file on the network, decompressed from zstd, xz, gzip or lz4.
//!
//! The content decides the compression, not the name. A plain regular file is handed over as it is. Everything else
//! becomes a stream that threads read and decompress ahead of the consumer. One layer of compression is removed; a second
//! one is an error.
//!
//! ```text
//!   file, pipe ──► Source ──► frames ──► decoders (one or many) ──► chunks in order ──► ByteStream
//!                  offsets    detect     zstd in parallel,          bounded, recycled   double compression?
//!                                        xz, gzip, lz4 on one
//! ```

mod ahead;
mod detect;
mod formats;
mod frames;
mod hashing;
mod open;
mod prefixed;
mod probe;
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
pub use formats::{Compression, SumFunction};
pub(crate) use hashing::Expected;
pub(crate) use open::{STDIN, input_error};
pub use open::{from_reader, open};
pub(crate) use prefixed::{Prefixed, peek};
pub(crate) use probe::{SourceProbe, probe, probe_remote};
pub use problem::CompressionProblem;
pub(crate) use remote::{Packed, Remote};
pub use stream::{Extent, InputOptions};

use crate::error::Result;
use crate::source::forest;

/// An opened snapshot.
pub struct Input {
    /// The name for messages: the path, or `-` for a pipe.
    pub name: PathBuf,
    /// Size on disk in bytes; `None` for a pipe.
    pub size: Option<u64>,
    /// Its compression.
    pub compression: Compression,
    /// Number of blocks, if Forest's index has it. A block in two frames counts twice, one that occurs twice in a frame
    /// counts once.
    pub blocks: Option<u64>,
    /// The decompressed bytes.
    pub body: Body,
    /// The regular file that was opened by its name.
    pub file: Option<File>,
    /// The file on the network, which can be read again from its middle.
    pub(crate) remote: Option<Arc<Remote>>,
    /// The expected checksum, compared after the last byte.
    pub(crate) expected: Option<Arc<Expected>>,
}

impl Input {
    /// Creates an input of bytes that are not compressed.
    pub fn plain(name: impl Into<PathBuf>, size: u64, body: Body) -> Self {
        let (blocks, file, remote, expected) = Default::default();
        let (name, size, compression) = (name.into(), Some(size), Compression::None);
        Self { name, size, compression, blocks, body, file, remote, expected }
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The decompressed bytes of an [`Input`].
pub enum Body {
    /// A plain local file, read with `read_at` by many threads.
    File(File),
    /// Everything else, front to back.
    Stream(Box<dyn ByteStream>),
}

/// Decompressed bytes, front to back.
pub trait ByteStream: Send {
    /// Fills `buf`. Less than `buf.len()` means the clean end of the input: all frames are complete, all checksums match,
    /// nothing follows.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput): the compressed data is damaged or truncated.
    /// [`Error::Io`](crate::Error::Io): a system call failed. After an error every further call fails.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Returns the bytes of the compressed input consumed so far.
    fn consumed(&self) -> u64;

    /// Returns the last place at or before `before`, an offset in the delivered bytes, where a later run may begin. `None`
    /// if that is the beginning.
    fn restart(&self, _before: u64) -> Option<Restart> {
        None
    }
}

/// A place in the middle of a source where decompression can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Offset in the decompressed bytes.
    pub(crate) unpacked: u64,
    /// Offset in the source.
    pub(crate) packed: u64,
    /// The state of the checksum there or a little before.
    pub(crate) hash: Option<hashing::HashState>,
}
