//! The runtime of one file's requests, on threads of its own, with retries and counters.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::backoff::Backoff;
use super::fault::Fault;

/// Threads that receive bytes; a single one decrypts a gigabyte a second.
const THREADS: usize = 2;
const LOOKUPS: usize = 2;
const STACK: usize = 1 << 20;

pub(super) struct Net {
    runtime: Option<Runtime>,
    pub handle: Handle,
    pub received: AtomicU64,
    pub requests: AtomicU64,
    /// Nanoseconds that the import waited for the network.
    pub waited: AtomicU64,
    pub connections: AtomicU64,
}

impl Net {
    pub fn new() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(LOOKUPS).thread_stack_size(STACK);
        let runtime = builder.thread_name("bedload-net").enable_all().build()?;
        let handle = runtime.handle().clone();
        let (received, requests, waited, connections) = Default::default();
        Ok(Self { runtime: Some(runtime), handle, received, requests, waited, connections })
    }

    /// Waits for `work`. On a thread of the caller's own runtime, where tokio forbids waiting, another thread waits.
    pub fn wait<F>(&self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send,
    {
        if Handle::try_current().is_err() {
            return self.handle.block_on(work);
        }
        let waiting = || self.handle.block_on(work);
        std::thread::scope(|scope| scope.spawn(waiting).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Makes requests until one succeeds, or another try is pointless.
    pub async fn retry<T, F>(&self, mut backoff: Backoff, ask: impl Fn() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        loop {
            self.requests.fetch_add(1, Relaxed);
            match ask().await {
                Ok(done) => return Ok(done),
                Err(fault) => tokio::time::sleep(backoff.next(fault)?).await,
            }
        }
    }

    /// Adds the time since `began`, in which the import waited for the network.
    pub fn add_waited(&self, began: Instant) {
        self.waited.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
    }

    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // A look-up of a name may take minutes, and its result is no longer needed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
