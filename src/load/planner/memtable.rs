//! The plan of the memtable loader.

use crate::error::{Error, Result};
use crate::load::options::ImportOptions;
use crate::load::planner::limits;
use crate::load::sink::batches::most_batches;
use crate::preset::Resolved;
use crate::report::{MemtablePlan, Method, Plan};
use crate::rocks::{Group, OptionMap};
use crate::text::size::human;

/// With more files of level 0, the import warns that one compaction reads all of them.
const MANY_LEVEL0: u64 = 500;

/// The share of the budget, as its reciprocal, that all batches together may take.
const BATCHES_SHARE: u64 = 8;

/// The smallest batch worth a write, in bytes.
const LEAST_BATCH: u64 = 4 << 10;

/// The most bytes of a log that one thread takes at once. Thus blocks are written nearly in their order.
const RANGE: u64 = 8 << 20;

/// The share of the planned memory, as its reciprocal, in which ids of transactions are sorted.
const SORT_SHARE: u64 = 4;

/// Turns a plan into that of the memtable loader with the options in `loading`. Returns warnings for the user. It is an error
/// if the write buffers exceed a budget that the user chose.
pub(in crate::load) fn for_memtable(
    plan: &mut Plan,
    options: &ImportOptions,
    preset: &Resolved,
    loading: &OptionMap,
) -> Result<Vec<String>> {
    let number = |group, name| limits::number(loading, group, name);
    let buffer = number(Group::Cf, "write_buffer_size").max(1) as u64;
    let buffers = number(Group::Cf, "max_write_buffer_number").max(1) as u64;
    let cap = match number(Group::Db, "db_write_buffer_size") {
        bytes @ 1.. => bytes as u64,
        _ => u64::MAX,
    };
    let families = plan.log().map_or(1, |log| log.families.len().max(1) as u64);
    let write_buffer_bytes = buffer.saturating_mul(buffers).saturating_mul(families).min(cap);
    let merged = number(Group::Cf, "min_write_buffer_number_to_merge").max(1) as u64;
    let never = loading.get(Group::Cf, "disable_auto_compactions") == Some("true")
        || loading.get(Group::Cf, "compaction_style") == Some("kCompactionStyleNone");
    let most = if never { u64::MAX } else { number(Group::Cf, "level0_stop_writes_trigger").max(1) as u64 };
    let level0_files = plan.expected_bytes.map(|bytes| {
        let each = bytes.div_ceil(buffer.saturating_mul(merged).min(cap)) + 1;
        families * each.min(most)
    });
    plan.open_files = limits::memtable_files(plan, loading, level0_files.unwrap_or_default());
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
        Some(mut log) => {
            log.range_bytes = log.range_bytes.min(RANGE);
            // Memtables fill while partitions are sorted.
            log.transactions.iter_mut().for_each(|plan| plan.sort_bytes /= SORT_SHARE);
            Method::BlockLogMemtable { log, memtable }
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
            return Err(Error::usage(reason, hint));
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

/// True if memtables are vectors, which have a pointer to each record beside its buffer: twice while they grow, and once more
/// while they are flushed.
fn is_vector(loading: &OptionMap) -> bool {
    loading.get(Group::Cf, "memtable_factory").is_some_and(|factory| factory.to_lowercase().contains("vector"))
}

/// Bytes of the source after which memtables are flushed. This is needed if the write buffers exceed the budget and the source
/// does not by its size: a compressed source may be many times larger.
pub(in crate::load) fn unflushed_bytes(plan: &Plan, loading: &OptionMap) -> u64 {
    let limit = plan.memory / 5 * 4;
    let limit = if is_vector(loading) { limit / 3 * 2 } else { limit };
    let is_within = plan.expected_bytes.is_some_and(|bytes| bytes <= limit);
    let is_full_before = plan.memtable().is_some_and(|plan| plan.write_buffer_bytes <= limit);
    if is_within && !is_full_before { limit } else { u64::MAX }
}
