//! One of the threads that unpack zstd frames.
//!
//! A job is a row of whole frames. Its packed bytes come in pieces and its unpacked bytes leave in chunks, both
//! through small channels, so a job of any size, in and out, takes the same memory.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe;

use super::ahead::Chunk;
use super::{Compression, CompressionProblem};
use crate::error::{Error, Result};
use crate::os::buffer::make_room;

/// Bytes of an unpacked chunk.
pub(super) const CHUNK: usize = 256 << 10;
/// The largest window as a power of two: what libzstd itself accepts on a 64-bit machine (`zstd --ultra --long=31`).
pub(super) const MAX_WINDOW_LOG: u32 = 31;

/// Packed bytes for a worker.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The job is complete and must end on a frame's end. Its absence says that the input is cut or bad, which is
    /// reported elsewhere.
    End,
}

/// Unpacked bytes for the consumer.
pub(super) enum Unpacked {
    Chunk(Chunk),
    Failed(Error),
    /// Everything of this job has been delivered.
    Done,
}

/// A row of whole frames.
pub(super) struct Job {
    /// Where the first of them begins in the input.
    pub(super) start: u64,
    pub(super) pieces: Receiver<Piece>,
    pub(super) out: Sender<Unpacked>,
}

/// Empty buffers for reuse.
#[derive(Clone)]
pub(super) struct Pool {
    give: Sender<Vec<u8>>,
    take: Receiver<Vec<u8>>,
}

impl Pool {
    pub(super) fn new() -> Self {
        let (give, take) = crossbeam_channel::unbounded();
        Self { give, take }
    }

    pub(super) fn take(&self) -> Vec<u8> {
        self.take.try_recv().unwrap_or_default()
    }

    pub(super) fn give(&self, buffer: Vec<u8>) {
        // Cannot fail: this pool holds the other end.
        self.give.send(buffer).ok();
    }
}

/// What all workers share.
pub(super) struct Shared {
    pub(super) name: Arc<Path>,
    pub(super) jobs: Receiver<Job>,
    pub(super) packed: Pool,
    pub(super) chunks: Pool,
}

/// The job's consumer is gone: the rest is not needed.
struct Abandoned;

/// Works until there are no more jobs or their consumer is gone.
pub(super) fn work(shared: &Shared) {
    let mut decoder = None;
    for job in &shared.jobs {
        let mut run = Run { shared, job: &job, frame: job.start, at: job.start, out: shared.chunk(), filled: 0 };
        let message = match run.unpack(&mut decoder) {
            Ok(true) => Unpacked::Done,
            Ok(false) => continue,
            Err(JobError::Failed(error)) => {
                decoder = None;
                if run.flush().is_err() {
                    return;
                }
                Unpacked::Failed(error)
            }
            Err(JobError::Abandoned) => return,
        };
        if job.out.send(message).is_err() {
            return;
        }
    }
}

impl Shared {
    fn chunk(&self) -> Vec<u8> {
        let mut chunk = self.chunks.take();
        make_room(&mut chunk, CHUNK);
        chunk
    }
}

enum JobError {
    Failed(Error),
    Abandoned,
}

impl From<Abandoned> for JobError {
    fn from(_: Abandoned) -> Self {
        Self::Abandoned
    }
}

/// A job that is being unpacked.
struct Run<'a> {
    shared: &'a Shared,
    job: &'a Job,
    /// Where the current frame begins.
    frame: u64,
    /// The decoder's position in the input.
    at: u64,
    out: Vec<u8>,
    filled: usize,
}

impl Run<'_> {
    /// Unpacks the job; false if it was left unfinished because the input is.
    fn unpack(&mut self, decoder: &mut Option<Decoder<'static>>) -> Result<bool, JobError> {
        let decoder = match decoder {
            Some(decoder) => decoder,
            none => none.insert(new_decoder().map_err(|error| JobError::Failed(self.system(error)))?),
        };
        decoder.reinit().map_err(|error| JobError::Failed(self.system(error)))?;
        let mut between_frames = true;
        for piece in &self.job.pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    self.piece(decoder, &bytes, &mut between_frames)?;
                    self.shared.packed.give(bytes);
                }
                Piece::End if between_frames => {
                    self.flush()?;
                    return Ok(true);
                }
                Piece::End => {
                    return Err(JobError::Failed(self.corrupt("data follow its last block".into())));
                }
            }
        }
        self.flush()?;
        Ok(false)
    }

    fn piece(&mut self, decoder: &mut Decoder, bytes: &[u8], between_frames: &mut bool) -> Result<(), JobError> {
        let mut input = InBuffer::around(bytes);
        loop {
            let before = input.pos();
            let mut output = OutBuffer::around_pos(self.out.as_mut_slice(), self.filled);
            let hint = decoder.run(&mut input, &mut output);
            self.filled = output.pos();
            self.at += (input.pos() - before) as u64;
            match hint {
                Ok(hint) => *between_frames = hint == 0,
                Err(error) => return Err(JobError::Failed(self.failed(&error))),
            }
            if *between_frames {
                self.frame = self.at;
            }
            let full = self.filled == CHUNK;
            if full {
                self.flush()?;
            }
            // A full chunk may leave bytes behind in the decoder, unless the frame is complete.
            if input.pos() == bytes.len() && (!full || *between_frames) {
                return Ok(());
            }
        }
    }

    /// Sends what is unpacked.
    fn flush(&mut self) -> Result<(), Abandoned> {
        if self.filled == 0 {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.out, self.shared.chunk());
        let chunk = Chunk { data, len: std::mem::take(&mut self.filled), consumed: self.at };
        self.job.out.send(Unpacked::Chunk(chunk)).map_err(|_| Abandoned)
    }

    /// What the decoder reported: that the system refused it memory, or damage.
    fn failed(&self, error: &std::io::Error) -> Error {
        if is_refused_memory(error) {
            return self.system(std::io::ErrorKind::OutOfMemory.into());
        }
        self.corrupt(error.to_string())
    }

    fn corrupt(&self, detail: String) -> Error {
        Error::bad_input(
            &self.shared.name,
            self.frame,
            CompressionProblem::Corrupt { compression: Compression::Zstd, detail },
        )
    }

    fn system(&self, error: std::io::Error) -> Error {
        Error::io("unpack", &*self.shared.name)(error)
    }
}

/// Whether an error of zstd is that it got no memory: `ZSTD_error_memory_allocation` of its zstd_errors.h.
fn is_refused_memory(error: &std::io::Error) -> bool {
    const MEMORY_ALLOCATION: usize = 64;
    error.to_string() == zstd_safe::get_error_name(MEMORY_ALLOCATION.wrapping_neg())
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.shared.chunks.give(std::mem::take(&mut self.out));
    }
}

fn new_decoder() -> std::io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    // The frame's header was checked before: here only libzstd's own bound counts.
    decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
    Ok(decoder)
}

/// The size of libzstd's decoding context, rounded up.
const CONTEXT: usize = 256 << 10;

/// What libzstd needs beside the window: its context and its input buffer.
pub(super) fn decoder_overhead() -> u64 {
    (zstd_safe::DCtx::in_size() + zstd_safe::DCtx::out_size() + CONTEXT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_refused_is_told_from_damage() {
        assert!(is_refused_memory(&std::io::Error::other("Allocation error : not enough memory")));
        let mut decoder = Decoder::new().expect("memory");
        let damaged = decoder.run(&mut InBuffer::around(b"no zstd frame"), &mut OutBuffer::around(&mut [0u8; 64][..]));
        assert!(!is_refused_memory(&damaged.expect_err("no frame")));
    }
}
