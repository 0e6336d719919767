//! The chunks of a source, shared out among threads: each takes the next in turn and works on it beside the others.
//!
//! The first fault in the order of the file is the one that is reported, however the threads were scheduled.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::load::checkpoint::Clock;
use crate::load::options::ImportOptions;
use crate::os::buffer::Buffer;
use crate::progress::Progress;
use crate::source::car::chunks::{Chunk, Chunks, Tail};

/// What the threads take their chunks from.
pub(in crate::load) struct ChunkQueue<'a> {
    source: Mutex<Source>,
    options: &'a ImportOptions,
    progress: &'a Progress<'a>,
    failed: Mutex<Option<(u64, Error)>>,
    stopped: AtomicBool,
}

/// The part that one thread does at a time.
struct Source {
    chunks: Chunks,
    clock: Clock,
    /// No worker gets a chunk until what was given out has been made durable.
    paused: bool,
    ended: bool,
}

/// How far the source has been given out.
pub(in crate::load) struct Position {
    pub offset: u64,
    pub consumed: u64,
    pub checksum: Option<u64>,
    pub tail: Tail,
    /// Whether that was all of it.
    pub ended: bool,
}

impl<'a> ChunkQueue<'a> {
    pub fn new(chunks: Chunks, options: &'a ImportOptions, progress: &'a Progress<'a>) -> Self {
        let clock = Clock::new(chunks.position(), 1);
        let source = Source { chunks, clock, paused: false, ended: false };
        Self {
            source: Mutex::new(source),
            options,
            progress,
            failed: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// One thread's part: hands chunks to `take` until there are no more, a durable point is due, or a worker fails or
    /// asks to stop. `take` returns a buffer for one of the next chunks, where it has one; `good_moment` says whether a
    /// durable point would cost little now.
    pub fn each(&self, good_moment: impl Fn() -> bool, mut take: impl FnMut(Chunk) -> Result<Option<Buffer>>) {
        let mut spare = None;
        while !self.options.stop.is_cancelled() && !self.stopped.load(Ordering::Relaxed) {
            let next = {
                let mut source = self.source.lock();
                let position = source.chunks.position();
                source.paused |= source.clock.is_due_by_time(position, &good_moment);
                if source.paused {
                    return;
                }
                let next = source.chunks.next(spare.take());
                source.ended |= matches!(next, Ok(None));
                self.progress.reach(source.chunks.consumed());
                next
            };
            let outcome = match next {
                Ok(Some(chunk)) => {
                    let base = chunk.base;
                    take(chunk).map(|buffer| spare = buffer).map_err(|error| (base, error))
                }
                Ok(None) => return,
                Err(error) => Err((u64::MAX, error)),
            };
            if let Err((base, error)) = outcome {
                return self.fail(base, error);
            }
        }
    }

    /// Notes what went wrong with the chunk at `base`, and stops handing out chunks. Those before it are all in
    /// a worker's hands and will be checked.
    pub fn fail(&self, base: u64, error: Error) {
        let base = if let Error::BadInput { offset: Some(offset), .. } = &error { *offset } else { base };
        let mut failed = self.failed.lock();
        if failed.as_ref().is_none_or(|(known, _)| base < *known) {
            *failed = Some((base, error));
        }
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// When all threads are done: how far the source has been given out. The next call of [`ChunkQueue::each`] goes on there.
    ///
    /// # Errors
    /// The first fault of the source.
    pub fn pause(&self) -> Result<Position> {
        if let Some((_, error)) = self.failed.lock().take() {
            return Err(error);
        }
        let mut source = self.source.lock();
        source.paused = false;
        let Source { chunks, ended, .. } = &*source;
        Ok(Position {
            offset: chunks.position(),
            consumed: chunks.consumed(),
            checksum: chunks.checksum(),
            tail: chunks.tail(),
            ended: *ended,
        })
    }
}
