//! What the memtable loader's options come to: buffers, batches, files of level 0.

use super::super::options::ImportOptions;
use super::super::{descriptors, durable};
use super::writers;
use crate::error::{Error, Result};
use crate::preset::Resolved;
use crate::report::{MemtablePlan, Plan};
use crate::rocks::option_map::{Group, OptionMap};
use crate::size::human;

/// Files of level 0 beyond which one compaction of all of them is told to be unwise.
const MANY_LEVEL0: u64 = 500;

/// Bytes a second at which a slow disk or a slow option set still takes records. Each durable point flushes, so that at
/// this speed no file of level 0 holds more than what comes in between two of them.
const SLOW: u64 = 48 << 20;

/// The share of the budget, as its reciprocal, that all batches together may take; and the smallest batch worth a write,
/// in bytes.
const BATCHES_SHARE: u64 = 8;
const LEAST_BATCH: u64 = 4 << 10;

/// The most bytes of a log that one thread takes at once: so blocks are written nearly in their order, and a durable
/// point need not wait long for what is in hand.
const RANGE: u64 = 8 << 20;

/// Adds to a plan what the options in `loading` come to, and what the user should hear about that.
///
/// # Errors
/// The write buffers do not fit into a budget that the user has named.
pub(in crate::load) fn plan(
    plan: &mut Plan,
    options: &ImportOptions,
    preset: &Resolved,
    loading: &OptionMap,
) -> Result<Vec<String>> {
    let number = |group, name| descriptors::number(loading, group, name);
    let buffer = number(Group::Cf, "write_buffer_size")?.max(1) as u64;
    let buffers = number(Group::Cf, "max_write_buffer_number")?.max(1) as u64;
    let cap = match number(Group::Db, "db_write_buffer_size")? {
        bytes @ 1.. => bytes as u64,
        _ => u64::MAX,
    };
    let families = plan.log.as_ref().map_or(1, |log| log.families.len().max(1) as u64);
    let write_buffer_bytes = buffer.saturating_mul(buffers).saturating_mul(families).min(cap);
    let level0_files = match plan.expected_bytes {
        None => None,
        Some(bytes) => {
            let merged = number(Group::Cf, "min_write_buffer_number_to_merge")?.max(1) as u64;
            let between_points = SLOW * durable::EVERY.as_secs();
            let blocks = bytes.div_ceil(buffer.saturating_mul(merged).min(cap).min(between_points)) + 1;
            // What finds blocks fills its memtables slowly: each durable point makes a file of them.
            let others = (families - 1) * (bytes.div_ceil(between_points) + 1);
            let never = loading.get(Group::Cf, "disable_auto_compactions") == Some("true")
                || loading.get(Group::Cf, "compaction_style") == Some("kCompactionStyleNone");
            let stop = number(Group::Cf, "level0_stop_writes_trigger")?.max(1) as u64;
            Some(if never { blocks + others } else { blocks.min(stop) + others.min((families - 1) * stop) })
        }
    };
    match &mut plan.log {
        // Only ids of transactions are partitioned, and sorted to find those that occur twice.
        Some(log) => log.range_bytes = log.range_bytes.min(RANGE),
        None => {
            (plan.partition_bits, plan.hold_bytes, plan.piece_bytes, plan.sort_bytes, plan.spill) = (0, 0, 0, 0, false);
        }
    }
    plan.open_files = descriptors::of_memtable(plan, loading, level0_files.unwrap_or_default())?;
    let batches = writers::most_batches(preset.writer_threads(), plan.threads);
    let batch_bytes = preset.batch_bytes().min(plan.memory / BATCHES_SHARE / batches as u64).max(LEAST_BATCH);
    plan.memtable = Some(MemtablePlan {
        writer_threads: preset.writer_threads(),
        batch_bytes,
        batch_count: preset.batch_count(),
        write_buffer_bytes,
        level0_files,
        compact: !options.no_compact,
    });

    let mut warnings = Vec::new();
    // A small source never fills them.
    let needed = write_buffer_bytes.min(plan.expected_bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(5) / 4));
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
