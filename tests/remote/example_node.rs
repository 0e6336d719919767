//! The nodes of `examples/node.rs` and `examples/tokio.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use bedload::progress::{CancellationToken, Phase};
use bedload::{Error, ImportOptions, PlanChoice};

use crate::common::bundle::published;
use crate::common::car::{Block, block, noise, rooted};
use crate::common::crash::{Snapshot, plain, small};
use crate::common::model::{Key, Model, records};
use crate::common::run::{Place, partial, stops_at};
use crate::common::store::Store;

#[allow(dead_code, reason = "the tests do not call its `main`")]
#[path = "../../examples/node.rs"]
mod node;

#[allow(dead_code, reason = "the tests do not call its `main`")]
#[path = "../../examples/tokio.rs"]
mod tokio_node;

use node::{Failure, Log, Source, start};

/// Starts the node with the database `y`, closes it again, and returns its log.
fn starts(source: &Source, y: &Path) -> Result<String, Failure> {
    let mut log = Vec::new();
    start(source, y, &CancellationToken::default(), &Log::new(&mut log)).map(drop)?;
    Ok(String::from_utf8(log).expect("text"))
}

#[track_caller]
fn holds(y: &Path, blocks: &[Block]) {
    assert!(records(y) == Model::new(blocks, Key::Cid).records, "other records");
    assert!(!partial(y).exists(), "something is left of the work");
}

fn copied(place: &Place, snapshot: &Snapshot) -> PathBuf {
    place.file("snapshot.car", &snapshot.bytes)
}

#[test]
fn node_seeds_once_from_a_snapshot() {
    let place = Place::in_memory();
    let (file, y) = (copied(&place, small()), place.path("y"));
    let source = Source::Snapshot(file.clone());
    let log = starts(&source, &y).expect("seeded");
    assert!(log.contains("[node] read: "), "{log}");
    assert!(log.contains(&format!("[node] seeded {} records, digest {}", small().records, small().digest)), "{log}");
    holds(&y, &small().blocks);
    std::fs::remove_file(file).expect("removed");
    assert_eq!(starts(&source, &y).expect("opened"), "[node] the database exists\n");
}

#[test]
fn node_seeds_from_a_bundle_server() {
    let place = Place::in_memory();
    let store = Store::of(&published(&place, small()));
    let y = place.path("y");
    let log = starts(&Source::Bundle(store.url("").into()), &y).expect("seeded");
    assert!(log.contains(&small().digest), "{log}");
    holds(&y, &small().blocks);
}

/// Names the place of the node to the process that is killed.
const KILLED: &str = "BEDLOAD_TEST_NODE";

#[test]
fn killed_node_resumes() {
    if let Some(dir) = std::env::var_os(KILLED) {
        let dir = PathBuf::from(dir);
        let started = starts(&Source::Snapshot(dir.join("snapshot.car")), &dir.join("y"));
        panic!("it is not killed: {started:?}");
    }
    let place = Place::in_memory();
    let (file, y) = (copied(&place, plain()), place.path("y"));
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "remote::example_node::killed_node_resumes", "--test-threads", "1"])
        .env(KILLED, place.path(""))
        .env("BEDLOAD_ABORT_AT", "built")
        .output()
        .expect("it starts")
        .status;
    assert_eq!(status.code(), Some(137), "{status}");
    assert!(!y.exists() && partial(&y).exists());
    let log = starts(&Source::Snapshot(file), &y).expect("seeded");
    assert!(log.contains("[node] resumed after "), "{log}");
    holds(&y, &plain().blocks);
}

#[test]
fn node_starts_over_with_a_rotated_snapshot() {
    let place = Place::in_memory();
    let (file, y) = (copied(&place, plain()), place.path("y"));
    let stop = CancellationToken::default();
    let options = ImportOptions::new(&file, &y).plan(PlanChoice::Spill).stop(stop.clone());
    let error = bedload::import(&options, &stops_at(Phase::Build, stop)).expect_err("it was stopped");
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    std::fs::remove_file(&file).expect("removed");
    std::fs::write(&file, &small().bytes).expect("written");
    let log = starts(&Source::Snapshot(file), &y).expect("seeded");
    assert!(log.contains("the import starts over"), "{log}");
    holds(&y, &small().blocks);
}

#[test]
fn node_tells_failures_apart() {
    let place = Place::in_memory();
    let y = place.path("y");
    let fails = |bytes: &[u8]| starts(&Source::Snapshot(place.file("bad.car", bytes)), &y).expect_err("it is bad");
    let good = rooted(&[block(&noise(1, 1000))]);
    let failure = fails(&good[..good.len() - 1]);
    assert!(matches!(failure, Failure::BadSource(_)), "{failure:?}");
    assert!(failure.to_string().ends_with("the snapshot ends inside a block; fetch the snapshot again"), "{failure}");
    let mut flipped = good.clone();
    *flipped.last_mut().expect("a byte") ^= 1;
    assert!(matches!(fails(&flipped), Failure::BadSource(_)));
    assert!(matches!(fails(b"<html>"), Failure::Other(_)), "it is no snapshot");

    let missing = starts(&Source::Snapshot(place.path("missing.car")), &y).expect_err("it is missing");
    assert!(matches!(missing, Failure::NoSuchFile(_)), "{missing:?}");

    let source = Source::Snapshot(place.file("good.car", &good));
    let stop = CancellationToken::default();
    stop.cancel();
    let stopped = start(&source, &y, &stop, &Log::new(Vec::new())).expect_err("it was stopped");
    assert!(matches!(stopped, Failure::Stopped) && !partial(&y).exists(), "{stopped:?}");

    std::fs::create_dir(partial(&y)).expect("created");
    let lock = std::fs::File::create(partial(&y).join("lock")).expect("created");
    lock.lock().expect("locked");
    let busy = starts(&source, &y).expect_err("it is locked");
    assert!(matches!(busy, Failure::Busy(_)), "{busy:?}");
}

#[test]
fn node_does_not_replace_its_open_database() {
    let place = Place::in_memory();
    let (stop, log) = (CancellationToken::default(), Log::new(Vec::new()));
    let (source, y) = (Source::Snapshot(copied(&place, small())), place.path("y"));
    let db = start(&source, &y, &stop, &log).expect("seeded");
    let open = node::seed(&source, &y, true, &stop, &log).expect_err("it is open");
    assert!(matches!(open, Failure::Open(_)), "{open:?}");
    db.put(b"a key", b"a value").expect("the node still has its database");
    drop(db);
    node::seed(&source, &y, true, &stop, &log).expect("replaced");
    holds(&y, &small().blocks);
}

#[test]
fn tokio_node_imports_a_snapshot() {
    let place = Place::new();
    let y = place.path("y");
    let report = tokio_node::run(&copied(&place, small()), &y).expect("imported");
    assert_eq!(report.digest.to_string(), small().digest);
    holds(&y, &small().blocks);
}
