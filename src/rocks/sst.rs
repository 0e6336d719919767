//! Building SST files outside of a database.

use std::path::{Path, PathBuf};

use rust_rocksdb::{Env, EnvOptions, Options, SstFileWriter};

use super::{Group, OptionMap, wrap};
use crate::error::Result;

/// Default of `bytes_per_sync`: RocksDB writes files to the disk while it builds them, so that the final sync is short.
const BYTES_PER_SYNC: u64 = 4 << 20;

const DB_HOST: &str = "db_host_id";
const THIS_HOST: &str = "__hostname__";

pub(crate) struct SstOptions {
    options: Options,
    env: EnvOptions,
}

impl SstOptions {
    /// Takes the options of the database that will ingest the files.
    pub fn new(map: &OptionMap, path: &Path) -> Result<Self> {
        Self::in_env(None, map, path)
    }

    /// As [`SstOptions::new`], for files in an environment.
    pub(super) fn in_env(env: Option<&Env>, map: &OptionMap, path: &Path) -> Result<Self> {
        let mut map = map.clone();
        // Files may be published, so they do not get the name of this host.
        if map.get(Group::Db, DB_HOST).is_none_or(|host| host == THIS_HOST) {
            map.set(Group::Db, DB_HOST, "");
        }
        let mut options = super::store::build(path, &map)?;
        env.into_iter().for_each(|env| options.set_env(env));
        Ok(Self { options, env: env_options(&map) })
    }
}

/// Options for writing files. A builder of SST files does not take them from the database's options.
fn env_options(map: &OptionMap) -> EnvOptions {
    fn asked<T: std::str::FromStr>(map: &OptionMap, name: &str) -> Option<T> {
        map.get(Group::Db, name).and_then(|value| value.parse().ok())
    }
    let mut env = EnvOptions::default();
    env.set_bytes_per_sync(asked(map, "bytes_per_sync").unwrap_or(BYTES_PER_SYNC));
    asked(map, "writable_file_max_buffer_size").into_iter().for_each(|it| env.set_writable_file_max_buffer_size(it));
    asked(map, "strict_bytes_per_sync").into_iter().for_each(|it| env.set_strict_bytes_per_sync(it));
    asked(map, "allow_fallocate").into_iter().for_each(|it| env.set_allow_fallocate(it));
    asked(map, "use_direct_io_for_flush_and_compaction").into_iter().for_each(|it| env.set_use_direct_writes(it));
    env
}

/// One SST file being written: records in ascending key order.
pub(crate) struct SstWriter<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
}

impl<'a> SstWriter<'a> {
    pub fn create(options: &'a SstOptions, path: PathBuf) -> Result<Self> {
        let mut writer = SstFileWriter::create_with_env_options(&options.options, &options.env);
        writer.open(&path).map_err(wrap("create", &path))?;
        Ok(Self { writer, path })
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.put(key, value).map_err(wrap("write", &self.path))
    }

    /// Completes and syncs the file.
    pub fn finish(mut self) -> Result<PathBuf> {
        self.writer.finish().map_err(wrap("finish", &self.path))?;
        Ok(self.path)
    }
}
