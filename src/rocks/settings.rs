//! The options of single operations (write, ingest, compact) under RocksDB's own field names.
//!
//! RocksDB's option parser does not read these structures. `preset/registry.rs` explains the fields and `preset` fills
//! them; `rocks::options` makes RocksDB's structures.

/// `rocksdb::WriteOptions`: how a batch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct WriteSettings {
    pub disable_wal: bool,
    pub sync: bool,
    pub low_pri: bool,
    pub memtable_insert_hint_per_batch: bool,
}

/// `rocksdb::IngestExternalFileOptions`: how finished SST files are ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct IngestSettings {
    pub move_files: bool,
    /// Hard-link the files into the database and leave the originals where they are.
    #[serde(default)]
    pub link_files: bool,
    pub failed_move_fall_back_to_copy: bool,
    pub snapshot_consistency: bool,
    pub allow_global_seqno: bool,
    pub allow_blocking_flush: bool,
    pub fail_if_not_bottommost_level: bool,
    pub verify_checksums_before_ingest: bool,
    pub verify_checksums_readahead_size: u64,
    pub verify_file_checksum: bool,
    pub fill_cache: bool,
    pub prefetch_lmax_index_and_filter_blocks: bool,
    pub file_opening_threads: u32,
}

/// The treatment of the last level by a manual compaction: `rocksdb::BottommostLevelCompaction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum BottommostLevel {
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
    pub max_subcompactions: u32,
    pub bottommost_level_compaction: BottommostLevel,
    pub exclusive_manual_compaction: bool,
    pub change_level: bool,
    pub target_level: i32,
    pub allow_write_stall: bool,
}
