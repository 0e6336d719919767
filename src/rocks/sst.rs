//! Building SST files outside of a database.

use std::path::{Path, PathBuf};

use rust_rocksdb::{EnvOptions, Options, SstFileWriter};

use super::option_map::{Group, OptionMap};
use super::wrap;
use crate::error::Result;

/// How often, in bytes, a file that is being written is pushed to the disk, so that the final sync finds little to do;
/// unless the options name `bytes_per_sync`.
const BYTES_PER_SYNC: u64 = 4 << 20;

/// What SSTs are built with: the options of the database that will take them.
pub(crate) struct SstOptions {
    options: Options,
    env: EnvOptions,
}

impl SstOptions {
    /// Takes the options of the database that will take the files.
    ///
    /// # Errors
    /// RocksDB refuses them.
    pub fn new(map: &OptionMap, path: &Path) -> Result<Self> {
        let mut env = EnvOptions::default();
        let asked = map.get(Group::Db, "bytes_per_sync").and_then(|bytes| bytes.parse().ok());
        env.set_bytes_per_sync(asked.unwrap_or(BYTES_PER_SYNC));
        Ok(Self { options: super::store::build(path, map)?, env })
    }
}

/// One SST file being written: records in ascending key order.
pub(crate) struct SstWriter<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
}

impl<'a> SstWriter<'a> {
    /// Creates the file.
    pub fn create(options: &'a SstOptions, path: PathBuf) -> Result<Self> {
        let mut writer = SstFileWriter::create_with_env_options(&options.options, &options.env);
        writer.open(&path).map_err(wrap("create", &path))?;
        Ok(Self { writer, path })
    }

    /// Appends one record.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.put(key, value).map_err(wrap("write", &self.path))
    }

    /// Completes and syncs the file.
    pub fn finish(mut self) -> Result<PathBuf> {
        self.writer.finish().map_err(wrap("finish", &self.path))?;
        Ok(self.path)
    }
}
