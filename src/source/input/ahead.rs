//! Producer threads: one reads ahead of a decoder, one decompresses ahead of the consumer.
//!
//! A producer fills buffers, a bounded channel carries them, empty ones return. The end is a message of its own, so a
//! producer that panics causes an error and never a clean end. If the consumer is gone, the next send fails and the thread
//! ends; nothing waits for the thread, because it may be in a read of a pipe that never returns.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::source::{READ_SIZE, Source};
use super::{ByteStream, Result};
use crate::error::Error;

const READ_DEPTH: usize = 4;

#[derive(Default)]
pub(super) struct Chunk {
    pub(super) data: Vec<u8>,
    /// Bytes of `data` that count.
    pub(super) len: usize,
    /// The decoder's position in the compressed input after it.
    pub(super) consumed: u64,
}

/// A chunk that is handed out piece by piece.
#[derive(Default)]
pub(super) struct Cursor {
    chunk: Chunk,
    at: usize,
}

impl Cursor {
    /// Starts the next chunk and returns the old one's buffer.
    pub(super) fn replace(&mut self, chunk: Chunk) -> Vec<u8> {
        self.at = 0;
        std::mem::replace(&mut self.chunk, chunk).data
    }

    pub(super) fn copy_to(&mut self, into: &mut [u8]) -> usize {
        let from = self.chunk.data.get(self.at..self.chunk.len).unwrap_or_default();
        let count = from.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        count
    }
}

/// The error of every call after the first error.
pub(super) fn failed_before(name: &Path) -> Error {
    Error::io("read on after an error in", name)(io::ErrorKind::Other.into())
}

/// The error for a thread that ended without a message.
pub(super) fn thread_died(name: &Path) -> Error {
    Error::io("unpack", name)(io::Error::other("the unpacking thread died"))
}

enum Message {
    Chunk(Chunk),
    Failed(Error),
    End { consumed: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    Failed,
}

/// The consumer's end of a producer thread.
pub(super) struct Ahead {
    name: PathBuf,
    full: Receiver<Message>,
    empty: Sender<Vec<u8>>,
    cursor: Cursor,
    consumed: u64,
    state: State,
}

impl Ahead {
    /// Starts `produce`, which fills a buffer of `size` bytes and returns the number of bytes (0 at the end) and the
    /// position in the compressed input.
    fn spawn(
        name: &Path,
        thread_name: &str,
        (size, depth): (usize, usize),
        mut produce: impl FnMut(&mut [u8]) -> Result<(usize, u64)> + Send + 'static,
    ) -> Result<Self> {
        let (full_in, full) = bounded(depth);
        let (empty, empty_out) = unbounded::<Vec<u8>>();
        let run = move || {
            loop {
                let mut data = empty_out.try_recv().unwrap_or_else(|_| vec![0; size]);
                let message = match produce(&mut data) {
                    Ok((0, consumed)) => Message::End { consumed },
                    Ok((len, consumed)) => Message::Chunk(Chunk { data, len, consumed }),
                    Err(error) => Message::Failed(error),
                };
                let last = !matches!(message, Message::Chunk(_));
                if full_in.send(message).is_err() || last {
                    return;
                }
            }
        };
        let builder = thread::Builder::new().name(thread_name.into());
        builder.spawn(run).map_err(Error::io("start a thread to unpack", name))?;
        let name = name.to_owned();
        Ok(Self { name, full, empty, cursor: Cursor::default(), consumed: 0, state: State::Running })
    }

    /// Decompresses ahead, at most `depth` chunks of `size` bytes.
    pub(super) fn decompress(
        name: &Path,
        (size, depth): (usize, usize),
        mut decompressor: impl Decompressor,
    ) -> Result<Self> {
        // An error is kept until the bytes before it are delivered.
        let mut failed: Option<Error> = None;
        Self::spawn(name, "bedload-unpack", (size, depth), move |into| {
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

    /// Copies the next bytes; 0 at the end.
    fn step(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let count = self.cursor.copy_to(into);
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            match self.state {
                State::Running => {}
                State::Ended => return Ok(0),
                State::Failed => return Err(failed_before(&self.name)),
            }
            self.state = State::Failed;
            match self.full.recv() {
                Ok(Message::Chunk(chunk)) => {
                    self.state = State::Running;
                    self.consumed = chunk.consumed;
                    let spent = self.cursor.replace(chunk);
                    if !spent.is_empty() {
                        // Fails if the producer has ended.
                        self.empty.send(spent).ok();
                    }
                }
                Ok(Message::End { consumed }) => (self.consumed, self.state) = (consumed, State::Ended),
                Ok(Message::Failed(error)) => return Err(error),
                Err(_) => return Err(thread_died(&self.name)),
            }
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.step(into).map_err(io::Error::other)
    }
}

impl ByteStream for Ahead {
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
        self.consumed
    }
}

/// Reads `source` on a thread ahead of the decoder of the returned source.
pub(super) fn read_ahead(mut source: Source) -> Result<Source> {
    let (name, offset) = (source.name().to_owned(), source.offset());
    let read = {
        let name = name.clone();
        move |into: &mut [u8]| {
            let count = source.read(into).map_err(Error::io("read", &name))?;
            Ok((count, source.offset()))
        }
    };
    let ahead = Ahead::spawn(&name, "bedload-read", (READ_SIZE, READ_DEPTH), read)?;
    Ok(Source::new(&name, Box::new(ahead)).starting_at(offset))
}

/// A decoder that runs on one thread.
pub(super) trait Decompressor: Send + 'static {
    /// Fills some of `out`, which is not empty; 0 is the clean end.
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize>;

    fn consumed(&self) -> u64;
}

/// The decoder of a pipe without compression.
impl Decompressor for Source {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        let name = self.name().to_owned();
        self.read(out).map_err(Error::io("read", name))
    }

    fn consumed(&self) -> u64 {
        self.offset()
    }
}
