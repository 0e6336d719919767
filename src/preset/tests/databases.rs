//! Small databases made with the built-in presets.

use std::process::Command;

use super::*;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::rehearsal::{self, RECORDS, key, value};
use crate::rocks::{Reader, ReaderOptions, Store};

/// Imports records as the preset's loader would, reads them back, and opens the database as the node does.
fn database_of(resolved: &Resolved, dir: &Path) -> PathBuf {
    let (name, node) = (&resolved.preset, resolved.node());
    rehearsal::import(dir, &resolved.loading(), &node, &super::super::resolve::way(resolved)).expect(name);
    let db = dir.join("db");
    Store::inspect_for_node(&db, &[("default", &node)], |_| Ok(())).expect(name);
    db
}

#[test]
fn presets_fill_last_level_and_options() {
    for resolved in shipped() {
        let name = &resolved.preset;
        let dir = tempfile::tempdir().expect("a directory");
        let db = database_of(resolved, dir.path());
        let tables = Reader::open(&db, &ReaderOptions::once()).expect(name).files().expect("listed");
        assert!(!tables.is_empty() && tables.iter().all(|table| table.level == 6), "{name}: {tables:?}");
        let file = OptionsFile::latest(&db).expect("OPTIONS");
        let options = file.options(file.family("default").expect("the family"));
        let node = resolved.node();
        let mut expected = options::effective(&node, &options::places()).expect(name);
        // RocksDB reduces it to the limit of this process.
        let files = node.get(Group::Db, "max_open_files").expect(name);
        expected.set(Group::Db, "max_open_files", files);
        assert_eq!(options, expected, "{name}");
    }
}

/// Runs a tool of Debian 12's package rocksdb-tools, from `BEDLOAD_ROCKSDB_7_TOOLS` (a directory) or the path. Returns its
/// output; `None` without the tool.
fn run_old(tool: &str, arguments: &[&str]) -> Option<String> {
    let dir = std::env::var_os("BEDLOAD_ROCKSDB_7_TOOLS").map(PathBuf::from).unwrap_or_default();
    let run = |arguments: &[&str]| {
        let out = Command::new(dir.join(tool)).args(arguments).output().ok()?;
        Some(format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
    };
    run(&["--version"]).filter(|version| version.contains(" 7.")).and_then(|_| run(arguments))
}

#[test]
fn rocksdb_7_8_reads_ingest_compat_only() {
    let dirs = ["ingest-compat", "ingest"].map(|name| {
        let dir = tempfile::tempdir().expect("a directory");
        (database_of(&resolved(name, &[]), dir.path()).display().to_string(), dir)
    });
    let scan = |db: &str| run_old("ldb", &[&format!("--db={db}"), "--ignore_unknown_options", "scan", "--hex"]);
    let [(compat, _), (newer, _)] = &dirs;
    let verified = run_old("sst_dump", &[&format!("--file={compat}"), "--command=verify"]);
    let (Some(found), Some(refused), Some(verified)) = (scan(compat), scan(newer), verified) else {
        crate::skipped::skipped("no ldb and sst_dump of RocksDB 7.8; apt-get install rocksdb-tools");
        return;
    };
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let expected: Vec<String> =
        (0..RECORDS).map(|number| format!("0x{} : 0x{}", hex(key(number)), hex(value(number)))).collect();
    assert_eq!(found.lines().filter(|line| line.starts_with("0x")).collect::<Vec<_>>(), expected);
    assert!(verified.contains("The file is ok"), "{verified}");
    assert!(refused.contains("Corrupt or unsupported format_version"), "{refused}");
}
