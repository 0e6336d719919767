//! The runtime of one file's requests, on threads of its own, and what is counted there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that take bytes from the network; a single one decrypts a gigabyte a second.
const THREADS: usize = 2;
/// Threads that look up names of hosts.
const LOOKUPS: usize = 2;
const STACK: usize = 1 << 20;

/// The runtime, and counters.
pub(super) struct Net {
    /// Always there until this is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    received: AtomicU64,
    requests: AtomicU64,
    waited_ns: AtomicU64,
    connections: AtomicU64,
}

impl Net {
    pub fn new() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(LOOKUPS).thread_stack_size(STACK);
        let runtime = builder.thread_name("bedload-net").enable_all().build()?;
        let handle = runtime.handle().clone();
        let (received, requests, waited_ns, connections) = Default::default();
        Ok(Self { runtime: Some(runtime), handle, received, requests, waited_ns, connections })
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for `work`, also on a thread of a caller's own runtime, where tokio forbids it.
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

    pub fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn add_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds time that the import waited for the network.
    pub fn add_waited(&self, time: Duration) {
        self.waited_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn set_connections(&self, connections: u64) {
        self.connections.store(connections, Ordering::Relaxed);
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
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
