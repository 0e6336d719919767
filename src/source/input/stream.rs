//! An input as a stream: detected, decompressed, and refused where it is compressed twice.

use std::path::Path;
use std::sync::Arc;

use super::ahead::{AheadStream, Plain, read_ahead};
use super::detect::{self, Magic, PROBE};
use super::gzip::Gzip;
use super::lz4::Lz4;
use super::source::{READ_SIZE, Source};
use super::xz::Xz;
use super::zstd_stream::ZstdStream;
use super::{Body, ByteStream, Compression, CompressionProblem, Expected, Input, Prefixed, forest};
use crate::error::{Error, Result};
use crate::source::remote::NetworkOptions;

/// Chunks that the decoders on a single thread unpack ahead.
const DEPTH: usize = 4;
/// The largest such chunk.
const MAX_CHUNK: u64 = 1 << 20;
/// The smallest.
const MIN_CHUNK: u64 = 16 << 10;
/// The largest of what comes from the network unpacked: whoever only looks at the beginning waits for a whole one.
const REMOTE_CHUNK: usize = 64 << 10;
/// Memory for unpacking unless the caller says otherwise: enough for `zstd --long=27`, the most that zstd itself
/// accepts unasked, with its buffers.
const DEFAULT_MEMORY: u64 = 256 << 20;

/// How much of an input is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// What is at its beginning.
    Head,
    /// Perhaps not all of it.
    #[default]
    Part,
    /// All of it: then it is compared with the sum that its publisher has put beside it.
    All,
}

/// How much an input may take.
#[derive(Debug, Clone, PartialEq)]
pub struct InputOptions {
    /// Threads that unpack, beside the one that reads. Defaults to what the machine has.
    pub threads: usize,
    /// Memory for unpacking, in bytes: windows, buffers, what is unpacked ahead. Defaults to 256 MiB. A few MiB are
    /// taken in any case.
    pub memory: u64,
    /// How it is read from the network.
    pub network: NetworkOptions,
    /// The sum that it must have: `sha256:` and digits, or the file or URL that has them.
    pub checksum: Option<String>,
    /// The address that an earlier run has found behind redirects.
    pub pinned: Option<String>,
    /// How much of it is wanted.
    pub extent: Extent,
}

/// The least memory for decompression, in bytes, however small the budget of the command is.
const LEAST_MEMORY: u64 = 20 << 20;

impl InputOptions {
    /// Options for a share of the memory budget of a command, so that every command reads the same frames.
    pub fn of_share(threads: usize, memory: u64) -> Self {
        Self::new(threads, memory.max(LEAST_MEMORY))
    }

    /// An input that may take so much.
    pub fn new(threads: usize, memory: u64) -> Self {
        let (network, checksum, pinned, extent) = Default::default();
        Self { threads, memory, network, checksum, pinned, extent }
    }
}

impl Default for InputOptions {
    fn default() -> Self {
        let threads = crate::parallel::cores();
        Self::new(threads, DEFAULT_MEMORY)
    }
}

/// Everything that is not a plain regular file; and its compression, apart from Forest's index.
pub(super) fn stream(
    mut source: Source,
    size: Option<u64>,
    tail: Option<forest::ForestTail>,
    expected: Option<Arc<Expected>>,
    is_remote: bool,
    options: &InputOptions,
) -> Result<(Input, Compression)> {
    let name = source.name().to_owned();
    let detected = detect::detect(&mut source)?;
    let tail = tail.filter(|tail| detected == Compression::Zstd && tail.frames_end >= source.offset());
    let compression = if tail.is_some() { Compression::ForestZstd } else { detected };
    let blocks = tail.and_then(|tail| tail.blocks);
    let tail = tail.and_then(|tail| Some((tail.frames_end, size?)));
    let stream = decompressed(source, detected, tail, (expected.is_some(), is_remote), 0, options)?;
    let stream =
        if detected == Compression::None { stream } else { refuse_double_compression(&name, detected, stream)? };
    let body = Body::Stream(stream);
    Ok((Input { name, size, compression, blocks, body, file: None, remote: None, expected }, detected))
}

/// The decompressed bytes of `source`, of which `unpacked` are before it. `drains` says that it is read to its end, also
/// where nothing behind some place needs unpacking. A stream that `is_remote` hands out small pieces.
pub(super) fn decompressed(
    source: Source,
    compression: Compression,
    tail: Option<(u64, u64)>,
    (drains, is_remote): (bool, bool),
    unpacked: u64,
    options: &InputOptions,
) -> Result<Box<dyn ByteStream>> {
    let InputOptions { threads, memory, extent, .. } = *options;
    // More threads would read frames behind those that are looked at.
    let threads = if extent == Extent::Head { 1 } else { threads };
    let name = source.name().to_owned();
    // An eighth for what is unpacked ahead, the rest for the decoder.
    let chunk = (memory / 8 / DEPTH as u64).clamp(MIN_CHUNK, MAX_CHUNK) as usize;
    let buffers = (DEPTH + 2) * chunk + 8 * READ_SIZE;
    let decoder_memory = memory.saturating_sub(buffers as u64);
    let ahead = (chunk, DEPTH);
    Ok(match compression {
        Compression::None => {
            let ahead = if is_remote { (chunk.min(REMOTE_CHUNK), 2 * DEPTH) } else { ahead };
            Box::new(AheadStream::spawn(&name, ahead, Plain(source))?)
        }
        Compression::Zstd | Compression::ForestZstd => {
            Box::new(ZstdStream::spawn(source, threads, memory, tail, drains, unpacked)?)
        }
        Compression::Xz => {
            let decompressor = Xz::new(read_ahead(source)?, decoder_memory);
            Box::new(AheadStream::spawn(&name, ahead, decompressor)?)
        }
        Compression::Gzip => Box::new(AheadStream::spawn(&name, ahead, Gzip::new(read_ahead(source)?))?),
        Compression::Lz4 => Box::new(AheadStream::spawn(&name, ahead, Lz4::new(read_ahead(source)?))?),
    })
}

/// Refuses decompressed data that is compressed again.
fn refuse_double_compression(
    name: &Path,
    outer: Compression,
    stream: Box<dyn ByteStream>,
) -> Result<Box<dyn ByteStream>> {
    let stream = Prefixed::new(stream, PROBE)?;
    let inner = match detect::magic(stream.head()) {
        Magic::Frame(inner) => inner,
        Magic::Skippable(_) => Compression::Zstd,
        Magic::Cut(_) | Magic::Other => return Ok(Box::new(stream)),
    };
    Err(Error::bad_input(name, None, CompressionProblem::Nested { outer, inner }))
}
