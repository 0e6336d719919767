//! A database as a whole: create, ingest, settle, look at.

use std::path::{Path, PathBuf};

use rust_rocksdb::{BlockBasedOptions, DB, IngestExternalFileOptions, Options};

use super::wrap;
use crate::error::Result;

/// An open database.
pub(crate) struct Store {
    db: DB,
    path: PathBuf,
}

/// One level of the tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// Number of the level; 0 is where memtables are flushed to.
    pub level: i32,
    /// SST files in it.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

pub(crate) fn plain_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    let mut table = BlockBasedOptions::default();
    table.set_block_size(16 << 10);
    table.set_bloom_filter(10.0, false);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(rust_rocksdb::DBCompressionType::None);
    options
}

impl Store {
    /// Opens a database with the given options.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let db = DB::open(options, path).map_err(wrap("open", path))?;
        Ok(Self { db, path: path.to_owned() })
    }

    /// Takes over finished files at the last level, by moving them; fails rather than copies.
    pub fn ingest(&self, files: Vec<PathBuf>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_failed_move_fall_back_to_copy(false);
        options.set_snapshot_consistency(false);
        options.set_allow_global_seqno(false);
        options.set_allow_blocking_flush(false);
        options.set_fail_if_not_bottommost_level(true);
        options.set_fill_cache(false);
        options.set_file_opening_threads(4);
        options.set_prefetch_lmax_index_and_filter_blocks(false);
        self.db.ingest_external_file_opts(&options, files).map_err(wrap("ingest into", &self.path))
    }

    /// Files and bytes of each level that has any.
    pub fn levels(&self) -> Result<Vec<Level>> {
        let mut levels: Vec<Level> = Vec::new();
        for file in self.db.live_files().map_err(wrap("list the files of", &self.path))? {
            match levels.iter_mut().find(|level| level.level == file.level) {
                Some(level) => {
                    level.files += 1;
                    level.bytes += file.size as u64;
                }
                None => levels.push(Level { level: file.level, files: 1, bytes: file.size as u64 }),
            }
        }
        levels.sort_by_key(|level| level.level);
        Ok(levels)
    }
}
