//! Bases, the user's configuration and `--set`.

use super::*;

/// A folder with these presets, and the path of the first.
fn family_of(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
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
    let (middle, lowest) = (from("node.table.format_version"), from("node.cf.num_levels"));
    assert!(middle.ends_with("bases/middle.toml:4") && lowest.starts_with("ingest.toml:"), "{middle} {lowest}");
    let sizes: Vec<String> =
        preset.all_assignments().into_iter().filter(|one| one.key.name == "block_size").map(|one| one.value).collect();
    assert_eq!(sizes, ["64K"], "each option once");
    assert_eq!(preset.oldest_rocksdb(), resolved.oldest_rocksdb());
    for text in ["\"8K\"", "\"64K\"", "sort once"] {
        assert!(preset.all_text().contains(text), "a change of a base is a change");
    }
    // A shorthand of the upper one overrides the same option of the lower one.
    let (_dir, first) = family_of(&[
        ("a.toml", "base = \"./b.toml\"\n[node.cf]\noptimize_for_point_lookup = 8\n"),
        ("b.toml", "loader = \"ingest\"\n[node.table]\nfilter_policy = \"none\"\n"),
    ]);
    let resolved = resolve(&Preset::from_file(&first).expect("a preset"), &with(&[])).expect("good");
    assert_eq!(resolved.node().get(Group::Table, "filter_policy"), Some("bloomfilter:10:false"));
}

#[test]
fn invalid_base_is_rejected_with_place() {
    let names: Vec<String> = (0..10).map(|number| format!("{number}.toml")).collect();
    let texts: Vec<String> = (1..11).map(|number| format!("base = \"{number}.toml\"\n")).collect();
    let deep: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    for (files, message) in [
        (
            &[("a.toml", "base = \"./b.toml\"\n"), ("b.toml", "\nbase = \"./a.toml\"\n")][..],
            "./b.toml:2: `./a.toml` is based on this preset itself",
        ),
        (&[("a.toml", "base = \"a.toml\"\n")], "a.toml:1: `a.toml` is based on this preset itself"),
        (&[("a.toml", "base = \"ingset\"\n")], "a.toml:1: unknown preset `ingset`; the nearest valid name is `ingest`"),
        (
            &[("a.toml", "loader = \"memtable\"\nbase = \"ingest\"\n")],
            "a.toml:2: `ingest` has the loader `ingest`: leave `loader` out, or take another `base`",
        ),
        (&deep, "7.toml:1: a chain of bases has at most 8 presets"),
    ] {
        let (dir, first) = family_of(files);
        let error = Preset::from_file(&first).expect_err(message);
        assert_eq!(error.exit(), crate::Exit::Usage, "{error}");
        assert_eq!(error.to_string().replace(&format!("{}/", dir.path().display()), ""), message);
    }
    for (word, hint) in [
        ("rest-0", "`bedload presets --all` lists all presets; pass a file as NAME.toml or ./NAME"),
        ("in", "similar ones are ingest, ingest-zstd, "),
    ] {
        let (_dir, first) = family_of(&[("a.toml", &format!("base = \"{word}\"\n"))]);
        let error = Preset::from_file(&first).expect_err("no such preset");
        assert!(error.hint().starts_with(hint), "{word}: {}", error.hint());
    }
    let (_dir, first) = family_of(&[("a.toml", "base = \"nowhere.toml\"\n")]);
    let error = Preset::from_file(&first).expect_err("no such file").to_string();
    assert!(error.starts_with("cannot open ") && error.ends_with("nowhere.toml"), "{error}");
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let (_dir, config) = with_config(
        "preset = \"ingest\"\n[node.table]\nblock_size = \"8K\"\nblock_restart_interval = 8\n\
         metadata_block_size = 8192\n[load.write]\nbatch_count = 5\n",
    );
    let overrides = Overrides {
        user_config: config.user_config,
        ..with(&["node.table.block_size=64K", "node.table.block_size=128K"])
    };
    let resolved = resolve(&overrides.preset(None).expect("the user's"), &overrides).expect("good");
    let node = resolved.node();
    for (group, name, value, layer) in [
        (Group::Table, "block_size", "131072", "the last --set"),
        (Group::Table, "block_restart_interval", "8", "the configuration"),
        (Group::Table, "metadata_block_size", "8192", "the configuration"),
        (Group::Db, "bytes_per_sync", "1048576", "the preset"),
    ] {
        assert_eq!(node.get(group, name), Some(value), "{layer}");
    }
    let [note] = resolved.notes.as_slice() else { panic!("{:?}", resolved.notes) };
    assert!(note.starts_with("left out: ") && note.contains("`load.write.batch_count` has no effect"), "{note}");
    let rows = resolved.effective_node(&options::effective(&node, &options::places()).expect("opened"));
    let row = rows.iter().find(|row| row.option == "table.block_size").expect("a row");
    assert_eq!(row.from.as_ref().expect("an origin").to_string(), "option node.table.block_size=128K");
}

#[test]
fn preset_choice_follows_precedence() {
    let (_dir, config) = with_config("preset = \"ingest-compat\"\n");
    let name = |overrides: &Overrides, named| overrides.preset(named).expect("there").name;
    assert_eq!(name(&Overrides::default(), None), DEFAULT);
    assert_eq!(name(&config, None), "ingest-compat");
    assert_eq!(name(&config, Some("memtable")), "memtable");
}

#[test]
fn configuration_keeps_final_compaction() {
    let (_dir, overrides) = with_config("[load.compaction]\nfinal = false\n");
    let of = |name| resolve(&builtin(name), &overrides).expect("good");
    let (ingest, memtable) = (of("ingest"), of("memtable"));
    assert!(ingest.final_compaction() && !memtable.final_compaction());
    let [note] = ingest.notes.as_slice() else { panic!("{:?}", ingest.notes) };
    assert!(note.contains("`load.compaction.final` has no effect with the ingest loader"), "{note}");
}

#[test]
fn documented_configuration_keys_are_read() {
    let documented = include_str!("../../../docs/config.md");
    let mut keys = Vec::new();
    for line in documented.lines().filter_map(|line| line.strip_prefix("| `")) {
        let row: Vec<&str> = line.trim_end_matches(" |").split(" | ").map(|cell| cell.trim_matches('`')).collect();
        let [key, _, example] = row[..] else { panic!("{row:?}") };
        let (_dir, overrides) = with_config(&format!("{example}\n"));
        let read = overrides.read_user_config().expect(example).expect("there");
        match read.preset {
            Some(_) => assert_eq!(key, "preset"),
            None => assert!(read.assignments[0].key.to_string().starts_with(&format!("{key}.")), "{key}: {example}"),
        }
        let is_taken = |preset: &str| {
            let notes = resolve(&builtin(preset), &overrides).expect(example).notes;
            !notes.iter().any(|note| note.contains("left out"))
        };
        assert!(is_taken("ingest") || is_taken("memtable"), "{example}");
        keys.push(key.to_owned());
    }
    // A scope is read if one of its options is.
    let mut known = vec!["preset".to_owned()];
    for stage in Stage::ALL {
        for scope in key::Scope::ALL {
            let is_row = |row: &registry::RegistryRow| row.scope == *scope && (*stage == Stage::Load || row.in_node);
            let has_any = scope.group().is_some() || registry::ROWS.iter().any(is_row);
            known.extend(has_any.then(|| format!("{stage}.{scope}")));
        }
    }
    assert_eq!(keys, known);
    for entry in ["name", "summary", "base", "loader", "memory"] {
        let (_dir, overrides) = with_config(&format!("{entry} = \"ingest\"\n"));
        let error = overrides.read_user_config().expect_err(entry);
        assert_eq!(error.exit(), crate::Exit::Usage, "{entry}: {error}");
    }
}
