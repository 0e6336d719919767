//! Behaviours of presets as a whole, and the built-in presets.

mod databases;
mod layers;
mod options_file;
mod refusals;

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use super::*;
use crate::rocks::option_map::{Group, OptionMap, fields_of};
use crate::rocks::tests::*;

const MACHINE: Machine = Machine { cores: 8, open_files: 65_280 };

fn with(set: &[&str]) -> Overrides {
    let set = set.iter().map(|&argument| argument.into()).collect();
    Overrides { set, machine: Some(MACHINE), ..Overrides::default() }
}

fn builtin(name: &str) -> Preset {
    Preset::builtin(name).expect(name)
}

fn resolved(name: &str, set: &[&str]) -> Resolved {
    resolve(&builtin(name), &with(set)).unwrap_or_else(|error| panic!("{name} with {set:?}: {error}"))
}

/// The error of a built-in preset with these overrides.
fn error_of(name: &str, set: &[&str]) -> Error {
    resolve(&builtin(name), &with(set)).map(|resolved| resolved.preset).expect_err(&set.join(" "))
}

/// The message for an override with the preset `ingest`, without its beginning, which is checked.
fn refused(set: &str) -> String {
    let text = error_of("ingest", &[set]).to_string();
    text.strip_prefix(&format!("option {set}: ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn preset(text: &str) -> Preset {
    Preset::parse(Cow::Owned(text.to_owned()), Path::new("mine.toml"), &mut Vec::new()).expect("a preset")
}

/// The message for a preset with this text.
fn problem(text: &str) -> String {
    resolve(&preset(text), &with(&[])).expect_err(text).to_string()
}

/// Overrides with a user's configuration of this text, and its directory.
fn with_config(text: &str) -> (tempfile::TempDir, Overrides) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    fs::write(&config, text).expect("written");
    (dir, Overrides { user_config: Some(config), ..with(&[]) })
}

/// Every built-in preset, resolved on the same machine.
fn shipped() -> &'static [Resolved] {
    static SHIPPED: LazyLock<Vec<Resolved>> =
        LazyLock::new(|| Preset::builtin_names().map(|name| resolved(name, &[])).collect());
    &SHIPPED
}

#[test]
fn configs_are_built_in_by_file_name() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let files: HashSet<String> = fs::read_dir(dir)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, Preset::builtin_names().map(str::to_owned).collect());
    for name in Preset::builtin_names() {
        let preset = builtin(name);
        assert_eq!(preset.name, name);
        assert!(!preset.summary.is_empty() && preset.summary.len() <= 100, "{name}: {}", preset.summary);
        assert!(!preset.summary.contains('\n'), "{name}");
    }
}

#[test]
fn shipped_presets_are_sound() {
    for resolved in shipped() {
        let name = &resolved.preset;
        for assignment in builtin(name).assignments {
            let reason = assignment.reason.unwrap_or_default();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{name}: {} has no reason", assignment.key);
        }
        assert_eq!(resolved.notes, Vec::<String>::new(), "{name}");
        for (stage, map) in [(Stage::Load, resolved.loading()), (Stage::Node, resolved.node())] {
            let effective = options::effective(&map, &options::places()).expect(name);
            for (group, option, value) in map.iter() {
                // RocksDB does not write the cache to OPTIONS, and clips the number of files to this process's limit.
                if option == "block_cache" || option == "max_open_files" {
                    continue;
                }
                let kept = resolved::default_of(&effective, group, option).expect(option);
                assert!(resolved::agrees(value, kept), "{name}: {stage}.{group}.{option}: {value}, but {kept}");
            }
        }
        let node = resolved.node();
        let effective = options::effective(&node, &options::places()).expect(name);
        assert_eq!(effective.get(Group::Cf, "disable_auto_compactions"), Some("false"), "{name}");
        assert_eq!(effective.get(Group::Cf, "num_levels"), Some("7"), "{name}");
        let files: i64 = node.get(Group::Db, "max_open_files").expect(name).parse().expect("a number");
        assert!((1..=65_280).contains(&files), "{name}: {files}");
        for row in explain(resolved).options {
            assert!(row.effect.is_some() && row.cost.is_some(), "{name}: {} is not in catalogue.toml", row.option);
        }
    }
}

#[test]
fn oldest_rocksdb_needs_no_resolving() {
    for resolved in shipped() {
        let preset = builtin(&resolved.preset);
        assert_eq!(preset.oldest_rocksdb(), resolved.oldest_rocksdb(), "{}", preset.name);
    }
    for (name, release) in [("ingest", "8.6"), ("ingest-compat", "7.8"), ("ingest-zstd", "8.6")] {
        assert_eq!(builtin(name).oldest_rocksdb().to_string(), release, "{name}");
    }
    assert!(explain(&shipped()[0]).to_string().contains("\nread by: RocksDB 8.6 or newer\n"));
}

/// Regenerate with `INSTA_UPDATE=always cargo test --lib preset::`, and read the difference.
#[test]
fn explanation_matches_the_golden_text() {
    for resolved in shipped() {
        let name = &resolved.preset;
        insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("explain-{name}"), explain(resolved).to_string());
        });
    }
    let explained = explain(&shipped()[0]);
    let has = |option: &str| explained.options.iter().any(|row| row.option.to_string() == option);
    assert!(has("node.table.block_size"));
    assert!(!has("node.cf.num_levels"), "seven levels are the default");
}

#[test]
fn diff_shows_values_and_missing_sides() {
    let (a, b) = (resolved("ingest", &[]), resolved("ingest-compat", &[]));
    let aligned = resolved("ingest", &["node.table.block_align=true"]);
    let shown = |b| {
        let one = |one: Difference| format!("{} {} {} {:?}", one.option, one.a, one.b, one.unnamed);
        diff(&a, b).into_iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(shown(&a), Vec::<String>::new());
    assert_eq!(shown(&b), ["node.table.format_version 6 5 None"]);
    assert_eq!(shown(&aligned), ["node.table.block_align false true Some(\"a\")"]);
}

#[test]
fn final_compaction_uses_node_style_and_levels() {
    for name in ["forest-no-compaction", "forest-bulk-load"] {
        let resolved = resolved(name, &[]);
        assert_ne!(resolved.compacting(), resolved.loading(), "{name}");
        let effective = options::effective(&resolved.compacting(), &options::places()).expect(name);
        assert_eq!(effective.get(Group::Cf, "compaction_style"), Some("kCompactionStyleLevel"), "{name}");
        assert_eq!(effective.get(Group::Cf, "num_levels"), Some("7"), "{name}");
        assert_eq!(effective.get(Group::Cf, "disable_auto_compactions"), Some("true"), "{name}");
    }
    let memtable = resolved("memtable", &[]);
    assert_eq!(memtable.compacting(), memtable.loading(), "no need to open it anew");
}

#[test]
fn load_options_override_node_while_loading() {
    let resolved = resolved("ingest", &["load.ingest.sst_size=64M", "load.ingest.allow_global_seqno=true"]);
    assert_eq!(resolved.loading().get(Group::Cf, "disable_auto_compactions"), Some("true"));
    assert_eq!(resolved.loading().get(Group::Table, "block_size"), Some("16384"));
    assert_eq!(resolved.node().get(Group::Cf, "disable_auto_compactions"), None);
    assert_eq!((resolved.sst_size(), resolved.sst_threads()), (64 << 20, 8));
    let ingest = resolved.ingest();
    assert!(ingest.move_files && ingest.allow_global_seqno && !ingest.fill_cache);
    assert_eq!(ingest.file_opening_threads, 8);
}

#[test]
fn registry_and_shorthands_match_rocksdb() {
    let of = resolve(&preset("loader = \"ingest\"\n"), &with(&[])).expect("empty");
    assert_eq!(of.ingest(), default_ingest_settings());
    assert_eq!(of.write(), default_write_settings());
    assert_eq!(of.compaction(), default_compaction_settings());
    for (name, value, expected) in [
        ("prepare_for_bulk_load", 1, effective_after(|options| options.prepare_for_bulk_load())),
        ("optimize_for_point_lookup", 8, effective_after(|options| options.optimize_for_point_lookup(8))),
    ] {
        let mut map = OptionMap::default();
        for (scope, name, value) in shorthand::expand(name, value) {
            map.set(scope.group().expect("a scope of the parser"), name, value);
        }
        assert_eq!(options::effective(&map, &options::places()).expect("opened"), expected, "{name}");
    }
}

#[test]
fn structures_are_set_field_by_field() {
    let set = ["node.cf.compression_opts={level=3;max_dict_bytes=16K}", "node.cf.compression_opts.level=7"];
    let effective = options::effective(&resolved("ingest", &set).node(), &options::places()).expect("opened");
    let fields = fields_of(effective.get(Group::Cf, "compression_opts").expect("there")).expect("a structure");
    assert!(fields.contains(&("level", "7")) && fields.contains(&("max_dict_bytes", "16384")), "{fields:?}");
    assert!(refused("node.cf.compression_opts=4:5").contains("it is a structure: name its fields"));
}

#[test]
fn compressions_have_plain_names() {
    for (set, group, option, kept) in [
        ("cf.compression=zstd", Group::Cf, "compression", "kZSTD"),
        ("cf.compression=LZ4", Group::Cf, "compression", "kLZ4Compression"),
        ("cf.compression=none", Group::Cf, "compression", "kNoCompression"),
        ("cf.bottommost_compression=lz4hc", Group::Cf, "bottommost_compression", "kLZ4HCCompression"),
        ("cf.blob_compression_type=snappy", Group::Cf, "blob_compression_type", "kSnappyCompression"),
        ("db.wal_compression=zstd", Group::Db, "wal_compression", "kZSTD"),
    ] {
        let node = resolved("ingest", &[&format!("node.{set}")]).node();
        assert_eq!(node.get(group, option), Some(kept), "{set}");
        assert_eq!(options::effective(&node, &options::places()).expect(set).get(group, option), Some(kept), "{set}");
    }
}

#[test]
fn known_traps_are_reported() {
    for (preset, set, message) in [
        ("memtable", "load.cf.level0_file_num_compaction_trigger=0", "0 means always, not never"),
        ("memtable", "load.compaction.bottommost_level_compaction=kForce", "kForceOptimized does not"),
        ("ingest", "node.cf.num_levels=2", "a node that expects seven levels"),
        ("ingest", "node.cf.disable_auto_compactions=true", "files accumulate"),
        ("ingest", "node.db.max_open_files=-1", "Too many open files"),
        ("ingest", "load.ingest.allow_global_seqno=true", "other than zero"),
        ("ingest", "node.cf.enable_blob_files=true", "inside the SST files"),
        ("ingest", "node.cf.optimize_filters_for_hits=true", "filters are built anyway"),
    ] {
        let notes = resolved(preset, &[set]).notes;
        let last = notes.last().expect(set);
        assert!(last.starts_with(&format!("option {set}: `")) && last.contains(message), "{set}: {notes:?}");
    }
}
