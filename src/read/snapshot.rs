//! Reads a snapshot on many threads: one at a time takes the next chunk, each processes its own.

use std::path::Path;

use crate::error::{Error, Result};
use crate::os::buffer::Buffer;
use crate::parallel::Pull;
use crate::progress::{CancellationToken, Event, Phase, Progress};
use crate::source::car::chunk::Chunk;
use crate::source::car::chunks::{Chunks, Limits, Tail};
use crate::source::car::{DEFAULT_MAX_BLOCK, Header, NullPadding, Section, Step, next_section};
use crate::source::input::{Compression, Input};

/// Bytes per read, also for the beginning of a remote file.
pub(super) const CHUNK: usize = 2 << 20;
pub(super) const REMOTE_CHUNK: usize = 64 << 10;

/// Bytes of chunks that any budget allows.
const FIXED: u64 = 32 << 20;

/// A snapshot whose header has been read.
pub(super) struct SnapshotReader<'a> {
    pub path: &'a Path,
    pub chunks: Chunks,
    pub header: Header,
    pub compression: Compression,
    /// Size on disk; `None` for a pipe.
    pub size: Option<u64>,
    /// Number of blocks according to the index.
    pub indexed: Option<u64>,
    pub is_remote: bool,
}

impl<'a> SnapshotReader<'a> {
    /// Reads the header and begins a phase of `progress`.
    pub fn open(
        path: &'a Path,
        input: Input,
        null_padding: NullPadding,
        chunk: usize,
        (budget, threads): (u64, usize),
        progress: &Progress<'_>,
    ) -> Result<Self> {
        progress.begin(Phase::Read, input.size);
        if let Some(blocks) = input.blocks {
            progress.expect_blocks(blocks);
        }
        let (compression, size, indexed) = (input.compression, input.size, input.blocks);
        // Each thread has a chunk, and one more is read. Other parts of the command use the rest of the budget.
        let fits = (budget / 2 + FIXED) / (threads as u64 + 1);
        let max_block = DEFAULT_MAX_BLOCK;
        let limits = Limits { max_block, null_padding, fits, budget, chunk, records_roots: false };
        let is_remote = input.remote.is_some();
        if let Some(message) = input.remote.as_ref().and_then(|remote| remote.unusable.as_deref()) {
            progress.report(&Event::Warning { message: message.to_owned() });
        }
        let (header, chunks) = Chunks::open(input, limits)?;
        Ok(Self { path, chunks, header, compression, size, indexed, is_remote })
    }

    pub fn next(&mut self, progress: &Progress<'_>) -> Result<Option<Chunk>> {
        let next = self.chunks.next(None);
        progress.reach(self.chunks.consumed());
        next
    }

    /// Distributes the remaining chunks among `workers`.
    pub fn read_rest<W: Send>(
        &mut self,
        workers: &mut [W],
        stop: &CancellationToken,
        progress: &Progress<'_>,
        work: impl Fn(&mut W, &Chunk) -> Result<()> + Sync,
    ) -> Result<Tail> {
        let pull = Pull::new(&mut self.chunks);
        pull.run(workers, |worker| {
            let next = |chunks: &mut &mut Chunks, (_, spare): &mut (_, Option<Buffer>)| {
                let next = if stop.is_cancelled() { Ok(None) } else { chunks.next(spare.take()) };
                progress.reach(chunks.consumed());
                next
            };
            pull.each(&mut (worker, None), next, |(worker, spare), chunk, _| {
                work(worker, &chunk)?;
                *spare = chunk.bytes.release();
                Ok(())
            });
        });
        let chunks = pull.finish()?;
        stop.check(Error::interrupted_reading)?;
        Ok(chunks.tail())
    }

    /// Calls `each` for every section of a chunk with its offset, its CID and block in one piece.
    pub fn sections(
        path: &Path,
        chunk: &Chunk,
        mut each: impl FnMut(&Section, u64, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let bytes = &*chunk.bytes;
        let (mut at, mut count) = (0, 0);
        while let Step::Section(section) = next_section(bytes, at, DEFAULT_MAX_BLOCK)
            .map_err(|(problem, at)| Error::bad_input(path, chunk.base + at as u64, problem))?
        {
            let body = section.body(bytes);
            each(&section, chunk.base + section.start as u64, body)?;
            at = section.end;
            count += 1;
        }
        Ok(count)
    }
}
