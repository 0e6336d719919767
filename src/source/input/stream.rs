//! An input as a stream: detects and removes its compression, and refuses a second one.

use std::sync::Arc;

use flate2::bufread::GzDecoder;

use super::ahead::{decompress, read_ahead};
use super::detect::{self, Magic, PROBE};
use super::frames::{Frames, Lz4};
use super::source::{InputReader, READ_SIZE};
use super::xz::Xz;
use super::zstd_stream;
use super::{Body, ByteStream, Compression, CompressionProblem, Expected, Input, Prefixed, forest};
use crate::error::{Error, Result};
use crate::source::remote::NetworkOptions;

/// Chunks that a decoder on one thread decompresses ahead.
const DEPTH: usize = 4;
/// Largest and smallest such chunk, in bytes.
const MAX_CHUNK: u64 = 1 << 20;
const MIN_CHUNK: u64 = 16 << 10;
/// Largest chunk of an uncompressed file on the network: a reader of the header waits for a whole one.
const REMOTE_CHUNK: usize = 64 << 10;
/// Default memory for decompression, in bytes: enough for `zstd --long=27`, the default limit of zstd, and its buffers.
const DEFAULT_MEMORY: u64 = 256 << 20;

/// The part of an input that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// Its beginning.
    Head,
    /// Perhaps not all of it.
    #[default]
    Part,
    /// All of it: then its checksum is compared with the published one.
    All,
}

/// Limits and options of reading an input.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Threads for decompression, in addition to the one that reads. Default: the cores of the machine.
    pub threads: usize,
    /// Memory for decompression, in bytes: windows, buffers, chunks ahead. Default: 256 MiB. A few MiB are always used.
    pub memory: u64,
    /// Options of the network.
    pub network: NetworkOptions,
    /// The expected checksum: `sha256:` and digits, or a file or URL with them.
    pub checksum: Option<String>,
    /// The address after redirects, from an earlier run.
    pub pinned: Option<String>,
    /// The part that is wanted.
    pub extent: Extent,
}

/// The least memory for decompression, in bytes, however small the budget of the command is.
const LEAST_MEMORY: u64 = 20 << 20;

impl InputOptions {
    /// Options for a share of the memory budget of a command, so that every command reads the same frames.
    pub fn of_share(threads: usize, memory: u64) -> Self {
        Self::new(threads, memory.max(LEAST_MEMORY))
    }

    /// Creates options with these limits.
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

/// Opens an input that is not a plain regular file.
pub(super) fn stream(
    mut source: InputReader,
    size: Option<u64>,
    tail: Option<forest::ForestTail>,
    expected: Option<Arc<Expected>>,
    is_remote: bool,
    options: &InputOptions,
) -> Result<Input> {
    let name = source.name.clone();
    let detected = detect::detect(&mut source)?;
    let tail = tail.filter(|tail| detected == Compression::Zstd && tail.frames_end >= source.offset);
    let compression = if tail.is_some() { Compression::ForestZstd } else { detected };
    let blocks = tail.and_then(|tail| tail.blocks);
    let tail = tail.and_then(|tail| Some((tail.frames_end, size?)));
    let stream = decompressed(source, detected, tail, (expected.is_some(), is_remote), 0, options)?;
    let stream: Box<dyn ByteStream> = if detected == Compression::None {
        stream
    } else {
        let stream = Prefixed::new(stream, PROBE)?;
        let inner = match detect::magic(&stream.head) {
            Magic::Frame(inner) => Some(inner),
            Magic::Skippable(_) => Some(Compression::Zstd),
            Magic::Cut(_) | Magic::Other => None,
        };
        if let Some(inner) = inner {
            return Err(Error::bad_input(&name, None, CompressionProblem::Nested { outer: detected, inner }));
        }
        Box::new(stream)
    };
    let body = Body::Stream(stream);
    Ok(Input { size, compression, blocks, expected, ..Input::plain(name, 0, body) })
}

/// Decompresses `source`, which begins at offset `unpacked` of the decompressed bytes. If `drains`, the source is read to
/// its end, including an index. A stream that `is_remote` hands out small pieces.
pub(super) fn decompressed(
    source: InputReader,
    compression: Compression,
    tail: Option<(u64, u64)>,
    (drains, is_remote): (bool, bool),
    unpacked: u64,
    options: &InputOptions,
) -> Result<Box<dyn ByteStream>> {
    let InputOptions { threads, memory, extent, .. } = *options;
    // More threads would decompress frames that the caller does not read.
    let threads = if extent == Extent::Head { 1 } else { threads };
    let name = source.name.clone();
    // An eighth for chunks ahead, the rest for the decoder.
    let chunk = (memory / 8 / DEPTH as u64).clamp(MIN_CHUNK, MAX_CHUNK) as usize;
    let buffers = (DEPTH + 2) * chunk + 8 * READ_SIZE;
    let decoder_memory = memory.saturating_sub(buffers as u64);
    let ahead = (chunk, DEPTH);
    Ok(match compression {
        Compression::None => {
            let ahead = if is_remote { (chunk.min(REMOTE_CHUNK), 2 * DEPTH) } else { ahead };
            Box::new(decompress(&name, ahead, source)?)
        }
        Compression::Zstd | Compression::ForestZstd => {
            Box::new(zstd_stream::spawn(source, threads, memory, tail, drains, unpacked)?)
        }
        Compression::Xz => Box::new(decompress(&name, ahead, Xz::new(read_ahead(source)?, decoder_memory))?),
        Compression::Gzip => {
            Box::new(decompress(&name, ahead, Frames::<GzDecoder<InputReader>>::new(read_ahead(source)?))?)
        }
        Compression::Lz4 => Box::new(decompress(&name, ahead, Frames::<Lz4>::new(read_ahead(source)?))?),
    })
}
