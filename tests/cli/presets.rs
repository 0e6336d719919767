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
    let listed = stdout(&["presets"]);
    assert_eq!(listed, stdout(&["presets", "list"]));
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
fn show_prints_the_file_as_it_is() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/memtable.toml");
    assert_eq!(stdout(&["presets", "show", "memtable"]), fs::read_to_string(file).expect("the file"));
}

#[test]
fn explain_says_where_an_override_came_from() {
    let document = json(&["presets", "explain", "ingest", "--set", "node.table.block_size=64K", "--json"]);
    assert_eq!(document["schema"], "bedload-preset-explanation-2");
    let options = document["options"].as_array().expect("a list");
    let row = options.iter().find(|row| row["option"] == "node.table.block_size").expect("the option");
    assert_eq!((&row["value"], &row["default"]), (&"65536".into(), &"4096".into()));
    assert_eq!((&row["written"], &row["from"]), (&"64K".into(), &"--set node.table.block_size=64K".into()));
}

#[test]
fn diff_lists_what_differs() {
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
fn a_misspelt_option_in_a_file_ends_with_code_2_file_line_and_the_nearest_name() {
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
fn an_option_without_its_scope_and_a_foreign_compression_end_with_code_2_and_what_to_write() {
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
fn the_list_says_which_rocksdb_reads_the_database() {
    let document = json(&["presets", "--json"]);
    let presets = document["presets"].as_array().expect("a list");
    let of = |name: &str| presets.iter().find(|it| it["name"] == name).expect(name)["oldest_rocksdb"].clone();
    assert_eq!([of("ingest"), of("ingest-compat"), of("ingest-zstd")], ["8.6", "7.8", "10.4"].map(Value::from));
    let row = stdout(&["presets"]);
    assert!(row.lines().any(|line| line.starts_with("ingest-compat ") && line.contains(" 7.8+ ")), "{row}");
}

#[test]
fn an_unknown_preset_ends_with_code_2_and_the_nearest_name() {
    let output = bedload(&["presets", "show", "memtabel"]).assert().code(2).get_output().clone();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: find preset `memtabel`: it is neither built in nor a file; the nearest valid name is `memtable`\n\
         hint: `bedload presets --all` names them all; a file is named by its path\n"
    );
}
