//! Commands that read a finished database or a snapshot: verify, walk, get, stat, inspect, export.

#[path = "../common/mod.rs"]
mod common;

mod damaged_databases;
mod export_round_trip;
mod get;
mod inspect;
mod locations;
mod node_writes;
mod replacements;
mod stat;
mod verdicts;
mod verify;
mod walk;

use std::path::{Path, PathBuf};

use common::database::{bedload, generate, import};
use tempfile::{TempDir, tempdir};

/// A generated snapshot and its database, with their directory.
fn made(size: &str, args: &[&str]) -> (TempDir, PathBuf, PathBuf) {
    let dir = tempdir().expect("a directory");
    let car = generate(dir.path(), size);
    let db = import(dir.path(), &car, args);
    (dir, car, db)
}

/// A generated block log and its database, with their directory.
fn made_log(size: &str, args: &[&str]) -> (TempDir, PathBuf, PathBuf) {
    let dir = tempdir().expect("a directory");
    let log = dir.path().join("block_log");
    bedload().arg("generate").arg(&log).args(["--profile", "steem", "--size", size, "--quiet"]).assert().success();
    let db = import(dir.path(), &log, args);
    (dir, log, db)
}

/// Another snapshot.
fn other(dir: &TempDir, size: &str) -> PathBuf {
    let other = dir.path().join("other.car");
    bedload().arg("generate").arg(&other).args(["--size", size, "--seed", "9", "--quiet"]).assert().success();
    other
}

/// The result of a command on a database.
fn on(db: &Path, command: &[&str]) -> assert_cmd::assert::Assert {
    bedload().args(&command[..1]).arg("--db").arg(db).args(&command[1..]).assert()
}
