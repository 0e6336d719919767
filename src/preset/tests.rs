//! Behaviours of presets as a whole.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;

use super::*;
use crate::rocks::option_map::{Group, fields_of};
use crate::rocks::options;

const MACHINE: Machine = Machine { cores: 8, open_files: 65_280 };

fn with(set: &[&str]) -> Overrides {
    Overrides {
        set: set.iter().map(|&argument| argument.into()).collect(),
        machine: Some(MACHINE),
        ..Overrides::default()
    }
}

/// Every shipped preset, resolved on the same machine.
fn shipped() -> &'static [Resolved] {
    static SHIPPED: LazyLock<Vec<Resolved>> = LazyLock::new(|| {
        let resolved = |name| resolve(&Preset::builtin(name).expect(name), &with(&[])).expect(name);
        Preset::builtin_names().map(resolved).collect()
    });
    &SHIPPED
}

fn preset(text: &str) -> Preset {
    Preset::parse(Cow::Owned(text.to_owned()), Path::new("mine.toml"), &mut Vec::new())
        .expect("of the form of a preset")
}

fn problem(text: &str) -> String {
    resolve(&preset(text), &with(&[])).expect_err(text).to_string()
}

fn refused(set: &str) -> String {
    let ingest = Preset::builtin("ingest").expect("built in");
    resolve(&ingest, &with(&[set])).expect_err(set).to_string()
}

#[test]
fn configs_are_built_in_by_file_name() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let files: HashSet<String> = fs::read_dir(dir)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let names: HashSet<String> = Preset::builtin_names().map(str::to_owned).collect();
    assert_eq!(files, names);
    for name in Preset::builtin_names() {
        let preset = Preset::builtin(name).expect(name);
        assert_eq!(preset.name, name);
        assert!(!preset.summary.is_empty() && preset.summary.len() <= 100, "{name}: {}", preset.summary);
        assert!(!preset.summary.contains('\n'), "{name}");
    }
}

#[test]
fn shipped_values_have_reasons_and_are_kept() {
    for resolved in shipped() {
        let name = &resolved.preset;
        for assignment in &Preset::builtin(name).expect(name).assignments {
            let reason = assignment.reason.as_deref().unwrap_or_default();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{name}: {} has no reason", assignment.key);
        }
        assert_eq!(resolved.notes, Vec::<String>::new(), "{name}");
        for (stage, map) in [(Stage::Load, resolved.loading()), (Stage::Node, resolved.node())] {
            let effective = options::effective(&map).expect(name);
            for (group, option, value) in map.iter() {
                // RocksDB does not write the cache to OPTIONS, and clips the number of files to this process's limit.
                if option == "block_cache" || option == "max_open_files" {
                    continue;
                }
                let kept = validate::default_of(&effective, group, option).expect(option);
                assert!(resolved::agrees(value, kept), "{name}: {stage}.{group}.{option}: {value}, but {kept}");
            }
        }
    }
}

#[test]
fn shipped_options_have_effects() {
    for resolved in shipped() {
        let name = &resolved.preset;
        for row in explain(resolved).options {
            assert!(row.effect.is_some() && row.cost.is_some(), "{name}: {} is not in effects.toml", row.option);
        }
    }
}

#[test]
fn shipped_presets_compact_seven_levels() {
    for resolved in shipped() {
        let (name, node) = (&resolved.preset, resolved.node());
        let effective = options::effective(&node).expect(name);
        assert_eq!(effective.get(Group::Cf, "disable_auto_compactions"), Some("false"), "{name}");
        assert_eq!(effective.get(Group::Cf, "num_levels"), Some("7"), "{name}");
        let files: i64 = node.get(Group::Db, "max_open_files").expect(name).parse().expect("a number");
        assert!((1..=65_280).contains(&files), "{name}: {files}");
    }
}

#[test]
fn misspelt_option_suggests_the_nearest_name() {
    let text = "loader = \"memtable\"\n[load.cf]\nwrite_bufer_size = \"64M\"\n";
    assert_eq!(
        problem(text),
        "mine.toml:3: unknown option `load.cf.write_bufer_size`; the nearest valid name is `load.cf.write_buffer_size`"
    );
    let error = resolve(&preset(text), &with(&[])).expect_err("unknown");
    assert_eq!(error.exit(), crate::Exit::Usage);
    assert_eq!(error.hint(), "write `load.cf.write_buffer_size`");
}

#[test]
fn wrong_scope_suggests_the_right_one() {
    assert_eq!(
        refused("node.cf.max_open_files=5"),
        "--set node.cf.max_open_files=5: unknown option `node.cf.max_open_files`; \
         the nearest valid name is `node.db.max_open_files`"
    );
    assert_eq!(refused("node.cf.sst_size=5"), "--set node.cf.sst_size=5: unknown option `node.cf.sst_size`");
    assert_eq!(
        refused("load.ingest.sstsize=5"),
        "--set load.ingest.sstsize=5: unknown option `load.ingest.sstsize`; the nearest valid name is `load.ingest.sst_size`"
    );
    assert_eq!(
        refused("node.cf.compression_opts.levels=5"),
        "--set node.cf.compression_opts.levels=5: unknown option `node.cf.compression_opts.levels`; \
         the nearest valid name is `node.cf.compression_opts.level`"
    );
}

#[test]
fn option_ignored_by_rocksdb_is_unknown() {
    assert!(refused("node.cf.soft_rate_limit=3").contains("unknown option `node.cf.soft_rate_limit`"));
}

#[test]
fn wrong_unit_or_overflow_is_rejected() {
    assert_eq!(
        refused("node.cf.write_buffer_size=64MB"),
        "--set node.cf.write_buffer_size=64MB: `node.cf.write_buffer_size` cannot be `64MB`: \
         64MB may mean powers of 1000 or of 1024: write 64M or 64MiB for powers of 1024"
    );
    assert!(
        refused("node.cf.write_buffer_size=99999999999T")
            .ends_with("too large: the largest size is 18446744073709551615 bytes")
    );
    assert!(refused("node.cf.write_buffer_size=64X").contains("`X` is not a unit of size"));
    assert_eq!(
        refused("node.cf.max_write_buffer_number=4G"),
        "--set node.cf.max_write_buffer_number=4G: RocksDB refuses `node.cf.max_write_buffer_number` = `4294967296`: \
         Error parsing max_write_buffer_number:stoi"
    );
    assert!(refused("node.cf.memtable_prefix_bloom_size_ratio=1M").ends_with("a number is needed, without a unit"));
    assert!(refused("node.cf.optimize_filters_for_hits=yes").ends_with("it is `true` or `false`"));
    assert!(refused("load.ingest.threads=0").ends_with("it is at least 1 and at most 2147483647"));
}

#[test]
fn rocksdb_refusal_shows_message_and_default() {
    let ingest = Preset::builtin("ingest").expect("built in");
    let error = resolve(&ingest, &with(&["node.cf.compression=kZstd"])).expect_err("refused");
    assert!(error.to_string().contains("RocksDB refuses `node.cf.compression` = `kZstd`: "), "{error}");
    assert_eq!(error.hint(), "RocksDB's own default is written `kLZ4Compression`");
}

#[test]
fn unknown_compression_lists_all_names() {
    let ingest = Preset::builtin("ingest").expect("built in");
    for (set, option, kept) in [
        ("compression=zstd", "compression", "kZSTD"),
        ("compression=LZ4", "compression", "kLZ4Compression"),
        ("compression=none", "compression", "kNoCompression"),
        ("bottommost_compression=lz4hc", "bottommost_compression", "kLZ4HCCompression"),
        ("blob_compression_type=snappy", "blob_compression_type", "kSnappyCompression"),
    ] {
        let resolved = resolve(&ingest, &with(&[&format!("node.cf.{set}")])).expect(set);
        assert_eq!(resolved.node().get(Group::Cf, option), Some(kept), "{set}");
        assert_eq!(options::effective(&resolved.node()).expect(set).get(Group::Cf, option), Some(kept), "{set}");
    }
    let wal = resolve(&ingest, &with(&["node.db.wal_compression=zstd"])).expect("taken");
    assert_eq!(wal.node().get(Group::Db, "wal_compression"), Some("kZSTD"));
    assert_eq!(
        refused("node.cf.compression=gzip"),
        "--set node.cf.compression=gzip: `node.cf.compression` cannot be `gzip`: it is one of none (kNoCompression), \
         snappy (kSnappyCompression), zlib (kZlibCompression), bzip2 (kBZip2Compression), lz4 (kLZ4Compression), \
         lz4hc (kLZ4HCCompression), zstd (kZSTD)"
    );
    assert_eq!(
        refused("node.table.filter_policy=bloom"),
        "--set node.table.filter_policy=bloom: `node.table.filter_policy` cannot be `bloom`: \
         it needs the bits of a key: `bloom:10`"
    );
}

/// Resolves a preset with an OPTIONS file that has these lines for its column family and its tables.
fn of_node(family: &str, table: &str, set: &[&str]) -> Resolved {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000001");
    let text = format!(
        "[Version]\nrocksdb_version=7.8.3\n[DBOptions]\n[CFOptions \"default\"]\n{family}\n\
         [TableOptions/BlockBasedTable \"default\"]\n{table}\n"
    );
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file), ..with(set) };
    resolve(&Preset::builtin("ingest").expect("built in"), &overrides).expect("good")
}

#[test]
fn filter_without_bits_gets_ten() {
    for (written, kind, kept) in [
        ("bloomfilter", "bloom", "bloomfilter:10:false"),
        ("rocksdb.BuiltinBloomFilter", "bloom", "bloomfilter:10:false"),
        ("{id=bloomfilter;}", "bloom", "bloomfilter:10:false"),
        ("ribbonfilter", "ribbon", "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
        ("{id=ribbonfilter;bloom_before_level=0;}", "ribbon", "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
    ] {
        let resolved = of_node("", &format!("filter_policy={written}"), &[]);
        let effective = options::effective(&resolved.node()).expect(written);
        assert_eq!(effective.get(Group::Table, "filter_policy"), Some(kept), "{written}");
        let [note] = resolved.notes.as_slice() else { panic!("{written}: {:?}", resolved.notes) };
        let message = format!(
            ":7: `node.table.filter_policy`: `{written}` does not say the bits of a key, so 10 are taken; \
             for another number, add `--set node.table.filter_policy={kind}:BITS`"
        );
        assert!(note.ends_with(&message), "{note}");
    }
    for (written, kept) in [
        ("bloomfilter:12:false", "bloomfilter:12:false"),
        ("bloomfilter:12:true", "bloomfilter:12:false"),
        ("{id=ribbonfilter:9:0;bloom_before_level=0;}", "{id=ribbonfilter:9:0;bloom_before_level=0;}"),
    ] {
        let resolved = of_node("", &format!("filter_policy={written}"), &[]);
        let effective = options::effective(&resolved.node()).expect(written);
        assert_eq!(effective.get(Group::Table, "filter_policy"), Some(kept), "{written}");
        assert!(resolved.notes.iter().all(|note| !note.contains("does not say")), "{:?}", resolved.notes);
    }
    let resolved = of_node("", "filter_policy=bloomfilter", &["node.table.filter_policy=bloom:12"]);
    assert_eq!(resolved.notes, Vec::<String>::new(), "who has said the bits need not be message");
    assert_eq!(resolved.node().get(Group::Table, "filter_policy"), Some("bloomfilter:12"));
}

#[test]
fn static_levels_are_warned_of() {
    let notes = of_node("level_compaction_dynamic_level_bytes=false", "", &[]).notes;
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    let message = ":5: `node.cf.level_compaction_dynamic_level_bytes`: the import leaves its files at the last level, 6, \
                all the same; what the node writes, overwrites and deletes reaches them only when level 5 holds 2.4 TiB: ";
    assert!(note.contains(message), "{note}");
    let small = "level_compaction_dynamic_level_bytes=false\nmax_bytes_for_level_base=1048576\nnum_levels=4";
    let notes = of_node(small, "", &[]).notes;
    assert!(
        notes.iter().any(|note| note.contains("last level, 3,") && note.contains("level 2 holds 10.0 MiB")),
        "{notes:?}"
    );
}

#[test]
fn oldest_rocksdb_needs_no_resolving() {
    let mut of: Vec<(String, String)> = Vec::new();
    for resolved in shipped() {
        let preset = Preset::builtin(&resolved.preset).expect("built in");
        assert_eq!(preset.oldest_rocksdb().expect("defaults"), resolved.oldest_rocksdb(), "{}", preset.name);
        of.push((preset.name, resolved.oldest_rocksdb().to_string()));
    }
    let named = |name: &str| of.iter().find(|(of, _)| of == name).map(|(_, release)| release.as_str());
    let found = ["ingest", "ingest-compat", "ingest-zstd", "block-log"].map(named);
    assert_eq!(found, [Some("8.6"), Some("7.8"), Some("8.6"), Some("8.6")]);
    assert!(explain(&shipped()[0]).to_string().contains("\nread by: RocksDB 8.6 or newer\n"));
}

/// A folder with these presets, and the one to begin with.
fn family_of(files: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::create_dir_all(dir.path().join(name).parent().expect("a folder")).expect("made");
        fs::write(dir.path().join(name), text).expect("written");
    }
    let first = dir.path().join(files[0].0);
    (dir, first)
}

#[test]
fn preset_overrides_its_base_by_option() {
    let (_dir, first) = family_of(&[
        ("mine.toml", "base = \"bases/middle.toml\"\n[node.table]\nblock_size = \"64K\"\n"),
        ("bases/middle.toml", "base = \"ingest\"\n[node.table]\nblock_size = \"8K\"\nformat_version = 5\n"),
    ]);
    let preset = Preset::from_file(&first).expect("a preset");
    assert_eq!((preset.name.as_str(), preset.loader), ("mine", Loader::Ingest));
    let resolved = resolve(&preset, &with(&[])).expect("good");
    let node = resolved.node();
    assert_eq!(node.get(Group::Table, "block_size"), Some("65536"), "its own");
    assert_eq!(node.get(Group::Table, "format_version"), Some("5"), "of the middle one");
    assert_eq!(node.get(Group::Table, "filter_policy"), Some("bloomfilter:10"), "of the lowest");
    assert_eq!(resolved.sst_size(), 256 << 20);
    let from = |name: &str| {
        let setting = resolved.settings().find(|setting| setting.key.to_string() == name).expect(name);
        setting.origin.to_string()
    };
    assert!(
        from("node.table.format_version").ends_with("bases/middle.toml:4"),
        "{}",
        from("node.table.format_version")
    );
    assert!(from("node.cf.num_levels").starts_with("ingest.toml:"), "{}", from("node.cf.num_levels"));
    let sizes: Vec<String> =
        preset.all_assignments().into_iter().filter(|one| one.key.name == "block_size").map(|one| one.value).collect();
    assert_eq!(sizes, ["64K"], "each option once");
    assert_eq!(preset.oldest_rocksdb().expect("defaults"), resolved.oldest_rocksdb());
    for text in ["\"8K\"", "\"64K\"", "sort once"] {
        assert!(preset.all_text().contains(text), "a change of a base is a change");
    }
    // A shorthand of the upper one overrides what the lower one says of the same option.
    let (_dir, first) = family_of(&[
        ("a.toml", "base = \"./b.toml\"\n[node.cf]\noptimize_for_point_lookup = 8\n"),
        ("b.toml", "loader = \"ingest\"\n[node.table]\nfilter_policy = \"none\"\n"),
    ]);
    let resolved = resolve(&Preset::from_file(&first).expect("a preset"), &with(&[])).expect("good");
    assert_eq!(resolved.node().get(Group::Table, "filter_policy"), Some("bloomfilter:10:false"));
}

#[test]
fn invalid_base_is_rejected_with_place() {
    let refused = |files: &[(&str, &str)]| {
        let (dir, first) = family_of(files);
        let error = Preset::from_file(&first).expect_err("refused");
        assert_eq!(error.exit(), crate::Exit::Usage, "{error}");
        error.to_string().replace(&format!("{}/", dir.path().display()), "")
    };
    assert_eq!(
        refused(&[("a.toml", "base = \"./b.toml\"\n"), ("b.toml", "\nbase = \"./a.toml\"\n")]),
        "./b.toml:2: `./a.toml` is based on this preset itself"
    );
    assert_eq!(refused(&[("a.toml", "base = \"a.toml\"\n")]), "a.toml:1: `a.toml` is based on this preset itself");
    assert_eq!(
        refused(&[("a.toml", "base = \"ingset\"\n")]),
        "a.toml:1: unknown preset `ingset`; the nearest valid name is `ingest`"
    );
    for (word, hint) in [
        ("rest-0", "`bedload presets --all` names them all; a file is named by its path"),
        ("in", "similar ones are ingest, ingest-zstd, "),
    ] {
        let (_dir, first) = family_of(&[("a.toml", &format!("base = \"{word}\"\n"))]);
        let error = Preset::from_file(&first).expect_err("no such preset");
        assert!(error.hint().starts_with(hint), "{word}: {}", error.hint());
    }
    assert_eq!(
        refused(&[("a.toml", "loader = \"memtable\"\nbase = \"ingest\"\n")]),
        "a.toml:2: `ingest` has the loader `ingest`: leave `loader` out, or take another `base`"
    );
    let names: Vec<String> = (0..10).map(|number| format!("{number}.toml")).collect();
    let texts: Vec<String> = (1..11).map(|number| format!("base = \"{number}.toml\"\n")).collect();
    let deep: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    assert_eq!(refused(&deep), "7.toml:1: it is the base of a base, 8 times over; that is too deep");
    let (_dir, first) = family_of(&[("a.toml", "base = \"nowhere.toml\"\n")]);
    let error = Preset::from_file(&first).expect_err("no such file");
    assert!(error.to_string().starts_with("open ") && error.to_string().ends_with("nowhere.toml"), "{error}");
}

#[test]
fn object_that_rocksdb_cannot_make_is_rejected() {
    let error = problem("loader = \"memtable\"\n[load.cf]\nmemtable_factory = \"vectro\"\n");
    assert!(error.starts_with("mine.toml:3: RocksDB refuses `load.cf.memtable_factory` = `vectro`: "), "{error}");
}

#[test]
fn negative_number_is_rejected() {
    let error = problem("loader = \"memtable\"\n[load.cf]\nwrite_buffer_size = -5\n");
    assert!(error.starts_with("mine.toml:3: RocksDB refuses `load.cf.write_buffer_size` = `-5`: "), "{error}");
}

#[test]
fn conflicting_options_are_reported() {
    let error = problem(
        "loader = \"memtable\"\nname = \"x\"\n[load.db]\nunordered_write = true\nenable_pipelined_write = true\n",
    );
    assert_eq!(
        error,
        "preset `x`: RocksDB refuses its load options together: \
         unordered_write is incompatible with enable_pipelined_write"
    );
}

#[test]
fn option_without_effect_is_rejected() {
    assert_eq!(
        problem("loader = \"memtable\"\n[load.ingest]\nsst_size = \"64M\"\n"),
        "mine.toml:3: `load.ingest.sst_size` has no effect with the memtable loader: \
         no SST file is built outside of the database"
    );
    assert_eq!(
        refused("load.cf.write_buffer_size=64M"),
        "--set load.cf.write_buffer_size=64M: `load.cf.write_buffer_size` has no effect with the ingest loader: \
         no record passes through a memtable"
    );
    assert!(refused("load.write.batch_count=5").contains("has no effect with the ingest loader"));
}

#[test]
fn paths_outside_the_database_are_rejected() {
    assert!(refused("node.db.wal_dir=/elsewhere").contains("it places files outside of the database"));
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    fs::write(
        &config,
        "preset = \"ingest\"\n[node.table]\nblock_size = \"8K\"\nblock_restart_interval = 8\n\
         metadata_block_size = 8192\n[load.write]\nbatch_count = 5\n",
    )
    .expect("written");
    let overrides = Overrides {
        environment: vec![
            ("BEDLOAD_SET_NODE_TABLE_BLOCK_SIZE".into(), "32K".into()),
            ("BEDLOAD_SET_NODE_TABLE_BLOCK_RESTART_INTERVAL".into(), "4".into()),
            ("BEDLOAD_SET_NODE_DB_WAL_TTL_SECONDS".into(), "7".into()),
        ],
        user_config: Some(config),
        ..with(&["node.table.block_size=64K", "node.table.block_size=128K"])
    };
    let resolved = resolve(&overrides.preset(None).expect("the user's"), &overrides).expect("good");
    let node = resolved.node();
    assert_eq!(node.get(Group::Table, "block_size"), Some("131072"), "the last --set");
    assert_eq!(node.get(Group::Table, "block_restart_interval"), Some("4"), "the environment");
    assert_eq!(node.get(Group::Table, "metadata_block_size"), Some("8192"), "the configuration");
    assert_eq!(node.get(Group::Db, "WAL_ttl_seconds"), Some("7"), "a name with capitals");
    assert_eq!(node.get(Group::Db, "bytes_per_sync"), Some("1048576"), "the preset");
    assert_eq!(resolved.notes.len(), 1);
    assert!(resolved.notes[0].starts_with("left out: "), "{:?}", resolved.notes);
    assert!(resolved.notes[0].contains("`load.write.batch_count` has no effect"), "{:?}", resolved.notes);
    let from = |option: &str| {
        let rows = resolved.effective_node(&options::effective(&node).expect("opened"));
        rows.into_iter().find(|row| row.option == option).expect(option).from.expect("asked for").to_string()
    };
    assert_eq!(from("table.block_size"), "--set node.table.block_size=128K");
    assert_eq!(from("table.block_restart_interval"), "environment BEDLOAD_SET_NODE_TABLE_BLOCK_RESTART_INTERVAL");
}

#[test]
fn load_options_override_node_while_loading() {
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &with(&[])).expect("good");
    assert_eq!(resolved.loading().get(Group::Cf, "disable_auto_compactions"), Some("true"));
    assert_eq!(resolved.loading().get(Group::Table, "block_size"), Some("16384"));
    assert_eq!(resolved.node().get(Group::Cf, "disable_auto_compactions"), None);
}

#[test]
fn typed_values_reach_the_loader() {
    let set = ["load.ingest.sst_size=64M", "load.ingest.allow_global_seqno=true"];
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &with(&set)).expect("good");
    assert_eq!(resolved.sst_size(), 64 << 20);
    assert_eq!(resolved.sst_threads(), 8);
    let ingest = resolved.ingest();
    assert!(ingest.move_files && ingest.allow_global_seqno && !ingest.fill_cache);
    assert_eq!(ingest.file_opening_threads, 8);
}

#[test]
fn options_file_becomes_the_node_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut wanted = crate::rocks::option_map::OptionMap::default();
    wanted.set(Group::Db, "max_background_jobs", "3");
    wanted.set(Group::Cf, "compression", "kZSTD");
    wanted.set(Group::Cf, "compression_opts.level", "5");
    wanted.set(Group::Table, "block_size", "8192");
    wanted.set(Group::Table, "filter_policy", "ribbonfilter:9");
    let file = dir.path().join("OPTIONS-000123");
    let effective = options::effective(&wanted).expect("opened");
    let section = |of: Group| {
        let lines = effective.iter().filter(move |(group, ..)| *group == of);
        lines.map(|(_, name, value)| format!("  {name}={value}\n")).collect::<String>()
    };
    let text = format!(
        "[Version]\n  rocksdb_version=9.0.0\n[DBOptions]\n{}  wal_dir=/var/wal\n  gone_option=1\n\
         [CFOptions \"default\"]\n{}[TableOptions/BlockBasedTable \"default\"]\n{}",
        section(Group::Db),
        section(Group::Cf),
        section(Group::Table)
    );
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file.clone()), ..with(&[]) };
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &overrides).expect("good");
    assert_eq!(resolved.notes.len(), 2, "{:?}", resolved.notes);
    assert!(resolved.notes[0].contains("wal_dir") && resolved.notes[1].contains("gone_option"));
    let got = options::effective(&resolved.node()).expect("opened");
    assert_eq!(got, effective, "the preset's own node section is gone, the file's is whole");
    assert_eq!(resolved.sst_size(), 256 << 20, "the load section stays");

    let family = Overrides { column_family: Some("ids".into()), ..overrides };
    let error = resolve(&Preset::builtin("ingest").expect("built in"), &family).expect_err("no such family");
    assert!(error.to_string().ends_with("has no column family `ids`"), "{error}");
}

#[test]
fn custom_operator_is_dropped_with_a_note() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000001");
    let text = "[Version]\nrocksdb_version=9.0.0\n[DBOptions]\n[CFOptions \"default\"]\nmerge_operator=TheNodes\n";
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file), ..with(&[]) };
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &overrides).expect("good");
    assert_eq!(resolved.notes.len(), 1, "{:?}", resolved.notes);
    assert!(resolved.notes[0].contains("OPTIONS-000001:5: "), "{:?}", resolved.notes);
    assert!(resolved.notes[0].contains("`nullptr` of `node.cf.merge_operator` = `TheNodes`"), "{:?}", resolved.notes);
}

#[test]
fn preset_choice_follows_precedence() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    fs::write(&config, "preset = \"ingest-small\"\n").expect("written");
    let name = |overrides: &Overrides, named| overrides.preset(named).expect("there").name;
    let mut overrides = Overrides::default();
    assert_eq!(name(&overrides, None), DEFAULT);
    overrides.user_config = Some(config);
    assert_eq!(name(&overrides, None), "ingest-small");
    overrides.environment.push(("BEDLOAD_PRESET".into(), "ingest-zstd".into()));
    assert_eq!(name(&overrides, None), "ingest-zstd");
    assert_eq!(name(&overrides, Some("memtable")), "memtable");
}

#[test]
fn known_traps_are_reported() {
    let notes = |preset: &str, set: &[&str]| {
        resolve(&Preset::builtin(preset).expect("built in"), &with(set)).expect("good").notes
    };
    for (preset, set, message) in [
        ("memtable", "load.cf.level0_file_num_compaction_trigger=0", "0 means always, not never"),
        ("memtable", "load.compaction.bottommost_level_compaction=kForce", "kForceOptimized does not"),
        ("ingest", "node.cf.num_levels=2", "a node that expects seven levels"),
        ("ingest", "node.cf.disable_auto_compactions=true", "files pile up"),
        ("ingest", "node.db.max_open_files=-1", "Too many open files"),
        ("ingest", "load.ingest.allow_global_seqno=true", "other than zero"),
        ("ingest", "node.cf.compression_opts.max_dict_bytes=16K", "up to 2.0 GiB"),
        ("ingest", "node.cf.enable_blob_files=true", "inside the SST files"),
        ("ingest", "node.cf.optimize_filters_for_hits=true", "filters are built all the same"),
    ] {
        let notes = notes(preset, &[set]);
        let last = notes.last().expect(set);
        assert!(last.starts_with(&format!("--set {set}: `")) && last.contains(message), "{set}: {notes:?}");
    }
    let bounded = ["node.cf.compression_opts.max_dict_bytes=16K", "node.cf.compression_opts.max_dict_buffer_bytes=1M"];
    assert_eq!(notes("ingest", &bounded), Vec::<String>::new());
}

#[test]
fn options_file_comparator_is_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000001");
    let text = "[Version]\nrocksdb_version=9.0.0\n[DBOptions]\n[CFOptions \"default\"]\ncomparator=RocksDict.Reverse\n";
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file), ..with(&[]) };
    let error = resolve(&Preset::builtin("ingest").expect("built in"), &overrides).expect_err("refused");
    assert!(error.to_string().contains("OPTIONS-000001:5: `node.cf.comparator` cannot be"), "{error}");
}

#[test]
fn unknown_preset_suggests_the_nearest_name() {
    let error = Preset::find("ingset").expect_err("no such preset");
    assert_eq!(
        error.to_string(),
        "find preset `ingset`: it is neither built in nor a file; the nearest valid name is `ingest`"
    );
    let error = Preset::find("./nowhere.toml").expect_err("no such file");
    assert_eq!(error.to_string(), "open ./nowhere.toml");
}

#[test]
fn shorthands_match_rocksdbs_functions() {
    let set_by = |name: &str, value| {
        let mut map = crate::rocks::option_map::OptionMap::default();
        for (scope, name, value) in shorthand::expand(name, value) {
            map.set(scope.group().expect("a scope of the parser"), name, value);
        }
        options::effective(&map).expect("opened")
    };
    let effective = |shorthand| options::effective_of_shorthand(shorthand).expect("opened");
    assert_eq!(set_by("prepare_for_bulk_load", 1), effective(options::Shorthand::PrepareForBulkLoad));
    assert_eq!(set_by("optimize_for_point_lookup", 8), effective(options::Shorthand::OptimizeForPointLookup(8)));
    assert_eq!(set_by("increase_parallelism", 6), effective(options::Shorthand::IncreaseParallelism(6)));
}

#[test]
fn defaults_in_the_registry_are_rocksdbs() {
    let of = resolve(&preset("loader = \"ingest\"\n"), &with(&[])).expect("empty");
    assert_eq!(of.ingest(), options::default_ingest_settings());
    assert_eq!(of.write(), options::default_write_settings());
    assert_eq!(of.compaction(), options::default_compaction_settings());
}

#[test]
fn structures_are_set_field_by_field() {
    let set = ["node.cf.compression_opts={level=3;max_dict_bytes=16K}", "node.cf.compression_opts.level=7"];
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &with(&set)).expect("good");
    let effective = options::effective(&resolved.node()).expect("opened");
    let fields = fields_of(effective.get(Group::Cf, "compression_opts").expect("there")).expect("a structure");
    assert!(fields.contains(&("level", "7")) && fields.contains(&("max_dict_bytes", "16384")), "{fields:?}");
    assert!(refused("node.cf.compression_opts=4:5").contains("it is a structure: name its fields"));
}

/// Regenerate with `INSTA_UPDATE=always cargo test --lib preset::`, and read the difference.
#[test]
fn explain_says_what_it_said() {
    for resolved in shipped() {
        let name = &resolved.preset;
        insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("explain-{name}"), explain(resolved).to_string());
        });
    }
}

#[test]
fn explain_omits_rocksdbs_defaults() {
    let resolved = resolve(&Preset::builtin("ingest").expect("built in"), &with(&[])).expect("good");
    let explained = explain(&resolved);
    let has = |option: &str| explained.options.iter().any(|row| row.option.to_string() == option);
    assert!(has("node.table.block_size"));
    assert!(!has("node.cf.num_levels"), "seven levels are the default");
}

#[test]
fn diff_shows_values_and_missing_sides() {
    let resolved = |name| resolve(&Preset::builtin(name).expect(name), &with(&[])).expect(name);
    let (a, b) = (resolved("ingest"), resolved("ingest-compat"));
    let differences: Vec<String> =
        diff(&a, &b).into_iter().map(|one| format!("{} {} {} {:?}", one.option, one.a, one.b, one.unnamed)).collect();
    assert_eq!(differences, ["node.table.format_version 6 5 None"]);
    assert_eq!(diff(&a, &a), []);
    let preset = Preset::builtin("ingest").expect("built in");
    let aligned = resolve(&preset, &with(&["node.table.block_align=true"])).expect("good");
    let silent: Vec<_> = diff(&a, &aligned).into_iter().map(|one| (one.option.to_string(), one.unnamed)).collect();
    assert_eq!(format!("{silent:?}"), "[(\"node.table.block_align\", Some(\"a\"))]");
}

#[test]
fn final_compaction_uses_node_style_and_levels() {
    let resolved = |name| resolve(&Preset::builtin(name).expect(name), &with(&[])).expect(name);
    for name in ["forest-no-compaction", "forest-bulk-load"] {
        let resolved = resolved(name);
        assert_ne!(resolved.compacting(), resolved.loading(), "{name}");
        let effective = options::effective(&resolved.compacting()).expect(name);
        assert_eq!(effective.get(Group::Cf, "compaction_style"), Some("kCompactionStyleLevel"), "{name}");
        assert_eq!(effective.get(Group::Cf, "num_levels"), Some("7"), "{name}");
        assert_eq!(effective.get(Group::Cf, "disable_auto_compactions"), Some("true"), "{name}");
    }
    let memtable = resolved("memtable");
    assert_eq!(memtable.compacting(), memtable.loading(), "no need to open it anew");
}

#[test]
fn documented_configuration_keys_are_read() {
    let documented = include_str!("../../docs/config.md");
    let rows: Vec<Vec<&str>> = documented
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| line.trim_end_matches(" |").split(" | ").collect())
        .collect();
    let mut keys = Vec::new();
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    for row in &rows {
        let [key, _, example] = row[..] else { panic!("{row:?}") };
        let (key, example) = (key.trim_matches('`'), example.trim_matches('`'));
        fs::write(&config, format!("{example}\n")).expect("written");
        let overrides = Overrides { user_config: Some(config.clone()), ..with(&[]) };
        let read = overrides.read_user_config().expect(example).expect("there");
        match read.preset {
            Some(_) => assert_eq!(key, "preset"),
            None => assert!(read.assignments[0].key.to_string().starts_with(&format!("{key}.")), "{key}: {example}"),
        }
        // One of both loaders takes it.
        let is_taken = |preset: &str| {
            let notes = resolve(&Preset::builtin(preset).expect("built in"), &overrides).expect(example).notes;
            !notes.iter().any(|note| note.contains("left out"))
        };
        assert!(is_taken("ingest") || is_taken("memtable"), "{example}");
        keys.push(key.to_owned());
    }
    // What is read: a scope is, if one of its options is.
    let mut known = vec!["preset".to_owned()];
    for stage in key::Stage::ALL {
        for scope in key::Scope::ALL {
            let has_any = scope.group().is_some()
                || registry::ROWS.iter().any(|row| row.scope == scope && (stage == key::Stage::Load || row.in_node));
            known.extend(has_any.then(|| format!("{stage}.{scope}")));
        }
    }
    assert_eq!(keys, known);
    for entry in ["name", "summary", "base", "loader", "memory"] {
        fs::write(&config, format!("{entry} = \"ingest\"\n")).expect("written");
        let error = Overrides { user_config: Some(config.clone()), ..with(&[]) }.read_user_config().expect_err(entry);
        assert_eq!(error.exit(), crate::Exit::Usage, "{entry}: {error}");
    }
}

/// The error of a built-in preset with these overrides.
fn error_of(name: &str, set: &[&str]) -> Error {
    let preset = Preset::builtin(name).expect("built in");
    resolve(&preset, &with(set)).map(|resolved| resolved.preset).expect_err(&set.join(" "))
}

#[test]
fn options_that_crash_rocksdb_are_refused() {
    const LEVELS: &str = "partitioned filters need a partitioned index";
    const BEHIND: &str = "it reserves the last level";
    for (set, words) in [
        (&["node.table.partition_filters=true"][..], LEVELS),
        (&["load.table.partition_filters=true"], LEVELS),
        (&["node.table.partition_filters=true", "node.table.index_type=kBinarySearchWithFirstKey"], LEVELS),
        (&["node.cf.preclude_last_level_data_seconds=18446744073709551615"], "it must be 0 to 4294967295"),
        (&["node.cf.preserve_internal_time_seconds=18446744073709551615"], "it must be 0 to 4294967295"),
        (
            &[
                "node.table.index_type=kHashSearch",
                "node.cf.prefix_extractor=fixed:4",
                "node.table.index_block_restart_interval=2",
            ],
            "with index_type kHashSearch it must be 1",
        ),
        (&["node.table.block_restart_interval=0"], "it must be 1 to 2147483647"),
        (&["node.table.index_block_restart_interval=-1"], "it must be 1 to 2147483647"),
        (&["node.table.block_size=0", "node.table.block_align=true"], "it must be 1 to 4294967295"),
        (&["node.table.block_size_deviation=101"], "it must be 0 to 100"),
        (&["node.db.allow_ingest_behind=true"], BEHIND),
        (&["node.cf.cf_allow_ingest_behind=true"], BEHIND),
        (&["node.db.error_if_exists=true"], "opens the database more than once"),
        (&["node.db.use_session_tmp_dir_for_remote_compaction=true"], "leaves a directory in the database"),
        (&["node.cf.comparator=rocksdb.ReverseBytewiseComparator"], "records are sorted byte by byte"),
        (&["node.db.allow_mmap_writes=true", "node.db.allow_fallocate=false"], "needs its space"),
        (&["node.db.log_readahead_size=2147483648"], "it must be 0 to 1073741824"),
        (&["node.cf.arena_block_size=2147483647"], "it must be 0 to 268435456"),
    ] {
        for name in ["ingest", "memtable"] {
            let error = error_of(name, set);
            let text = error.to_string();
            assert!(
                text.starts_with("--set ") && text.contains(" cannot be ") && text.contains(words),
                "{name}: {text}"
            );
            assert!(error.hint().starts_with("change it or leave it out"), "{name}: {}", error.hint());
        }
    }
}

#[test]
fn numbers_of_threads_are_limited() {
    for (name, option) in [
        ("ingest", "node.db.max_background_jobs"),
        ("memtable", "load.db.max_background_jobs"),
        ("memtable", "load.db.max_background_flushes"),
        ("memtable", "load.db.max_background_compactions"),
        ("ingest", "node.db.max_subcompactions"),
        ("ingest", "node.db.max_file_opening_threads"),
        ("ingest", "node.db.read_io_executor_threads"),
        ("ingest", "node.cf.compression_opts.parallel_threads"),
        ("ingest", "node.db.increase_parallelism"),
        ("ingest", "load.ingest.threads"),
        ("ingest", "load.ingest.file_opening_threads"),
        ("memtable", "load.write.writer_threads"),
        ("memtable", "load.compaction.max_subcompactions"),
    ] {
        let text = error_of(name, &[&format!("{option}=2147483647")]).to_string();
        assert!(text.contains("cannot be `2147483647`: it must be ") && text.ends_with(" to 1024"), "{text}");
    }
}

/// The bug: a name of 5 MB was compared with every known name for minutes.
#[test]
fn long_name_resembles_no_other() {
    assert_eq!(super::nearest_of("ingesst", ["ingest"]), Some("ingest"));
    let (long, longer) = ("x".repeat(300), "x".repeat(301));
    assert_eq!(super::nearest_of(&longer, [&*long]), None);
}

#[test]
fn rehearsal_accepts_every_built_in_preset() {
    for name in Preset::builtin_names() {
        let resolved = resolve(&Preset::builtin(name).expect("built in"), &with(&[])).expect("it is valid");
        super::resolve::rehearse(&resolved).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

#[test]
fn a_rehearsal_names_the_refused_option() {
    for (name, set, message) in [
        ("ingest", "node.db.recycle_log_file_num=3", "disableWAL option is not supported"),
        ("memtable", "load.db.recycle_log_file_num=3", "disableWAL option is not supported"),
        ("ingest", "node.table.user_defined_index_factory=trie_index", "Trie index"),
        ("ingest", "node.table.index_type=kHashSearch", "prefix_extractor is not given"),
        ("memtable", "load.cf.paranoid_memory_checks=true", "Not implemented"),
        ("memtable", "load.cf.table_factory=PlainTable", "PlainTable requires a prefix extractor"),
        ("memtable", "load.cf.table_factory=CuckooTable", "File is not mmaped"),
    ] {
        let text = error_of(name, &[set]).to_string();
        let (key, value) = set.split_once('=').expect("an assignment");
        let begins = format!("--set {set}: RocksDB refuses `{key}` = `{value}`: ");
        assert!(text.starts_with(&begins) && text.contains(message), "{text}");
    }
}

#[test]
fn crash_rule_names_the_line() {
    let text = "loader = \"ingest\"\n[load.table]\npartition_filters = true\n";
    assert!(
        problem(text).starts_with("mine.toml:3: `load.table.partition_filters` cannot be `true`"),
        "{}",
        problem(text)
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000007");
    let text = "[Version]\n  rocksdb_version=11.0.0\n[DBOptions]\n[CFOptions \"default\"]\n\
                [TableOptions/BlockBasedTable \"default\"]\n  partition_filters=true\n";
    fs::write(&file, text).expect("written");
    let overrides = Overrides { options_file: Some(file.clone()), ..with(&[]) };
    let error = resolve(&Preset::builtin("ingest").expect("built in"), &overrides).expect_err("it would crash");
    let begins = format!("{}:6: `node.table.partition_filters` cannot be `true`", file.display());
    assert!(error.to_string().starts_with(&begins), "{error}");
}

/// Time that a quadratic way exceeds many times over, also without optimisation on a busy machine.
const LINEAR: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn preset_of_many_options_is_linear() {
    let lines: String = (0..60_000).map(|number| format!("option_{number} = 1\n")).collect();
    let text = format!("loader = \"ingest\"\n[node.cf]\n{lines}");
    let started = std::time::Instant::now();
    assert_eq!(preset(&text).all_assignments().len(), 60_000);
    assert!(problem(&text).starts_with("mine.toml:3: unknown option `node.cf.option_0`"), "{}", problem(&text));
    assert!(started.elapsed() < LINEAR, "{:?}", started.elapsed());
}

#[test]
fn notes_about_an_options_file_are_limited() {
    let lines: String = (0..60_000).map(|number| format!("  option_{number}=1\n")).collect();
    let repeated = "  num_levels=6\n".repeat(60_000);
    let started = std::time::Instant::now();
    let notes = of_node(&format!("{lines}{repeated}"), "", &[]).notes;
    assert!(started.elapsed() < LINEAR, "{:?}", started.elapsed());
    let left_out = notes.iter().filter(|note| note.starts_with("left out: ")).count();
    assert_eq!(left_out, 20, "{notes:?}");
    assert!(notes.contains(&"59980 more options are left out".to_owned()), "{notes:?}");
}

#[test]
fn configuration_keeps_final_compaction() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config.toml");
    fs::write(&config, "[load.compaction]\nfinal = false\n").expect("written");
    let overrides = Overrides { user_config: Some(config), ..with(&[]) };
    let of = |name| resolve(&Preset::builtin(name).expect("built in"), &overrides).expect("good");
    let (ingest, memtable) = (of("ingest"), of("memtable"));
    assert!(ingest.final_compaction() && !memtable.final_compaction());
    let [note] = ingest.notes.as_slice() else { panic!("{:?}", ingest.notes) };
    assert!(note.contains("`load.compaction.final` has no effect with the ingest loader"), "{note}");
}
