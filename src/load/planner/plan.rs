//! The plan of an import: what its sources, options and machine allow.

use std::path::PathBuf;

use crate::error::{Error, Result, StateKind};
use crate::external_sort::MAX_RUNS;
use crate::load::journal::ResumedState;
use crate::load::open::OpenSource;
use crate::load::options::{ImportOptions, PlanChoice};
use crate::load::planner::choose::{LEAST_PIECE, PIECES_SHARE, choose, for_log, for_records};
use crate::load::planner::dictionaries::beside_dictionaries;
use crate::load::planner::limits::{self, MIN_MEMORY};
use crate::load::planner::memtable::for_memtable;
use crate::os::mmap::MAX_MAPS;
use crate::os::resources;
use crate::preset::{Loader, Resolved};
use crate::report::{Method, Plan, RecordsPlan};
use crate::rocks::{OptionMap, options_of};
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};
use crate::sort::IN_FLIGHT;
use crate::source::car::NullPadding;
use crate::text::size::human;

/// Memory for each source after the first, in bytes: its properties, and a mark of 16 bytes in most partitions.
const SOURCE: u64 = 4 << 10;

/// Memory for the identity of each of several sources in memory, in the journal and in the report, in bytes. 60,000 took 2 KiB each.
const IDENTITY: u64 = 2 << 10;

/// Memory for each byte of its name. 4,000 names of 3,847 bytes took 12 times as much, 18,000 of 832 bytes 14 times.
const NAME_COPIES: u64 = 12;

/// Keys and links that are compared take the budget divided by this.
const LINKS_SHARE: u64 = 8;

/// At most the source's size divided by this surrounds the blocks and is not stored.
const FRAMING: u64 = 8;

/// Partitions stay in the page cache if it has this many times the size of the blocks, because the source is read and SST files are
/// written meanwhile.
const CACHED_SHARE: u64 = 2;

/// The blocks of a source stay in its file if the source takes at most this share of the page cache. With a share of 0.72, an import
/// took 0.68 of the time that it took with spilled blocks; with 1.1, three times as long (BENCHMARKS.md, "Growth").
const SOURCE_SHARE: (u64, u64) = (3, 4);

const MIB: u64 = 1 << 20;

/// Files that may be open if the system names no limit.
const UNLIMITED_FILES: u64 = 1 << 20;

pub(in crate::load) struct Planned {
    pub plan: Plan,
    /// The options of the database while it is loaded.
    pub loading: OptionMap,
    /// Minimum size of the database in bytes, if its options and the source's size determine one; else 0.
    pub least_bytes: u64,
    pub warnings: Vec<String>,
}

/// Plans an import of the opened source.
pub(in crate::load) fn plan(options: &ImportOptions, preset: &Resolved, opened: &OpenSource) -> Result<Planned> {
    let OpenSource { expected, ref sources, .. } = *opened;
    let (plain, is_exact, count) = (sources.are_plain(), sources.need_no_decompression(), sources.names.len() as u64);
    let log = opened.log();
    let budget = options.memory_budget();
    let links_bytes = if options.links.are_followed() && log.is_none() { budget / LINKS_SHARE } else { 0 };
    let memory = budget - links_bytes;
    let max_files = resources::open_files().0.unwrap_or(UNLIMITED_FILES);
    let own = if plain { memory } else { memory - memory / 4 };
    // Blocks that are not mapped are copied to pieces. If the size is unknown, `choose` leaves room for them.
    let is_mapped = plain && count <= MAX_MAPS as u64;
    let own = if !is_mapped && is_exact { own - own / 4 } else { own };
    let identity = |name: &PathBuf| IDENTITY + NAME_COPIES * name.as_os_str().len() as u64;
    let identities = if count > 1 { sources.names.iter().map(identity).sum() } else { 0_u64 };
    if identities > budget {
        let hint = format!(
            "give --memory {} or more, or import fewer at once; blocks can be added later with --into-existing",
            human(identities.next_multiple_of(1 << 20)).replace(".0 ", "")
        );
        return Err(Error::usage(format!("{count} sources do not fit a memory budget of {}", human(budget)), hint));
    }
    // The memory for blocks is never less than the least budget.
    let own = own.saturating_sub(identities).max(own.min(MIN_MEMORY));
    let own = own - (count - 1).saturating_mul(SOURCE).min(own / 8);
    // The options of the existing database, if the import adds to one.
    let existing = if options.into_existing { options_of(&options.db, &options.column_family)? } else { None };
    let loading = existing.unwrap_or_else(|| preset.loading());
    let of_streams = opened.records().into_iter().flat_map(|streams| streams.presets.iter().map(Resolved::loading));
    let maps = std::iter::once(loading.clone()).chain(of_streams);
    let (own, threads) = beside_dictionaries(maps, own, threads(options, preset));
    let choice = match options.plan {
        // Blocks in memory are lost by a kill and would have to be fetched again.
        PlanChoice::Auto if opened.prefers_spill_for_resume() => PlanChoice::Spill,
        choice => choice,
    };
    let sst_size = preset.sst_size();
    let plan_of = |bytes, is_exact| choose(choice, bytes, is_exact, own, threads, max_files, sst_size);
    let mut plan = match options.shard {
        None => plan_of(expected, is_exact),
        // A shard has about its share of the blocks, so a shard that seems to fit may exceed the budget.
        Some(shard) => {
            let share = expected.map(|bytes| bytes.div_ceil(u64::from(shard.of)));
            Some(plan_of(share, is_exact)).filter(Plan::spills).unwrap_or_else(|| plan_of(share, false))
        }
    };
    if let Method::CarSst { sort } = &mut plan.method {
        let free = page_cache(budget);
        sort.cached = expected.is_some_and(|bytes| stays_cached(bytes, free));
        let prefers_references = match options.plan {
            PlanChoice::Source => true,
            PlanChoice::Auto => expected.is_some_and(|bytes| source_stays_cached(bytes, free)),
            PlanChoice::Memory | PlanChoice::Spill => false,
        };
        sort.by_reference = sort.spill && plain && prefers_references;
        if options.plan == PlanChoice::Source && !plain {
            let reason =
                "the plan `source` needs a plain file: blocks of this source cannot be read again at their places";
            return Err(Error::usage(reason, "leave it out"));
        }
    }
    if let Some(log) = log {
        let ids = options.log.indexes.ids.then(|| BLOCK_IDS.to_owned());
        let transactions = options.log.indexes.transactions.then(|| TRANSACTIONS.to_owned());
        for_log(&mut plan, log.is_piped(), [DEFAULT.to_owned()].into_iter().chain(ids).chain(transactions).collect());
    }
    if let Some(streams) = opened.records() {
        let records = RecordsPlan {
            families: streams.families.clone(),
            dump_family: options.column_family.clone(),
            is_sorted: streams.are_sorted(),
            duplicates: options.duplicates,
            allow_no_trailer: options.allow_no_trailer,
            ..RecordsPlan::default()
        };
        for_records(&mut plan, records);
    }
    let mut warnings = Vec::new();
    match preset.loader {
        Loader::Ingest => plan.open_files = limits::ingest_files(&plan, &loading),
        Loader::Memtable => warnings = for_memtable(&mut plan, options, preset, &loading)?,
    }
    (plan.budget_bytes, plan.links_bytes) = (budget, links_bytes);
    if links_bytes > 0 {
        plan.open_files += MAX_RUNS as u64;
    }
    limits::check_files(plan.open_files, max_files, options)?;
    let least_bytes = if limits::is_uncompressed(&loading) { least_bytes(options, opened.largest) } else { 0 };
    Ok(Planned { plan, loading, least_bytes, warnings })
}

/// Fits the plan of a new or resumed import to the partitions in its journal. The memory of this run decides the number of
/// threads. It is an error if the partitions need more memory or open files than this run may use.
pub(in crate::load) fn fit_plan_to_journal(
    planned: &Planned,
    options: &ImportOptions,
    resumed: &ResumedState,
) -> Result<Plan> {
    let mut plan = planned.plan.clone();
    let partitions = match (&mut plan.method, &resumed.car.router, &resumed.identity) {
        (Method::CarSst { sort }, Some(router), _) => {
            sort.spill |= resumed.car.read.is_some();
            sort.partitions.bits = router.bits;
            router.partitions()
        }
        (Method::BlockLogSst { log } | Method::BlockLogMemtable { log, .. }, _, Some(first)) => {
            let Some(transactions) = &mut log.transactions else { return Ok(plan) };
            transactions.bits = first.partition_bits;
            1u32.checked_shl(transactions.bits).unwrap_or(u32::MAX)
        }
        _ => return Ok(plan),
    };
    let each = (u64::from(partitions) + IN_FLIGHT as u64) * LEAST_PIECE * PIECES_SHARE;
    if each > plan.memory {
        let needed = options.memory_budget() as f64 * each as f64 / plan.memory.max(1) as f64;
        let budget = human(options.memory_budget());
        let reason = format!("the unfinished import has {partitions} partitions, which need more memory than {budget}");
        let mib = (needed / MIB as f64).ceil();
        let hint = format!("run it again with --memory {mib}MiB or more, or start over with --restart");
        return Err(Error::state(&options.db, StateKind::Unfinished, reason, hint));
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
        plan.open_files = limits::ingest_files(&plan, &planned.loading) + runs;
        limits::check_files(plan.open_files, resources::open_files().0.unwrap_or(UNLIMITED_FILES), options)?;
    }
    Ok(plan)
}

/// Memory that is available to the page cache beside `budget`, in bytes.
fn page_cache(budget: u64) -> u64 {
    let available = [resources::available_memory(), resources::cgroup_memory()].into_iter().flatten().min();
    available.unwrap_or_default().saturating_sub(budget)
}

/// True if partitions of `bytes` of blocks stay in a page cache of `free` bytes.
fn stays_cached(bytes: u64, free: u64) -> bool {
    free / CACHED_SHARE >= bytes
}

/// True if a source of `bytes` stays in a page cache of `free` bytes while its blocks are stored.
fn source_stays_cached(bytes: u64, free: u64) -> bool {
    let (share, of) = SOURCE_SHARE;
    bytes <= free / of * share
}

/// The number of worker threads: the caller's, or else the preset's.
pub(in crate::load) fn threads(options: &ImportOptions, preset: &Resolved) -> usize {
    crate::parallel::count(options.threads.or_else(|| Some(preset.sst_threads())))
}

/// Returns the minimum size of an uncompressed database whose largest source has `size` bytes: blocks are at least as large
/// as their compressed form. 0 if only a part of the source may be read, or if blocks may be in the database already.
fn least_bytes(options: &ImportOptions, size: Option<u64>) -> u64 {
    let is_cut = options.shard.is_some()
        || options.log.from.is_some()
        || options.log.to.is_some()
        || options.null_padding == NullPadding::Eof;
    let size = size.filter(|_| !is_cut && !options.into_existing).unwrap_or_default();
    size - size / FRAMING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::journal::ResumedCar;
    use crate::load::planner::piece_bytes_for;
    use crate::sort::Router;

    fn plan(memory: u64, threads: usize, bytes: Option<u64>, exact: bool) -> Plan {
        choose(PlanChoice::Auto, bytes, exact, memory, threads, 1 << 20, 256 * MIB)
    }

    #[test]
    fn pieces_of_all_partitions_fit_their_share() {
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
    fn cached_blocks_need_a_larger_page_cache() {
        assert!(stays_cached(4 << 30, 8 << 30));
        assert!(!stays_cached(4 << 30, (8 << 30) - 1));
        assert!(source_stays_cached(6 << 30, 8 << 30));
        assert!(!source_stays_cached(6 << 30, (8 << 30) - 4));
        // A budget larger than the machine's memory leaves nothing.
        assert_eq!(page_cache(u64::MAX), 0);
    }

    #[test]
    fn resume_fits_partitions_or_names_memory() {
        let options = |memory: u64| ImportOptions::new("a.car", "db").memory(memory);
        // One class of keys.
        let router = Router::learn(std::iter::repeat_n((&[1, 2, 3, 4][..], 2), 100), 13);
        let partitions = u64::from(router.partitions());
        let resumed = ResumedState {
            car: ResumedCar { router: Some(router), ..ResumedCar::default() },
            ..ResumedState::default()
        };
        let planned = |memory| Planned {
            plan: plan(memory, 4, Some(1 << 30), true),
            loading: OptionMap::default(),
            least_bytes: 0,
            warnings: Vec::new(),
        };
        let same = fit_plan_to_journal(&planned(256 * MIB), &options(256 * MIB), &resumed).expect("it fits");
        assert_eq!((same.threads, same.sort().expect("a CAR").partitions.bits), (4, 13));
        let less = fit_plan_to_journal(&planned(48 * MIB), &options(48 * MIB), &resumed).expect("it fits");
        assert_eq!(less.threads, 2);
        let pieces = piece_bytes_for(&less, less.sort().expect("a CAR"), partitions as u32) * partitions * 2;
        assert!(pieces <= 12 * MIB, "{pieces}");
        let error = fit_plan_to_journal(&planned(16 * MIB), &options(16 * MIB), &resumed).expect_err("it does not fit");
        assert_eq!(error.exit(), crate::error::Exit::State);
        assert!(error.to_string().contains("partitions, which need more memory than 16.0 MiB"), "{error}");
        assert_eq!(error.hint(), "run it again with --memory 17MiB or more, or start over with --restart");
        fit_plan_to_journal(&planned(17 * MIB), &options(17 * MIB), &resumed).expect("the hint is true");
    }

    #[test]
    fn stored_blocks_and_threads_fit_the_budget() {
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
