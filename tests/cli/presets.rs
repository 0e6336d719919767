//! `bedload presets`: what it prints and how it ends.

use std::fs;
use std::path::Path;

use crate::cli::{command, ends, output, run};
use crate::common::run::Place;
use serde_json::Value;

fn stdout(line: &str) -> String {
    ends(&Place::in_memory(), line, 0, "").stdout
}

fn json(line: &str) -> Value {
    run(&Place::in_memory(), &format!("{line} --json")).json()
}

/// The row of an option in a document.
fn row<'a>(document: &'a Value, option: &str) -> &'a Value {
    let options = document["options"].as_array().expect("a list");
    options.iter().find(|row| row["option"] == option).unwrap_or_else(|| panic!("no {option} in {document}"))
}

#[test]
fn list_names_five_presets_without_all() {
    let presets = |document: &Value| document["presets"].as_array().expect("a list").clone();
    let names = |document: &Value| -> Vec<String> {
        presets(document).iter().map(|preset| preset["name"].as_str().expect("a name").to_owned()).collect()
    };
    let document = json("presets");
    assert_eq!(document["schema"], "bedload-presets-2");
    let first = &document["presets"][0];
    assert_eq!((&first["name"], &first["default"]), (&"ingest".into(), &true.into()));
    let (main, all) = (names(&document), names(&json("presets --all")));
    assert_eq!((main.len(), all.len()), (5, 23));
    assert!(all.starts_with(&main) && all[5..].iter().all(|name| name.starts_with("forest-")), "{all:?}");
    let of =
        |name: &str| presets(&document).iter().find(|it| it["name"] == name).expect(name)["oldest_rocksdb"].clone();
    assert_eq!([of("ingest"), of("ingest-compat"), of("ingest-zstd")], ["8.6", "7.8", "8.6"].map(Value::from));

    let (listed, every) = (stdout("presets"), stdout("presets --all"));
    assert_eq!([&listed, &every], [&stdout("presets list"), &stdout("presets list --all")]);
    assert!(listed.ends_with("18 more, for comparison only: bedload presets --all\n"), "{listed}");
    assert!(!listed.contains("forest-"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("ingest-compat ") && line.contains(" 7.8+ ")), "{listed}");
    for name in all {
        assert!(every.lines().any(|line| line.split_whitespace().next() == Some(&name)), "{name}\n{every}");
    }
}

/// A node's OPTIONS file in a new folder.
fn options_file() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("OPTIONS-000007");
    let text = "# RocksDB\n[Version]\n  rocksdb_version=9.0.0\n[DBOptions]\n  max_open_files=512\n\
                [CFOptions \"default\"]\n  compression=kZSTD\n\
                [TableOptions/BlockBasedTable \"default\"]\n  block_size=32768\n";
    fs::write(&file, text).expect("written");
    let path = file.to_string_lossy().into_owned();
    (dir, path)
}

#[test]
fn explain_reads_an_options_file() {
    let (dir, file) = options_file();
    let document = json(&format!("presets explain {file}"));
    let dir = dir.path().display();
    assert_eq!(json(&format!("presets explain {dir}")), document, "of a database directory, the latest file");
    let set = json(&format!("presets explain ingest --options-file {dir}"));
    assert_eq!(row(&set, "node.table.block_size")["from"], format!("{file}:9"));
    let options = document["options"].as_array().expect("a list");
    let named: Vec<&str> = options.iter().map(|row| row["option"].as_str().expect("a name")).collect();
    assert_eq!(named, ["node.db.max_open_files", "node.cf.compression", "node.table.block_size"]);
    assert_eq!((&document["preset"], &options[2]["value"]), (&"OPTIONS-000007".into(), &"32768".into()));
    assert_eq!(options[2]["from"], format!("{file}:9"));
    let words = "is an OPTIONS file, and --options-file names another\nhint: give one of them";
    ends(&Place::in_memory(), &format!("presets explain {file} --options-file {file}"), 2, words);
}

#[test]
fn diff_compares_preset_with_options_file() {
    let (_dir, file) = options_file();
    for (a, b) in [("ingest", file.as_str()), (file.as_str(), "ingest")] {
        let document = json(&format!("presets diff {a} {b}"));
        let row = row(&document, "node.table.block_size");
        let values = [&row["a"], &row["b"]].map(|value| value.as_str().expect("a value"));
        assert_eq!(values, if a == "ingest" { ["16384", "32768"] } else { ["32768", "16384"] });
        // An OPTIONS file says nothing about loading.
        let mut options = document["options"].as_array().expect("a list").iter();
        assert!(options.all(|row| row["option"].as_str().is_some_and(|it| it.starts_with("node."))), "{document}");
    }
    assert_eq!(stdout(&format!("presets diff {file} {file}")), "no difference\n");
}

#[test]
fn diff_lists_different_options() {
    // A value in brackets is RocksDB's default, on the side that says nothing.
    for (other, theirs) in [("ingest-compat", "5"), ("rocksdb-defaults", "(7)")] {
        let said = stdout(&format!("presets diff ingest {other}"));
        let row = ["node.table.format_version", "6", theirs];
        assert!(said.lines().any(|line| line.split_whitespace().eq(row)), "{said}");
    }
    assert_eq!(stdout("presets diff ingest ingest"), "no difference\n");
    let document = json("presets diff ingest memtable");
    assert_eq!(document["a"]["loader"], "ingest");
    assert_eq!(document["b"]["loader"], "memtable");
}

#[test]
fn show_and_explain_print_the_preset() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/memtable.toml");
    assert_eq!(stdout("presets show memtable"), fs::read_to_string(file).expect("the file"));
    let document = json("presets explain ingest --set node.table.block_size=64K");
    assert_eq!(document["schema"], "bedload-preset-explanation-2");
    let row = row(&document, "node.table.block_size");
    assert_eq!((&row["value"], &row["default"]), (&"65536".into(), &"4096".into()));
    assert_eq!((&row["written"], &row["from"]), (&"64K".into(), &"option node.table.block_size=64K".into()));
    let said = stdout("presets explain ingest --set node.cf.compression=zstd");
    assert!(said.contains("compression = kZSTD (written zstd)"), "{said}");
}

#[test]
fn invalid_presets_and_options_get_hints() {
    let place = Place::in_memory();
    place.file("mine.toml", b"loader = \"memtable\"\n\n[load.cf]\nwrite_bufer_size = [\"64M\", \"mine\"]\n");
    let (_dir, file) = options_file();
    let not_a_preset = format!(
        "error: {file} has options of RocksDB, and is not a preset\nhint: give it with --options-file {file}\n"
    );
    for (line, said) in [
        (
            "presets explain mine.toml",
            "error: mine.toml:4: unknown option `load.cf.write_bufer_size`; the nearest valid name is \
             `load.cf.write_buffer_size`\nhint: write `load.cf.write_buffer_size`\n",
        ),
        (
            "presets explain ingest --set block_size=16K",
            "error: option block_size=16K: unknown option `block_size`; the nearest valid name is `node.table.block_size`\n\
             hint: write `node.table.block_size`\n",
        ),
        (
            "presets show memtabel",
            "error: cannot find preset `memtabel`: no built-in preset has this name; the nearest valid name is `memtable`\n\
             hint: `bedload presets --all` lists all presets; pass a file as NAME.toml or ./NAME\n",
        ),
        (&format!("import a.car --db d --preset {file}"), &not_a_preset),
        (&format!("presets show {file}"), &not_a_preset),
    ] {
        let ended = ends(&place, line, 2, "");
        assert_eq!((&*ended.stdout, &*ended.stderr), ("", said), "{line}");
    }
    let gzip = "presets explain ingest --set node.cf.compression=gzip";
    let said =
        ends(&place, gzip, 2, "`node.cf.compression` cannot be `gzip`: it is one of none (kNoCompression)").stderr;
    assert!(said.contains("zstd (kZSTD)\nhint: a value is true or false"), "{said}");

    fs::create_dir_all(place.path("bedload/config.toml")).expect("made");
    let ended = output(command(&place, "presets explain").env("XDG_CONFIG_HOME", place.path("")));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("bedload/config.toml is not a preset: it is not a regular file"), "{ended:?}");
}
