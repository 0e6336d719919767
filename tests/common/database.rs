//! Databases to look into: made by the program itself, then damaged by hand.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use super::run::program;

/// The program, with quiet defaults.
pub fn bedload() -> Command {
    let mut command = program();
    command.args(["--progress", "off"]);
    command
}

/// Generates a snapshot of about `size`, and returns its path.
pub fn generate(dir: &Path, size: &str) -> PathBuf {
    generate_as(dir.join("snapshot.car"), &["--size", size])
}

/// Generates a snapshot or a block log at `path`, which it returns.
pub fn generate_as(path: PathBuf, args: &[&str]) -> PathBuf {
    bedload().args(["generate", "--quiet"]).arg(&path).args(args).assert().success();
    path
}

pub fn import(dir: &Path, snapshot: &Path, more: &[&str]) -> PathBuf {
    let db = dir.join("db");
    bedload().arg("import").arg(snapshot).arg("--db").arg(&db).args(more).arg("--quiet").assert().success();
    db
}

/// Runs a command on a database with `--json`, expects its exit code, and takes its document.
#[track_caller]
pub fn json(command: &[&str], db: &Path, more: &[&str], code: i32) -> Value {
    super::run::json(bedload().args(command).arg("--db").arg(db).args(more), code)
}

/// The record that an import leaves in its database.
pub fn record(db: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(db.join("BEDLOAD.json")).expect("a record")).expect("JSON")
}

pub fn ssts(db: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(db).expect("list").map(|entry| entry.expect("entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "sst")).collect();
    files.sort();
    files
}

/// Removes the last byte of a file.
pub fn cut(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    file.set_len(file.metadata().expect("there").len() - 1).expect("cut");
}

/// Flips the bits of `mask` in the byte at `at`, if the file is that long. Returns the bytes from before.
pub fn flip(path: &Path, at: usize, mask: u8) -> Vec<u8> {
    let before = std::fs::read(path).expect("a file");
    let mut bytes = before.clone();
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
    std::fs::write(path, bytes).expect("written");
    before
}

/// Opens a database for writing, as a node would.
pub fn open(db: &Path) -> rust_rocksdb::DB {
    rust_rocksdb::DB::open(&rust_rocksdb::Options::default(), db).expect("open")
}

/// Opens all column families of a database for writing. Returns their names, too.
pub fn open_all(db: &Path) -> (rust_rocksdb::DB, Vec<String>) {
    let options = rust_rocksdb::Options::default();
    let families = rust_rocksdb::DB::list_cf(&options, db).expect("families");
    (rust_rocksdb::DB::open_cf(&options, db, &families).expect("open"), families)
}

/// Some keys of a database, spread over it.
pub fn some_keys(db: &Path, count: usize) -> Vec<Vec<u8>> {
    let db = open(db);
    let keys: Vec<Vec<u8>> =
        db.iterator(rust_rocksdb::IteratorMode::Start).map(|item| item.expect("read").0.to_vec()).collect();
    keys.iter().step_by((keys.len() / count).max(1)).take(count).cloned().collect()
}

#[track_caller]
pub fn walk(db: &Path, more: &[&str], code: i32) -> Value {
    let report = json(&["walk"], db, more, code);
    assert_eq!((&report["schema"], &report["complete"]), (&"bedload-walk-1".into(), &(code == 0).into()));
    report
}

#[track_caller]
pub fn inspect(car: &Path, more: &[&str], code: i32) -> Value {
    let report = super::run::json(bedload().arg("inspect").arg(car).args(more), code);
    assert_eq!(report["schema"], "bedload-inspect-3");
    assert_eq!(report["valid"], code == 0);
    report
}
