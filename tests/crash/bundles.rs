//! `bundle` and `seed` are killed: never a description that names what is not there, never a half-made database, and the
//! same command finishes.

use std::time::Duration;

use crate::common::bundle::*;
use crate::common::car::{Block, block, noise, rooted};
use crate::common::crash::{Chance, Snapshot, plain, rounds};
use crate::common::database::open;
use crate::common::model::{Key, Model, records};
use crate::common::run::Place;
use crate::common::store::Store;

#[test]
fn a_bundle_that_dies_names_only_what_is_there() {
    let place = Place::new();
    let db = imported(&place, plain());
    for point in ["bundle-file", "bundle-file:3", "bundle-files", "bundle-described", "bundled"] {
        let to = place.path(&format!("to-{}", point.replace(':', "-")));
        bundle(&db, &to).dies_at(point);
        let there = names_only_what_is_there(&to);
        assert_eq!(there, usize::from(["bundle-described", "bundled"].contains(&point)), "{point}");
        let done = bundle(&db, &to).succeeds();
        assert_eq!(names_only_what_is_there(&to), 1);
        if point == "bundle-file:3" {
            assert_eq!(done.number("/uploaded_files"), done.number("/files") - 3, "it began again");
        }
        let y = place.path("y");
        seed(&to, &y).succeeds();
        holds(&y, plain());
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

#[test]
fn a_seed_that_dies_leaves_no_database_and_goes_on() {
    let place = Place::new();
    let to = published(&place, plain());
    let store = Store::of(&to);
    let total: u64 = files(&to).iter().map(|file| file.metadata().expect("there").len()).sum();
    let y = place.path("y");
    for from in [to.display().to_string(), store.url("")] {
        for point in [
            "start",
            "fetch",
            "fetched",
            "fetched:4",
            "all-fetched",
            "all-checked",
            "ingesting",
            "ingest",
            "ingested",
            "recorded",
            "complete",
            "renamed",
        ] {
            seed(&from, &y).dies_at(point);
            assert_eq!(y.exists(), point == "renamed", "{point}");
            store.served();
            let done = seed(&from, &y).succeeds();
            let served = store.served();
            assert_eq!(done.text("/digest"), plain().digest, "{point}");
            holds(&y, plain());
            if ["all-fetched", "ingesting", "ingest", "ingested", "recorded", "complete", "renamed"].contains(&point) {
                assert!(served < 100_000, "{point}: {served} bytes came again");
            } else if point == "fetched:4" {
                assert!(served < total, "{point}: all {served} bytes came again");
            }
            std::fs::remove_dir_all(&y).expect("a database");
        }
    }
}

#[test]
fn an_unfinished_seed_goes_on_with_the_bundle_that_it_began_with() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    seed(&to, &y).dies_at("fetched:2");
    let other = Place::new();
    bundle(&imported(&other, crate::common::crash::small()), &to).succeeds();
    seed(&to, &y).arg(&["--bundle", &latest(&to)]).refused(4, "holds an unfinished import of something else");
    // Whatever it was made for, an import does not take it over.
    let import = crate::common::run::bedload()
        .args(["import", plain().file.to_str().expect("text"), "--db", y.to_str().expect("text")])
        .output()
        .expect("it runs");
    assert_eq!(import.status.code(), Some(4), "{}", String::from_utf8_lossy(&import.stderr));
    assert!(String::from_utf8_lossy(&import.stderr).contains("the source was the bundle "));
    seed(&to, &y).succeeds();
    holds(&y, plain());
    std::fs::remove_dir_all(&y).expect("a database");
    seed(&to, &y).dies_at("fetched");
    seed(&to, &y).arg(&["--restart"]).succeeds();
    holds(&y, crate::common::crash::small());
}

#[test]
fn a_fetched_file_that_was_touched_is_looked_at_again() {
    let place = Place::new();
    let to = published(&place, plain());
    let store = Store::of(&to);
    let y = place.path("y");
    let spoil = |how: &dyn Fn(&mut Vec<u8>)| {
        seed(store.url(""), &y).dies_at("all-fetched");
        let path = partial(&y).join("sst/000002.sst");
        let mut bytes = std::fs::read(&path).expect("fetched");
        how(&mut bytes);
        std::fs::write(&path, bytes).expect("written");
        store.served();
    };
    spoil(&|bytes| bytes[5000] ^= 1);
    let done = seed(store.url(""), &y).succeeds();
    assert!(done.stderr.contains("is not what was fetched any more"), "{}", done.stderr);
    assert!(store.served() > 100_000);
    holds(&y, plain());
    std::fs::remove_dir_all(&y).expect("a database");
    // Written again as it was.
    spoil(&|_| ());
    seed(store.url(""), &y).succeeds();
    assert!(store.served() < 100_000);
    holds(&y, plain());
    std::fs::remove_dir_all(&y).expect("a database");
    spoil(&|bytes| bytes.truncate(bytes.len() - 1));
    seed(store.url(""), &y).refused(4, "lacks a whole");
    seed(store.url(""), &y).arg(&["--restart"]).succeeds();
    holds(&y, plain());
}

#[test]
fn kills_at_any_moment_lose_nothing() {
    let place = Place::in_memory();
    let db = imported(&place, plain());
    let mut chance = Chance::new();
    let (to, y) = (place.path("to"), place.path("y"));
    let mut killed = |run: Run| {
        let mut child = run.spawn();
        std::thread::sleep(Duration::from_millis(chance.below(120)));
        let _ = child.kill();
        child.wait().expect("it ends");
    };
    for _ in 0..rounds(8, 100) {
        let _ = std::fs::remove_dir_all(&to);
        killed(bundle(&db, &to));
        names_only_what_is_there(&to);
        bundle(&db, &to).succeeds();
        names_only_what_is_there(&to);
        killed(seed(&to, &y));
        if y.exists() {
            is_valid(&y);
        }
        if !y.exists() || partial(&y).exists() {
            seed(&to, &y).succeeds();
        }
        holds(&y, plain());
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

/// The blocks of [`plain`] and one more.
fn newer() -> Snapshot {
    let more = block(&noise(900_000, 700));
    let blocks: Vec<Block> = plain().blocks.iter().cloned().chain([more]).collect();
    Snapshot::of_blocks("newer-bundle.car", rooted(&blocks), &blocks)
}

#[test]
fn an_update_that_dies_leaves_one_database_or_the_other_and_goes_on() {
    let place = Place::new();
    let to = published(&place, plain());
    let (older, newer, other) = (latest(&to), newer(), Place::new());
    bundle(&imported(&other, &newer), &to).succeeds();
    let store = Store::of(&to);
    let y = place.path("y");
    for from in [to.display().to_string(), store.url("")] {
        for point in [
            "start",
            "fetched:3",
            "all-fetched",
            "all-checked",
            "ingesting",
            "ingest",
            "ingested",
            "recorded",
            "complete",
            "exchanging",
            "set-aside",
            "exchanged",
            "renamed",
            "old-removed",
        ] {
            seed(&to, &y).arg(&["--bundle", &older]).succeeds();
            let update = || seed(&from, &y).arg(&["--update"]);
            update().dies_at(point);
            let is_new = ["exchanged", "renamed", "old-removed"].contains(&point);
            let now: &Snapshot = if is_new { &newer } else { plain() };
            is_valid(&y);
            assert!(records(&y) == Model::new(&now.blocks, Key::Cid).records, "{point}: another database");
            let done = update().succeeds();
            assert_eq!(done.text("/digest"), newer.digest, "{point}");
            holds(&y, &newer);
            std::fs::remove_dir_all(&y).expect("a database");
        }
    }
}

#[test]
fn what_a_node_writes_between_two_runs_of_an_update_is_not_lost() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    for point in ["fetched:3", "all-fetched", "ingested", "complete", "exchanging", "set-aside"] {
        seed(&to, &y).succeeds();
        let update = || seed(&to, &y).arg(&["--update"]);
        update().dies_at(point);
        open(&y).put(b"a key", b"a value").expect("written");
        update().refused(4, "a node has written to it");
        assert_eq!(open(&y).get(b"a key").expect("read").as_deref(), Some(&b"a value"[..]), "{point}");
        seed(&to, &y).arg(&["--replace"]).succeeds();
        holds(&y, plain());
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

#[test]
fn kills_of_an_update_at_any_moment_lose_nothing() {
    let place = Place::in_memory();
    let to = published(&place, plain());
    let (older, newer, other) = (latest(&to), newer(), Place::in_memory());
    bundle(&imported(&other, &newer), &to).succeeds();
    let mut chance = Chance::new();
    let y = place.path("y");
    let models = [plain(), &newer].map(|snapshot| Model::new(&snapshot.blocks, Key::Cid).records);
    for _ in 0..rounds(6, 100) {
        seed(&to, &y).arg(&["--bundle", &older]).succeeds();
        let update = || seed(&to, &y).arg(&["--update"]);
        let mut child = update().spawn();
        std::thread::sleep(Duration::from_millis(chance.below(400)));
        let _ = child.kill();
        child.wait().expect("it ends");
        is_valid(&y);
        assert!(models.contains(&records(&y)), "it is neither the one nor the other");
        update().succeeds();
        holds(&y, &newer);
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

#[test]
fn an_import_that_publishes_and_dies_names_only_what_is_there_and_goes_on() {
    let place = Place::new();
    let whole = content(&published(&place, plain()));
    let store = Store::new();
    let points = [
        "read-done",
        "held",
        "built",
        "published",
        "published:2",
        "bundle-file",
        "bundle-file:2",
        "ingesting",
        "ingested",
        "recorded",
        "bundle-files",
        "bundle-described",
        "bundled",
        "complete",
    ];
    for (number, point) in points.iter().enumerate() {
        for keeps in [false, true] {
            let work = place.path(&format!("work-{number}-{keeps}"));
            std::fs::create_dir(&work).expect("a folder");
            let (to, db) = (work.join("to"), work.join("db"));
            let run = || import_to(plain(), &to, keeps.then_some(&*db), &work);
            if run().env("BEDLOAD_ABORT_AT", point).run().code == Some(0) {
                assert!(["read-done", "held"].contains(point), "{point} is not reached");
            }
            names_only_what_is_there(&to);
            assert!(!db.exists() || ["read-done", "held"].contains(point), "{point}: the database has its name");
            if db.exists() {
                continue;
            }
            let done = run().succeeds();
            assert_eq!(done.text("/bundle/id"), latest(&to), "{point}");
            assert_eq!(content(&to), whole, "{point}: the bundle of the database");
            assert_eq!(names_only_what_is_there(&to), 1, "{point}");
            if *point == "published:2" {
                assert!(done.number("/bundle/uploaded_files") + 2 <= done.number("/bundle/files"), "it began again");
            }
            let mut left: Vec<_> =
                work.read_dir().expect("listed").map(|entry| entry.expect("one").file_name()).collect();
            left.retain(|name| name != "to" && (!keeps || name != "db"));
            assert!(left.is_empty(), "{point}: {left:?} is left");
            if keeps {
                holds(&db, plain());
            } else {
                seed(&to, &db).succeeds();
                holds(&db, plain());
            }
        }
    }
    // Over a network: what was published is not sent again.
    let work = place.path("work-store");
    std::fs::create_dir(&work).expect("a folder");
    let run = || import_to(plain(), "s3://bucket/mainnet", None, &work).at(&store.endpoint());
    run().dies_at("ingesting");
    let sent = store.objects().len();
    let done = run().succeeds();
    assert_eq!(done.number("/bundle/uploaded_files"), 0, "all {sent} were there");
}

#[test]
fn what_a_killed_import_has_published_is_looked_at_again() {
    let place = Place::new();
    let whole = content(&published(&place, plain()));
    for (number, (point, cut)) in
        [("published:3", false), ("published:3", true), ("ingested", false)].iter().enumerate()
    {
        let work = place.path(&format!("work-{number}"));
        std::fs::create_dir(&work).expect("a folder");
        let (to, db) = (work.join("to"), work.join("db"));
        let run = || import_to(plain(), &to, Some(&db), &work);
        run().dies_at(point);
        let one = to.join("files").read_dir().expect("files").next().expect("a file").expect("listed").path();
        let mut bytes = std::fs::read(&one).expect("a file");
        if *cut {
            bytes.pop();
        } else {
            bytes[1234] ^= 4;
        }
        std::fs::write(&one, bytes).expect("written");
        if *point == "ingested" {
            run().refused(4, "was published, but has been removed or changed since");
            assert!(!to.join("latest").exists() && !db.exists());
            run().arg(&["--restart"]).succeeds();
        } else {
            run().succeeds();
        }
        assert_eq!(names_only_what_is_there(&to), 1);
        assert_eq!(content(&to), whole);
        holds(&db, plain());
    }
}
