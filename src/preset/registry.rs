//! The registry: one row for each option that RocksDB's option parser does not read.
//!
//! These are the fields of RocksDB's structures for single operations, RocksDB's functions that set several options at
//! once, and what belongs to bedload itself. Everything else is RocksDB's, by its own names, and needs no row. Fields
//! that would make a load fail (`no_slowdown`, `ingest_behind`) or that mean nothing in an offline load (rate limiter
//! priorities, snapshots' timestamps) are left out, so that naming them is an error.

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

/// Whose option it is.
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
    /// Where it is written.
    pub scope: Scope,
    /// Whose it is.
    pub owner: Owner,
    /// The values that it takes, and their unit.
    pub kind: Kind,
    /// Its value when the user sets none, in the form of a preset.
    pub default: &'static str,
    /// The loader it has an effect with; none means both.
    pub loader: Option<Loader>,
    /// Whether `node` may name it as well as `load`.
    pub in_node: bool,
}

/// All rows.
pub const ROWS: &[Row] = &[
    Row {
        // Background threads for flush and compaction together: max_background_jobs. Default: RocksDB runs two jobs
        // unless configured otherwise.
        name: "increase_parallelism",
        scope: Scope::Db,
        owner: Owner::Shorthand,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Memtable),
        in_node: true,
    },
    Row {
        // RocksDB's PrepareForBulkLoad: triggers lifted, no automatic compaction, two levels, six write buffers.
        // Default: it switches off what keeps reads fast, so it must be named.
        name: "prepare_for_bulk_load",
        scope: Scope::Db,
        owner: Owner::Shorthand,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // RocksDB's OptimizeForPointLookup with a block cache of this many MiB: hash index in data blocks, Bloom
        // filter of 10 bits, memtable filter. Default: off: it replaces table options.
        name: "optimize_for_point_lookup",
        scope: Scope::Cf,
        owner: Owner::Shorthand,
        kind: Kind::Count(1),
        default: "0",
        loader: None,
        in_node: true,
    },
    Row {
        // Bytes of uncompressed blocks kept in memory; RocksDB does not write it to OPTIONS. Default: RocksDB's
        // default.
        name: "block_cache",
        scope: Scope::Table,
        owner: Owner::RocksDb,
        kind: Kind::Size,
        default: "32M",
        loader: None,
        in_node: true,
    },
    Row {
        // A batch is written when it holds this many bytes. Default: large enough that the write queue costs little,
        // small enough to stay in cache.
        name: "batch_bytes",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Size,
        default: "1M",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Or when it holds this many records. Default: bounds a batch of tiny records.
        name: "batch_count",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "4096",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Threads that write batches. Default: what every node does; more need concurrent memtable writes to help.
        name: "writer_threads",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Do not write to the WAL; the import flushes at its end. Default: RocksDB's default.
        name: "disable_wal",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Sync the WAL after each batch. Default: RocksDB's default.
        name: "sync",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Slow these writes down first when compaction is behind. Default: RocksDB's default.
        name: "low_pri",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Remember, within a batch, the position of the last key; helps when a batch is nearly sorted. Default: RocksDB's
        // default.
        name: "memtable_insert_hint_per_batch",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Bytes at which an SST file is finished and the next one begun. Default: a few hundred files for a whole
        // chain: few descriptors, and one file opens in a millisecond.
        name: "sst_size",
        scope: Scope::Ingest,
        owner: Owner::Bedload,
        kind: Kind::Size,
        default: "256M",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // SST files built at the same time. Default: building is limited by the processor.
        name: "threads",
        scope: Scope::Ingest,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "cores",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Link the files into the database and remove the originals, instead of copying them. Default: RocksDB's
        // default.
        name: "move_files",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Copy a file that cannot be moved. Default: RocksDB's default.
        name: "failed_move_fall_back_to_copy",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Keep snapshots taken before from seeing the new records. Default: RocksDB's default.
        name: "snapshot_consistency",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Let RocksDB give the files a sequence number other than zero. Default: RocksDB's default.
        name: "allow_global_seqno",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Flush the memtable first if its keys overlap the files'. Default: RocksDB's default.
        name: "allow_blocking_flush",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Fail rather than put a file above the last level. Default: RocksDB's default.
        name: "fail_if_not_bottommost_level",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Read the files again and check every block before taking them. Default: RocksDB's default.
        name: "verify_checksums_before_ingest",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // How far that check reads ahead; 0 lets RocksDB choose. Default: RocksDB's default.
        name: "verify_checksums_readahead_size",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Size,
        default: "0",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Check whole-file checksums where the database records them. Default: RocksDB's default.
        name: "verify_file_checksum",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Leave the blocks read while taking the files in the block cache. Default: RocksDB's default.
        name: "fill_cache",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Read index and filter of last-level files into memory at once. Default: RocksDB's default.
        name: "prefetch_lmax_index_and_filter_blocks",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Threads that open the files. Default: RocksDB's default.
        name: "file_opening_threads",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Ingest),
        in_node: false,
    },
    Row {
        // Compact everything at the end. Default: a node reads fastest from one level. The ingest loader compacts only an
        // existing database.
        name: "final",
        scope: Scope::Compaction,
        owner: Owner::Bedload,
        kind: Kind::Bool,
        default: "true",
        loader: None,
        in_node: false,
    },
    Row {
        // Threads for the final compaction; 0 takes db.max_subcompactions. Default: RocksDB's default.
        name: "max_subcompactions",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Count(0),
        default: "0",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // What to do with files that are in the last level already; kForce writes them twice. Default: RocksDB's
        // default.
        name: "bottommost_level_compaction",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Choice(&["kSkip", "kIfHaveCompactionFilter", "kForce", "kForceOptimized"]),
        default: "kIfHaveCompactionFilter",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Keep automatic compactions from running at the same time. Default: RocksDB's default.
        name: "exclusive_manual_compaction",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Move the result to target_level. Default: RocksDB's default.
        name: "change_level",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // The level to move to, with change_level; -1 is the lowest that can hold the result. Default: RocksDB's
        // default.
        name: "target_level",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Count(-1),
        default: "-1",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
    Row {
        // Start even if the flush before it stalls writers. Default: RocksDB's default.
        name: "allow_write_stall",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
    },
];

/// The row of an option.
pub fn row(scope: Scope, name: &str) -> Option<&'static Row> {
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
