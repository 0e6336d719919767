//! How far an import is: a handful of counters that the work adds to per batch, a sampler that reads them, and the
//! caller's observer.

mod eta;
mod rates;
mod throughput;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub(crate) use eta::PhaseWeights;
pub use rates::Speed;
pub use throughput::{ReadStep, Throughput};

use crate::error::Result;
use crate::os::resources;
use crate::parallel;

/// What an import is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
#[non_exhaustive]
pub enum Phase {
    /// Opening the source and choosing a plan.
    Plan,
    /// Reading the source, checking every block, and spilling what does not fit.
    Read,
    /// Sorting, and building SST files.
    Build,
    /// RocksDB ingests the files.
    Ingest,
    /// Bringing the database into its final form.
    Compact,
    /// Counting and digesting what the finished database holds.
    Check,
    /// Giving it its final name.
    Commit,
    /// Checking the records of a database.
    Verify,
    /// Following links through a database.
    Walk,
    /// Writing blocks of a database into a snapshot.
    Export,
    /// Making up a snapshot.
    Generate,
    /// Measuring the machine.
    Measure,
    /// Importing a sample of a snapshot, to see how long all of it would take.
    Sample,
}

impl Phase {
    const ALL: [Self; 13] = [
        Self::Plan,
        Self::Read,
        Self::Build,
        Self::Ingest,
        Self::Compact,
        Self::Check,
        Self::Commit,
        Self::Verify,
        Self::Walk,
        Self::Export,
        Self::Generate,
        Self::Measure,
        Self::Sample,
    ];

    /// Its name in output and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Read => "read",
            Self::Build => "build",
            Self::Ingest => "ingest",
            Self::Compact => "compact",
            Self::Check => "check",
            Self::Commit => "commit",
            Self::Verify => "verify",
            Self::Walk => "walk",
            Self::Export => "export",
            Self::Generate => "generate",
            Self::Measure => "measure",
            Self::Sample => "sample",
        }
    }
}

/// The counters at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Seconds since the start.
    pub seconds: f64,
    /// The phase at that time.
    pub phase: Phase,
    /// Bytes done in this phase: of the source as stored on disk while reading, of blocks while building.
    pub bytes: u64,
    /// Bytes this phase has in all, where that is known.
    pub total: Option<u64>,
    /// Blocks done in this phase; measurements while the machine is measured.
    pub blocks: u64,
    /// Blocks this phase has in all, where an index says so.
    pub total_blocks: Option<u64>,
    /// RocksDB's backlog, while it is written to or compacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// The network, while a source is read from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Blocks a second over the last whole 100,000 blocks, while a block log is read; none before the first of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_blocks_per_second: Option<f64>,
    /// How many seconds are left of this phase and those that follow, where that can be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
}

impl Sample {
    /// The share of this phase that is done, from 0 to 1: of blocks where an index has counted them, else of bytes.
    pub fn done(&self) -> Option<f64> {
        let of = |done: u64, total: u64| done.min(total) as f64 / total.max(1) as f64;
        match (self.total_blocks, self.total) {
            (Some(total), _) => Some(of(self.blocks, total)),
            (None, total) => total.filter(|&total| total > 0).map(|total| of(self.bytes, total)),
        }
    }
}

/// What comes from the network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Network {
    /// Bytes that have come.
    pub received_bytes: u64,
    /// Connections at once.
    pub connections: u64,
    /// Seconds that the work has waited for it: what is not waited for is slower than the network.
    pub waited_seconds: f64,
}

impl Network {
    pub(crate) fn new(received_bytes: u64, connections: u64, waited_seconds: f64) -> Self {
        Self { received_bytes, connections, waited_seconds }
    }
}

/// RocksDB's backlog.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backlog {
    /// Files at level 0.
    pub level0_files: u64,
    /// Bytes that compactions have yet to move: RocksDB's estimate, or what is left of the final compaction.
    pub pending_bytes: u64,
    /// Whether it stalls writers.
    pub writes: Writes,
}

/// Whether RocksDB stalls writers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Writes {
    /// As fast as they can.
    Flow,
    /// Slower: flushes or compactions are behind.
    Delayed,
    /// Not at all.
    Stopped,
}

/// Rare events, which are reported at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A plan has been chosen: one line for people.
    Planned {
        /// The plan in words.
        plan: String,
    },
    /// A phase begins.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// A phase is over.
    PhaseDone {
        /// Which.
        phase: Phase,
        /// How long it took.
        seconds: f64,
        /// Bytes it went through.
        bytes: u64,
        /// Blocks it went through.
        blocks: u64,
        /// Of the bytes, those that an earlier run had gone through.
        earlier_bytes: u64,
    },
    /// An earlier run is resumed.
    Resumed {
        /// Bytes of the source that need not be read again.
        source_bytes: u64,
        /// SST files that are built already.
        built_files: u64,
    },
    /// The blocks of a source of unknown size do not fit the memory for them: from here on they go through files.
    Spills {
        /// Bytes of blocks and entries that may be held.
        held_bytes: u64,
    },
    /// A problem that the user should know and that does not stop the import.
    Warning {
        /// The text of the warning.
        message: String,
    },
}

/// Receives the progress of an import: events from the thread that runs it, samples from a thread of bedload's own. Both
/// methods must return quickly. If one of them panics, the import continues and calls neither of them again.
///
/// ```
/// use bedload::progress::{Event, Observer, Sample};
///
/// struct Log;
///
/// impl Observer for Log {
///     fn event(&self, event: &Event) {
///         if let Event::PhaseDone { phase, seconds, .. } = event {
///             println!("{} took {seconds:.1} s", phase.name());
///         }
///     }
///
///     fn sample(&self, sample: &Sample) {
///         println!("{}: {} of {:?} bytes", sample.phase.name(), sample.bytes, sample.total);
///     }
/// }
/// ```
pub trait Observer: Sync {
    /// Receives an event.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// Receives the counters, about ten times a second.
    fn sample(&self, sample: &Sample) {
        let _ = sample;
    }
}

/// Ignores everything.
#[derive(Debug, Clone, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Asks an import to stop at its next safe point. Cheap to clone and to read.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(std::sync::Arc<AtomicBool>);

impl CancellationToken {
    /// Makes the work that holds a clone of this token end soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`CancellationToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// The most samples kept for the report; beyond it every second one is dropped and the distance doubled.
const MAX_SAMPLES: usize = 512;

/// The counters of one import, and its clock.
pub(crate) struct Progress<'a> {
    observer: &'a dyn Observer,
    /// True once the observer has panicked: nothing more is reported to it.
    has_observer_panicked: AtomicBool,
    start: Instant,
    phase: AtomicU8,
    bytes: AtomicU64,
    /// `u64::MAX` stands for unknown.
    total: AtomicU64,
    blocks: AtomicU64,
    /// Bytes of this phase that an earlier run had done.
    earlier: AtomicU64,
    expected_blocks: AtomicU64,
    backlog: Mutex<Option<Backlog>>,
    network: Mutex<Option<Box<dyn Fn() -> Network + Send>>>,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    phase_start: f64,
    done: Vec<(Phase, f64)>,
    samples: Vec<Sample>,
    throughput: throughput::SampledThroughput,
    rates: rates::IntervalRates,
    eta: eta::Eta,
    every: u32,
    skipped: u32,
}

impl<'a> Progress<'a> {
    pub fn new(observer: &'a dyn Observer) -> Self {
        Self {
            observer,
            has_observer_panicked: AtomicBool::new(false),
            start: Instant::now(),
            phase: AtomicU8::new(Phase::Plan as u8),
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
        // A sampler that reads meanwhile must not take the counters of one phase for those of another.
        let mut times = self.lock();
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.blocks.store(0, Ordering::Relaxed);
        self.expected_blocks.store(0, Ordering::Relaxed);
        self.set_backlog(None);
        self.total.store(total.unwrap_or(u64::MAX), Ordering::Relaxed);
        times.eta.begin(phase, self.start.elapsed().as_secs_f64(), cpu);
        drop(times);
        self.report(&Event::Phase { phase });
    }

    /// Ends the current phase.
    pub fn end(&self) {
        let sample = self.now();
        let mut times = self.lock();
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

    /// Calls the observer. A panic in it must not lose the result of the work: it is caught, and ends the reporting.
    fn call_observer(&self, call: impl FnOnce(&dyn Observer)) {
        if !self.has_observer_panicked.load(Ordering::Relaxed)
            && catch_unwind(AssertUnwindSafe(|| call(self.observer))).is_err()
        {
            self.has_observer_panicked.store(true, Ordering::Relaxed);
        }
    }

    /// Sets how many blocks this phase will have, where an index says so.
    pub fn expect_blocks(&self, blocks: u64) {
        self.expected_blocks.store(blocks, Ordering::Relaxed);
    }

    /// Sets how long the phases from the next on take in proportion to each other.
    pub fn expect(&self, weights: PhaseWeights) {
        self.lock().eta.expect(weights);
    }

    /// Adds to the counters; called per batch.
    pub fn add(&self, bytes: u64, blocks: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Adds to the counters of a log, and notes the time at every whole 100,000 blocks; called per batch.
    pub fn advance(&self, bytes: u64, blocks: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let before = self.blocks.fetch_add(blocks, Ordering::Relaxed);
        let total = self.total.load(Ordering::Relaxed);
        let mut times = self.lock();
        let since = self.start.elapsed().as_secs_f64() - times.phase_start;
        times.throughput.reach(since, bytes, total);
        times.rates.reach(before, before + blocks, since);
    }

    /// Adds what an earlier run has done of this phase: it counts as done, but not for the speed.
    pub fn take_up(&self, bytes: u64, blocks: u64) {
        self.add(bytes, blocks);
        self.earlier.fetch_add(bytes, Ordering::Relaxed);
        let cpu = resources::cpu_seconds();
        let mut times = self.lock();
        let sample = self.counters(&times);
        times.eta.take_up(sample.done().unwrap_or_default(), sample.seconds, cpu);
        if sample.phase == Phase::Read {
            let since = sample.seconds - times.phase_start;
            times.throughput.reach(since, sample.bytes, self.total.load(Ordering::Relaxed));
            times.rates.begin_behind(sample.blocks, since);
        }
    }

    /// How fast blocks were read, interval by interval.
    pub fn speed(&self) -> Vec<Speed> {
        self.lock().rates.rows()
    }

    /// Sets how many bytes are done, where that is not a sum of batches; called once for megabytes.
    pub fn reach(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
        if self.phase.load(Ordering::Relaxed) != Phase::Read as u8 {
            // The throughput is that of reading alone.
            return;
        }
        let total = self.total.load(Ordering::Relaxed);
        let mut times = self.lock();
        let since = self.start.elapsed().as_secs_f64() - times.phase_start;
        times.throughput.reach(since, bytes, total);
    }

    /// How fast the ends of the source were read, as far as that is known.
    pub fn throughput(&self) -> Throughput {
        self.lock().throughput.of_ends()
    }

    /// When each step of the source had been taken, as far as that is known.
    pub fn reading_steps(&self) -> Vec<ReadStep> {
        self.lock().throughput.steps()
    }

    /// Sets RocksDB's backlog; the next phase begins without one.
    pub fn set_backlog(&self, backlog: Option<Backlog>) {
        *self.backlog.lock() = backlog;
    }

    /// Says what the network gives while the source is read.
    pub fn watch_network(&self, network: impl Fn() -> Network + Send + 'static) {
        *self.network.lock() = Some(Box::new(network));
    }

    pub fn now(&self) -> Sample {
        self.counters(&self.lock())
    }

    fn counters(&self, times: &Times) -> Sample {
        let total = self.total.load(Ordering::Relaxed);
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        let phase = Phase::ALL.get(phase).copied().unwrap_or(Phase::Plan);
        Sample {
            seconds: self.start.elapsed().as_secs_f64(),
            phase,
            bytes: self.bytes.load(Ordering::Relaxed),
            total: (total != u64::MAX).then_some(total),
            blocks: self.blocks.load(Ordering::Relaxed),
            backlog: *self.backlog.lock(),
            network: self.network.lock().as_ref().filter(|_| phase == Phase::Read).map(|network| network()),
            total_blocks: Some(self.expected_blocks.load(Ordering::Relaxed)).filter(|&blocks| blocks > 0),
            interval_blocks_per_second: (phase == Phase::Read).then(|| times.rates.last()).flatten(),
            seconds_left: None,
        }
    }

    /// The counters now, and the estimate of the seconds left.
    fn sample(&self) -> Sample {
        let cpu = resources::cpu_seconds();
        let mut times = self.lock();
        let sample = self.counters(&times);
        let seconds_left = times.eta.seconds_left(sample.done(), sample.seconds, cpu);
        Sample { seconds_left, ..sample }
    }

    /// Seconds of each phase that is over.
    pub fn phase_seconds(&self) -> Vec<(Phase, f64)> {
        self.lock().done.clone()
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.lock().samples.clone()
    }

    /// Does all of `work` with samples for `observer`. Returns what it returned, and the seconds that it took.
    pub fn timed<T>(observer: &dyn Observer, work: impl FnOnce(&Progress<'_>) -> Result<T>) -> Result<(T, f64)> {
        let progress = Progress::new(observer);
        let result = progress.sampled(|| work(&progress));
        progress.end();
        result.map(|result| (result, progress.start.elapsed().as_secs_f64()))
    }

    /// Samples until `work` is over, on a thread beside it.
    pub fn sampled<T>(&self, work: impl FnOnce() -> T) -> T {
        let (over, is_over) = crossbeam_channel::bounded::<()>(0);
        std::thread::scope(|scope| {
            let sample = move || {
                while is_over.recv_timeout(INTERVAL) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
                    let sample = self.sample();
                    self.keep(sample);
                    self.call_observer(|observer| observer.sample(&sample));
                }
            };
            // Without a thread for it there are no samples; the work goes on.
            let _ = parallel::start(scope, sample);
            let result = work();
            drop(over);
            result
        })
    }

    fn keep(&self, sample: Sample) {
        let mut times = self.lock();
        times.skipped += 1;
        if times.skipped < times.every {
            return;
        }
        times.skipped = 0;
        times.samples.push(sample);
        if times.samples.len() > MAX_SAMPLES {
            let mut index = 0;
            times.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            times.every *= 2;
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Times> {
        self.times.lock()
    }
}
