//! The choice of a plan before an import starts.

use super::options::{ImportOptions, PlanChoice};
use crate::error::{Error, Result};
use crate::os::resources;
use crate::report::{LogPlan, Plan};
use crate::size::human;

/// The least budget an import can work with, in bytes.
pub const MIN_MEMORY: u64 = 16 << 20;

/// What each worker uses beside the blocks, at least, in bytes: buffers of an SST being built.
const WORKER_FIXED: u64 = 2 << 20;

/// What RocksDB keeps of an SST until it is finished, as a share of its size, as its reciprocal: hashes of the keys, the
/// filter made of them, the index. Ten bytes for a block of 1 KiB come to half of that.
const SST_KEPT: u64 = 64;

/// The share of the budget, as its reciprocal, beyond which that is not counted: a small budget would have nothing left
/// for blocks, and makes small files.
const KEPT_SHARE: u64 = 8;

/// The largest chunk read at once, in bytes: it stays in a core's cache between being read, framed and hashed.
const MAX_CHUNK: u64 = 512 << 10;

/// The smallest piece worth a write, in bytes; and what it may come down to where keys of several kinds make more
/// partitions than planned.
const MIN_PIECE: u64 = 4 << 10;
const LEAST_PIECE: u64 = 512;

/// What a source of unknown size is planned as: so many budgets, and no more bytes than this. A larger guess makes more
/// partitions and so smaller pieces; a larger source has its partitions sorted in runs and merged.
const UNKNOWN: u64 = 32;
const UNKNOWN_MOST: u64 = 64 << 30;

/// The share of the budget that all pieces together may take, as its reciprocal.
const PIECES_SHARE: u64 = 4;

/// The largest piece appended to a partition, in bytes.
const MAX_PIECE: u64 = 512 << 10;

/// The most bytes of a range of a log that comes through a pipe: it is held until it is built.
const MAX_PIPED_RANGE: u64 = 64 << 20;

/// The least: smaller files would be too many.
const MIN_PIPED_RANGE: u64 = 1 << 20;

/// Address space that an import takes beside its budget, at least: the program, RocksDB, stacks.
const BESIDE: u64 = 96 << 20;

/// Checks that a budget is large enough to work with, and that this process may have as much.
///
/// # Errors
/// Less than [`MIN_MEMORY`], or more than the limit of the address space leaves.
pub(super) fn check_memory(options: &ImportOptions) -> Result<()> {
    let memory = options.memory_budget();
    let needed = memory.max(MIN_MEMORY) + BESIDE;
    if let Some(limit) = resources::address_space()
        && limit < needed
    {
        return Err(Error::State {
            path: options.db.clone(),
            reason: format!("needs {} of address space, and this process may have {}", human(needed), human(limit)),
            hint: format!("raise the limit (ulimit -v {}), or lower --memory", needed >> 10),
        });
    }
    if memory >= MIN_MEMORY {
        return Ok(());
    }
    Err(Error::Usage {
        reason: format!("a memory budget of {} is too small to work with", human(memory)),
        hint: format!("give --memory {} or more", human(MIN_MEMORY).replace(".0 ", "")),
    })
}

/// Chooses a plan for `expected` bytes of unwrapped source; `exact` says whether that is its true size.
pub(crate) fn choose(
    choice: PlanChoice,
    expected: Option<u64>,
    exact: bool,
    memory: u64,
    threads: usize,
    max_files: u64,
    sst_bytes: u64,
) -> Plan {
    let threads_fit = (memory / (6 << 20)).max(1);
    let workers = (threads as u64).min(threads_fit);

    let chunk_bytes = (memory / (8 * (workers + 1))).clamp(128 << 10, MAX_CHUNK);
    let reading = chunk_bytes * (workers + 2) * 2;
    let largest_sst = expected.map_or(sst_bytes, |bytes| super::build::sst_size_for(bytes, workers, sst_bytes));
    let kept = (largest_sst / SST_KEPT * workers).min(memory / KEPT_SHARE);
    let building = WORKER_FIXED * workers + kept;
    // An input of unknown size may turn out too large: then its pieces need room beside what is held.
    let pieces_room = if exact { 0 } else { memory / 4 };
    let hold_bytes = memory.saturating_sub(reading + building + pieces_room);
    // Entries are counted with the blocks, as 16 bytes in a growing vector for a block of 1 KiB.
    let fits = expected.is_none_or(|bytes| bytes + bytes / 32 <= hold_bytes);
    let spill = match choice {
        PlanChoice::Auto => !fits && exact,
        PlanChoice::Memory => false,
        PlanChoice::Spill => true,
    };
    let sort_bytes = (memory.saturating_sub(building) / workers).max(1 << 20);
    let may_spill = spill || !exact || !fits;
    let bytes = expected.unwrap_or_else(|| memory.saturating_mul(UNKNOWN).min(UNKNOWN_MOST));
    let wanted = if may_spill {
        bytes.div_ceil((sort_bytes * 3 / 5).min(512 << 20))
    } else {
        // Enough to keep all workers busy to the end, in SSTs of a good size.
        bytes.div_ceil(sst_bytes / 4).max((workers * 8).min(bytes >> 20))
    };
    let files = max_files / 2;
    let pieces = memory / PIECES_SHARE / (workers * MIN_PIECE);
    let bits = wanted.next_power_of_two().ilog2();
    let cap = if may_spill { files.min(pieces).max(1).ilog2() } else { 16 };
    let partition_bits = bits.min(cap);
    let piece_bytes = (memory / PIECES_SHARE / (workers << partition_bits)).clamp(MIN_PIECE, MAX_PIECE);
    Plan {
        spill,
        memory,
        threads: workers as usize,
        partition_bits,
        sst_bytes,
        chunk_bytes,
        hold_bytes,
        piece_bytes,
        sort_bytes,
        expected_bytes: expected,
        open_files: 0,
        memtable: None,
        log: None,
        space: Vec::new(),
    }
}

/// Makes it the plan for a block log of so many bytes, which comes through a pipe where `piped`.
pub(super) fn for_log(plan: &mut Plan, piped: bool, families: Vec<String>) {
    let held = plan.memory / (4 * (plan.threads as u64 + 2));
    let range_bytes = match plan.expected_bytes {
        Some(bytes) if !piped => super::build::sst_target(bytes, plan),
        _ => held.clamp(MIN_PIPED_RANGE, MAX_PIPED_RANGE).min(plan.sst_bytes.max(MIN_PIPED_RANGE)),
    };
    // Blocks come in the order of their keys: nothing is held to be sorted.
    (plan.spill, plan.hold_bytes) = (false, 0);
    plan.log = Some(LogPlan { range_bytes, families });
}

/// Bytes appended to a partition at once where there are `partitions`: keys of several kinds make some times as many
/// as planned, and all pieces together must not take more for that.
pub(super) fn piece_bytes_for(plan: &Plan, partitions: u32) -> u64 {
    let each = plan.memory / PIECES_SHARE / (plan.threads as u64 * u64::from(partitions)).max(1);
    plan.piece_bytes.min(each.max(LEAST_PIECE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn plan(memory: u64, threads: usize, bytes: Option<u64>, exact: bool) -> Plan {
        choose(PlanChoice::Auto, bytes, exact, memory, threads, 1 << 20, 256 * MIB)
    }

    #[test]
    fn pieces_of_all_partitions_fit_their_share_with_any_number_of_key_classes() {
        for memory in [16, 64, 256, 1024, 65_536].map(|mib| mib * MIB) {
            for threads in [1, 2, 8, 64] {
                for bytes in [Some(4 * memory), Some(64 * memory), None] {
                    let plan = plan(memory, threads, bytes, bytes.is_some());
                    for classes in 1..=6u32 {
                        let partitions = classes * ((1 << plan.partition_bits) + 1) + 1;
                        let pieces = piece_bytes_for(&plan, partitions) * u64::from(partitions) * plan.threads as u64;
                        assert!(pieces <= memory / 4, "{pieces} of {memory} for {classes} classes: {plan:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_held_and_what_threads_use_beside_it_fit_the_budget() {
        for memory in [64, 256, 1024, 65_536].map(|mib| mib * MIB) {
            for threads in [1, 8, 64, 256] {
                let plan = plan(memory, threads, Some(memory * 3 / 4), true);
                let largest = super::super::build::sst_target(plan.expected_bytes.unwrap_or(0), &plan);
                // Nine bytes and a quarter a block of 1 KiB, an index entry for every 16 KiB.
                let kept = (largest / 100 + largest / 400) * plan.threads as u64;
                let reading = plan.chunk_bytes * (plan.threads as u64 + 2) * 2;
                let all = plan.hold_bytes + kept + reading;
                assert!(all <= memory + 64 * MIB, "{all} of {memory}, {threads} threads: {plan:?}");
            }
        }
    }
}
