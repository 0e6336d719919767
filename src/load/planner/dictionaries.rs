//! Memory for training dictionaries of compression. RocksDB would keep a whole file in memory to take samples of its blocks.

use crate::load::planner::limits::{MIN_MEMORY, number};
use crate::report::Plan;
use crate::rocks::{Group, OptionMap};

/// Memory of a thread that trains a dictionary, beside its samples: the tables of zstd's trainer, in bytes.
const TRAINER: u64 = 6 << 20;

/// The budget divided by this is for the trainers of all threads, and divided by the other for the samples of all threads. A dictionary
/// is not larger than its samples, which exist twice, and zstd copies it up to three times.
const TRAINERS_SHARE: u64 = 8;
const SAMPLES_SHARE: u64 = 64;

/// Memory that is left beside dictionaries, as a fraction.
const LEFT: (u64, u64) = (3, 4);

const COMPRESSIONS: [&str; 2] = ["compression_opts", "bottommost_compression_opts"];

/// Returns the memory and the threads for building files with these options.
pub(in crate::load) fn beside_dictionaries(
    mut maps: impl Iterator<Item = OptionMap>,
    memory: u64,
    threads: usize,
) -> (u64, usize) {
    let trains = |map: &OptionMap, options| number(map, Group::Cf, &format!("{options}.max_dict_bytes")) > 0;
    if !maps.any(|map| COMPRESSIONS.iter().any(|options| trains(&map, options))) {
        return (memory, threads);
    }
    let most = (memory / (TRAINERS_SHARE * TRAINER)).max(1);
    ((memory / LEFT.1 * LEFT.0).max(memory.min(MIN_MEMORY)), threads.min(most as usize))
}

/// Bounds the samples and the dictionaries of the files that are built at once.
pub(in crate::load) fn bound_dictionaries(map: &mut OptionMap, plan: &Plan) {
    let most = (plan.budget_bytes / (SAMPLES_SHARE * plan.threads.max(1) as u64)).max(1) as i64;
    for options in COMPRESSIONS {
        let [size, samples] = ["max_dict_bytes", "max_dict_buffer_bytes"].map(|field| format!("{options}.{field}"));
        let bytes = number(map, Group::Cf, &size);
        if bytes > 0 {
            // Zero is no limit.
            let limit = Some(number(map, Group::Cf, &samples)).filter(|&limit| limit > 0);
            map.set(Group::Cf, size, bytes.min(most).to_string());
            map.set(Group::Cf, samples, limit.map_or(most, |limit| limit.min(most)).to_string());
        }
    }
}
