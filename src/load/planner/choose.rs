//! The plan for a number of bytes in a memory budget.

use crate::load::options::PlanChoice;
use crate::report::{LogPlan, Method, PartitionPlan, Plan, RecordsPlan, SortPlan, fits, sst_target};
use crate::schema::TRANSACTIONS;
use crate::sort::IN_FLIGHT;

/// Minimum memory of each worker in addition to the blocks, in bytes: buffers of an unfinished SST.
pub(in crate::load) const WORKER_FIXED: u64 = 2 << 20;

/// RocksDB's memory for an unfinished SST is the file size divided by this: hashes of the keys, the filter, the index.
/// With ten bytes for a block of 1 KiB, RocksDB uses about half of it.
const SST_KEPT: u64 = 64;

/// At most the budget divided by this is reserved for unfinished SSTs. Otherwise a small budget, which makes small files,
/// would have no memory left for blocks.
const KEPT_SHARE: u64 = 8;

/// The largest chunk, in bytes. It stays in a core's cache while it is read, cut into sections and hashed.
const MAX_CHUNK: u64 = 512 << 10;

/// The smallest planned piece, in bytes; and the smallest piece if keys of several kinds make more partitions than planned.
const MIN_PIECE: u64 = 4 << 10;
pub(super) const LEAST_PIECE: u64 = 512;

/// The largest piece appended to a partition, in bytes.
const MAX_PIECE: u64 = 512 << 10;

/// The assumed size of a source of unknown size: the budget times `UNKNOWN`, at most `UNKNOWN_MOST` bytes. A larger guess
/// makes more partitions with smaller pieces. If the source is larger, its partitions are sorted in runs and merged.
const UNKNOWN: u64 = 32;
const UNKNOWN_MOST: u64 = 64 << 30;

/// All pieces together may take the budget divided by this.
pub(super) const PIECES_SHARE: u64 = 4;

/// Largest and smallest range of a log that is read from a pipe, in bytes. A range is in memory until it is built; smaller
/// ranges would make too many files.
const MAX_PIPED_RANGE: u64 = 64 << 20;
/// Sorted records are read in portions of at most this size. One is read while another one is written.
const SORTED: u64 = 256 << 20;

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
    // An input of unknown size may exceed the budget: then its pieces need memory in addition to the blocks.
    let pieces_room = if exact { 0 } else { memory / 4 };
    let hold_bytes = memory.saturating_sub(reading + building + pieces_room);
    let fits = expected.is_none_or(|bytes| fits(bytes, hold_bytes));
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

/// Turns the plan of a CAR into that of streams of records: half of the memory is for records, the rest for the entries and files of
/// the ranges that threads take.
pub(in crate::load) fn for_records(plan: &mut Plan, records: RecordsPlan) {
    let least = MIN_PIPED_RANGE.min(plan.sst_bytes);
    let range_bytes = (plan.memory / (4 * plan.threads as u64)).clamp(least, plan.sst_bytes);
    let hold_bytes = if records.is_sorted { (plan.memory / 4).min(SORTED) } else { plan.memory / 2 };
    plan.method = Method::RecordsSst { records: RecordsPlan { hold_bytes, range_bytes, ..records } };
}

/// Bytes of a piece that is appended to a partition. Keys of several kinds make more `partitions` than planned, and all
/// pieces, those in flight included, must fit their share of the memory.
pub(in crate::load) fn piece_bytes_for(plan: &Plan, sort: &SortPlan, partitions: u32) -> u64 {
    let each = plan.memory / PIECES_SHARE / (plan.threads as u64 * (u64::from(partitions) + IN_FLIGHT as u64));
    sort.partitions.piece_bytes.min(each.max(LEAST_PIECE))
}
