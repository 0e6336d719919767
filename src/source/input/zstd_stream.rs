//! zstd, decompressed in parallel if there is more than one frame.
//!
//! The scanner finds the ends of frames by block headers, and hands out sequences of complete frames as jobs. Workers
//! decompress them. The consumer takes the chunks of the jobs in the order of the input. A single large frame is one job
//! that passes in pieces. All channels are bounded:
//!
//! ```text
//!   scanner ──jobs──► worker, worker, ...
//!      │                 │ chunks of each job (at most CHUNKS_PER_JOB waiting)
//!      └──jobs in order──┴──► consumer
//! ```
//!
//! No deadlock: jobs are taken in order, so the job that the consumer waits for always has a worker.
//!
//! Memory: a frame's window is checked before the frame is decompressed. While each frame fits the share of its worker, all
//! work in parallel. The first frame that does not fit, and all after it, go to one worker, which gets the rest.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::ahead::{Unpacked, UnpackedQueue, UnpackedStream};
use super::detect;
use super::source::InputReader;
use super::zstd_frame::{
    BLOCK_HEADER, CHECKSUM, FrameHeader, FrameProblem, MAX_BLOCK, MAX_FRAME_HEADER, block_header, frame_header,
};
use super::zstd_worker::{CHUNK, MAX_WINDOW_LOG, Pool, Stop, UnpackJob, WorkerShared, decoder_overhead, work};
use super::{Compression, CompressionProblem, Restart};
use crate::error::{Error, Result};

/// Compressed bytes after which a piece is sent, and after which a job of complete frames ends.
const PIECE: usize = 256 << 10;
/// Pieces that wait for a worker.
const PIECES_PER_JOB: usize = 2;
/// Chunks that wait for the consumer. A job with more waits for its turn.
const CHUNKS_PER_JOB: usize = 8;
/// Most memory of a job without windows: pieces waiting, filled and in work; chunks waiting, filled and handed out.
const JOB_BYTES: u64 = ((PIECES_PER_JOB + 2) * (PIECE + MAX_BLOCK) + (CHUNKS_PER_JOB + 2) * CHUNK) as u64;
/// Starts of jobs that are kept: more than the consumer may have in work.
const STARTS: usize = 4096;
const MAX_WINDOW: u64 = 1 << MAX_WINDOW_LOG;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    workers: usize,
    /// Bytes for the windows of all workers.
    windows: u64,
}

impl Shares {
    /// Divides `memory`: at most half is for pieces and chunks, the rest for windows.
    fn new(threads: usize, memory: u64) -> Self {
        // Each worker has a job in work and one that waits.
        let affordable = usize::try_from(memory / 2 / (2 * JOB_BYTES)).unwrap_or(usize::MAX);
        let workers = threads.min(affordable).max(1);
        let buffers = 2 * JOB_BYTES * workers as u64 + decoder_overhead() * workers as u64;
        Self { workers, windows: memory.saturating_sub(buffers) }
    }

    /// Largest window of a frame that is decompressed beside others.
    fn parallel(&self) -> u64 {
        self.windows / 2 / self.workers as u64
    }

    /// Largest window if no other job will start and `others` workers keep theirs.
    fn alone(&self, others: usize) -> u64 {
        self.windows - self.parallel() * others as u64
    }
}

/// A result of the scanner, in the order of the input.
enum Scanned {
    /// A job, and the offset of its first frame in the input.
    Job(Receiver<Result<Unpacked>>, u64),
    End {
        consumed: u64,
    },
}

struct Scanner {
    source: InputReader,
    /// Start of Forest's index, where reading may end.
    until: Option<u64>,
    /// True if the index is read too, for the checksum.
    drains: bool,
    shares: Shares,
    started: usize,
    /// True if a window was too large to be beside others.
    alone: bool,
    shared: Arc<WorkerShared>,
    jobs: Sender<UnpackJob>,
    scanned: Sender<Result<Scanned>>,
    /// The open job, its bytes so far, and the next piece for it.
    job: Option<Sender<Option<Vec<u8>>>>,
    job_bytes: usize,
    piece: Vec<u8>,
}

impl Scanner {
    fn run(mut self, end: Option<u64>) {
        let last = match self.scan() {
            Ok(()) => Ok(Scanned::End { consumed: end.filter(|_| self.until.is_some()).unwrap_or(self.source.offset) }),
            Err(Some(error)) => {
                // The bytes before the error are decompressed and delivered. Without an end mark the worker does not
                // report the missing rest.
                if self.send_piece().is_err() {
                    return;
                }
                Err(error)
            }
            Err(None) => return,
        };
        self.job = None;
        // A failure here has no receiver.
        self.scanned.send(last).ok();
    }

    fn scan(&mut self) -> Result<(), Stop> {
        while detect::next_frame(&mut self.source, Compression::Zstd, self.until)? {
            self.frame()?;
            if self.job_bytes >= PIECE && !self.alone {
                self.end_job()?;
            }
        }
        self.end_job()?;
        if self.drains {
            self.source.skip(u64::MAX)?;
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<(), Stop> {
        let start = self.source.offset;
        let header = frame_header(self.source.peek(MAX_FRAME_HEADER)?);
        let header = header.map_err(|problem| self.refused(start, problem))?;
        self.validate_header(start, &header)?;
        if self.job.is_none() {
            self.start_job(start)?;
        }
        self.append(header.len)?;
        loop {
            let block = block_header(self.source.peek(BLOCK_HEADER)?);
            let block = block.map_err(|problem| self.refused(start, problem))?;
            self.append(BLOCK_HEADER + block.len)?;
            if block.last {
                break;
            }
            if self.piece.len() >= PIECE {
                self.send_piece()?;
            }
        }
        if header.checksum {
            self.append(CHECKSUM)?;
        }
        Ok(())
    }

    /// Checks if a frame may be decompressed at all, and beside others.
    fn validate_header(&mut self, start: u64, header: &FrameHeader) -> Result<()> {
        let FrameHeader { window, dictionary, .. } = *header;
        if dictionary != 0 {
            return Err(self.source.bad(start, CompressionProblem::DictionaryNeeded { id: dictionary }));
        }
        if window > MAX_WINDOW {
            return Err(self.source.bad(start, CompressionProblem::WindowTooLarge { window, most: MAX_WINDOW }));
        }
        if window <= self.shares.parallel() {
            return Ok(());
        }
        // The frame goes to the worker with the open job, to a new one, or to an existing one.
        let among_started = self.job.is_some() || self.started == self.shares.workers;
        let limit = self.shares.alone(self.started - usize::from(among_started));
        if window > limit {
            let problem = CompressionProblem::NeedsMemory { compression: Compression::Zstd, needed: window, limit };
            return Err(self.source.bad(start, problem));
        }
        self.alone = true;
        Ok(())
    }

    fn refused(&self, start: u64, problem: FrameProblem) -> Error {
        match problem {
            FrameProblem::Cut => self.source.truncated(Compression::Zstd),
            other => {
                let detail = other.to_string();
                self.source.bad(start, CompressionProblem::Corrupt { compression: Compression::Zstd, detail })
            }
        }
    }

    fn append(&mut self, count: usize) -> Result<()> {
        self.job_bytes += count;
        if self.source.append(count, &mut self.piece)? { Ok(()) } else { Err(self.source.truncated(Compression::Zstd)) }
    }

    fn start_job(&mut self, start: u64) -> Result<(), Stop> {
        let (pieces_in, pieces) = bounded(PIECES_PER_JOB);
        let (out, unpacked) = bounded(CHUNKS_PER_JOB);
        if self.started < self.shares.workers {
            let shared = self.shared.clone();
            thread::Builder::new()
                .name(format!("bedload-zstd-{}", self.started))
                .spawn(move || work(&shared))
                .map_err(Error::io("start a decompression thread for", &self.source.name))?;
            self.started += 1;
        }
        self.scanned.send(Ok(Scanned::Job(unpacked, start))).map_err(|_| None)?;
        self.jobs.send(UnpackJob { start, pieces, out }).map_err(|_| None)?;
        self.job = Some(pieces_in);
        self.job_bytes = 0;
        Ok(())
    }

    fn send_piece(&mut self) -> Result<(), Stop> {
        let Some(job) = self.job.as_ref().filter(|_| !self.piece.is_empty()) else { return Ok(()) };
        let mut empty = self.shared.packed.take();
        empty.clear();
        let piece = std::mem::replace(&mut self.piece, empty);
        job.send(Some(piece)).map_err(|_| None)
    }

    fn end_job(&mut self) -> Result<(), Stop> {
        self.send_piece()?;
        match self.job.take() {
            Some(job) => job.send(None).map_err(|_| None),
            None => Ok(()),
        }
    }
}

/// The jobs of workers, and the chunks of the open one.
pub(super) struct ZstdJobs {
    scanned: Receiver<Result<Scanned>>,
    job: Option<Receiver<Result<Unpacked>>>,
    chunks: Pool,
    /// Offset in the decompressed bytes after the last chunk.
    unpacked: u64,
    /// Starts of the last jobs: offsets in the decompressed and in the compressed bytes.
    starts: Mutex<VecDeque<(u64, u64)>>,
}

/// Decompresses `source` on up to `threads` threads with at most `memory` bytes. `tail` has the start of Forest's index
/// and the end of the file; the index is read only if `drains`. `unpacked` bytes precede `source`.
pub(super) fn spawn(
    source: InputReader,
    threads: usize,
    memory: u64,
    tail: Option<(u64, u64)>,
    drains: bool,
    unpacked: u64,
) -> Result<UnpackedStream<ZstdJobs>> {
    let name: Arc<Path> = Arc::from(source.name.as_path());
    let shares = Shares::new(threads, memory);
    let (jobs, jobs_out) = bounded(shares.workers);
    let (scanned, scanned_out) = bounded(shares.workers);
    let (packed, chunks) = (Pool::default(), Pool::default());
    let shared = Arc::new(WorkerShared { name: name.clone(), jobs: jobs_out, packed, chunks: chunks.clone() });
    let (started, alone, job, job_bytes, piece) = Default::default();
    let until = tail.map(|(index, _)| index);
    let scanner =
        Scanner { source, until, drains, shares, started, alone, shared, jobs, scanned, job, job_bytes, piece };
    thread::Builder::new()
        .name("bedload-scan".into())
        .spawn(move || scanner.run(tail.map(|(_, end)| end)))
        .map_err(Error::io("start a decompression thread for", &*name))?;
    let jobs = ZstdJobs { scanned: scanned_out, job: None, chunks, unpacked, starts: Mutex::default() };
    Ok(UnpackedStream::new(&name, jobs))
}

impl UnpackedQueue for ZstdJobs {
    fn next(&mut self, spent: Vec<u8>) -> Option<Result<Unpacked>> {
        self.chunks.give(spent);
        let mut is_cut = false;
        loop {
            if let Some(job) = &self.job {
                match job.recv() {
                    // The end of the job.
                    Ok(Ok(chunk)) if chunk.len == 0 => {}
                    Ok(chunk) => {
                        self.unpacked += chunk.as_ref().map_or(0, |chunk| chunk.len as u64);
                        return Some(chunk);
                    }
                    // The job has no end; the scanner reports the reason.
                    Err(_) => is_cut = true,
                }
                self.job = None;
            }
            match self.scanned.recv().ok()? {
                Err(error) => return Some(Err(error)),
                Ok(_) if is_cut => return None,
                Ok(Scanned::End { consumed }) => return Some(Ok(Unpacked { consumed, ..Unpacked::default() })),
                Ok(Scanned::Job(job, start)) => {
                    self.job = Some(job);
                    let starts = self.starts.get_mut();
                    starts.push_back((self.unpacked, start));
                    if starts.len() > STARTS {
                        starts.pop_front();
                    }
                }
            }
        }
    }

    fn restart(&self, before: u64) -> Option<Restart> {
        let mut starts = self.starts.lock();
        while starts.get(1).is_some_and(|(unpacked, _)| *unpacked <= before) {
            starts.pop_front();
        }
        let (unpacked, packed) = starts.front().copied().filter(|(unpacked, _)| *unpacked <= before)?;
        Some(Restart { unpacked, packed, hash: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_the_memory() {
        for threads in [1, 2, 8, 64, 1000] {
            for memory in (16..40).map(|log| 1u64 << log) {
                let shares = Shares::new(threads, memory);
                assert!((1..=threads).contains(&shares.workers), "{shares:?}");
                let others = shares.workers - 1;
                let windows = shares.alone(others) + shares.parallel() * others as u64;
                assert!(windows <= memory, "{shares:?} of {memory}");
                assert!(shares.parallel() <= shares.alone(others), "{shares:?}");
            }
        }
        assert_eq!(Shares::new(8, 4 << 30).workers, 8);
    }
}
