//! `bedload presets`: what it prints and how it ends.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn bedload(arguments: &[&str]) -> Command {
    let mut command = crate::common::run::program();
    let home = env!("CARGO_TARGET_TMPDIR");
    command.args(arguments).env("HOME", home).env("XDG_CONFIG_HOME", home);
    command
}

fn stdout(arguments: &[&str]) -> String {
    let output = bedload(arguments).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).expect("one JSON document")
}

#[test]
fn list_names_every_file_in_configs() {
    let listed = stdout(&["presets", "--all"]);
    assert_eq!(listed, stdout(&["presets", "list", "--all"]));
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    for entry in fs::read_dir(configs).expect("the directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        assert!(listed.lines().any(|line| line.split_whitespace().next() == Some(&name)), "{name}\n{listed}");
    }
    let document = json(&["presets", "--json"]);
    assert_eq!(document["schema"], "bedload-presets-2");
    assert_eq!(document["presets"][0]["name"], "ingest");
    assert_eq!(document["presets"][0]["default"], true);
}

#[test]
fn list_names_ten_presets_without_all() {
    let names = |arguments: &[&str]| -> Vec<String> {
        let document = json(arguments);
        let presets = document["presets"].as_array().expect("a list");
        presets.iter().map(|preset| preset["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (main, all) = (names(&["presets", "--json"]), names(&["presets", "--all", "--json"]));
    assert_eq!((main.len(), all.len()), (10, 25));
    assert!(all.starts_with(&main) && all[10..].iter().all(|name| name.starts_with("forest-")), "{all:?}");
    let listed = stdout(&["presets"]);
    assert_eq!(listed, stdout(&["presets", "list"]));
    assert!(listed.ends_with("15 more, for comparison only: bedload presets --all\n"), "{listed}");
    assert!(!listed.contains("forest-"), "{listed}");
}

/// A node's OPTIONS file in a folder of its own.
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
    let (_dir, file) = options_file();
    let document = json(&["presets", "explain", &file, "--json"]);
    let options = document["options"].as_array().expect("a list");
    let named: Vec<&str> = options.iter().map(|row| row["option"].as_str().expect("a name")).collect();
    assert_eq!(named, ["node.db.max_open_files", "node.cf.compression", "node.table.block_size"]);
    assert_eq!((&document["preset"], &options[2]["value"]), (&"OPTIONS-000007".into(), &"32768".into()));
    assert_eq!(options[2]["from"], format!("{file}:9"));
    let output = bedload(&["presets", "explain", &file, "--options-file", &file]).assert().code(2).get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is an OPTIONS file, and --options-file names another\nhint: give one of them"), "{said}");
}

#[test]
fn options_file_as_preset_names_the_option() {
    let (_dir, file) = options_file();
    for args in [&["import", "a.car", "--db", "d", "--preset", &file][..], &["presets", "show", &file]] {
        let output = bedload(args).assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!(
            "error: {file} is an OPTIONS file of RocksDB, not a preset\nhint: give it with --options-file {file}\n"
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn diff_compares_preset_with_options_file() {
    let (_dir, file) = options_file();
    for (a, b) in [("ingest", file.as_str()), (file.as_str(), "ingest")] {
        let document = json(&["presets", "diff", a, b, "--json"]);
        let options = document["options"].as_array().expect("a list");
        let row = options.iter().find(|row| row["option"] == "node.table.block_size").expect("it differs");
        let values = [&row["a"], &row["b"]].map(|value| value.as_str().expect("a value"));
        assert_eq!(values, if a == "ingest" { ["16384", "32768"] } else { ["32768", "16384"] });
        // An OPTIONS file says nothing about loading.
        assert!(
            options.iter().all(|row| row["option"].as_str().is_some_and(|it| it.starts_with("node."))),
            "{options:?}"
        );
    }
    assert_eq!(stdout(&["presets", "diff", &file, &file]), "no difference\n");
}

#[test]
fn show_prints_the_preset_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/memtable.toml");
    assert_eq!(stdout(&["presets", "show", "memtable"]), fs::read_to_string(file).expect("the file"));
}

#[test]
fn explain_shows_the_origin_of_an_override() {
    let document = json(&["presets", "explain", "ingest", "--set", "node.table.block_size=64K", "--json"]);
    assert_eq!(document["schema"], "bedload-preset-explanation-2");
    let options = document["options"].as_array().expect("a list");
    let row = options.iter().find(|row| row["option"] == "node.table.block_size").expect("the option");
    assert_eq!((&row["value"], &row["default"]), (&"65536".into(), &"4096".into()));
    assert_eq!((&row["written"], &row["from"]), (&"64K".into(), &"--set node.table.block_size=64K".into()));
}

#[test]
fn diff_lists_different_options() {
    // A value in brackets is RocksDB's default, on the side that says nothing.
    for (other, theirs) in [("ingest-compat", "5"), ("rocksdb-defaults", "(7)")] {
        let said = stdout(&["presets", "diff", "ingest", other]);
        let row = ["node.table.format_version", "6", theirs];
        assert!(said.lines().any(|line| line.split_whitespace().eq(row)), "{said}");
    }
    assert_eq!(stdout(&["presets", "diff", "ingest", "ingest"]), "no difference\n");
    let document = json(&["presets", "diff", "ingest", "memtable", "--json"]);
    assert_eq!(document["a"]["loader"], "ingest");
    assert_eq!(document["b"]["loader"], "memtable");
}

#[test]
fn misspelt_option_names_line_and_suggestion() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine.toml");
    fs::write(&file, "loader = \"memtable\"\n\n[load.cf]\nwrite_bufer_size = [\"64M\", \"mine\"]\n").expect("written");
    let path = file.to_string_lossy();
    let output = bedload(&["presets", "explain", &path]).assert().code(2).get_output().clone();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "error: {path}:4: unknown option `load.cf.write_bufer_size`; \
             the nearest valid name is `load.cf.write_buffer_size`\nhint: write `load.cf.write_buffer_size`\n"
        )
    );
}

#[test]
fn invalid_override_gets_a_hint() {
    for (set, error, hint) in [
        (
            "block_size=16K",
            "error: --set block_size=16K: unknown option `block_size`; the nearest valid name is `node.table.block_size`\n",
            "hint: write `node.table.block_size`\n",
        ),
        (
            "node.cf.compression=gzip",
            "error: --set node.cf.compression=gzip: `node.cf.compression` cannot be `gzip`: it is one of none (kNoCompression), \
             snappy (kSnappyCompression), zlib (kZlibCompression), bzip2 (kBZip2Compression), lz4 (kLZ4Compression), \
             lz4hc (kLZ4HCCompression), zstd (kZSTD)\n",
            "hint: a value is true or false",
        ),
    ] {
        let output = bedload(&["presets", "explain", "ingest", "--set", set]).assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with(&format!("{error}{hint}")), "{said}");
    }
    assert!(
        stdout(&["presets", "explain", "ingest", "--set", "node.cf.compression=zstd"])
            .contains("compression = kZSTD (written zstd)")
    );
}

#[test]
fn list_shows_the_oldest_rocksdb_version() {
    let document = json(&["presets", "--json"]);
    let presets = document["presets"].as_array().expect("a list");
    let of = |name: &str| presets.iter().find(|it| it["name"] == name).expect(name)["oldest_rocksdb"].clone();
    assert_eq!([of("ingest"), of("ingest-compat"), of("ingest-zstd")], ["8.6", "7.8", "8.6"].map(Value::from));
    let row = stdout(&["presets"]);
    assert!(row.lines().any(|line| line.starts_with("ingest-compat ") && line.contains(" 7.8+ ")), "{row}");
}

#[test]
fn unknown_preset_suggests_the_nearest_name() {
    let output = bedload(&["presets", "show", "memtabel"]).assert().code(2).get_output().clone();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: find preset `memtabel`: it is neither built in nor a file; the nearest valid name is `memtable`\n\
         hint: `bedload presets --all` lists all presets; give a file by its path\n"
    );
}
