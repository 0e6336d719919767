//! The registry: one row for each option that RocksDB's option parser does not read.
//!
//! These are the fields of RocksDB's structures for single operations, RocksDB's functions that set several options, and
//! bedload's own options. Fields that would make a load fail (`no_slowdown`, `ingest_behind`) or that have no meaning in
//! an offline load (rate limiter priorities, timestamps of snapshots) have no row, so naming them is an error.

use super::key::Loader;
pub use super::key::Scope;

/// The values that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number of bytes, with a unit or without.
    Size,
    /// A whole number, at least this; `cores` stands for the machine's.
    Count(i64),
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// The owner of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A field of RocksDB's, under its name and with its default.
    RocksDb,
    /// A function of RocksDB's that sets several options.
    Shorthand,
    /// bedload's own.
    Bedload,
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its section.
    pub scope: Scope,
    /// Its owner.
    pub owner: Owner,
    /// The accepted values and their unit.
    pub kind: Kind,
    /// Its value if the user sets none, as written in a preset.
    pub default: &'static str,
    /// The only loader that uses it; `None` for both.
    pub loader: Option<Loader>,
    /// True if `node` accepts it as well as `load`.
    pub in_node: bool,
}

const fn row(name: &'static str, scope: Scope, owner: Owner, kind: Kind, default: &'static str) -> Row {
    let loader = match scope {
        Scope::Write | Scope::Compaction => Some(Loader::Memtable),
        Scope::Ingest => Some(Loader::Ingest),
        Scope::Db | Scope::Cf | Scope::Table => None,
    };
    Row { name, scope, owner, kind, default, loader, in_node: false }
}

/// All rows. A comment has the meaning of an option and the reason of a default that is bedload's.
pub const ROWS: &[Row] = &[
    // Background threads for flush and compaction together: max_background_jobs. Default: RocksDB runs two jobs unless
    // configured otherwise.
    Row {
        loader: Some(Loader::Memtable),
        in_node: true,
        ..row("increase_parallelism", Scope::Db, Owner::Shorthand, Kind::Count(1), "1")
    },
    // RocksDB's PrepareForBulkLoad: triggers lifted, no automatic compaction, two levels, six write buffers. Default: it
    // switches off what keeps reads fast, so it must be named.
    Row {
        loader: Some(Loader::Memtable),
        ..row("prepare_for_bulk_load", Scope::Db, Owner::Shorthand, Kind::Bool, "false")
    },
    // RocksDB's OptimizeForPointLookup with a block cache of this many MiB: hash index in data blocks, Bloom filter of 10
    // bits, memtable filter. Default: off: it replaces table options.
    Row { in_node: true, ..row("optimize_for_point_lookup", Scope::Cf, Owner::Shorthand, Kind::Count(1), "0") },
    // Bytes of uncompressed blocks kept in memory; RocksDB does not write it to OPTIONS.
    Row { in_node: true, ..row("block_cache", Scope::Table, Owner::RocksDb, Kind::Size, "32M") },
    // A batch is written when it holds this many bytes. Default: large enough that the write queue costs little, small
    // enough to stay in cache.
    row("batch_bytes", Scope::Write, Owner::Bedload, Kind::Size, "1M"),
    // Or when it holds this many records. Default: bounds a batch of tiny records.
    row("batch_count", Scope::Write, Owner::Bedload, Kind::Count(1), "4096"),
    // Threads that write batches. Default: what every node does; more need concurrent memtable writes to help.
    row("writer_threads", Scope::Write, Owner::Bedload, Kind::Count(1), "1"),
    // Do not write to the WAL; the import flushes at its end.
    row("disable_wal", Scope::Write, Owner::RocksDb, Kind::Bool, "false"),
    // Sync the WAL after each batch.
    row("sync", Scope::Write, Owner::RocksDb, Kind::Bool, "false"),
    // Slow these writes down first while compaction lags.
    row("low_pri", Scope::Write, Owner::RocksDb, Kind::Bool, "false"),
    // Remember, within a batch, the position of the last key; helps when a batch is nearly sorted.
    row("memtable_insert_hint_per_batch", Scope::Write, Owner::RocksDb, Kind::Bool, "false"),
    // Bytes at which an SST file is finished and the next one begun. Default: a few hundred files for a whole chain: few
    // descriptors, and one file opens in a millisecond.
    row("sst_size", Scope::Ingest, Owner::Bedload, Kind::Size, "256M"),
    // SST files built at the same time. Default: building is limited by the processor.
    row("threads", Scope::Ingest, Owner::Bedload, Kind::Count(1), "cores"),
    // Link the files into the database and remove the originals, instead of copying them.
    row("move_files", Scope::Ingest, Owner::RocksDb, Kind::Bool, "false"),
    // Copy a file that cannot be moved.
    row("failed_move_fall_back_to_copy", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Keep snapshots taken before from seeing the new records.
    row("snapshot_consistency", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Let RocksDB give the files a sequence number other than zero.
    row("allow_global_seqno", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Flush the memtable first if its keys overlap the files'.
    row("allow_blocking_flush", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Fail rather than put a file above the last level.
    row("fail_if_not_bottommost_level", Scope::Ingest, Owner::RocksDb, Kind::Bool, "false"),
    // Read the files again and check every block before taking them.
    row("verify_checksums_before_ingest", Scope::Ingest, Owner::RocksDb, Kind::Bool, "false"),
    // How far that check reads ahead; 0 lets RocksDB choose.
    row("verify_checksums_readahead_size", Scope::Ingest, Owner::RocksDb, Kind::Size, "0"),
    // Check whole-file checksums where the database records them.
    row("verify_file_checksum", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Leave the blocks read while taking the files in the block cache.
    row("fill_cache", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Read index and filter of last-level files into memory at once.
    row("prefetch_lmax_index_and_filter_blocks", Scope::Ingest, Owner::RocksDb, Kind::Bool, "true"),
    // Threads that open the files.
    row("file_opening_threads", Scope::Ingest, Owner::RocksDb, Kind::Count(1), "1"),
    // Compact everything at the end. Default: a node reads fastest from one level. The ingest loader compacts only an
    // existing database.
    Row { loader: None, ..row("final", Scope::Compaction, Owner::Bedload, Kind::Bool, "true") },
    // Threads for the final compaction; 0 takes db.max_subcompactions.
    row("max_subcompactions", Scope::Compaction, Owner::RocksDb, Kind::Count(0), "0"),
    // Treatment of files that are in the last level already; kForce writes them twice.
    row(
        "bottommost_level_compaction",
        Scope::Compaction,
        Owner::RocksDb,
        Kind::Choice(&["kSkip", "kIfHaveCompactionFilter", "kForce", "kForceOptimized"]),
        "kIfHaveCompactionFilter",
    ),
    // Keep automatic compactions from running at the same time.
    row("exclusive_manual_compaction", Scope::Compaction, Owner::RocksDb, Kind::Bool, "false"),
    // Move the result to target_level.
    row("change_level", Scope::Compaction, Owner::RocksDb, Kind::Bool, "false"),
    // The level to move to, with change_level; -1 is the lowest that can hold the result.
    row("target_level", Scope::Compaction, Owner::RocksDb, Kind::Count(-1), "-1"),
    // Start even if the flush before it stalls writers.
    row("allow_write_stall", Scope::Compaction, Owner::RocksDb, Kind::Bool, "false"),
];

/// Finds the row of an option.
pub fn find(scope: Scope, name: &str) -> Option<&'static Row> {
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
            assert!(seen.insert((row.scope, row.name)), "{}.{} stands twice", row.scope, row.name);
        }
    }
}
