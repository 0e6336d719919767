//! A thread that decompresses zstd frames.
//!
//! A job is a sequence of complete frames. Compressed bytes arrive in pieces and decompressed bytes leave in chunks, both
//! through small channels, so a job of any size needs the same memory.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe;

use super::ahead::Unpacked;
use super::{Compression, CompressionProblem};
use crate::error::{Error, Result};
use crate::os::buffer::make_room;

pub(super) const CHUNK: usize = 256 << 10;
/// Largest window as a power of two: the limit of libzstd on 64-bit machines (`zstd --ultra --long=31`).
pub(super) const MAX_WINDOW_LOG: u32 = 31;

pub(super) struct UnpackJob {
    /// Offset of the first one in the input.
    pub(super) start: u64,
    /// Compressed bytes. `None` after the last piece, with the end of a frame. Without it the input is cut or bad, which the
    /// scanner reports.
    pub(super) pieces: Receiver<Option<Vec<u8>>>,
    /// An empty chunk after the last frame is the end of the job.
    pub(super) out: Sender<Result<Unpacked>>,
}

/// Empty buffers for reuse.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.0.lock().push(buffer);
    }
}

pub(super) struct WorkerShared {
    pub(super) name: Arc<Path>,
    pub(super) jobs: Receiver<UnpackJob>,
    pub(super) packed: Pool,
    pub(super) chunks: Pool,
}

/// The reason to stop. `None` if the other end of a channel is gone, so that the rest is not needed.
pub(super) type Stop = Option<Error>;

/// Works until there are no more jobs or their consumer is gone.
pub(super) fn work(shared: &WorkerShared) {
    let mut decoder = None;
    for job in &shared.jobs {
        let mut run = JobRun { shared, job: &job, frame: job.start, at: job.start, out: shared.chunk(), filled: 0 };
        let message = match run.unpack(&mut decoder) {
            Ok(true) => Ok(Unpacked::default()),
            Ok(false) => continue,
            Err(Some(error)) => {
                decoder = None;
                if run.flush().is_err() {
                    return;
                }
                Err(error)
            }
            Err(None) => return,
        };
        if job.out.send(message).is_err() {
            return;
        }
    }
}

impl WorkerShared {
    fn chunk(&self) -> Vec<u8> {
        let mut chunk = self.chunks.take();
        make_room(&mut chunk, CHUNK);
        chunk
    }
}

struct JobRun<'a> {
    shared: &'a WorkerShared,
    job: &'a UnpackJob,
    frame: u64,
    at: u64,
    out: Vec<u8>,
    filled: usize,
}

impl JobRun<'_> {
    /// Decompresses the job. False if the job is incomplete because the input is.
    fn unpack(&mut self, decoder: &mut Option<Decoder<'static>>) -> Result<bool, Stop> {
        let decoder = match decoder {
            Some(decoder) => decoder,
            none => none.insert(new_decoder().map_err(|error| self.system(error))?),
        };
        decoder.reinit().map_err(|error| self.system(error))?;
        let mut between_frames = true;
        for piece in &self.job.pieces {
            match piece {
                Some(bytes) => {
                    self.piece(decoder, &bytes, &mut between_frames)?;
                    self.shared.packed.give(bytes);
                }
                None if between_frames => {
                    self.flush()?;
                    return Ok(true);
                }
                None => return Err(Some(self.corrupt("data follow its last block".into()))),
            }
        }
        self.flush()?;
        Ok(false)
    }

    fn piece(&mut self, decoder: &mut Decoder, bytes: &[u8], between_frames: &mut bool) -> Result<(), Stop> {
        let mut input = InBuffer::around(bytes);
        loop {
            let before = input.pos();
            let mut output = OutBuffer::around_pos(self.out.as_mut_slice(), self.filled);
            let hint = decoder.run(&mut input, &mut output);
            self.filled = output.pos();
            self.at += (input.pos() - before) as u64;
            match hint {
                Ok(hint) => *between_frames = hint == 0,
                Err(error) => return Err(Some(self.failed(&error))),
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

    fn flush(&mut self) -> Result<(), Stop> {
        if self.filled == 0 {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.out, self.shared.chunk());
        let chunk = Unpacked { data, len: std::mem::take(&mut self.filled), consumed: self.at };
        self.job.out.send(Ok(chunk)).map_err(|_| None)
    }

    /// Returns the error for a decoder that failed: refused memory, or damage.
    fn failed(&self, error: &std::io::Error) -> Error {
        if is_refused_memory(error) {
            return self.system(std::io::ErrorKind::OutOfMemory.into());
        }
        self.corrupt(error.to_string())
    }

    fn corrupt(&self, detail: String) -> Error {
        let problem = CompressionProblem::Corrupt { compression: Compression::Zstd, detail };
        Error::bad_input(&self.shared.name, self.frame, problem)
    }

    fn system(&self, error: std::io::Error) -> Error {
        Error::io("decompress", &*self.shared.name)(error)
    }
}

/// True for `ZSTD_error_memory_allocation` of zstd_errors.h.
fn is_refused_memory(error: &std::io::Error) -> bool {
    const MEMORY_ALLOCATION: usize = 64;
    error.to_string() == zstd_safe::get_error_name(MEMORY_ALLOCATION.wrapping_neg())
}

impl Drop for JobRun<'_> {
    fn drop(&mut self) {
        self.shared.chunks.give(std::mem::take(&mut self.out));
    }
}

fn new_decoder() -> std::io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    // The scanner has checked the window, so only libzstd's own limit counts.
    decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
    Ok(decoder)
}

const CONTEXT: usize = 256 << 10;

/// Memory of libzstd in addition to the window, in bytes: its context and its input buffer.
pub(super) fn decoder_overhead() -> u64 {
    (zstd_safe::DCtx::in_size() + zstd_safe::DCtx::out_size() + CONTEXT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_memory_is_not_damage() {
        assert!(is_refused_memory(&std::io::Error::other("Allocation error : not enough memory")));
        let mut decoder = Decoder::new().expect("memory");
        let damaged = decoder.run(&mut InBuffer::around(b"no zstd frame"), &mut OutBuffer::around(&mut [0u8; 64][..]));
        assert!(!is_refused_memory(&damaged.expect_err("no frame")));
    }
}
