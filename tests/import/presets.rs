//! Every built-in preset loads the same records, and the OPTIONS of the database match the preset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::database::{generate, generate_as};
use crate::common::presets::{for_each_preset, is_compacted};
use crate::common::run::{Done, Place, import};
use bedload::testing::preset::{Overrides, Preset, Stage, resolve};
use serde_json::Value;

/// The only OPTIONS file of a database, as `section.option` and value, read without the library's reader.
fn options(db: &Path) -> BTreeMap<String, String> {
    let is_options = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().starts_with("OPTIONS-");
    let paths = std::fs::read_dir(db).expect("a database").map(|entry| entry.expect("an entry").path());
    let found: Vec<PathBuf> = paths.filter(is_options).collect();
    let [path] = &found[..] else { panic!("not one OPTIONS file: {found:?}") };
    let mut section = "";
    let mut options = BTreeMap::new();
    let text = std::fs::read_to_string(path).expect("text");
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = match name {
                _ if name.starts_with("DBOptions") => "db",
                _ if name.starts_with("CFOptions \"default\"") => "cf",
                _ if name.starts_with("TableOptions/BlockBasedTable \"default\"") => "table",
                _ => "",
            };
        } else if let Some((name, value)) = line.split_once('=') {
            options.insert(format!("{section}.{name}"), value.to_owned());
        }
    }
    options
}

/// True if RocksDB kept the requested value. Numbers are compared by value, objects by the start of their description.
fn agrees(asked: &str, kept: &str) -> bool {
    match (asked.parse::<f64>(), kept.parse::<f64>()) {
        (Ok(asked), Ok(kept)) => (asked - kept).abs() < 1e-6,
        _ => asked == kept || kept.starts_with(&format!("{asked}:")) || kept.starts_with(&format!("{{id={asked}")),
    }
}

/// OPTIONS hold every value that the preset's `node` section names, and nothing of its `load` section's effects.
#[track_caller]
fn options_match_preset(name: &str, db: &Path) {
    let kept = options(db);
    let resolved = resolve(&Preset::builtin(name).expect(name), &Overrides::default()).expect(name);
    let mut looked_at = 0;
    for setting in resolved.settings().filter(|setting| setting.key.stage == Stage::Node) {
        let (scope, option) = (setting.key.scope, &setting.key.name);
        if option == "block_cache" {
            // RocksDB does not write it down: a cache belongs to the program.
            continue;
        }
        let (option, field) = option.split_once('.').map_or((&option[..], None), |(o, f)| (o, Some(f)));
        let value = kept.get(&format!("{scope}.{option}")).unwrap_or_else(|| panic!("{name}: no {scope}.{option}"));
        let found = match field {
            Some(field) => value
                .trim_matches(['{', '}'])
                .split(';')
                .find_map(|assigned| assigned.strip_prefix(field)?.strip_prefix('='))
                .unwrap_or_else(|| panic!("{name}: no {field} in {value}")),
            None => value,
        };
        assert!(agrees(&setting.value, found), "{name}: {scope}.{option} is {found}, asked for {}", setting.value);
        looked_at += 1;
    }
    assert!(looked_at > 0, "{name} names nothing");
    for (option, value) in
        [("disable_auto_compactions", "false"), ("num_levels", "7"), ("level0_file_num_compaction_trigger", "4")]
    {
        assert_eq!(kept[&format!("cf.{option}")], value, "{name}: {option} is left over from loading");
    }
}

#[test]
fn presets_load_equal_snapshots() {
    let place = Place::new();
    let source = generate(&place.path(""), "8MiB");
    let first = import(&place, &source).succeeds();
    for_each_preset(|name| {
        let place = Place::new();
        let done = import(&place, &source).args(&["--preset", name]).run();
        is_compacted(name, &done);
        are_equal(name, &done.json, &first.json, &["blocks", "payload_bytes", "digest"]);
        options_match_preset(name, &done.db);
    });
}

/// These fields of both reports are equal.
#[track_caller]
fn are_equal(name: &str, found: &Value, first: &Value, fields: &[&str]) {
    fields.iter().for_each(|&field| assert_eq!(found[field], first[field], "{field} of {name}"));
}

/// The content of each column family of a log's database.
fn families(done: &Done) -> Vec<[Value; 4]> {
    let families = done.json["log"]["families"].as_array().expect("families").iter();
    families.map(|family| ["name", "records", "duplicates", "digest"].map(|field| family[field].clone())).collect()
}

#[test]
fn presets_load_equal_block_logs() {
    let place = Place::new();
    let source = generate_as(place.path("steem"), &["--profile", "steem", "--size", "12MiB"]);
    let index = ["--indexes", "ids,transactions"];
    let first = import(&place, &source).args(&index).succeeds();
    assert_eq!(families(&first).len(), 3);
    for_each_preset(|name| {
        let place = Place::new();
        let mut run = import(&place, &source).args(&["--preset", name]).args(&index);
        let memtable = Preset::builtin(name).expect(name).loader == bedload::testing::preset::Loader::Memtable;
        if memtable {
            run = run.args(&["--set", "load.cf.write_buffer_size=1M", "--set", "load.write.batch_bytes=64K"]);
        }
        let done = run.run();
        is_compacted(name, &done);
        are_equal(name, &done.json, &first.json, &["blocks", "payload_bytes", "digest"]);
        assert_eq!(families(&done), families(&first), "{name}");
        are_equal(name, &done.json["log"], &first.json["log"], &["first", "last", "verified", "transactions"]);
        for family in done.json["log"]["families"].as_array().expect("families") {
            let levels = family["levels"].as_array().expect("levels");
            assert!(matches!(&levels[..], [only] if only["level"] == 6), "{name}: {family}");
        }
        options_match_preset(name, &done.db);
        if memtable {
            assert!(done.number("/memtable/flushes") > 3, "{name}: {}", done.json["memtable"]);
            assert!(done.number("/memtable/compaction_bytes_read") > 0, "{name}: {}", done.json["memtable"]);
        }
    });
}

#[test]
fn rocksdb_accepts_crc32c_checksums() {
    let place = Place::new();
    let source = generate(&place.path(""), "8MiB");
    let done = import(&place, &source).args(&["--set", "node.table.checksum=kCRC32c"]).succeeds();
    assert_eq!(options(&done.db)["table.checksum"], "kCRC32c");
    let report = bedload::verify(&bedload::VerifyOptions::new(&done.db), &bedload::progress::Silent).expect("readable");
    assert!(report.problems.kinds.is_empty(), "{:?}", report.problems);
}
