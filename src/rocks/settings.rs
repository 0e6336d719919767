//! The options of single operations (write, ingest, compact) under RocksDB's own field names.
//!
//! RocksDB's option parser does not read these structures, so they are plain data here; `preset` fills them and
//! `rocks::options` turns them into RocksDB's.

/// `rocksdb::WriteOptions`: how a batch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct WriteSettings {
    /// Do not write to the WAL.
    pub disable_wal: bool,
    /// Sync the WAL after each batch.
    pub sync: bool,
    /// Let these writes yield when compaction is behind.
    pub low_pri: bool,
    /// Keep the insertion hint of one batch for the next key in it.
    pub memtable_insert_hint_per_batch: bool,
}

/// `rocksdb::IngestExternalFileOptions`: how finished SST files are ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct IngestSettings {
    /// Hard-link the files into the database and remove the originals instead of copying.
    pub move_files: bool,
    /// Hard-link the files into the database and leave the originals where they are.
    #[serde(default)]
    pub link_files: bool,
    /// Copy when a file cannot be moved.
    pub failed_move_fall_back_to_copy: bool,
    /// Keep snapshots taken before from seeing the new data.
    pub snapshot_consistency: bool,
    /// Let RocksDB give the files a sequence number of their own.
    pub allow_global_seqno: bool,
    /// Flush the memtable if its keys overlap the files.
    pub allow_blocking_flush: bool,
    /// Fail unless every file fits into the last level.
    pub fail_if_not_bottommost_level: bool,
    /// Read every block of the files and check it before taking them.
    pub verify_checksums_before_ingest: bool,
    /// How much is read ahead for that check, in bytes; 0 lets RocksDB choose.
    pub verify_checksums_readahead_size: u64,
    /// Check the files' whole-file checksum where one is recorded.
    pub verify_file_checksum: bool,
    /// Leave the blocks that were read in the block cache.
    pub fill_cache: bool,
    /// Read index and filter of files that go to the last level into the cache.
    pub prefetch_lmax_index_and_filter_blocks: bool,
    /// Threads that open the files.
    pub file_opening_threads: u32,
}

/// The treatment of the last level by a manual compaction: `rocksdb::BottommostLevelCompaction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum BottommostLevel {
    /// Leave it.
    #[serde(rename = "kSkip")]
    Skip,
    /// Leave it unless a filter is set. RocksDB's default.
    #[serde(rename = "kIfHaveCompactionFilter")]
    IfHaveCompactionFilter,
    /// Rewrite it, even what this compaction has just written.
    #[serde(rename = "kForce")]
    Force,
    /// Rewrite it, but not what this compaction has just written.
    #[serde(rename = "kForceOptimized")]
    ForceOptimized,
}

/// `rocksdb::CompactRangeOptions`: the final manual compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct CompactionSettings {
    /// Threads for one compaction; 0 takes the database's option of the same name.
    pub max_subcompactions: u32,
    /// The treatment of the last level.
    pub bottommost_level_compaction: BottommostLevel,
    /// Keep automatic compactions from running at the same time.
    pub exclusive_manual_compaction: bool,
    /// Move the result to `target_level`.
    pub change_level: bool,
    /// The target with `change_level`; -1 is the lowest level that can hold the result.
    pub target_level: i32,
    /// Start even if the flush before it stalls writers.
    pub allow_write_stall: bool,
}
