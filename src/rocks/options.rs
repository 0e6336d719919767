//! Conversion of option maps to RocksDB's options and back.
//!
//! RocksDB's parser (`GetOptionsFromString`) reads values, and effective values come from the OPTIONS file that RocksDB
//! writes when it opens a database. So every option works without code here, and reports show the options that RocksDB
//! uses. Options of single operations, which the parser does not read, are copied field by field.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;
use rust_rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, Env, ErrorKind, IngestExternalFileOptions, Options, WriteOptions,
};

pub use super::scratch::places;
use super::scratch::{self, Tried};
use super::{
    BottommostLevel, CompactionSettings, Group, IN_MEMORY, IngestSettings, OptionMap, OptionsFile, WriteSettings, wrap,
};
use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::parallel;

/// The OPTIONS file of an empty database that RocksDB opens without options.
pub(super) const OPTIONS: &str = include_str!("OPTIONS-11.12");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

impl From<rust_rocksdb::Error> for Refusal {
    fn from(error: rust_rocksdb::Error) -> Self {
        Self::of(&error.into_string())
    }
}

impl Refusal {
    pub(super) fn of(message: &str) -> Self {
        Self(message.strip_prefix("Invalid argument: ").unwrap_or(message).to_owned())
    }
}

/// An error instead of the effective options.
#[derive(Debug)]
pub enum ProbeError {
    /// RocksDB does not open a database with these options.
    Refused(Refusal),
    /// No directory could be used, or the OPTIONS file could not be read.
    Failed(Error),
}

/// Converts a map to RocksDB's options. The others have RocksDB's defaults.
pub(crate) fn build(map: &OptionMap) -> Result<Options, Refusal> {
    Ok(Options::default().get_options_from_string(map.to_parser_string())?)
}

/// Checks a map with RocksDB's parser, which does not compare options with each other. [`effective`] opens a database.
pub fn check(map: &OptionMap) -> Result<(), Refusal> {
    build(map).map(drop)
}

/// All options of a database that is opened with `map`, as adjusted by RocksDB. Opens an empty database in one of the
/// `places`.
pub fn effective(map: &OptionMap, places: &[PathBuf]) -> Result<OptionMap, ProbeError> {
    probe(build(map).map_err(ProbeError::Refused)?, map, places)
}

/// Checks that RocksDB can start its threads for a database with the options of `map`. If the system refuses a thread,
/// RocksDB throws an exception that no caller can catch.
pub(super) fn check_threads(map: &OptionMap) -> Result<()> {
    /// Number of background threads that were checked. RocksDB keeps them.
    static KEPT: Mutex<usize> = Mutex::new(0);
    /// A thread for periodic tasks, and a spare one.
    const BESIDE: usize = 2;
    let number =
        |name| map.get(Group::Db, name).and_then(|count| count.parse::<i64>().ok()).filter(|&count| count != -1);
    // With either of the two, `max_background_jobs` has no effect (`GetBGJobLimits`).
    let background = match (number("max_background_flushes"), number("max_background_compactions")) {
        (None, None) => number("max_background_jobs").unwrap_or(2),
        (flushes, compactions) => flushes.unwrap_or(1).max(1).saturating_add(compactions.unwrap_or(1).max(1)),
    };
    let mut kept = KEPT.lock();
    let needed = BESIDE.saturating_add(usize::try_from(background).unwrap_or_default()).max(*kept);
    // The caller's thread also opens files. The others start at each opening.
    let opening = usize::try_from(number("max_file_opening_threads").unwrap_or(16) - 1).unwrap_or_default();
    parallel::check((needed - *kept).saturating_add(opening))?;
    *kept = needed;
    Ok(())
}

/// Checks that RocksDB opens a database with the options of `map`. Opens an empty database in memory, or in one of the
/// `places` if it maps its files.
pub fn check_opens(map: &OptionMap, places: &[PathBuf]) -> Result<(), ProbeError> {
    // Files in memory cannot be mapped.
    if map.get(Group::Db, "allow_mmap_reads") == Some("true") {
        return effective(map, places).map(drop);
    }
    let dir = Path::new(IN_MEMORY.0);
    let env = Env::mem_env().map_err(wrap("open", dir)).map_err(ProbeError::Failed)?;
    let mut options = build(map).map_err(ProbeError::Refused)?;
    options.set_env(&env);
    prepare_probe(&mut options, map)?;
    let opened = parallel::without_handler(|| DB::open(&options, dir).map(drop)).map_err(ProbeError::Failed)?;
    opened.map_err(|error| ProbeError::Refused(error.into()))
}

/// Sets the options of an empty database that is opened once, and checks its threads.
fn prepare_probe(options: &mut Options, map: &OptionMap) -> Result<(), ProbeError> {
    // RocksDB would start more threads for an empty database.
    options.set_max_file_opening_threads(1);
    options.create_if_missing(true);
    options.set_error_if_exists(false);
    // A file system in memory would allocate 4 MiB for each MANIFEST.
    options.set_allow_fallocate(false);
    let mut alone = map.clone();
    alone.set(Group::Db, "max_file_opening_threads", "1");
    check_threads(&alone).map_err(ProbeError::Failed)
}

pub(super) fn probe(mut options: Options, map: &OptionMap, places: &[PathBuf]) -> Result<OptionMap, ProbeError> {
    prepare_probe(&mut options, map)?;
    let open = |dir: &Path| parallel::without_handler(|| DB::open(&options, dir).map(drop));
    let file = scratch::try_in_places(places, |dir| match open(dir) {
        Err(error) => Tried::Answered(Err(ProbeError::Failed(error))),
        Ok(Ok(())) => {
            failpoint::reach("probed");
            Tried::Answered(OptionsFile::latest(dir).map_err(ProbeError::Failed))
        }
        // A full disk, or one without direct I/O, says nothing about the options.
        Ok(Err(error)) if error.kind() == ErrorKind::IOError || errno_of(error.as_ref()).is_some() => {
            scratch::failed_in(dir, error.into_string())
        }
        Ok(Err(error)) if error.kind() == ErrorKind::NotSupported => {
            Tried::Unsupported(Err(ProbeError::Refused(error.into())))
        }
        Ok(Err(error)) => Tried::Answered(Err(ProbeError::Refused(error.into()))),
    });
    let file = file.map_err(ProbeError::Failed)??;
    let mut effective = file.options(file.family("default").expect("a database has a default column family"));
    for (name, default) in [
        ("max_file_opening_threads", "16"),
        ("create_if_missing", "false"),
        ("error_if_exists", "false"),
        ("allow_fallocate", "true"),
    ] {
        effective.set(Group::Db, name, map.get(Group::Db, name).unwrap_or(default));
    }
    Ok(effective)
}

/// RocksDB's defaults, under its own names: the effective options of an empty map.
pub fn defaults() -> &'static OptionMap {
    // RocksDB writes this option only if it is set.
    const UNSET: [(Group, &str, &str); 1] = [(Group::Cf, "compression_per_level", "")];
    static DEFAULTS: LazyLock<OptionMap> =
        LazyLock::new(|| OptionsFile::of_one_family(OPTIONS).overlaid(&UNSET.into_iter().collect()));
    &DEFAULTS
}

pub(crate) fn write_options(settings: &WriteSettings) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(settings.disable_wal);
    options.set_sync(settings.sync);
    options.set_low_pri(settings.low_pri);
    options.set_memtable_insert_hint_per_batch(settings.memtable_insert_hint_per_batch);
    options
}

pub(crate) fn ingest_options(settings: &IngestSettings) -> IngestExternalFileOptions {
    let mut options = IngestExternalFileOptions::default();
    options.set_move_files(settings.move_files);
    options.set_link_files(settings.link_files);
    options.set_failed_move_fall_back_to_copy(settings.failed_move_fall_back_to_copy);
    options.set_snapshot_consistency(settings.snapshot_consistency);
    options.set_allow_global_seqno(settings.allow_global_seqno);
    options.set_allow_blocking_flush(settings.allow_blocking_flush);
    options.set_fail_if_not_bottommost_level(settings.fail_if_not_bottommost_level);
    options.set_verify_checksums_before_ingest(settings.verify_checksums_before_ingest);
    options.set_verify_checksums_readahead_size(usize::try_from(settings.verify_checksums_readahead_size).unwrap_or(0));
    options.set_verify_file_checksum(settings.verify_file_checksum);
    options.set_fill_cache(settings.fill_cache);
    options.set_prefetch_lmax_index_and_filter_blocks(settings.prefetch_lmax_index_and_filter_blocks);
    options.set_file_opening_threads(i32::try_from(settings.file_opening_threads).unwrap_or(i32::MAX));
    options
}

pub(crate) fn compact_options(settings: &CompactionSettings) -> CompactOptions {
    let mut options = CompactOptions::default();
    options.set_max_subcompactions(i32::try_from(settings.max_subcompactions).unwrap_or(i32::MAX));
    options.set_bottommost_level_compaction(match settings.bottommost_level_compaction {
        BottommostLevel::Skip => BottommostLevelCompaction::Skip,
        BottommostLevel::IfHaveCompactionFilter => BottommostLevelCompaction::IfHaveCompactionFilter,
        BottommostLevel::Force => BottommostLevelCompaction::Force,
        BottommostLevel::ForceOptimized => BottommostLevelCompaction::ForceOptimized,
    });
    options.set_exclusive_manual_compaction(settings.exclusive_manual_compaction);
    options.set_change_level(settings.change_level);
    options.set_target_level(settings.target_level);
    options.set_allow_write_stall(settings.allow_write_stall);
    options
}
