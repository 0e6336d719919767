//! RocksDB's own defaults and functions, and options as RocksDB reads and writes them.

use rust_rocksdb::{CompactOptions, IngestExternalFileOptions, Options, WriteOptions};

use super::option_map::{Group, OptionMap};
use super::options::*;
use super::settings::{BottommostLevel, CompactionSettings, IngestSettings, WriteSettings};

/// The options after a function of RocksDB that sets several.
pub(crate) fn effective_after(function: impl FnOnce(&mut Options)) -> OptionMap {
    let mut options = Options::default();
    function(&mut options);
    probe(options, &OptionMap::default(), &places()).expect("opened")
}

pub(crate) fn default_write_settings() -> WriteSettings {
    let options = WriteOptions::default();
    WriteSettings {
        disable_wal: options.get_disable_wal(),
        sync: options.get_sync(),
        low_pri: options.get_low_pri(),
        memtable_insert_hint_per_batch: options.get_memtable_insert_hint_per_batch(),
    }
}

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

fn map(entries: &[(Group, &str, &str)]) -> OptionMap {
    let mut map = OptionMap::default();
    for (group, name, value) in entries {
        map.set(*group, *name, *value);
    }
    map
}

/// `BEDLOAD_WRITE_DOCS=1` writes the file anew, for another RocksDB.
#[test]
fn defaults_match_rocksdb() {
    let map = effective(&OptionMap::default(), &places()).expect("opened");
    let of = |wanted| map.iter().filter(move |(group, ..)| *group == wanted);
    let lines = |group| of(group).map(|(_, name, value)| format!("  {name}={value}\n")).collect::<String>();
    let text = format!(
        "[Version]\n  rocksdb_version={}\n[DBOptions]\n{}[CFOptions \"default\"]\n{}[TableOptions/BlockBasedTable \"default\"]\n{}",
        super::VERSION,
        lines(Group::Db),
        lines(Group::Cf),
        lines(Group::Table),
    );
    if std::env::var_os("BEDLOAD_WRITE_DOCS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rocks/OPTIONS-11.12");
        std::fs::write(file, &text).expect("written");
        return;
    }
    assert_eq!(OPTIONS, text);
    let unset = [(Group::Cf, "compression_per_level", "")];
    assert_eq!(map.get(Group::Cf, unset[0].1), None, "RocksDB writes it");
    assert_eq!(defaults(), &map.overlaid(&unset.into_iter().collect()));
    assert_eq!(map.get(Group::Cf, "num_levels"), Some("7"));
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
    let got = effective(&asked, &places()).expect("opened");
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
    let Err(ProbeError::Refused(Refusal(said))) = effective(&together, &places()) else {
        panic!("they exclude each other")
    };
    assert_eq!(said, "unordered_write is incompatible with enable_pipelined_write");
}
