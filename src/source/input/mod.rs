//! Bytes of a snapshot, whatever they are wrapped in: a plain file, a pipe, zstd, xz, gzip or lz4.
//!
//! The wrapping is detected by content and never by name.

mod problem;

use std::fs::File;
use std::path::PathBuf;

pub use problem::WrappingProblem;

use crate::error::Result;

/// What a snapshot is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
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

/// An opened snapshot.
pub struct Input {
    /// The name for messages: the path, or `-` for a pipe.
    pub name: PathBuf,
    /// Size in bytes as it lies on disk; `None` for a pipe.
    pub size: Option<u64>,
    /// What it is wrapped in.
    pub wrapping: Wrapping,
    /// How many blocks it holds, when that is known before reading it (Forest's index).
    pub blocks: Option<u64>,
    /// Where the bytes come from.
    pub body: Body,
}

/// Where the unwrapped bytes of an [`Input`] come from.
pub enum Body {
    /// A plain local file: may be read at any place, by many threads (`read_at`).
    File(File),
    /// Everything else: unwrapped bytes, front to back.
    Stream(Box<dyn ByteStream>),
}

/// Unwrapped bytes, front to back.
pub trait ByteStream: Send {
    /// Fills `buf` as far as there is data. Less than `buf.len()` means the clean end of the input: every frame was
    /// whole, every checksum right, nothing behind it.
    ///
    /// # Errors
    /// A damaged or cut wrapping, or the operating system's refusal. After an error every further call fails.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize>;

    /// Bytes of the wrapped input consumed so far, for progress against [`Input::size`].
    fn consumed(&self) -> u64;
}
#[derive(Default)]
pub struct InputOptions {
    pub threads: usize,
    pub memory: u64,
}
pub fn open(path: &std::path::Path, _o: &InputOptions) -> Result<Input> {
    let f = File::open(path).map_err(crate::Error::io("open", path))?;
    let size = f.metadata().unwrap().len();
    Ok(Input { name: path.into(), size: Some(size), wrapping: Wrapping::None, blocks: None, body: Body::File(f) })
}
impl Wrapping {
    pub fn name(self) -> &'static str {
        "none"
    }
}
