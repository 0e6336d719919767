//! RocksDB's functions that set several options, expanded into these options. A test compares them with RocksDB.

use super::key::Scope;

/// The options that a shorthand sets; empty if it is switched off.
pub(super) fn expand(name: &str, value: i128) -> Vec<(Scope, &'static str, String)> {
    use Scope::{Cf, Db, Table};
    let bytes = (value << 20).to_string();
    let list: &[(Scope, &'static str, &str)] = match name {
        _ if value == 0 => &[],
        "prepare_for_bulk_load" => &[
            (Cf, "level0_file_num_compaction_trigger", "1073741824"),
            (Cf, "level0_slowdown_writes_trigger", "1073741824"),
            (Cf, "level0_stop_writes_trigger", "1073741824"),
            (Cf, "soft_pending_compaction_bytes_limit", "0"),
            (Cf, "hard_pending_compaction_bytes_limit", "0"),
            (Cf, "disable_auto_compactions", "true"),
            (Cf, "max_compaction_bytes", "1152921504606846976"),
            (Cf, "num_levels", "2"),
            (Cf, "max_write_buffer_number", "6"),
            (Cf, "min_write_buffer_number_to_merge", "1"),
            (Db, "max_background_flushes", "4"),
            (Db, "max_background_compactions", "2"),
            (Cf, "target_file_size_base", "268435456"),
        ],
        "optimize_for_point_lookup" => &[
            (Table, "data_block_index_type", "kDataBlockBinaryAndHash"),
            (Table, "data_block_hash_table_util_ratio", "0.75"),
            (Table, "filter_policy", "bloomfilter:10:false"),
            (Cf, "memtable_prefix_bloom_size_ratio", "0.02"),
            (Cf, "memtable_whole_key_filtering", "true"),
            (Table, "block_cache", &bytes),
        ],
        _ => &[],
    };
    list.iter().map(|(scope, name, value)| (*scope, *name, (*value).to_owned())).collect()
}
