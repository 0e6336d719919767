//! Values of single options that RocksDB's parser accepts and that then end the process, start threads or take memory
//! without limit, or cannot work in an import. `scripts/sweep-options` finds them.

use super::key::{Key, Scope};

/// Most threads of one kind.
const MAX_THREADS: i128 = 1024;

/// Seconds in 136 years.
const MAX_SECONDS: i128 = u32::MAX as i128;

/// The only comparator of an import, and the reason why no other is accepted.
const COMPARATOR: &str = "leveldb.BytewiseComparator";
pub(super) const OTHER_ORDER: &str = "records are sorted byte by byte, as leveldb.BytewiseComparator does";

/// Numbers with the smallest and largest value. A field of a structure is named without the structure.
const LIMITS: &[(Scope, &str, i128, i128)] = &[
    // RocksDB has no cache of tables with more bits of shards (`NewLRUCache`), and no array of levels without a level.
    (Scope::Db, "table_cache_numshardbits", 0, 19),
    (Scope::Cf, "num_levels", 1, 64),
    // RocksDB starts every thread.
    (Scope::Db, "max_file_opening_threads", 1, MAX_THREADS),
    (Scope::Db, "max_background_jobs", -1, MAX_THREADS),
    (Scope::Db, "max_background_flushes", -1, MAX_THREADS),
    (Scope::Db, "max_background_compactions", -1, MAX_THREADS),
    (Scope::Db, "max_subcompactions", 0, MAX_THREADS),
    (Scope::Db, "read_io_executor_threads", 0, MAX_THREADS),
    (Scope::Cf, "parallel_threads", 0, MAX_THREADS),
    (Scope::Ingest, "threads", 1, MAX_THREADS),
    (Scope::Ingest, "file_opening_threads", 1, MAX_THREADS),
    (Scope::Write, "writer_threads", 1, MAX_THREADS),
    (Scope::Compaction, "max_subcompactions", 0, MAX_THREADS),
    // RocksDB allocates a buffer of this size at once.
    (Scope::Db, "log_readahead_size", 0, 1 << 30),
    // RocksDB allocates such a block for every memtable, with a write buffer of any size.
    (Scope::Cf, "arena_block_size", 0, 256 << 20),
    // RocksDB adds the current time to them.
    (Scope::Cf, "preclude_last_level_data_seconds", 0, MAX_SECONDS),
    (Scope::Cf, "preserve_internal_time_seconds", 0, MAX_SECONDS),
    // RocksDB corrects these in options that a program sets, and not in those that its parser reads.
    (Scope::Table, "block_restart_interval", 1, i32::MAX as i128),
    (Scope::Table, "index_block_restart_interval", 1, i32::MAX as i128),
    (Scope::Table, "block_size_deviation", 0, 100),
    // With `block_align`, a builder does not end with 0.
    (Scope::Table, "block_size", 1, u32::MAX as i128),
];

/// Values that cannot work in an import, and the reason.
const REFUSED: &[(Scope, &str, &str, &str)] = &[
    (Scope::Db, "allow_ingest_behind", "true", "it reserves the last level, to which the import moves all files"),
    (Scope::Cf, "cf_allow_ingest_behind", "true", "it reserves the last level, to which the import moves all files"),
    (Scope::Db, "error_if_exists", "true", "the import opens the database more than once"),
    (Scope::Db, "use_session_tmp_dir_for_remote_compaction", "true", "it leaves a directory in the database"),
];

/// The reason why an option cannot have this value: it is outside of its limits, or cannot work in an import.
pub(super) fn refusal(Key { scope, name, .. }: &Key, value: &str) -> Option<String> {
    let field = name.rsplit('.').next().unwrap_or(name);
    let limits = LIMITS.iter().find(|(of, limited, ..)| of == scope && *limited == field);
    if let (Some((_, _, lowest, highest)), Ok(number)) = (limits, value.parse::<i128>())
        && !(*lowest..=*highest).contains(&number)
    {
        return Some(format!("it must be {lowest} to {highest}"));
    }
    if (*scope, name.as_str()) == (Scope::Cf, "comparator") && value != COMPARATOR {
        return Some(OTHER_ORDER.to_owned());
    }
    let refused = REFUSED.iter().find(|(of, option, refused, _)| of == scope && option == name && *refused == value);
    refused.map(|(.., reason)| (*reason).to_owned())
}
