//! `bundle` and `seed` are killed: never a description that names missing files, never a half-made database, and the same
//! command finishes. `BEDLOAD_LONG_TESTS=1` kills at random moments as well.

use std::path::Path;
use std::time::Duration;

use crate::common::bundle::*;
use crate::common::car::{block, noise, rooted};
use crate::common::crash::{Chance, Snapshot, list, plain, rounds, small};
use crate::common::database::{cut, flip, open};
use crate::common::model::{Key, Model, records};
use crate::common::run::{Done, Place, Run, bedload};
use crate::common::store::Store;

fn remove(path: &Path) {
    std::fs::remove_dir_all(path).expect("a database");
}

/// The seeded database holds exactly the blocks of `snapshot`. It is removed.
#[track_caller]
fn seeds(run: Run, y: &Path, snapshot: &Snapshot) -> Done {
    let done = run.seeds(snapshot);
    remove(y);
    done
}

#[test]
fn killed_bundle_names_only_existing_files() {
    let place = Place::in_memory();
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
        if point == "bundled" {
            seed(&to, &place.path("y")).seeds(plain());
        }
    }
}

#[test]
fn killed_seed_resumes() {
    let (_place, to, y) = bundled(plain());
    let store = Store::of(&to);
    let total: u64 = files(&to).iter().map(|file| file.metadata().expect("there").len()).sum();
    let early = ["start", "fetch", "fetched", "fetched:4", "all-checked"];
    let late = ["all-fetched", "ingesting", "ingest", "ingested", "recorded", "complete", "renamed"];
    for (nth, from) in [to.display().to_string(), store.url("")].iter().enumerate() {
        let mut before = "";
        for point in early.into_iter().chain(late).skip(nth).step_by(rounds(2, 1)).chain([""]) {
            store.served();
            match point {
                "" => drop(seeds(seed(from, &y), &y, plain())),
                _ => seed(from, &y).dies_at(point),
            }
            let served = store.served();
            assert_eq!(y.exists(), point == "renamed", "{point}");
            if late.contains(&before) {
                assert!(served < 100_000, "{before}: {served} bytes were requested again");
            } else if before == "fetched:4" {
                assert!(served < total, "{before}: all {served} bytes were requested again");
            }
            before = point;
        }
    }
}

#[test]
fn unfinished_seed_keeps_its_bundle() {
    let (_place, to, y) = bundled(plain());
    seed(&to, &y).dies_at("fetched:2");
    let other = Place::in_memory();
    bundle(&imported(&other, small()), &to).succeeds();
    seed(&to, &y).args(&["--bundle", &latest(&to)]).refused(4, "contains a different unfinished import");
    // Whatever it was made for, an import does not take it over.
    let import = bedload().arg("import").arg(&plain().file).arg("--db").arg(&y).output().expect("it runs");
    let said = String::from_utf8_lossy(&import.stderr);
    assert_eq!((import.status.code(), said.contains("the source was the bundle ")), (Some(4), true), "{said}");
    seeds(seed(&to, &y), &y, plain());
    seed(&to, &y).dies_at("fetched");
    seed(&to, &y).args(&["--restart"]).seeds(small());
}

#[test]
fn touched_fetched_file_is_checked_again() {
    let (_place, to, y) = bundled(plain());
    let store = Store::of(&to);
    let begin = |change: &dyn Fn(&Path)| {
        seed(store.url(""), &y).dies_at("all-fetched");
        change(&partial(&y).join("sst/000002.sst"));
        store.served();
        seed(store.url(""), &y)
    };
    let flipped = seeds(begin(&|path| drop(flip(path, 5000, 1))), &y, plain());
    assert!(flipped.stderr.contains("is not what was fetched any more"), "{}", flipped.stderr);
    assert!(store.served() > 100_000);
    let again = |path: &Path| std::fs::write(path, std::fs::read(path).expect("fetched")).expect("written");
    seeds(begin(&again), &y, plain());
    assert!(store.served() < 100_000);
    begin(&cut).refused(4, "lacks a whole");
    seed(store.url(""), &y).args(&["--restart"]).seeds(plain());
}

/// Kills a run within so many milliseconds.
fn killed(run: Run, within: u64, chance: &mut Chance) {
    let mut child = run.spawn();
    std::thread::sleep(Duration::from_millis(chance.below(within)));
    let _ = child.kill();
    child.wait().expect("it ends");
}

#[test]
fn random_kills_lose_nothing() {
    let place = Place::in_memory();
    let db = imported(&place, plain());
    let mut chance = Chance::new();
    let (to, y) = (place.path("to"), place.path("y"));
    for _ in 0..rounds(1, 100) {
        let _ = std::fs::remove_dir_all(&to);
        killed(bundle(&db, &to), 120, &mut chance);
        names_only_what_is_there(&to);
        bundle(&db, &to).succeeds();
        names_only_what_is_there(&to);
        killed(seed(&to, &y), 120, &mut chance);
        if y.exists() {
            is_valid(&y);
        }
        if !y.exists() || partial(&y).exists() {
            seed(&to, &y).succeeds();
        }
        holds(&y, plain());
        remove(&y);
    }
    let older = latest(&to);
    let newer = publish_newer(&to);
    let models = [plain(), &newer].map(|snapshot| Model::new(&snapshot.blocks, Key::Cid).records);
    for _ in 0..rounds(1, 100) {
        seed(&to, &y).args(&["--bundle", &older]).succeeds();
        let update = || seed(&to, &y).args(&["--update"]);
        killed(update(), 400, &mut chance);
        is_valid(&y);
        assert!(models.contains(&records(&y)), "it is neither the one nor the other");
        seeds(update(), &y, &newer);
    }
}

/// Publishes a newer bundle: the blocks of [`plain`] and one more.
fn publish_newer(to: &Path) -> Snapshot {
    let blocks = [&plain().blocks[..], &[block(&noise(900_000, 700))]].concat();
    let newer = Snapshot::of_blocks("newer-bundle.car", rooted(&blocks), &blocks);
    bundle(&imported(&Place::in_memory(), &newer), to).succeeds();
    newer
}

#[test]
fn killed_update_leaves_one_database() {
    let (_place, to, y) = bundled(plain());
    let older = latest(&to);
    let newer = publish_newer(&to);
    let store = Store::of(&to);
    let begin = ["start", "fetched:3", "all-fetched", "all-checked", "ingesting", "ingest", "ingested"];
    let end = ["recorded", "complete", "exchanging", "set-aside", "exchanged", "renamed", "old-removed"];
    let models = [plain(), &newer].map(|snapshot| Model::new(&snapshot.blocks, Key::Cid).records);
    for (nth, from) in [to.display().to_string(), store.url("")].iter().enumerate() {
        seed(&to, &y).args(&["--bundle", &older]).succeeds();
        let update = || seed(from, &y).args(&["--update"]);
        for point in begin.into_iter().chain(end).skip(nth).step_by(rounds(2, 1)) {
            if update().env("BEDLOAD_ABORT_AT", point).run().code == Some(0) {
                // There was less to do than at the first time.
                assert!(records(&y) == models[1], "{point}: another database");
                remove(&y);
                seed(&to, &y).args(&["--bundle", &older]).succeeds();
                update().dies_at(point);
            }
            let is_new = ["exchanged", "renamed", "old-removed"].contains(&point);
            assert!(records(&y) == models[usize::from(is_new)], "{point}: another database");
        }
        is_valid(&y);
        assert_eq!(seeds(update(), &y, &newer).text("/digest"), newer.digest);
    }
}

#[test]
fn unfinished_update_keeps_node_writes() {
    let (_place, to, y) = bundled(plain());
    seed(&to, &y).succeeds();
    let points = ["fetched:3", "all-fetched", "ingested", "complete", "exchanging", "set-aside"];
    for point in points.into_iter().skip(rounds(1, 0)).step_by(rounds(2, 1)) {
        let update = || seed(&to, &y).args(&["--update"]);
        update().dies_at(point);
        open(&y).put(b"a key", b"a value").expect("written");
        update().refused(4, "a node has written to it");
        assert_eq!(open(&y).get(b"a key").expect("read").as_deref(), Some(&b"a value"[..]), "{point}");
        seed(&to, &y).args(&["--replace"]).seeds(plain());
    }
}

#[test]
fn killed_publishing_import_resumes() {
    let place = Place::in_memory();
    let whole = content(&published(&place, plain()));
    let store = Store::new();
    let begin = ["held", "built", "published", "published:2", "bundle-file", "bundle-file:2"];
    let end = ["ingesting", "ingested", "recorded", "bundle-files", "bundle-described", "bundled", "complete"];
    for (nth, keeps) in [false, true].into_iter().enumerate() {
        let work = place.dir(&format!("work-{keeps}"));
        let (to, db) = (work.join("to"), work.join("db"));
        let run = || import_to(plain(), &to, keeps.then_some(&*db), &work);
        for point in begin.into_iter().chain(end).skip(nth).step_by(rounds(2, 1)) {
            run().dies_at(point);
            names_only_what_is_there(&to);
            assert!(!db.exists(), "{point}: the database has its name");
        }
        let done = run().succeeds();
        assert_eq!(done.text("/bundle/id"), latest(&to));
        assert_eq!(content(&to), whole, "the bundle of the database");
        assert_eq!(names_only_what_is_there(&to), 1);
        let mut left = list(&work);
        left.retain(|path| *path != to && (!keeps || *path != db));
        assert!(left.is_empty(), "{left:?} is left");
        if keeps { holds(&db, plain()) } else { drop(seed(&to, &db).seeds(plain())) }
    }
    // Over a network: what was published is not sent again.
    let work = place.dir("work-store");
    let run = || import_to(plain(), "s3://bucket/mainnet", None, &work).at(&store.endpoint());
    run().dies_at("ingesting");
    let sent = store.objects().len();
    let done = run().succeeds();
    assert_eq!(done.number("/bundle/uploaded_files"), 0, "all {sent} were there");
}

#[test]
fn published_files_are_checked_again() {
    let place = Place::in_memory();
    let whole = content(&published(&place, plain()));
    for (number, (point, is_cut)) in
        [("published:3", false), ("published:3", true), ("ingested", false)].into_iter().enumerate()
    {
        let work = place.dir(&format!("work-{number}"));
        let (to, db) = (work.join("to"), work.join("db"));
        let run = || import_to(plain(), &to, Some(&db), &work);
        run().dies_at(point);
        let one = &list(&to.join("files"))[0];
        if is_cut {
            cut(one)
        } else {
            drop(flip(one, 1234, 4))
        }
        if point == "ingested" {
            run().refused(4, "was published, but has been removed or changed since");
            assert!(!to.join("latest").exists() && !db.exists());
            run().args(&["--restart"]).succeeds();
        } else {
            run().succeeds();
        }
        assert_eq!(names_only_what_is_there(&to), 1);
        assert_eq!(content(&to), whole);
        holds(&db, plain());
    }
}
