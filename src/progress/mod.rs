//! Progress of an import: counters that the work adds to per batch, and a sampler that reads them for the observer.

mod eta;
mod event;
pub(crate) mod plan;
mod rates;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub(crate) use eta::PhaseWeights;
pub use event::{Backlog, Event, Network, Observer, Phase, Sample, Silent, Writes};

use crate::error::{Error, Result};
use crate::os::{caller_code, resources};
use crate::parallel;

/// Stops a call at its next safe point. All clones share one state, which is cheap to read.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(std::sync::Arc<AtomicBool>);

impl CancellationToken {
    /// Cancels every call whose options have a clone of this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if [`CancellationToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the given error once the work is cancelled.
    pub(crate) fn check(&self, interrupted: fn() -> Error) -> Result<()> {
        if self.is_cancelled() { Err(interrupted()) } else { Ok(()) }
    }
}

const INTERVAL: Duration = Duration::from_millis(100);

/// The most samples kept for the report; beyond it every second one is dropped and the distance doubled.
const MAX_SAMPLES: usize = 512;

/// Equal steps of the source, each of which gets a sample of its own.
const STEPS: u128 = 64;

/// The counters of one import, and its clock.
pub(crate) struct Progress<'a> {
    observer: &'a dyn Observer,
    /// True once the observer has panicked: nothing more is reported to it.
    has_observer_panicked: AtomicBool,
    start: Instant,
    bytes: AtomicU64,
    /// `u64::MAX` if unknown.
    total: AtomicU64,
    blocks: AtomicU64,
    /// Bytes of this phase that an earlier run processed.
    earlier: AtomicU64,
    expected_blocks: AtomicU64,
    backlog: Mutex<Option<Backlog>>,
    network: Mutex<Option<Box<dyn Fn() -> Network + Send>>>,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    phase: Phase,
    phase_start: f64,
    /// Seconds of each finished phase.
    done: Vec<(Phase, f64)>,
    samples: Vec<Sample>,
    /// Steps of the source that were read.
    steps: u128,
    rate: rates::IntervalRate,
    eta: eta::Eta,
    /// Samples of the sampler per sample kept, and samples since the last kept one.
    every: u32,
    skipped: u32,
}

impl<'a> Progress<'a> {
    pub fn new(observer: &'a dyn Observer) -> Self {
        Self {
            observer,
            has_observer_panicked: AtomicBool::new(false),
            start: Instant::now(),
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(u64::MAX),
            blocks: AtomicU64::new(0),
            earlier: AtomicU64::new(0),
            expected_blocks: AtomicU64::new(0),
            backlog: Mutex::default(),
            network: Mutex::default(),
            times: Mutex::new(Times { every: 1, ..Times::default() }),
        }
    }

    /// Ends the current phase and begins `phase`, which has `total` bytes to go through.
    pub fn begin(&self, phase: Phase, total: Option<u64>) {
        self.end();
        let cpu = resources::cpu_seconds();
        // The lock keeps the sampler from mixing the counters of two phases.
        let mut times = self.times.lock();
        times.phase = phase;
        for counter in [&self.bytes, &self.blocks, &self.expected_blocks] {
            counter.store(0, Ordering::Relaxed);
        }
        self.set_backlog(None);
        self.total.store(total.unwrap_or(u64::MAX), Ordering::Relaxed);
        let seconds = self.start.elapsed().as_secs_f64();
        times.eta.begin(phase, seconds, cpu);
        times.rate.begin(0, seconds);
        times.steps = 0;
        drop(times);
        self.report(&Event::Phase { phase });
    }

    pub fn end(&self) {
        let sample = self.now();
        let mut times = self.times.lock();
        let seconds = sample.seconds - times.phase_start;
        times.phase_start = sample.seconds;
        times.done.push((sample.phase, seconds));
        times.samples.push(sample);
        drop(times);
        let Sample { phase, bytes, blocks, .. } = sample;
        let earlier_bytes = self.earlier.swap(0, Ordering::Relaxed);
        self.report(&Event::PhaseDone { phase, seconds, bytes, blocks, earlier_bytes });
    }

    pub fn report(&self, event: &Event) {
        self.call_observer(|observer| observer.event(event));
    }

    /// Calls the observer. A panic in it ends the reporting, but not the work.
    fn call_observer(&self, call: impl FnOnce(&dyn Observer)) {
        if !self.has_observer_panicked.load(Ordering::Relaxed)
            && caller_code::call("the observer", || call(self.observer)).is_err()
        {
            self.has_observer_panicked.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the total of blocks of this phase, which an index counts.
    pub fn expect_blocks(&self, blocks: u64) {
        self.expected_blocks.store(blocks, Ordering::Relaxed);
    }

    /// Sets the weights of the phases from the next one on.
    pub fn expect(&self, weights: PhaseWeights) {
        self.times.lock().eta.expect(weights);
    }

    /// Adds to the counters; called per batch.
    pub fn add(&self, bytes: u64, blocks: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Adds to the counters of a block log and updates its rate; called per batch.
    pub fn advance(&self, bytes: u64, blocks: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.blocks.fetch_add(blocks, Ordering::Relaxed);
        let mut times = self.times.lock();
        times.rate.reach(before, before + blocks, self.start.elapsed().as_secs_f64());
        self.keep_step(&mut times);
    }

    /// Adds what an earlier run did of this phase. It counts as done, but not for the speed.
    pub fn add_earlier(&self, bytes: u64, blocks: u64) {
        self.add(bytes, blocks);
        self.earlier.fetch_add(bytes, Ordering::Relaxed);
        let cpu = resources::cpu_seconds();
        let mut times = self.times.lock();
        let sample = self.counters(&times);
        times.eta.resume(sample.done().unwrap_or_default(), sample.seconds, cpu);
        if sample.phase == Phase::Read {
            // Earlier samples would distort the speed of this run.
            times.samples.retain(|sample| sample.phase != Phase::Read);
            times.samples.push(sample);
            times.rate.begin(sample.blocks, sample.seconds);
        }
    }

    /// Sets the bytes done, if they are not a sum of batches; called once per some MiB.
    pub fn reach(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
        self.keep_step(&mut self.times.lock());
    }

    /// Keeps a sample at each 64th of the source: the sampler's are too far apart in a short import.
    fn keep_step(&self, times: &mut Times) {
        let (bytes, total) = (self.bytes.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let step = u128::from(bytes) * STEPS / u128::from(total.max(1));
        if times.phase == Phase::Read && step > times.steps {
            times.steps = step;
            let sample = self.counters(times);
            times.samples.push(sample);
        }
    }

    /// Sets RocksDB's backlog; the next phase begins without one.
    pub fn set_backlog(&self, backlog: Option<Backlog>) {
        *self.backlog.lock() = backlog;
    }

    /// Sets the function that reads the state of the network while the source is read.
    pub fn watch_network(&self, network: impl Fn() -> Network + Send + 'static) {
        *self.network.lock() = Some(Box::new(network));
    }

    pub fn now(&self) -> Sample {
        self.counters(&self.times.lock())
    }

    fn counters(&self, times: &Times) -> Sample {
        let total = self.total.load(Ordering::Relaxed);
        let phase = times.phase;
        Sample {
            seconds: self.start.elapsed().as_secs_f64(),
            phase,
            bytes: self.bytes.load(Ordering::Relaxed),
            total: (total != u64::MAX).then_some(total),
            blocks: self.blocks.load(Ordering::Relaxed),
            backlog: *self.backlog.lock(),
            network: self.network.lock().as_ref().filter(|_| phase == Phase::Read).map(|network| network()),
            total_blocks: Some(self.expected_blocks.load(Ordering::Relaxed)).filter(|&blocks| blocks > 0),
            interval_blocks_per_second: (phase == Phase::Read).then_some(times.rate.rate).flatten(),
            seconds_left: None,
        }
    }

    /// Seconds of each phase that is over.
    pub fn phase_seconds(&self) -> Vec<(Phase, f64)> {
        self.times.lock().done.clone()
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.times.lock().samples.clone()
    }

    /// Runs `work` with samples for `observer`. Returns its result and its duration in seconds.
    pub fn timed<T>(observer: &dyn Observer, work: impl FnOnce(&Progress<'_>) -> Result<T>) -> Result<(T, f64)> {
        let progress = Progress::new(observer);
        let result = progress.sampled(|| work(&progress));
        progress.end();
        result.map(|result| (result, progress.start.elapsed().as_secs_f64()))
    }

    /// Runs `work`, and sends samples to the observer from another thread.
    pub fn sampled<T>(&self, work: impl FnOnce() -> T) -> T {
        let (over, is_over) = crossbeam_channel::bounded::<()>(0);
        std::thread::scope(|scope| {
            let sample = move || {
                while is_over.recv_timeout(INTERVAL) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
                    let sample = self.sample();
                    self.call_observer(|observer| observer.sample(&sample));
                }
            };
            // If the thread cannot be started, the work runs without samples.
            let _ = parallel::start(scope, sample);
            let result = work();
            drop(over);
            result
        })
    }

    /// Returns the counters with the estimate of the seconds left, and keeps them for the report.
    fn sample(&self) -> Sample {
        let cpu = resources::cpu_seconds();
        let mut times = self.times.lock();
        let sample = self.counters(&times);
        let seconds_left = times.eta.seconds_left(sample.done(), sample.seconds, cpu);
        let sample = Sample { seconds_left, ..sample };
        times.skipped += 1;
        if times.skipped >= times.every {
            times.skipped = 0;
            times.samples.push(sample);
            if times.samples.len() > MAX_SAMPLES {
                times.samples = times.samples.iter().skip(1).step_by(2).copied().collect();
                times.every *= 2;
            }
        }
        sample
    }
}
