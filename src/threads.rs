//! Threads for a part of the work, which the system may refuse: where the standard library panics, an error.

use std::thread::{Builder, Scope, ScopedJoinHandle};

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
pub(crate) fn run(count: usize, work: impl Fn() + Sync, refused: impl FnOnce(Error)) {
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
    let gate = std::sync::RwLock::new(());
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
