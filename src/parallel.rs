//! Threads for a part of the work. Where the system refuses one, the standard library panics; here it is an error.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Starts a thread in `scope`.
///
/// # Errors
/// [`Error::Io`]: the system has no thread, or no memory for its stack. Threads of the scope that run already must then
/// be told to end.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(Error::io("start", "a thread"))
}

/// Runs `work` on `count` threads until all have ended. `refused` is told that the system refuses one: it must see to it
/// that the others end.
pub(crate) fn run_workers(count: usize, work: impl Fn() + Sync, refused: impl FnOnce(Error)) {
    std::thread::scope(|scope| {
        for _ in 0..count {
            if let Err(error) = start(scope, &work) {
                return refused(error);
            }
        }
    });
}

/// Checks that `count` more threads can run at once, with stacks as large as those of C++.
///
/// # Errors
/// As [`start`].
pub(crate) fn check(count: usize) -> Result<()> {
    const STACK: usize = 8 << 20;
    let gate = parking_lot::RwLock::new(());
    let closed = gate.write();
    std::thread::scope(|scope| {
        let wait = || drop(gate.read());
        let start = |_| Builder::new().stack_size(STACK).spawn_scoped(scope, wait).map(drop);
        let started: std::io::Result<()> = (0..count).try_for_each(start);
        drop(closed);
        started.map_err(Error::io("start", "a thread"))
    })
}

/// A pool of `count` threads.
///
/// # Errors
/// As [`start`].
pub(crate) fn pool(count: usize) -> Result<rayon::ThreadPool> {
    let refused = |error| std::io::Error::new(std::io::ErrorKind::WouldBlock, error);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
    pool.map_err(|error| Error::io("start", "a thread")(refused(error)))
}

/// Starts the threads of the process that rayon shares work among, unless this thread is one of another pool.
///
/// # Errors
/// What the system says.
pub(crate) fn start_shared() -> std::io::Result<()> {
    use std::error::Error as _;
    if rayon::current_thread_index().is_some() {
        return Ok(());
    }
    match rayon::ThreadPoolBuilder::new().build_global() {
        // Without a cause they run already.
        Err(error) if error.source().is_some() => Err(std::io::Error::new(std::io::ErrorKind::WouldBlock, error)),
        _ => Ok(()),
    }
}

/// Does `work` for each of `items` numbers on up to `threads` threads, each with a worker of its own, and hands the
/// workers back. The first failure ends it.
pub(crate) fn for_each<W: Send>(
    threads: usize,
    items: usize,
    make: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let outcome: Mutex<Result<Vec<W>>> = Mutex::new(Ok(Vec::new()));
    let run = || {
        let mut worker = make();
        let mut result = Ok(());
        while result.is_ok() && !failed.load(Ordering::Relaxed) {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= items {
                break;
            }
            result = work(&mut worker, item);
        }
        let mut outcome = outcome.lock();
        match (result, &mut *outcome) {
            (Ok(()), Ok(workers)) => workers.push(worker),
            (Err(error), Ok(_)) => {
                failed.store(true, Ordering::Relaxed);
                *outcome = Err(error);
            }
            (_, Err(_)) => {}
        }
    };
    if threads.min(items) <= 1 {
        // Not worth a thread.
        run();
    } else {
        run_workers(threads.min(items), run, |error| {
            failed.store(true, Ordering::Relaxed);
            *outcome.lock() = Err(error);
        });
    }
    outcome.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

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
    fn a_failure_is_handed_back() {
        let work = |(): &mut (), item: usize| match item {
            7 => Err(Error::Interrupted { hint: "seven".into() }),
            _ => Ok(()),
        };
        assert_eq!(for_each(3, 100, || (), work).expect_err("a failure").hint(), "seven");
    }
}
