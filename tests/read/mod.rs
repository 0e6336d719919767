//! Commands that read a finished database or a snapshot: verify, walk, get, stat, inspect, export.

mod damaged_databases;
mod export_round_trip;
mod get;
mod inspect;
mod node_writes;
mod replacements;
mod stat;
mod verdicts;
mod verify;
mod walk;

use std::path::{Path, PathBuf};

use crate::common::database::{bedload, generate, generate_as, import, json, open};
use serde_json::Value;
use tempfile::TempDir;

/// A directory in memory, where files are synced at once.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// A generated snapshot and its database, with their directory.
fn made(size: &str, args: &[&str]) -> (TempDir, String, PathBuf) {
    let dir = directory();
    let car = generate(dir.path(), size);
    let db = import(dir.path(), &car, args);
    (dir, car.into_os_string().into_string().expect("text"), db)
}

/// A generated block log and its database, with their directory.
fn made_log(size: &str, args: &[&str]) -> (TempDir, PathBuf, PathBuf) {
    let dir = directory();
    let log = generate_as(dir.path().join("block_log"), &["--profile", "steem", "--size", size]);
    let db = import(dir.path(), &log, args);
    (dir, log, db)
}

/// Another snapshot.
fn other(dir: &TempDir, size: &str) -> PathBuf {
    generate_as(dir.path().join("other.car"), &["--size", size, "--seed", "9"])
}

/// The result of a command on a database.
fn on(db: &Path, command: &[&str]) -> assert_cmd::assert::Assert {
    bedload().args(&command[..1]).arg("--db").arg(db).args(&command[1..]).assert()
}

/// Puts records as a node does.
fn put(db: &Path, records: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) {
    let node = open(db);
    records.into_iter().for_each(|(key, value)| node.put(key, value).expect("put"));
}

/// Runs `verify`, which fails with this code.
#[track_caller]
fn verify(db: &Path, more: &[&str], code: i32) -> Value {
    let report = json(&["verify"], db, more, code);
    assert_eq!(report["schema"], "bedload-verify-4");
    // With code 1 the database is intact, and not confirmed.
    assert_eq!(report["valid"], code < 3, "{report:#}");
    report
}

/// The kinds of the problems.
fn kinds(report: &Value) -> Vec<&str> {
    report["problems"]["kinds"].as_object().expect("kinds").keys().map(String::as_str).collect()
}

/// The kinds of the problems, with their numbers.
fn counts(report: &Value) -> Vec<(&str, u64)> {
    let kinds = report["problems"]["kinds"].as_object().expect("kinds");
    kinds.iter().map(|(kind, count)| (kind.as_str(), count.as_u64().expect("a count"))).collect()
}

/// The text of a CID.
fn text(cid: &[u8]) -> String {
    cid::Cid::try_from(cid).expect("a CID").to_string()
}
