//! RocksDB's options without effect in the ingest loader, which uses no memtable, no WAL and no compaction. They are
//! errors in `load`, not in `node`. A test checks that each pattern matches an option of RocksDB.

use super::key::Scope;

const MEMTABLE: &str = "no record passes through a memtable";
const WAL: &str = "nothing is written to the WAL";
const COMPACTION: &str = "nothing is compacted while loading";
const BLOB: &str = "SST files are built outside of the database, without blob files";

/// Scope, a name or a prefix with `*`, and the reason.
const PATTERNS: &[(Scope, &str, &str)] = &[
    (Scope::Db, "allow_concurrent_memtable_write", MEMTABLE),
    (Scope::Db, "db_write_buffer_size", MEMTABLE),
    (Scope::Db, "delayed_write_rate", MEMTABLE),
    (Scope::Db, "enable_pipelined_write", MEMTABLE),
    (Scope::Db, "enable_write_thread_adaptive_yield", MEMTABLE),
    (Scope::Db, "max_write_batch_group_size_bytes", MEMTABLE),
    (Scope::Db, "unordered_write", MEMTABLE),
    (Scope::Db, "two_write_queues", MEMTABLE),
    (Scope::Db, "atomic_flush", MEMTABLE),
    (Scope::Db, "write_thread_*", MEMTABLE),
    (Scope::Db, "max_background_flushes", MEMTABLE),
    (Scope::Db, "max_background_compactions", COMPACTION),
    (Scope::Db, "max_background_jobs", COMPACTION),
    (Scope::Db, "max_subcompactions", COMPACTION),
    (Scope::Db, "compaction_readahead_size", COMPACTION),
    (Scope::Db, "manual_wal_flush", WAL),
    (Scope::Db, "max_total_wal_size", WAL),
    (Scope::Db, "wal_*", WAL),
    (Scope::Db, "WAL_*", WAL),
    (Scope::Cf, "arena_block_size", MEMTABLE),
    (Scope::Cf, "write_buffer_size", MEMTABLE),
    (Scope::Cf, "max_write_buffer_*", MEMTABLE),
    (Scope::Cf, "min_write_buffer_*", MEMTABLE),
    (Scope::Cf, "memtable_*", MEMTABLE),
    (Scope::Cf, "inplace_update_*", MEMTABLE),
    (Scope::Cf, "max_successive_merges", MEMTABLE),
    (Scope::Cf, "bloom_locality", MEMTABLE),
    (Scope::Cf, "experimental_mempurge_threshold", MEMTABLE),
    (Scope::Cf, "level0_*", COMPACTION),
    (Scope::Cf, "soft_pending_compaction_bytes_limit", COMPACTION),
    (Scope::Cf, "hard_pending_compaction_bytes_limit", COMPACTION),
    (Scope::Cf, "compaction_*", COMPACTION),
    (Scope::Cf, "max_compaction_bytes", COMPACTION),
    (Scope::Cf, "max_bytes_for_level_*", COMPACTION),
    (Scope::Cf, "target_file_size_*", COMPACTION),
    (Scope::Cf, "periodic_compaction_seconds", COMPACTION),
    (Scope::Cf, "optimize_filters_for_hits", "a builder of SST files does not know the level they will go to"),
    (Scope::Cf, "enable_blob_*", BLOB),
    (Scope::Cf, "blob_*", BLOB),
    (Scope::Cf, "min_blob_size", BLOB),
];

/// The reason why an option in `load` has no effect with the ingest loader.
pub(super) fn why(scope: Scope, name: &str) -> Option<&'static str> {
    PATTERNS
        .iter()
        .find(|(of, pattern, _)| {
            *of == scope && pattern.strip_suffix('*').map_or(*pattern == name, |start| name.starts_with(start))
        })
        .map(|(.., why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocks::options;

    #[test]
    fn every_pattern_meets_an_option_of_rocksdb() {
        let defaults = options::defaults().expect("a temporary directory");
        for (scope, pattern, _) in PATTERNS {
            let group = scope.group().expect("a scope of the parser");
            let meets = defaults
                .names(group)
                .any(|name| pattern.strip_suffix('*').map_or(*pattern == name, |start| name.starts_with(start)));
            assert!(meets, "{scope}.{pattern}");
        }
    }
}
