//! Limits of this process: its memory, and the number of files that it will have open at once.

use crate::error::{Error, Result, StateKind};
use crate::load::options::ImportOptions;
use crate::os::resources;
use crate::parallel;
use crate::report::Plan;
use crate::rocks::{FamilyFacts, Group, OptionMap, count_merged_files, options};
use crate::text::size::human;

/// The least memory budget, in bytes.
pub const MIN_MEMORY: u64 = 16 << 20;

/// The address space of a process, in bytes. Buffers of a larger budget cannot be reserved.
const MAX_MEMORY: u64 = 1 << 47;

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
    if memory > MAX_MEMORY {
        let reason = format!("the memory budget of {} is too large", human(memory));
        return Err(Error::usage(reason, format!("pass --memory {} or less", human(MAX_MEMORY).replace(".0 ", ""))));
    }
    let needed = memory.max(MIN_MEMORY) + BESIDE;
    if let Some(limit) = resources::address_space()
        && limit < needed
    {
        let reason =
            format!("needs at least {} of address space, and this process may have {}", human(needed), human(limit));
        let hint = format!(
            "raise the limit (ulimit -v {}, which counts what threads reserve), or lower --memory",
            (needed + reserved(options.threads.unwrap_or_else(parallel::cores) as u64)) >> 10
        );
        return Err(Error::state(&options.db, StateKind::Limit, reason, hint));
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
            "the memory budget of {} is more than the {} that {whose}: the kernel may kill the import",
            human(budget),
            human(limit)
        )
    })
}

/// Shares of the budget: of indexes in use, and of data that is read ahead.
const INDEX_SHARE: u64 = 4;
const AHEAD_SHARE: u64 = 8;

/// Memory of an iterator in a file, in bytes: 300 files of 60 kB took 120 KiB each (RocksDB 11.12).
const CURSOR: u64 = 128 << 10;

/// The least and the most that is read ahead in one file, in bytes.
const AHEAD: (u64, u64) = (4 << 10, 2 << 20);

/// Returns the number of threads, and the bytes that each reads ahead in a file. A range merges all files of level 0 and one of each
/// other level, and keeps their indexes in memory.
pub(in crate::load) fn share_memory(plan: &Plan, families: &[FamilyFacts]) -> (usize, usize) {
    let merged = |facts: &FamilyFacts| count_merged_files(&facts.levels);
    let indexes = |facts: &FamilyFacts| {
        let files = facts.levels.iter().map(|level| level.files).sum::<u64>().max(1);
        merged(facts) * (facts.index_bytes / files + CURSOR)
    };
    let most = families.iter().map(merged).max().unwrap_or(1);
    let indexes = families.iter().map(indexes).max().unwrap_or(1);
    let threads = (plan.budget_bytes / INDEX_SHARE / indexes).clamp(1, plan.threads as u64);
    let ahead = plan.budget_bytes / AHEAD_SHARE / (threads * most);
    (threads as usize, ahead.clamp(AHEAD.0, AHEAD.1) as usize)
}

/// Descriptors beside SST files: the standard streams, the source, RocksDB's log, lock, MANIFEST and WALs, directories.
const FILES_BESIDE: u64 = 40;

/// True if these options compress nothing.
pub(super) fn is_uncompressed(map: &OptionMap) -> bool {
    const NONE: &str = "kNoCompression";
    let is_none = |name| map.get(Group::Cf, name) == Some(NONE);
    let levels = map.get(Group::Cf, "compression_per_level").unwrap_or_default();
    is_none("compression")
        && matches!(map.get(Group::Cf, "bottommost_compression"), None | Some(NONE | "kDisableCompressionOption"))
        && levels.split(':').all(|level| level.is_empty() || level == NONE)
        && (map.get(Group::Cf, "enable_blob_files") != Some("true") || is_none("blob_compression_type"))
}

/// A number of an option map, or RocksDB's default.
pub(super) fn number(map: &OptionMap, group: Group, name: &str) -> i64 {
    let value = map.get(group, name).or_else(|| options::defaults().get(group, name));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

pub(super) fn ingest_files(plan: &Plan, loading: &OptionMap) -> u64 {
    let building = plan.threads as u64;
    let partitions = plan.sort().filter(|sort| sort.spill).map_or(0, |sort| 1 << sort.partitions.bits);
    let bytes = plan.expected_bytes.unwrap_or_default();
    let ssts = bytes.div_ceil(plan.sst_target(bytes).max(1));
    let open = match number(loading, Group::Db, "max_open_files") {
        limit @ 0.. => ssts.min(limit as u64),
        _ => ssts,
    };
    FILES_BESIDE + (building + partitions).max(open)
}

/// The files that the memtable loader has open at once, with `level0` files at level 0 before the final compaction.
pub(super) fn memtable_files(plan: &Plan, loading: &OptionMap, level0: u64) -> u64 {
    let target = number(loading, Group::Cf, "target_file_size_base").max(1) as u64;
    let all = level0 + plan.expected_bytes.unwrap_or_default().div_ceil(target);
    // A compaction of level 0 keeps all of its files open, whatever the limit of open files is.
    let open = match number(loading, Group::Db, "max_open_files") {
        limit @ 0.. => all.min(limit as u64).max(level0),
        _ => all,
    };
    FILES_BESIDE + plan.threads as u64 + open
}

/// Checks that this process may open as many files.
pub(super) fn check_files(needed: u64, limit: u64, options: &ImportOptions) -> Result<()> {
    if needed <= limit {
        return Ok(());
    }
    let reason = format!("needs {needed} open files at once, and this process may have {limit}");
    let hint = format!(
        "raise the limit (ulimit -n {needed}; ulimit -Hn shows how far), or let there be fewer files: larger SSTs or write buffers, a smaller \
             max_open_files"
    );
    Err(Error::state(&options.db, StateKind::Limit, reason, hint))
}
