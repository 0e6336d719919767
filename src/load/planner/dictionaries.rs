//! Memory for training dictionaries of compression.

use crate::load::planner::limits::{MIN_MEMORY, is_uncompressed};
use crate::report::Plan;
use crate::rocks::OptionMap;

/// The least budget, in bytes, for each thread that trains dictionaries. The tables of zstd's trainer take 6 MiB, an eighth.
const TRAINING_BUDGET: u64 = 48 << 20;

/// Share of the budget, as its reciprocal, for the samples of all threads. A dictionary is not larger than its samples. RocksDB has
/// the samples twice, and zstd up to three copies of the dictionary.
const SAMPLES_SHARE: u64 = 64;

/// Share of the budget, as a fraction, that is left for everything else.
const LEFT: (u64, u64) = (3, 4);

/// Returns the memory and the threads for building files with these options.
pub(in crate::load) fn beside_dictionaries(
    mut maps: impl Iterator<Item = OptionMap>,
    memory: u64,
    threads: usize,
) -> (u64, usize) {
    if !maps.any(|map| map.trains_dictionaries() && !is_uncompressed(&map)) {
        return (memory, threads);
    }
    let most = (memory / TRAINING_BUDGET).max(1);
    ((memory / LEFT.1 * LEFT.0).max(memory.min(MIN_MEMORY)), threads.min(most as usize))
}

/// The most bytes of a dictionary, and of the samples for it.
pub(in crate::load) fn dictionary_bytes(plan: &Plan) -> u64 {
    (plan.budget_bytes / (SAMPLES_SHARE * plan.threads.max(1) as u64)).max(1)
}
