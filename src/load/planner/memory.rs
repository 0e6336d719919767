//! Checks of the memory budget.

use crate::error::{Error, Result};
use crate::load::options::ImportOptions;
use crate::os::resources;
use crate::parallel;
use crate::text::size::human;

/// The least memory budget, in bytes.
pub const MIN_MEMORY: u64 = 16 << 20;

/// The least address space that an import takes beside its budget: the program, RocksDB, stacks.
const BESIDE: u64 = 96 << 20;

/// Threads beside the workers: of RocksDB, of reading ahead, of progress and of signals.
const OTHER_THREADS: u64 = 12;

/// Address space of a thread's stack, and of an arena of glibc's allocator. Each thread has its own, up to 8 for each core.
const STACK: u64 = 8 << 20;
const ARENA: u64 = 64 << 20;
const ARENAS: u64 = 8;

/// Address space that the threads of an import reserve and mostly never use. Measured with `ulimit -v`: the least with which
/// an import succeeded was 0.9 GiB with one worker and 1.15 GiB with eight.
fn reserved(workers: u64) -> u64 {
    let threads = workers + OTHER_THREADS;
    threads * STACK + threads.min(ARENAS * parallel::cores() as u64) * ARENA
}

/// Checks that a budget is large enough to work with, and that this process may have as much.
pub(in crate::load) fn check_memory(options: &ImportOptions) -> Result<()> {
    let memory = options.memory_budget();
    let needed = memory.max(MIN_MEMORY) + BESIDE;
    if let Some(limit) = resources::address_space()
        && limit < needed
    {
        return Err(Error::State {
            path: options.db.clone(),
            reason: format!(
                "needs at least {} of address space, and this process may have {}",
                human(needed),
                human(limit)
            ),
            hint: format!(
                "raise the limit (ulimit -v {}, which counts what threads reserve), or lower --memory",
                (needed + reserved(options.threads.unwrap_or_else(parallel::cores) as u64)) >> 10
            ),
        });
    }
    if memory >= MIN_MEMORY {
        return Ok(());
    }
    Err(Error::memory_too_small(memory, MIN_MEMORY))
}

/// A warning for a budget that exceeds the memory of the machine.
pub(in crate::load) fn excess_memory(options: &ImportOptions) -> Option<String> {
    let budget = options.memory?;
    let limits = [
        (resources::machine_memory(), "this machine has"),
        (resources::cgroup_memory(), "the control group of this process may use"),
    ];
    let (limit, whose) = limits.into_iter().filter_map(|(limit, whose)| Some((limit?, whose))).min()?;
    (budget > limit).then(|| {
        format!(
            "--memory {} is more than the {} that {whose}: the system may end the import when it uses them",
            human(budget).replace(' ', ""),
            human(limit)
        )
    })
}
