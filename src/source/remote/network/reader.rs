//! Reads a file on the network in order, in ranges on several connections.
//!
//! Each task on the runtime takes the next part without a task, while the bytes ahead of the consumer fit the memory. A
//! part's bytes are passed on as they arrive. If a connection fails or stalls, the rest of its part is requested on another
//! one. A task that the server tells to wait leaves its part to the other tasks.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::RemoteFile;
use super::backoff::Backoff;
use super::fault::Fault;
use super::pace::{Measured, Pace};
use super::single::Single;
use crate::error::Error;

/// Time for which a connection may be much slower than the others.
const SLOW: Duration = Duration::from_secs(8);
/// The factor that counts as much slower.
const SLOWER: f64 = 8.0;
const TICK: Duration = Duration::from_millis(500);
/// Interval at which an idle task checks for work without a wake-up.
const LOOK: Duration = Duration::from_millis(200);
const JOINED: usize = 4 << 10;
/// Bytes of a part while only the first bytes are examined.
const FIRST_PART: u64 = 128 << 10;

struct Part {
    start: u64,
    len: u64,
    got: u64,
    /// The tries so far, unless a task has taken the part.
    backoff: Option<Backoff>,
    given: u64,
    pieces: VecDeque<Bytes>,
}

impl Part {
    /// Adds received bytes. Small pieces are joined: each takes more memory than its bytes.
    fn push(&mut self, piece: Bytes) {
        let last = self.pieces.pop_back();
        let piece = match last {
            Some(last) if last.len() + piece.len() <= JOINED => {
                let mut joined = last.try_into_mut().unwrap_or_else(|last| BytesMut::from(&*last));
                joined.extend_from_slice(&piece);
                joined.freeze()
            }
            last => {
                self.pieces.extend(last);
                piece
            }
        };
        self.pieces.push_back(piece);
    }
}

struct State {
    /// Parts that were taken and not yet passed on, in order.
    parts: VecDeque<Part>,
    next: u64,
    taken: u64,
    pace: Pace,
    /// True if the whole file is wanted. Until then only the bytes that the consumer waits for are requested.
    flows: bool,
    waits: bool,
    /// True if the decompressor waits for bytes. Otherwise the consumer only reads ahead.
    wanted: bool,
    closed: bool,
    failed: Option<Error>,
}

pub(super) struct Download {
    file: Arc<RemoteFile>,
    end: u64,
    state: Mutex<State>,
    came: Condvar,
    /// There may be something to do for a task.
    wake: Notify,
    received: AtomicU64,
    rate: AtomicU64,
    /// Requests that ended, and those of them that failed.
    requests: AtomicU64,
    failed: AtomicU64,
}

enum Next {
    Part { start: u64, len: u64, got: u64, backoff: Backoff },
    Wait,
    End,
}

pub(super) struct Ordered(Arc<Download>);

/// Opens the gate of a reader, so that the whole file is wanted.
#[derive(Clone)]
pub(crate) struct RemoteGate(Arc<Download>);

impl RemoteGate {
    pub fn open(&self) {
        let mut state = self.0.state.lock();
        if !std::mem::replace(&mut state.flows, true) {
            self.0.wake.notify_waiters();
        }
    }

    /// Before the gate is open: sets whether the decompressor waits for bytes.
    pub fn want(&self, wanted: bool) {
        let mut state = self.0.state.lock();
        state.wanted = wanted;
        if wanted && !state.flows {
            self.0.wake.notify_waiters();
        }
    }
}

impl RemoteFile {
    /// Reads the file from `start` to its end with `memory` bytes, and returns the gate if it has ranges; see
    /// [`Ordered::new`]. Without ranges it is read from its start.
    pub fn read_from(self: &Arc<Self>, start: u64, memory: u64) -> (Box<dyn Read + Send>, Option<RemoteGate>) {
        match self.facts.bytes.filter(|_| self.is_ranged) {
            Some(bytes) => {
                let (reader, gate) = Ordered::new(Arc::clone(self), start, bytes, memory);
                (Box::new(reader), Some(gate))
            }
            None => (Box::new(Single::new(Arc::clone(self))), None),
        }
    }
}

impl Ordered {
    /// Reads `file` from `start`, with at most `memory` bytes ahead of the consumer. Before [`RemoteGate::open`] it asks only
    /// for what the consumer waits for.
    pub fn new(file: Arc<RemoteFile>, start: u64, end: u64, memory: u64) -> (Self, RemoteGate) {
        let head = file.head.get(usize::try_from(start).unwrap_or(usize::MAX)..).unwrap_or_default();
        let head = file.head.slice_ref(head);
        let pace = Pace::new(file.network.connections, end, memory);
        let next = start + head.len() as u64;
        let len = head.len() as u64;
        let part = Part { start, len, got: len, backoff: None, given: 0, pieces: VecDeque::from([head]) };
        let tasks = pace.tasks();
        let parts = if next > start { VecDeque::from([part]) } else { VecDeque::new() };
        let (flows, waits, wanted, closed, failed) = Default::default();
        let state = Mutex::new(State { parts, next, taken: start, pace, flows, waits, wanted, closed, failed });
        let (came, wake, received, rate, requests, failed) = Default::default();
        let shared = Arc::new(Download { file, end, state, came, wake, received, rate, requests, failed });
        let runtime = &shared.file.net.handle;
        for index in 0..tasks {
            runtime.spawn(Arc::clone(&shared).work(index));
        }
        runtime.spawn(Arc::clone(&shared).measure());
        (Self(Arc::clone(&shared)), RemoteGate(shared))
    }
}

impl Read for Ordered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let shared = &*self.0;
        let mut state = shared.state.lock();
        loop {
            let count = state.give(into);
            if count > 0 || into.is_empty() {
                shared.wake.notify_waiters();
                return Ok(count);
            }
            if state.taken >= shared.end {
                return Ok(0);
            }
            if let Some(error) = state.failed.take() {
                return Err(io::Error::other(error));
            }
            if state.closed {
                return Err(io::Error::other("the download has ended after an error"));
            }
            state.waits = true;
            shared.wake.notify_waiters();
            let began = Instant::now();
            shared.came.wait(&mut state);
            state.waits = false;
            shared.file.net.add_waited(began);
        }
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.wake.notify_waiters();
    }
}

impl State {
    fn part(&mut self, start: u64) -> Option<&mut Part> {
        let at = self.parts.binary_search_by_key(&start, |part| part.start).ok()?;
        self.parts.get_mut(at)
    }

    /// Passes on the next bytes, as many as there are and fit.
    fn give(&mut self, into: &mut [u8]) -> usize {
        let mut count = 0;
        while let Some(part) = self.parts.front_mut() {
            while let Some(piece) = part.pieces.front_mut()
                && let Some(room) = into.get_mut(count..).filter(|room| !room.is_empty())
            {
                let len = piece.len().min(room.len());
                piece.copy_to_slice(room.get_mut(..len).unwrap_or_default());
                if piece.is_empty() {
                    part.pieces.pop_front();
                }
                part.given += len as u64;
                count += len;
            }
            if part.given < part.len {
                break;
            }
            self.parts.pop_front();
        }
        self.taken += count as u64;
        count
    }
}

impl Download {
    fn next(&self, index: usize) -> Next {
        let mut state = self.state.lock();
        let is_all_here = state.next >= self.end && state.parts.iter().all(|part| part.got >= part.len);
        if state.closed || state.failed.is_some() || is_all_here {
            return Next::End;
        }
        if index >= if state.flows { state.pace.connections } else { 1 } {
            return Next::Wait;
        }
        for Part { start, len, got, backoff, .. } in &mut state.parts {
            if let Some(backoff) = backoff.take() {
                return Next::Part { start: *start, len: *len, got: *got, backoff };
            }
        }
        let idle = state.parts.is_empty();
        let may = state.flows || (idle && state.waits && state.wanted);
        let len = if state.flows { state.pace.part() } else { FIRST_PART.min(state.pace.ahead()) };
        let len = len.min(self.end - state.next);
        if len == 0 || !may || (!idle && state.next + len - state.taken > state.pace.ahead()) {
            return Next::Wait;
        }
        let start = state.next;
        state.next += len;
        state.parts.push_back(Part { start, len, got: 0, backoff: None, given: 0, pieces: VecDeque::new() });
        Next::Part { start, len, got: 0, backoff: Backoff::new() }
    }

    async fn work(self: Arc<Self>, index: usize) {
        loop {
            match self.next(index) {
                Next::End => return,
                Next::Wait => drop(tokio::time::timeout(LOOK, self.wake.notified()).await),
                Next::Part { start, len, got, backoff } => match self.fetch(start, len, got, backoff).await {
                    Ok(pause) => tokio::time::sleep(pause).await,
                    Err(fault) => {
                        let error = self.file.failed(fault);
                        let mut state = self.state.lock();
                        state.failed.get_or_insert(error);
                        self.came.notify_all();
                        return;
                    }
                },
            }
        }
    }

    /// Fetches a part, with as many requests as it takes. If the server tells it to wait, other tasks may take the
    /// part, and the delay is returned.
    async fn fetch(&self, start: u64, len: u64, mut got: u64, mut backoff: Backoff) -> Result<Duration, Fault> {
        while got < len {
            let before = got;
            let outcome = self.attempt(start, len, &mut got).await;
            self.requests.fetch_add(1, Relaxed);
            if self.state.lock().closed {
                break;
            }
            let Err(fault) = outcome else { continue };
            backoff.add_received(got - before);
            if matches!(fault, Fault::Transient { .. }) {
                self.failed.fetch_add(1, Relaxed);
            }
            let is_told_to_wait = matches!(fault, Fault::Transient { pause: Some(_), .. });
            let fault = match fault {
                // A signed address may have expired: the name that was given leads to a new one.
                Fault::Permanent(problem) => self.file.resolve_again(problem).await?,
                fault => fault,
            };
            let pause = backoff.next(fault)?;
            if is_told_to_wait {
                if let Some(part) = self.state.lock().part(start) {
                    part.backoff = Some(backoff);
                }
                self.wake.notify_waiters();
                return Ok(pause);
            }
            tokio::time::sleep(pause).await;
        }
        Ok(Duration::ZERO)
    }

    /// Requests the rest of a part.
    async fn attempt(&self, start: u64, len: u64, got: &mut u64) -> Result<(), Fault> {
        let began = Instant::now();
        let first = *got;
        self.file.net.requests.fetch_add(1, Relaxed);
        let mut answer = self.file.get(start + *got..start + len).await?;
        while *got < len {
            let Some(mut piece) = answer.body.next().await? else {
                return Err(Fault::transient(format!(
                    "the connection ended {} bytes too early",
                    crate::text::size::grouped(len - *got)
                )));
            };
            piece.truncate(usize::try_from(len - *got).unwrap_or(usize::MAX));
            *got += piece.len() as u64;
            self.received.fetch_add(piece.len() as u64, Relaxed);
            self.file.net.received.fetch_add(piece.len() as u64, Relaxed);
            let mut state = self.state.lock();
            if state.closed {
                return Ok(());
            }
            let connections = state.pace.connections;
            if let Some(part) = state.part(start) {
                part.got = *got;
                part.push(piece);
            }
            drop(state);
            self.came.notify_all();
            let others = self.rate.load(Relaxed) as f64 / connections.max(1) as f64;
            let seconds = began.elapsed().as_secs_f64();
            if connections > 1
                && seconds > SLOW.as_secs_f64()
                && ((*got - first) as f64 / seconds) * SLOWER < others
                && *got < len
            {
                return Err(Fault::transient("the connection is much slower than others"));
            }
        }
        Ok(())
    }

    /// Measures throughput, and sets connections and parts by it.
    async fn measure(self: Arc<Self>) {
        let (mut before, mut waited, mut last) = (0, Duration::ZERO, Instant::now());
        loop {
            tokio::time::sleep(TICK).await;
            let seconds = last.elapsed().as_secs_f64();
            last = Instant::now();
            let received = self.received.load(Relaxed);
            let rate = (received - before) as f64 / seconds.max(0.001);
            before = received;
            let all_waited = self.file.net.waited();
            let is_waited_for = (all_waited - waited).as_secs_f64() > seconds / 10.0;
            waited = all_waited;
            self.rate.store(rate as u64, Relaxed);
            let mut state = self.state.lock();
            if state.closed || state.failed.is_some() || state.next >= self.end {
                return;
            }
            if state.flows {
                let is_waited_for = is_waited_for || state.waits;
                let requests = self.requests.swap(0, Relaxed);
                let failed = self.failed.swap(0, Relaxed);
                state.pace.measured(&Measured { rate, is_waited_for, requests, failed });
            }
            self.file.net.connections.store(state.pace.connections as u64, Relaxed);
            drop(state);
            self.wake.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_joined() {
        let mut part = Part { start: 0, len: 0, got: 0, backoff: None, given: 0, pieces: VecDeque::new() };
        let bytes = Bytes::from((0..100_000).map(|at| at as u8).collect::<Vec<_>>());
        (0..bytes.len()).for_each(|at| part.push(bytes.slice(at..=at)));
        assert!(part.pieces.len() <= bytes.len() / JOINED + 1, "{}", part.pieces.len());
        assert!(part.pieces.iter().flatten().eq(bytes.iter()));
    }
}
