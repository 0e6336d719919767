//! Producer threads: one reads ahead of a decoder, one decompresses ahead of the consumer.
//!
//! A producer fills buffers, a bounded channel carries them, empty ones return. The end is a message of its own, so a
//! producer that panics causes an error and never a clean end. If the consumer is gone, the next send fails and the thread
//! ends; nothing waits for the thread, because it may be in a read of a pipe that never returns.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::source::{InputReader, READ_SIZE};
use super::{ByteStream, Restart, Result};
use crate::error::Error;

const READ_DEPTH: usize = 4;

/// Decompressed bytes. An empty chunk is the end.
#[derive(Default)]
pub(super) struct Unpacked {
    pub(super) data: Vec<u8>,
    /// Bytes of `data` that count.
    pub(super) len: usize,
    /// The decoder's position in the compressed input after it.
    pub(super) consumed: u64,
}

/// The consumer's end of producer threads.
pub(super) trait UnpackedQueue: Send {
    /// Returns the next chunk, and returns the memory of the `spent` one to the producer. `None` if the producer died.
    fn next(&mut self, spent: Vec<u8>) -> Option<Result<Unpacked>>;

    /// See [`ByteStream::restart`].
    fn restart(&self, _before: u64) -> Option<Restart> {
        None
    }
}

/// Hands out chunks piece by piece.
pub(super) struct UnpackedStream<Q> {
    name: PathBuf,
    queue: Q,
    chunk: Unpacked,
    /// Bytes of `chunk` that were handed out.
    at: usize,
    ended: bool,
    failed: bool,
}

impl<Q: UnpackedQueue> UnpackedStream<Q> {
    pub(super) fn new(name: &Path, queue: Q) -> Self {
        Self { name: name.to_owned(), queue, chunk: Unpacked::default(), at: 0, ended: false, failed: false }
    }

    /// Copies the next bytes; 0 at the end.
    fn step(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let from = self.chunk.data.get(self.at..self.chunk.len).unwrap_or_default();
            let count = from.len().min(into.len());
            if let (Some(to), Some(from)) = (into.get_mut(..count), from.get(..count)) {
                to.copy_from_slice(from);
            }
            self.at += count;
            if count > 0 || into.is_empty() || self.ended {
                return Ok(count);
            }
            if std::mem::replace(&mut self.failed, true) {
                return Err(Error::io("read on after an error in", &self.name)(io::ErrorKind::Other.into()));
            }
            let next = self.queue.next(std::mem::take(&mut self.chunk.data));
            self.chunk = next.unwrap_or_else(|| Err(thread_died(&self.name)))?;
            (self.at, self.ended, self.failed) = (0, self.chunk.len == 0, false);
        }
    }
}

impl<Q: UnpackedQueue> Read for UnpackedStream<Q> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.step(into).map_err(io::Error::other)
    }
}

impl<Q: UnpackedQueue> ByteStream for UnpackedStream<Q> {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while let Some(room) = buf.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.step(room)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    fn consumed(&self) -> u64 {
        self.chunk.consumed
    }

    fn restart(&self, before: u64) -> Option<Restart> {
        self.queue.restart(before)
    }
}

/// The error for a thread that ended without a message.
pub(super) fn thread_died(name: &Path) -> Error {
    Error::io("decompress", name)(io::Error::other("the unpacking thread died"))
}

/// The queue of one producer thread.
pub(super) struct Producer {
    full: Receiver<Result<Unpacked>>,
    empty: Sender<Vec<u8>>,
}

impl UnpackedQueue for Producer {
    fn next(&mut self, spent: Vec<u8>) -> Option<Result<Unpacked>> {
        if !spent.is_empty() {
            // Fails if the producer has ended.
            self.empty.send(spent).ok();
        }
        self.full.recv().ok()
    }
}

/// Starts `produce`, which fills a buffer of `size` bytes and returns the number of bytes (0 at the end) and the
/// position in the compressed input. At most `depth` chunks wait.
fn spawn(
    name: &Path,
    thread_name: &str,
    (size, depth): (usize, usize),
    mut produce: impl FnMut(&mut [u8]) -> Result<(usize, u64)> + Send + 'static,
) -> Result<UnpackedStream<Producer>> {
    let (full_in, full) = bounded(depth);
    let (empty, empty_out) = unbounded::<Vec<u8>>();
    let run = move || {
        loop {
            let mut data = empty_out.try_recv().unwrap_or_else(|_| vec![0; size]);
            let chunk = produce(&mut data).map(|(len, consumed)| Unpacked { data, len, consumed });
            let is_last = chunk.as_ref().map_or(true, |chunk| chunk.len == 0);
            if full_in.send(chunk).is_err() || is_last {
                return;
            }
        }
    };
    let builder = thread::Builder::new().name(thread_name.into());
    builder.spawn(run).map_err(Error::io("start a decompression thread for", name))?;
    Ok(UnpackedStream::new(name, Producer { full, empty }))
}

/// Decompresses ahead, at most `depth` chunks of `size` bytes.
pub(super) fn decompress(
    name: &Path,
    (size, depth): (usize, usize),
    mut decompressor: impl Decompressor,
) -> Result<UnpackedStream<Producer>> {
    // An error is kept until the bytes before it are delivered.
    let mut failed: Option<Error> = None;
    spawn(name, "bedload-unpack", (size, depth), move |into| {
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let mut filled = 0;
        while let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) {
            match decompressor.unpack(room) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if filled == 0 => return Err(error),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        Ok((filled, decompressor.consumed()))
    })
}

/// Reads `source` on a thread ahead of the decoder of the returned source.
pub(super) fn read_ahead(mut source: InputReader) -> Result<InputReader> {
    let (name, offset) = (source.name.clone(), source.offset);
    let read = {
        let name = name.clone();
        move |into: &mut [u8]| {
            let count = source.read(into).map_err(Error::io("read", &name))?;
            Ok((count, source.offset))
        }
    };
    let ahead = spawn(&name, "bedload-read", (READ_SIZE, READ_DEPTH), read)?;
    Ok(InputReader::new(&name, Box::new(ahead)).starting_at(offset))
}

/// A decoder that runs on one thread.
pub(super) trait Decompressor: Send + 'static {
    /// Fills some of `out`, which is not empty; 0 is the clean end.
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize>;

    fn consumed(&self) -> u64;
}

/// The decoder of a pipe without compression.
impl Decompressor for InputReader {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        let name = self.name.clone();
        self.read(out).map_err(Error::io("read", name))
    }

    fn consumed(&self) -> u64 {
        self.offset
    }
}
