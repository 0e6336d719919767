//! The plan for a number of bytes in a memory budget.

use crate::load::options::PlanChoice;
use crate::report::{LogPlan, Method, PartitionPlan, Plan, SortPlan, sst_target};
use crate::schema::TRANSACTIONS;
use crate::sort::IN_FLIGHT;

/// The least memory of each worker beside the blocks, in bytes: buffers of an SST being built.
pub(in crate::load) const WORKER_FIXED: u64 = 2 << 20;

/// The memory that RocksDB uses for an unfinished SST, as a share of its size, as its reciprocal: hashes of the keys, the
/// filter made of them, the index. Ten bytes for a block of 1 KiB are half of that.
const SST_KEPT: u64 = 64;

/// The largest share of the budget, as its reciprocal, that is reserved for it. A small budget would have nothing left for
/// blocks, and makes small files.
const KEPT_SHARE: u64 = 8;

/// The largest chunk read at once, in bytes: it stays in a core's cache between being read, framed and hashed.
const MAX_CHUNK: u64 = 512 << 10;

/// The smallest piece worth a write, in bytes; and the least if keys of several kinds make more partitions than planned.
const MIN_PIECE: u64 = 4 << 10;
pub(super) const LEAST_PIECE: u64 = 512;

/// The largest piece appended to a partition, in bytes.
const MAX_PIECE: u64 = 512 << 10;

/// The assumed size of a source of unknown size: so many budgets, and no more bytes than this. A larger guess makes more
/// partitions and so smaller pieces; a larger source has its partitions sorted in runs and merged.
const UNKNOWN: u64 = 32;
const UNKNOWN_MOST: u64 = 64 << 30;

/// The share of the budget that all pieces together may take, as its reciprocal.
pub(super) const PIECES_SHARE: u64 = 4;

/// The most and the least bytes of a range of a log that comes through a pipe. A range is in memory until it is built; smaller
/// ones would make too many files.
const MAX_PIPED_RANGE: u64 = 64 << 20;
const MIN_PIPED_RANGE: u64 = 1 << 20;

/// Chooses a plan for `expected` bytes of decompressed source. `exact` is true if that is its real size.
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
    let largest_sst = expected.map_or(sst_bytes, |bytes| sst_target(bytes, sst_bytes));
    let kept = (largest_sst / SST_KEPT * workers).min(memory / KEPT_SHARE);
    let building = WORKER_FIXED * workers + kept;
    // An input of unknown size may turn out too large: then its pieces need room beside the blocks in memory.
    let pieces_room = if exact { 0 } else { memory / 4 };
    let hold_bytes = memory.saturating_sub(reading + building + pieces_room);
    // Entries are counted with the blocks, as 16 bytes in a growing vector for a block of 1 KiB.
    let fits = expected.is_none_or(|bytes| bytes + bytes / 32 <= hold_bytes);
    let spill = match choice {
        PlanChoice::Auto => !fits && exact,
        PlanChoice::Memory => false,
        PlanChoice::Spill | PlanChoice::Source => true,
    };
    let sort_bytes = (memory.saturating_sub(building) / workers).max(1 << 20);
    let turns_out = !spill && (!exact || !fits);
    let may_spill = spill || turns_out;
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
    let bits = bits.min(cap);
    let piece_bytes = (memory / PIECES_SHARE / (workers << bits)).clamp(MIN_PIECE, MAX_PIECE);
    let partitions = PartitionPlan { bits, piece_bytes, sort_bytes };
    Plan {
        memory,
        threads: workers as usize,
        sst_bytes,
        chunk_bytes,
        expected_bytes: expected,
        method: Method::CarSst {
            sort: SortPlan { spill, may_spill: turns_out, cached: false, by_reference: false, hold_bytes, partitions },
        },
        ..Plan::default()
    }
}

/// Turns a plan into that of a block log, which may come through a pipe.
pub(crate) fn for_log(plan: &mut Plan, piped: bool, families: Vec<String>) {
    let held = plan.memory / (4 * (plan.threads as u64 + 2));
    let range_bytes = match plan.expected_bytes {
        Some(bytes) if !piped => plan.sst_target(bytes),
        _ => held.clamp(MIN_PIPED_RANGE, MAX_PIPED_RANGE).min(plan.sst_bytes.max(MIN_PIPED_RANGE)),
    };
    // Blocks come in the order of their keys, so only ids of transactions are partitioned and sorted.
    let partitions = plan.sort().map(|sort| sort.partitions.clone());
    let transactions = partitions.filter(|_| families.iter().any(|family| family == TRANSACTIONS));
    plan.method = Method::BlockLogSst { log: LogPlan { range_bytes, families, transactions } };
}

/// Bytes of a piece that is appended to a partition. Keys of several kinds make more `partitions` than planned, and all
/// pieces, those in flight included, must fit their share of the memory.
pub(in crate::load) fn piece_bytes_for(plan: &Plan, sort: &SortPlan, partitions: u32) -> u64 {
    let each = plan.memory / PIECES_SHARE / (plan.threads as u64 * (u64::from(partitions) + IN_FLIGHT as u64));
    sort.partitions.piece_bytes.min(each.max(LEAST_PIECE))
}
