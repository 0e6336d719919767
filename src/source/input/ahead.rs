//! Work done ahead on a thread of its own: reading for decoders, unpacking for the consumer.
//!
//! A producer fills buffers, a bounded channel carries them, empty ones go back. An end is a message of its own: a
//! producer that ends without one (a panic) is an error and never a clean end. When the consumer goes away the next
//! send fails and the thread ends; no thread waits for it, because it may sit in a read of a pipe that never comes back.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::source::{READ_SIZE, Source};
use super::{ByteStream, Result};
use crate::error::Error;

/// Buffers of wrapped bytes read ahead for a decoder.
const READ_DEPTH: usize = 4;

/// A piece of decompressed bytes.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) data: Vec<u8>,
    /// How much of `data` counts.
    pub(super) len: usize,
    /// The decoder's position in the compressed input after it.
    pub(super) consumed: u64,
}

/// A chunk that is being handed out piece by piece.
#[derive(Default)]
pub(super) struct Cursor {
    chunk: Chunk,
    at: usize,
}

impl Cursor {
    /// Starts on the next chunk and gives back the old one's buffer.
    pub(super) fn replace(&mut self, chunk: Chunk) -> Vec<u8> {
        self.at = 0;
        std::mem::replace(&mut self.chunk, chunk).data
    }

    /// Copies as much as there is and fits.
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

enum Message<E> {
    Chunk(Chunk),
    Failed(E),
    End { consumed: u64 },
}

/// The consumer's end of a producer thread.
struct Ahead<E> {
    full: Receiver<Message<E>>,
    empty: Sender<Vec<u8>>,
    cursor: Cursor,
    consumed: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    Failed,
}

/// The outcome of a call.
enum Step<E> {
    Bytes(usize),
    End,
    Failed(E),
    FailedBefore,
    Died,
}

impl<E: Send + 'static> Ahead<E> {
    /// Starts `produce`, which fills a buffer of `size` bytes and says how much of it counts (0: the end) and how much
    /// of the compressed input that took.
    fn spawn(
        name: &Path,
        thread_name: &str,
        (size, depth): (usize, usize),
        mut produce: impl FnMut(&mut [u8]) -> Result<(usize, u64), E> + Send + 'static,
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
        thread::Builder::new()
            .name(thread_name.into())
            .spawn(run)
            .map_err(Error::io("start a thread to unpack", name))?;
        Ok(Self { full, empty, cursor: Cursor::default(), consumed: 0, state: State::Running })
    }

    /// Copies what there is next.
    fn step(&mut self, into: &mut [u8]) -> Step<E> {
        loop {
            let count = self.cursor.copy_to(into);
            if count > 0 || into.is_empty() {
                return Step::Bytes(count);
            }
            match self.state {
                State::Running => {}
                State::Ended => return Step::End,
                State::Failed => return Step::FailedBefore,
            }
            self.state = State::Failed;
            match self.full.recv() {
                Ok(Message::Chunk(chunk)) => {
                    self.state = State::Running;
                    self.consumed = chunk.consumed;
                    let spent = self.cursor.replace(chunk);
                    if !spent.is_empty() {
                        // The producer may be gone: then the buffer is not needed.
                        self.empty.send(spent).ok();
                    }
                }
                Ok(Message::End { consumed }) => {
                    self.consumed = consumed;
                    self.state = State::Ended;
                }
                Ok(Message::Failed(error)) => return Step::Failed(error),
                Err(_) => return Step::Died,
            }
        }
    }
}

/// Wrapped bytes that a thread reads ahead.
struct AheadReader(Ahead<io::Error>);

impl Read for AheadReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.step(into) {
            Step::Bytes(count) => Ok(count),
            Step::End => Ok(0),
            Step::Failed(error) => Err(error),
            Step::FailedBefore => Err(io::Error::other("the input failed before")),
            Step::Died => Err(io::Error::other("the reading thread died")),
        }
    }
}

/// Reads `source` on a thread of its own, ahead of the decoder that takes its place.
pub(super) fn read_ahead(source: Source) -> Result<Source> {
    source.read_through(|mut source| {
        let name = source.name().to_owned();
        let ahead = Ahead::spawn(&name, "bedload-read", (READ_SIZE, READ_DEPTH), move |into| {
            let count = source.read(into)?;
            Ok((count, source.offset()))
        })?;
        Ok(Box::new(AheadReader(ahead)))
    })
}

/// A decoder that runs on one thread.
pub(super) trait Decompressor: Send + 'static {
    /// Fills some of `out`, which is not empty; 0 is the clean end.
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize>;

    /// Its position in the compressed input.
    fn consumed(&self) -> u64;
}

/// What a decoder on a thread of its own unpacks.
pub(super) struct AheadStream {
    name: PathBuf,
    ahead: Ahead<Error>,
}

impl AheadStream {
    /// Unpacks ahead, at most `depth` chunks of `size` bytes.
    pub(super) fn spawn(
        name: &Path,
        (size, depth): (usize, usize),
        mut decompressor: impl Decompressor,
    ) -> Result<Self> {
        // An error is held back until the bytes before it are delivered.
        let mut held: Option<Error> = None;
        let ahead = Ahead::spawn(name, "bedload-unpack", (size, depth), move |into| {
            if let Some(error) = held.take() {
                return Err(error);
            }
            let mut filled = 0;
            while let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) {
                match decompressor.unpack(room) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if filled == 0 => return Err(error),
                    Err(error) => {
                        held = Some(error);
                        break;
                    }
                }
            }
            Ok((filled, decompressor.consumed()))
        })?;
        Ok(Self { name: name.to_owned(), ahead })
    }
}

impl ByteStream for AheadStream {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while let Some(room) = buf.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.ahead.step(room) {
                Step::Bytes(count) => filled += count,
                Step::End => break,
                Step::Failed(error) => return Err(error),
                Step::FailedBefore => return Err(failed_before(&self.name)),
                Step::Died => return Err(thread_died(&self.name)),
            }
        }
        Ok(filled)
    }

    fn consumed(&self) -> u64 {
        self.ahead.consumed
    }
}

/// The decoder of what is not compressed: a pipe's bytes as they are.
pub(super) struct Plain(pub(super) Source);

impl Decompressor for Plain {
    fn unpack(&mut self, out: &mut [u8]) -> Result<usize> {
        let name = self.0.name().to_owned();
        self.0.read(out).map_err(Error::io("read", name))
    }

    fn consumed(&self) -> u64 {
        self.0.offset()
    }
}
