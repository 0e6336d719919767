//! From option maps to RocksDB's options and back.
//!
//! Values go in through RocksDB's own parser (`GetOptionsFromString`) and come back from the OPTIONS file that RocksDB
//! writes when it opens a database: so every option it knows works without code here, its names and defaults are never
//! written down, and reports show the options that it uses, not those that were requested. Options of single operations,
//! which its parser does not read, are copied field by field.

use std::path::Path;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rust_rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, ErrorKind, IngestExternalFileOptions, Options, WriteOptions,
};

use super::option_map::{Group, OptionMap};
use super::options_file::OptionsFile;
use super::scratch::{self, Tried};
use super::settings::{BottommostLevel, CompactionSettings, IngestSettings, WriteSettings};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::parallel;

/// RocksDB's message about options that it refuses.
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

/// Why the effective options are not known.
#[derive(Debug)]
pub enum ProbeError {
    /// RocksDB does not open a database with these options.
    Refused(Refusal),
    /// No directory to try it in could be used, or its OPTIONS file could not be read.
    Failed(Error),
}

/// Turns a map into RocksDB's options, with `base` for what it does not name.
pub(crate) fn build_on(base: &mut Options, map: &OptionMap) -> Result<Options, Refusal> {
    Ok(base.get_options_from_string(map.to_parser_string())?)
}

/// Turns a map into RocksDB's options, with RocksDB's defaults for what it does not name.
pub(crate) fn build(map: &OptionMap) -> Result<Options, Refusal> {
    build_on(&mut Options::default(), map)
}

/// Checks that RocksDB's parser takes this map. It reads each option alone; [`effective`] opens a database.
pub fn check(map: &OptionMap) -> Result<(), Refusal> {
    build(map).map(drop)
}

/// The options a database opened with `map` works with, as RocksDB writes them: every option it knows, adjusted where
/// RocksDB adjusts. Opens an empty database in a temporary directory, in memory where there is one.
pub fn effective(map: &OptionMap) -> Result<OptionMap, ProbeError> {
    probe(build(map).map_err(ProbeError::Refused)?, map)
}

/// Checks that RocksDB can start the threads that it starts when it opens a database with the options of `map`: where the
/// system refuses one, it throws an exception that no caller can catch, and that waits for locks on its way.
pub(super) fn check_threads(map: &OptionMap) -> Result<()> {
    /// How many of those that RocksDB keeps have been found to start.
    static KEPT: Mutex<usize> = Mutex::new(0);
    /// One for periodic tasks, and a spare one.
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
    // The caller's thread is one of those that open files; the others start at each opening, even without files.
    let opening = usize::try_from(number("max_file_opening_threads").unwrap_or(16) - 1).unwrap_or_default();
    parallel::check((needed - *kept).saturating_add(opening))?;
    *kept = needed;
    Ok(())
}

fn probe(mut options: Options, map: &OptionMap) -> Result<OptionMap, ProbeError> {
    // RocksDB would start the others although the database is empty.
    options.set_max_file_opening_threads(1);
    let mut alone = map.clone();
    alone.set(Group::Db, "max_file_opening_threads", "1");
    check_threads(&alone).map_err(ProbeError::Failed)?;
    options.create_if_missing(true);
    options.set_error_if_exists(false);
    // A file system in memory would allocate 4 MiB for each MANIFEST.
    options.set_allow_fallocate(false);
    let open = |dir: &Path| parallel::without_handler(|| DB::open(&options, dir).map(drop));
    let file = scratch::try_in_places(|dir| match open(dir) {
        Err(error) => Tried::Answered(Err(ProbeError::Failed(error))),
        Ok(Ok(())) => {
            failpoint::reach("probed");
            Tried::Answered(OptionsFile::latest(dir).map_err(ProbeError::Failed))
        }
        // A disk that is full, or does not do direct I/O, says nothing about the options.
        Ok(Err(error)) => match error.kind() {
            ErrorKind::IOError => {
                // The directory is gone when this is read.
                let place = dir.parent().unwrap_or(dir);
                Tried::Failed(Error::of_rocks("try the options in", place, error.into_string()))
            }
            ErrorKind::NotSupported => Tried::Unsupported(Err(ProbeError::Refused(error.into()))),
            _ => Tried::Answered(Err(ProbeError::Refused(error.into()))),
        },
    });
    let file = file.map_err(ProbeError::Failed)??;
    let family = file.family("default").expect("a database has a default column family");
    let mut effective = file.options(family);
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
pub fn defaults() -> Result<&'static OptionMap> {
    static DEFAULTS: OnceLock<OptionMap> = OnceLock::new();
    if let Some(defaults) = DEFAULTS.get() {
        return Ok(defaults);
    }
    match effective(&OptionMap::default()) {
        Ok(defaults) => Ok(DEFAULTS.get_or_init(|| defaults)),
        Err(ProbeError::Failed(error)) => Err(error),
        Err(ProbeError::Refused(Refusal(message))) => {
            Err(Error::Rocks { action: "open an empty database in", path: std::env::temp_dir(), message })
        }
    }
}

/// RocksDB's options for writing a batch.
pub(crate) fn write_options(settings: &WriteSettings) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(settings.disable_wal);
    options.set_sync(settings.sync);
    options.set_low_pri(settings.low_pri);
    options.set_memtable_insert_hint_per_batch(settings.memtable_insert_hint_per_batch);
    options
}

/// RocksDB's options for ingesting SST files.
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

/// RocksDB's options for the final compaction.
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

/// RocksDB's functions that set several options at once, for comparison with what `preset` expands.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shorthand {
    PrepareForBulkLoad,
    OptimizeForPointLookup(u64),
    IncreaseParallelism(i32),
}

#[cfg(test)]
pub(crate) fn effective_of_shorthand(shorthand: Shorthand) -> Result<OptionMap, ProbeError> {
    let mut options = Options::default();
    match shorthand {
        Shorthand::PrepareForBulkLoad => options.prepare_for_bulk_load(),
        Shorthand::OptimizeForPointLookup(mebibytes) => options.optimize_for_point_lookup(mebibytes),
        Shorthand::IncreaseParallelism(threads) => options.increase_parallelism(threads),
    }
    probe(options, &OptionMap::default())
}

#[cfg(test)]
pub(crate) fn default_write_settings() -> WriteSettings {
    let options = WriteOptions::default();
    WriteSettings {
        disable_wal: options.get_disable_wal(),
        sync: options.get_sync(),
        low_pri: options.get_low_pri(),
        memtable_insert_hint_per_batch: options.get_memtable_insert_hint_per_batch(),
    }
}

#[cfg(test)]
pub(crate) fn default_ingest_settings() -> IngestSettings {
    let options = IngestExternalFileOptions::default();
    IngestSettings {
        move_files: options.get_move_files(),
        link_files: options.get_link_files(),
        failed_move_fall_back_to_copy: options.get_failed_move_fall_back_to_copy(),
        snapshot_consistency: options.get_snapshot_consistency(),
        allow_global_seqno: options.get_allow_global_seqno(),
        allow_blocking_flush: options.get_allow_blocking_flush(),
        fail_if_not_bottommost_level: options.get_fail_if_not_bottommost_level(),
        verify_checksums_before_ingest: options.get_verify_checksums_before_ingest(),
        verify_checksums_readahead_size: options.get_verify_checksums_readahead_size() as u64,
        verify_file_checksum: options.get_verify_file_checksum(),
        fill_cache: options.get_fill_cache(),
        prefetch_lmax_index_and_filter_blocks: options.get_prefetch_lmax_index_and_filter_blocks(),
        file_opening_threads: options.get_file_opening_threads() as u32,
    }
}

#[cfg(test)]
pub(crate) fn default_compaction_settings() -> CompactionSettings {
    let options = CompactOptions::default();
    CompactionSettings {
        max_subcompactions: options.get_max_subcompactions() as u32,
        // The getter returns only whether it is `kSkip`, which is zero.
        bottommost_level_compaction: match options.get_bottommost_level_compaction() {
            true => BottommostLevel::IfHaveCompactionFilter,
            false => BottommostLevel::Skip,
        },
        exclusive_manual_compaction: options.get_exclusive_manual_compaction(),
        change_level: options.get_change_level(),
        target_level: options.get_target_level(),
        allow_write_stall: options.get_allow_write_stall(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(Group, &str, &str)]) -> OptionMap {
        let mut map = OptionMap::default();
        for (group, name, value) in entries {
            map.set(*group, *name, *value);
        }
        map
    }

    #[test]
    fn defaults_come_from_rocksdb_itself() {
        let defaults = defaults().expect("a temporary directory");
        assert_eq!(defaults.get(Group::Cf, "num_levels"), Some("7"));
        assert_eq!(defaults.get(Group::Db, "create_if_missing"), Some("false"));
        assert_eq!(defaults.get(Group::Table, "block_size"), Some("4096"));
    }

    #[test]
    fn what_goes_in_comes_back() {
        let asked = map(&[
            (Group::Db, "max_background_jobs", "5"),
            (Group::Db, "create_if_missing", "true"),
            (Group::Cf, "write_buffer_size", "33554432"),
            (Group::Cf, "compression", "kZSTD"),
            (Group::Cf, "memtable_factory", "vector"),
            (Group::Table, "filter_policy", "ribbonfilter:10"),
            (Group::Table, "block_cache", "8388608"),
        ]);
        let got = effective(&asked).expect("opened");
        for (group, name, value) in [
            (Group::Db, "max_background_jobs", "5"),
            (Group::Db, "create_if_missing", "true"),
            (Group::Cf, "write_buffer_size", "33554432"),
            (Group::Cf, "compression", "kZSTD"),
            (Group::Cf, "memtable_factory", "{id=VectorRepFactory;count=0;}"),
            (Group::Table, "filter_policy", "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
        ] {
            assert_eq!(got.get(group, name), Some(value), "{name}");
        }
    }

    #[test]
    fn rocksdb_refuses_in_its_own_words() {
        let said = |group, name, value| check(&map(&[(group, name, value)])).expect_err(name).0;
        assert_eq!(said(Group::Cf, "max_open_filez", "5"), "Extra option not recognized: max_open_filez");
        assert_eq!(said(Group::Cf, "num_levels", "99999999999"), "Error parsing num_levels:stoi");
        assert_eq!(said(Group::Table, "index_type", "kNope"), "No mapping for enum : index_type");
        let together = map(&[(Group::Db, "unordered_write", "true"), (Group::Db, "enable_pipelined_write", "true")]);
        assert!(check(&together).is_ok(), "each alone is fine");
        let Err(ProbeError::Refused(Refusal(said))) = effective(&together) else { panic!("they exclude each other") };
        assert_eq!(said, "unordered_write is incompatible with enable_pipelined_write");
    }

    /// Records of the small databases below.
    const RECORDS: u32 = 10_000;

    fn value(number: u32) -> String {
        format!("value {number}").repeat(20)
    }

    /// Loads records with a preset as its loader would, opens the database as the node does, reads everything back, and
    /// returns its OPTIONS file.
    fn database_of(preset: &str, dir: &std::path::Path) -> OptionMap {
        let found = crate::preset::Preset::builtin(preset).expect(preset);
        let resolved = crate::preset::resolve(&found, &crate::preset::Overrides::default()).expect(preset);
        let path = dir.join("db");
        let mut loading = build(&resolved.loading()).expect(preset);
        loading.create_if_missing(true);
        let db = DB::open(&loading, &path).expect(preset);
        match resolved.loader {
            crate::preset::Loader::Ingest => {
                let sst = dir.join("1.sst");
                let mut writer = rust_rocksdb::SstFileWriter::create(&loading);
                writer.open(&sst).expect(preset);
                for number in 0..RECORDS {
                    writer.put(number.to_be_bytes(), value(number)).expect(preset);
                }
                writer.finish().expect(preset);
                db.ingest_external_file_opts(&ingest_options(&resolved.ingest()), vec![sst]).expect(preset);
            }
            crate::preset::Loader::Memtable => {
                let options = write_options(&resolved.write());
                // Two files of level 0 whose keys overlap, or there would be nothing to compact.
                for odd in [0, 1] {
                    for number in (odd..RECORDS).step_by(2) {
                        db.put_opt(number.to_be_bytes(), value(number), &options).expect(preset);
                    }
                    db.flush().expect(preset);
                }
            }
        }
        drop(db);
        if resolved.loader == crate::preset::Loader::Memtable {
            let db = DB::open(&build(&resolved.compacting()).expect(preset), &path).expect(preset);
            db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &compact_options(&resolved.compaction()));
        }
        let db = DB::open(&build(&resolved.node()).expect(preset), &path).expect("opened as the node does");
        for number in 0..RECORDS {
            assert_eq!(db.get(number.to_be_bytes()).expect(preset), Some(value(number).into_bytes()), "{preset}");
        }
        let levels: Vec<i32> = db.live_files().expect("listed").iter().map(|file| file.level).collect();
        assert!(!levels.is_empty() && levels.iter().all(|level| *level == 6), "{preset}: {levels:?}");
        drop(db);
        let file = OptionsFile::latest(&path).expect("OPTIONS");
        file.options(file.family("default").expect("the family"))
    }

    #[test]
    fn presets_fill_last_level_and_options() {
        for preset in crate::preset::Preset::builtin_names() {
            let dir = tempfile::tempdir().expect("a directory");
            let left = database_of(preset, dir.path());
            let found = crate::preset::Preset::builtin(preset).expect(preset);
            let resolved = crate::preset::resolve(&found, &crate::preset::Overrides::default()).expect(preset);
            assert_eq!(left, effective(&resolved.node()).expect(preset), "{preset}");
        }
    }

    /// Tools of Debian 12's package rocksdb-tools, from `BEDLOAD_ROCKSDB_7_TOOLS` (a directory) or the path.
    fn old_tool(name: &str) -> Option<std::process::Command> {
        let dir = std::env::var_os("BEDLOAD_ROCKSDB_7_TOOLS").map(std::path::PathBuf::from).unwrap_or_default();
        let path = dir.join(name);
        let out = std::process::Command::new(&path).arg("--version").output().ok()?;
        let is_old = out.status.success() && String::from_utf8_lossy(&out.stdout).contains(" 7.");
        is_old.then(|| std::process::Command::new(path))
    }

    #[test]
    fn rocksdb_7_8_reads_ingest_compat_only() {
        let (Some(mut scan), Some(mut dump), Some(mut scan_new)) =
            (old_tool("ldb"), old_tool("sst_dump"), old_tool("ldb"))
        else {
            crate::skipped::skipped("no ldb and sst_dump of RocksDB 7.8; apt-get install rocksdb-tools");
            return;
        };
        let dir = tempfile::tempdir().expect("a directory");
        database_of("ingest-compat", dir.path());
        let db = format!("--db={}", dir.path().join("db").display());
        let out = scan.args([&db, "--ignore_unknown_options", "scan", "--hex"]).output().expect("run");
        let said = String::from_utf8_lossy(&out.stdout);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("0x")).collect();
        assert_eq!(
            lines.len(),
            RECORDS as usize,
            "{}{}",
            &said[..said.len().min(300)],
            String::from_utf8_lossy(&out.stderr)
        );
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        for (number, line) in lines.iter().enumerate() {
            let value = hex(value(number as u32).as_bytes());
            assert_eq!(*line, format!("0x{number:08X} : 0x{value}"));
        }
        let out = dump
            .args([format!("--file={}", dir.path().join("db").display()), "--command=verify".into()])
            .output()
            .expect("run");
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success() && said.contains("The file is ok"), "{said}");

        let other = tempfile::tempdir().expect("a directory");
        database_of("ingest", other.path());
        let db = format!("--db={}", other.path().join("db").display());
        let out = scan_new.args([&db, "--ignore_unknown_options", "scan", "--hex"]).output().expect("run");
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(said.contains("Corrupt or unsupported format_version"), "what ingest-compat is for: {said}");
    }
}
