//! The choice of a plan before an import starts.

use crate::error::{Error, Result};
use crate::external_sort::MAX_RUNS;
use crate::load::file_limits;
use crate::load::journal::ResumedState;
use crate::load::open::OpenSource;
use crate::load::options::{ImportOptions, PlanChoice};
use crate::load::sink::batches::most_batches;
use crate::os::mmap::MAX_MAPS;
use crate::os::resources;
use crate::parallel;
use crate::preset::{Loader, Resolved};
use crate::report::{LogPlan, MemtablePlan, Method, PartitionPlan, Plan, SortPlan, sst_target};
use crate::rocks::option_map::{Group, OptionMap};
use crate::rocks::options_of;
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};
use crate::sort::spill::IN_FLIGHT;
use crate::source::car::NullPadding;
use crate::text::size::human;

/// The least budget an import can work with, in bytes.
pub const MIN_MEMORY: u64 = 16 << 20;

/// The least memory of each worker beside the blocks, in bytes: buffers of an SST being built.
pub(super) const WORKER_FIXED: u64 = 2 << 20;

/// The memory that RocksDB uses for an SST until it is finished, as a share of its size, as its reciprocal: hashes of the
/// keys, the filter made of them, the index. Ten bytes for a block of 1 KiB come to half of that.
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

/// The size that is assumed for a source of unknown size: so many budgets, and no more bytes than this. A larger guess
/// makes more partitions and so smaller pieces; a larger source has its partitions sorted in runs and merged.
const UNKNOWN: u64 = 32;
const UNKNOWN_MOST: u64 = 64 << 30;

/// The share of the budget that all pieces together may take, as its reciprocal.
const PIECES_SHARE: u64 = 4;

/// Memory for each source after the first, in bytes: what is known of it, and a mark of 16 bytes in each of as many partitions as there mostly
/// are at the most.
const SOURCE: u64 = 4 << 10;

/// Memory for the identity of each of several sources in memory, in the journal and in the report, in bytes.
const IDENTITY: u64 = 1 << 10;

/// The share of the budget, as its reciprocal, that keys and links may take where these are compared.
const LINKS_SHARE: u64 = 8;

/// The largest piece appended to a partition, in bytes.
const MAX_PIECE: u64 = 512 << 10;

/// What surrounds blocks in a source, and does not come into the database: a share of it, as its reciprocal.
const FRAMING: u64 = 8;

/// The most bytes of a range of a log that comes through a pipe: it is held until it is built.
const MAX_PIPED_RANGE: u64 = 64 << 20;

/// The least: smaller files would be too many.
const MIN_PIPED_RANGE: u64 = 1 << 20;

/// Address space that an import takes beside its budget, at least: the program, RocksDB, stacks.
const BESIDE: u64 = 96 << 20;

/// Threads beside the workers: of RocksDB, of reading ahead, of progress and of signals.
const OTHER_THREADS: u64 = 12;

/// Address space of a thread's stack, and of its own arena of glibc's allocator, which makes up to so many a core.
const STACK: u64 = 8 << 20;
const ARENA: u64 = 64 << 20;
const ARENAS: u64 = 8;

/// Files of level 0 beyond which the user is warned of one compaction of all of them.
const MANY_LEVEL0: u64 = 500;

/// The share of the budget, as its reciprocal, that all batches together may take; and the smallest batch worth a write,
/// in bytes.
const BATCHES_SHARE: u64 = 8;
const LEAST_BATCH: u64 = 4 << 10;

/// The most bytes of a log that one thread takes at once: so blocks are written nearly in their order, and a checkpoint
/// need not wait long for unfinished ranges.
const RANGE: u64 = 8 << 20;

/// Blocks stay in the page cache where it has so many times the memory that they need: other programs want some as well.
const CACHED_SHARE: u64 = 2;

const MIB: u64 = 1 << 20;

/// Files that may be open where the system names no limit.
const UNLIMITED_FILES: u64 = 1 << 20;

/// The plan of an import.
pub(super) struct Planned {
    pub plan: Plan,
    /// The options of the database while it is loaded.
    pub loading: OptionMap,
    /// Bytes that the database takes at least, as far as its options and the source's size tell.
    pub least_bytes: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The plan for what was opened.
pub(super) fn plan(options: &ImportOptions, preset: &Resolved, opened: &OpenSource) -> Result<Planned> {
    let OpenSource { expected, ref sources, .. } = *opened;
    let (plain, is_exact, count) = (sources.are_plain(), sources.need_no_decompression(), sources.names().len() as u64);
    let log = opened.log();
    let budget = options.memory_budget();
    let links_bytes = if options.links.are_followed() && log.is_none() { budget / LINKS_SHARE } else { 0 };
    let memory = budget - links_bytes;
    let max_files = resources::open_files().0.unwrap_or(UNLIMITED_FILES);
    let own = if plain { memory } else { memory - memory / 4 };
    // What is not mapped is copied to pieces; where the size is not known, `choose` leaves room for them.
    let is_mapped = plain && count <= MAX_MAPS as u64;
    let own = if !is_mapped && is_exact { own - own / 4 } else { own };
    let identities = if count > 1 { count.saturating_mul(IDENTITY) } else { 0 };
    if identities > budget {
        return Err(Error::Usage {
            reason: format!("{count} sources do not fit a memory budget of {}", human(budget)),
            hint: format!(
                "give --memory {} or more, or import them in parts, the later ones with --into-existing",
                human(identities.next_multiple_of(1 << 20)).replace(".0 ", "")
            ),
        });
    }
    // What is left for blocks is never less than the least budget.
    let own = own.saturating_sub(identities).max(own.min(MIN_MEMORY));
    let own = own - (count - 1).saturating_mul(SOURCE).min(own / 8);
    let threads = threads(options, preset);
    let choice = match options.plan {
        // In memory all of it would be lost by a kill, and have to come again.
        PlanChoice::Auto if opened.prefers_spill_for_resume() => PlanChoice::Spill,
        choice => choice,
    };
    let sst_size = preset.sst_size();
    let plan_of = |bytes, is_exact| choose(choice, bytes, is_exact, own, threads, max_files, sst_size);
    let mut plan = match options.shard {
        None => plan_of(expected, is_exact),
        // About as much as other shards: one that does not fit is known not to, one that fits may turn out not to.
        Some(shard) => {
            let share = expected.map(|bytes| bytes.div_ceil(u64::from(shard.of)));
            Some(plan_of(share, is_exact)).filter(Plan::spills).unwrap_or_else(|| plan_of(share, false))
        }
    };
    if let Method::CarSst { sort } = &mut plan.method {
        sort.cached = expected.is_some_and(|bytes| stays_cached(bytes, page_cache(budget)));
        sort.by_reference = sort.spill
            && plain
            && match options.plan {
                PlanChoice::Auto => sort.cached,
                PlanChoice::Source => true,
                PlanChoice::Memory | PlanChoice::Spill => false,
            };
        if options.plan == PlanChoice::Source && !plain {
            return Err(Error::Usage {
                reason: "--plan source needs a plain file: blocks of this source cannot be read again at their places"
                    .into(),
                hint: "leave it out".into(),
            });
        }
    }
    if let Some(log) = log {
        let ids = options.log.indexes.ids.then(|| BLOCK_IDS.to_owned());
        let transactions = options.log.indexes.transactions.then(|| TRANSACTIONS.to_owned());
        let families = std::iter::once(DEFAULT.to_owned()).chain(ids).chain(transactions).collect();
        for_log(&mut plan, log.is_piped(), families);
    }
    let loading = loading(options, preset)?;
    let mut warnings = Vec::new();
    match preset.loader {
        Loader::Ingest => plan.open_files = file_limits::of_ingest(&plan, &loading)?,
        Loader::Memtable => warnings = for_memtable(&mut plan, options, preset, &loading)?,
    }
    plan.links_bytes = links_bytes;
    if links_bytes > 0 {
        plan.open_files += MAX_RUNS as u64;
    }
    file_limits::check(plan.open_files, max_files, options)?;
    let least_bytes = if is_uncompressed(&loading) { least_bytes(options, opened.largest) } else { 0 };
    Ok(Planned { plan, loading, least_bytes, warnings })
}

/// The plan of a resumed import. The journal decides how keys are partitioned, and the memory of this run decides how many
/// threads work.
pub(super) fn resume(planned: &Planned, options: &ImportOptions, resumed: &ResumedState) -> Result<Plan> {
    let mut plan = planned.plan.clone();
    let partitions = match (&mut plan.method, &resumed.router, &resumed.identity) {
        (Method::CarSst { sort }, Some(router), _) => {
            sort.spill |= resumed.read.is_some();
            sort.partitions.bits = router.bits();
            router.partitions()
        }
        (Method::BlockLogSst { log } | Method::BlockLogMemtable { log, .. }, _, Some(first)) => {
            let Some(transactions) = &mut log.transactions else { return Ok(plan) };
            transactions.bits = first.partition_bits();
            1u32.checked_shl(transactions.bits).unwrap_or(u32::MAX)
        }
        _ => return Ok(plan),
    };
    let each = (u64::from(partitions) + IN_FLIGHT as u64) * LEAST_PIECE * PIECES_SHARE;
    if each > plan.memory {
        let needed = options.memory_budget() as f64 * each as f64 / plan.memory.max(1) as f64;
        return Err(Error::State {
            path: options.db.clone(),
            reason: format!(
                "the unfinished import has {partitions} partitions, which need more memory than {}",
                human(options.memory_budget())
            ),
            hint: format!(
                "run it again with --memory {}MiB or more, or start over with --restart",
                (needed / MIB as f64).ceil()
            ),
        });
    }
    plan.threads = plan.threads.min(usize::try_from(plan.memory / each).unwrap_or(usize::MAX));
    if let Method::BlockLogSst { log } | Method::BlockLogMemtable { log, .. } = &mut plan.method
        && let Some(transactions) = &mut log.transactions
    {
        let piece = plan.memory / PIECES_SHARE / (plan.threads as u64 * u64::from(partitions));
        transactions.piece_bytes = transactions.piece_bytes.min(piece).max(LEAST_PIECE);
    }
    if plan.memtable().is_none() {
        let runs = if plan.links_bytes > 0 { MAX_RUNS as u64 } else { 0 };
        plan.open_files = file_limits::of_ingest(&plan, &planned.loading)? + runs;
        file_limits::check(plan.open_files, resources::open_files().0.unwrap_or(UNLIMITED_FILES), options)?;
    }
    Ok(plan)
}

/// Memory that is available to the page cache beside `budget`, in bytes.
fn page_cache(budget: u64) -> u64 {
    let available = [resources::available_memory(), resources::cgroup_memory()].into_iter().flatten().min();
    available.unwrap_or_default().saturating_sub(budget)
}

/// Whether `bytes` of blocks stay in the page cache, for which there are `free` bytes.
fn stays_cached(bytes: u64, free: u64) -> bool {
    free / CACHED_SHARE >= bytes
}

/// The number of worker threads: the caller's, or else the preset's.
pub(super) fn threads(options: &ImportOptions, preset: &Resolved) -> usize {
    options.threads.unwrap_or_else(|| preset.sst_threads()).max(1)
}

/// The options while importing: the preset's, or those of the existing database.
fn loading(options: &ImportOptions, preset: &Resolved) -> Result<OptionMap> {
    if options.into_existing
        && let Some(own) = options_of(&options.db, &options.column_family)?
    {
        return Ok(own);
    }
    Ok(preset.loading())
}

/// Whether nothing in a database with these options is compressed.
fn is_uncompressed(map: &OptionMap) -> bool {
    const NONE: &str = "kNoCompression";
    let is_none = |name| map.get(Group::Cf, name) == Some(NONE);
    let levels = map.get(Group::Cf, "compression_per_level").unwrap_or_default();
    is_none("compression")
        && matches!(map.get(Group::Cf, "bottommost_compression"), None | Some(NONE | "kDisableCompressionOption"))
        && levels.split(':').all(|level| level.is_empty() || level == NONE)
        && (map.get(Group::Cf, "enable_blob_files") != Some("true") || is_none("blob_compression_type"))
}

/// What an uncompressed database takes at least for a source of `size` bytes, the largest one, which is no larger packed than its blocks are.
/// Of a source of which only a part may be read, and of blocks that may be in the database already, it is not known.
fn least_bytes(options: &ImportOptions, size: Option<u64>) -> u64 {
    let is_cut = options.shard.is_some()
        || options.log.from.is_some()
        || options.log.to.is_some()
        || options.null_padding == NullPadding::Eof;
    let size = size.filter(|_| !is_cut && !options.into_existing).unwrap_or_default();
    size - size / FRAMING
}

/// Address space that `workers`, and the threads of RocksDB and those that wait beside them, reserve and mostly never use.
/// Measured with `ulimit -v`: the least with which an import ended well was 0.9 GiB with one worker and 1.15 GiB with eight.
fn reserved(workers: u64) -> u64 {
    let threads = workers + OTHER_THREADS;
    threads * STACK + threads.min(ARENAS * parallel::cores() as u64) * ARENA
}

/// Checks that a budget is large enough to work with, and that this process may have as much.
pub(super) fn check_memory(options: &ImportOptions) -> Result<()> {
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
pub(super) fn excess_memory(options: &ImportOptions) -> Option<String> {
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

/// Chooses a plan for `expected` bytes of decompressed source; `exact` says whether that is its true size.
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
    // An input of unknown size may turn out too large: then its pieces need room beside what is held.
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
        open_files: 0,
        space: Vec::new(),
        links_bytes: 0,
        method: Method::CarSst {
            sort: SortPlan { spill, may_spill: turns_out, cached: false, by_reference: false, hold_bytes, partitions },
        },
    }
}

/// Turns a plan into that for a block log, which comes through a pipe where `piped`.
pub(super) fn for_log(plan: &mut Plan, piped: bool, families: Vec<String>) {
    let held = plan.memory / (4 * (plan.threads as u64 + 2));
    let range_bytes = match plan.expected_bytes {
        Some(bytes) if !piped => plan.sst_target(bytes),
        _ => held.clamp(MIN_PIPED_RANGE, MAX_PIPED_RANGE).min(plan.sst_bytes.max(MIN_PIPED_RANGE)),
    };
    // Blocks come in the order of their keys: only ids of transactions are partitioned and sorted.
    let partitions = plan.sort().map(|sort| sort.partitions.clone());
    let transactions = partitions.filter(|_| families.iter().any(|family| family == TRANSACTIONS));
    plan.method = Method::BlockLogSst { log: LogPlan { range_bytes, families, transactions } };
}

/// Turns a plan into that for the memtable loader with the options in `loading`, and returns warnings for the user.
pub(super) fn for_memtable(
    plan: &mut Plan,
    options: &ImportOptions,
    preset: &Resolved,
    loading: &OptionMap,
) -> Result<Vec<String>> {
    let number = |group, name| file_limits::number(loading, group, name);
    let buffer = number(Group::Cf, "write_buffer_size")?.max(1) as u64;
    let buffers = number(Group::Cf, "max_write_buffer_number")?.max(1) as u64;
    let cap = match number(Group::Db, "db_write_buffer_size")? {
        bytes @ 1.. => bytes as u64,
        _ => u64::MAX,
    };
    let families = plan.log().map_or(1, |log| log.families.len().max(1) as u64);
    let write_buffer_bytes = buffer.saturating_mul(buffers).saturating_mul(families).min(cap);
    let level0_files = match plan.expected_bytes {
        None => None,
        Some(bytes) => {
            let merged = number(Group::Cf, "min_write_buffer_number_to_merge")?.max(1) as u64;
            let each = bytes.div_ceil(buffer.saturating_mul(merged).min(cap)) + 1;
            let never = loading.get(Group::Cf, "disable_auto_compactions") == Some("true")
                || loading.get(Group::Cf, "compaction_style") == Some("kCompactionStyleNone");
            let stop = number(Group::Cf, "level0_stop_writes_trigger")?.max(1) as u64;
            Some(families * if never { each } else { each.min(stop) })
        }
    };
    plan.open_files = file_limits::of_memtable(plan, loading, level0_files.unwrap_or_default())?;
    let batches = most_batches(preset.writer_threads(), plan.threads);
    let batch_bytes = preset.batch_bytes().min(plan.memory / BATCHES_SHARE / batches as u64).max(LEAST_BATCH);
    let memtable = MemtablePlan {
        writer_threads: preset.writer_threads(),
        batch_bytes,
        batch_count: preset.batch_count(),
        write_buffer_bytes,
        level0_files,
        compact: preset.final_compaction(),
    };
    plan.method = match plan.log().cloned() {
        Some(log) => {
            let range_bytes = log.range_bytes.min(RANGE);
            // Memtables fill while partitions are sorted.
            let less = |plan: PartitionPlan| PartitionPlan { sort_bytes: plan.sort_bytes / PIECES_SHARE, ..plan };
            let transactions = log.transactions.map(less);
            Method::BlockLogMemtable { log: LogPlan { range_bytes, transactions, ..log }, memtable }
        }
        None => Method::CarMemtable { memtable },
    };

    let mut warnings = Vec::new();
    // A small source never fills them.
    let needed = write_buffer_bytes.min(plan.expected_bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(5) / 4));
    let needed = if is_vector(loading) { needed.saturating_mul(3) / 2 } else { needed };
    if needed > plan.memory {
        let reason = format!(
            "preset `{}` fills up to {} of write buffers, more than the memory budget of {}",
            preset.preset,
            human(needed),
            human(plan.memory)
        );
        if options.memory.is_some() {
            let hint =
                "give more --memory, or --set load.cf.write_buffer_size or load.cf.max_write_buffer_number lower";
            return Err(Error::Usage { reason, hint: hint.into() });
        }
        warnings.push(reason);
    }
    if let Some(files) = level0_files.filter(|&files| files > MANY_LEVEL0) {
        warnings.push(format!(
            "{files} files of level 0 are expected; beyond {MANY_LEVEL0} one compaction takes much memory: a larger \
             load.cf.write_buffer_size makes fewer"
        ));
    }
    Ok(warnings)
}

/// True if memtables are vectors. A vector has a pointer to each record beside its buffer, twice while it grows and once more
/// while it is flushed.
fn is_vector(loading: &OptionMap) -> bool {
    loading.get(Group::Cf, "memtable_factory").is_some_and(|factory| factory.to_lowercase().contains("vector"))
}

/// Bytes of the source after which memtables are flushed, if their buffers exceed the budget and the source was expected to be
/// smaller: a compressed source may be many times as large as its size suggests.
pub(super) fn unflushed_bytes(plan: &Plan, loading: &OptionMap) -> u64 {
    let limit = plan.memory / 5 * 4;
    let limit = if is_vector(loading) { limit / 3 * 2 } else { limit };
    let is_within = plan.expected_bytes.is_some_and(|bytes| bytes <= limit);
    let is_full_before = plan.memtable().is_some_and(|plan| plan.write_buffer_bytes <= limit);
    if is_within && !is_full_before { limit } else { u64::MAX }
}

/// Bytes appended to a partition at once where there are `partitions`: keys of several kinds make some times as many
/// as planned, and all pieces together, those that are being written included, must not take more for that.
pub(super) fn piece_bytes_for(plan: &Plan, sort: &SortPlan, partitions: u32) -> u64 {
    let each = plan.memory / PIECES_SHARE / (plan.threads as u64 * (u64::from(partitions) + IN_FLIGHT as u64));
    sort.partitions.piece_bytes.min(each.max(LEAST_PIECE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort::router::Router;

    fn plan(memory: u64, threads: usize, bytes: Option<u64>, exact: bool) -> Plan {
        choose(PlanChoice::Auto, bytes, exact, memory, threads, 1 << 20, 256 * MIB)
    }

    #[test]
    fn pieces_of_all_partitions_fit_their_share_with_any_number_of_key_classes() {
        for memory in [16, 64, 256, 1024, 65_536].map(|mib| mib * MIB) {
            for threads in [1, 2, 8, 64] {
                for bytes in [Some(4 * memory), Some(64 * memory), None] {
                    let plan = plan(memory, threads, bytes, bytes.is_some());
                    let sort = plan.sort().expect("a CAR");
                    for classes in 1..=6u32 {
                        let partitions = classes * ((1 << sort.partitions.bits) + 1) + 1;
                        let pieces =
                            piece_bytes_for(&plan, sort, partitions) * u64::from(partitions) * plan.threads as u64;
                        assert!(pieces <= memory / 4, "{pieces} of {memory} for {classes} classes: {plan:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_stay_in_the_page_cache_that_has_twice_their_room() {
        assert!(stays_cached(4 << 30, 8 << 30));
        assert!(!stays_cached(4 << 30, (8 << 30) - 1));
        // A budget beyond what the machine has leaves nothing.
        assert_eq!(page_cache(u64::MAX), 0);
    }

    #[test]
    fn resume_fits_partitions_or_names_memory() {
        let options = |memory: u64| ImportOptions::new("a.car", "db").memory(memory);
        // One class of keys.
        let router = Router::learn(std::iter::repeat_n((&[1, 2, 3, 4][..], 2), 100), 13);
        let partitions = u64::from(router.partitions());
        let resumed = ResumedState { router: Some(router), ..ResumedState::default() };
        let planned = |memory| Planned {
            plan: plan(memory, 4, Some(1 << 30), true),
            loading: OptionMap::default(),
            least_bytes: 0,
            warnings: Vec::new(),
        };
        let same = resume(&planned(256 * MIB), &options(256 * MIB), &resumed).expect("it fits");
        assert_eq!((same.threads, same.sort().expect("a CAR").partitions.bits), (4, 13));
        let less = resume(&planned(48 * MIB), &options(48 * MIB), &resumed).expect("it fits");
        assert_eq!(less.threads, 2);
        let pieces = piece_bytes_for(&less, less.sort().expect("a CAR"), partitions as u32) * partitions * 2;
        assert!(pieces <= 12 * MIB, "{pieces}");
        let error = resume(&planned(16 * MIB), &options(16 * MIB), &resumed).expect_err("it does not fit");
        assert_eq!(error.exit(), crate::error::Exit::State);
        assert!(error.to_string().contains("partitions, which need more memory than 16.0 MiB"), "{error}");
        assert_eq!(error.hint(), "run it again with --memory 17MiB or more, or start over with --restart");
        resume(&planned(17 * MIB), &options(17 * MIB), &resumed).expect("the hint is true");
    }

    #[test]
    fn what_is_held_and_what_threads_use_beside_it_fit_the_budget() {
        for memory in [64, 256, 1024, 65_536].map(|mib| mib * MIB) {
            for threads in [1, 8, 64, 256] {
                let plan = plan(memory, threads, Some(memory * 3 / 4), true);
                let largest = plan.sst_target(plan.expected_bytes.unwrap_or(0));
                // Nine bytes and a quarter a block of 1 KiB, an index entry for every 16 KiB.
                let kept = (largest / 100 + largest / 400) * plan.threads as u64;
                let reading = plan.chunk_bytes * (plan.threads as u64 + 2) * 2;
                let all = plan.sort().expect("a CAR").hold_bytes + kept + reading;
                assert!(all <= memory + 64 * MIB, "{all} of {memory}, {threads} threads: {plan:?}");
            }
        }
    }
}
