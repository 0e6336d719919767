//! Threads, and the ways they share work and memory. A thread that the system refuses is an error, not a panic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex, RwLock, RwLockWriteGuard};

use crate::error::{Error, Result};

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Most threads of a command.
pub(crate) const MAX_THREADS: usize = 1024;

/// The number of threads of a command: the caller's within limits, or one per core.
pub(crate) fn count(given: Option<usize>) -> usize {
    given.unwrap_or_else(cores).clamp(1, MAX_THREADS)
}

pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(Error::io("start", "a thread"))
}

/// Checks that `count` more threads can run at once, with stacks as large as those of C++. They have ended when this returns.
pub(crate) fn check(count: usize) -> Result<()> {
    const STACK: usize = 8 << 20;
    let gate = RwLock::new(());
    let closed = gate.write();
    std::thread::scope(|scope| {
        let wait = || drop(gate.read());
        let start = |_| Builder::new().stack_size(STACK).spawn_scoped(scope, wait);
        let mut started = Vec::with_capacity(count);
        let all = (0..count).map(start).try_for_each(|thread| thread.map(|thread| started.push(thread)));
        drop(closed);
        // A scope waits for what its threads do, not for their end.
        started.into_iter().for_each(|thread| drop(thread.join()));
        all.map_err(Error::io("start", "a thread"))
    })
}

/// Runs `work`, in which RocksDB starts threads, on another thread. If the system refuses RocksDB a thread, C++ throws.
///
/// `main` and each thread of Rust's standard library have a handler for exceptions. Before an exception reaches a handler, C++
/// runs destructors, which here wait for locks that other threads hold: the program would hang. This thread has no handler, so
/// C++ ends the program at once with `std::terminate`. A panic in `work` does the same.
pub(crate) fn without_handler<T: Send, W: FnOnce() -> T + Send>(work: W) -> Result<T> {
    use std::ffi::{c_int, c_void};
    type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    // As in libc, but for a routine that may unwind: Rust puts a handler into one that may not.
    unsafe extern "C-unwind" {
        fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            routine: Routine,
            argument: *mut c_void,
        ) -> c_int;
    }
    struct Task<W, T>(Option<W>, Option<T>);
    unsafe extern "C-unwind" fn run<T, W: FnOnce() -> T>(task: *mut c_void) -> *mut c_void {
        // SAFETY: the task that the thread was started with; its owner waits for the end of the thread.
        let task = unsafe { &mut *task.cast::<Task<W, T>>() };
        task.1 = task.0.take().map(|work| work());
        std::ptr::null_mut()
    }

    let mut task = Task(Some(work), None);
    // SAFETY: `task` outlives the thread, which is joined once, and what it holds may be sent to another thread.
    let code = unsafe {
        let mut thread = std::mem::zeroed();
        let code = pthread_create(&raw mut thread, std::ptr::null(), run::<T, W>, (&raw mut task).cast());
        if code == 0 { libc::pthread_join(thread, std::ptr::null_mut()) } else { code }
    };
    let refused = std::io::Error::from_raw_os_error(if code == 0 { libc::EAGAIN } else { code });
    task.1.ok_or_else(|| Error::io("start", "a thread")(refused))
}

pub(crate) fn pool(count: usize) -> Result<rayon::ThreadPool> {
    let refused = |error| std::io::Error::new(std::io::ErrorKind::WouldBlock, error);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
    pool.map_err(|error| Error::io("start", "a thread")(refused(error)))
}

/// Threads that wait for the disk instead of the workers: a disk is fast with many requests at once. They end when this is
/// dropped and all jobs are done.
pub(crate) struct IoThreads(Sender<Box<dyn FnOnce() + Send>>);

impl IoThreads {
    pub fn start(count: usize) -> Result<Self> {
        let (sender, jobs) = crossbeam_channel::unbounded::<Box<dyn FnOnce() + Send>>();
        for _ in 0..count.max(1) {
            let jobs = jobs.clone();
            let work = move || jobs.iter().for_each(|job| job());
            Builder::new().name("bedload-io".into()).spawn(work).map_err(Error::io("start", "a thread"))?;
        }
        Ok(Self(sender))
    }

    /// Queues a job, and returns the receiver of its result. The job owns the only sender, so a job that panics disconnects
    /// the channel instead of blocking the receiver.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (sender, result) = crossbeam_channel::bounded(1);
        // The threads receive until this sender is dropped.
        let _ = self.0.send(Box::new(move || {
            // Fails if the receiver no longer needs the result.
            let _ = sender.send(job());
        }));
        result
    }
}

/// Memory that threads share for large blocks. Threads are served in the order of their requests, so a large share does not
/// wait for ever.
pub(crate) struct MemoryLimit {
    /// Bytes that may be taken at once.
    room: u64,
    state: Mutex<LimitState>,
    changed: Condvar,
}

#[derive(Default)]
struct LimitState {
    taken: u64,
    /// The numbers of the next request, and of the request that is served next.
    next: u64,
    served: u64,
}

/// A share of a [`MemoryLimit`], returned on drop.
pub(crate) struct MemoryShare<'a> {
    limit: &'a MemoryLimit,
    bytes: u64,
}

impl MemoryLimit {
    pub fn new(room: u64) -> Self {
        Self { room, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until `bytes` are free. A share that exceeds the limit is granted while no other share is taken.
    pub fn take(&self, bytes: u64) -> MemoryShare<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        self.changed.wait_while(&mut state, |state| {
            state.served != number || (state.taken > 0 && state.taken.saturating_add(bytes) > self.room)
        });
        state.served += 1;
        state.taken += bytes;
        self.changed.notify_all();
        MemoryShare { limit: self, bytes }
    }

    pub fn wait(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| state.taken > self.room);
    }

    /// Takes `bytes` without waiting, even if they exceed the limit. The next [`MemoryLimit::wait`] waits for them.
    pub fn take_now(&self, bytes: u64) -> MemoryShare<'_> {
        self.state.lock().taken += bytes;
        MemoryShare { limit: self, bytes }
    }
}

impl Drop for MemoryShare<'_> {
    fn drop(&mut self) {
        self.limit.state.lock().taken -= self.bytes;
        self.limit.changed.notify_all();
    }
}

/// Starts rayon's global pool, unless this thread belongs to another pool.
pub(crate) fn start_shared() -> std::io::Result<()> {
    use std::error::Error as _;
    if rayon::current_thread_index().is_some() {
        return Ok(());
    }
    match rayon::ThreadPoolBuilder::new().build_global() {
        // An error without a source says that the pool exists already.
        Err(error) if error.source().is_some() => Err(std::io::Error::new(std::io::ErrorKind::WouldBlock, error)),
        _ => Ok(()),
    }
}

/// Does `work` for each of `items` numbers on up to `threads` threads, each with its own worker. Returns the workers. After a
/// failure no number is begun, and the failure of the lowest number is returned.
pub(crate) fn for_each<W: Send>(
    threads: usize,
    items: usize,
    make: impl Fn() -> W,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let pull = Pull::new(0..items);
    let mut workers: Vec<W> = (0..threads.min(items).max(1)).map(|_| make()).collect();
    let run = |worker| pull.each(worker, |items, _| Ok(items.next()), |worker, item, _| work(worker, item));
    match workers.as_mut_slice() {
        // One worker needs no thread.
        [worker] => run(worker),
        workers => pull.run(workers, run),
    }
    pull.finish().map(|_| workers)
}

/// An ordered pull: threads take the items of a source one at a time and in its order, and work on them in parallel.
///
/// It reports the first fault in the order of the source, however the threads are scheduled: after a fault no item is given out,
/// and those before it are finished. An [`Error::Interrupted`] ends the pull, too, and is reported if there is no other fault.
pub(crate) struct Pull<S> {
    /// The number of items that were given out, and the source.
    source: Mutex<(u64, S)>,
    /// Locked for reading while a worker has an item.
    in_hand: RwLock<()>,
    faults: Faults,
}

/// The first fault, and the number of its item; [`Faults::NONE`] while there is none.
struct Faults {
    at: AtomicU64,
    first: Mutex<Option<Error>>,
}

/// The place of an item in the order of its source.
pub(crate) struct ItemOrder<'a> {
    faults: &'a Faults,
    number: u64,
}

impl<S: Send> Pull<S> {
    pub fn new(source: S) -> Self {
        let faults = Faults { at: AtomicU64::new(Faults::NONE), first: Mutex::default() };
        Self { source: Mutex::new((0, source)), in_hand: RwLock::default(), faults }
    }

    /// Runs `work` for each of `workers` on its own thread, until all have ended. A refused thread is a fault.
    pub fn run<W: Send>(&self, workers: impl IntoIterator<Item = W>, work: impl Fn(W) + Sync) {
        std::thread::scope(|scope| {
            for worker in workers {
                let work = &work;
                if let Err(error) = start(scope, move || work(worker)) {
                    return self.fail(error);
                }
            }
        });
    }

    /// Takes items by `next`, which one thread at a time runs, and does `work` on each, until there is none or a fault.
    pub fn each<W, T>(
        &self,
        worker: &mut W,
        mut next: impl FnMut(&mut S, &mut W) -> Result<Option<T>>,
        mut work: impl FnMut(&mut W, T, &ItemOrder<'_>) -> Result<()>,
    ) {
        loop {
            let (item, turn, in_hand) = {
                let (given, source) = &mut *self.source.lock();
                if self.faults.at.load(Ordering::Acquire) != Faults::NONE {
                    return;
                }
                *given += 1;
                let turn = ItemOrder { faults: &self.faults, number: *given };
                match next(source, worker) {
                    Ok(Some(item)) => (item, turn, self.in_hand.read()),
                    Ok(None) => return,
                    // Noted while the source is locked: no other worker may read from it again.
                    Err(error) => return self.faults.note(turn.number, error),
                }
            };
            if let Err(error) = work(worker, item, &turn) {
                // Noted while `in_hand` is locked: see `idle`.
                return self.faults.note(turn.number, error);
            }
            drop(in_hand);
        }
    }

    /// Waits until no worker has an item. `None` if a worker has failed. Only the `next` of [`Pull::each`] may call it: it has
    /// locked the source, so no item is given out meanwhile.
    pub fn idle(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        let idle = self.in_hand.write();
        (self.faults.at.load(Ordering::Acquire) == Faults::NONE).then_some(idle)
    }

    /// Notes a fault that belongs to no item; it ends the pull.
    pub fn fail(&self, error: Error) {
        self.faults.note(0, error);
    }

    /// Returns the source or the first fault, when all threads have ended.
    pub fn finish(self) -> Result<S> {
        self.faults.first.into_inner().map_or(Ok(self.source.into_inner().1), Err)
    }
}

impl Faults {
    const NONE: u64 = u64::MAX;
    /// The number of an interruption, which any other fault replaces.
    const INTERRUPTED: u64 = u64::MAX - 1;

    fn note(&self, number: u64, error: Error) {
        let number = if matches!(error, Error::Interrupted { .. }) { Self::INTERRUPTED } else { number };
        let mut first = self.first.lock();
        if number < self.at.load(Ordering::Relaxed) {
            self.at.store(number, Ordering::Release);
            *first = Some(error);
        }
    }
}

impl ItemOrder<'_> {
    /// True if an earlier item failed, so that work on this item is useless.
    pub fn is_after_fault(&self) -> bool {
        self.faults.at.load(Ordering::Relaxed) < self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn memory_limit_is_kept_and_everyone_served() {
        let limit = MemoryLimit::new(10);
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |(): &mut (), item: usize| {
            // One share in 50 is larger than all there is.
            let bytes = if item.is_multiple_of(50) { 25 } else { item as u64 % 7 };
            let _share = limit.take(bytes);
            let now = used.fetch_add(bytes, Ordering::SeqCst) + bytes;
            assert!(now <= 10 || now == 25, "{now} bytes are taken");
            most.fetch_max(now, Ordering::SeqCst);
            std::thread::yield_now();
            used.fetch_sub(bytes, Ordering::SeqCst);
            Ok(())
        };
        for_each(4, 1000, || (), work).expect("work");
        assert_eq!((limit.state.lock().taken, most.into_inner()), (0, 25));
        let share = limit.take_now(11);
        std::thread::scope(|scope| {
            scope.spawn(|| limit.wait());
            drop(share);
        });
    }

    #[test]
    fn every_item_is_done_once() {
        for threads in [1, 4] {
            let work = |sum: &mut usize, item: usize| {
                *sum += item;
                Ok(())
            };
            let sums = for_each(threads, 1000, || 0, work).expect("work");
            assert_eq!(sums.iter().sum::<usize>(), 999 * 1000 / 2);
        }
    }

    #[test]
    fn first_failure_in_order_is_returned() {
        // Item 7 fails only when a later one and a fault of the source have been noted.
        let (failed, noted) = crossbeam_channel::bounded::<()>(2);
        let pull = Pull::new(0..100);
        let usage = |hint: &str| Error::Usage { reason: String::new(), hint: hint.into() };
        let next = |items: &mut std::ops::Range<u64>, (): &mut ()| match items.next() {
            Some(10) => Err(usage("source")),
            item => Ok(item),
        };
        pull.run(0..3, |_| {
            pull.each(&mut (), next, |(), item, turn| match item {
                7 => {
                    noted.iter().take(1).for_each(drop);
                    while pull.faults.at.load(Ordering::Relaxed) == Faults::NONE {
                        std::thread::yield_now();
                    }
                    assert!(!turn.is_after_fault());
                    Err(usage("seven"))
                }
                8 => {
                    failed.send(()).expect("the channel is open");
                    Err(usage("eight"))
                }
                _ => Ok(()),
            });
        });
        assert_eq!(pull.finish().expect_err("a failure").hint(), "seven");
    }

    #[test]
    fn an_interruption_hides_no_failure() {
        for other in [3, 9] {
            let pull = Pull::new(());
            pull.faults.note(5, Error::interrupted());
            pull.faults.note(other, Error::Usage { reason: String::new(), hint: "other".into() });
            assert_eq!(pull.finish().expect_err("a failure").hint(), "other");
        }
        let work = |(): &mut (), item: usize| if item == 7 { Err(Error::interrupted()) } else { Ok(()) };
        assert!(matches!(for_each(3, 100, || (), work), Err(Error::Interrupted { .. })));
    }

    #[test]
    fn idle_workers_wait_for_release() {
        let busy = AtomicU64::new(0);
        let pull = Pull::new(0..1000u64);
        let next = |items: &mut std::ops::Range<u64>, (): &mut ()| {
            if items.start.is_multiple_of(10) {
                let idle = pull.idle();
                assert!(idle.is_some() && busy.load(Ordering::SeqCst) == 0);
            }
            Ok(items.next())
        };
        pull.run(0..4, |_| {
            pull.each(&mut (), next, |(), _, _| {
                busy.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                busy.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            });
        });
        pull.fail(Error::interrupted());
        assert!(pull.idle().is_none());
    }
}
