//! The registry: one row for each option that RocksDB's option parser does not read.
//!
//! These are fields of RocksDB's structures for single operations, RocksDB's functions that set several options, and
//! bedload's own options. Fields that would make a load fail (`no_slowdown`, `ingest_behind`) or have no meaning in it
//! (rate limiter priorities, timestamps of snapshots) have no row.

use super::key::Loader;
pub use super::key::Scope;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Bool,
    /// A number of bytes, with or without a unit.
    Size,
    /// A whole number, at least this.
    Count(i64),
    Choice(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A field of RocksDB, with its name and default.
    RocksDb,
    /// A function of RocksDB that sets several options.
    Shorthand,
    Bedload,
}

#[derive(Debug, Clone, Copy)]
pub struct RegistryRow {
    pub name: &'static str,
    pub scope: Scope,
    pub owner: Owner,
    pub kind: ValueKind,
    /// Its value if the user sets none, as written in a preset.
    pub default: &'static str,
    /// The only loader that uses it; `None` for both.
    pub loader: Option<Loader>,
    /// True if `node` accepts it as well as `load`.
    pub in_node: bool,
}

const fn row(name: &'static str, scope: Scope, owner: Owner, kind: ValueKind, default: &'static str) -> RegistryRow {
    let loader = match scope {
        Scope::Write | Scope::Compaction => Some(Loader::Memtable),
        Scope::Ingest => Some(Loader::Ingest),
        Scope::Db | Scope::Cf | Scope::Table => None,
    };
    RegistryRow { name, scope, owner, kind, default, loader, in_node: false }
}

/// All rows. Comments have the effect of an option, and the reason of bedload's defaults.
pub const ROWS: &[RegistryRow] = &[
    // RocksDB's PrepareForBulkLoad: triggers lifted, no automatic compaction, two levels, six write buffers.
    RegistryRow {
        loader: Some(Loader::Memtable),
        ..row("prepare_for_bulk_load", Scope::Db, Owner::Shorthand, ValueKind::Bool, "false")
    },
    // RocksDB's OptimizeForPointLookup with a block cache of this many MiB: hash index in data blocks, Bloom filter of
    // 10 bits, memtable filter.
    RegistryRow {
        in_node: true,
        ..row("optimize_for_point_lookup", Scope::Cf, Owner::Shorthand, ValueKind::Count(1), "0")
    },
    // Bytes of uncompressed blocks in memory. RocksDB does not write this option to OPTIONS.
    RegistryRow { in_node: true, ..row("block_cache", Scope::Table, Owner::RocksDb, ValueKind::Size, "32M") },
    // Bytes at which a batch is written: the write queue costs little, and the batch stays in cache.
    row("batch_bytes", Scope::Write, Owner::Bedload, ValueKind::Size, "1M"),
    // Records at which a batch is written.
    row("batch_count", Scope::Write, Owner::Bedload, ValueKind::Count(1), "4096"),
    // Threads that write batches. More than one helps only with concurrent memtable writes.
    row("writer_threads", Scope::Write, Owner::Bedload, ValueKind::Count(1), "1"),
    // Do not write to the WAL; the import flushes at its end.
    row("disable_wal", Scope::Write, Owner::RocksDb, ValueKind::Bool, "false"),
    // Sync the WAL after each batch.
    row("sync", Scope::Write, Owner::RocksDb, ValueKind::Bool, "false"),
    // Slow these writes down first while compaction lags.
    row("low_pri", Scope::Write, Owner::RocksDb, ValueKind::Bool, "false"),
    // Remember, within a batch, the position of the last key; helps when a batch is nearly sorted.
    row("memtable_insert_hint_per_batch", Scope::Write, Owner::RocksDb, ValueKind::Bool, "false"),
    // Bytes at which an SST file is finished. A whole chain has a few hundred files.
    row("sst_size", Scope::Ingest, Owner::Bedload, ValueKind::Size, "256M"),
    // SST files built at the same time.
    row("threads", Scope::Ingest, Owner::Bedload, ValueKind::Count(1), "cores"),
    // Link the files into the database and remove the originals, instead of copying them.
    row("move_files", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "false"),
    // Copy a file that cannot be moved.
    row("failed_move_fall_back_to_copy", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Keep snapshots taken before from seeing the new records.
    row("snapshot_consistency", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Let RocksDB give the files a sequence number other than zero.
    row("allow_global_seqno", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Flush the memtable first if its keys overlap the files'.
    row("allow_blocking_flush", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Fail rather than put a file above the last level.
    row("fail_if_not_bottommost_level", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "false"),
    // Read the files again and check every block before taking them.
    row("verify_checksums_before_ingest", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "false"),
    // Bytes that this check reads ahead; 0 lets RocksDB choose.
    row("verify_checksums_readahead_size", Scope::Ingest, Owner::RocksDb, ValueKind::Size, "0"),
    // Check whole-file checksums where the database records them.
    row("verify_file_checksum", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Leave the blocks read while taking the files in the block cache.
    row("fill_cache", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Read index and filter of last-level files into memory at once.
    row("prefetch_lmax_index_and_filter_blocks", Scope::Ingest, Owner::RocksDb, ValueKind::Bool, "true"),
    // Threads that open the files.
    row("file_opening_threads", Scope::Ingest, Owner::RocksDb, ValueKind::Count(1), "1"),
    // Compact everything at the end: a node reads fastest from one level. The ingest loader compacts only an existing
    // database.
    RegistryRow { loader: None, ..row("final", Scope::Compaction, Owner::Bedload, ValueKind::Bool, "true") },
    // Threads for the final compaction; 0 takes db.max_subcompactions.
    row("max_subcompactions", Scope::Compaction, Owner::RocksDb, ValueKind::Count(0), "0"),
    // Treatment of files that are in the last level already. kForce writes them twice.
    row(
        "bottommost_level_compaction",
        Scope::Compaction,
        Owner::RocksDb,
        ValueKind::Choice(&["kSkip", "kIfHaveCompactionFilter", "kForce", "kForceOptimized"]),
        "kIfHaveCompactionFilter",
    ),
    // Keep automatic compactions from running at the same time.
    row("exclusive_manual_compaction", Scope::Compaction, Owner::RocksDb, ValueKind::Bool, "false"),
    // Move the result to target_level.
    row("change_level", Scope::Compaction, Owner::RocksDb, ValueKind::Bool, "false"),
    // The level to move to, with change_level; -1 is the lowest that can hold the result.
    row("target_level", Scope::Compaction, Owner::RocksDb, ValueKind::Count(-1), "-1"),
    // Start even if the flush before it stalls writers.
    row("allow_write_stall", Scope::Compaction, Owner::RocksDb, ValueKind::Bool, "false"),
];

pub fn find(scope: Scope, name: &str) -> Option<&'static RegistryRow> {
    ROWS.iter().find(|row| row.scope == scope && row.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_unique() {
        let mut seen = HashSet::new();
        for row in ROWS {
            assert!(seen.insert((row.scope, row.name)), "{}.{} is there twice", row.scope, row.name);
        }
    }
}
