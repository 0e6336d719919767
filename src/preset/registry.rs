//! The registry: one row for each option that RocksDB's option parser does not read.
//!
//! These are the fields of RocksDB's structures for single operations, RocksDB's functions that set several options at
//! once, and what belongs to bedload itself. Everything else is RocksDB's, by its own names, and needs no row. Fields
//! that would make a load fail (`no_slowdown`, `ingest_behind`) or that mean nothing in an offline load (rate limiter
//! priorities, snapshots' timestamps) are left out, so that naming them is an error.

use super::key::{Loader, Scope};

/// What values an option takes.
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
    /// What it takes; says the unit.
    pub kind: Kind,
    /// What holds when the user sets nothing else, in the form of a preset.
    pub default: &'static str,
    /// The loader it has an effect with; none means both.
    pub loader: Option<Loader>,
    /// Whether `node` may name it as well as `load`.
    pub in_node: bool,
    /// What it does.
    pub doc: &'static str,
    /// Why the default is what it is.
    pub reason: &'static str,
}

/// All rows.
pub const ROWS: &[Row] = &[
    Row {
        name: "increase_parallelism",
        scope: Scope::Db,
        owner: Owner::Shorthand,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Memtable),
        in_node: true,
        doc: "background threads for flush and compaction together: max_background_jobs",
        reason: "RocksDB runs two jobs unless told otherwise",
    },
    Row {
        name: "prepare_for_bulk_load",
        scope: Scope::Db,
        owner: Owner::Shorthand,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "RocksDB's PrepareForBulkLoad: triggers lifted, no automatic compaction, two levels, six write buffers",
        reason: "it switches off what keeps reads fast, so it is asked for by name",
    },
    Row {
        name: "optimize_for_point_lookup",
        scope: Scope::Cf,
        owner: Owner::Shorthand,
        kind: Kind::Count(1),
        default: "0",
        loader: None,
        in_node: true,
        doc: "RocksDB's OptimizeForPointLookup with a block cache of this many MiB: hash index in data blocks, Bloom \
              filter of 10 bits, memtable filter",
        reason: "off: it replaces table options",
    },
    Row {
        name: "block_cache",
        scope: Scope::Table,
        owner: Owner::RocksDb,
        kind: Kind::Size,
        default: "32M",
        loader: None,
        in_node: true,
        doc: "bytes of uncompressed blocks kept in memory; RocksDB does not write it to OPTIONS",
        reason: "RocksDB's default",
    },
    Row {
        name: "batch_bytes",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Size,
        default: "1M",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "a batch is written when it holds this many bytes",
        reason: "large enough that the write queue is not felt, small enough to stay in cache",
    },
    Row {
        name: "batch_count",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "4096",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "or when it holds this many records",
        reason: "bounds a batch of tiny records",
    },
    Row {
        name: "writer_threads",
        scope: Scope::Write,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "threads that write batches",
        reason: "what every node does; more need concurrent memtable writes to help",
    },
    Row {
        name: "disable_wal",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "do not write to the WAL; the import flushes at its end",
        reason: "RocksDB's default",
    },
    Row {
        name: "sync",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "sync the WAL after each batch",
        reason: "RocksDB's default",
    },
    Row {
        name: "low_pri",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "slow these writes down first when compaction is behind",
        reason: "RocksDB's default",
    },
    Row {
        name: "memtable_insert_hint_per_batch",
        scope: Scope::Write,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "remember, within a batch, where the last key went; helps when a batch is nearly sorted",
        reason: "RocksDB's default",
    },
    Row {
        name: "sst_size",
        scope: Scope::Ingest,
        owner: Owner::Bedload,
        kind: Kind::Size,
        default: "256M",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "bytes at which an SST file is finished and the next one begun",
        reason: "a few hundred files for a whole chain: few descriptors, and one file opens in a millisecond",
    },
    Row {
        name: "threads",
        scope: Scope::Ingest,
        owner: Owner::Bedload,
        kind: Kind::Count(1),
        default: "cores",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "SST files built at the same time",
        reason: "building is limited by the processor",
    },
    Row {
        name: "move_files",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "link the files into the database and remove the originals, instead of copying them",
        reason: "RocksDB's default",
    },
    Row {
        name: "failed_move_fall_back_to_copy",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "copy a file that cannot be moved",
        reason: "RocksDB's default",
    },
    Row {
        name: "snapshot_consistency",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "keep snapshots taken before from seeing the new records",
        reason: "RocksDB's default",
    },
    Row {
        name: "allow_global_seqno",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "let RocksDB give the files a sequence number other than zero",
        reason: "RocksDB's default",
    },
    Row {
        name: "allow_blocking_flush",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "flush the memtable first if its keys overlap the files'",
        reason: "RocksDB's default",
    },
    Row {
        name: "fail_if_not_bottommost_level",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "fail rather than put a file above the last level",
        reason: "RocksDB's default",
    },
    Row {
        name: "verify_checksums_before_ingest",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "read the files again and check every block before taking them",
        reason: "RocksDB's default",
    },
    Row {
        name: "verify_checksums_readahead_size",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Size,
        default: "0",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "how far that check reads ahead; 0 lets RocksDB choose",
        reason: "RocksDB's default",
    },
    Row {
        name: "verify_file_checksum",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "check whole-file checksums where the database records them",
        reason: "RocksDB's default",
    },
    Row {
        name: "fill_cache",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "leave the blocks read while taking the files in the block cache",
        reason: "RocksDB's default",
    },
    Row {
        name: "prefetch_lmax_index_and_filter_blocks",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "true",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "read index and filter of last-level files into memory at once",
        reason: "RocksDB's default",
    },
    Row {
        name: "file_opening_threads",
        scope: Scope::Ingest,
        owner: Owner::RocksDb,
        kind: Kind::Count(1),
        default: "1",
        loader: Some(Loader::Ingest),
        in_node: false,
        doc: "threads that open the files",
        reason: "RocksDB's default",
    },
    Row {
        name: "max_subcompactions",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Count(0),
        default: "0",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "threads for the final compaction; 0 takes db.max_subcompactions",
        reason: "RocksDB's default",
    },
    Row {
        name: "bottommost_level_compaction",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Choice(&["kSkip", "kIfHaveCompactionFilter", "kForce", "kForceOptimized"]),
        default: "kIfHaveCompactionFilter",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "what to do with files that are in the last level already; kForce writes them twice",
        reason: "RocksDB's default",
    },
    Row {
        name: "exclusive_manual_compaction",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "keep automatic compactions from running at the same time",
        reason: "RocksDB's default",
    },
    Row {
        name: "change_level",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "move the result to target_level",
        reason: "RocksDB's default",
    },
    Row {
        name: "target_level",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Count(-1),
        default: "-1",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "the level to move to, with change_level; -1 is the lowest that can hold the result",
        reason: "RocksDB's default",
    },
    Row {
        name: "allow_write_stall",
        scope: Scope::Compaction,
        owner: Owner::RocksDb,
        kind: Kind::Bool,
        default: "false",
        loader: Some(Loader::Memtable),
        in_node: false,
        doc: "start even if the flush before it stalls writers",
        reason: "RocksDB's default",
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
    fn every_row_is_unique_and_says_what_and_why() {
        let mut seen = HashSet::new();
        for row in ROWS {
            assert!(seen.insert((row.scope, row.name)), "{}.{} stands twice", row.scope, row.name);
            assert!(!row.doc.is_empty() && !row.reason.is_empty(), "{}.{}", row.scope, row.name);
        }
    }
}
