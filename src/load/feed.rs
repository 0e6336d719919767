//! The chunks of a source, shared out among threads: each takes the next in turn and works on it beside the others.
//!
//! The first fault in the order of the file is the one that is told, however the threads were scheduled.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::options::ImportOptions;
use super::{interrupted, lock};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::source::car::chunks::{Chunk, Chunks, Tail};

/// What the threads take their chunks from.
pub(super) struct Feed<'a> {
    chunks: Mutex<Chunks>,
    options: &'a ImportOptions,
    progress: &'a Progress<'a>,
    failed: Mutex<Option<(u64, Error)>>,
    stopped: AtomicBool,
}

impl<'a> Feed<'a> {
    pub fn new(chunks: Chunks, options: &'a ImportOptions, progress: &'a Progress<'a>) -> Self {
        Self { chunks: Mutex::new(chunks), options, progress, failed: Mutex::default(), stopped: AtomicBool::new(false) }
    }

    /// One thread's part: hands chunks to `take`, `first` before all others, until there are no more or somebody fails.
    /// `take` returns a buffer for one of the next chunks, where it has one.
    pub fn each(&self, mut first: Option<Chunk>, mut take: impl FnMut(Chunk) -> Result<Option<Buffer>>) {
        let mut spare = None;
        while !self.options.stop.asked() {
            let next = match first.take() {
                Some(chunk) => Ok(Some(chunk)),
                None if self.stopped.load(Ordering::Relaxed) => return,
                None => {
                    let mut chunks = lock(&self.chunks);
                    let next = chunks.next(spare.take());
                    self.progress.reach(chunks.consumed());
                    next
                }
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
    /// somebody's hands and will be looked through.
    pub fn fail(&self, base: u64, error: Error) {
        let base = if let Error::BadInput { offset: Some(offset), .. } = &error { *offset } else { base };
        let mut failed = lock(&self.failed);
        if failed.as_ref().is_none_or(|(known, _)| base < *known) {
            *failed = Some((base, error));
        }
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// When all threads are done: what was found at the end of the source, and the bytes taken of it as it lies on disk.
    ///
    /// # Errors
    /// The first fault of the source, or somebody asked to stop.
    pub fn finish(&self) -> Result<(Tail, u64)> {
        if let Some((_, error)) = lock(&self.failed).take() {
            return Err(error);
        }
        if self.options.stop.asked() {
            return Err(interrupted());
        }
        let chunks = lock(&self.chunks);
        Ok((chunks.tail(), chunks.consumed()))
    }
}
