//! `--into-existing` stores blocks where the database records them, counts them, and keeps the newest head and roots.

use std::path::Path;

use bedload::progress::{Event, Silent};
use bedload::{ImportOptions, KeyLayout};
use predicates::str::contains;
use serde_json::{Value, json};

use crate::common::bundle::bundle;
use crate::common::car::*;
use crate::common::crash::{f3_metadata, filecoin_header};
use crate::common::database::{generate, generate_as, json as read, record};
use crate::common::log;
use crate::common::model::{Key, Model, records};
use crate::common::run::{Done, Place, import, program};

fn some(numbers: std::ops::Range<u64>) -> Vec<Block> {
    numbers.map(|number| block(&noise(number, 300))).collect()
}

/// The database was refused before the source was opened, and is as it was.
#[track_caller]
fn is_refused(place: &Place, args: &[&str], reason: &str, hint: &str) {
    let db = place.path("db");
    let before = std::fs::read(db.join("CURRENT")).expect("a database");
    for dry in [&[][..], &["--dry-run"]] {
        let done = import(place, "nosuch.car").args(&["--into-existing"]).args(args).args(dry).run();
        assert_eq!(done.code, Some(4), "{done:?}");
        assert!(done.text("/error").contains(reason), "{done:?}");
        assert!(done.hint().starts_with(hint), "{done:?}");
        assert_eq!(std::fs::read(db.join("CURRENT")).expect("a database"), before);
        assert!(!place.path("db.partial").exists(), "something is left of the work");
    }
}

#[track_caller]
fn is_valid(db: &Path) {
    assert_eq!(read(&["verify"], db, &[], 0)["valid"], true);
}

#[test]
fn other_keys_than_recorded_are_refused() {
    let place = Place::new();
    let (old, new) = (some(0..50), some(40..90));
    let model = Model::new(&some(0..90), Key::Digest);
    import(&place, place.file("old.car", &rooted(&old))).key(Key::Digest).holds(&old);
    let reason = "stores its blocks by digest, and the import would store them by cid";
    is_refused(&place, &["--key", "cid"], reason, "leave --key out to store the new blocks by digest");
    is_refused(&place, &["--key", "multihash"], "would store them by multihash", "leave --key out");
    let new = place.file("new.car", &rooted(&new));
    for way in [&[][..], &["--key", "digest"], &["--preset", "memtable"]] {
        let done = import(&place, &new).args(&["--into-existing"]).args(way).succeeds();
        assert_eq!(done.text("/key"), "digest", "{way:?}");
        assert!(records(&done.db) == model.records, "{way:?}");
        is_valid(&done.db);
    }
}

#[test]
fn other_families_than_recorded_are_refused() {
    let place = Place::new();
    let db = place.path("db");
    let old = place.file("old.car", &rooted(&some(0..50)));
    let new = place.file("new.car", &rooted(&some(40..90)));
    import(&place, &old).args(&["--column-family", "blocks"]).succeeds();
    let reason = "stores its blocks in the column family `blocks`, and the import would use `default`";
    is_refused(&place, &["--column-family", "default"], reason, "leave --column-family out to use `blocks`");
    // The library takes the recorded family as the command line does.
    let refused = ImportOptions::new(&new, &db).into_existing(true).column_family("others");
    let error = bedload::import(&refused, &Silent).expect_err("another family");
    assert!(error.to_string().contains("would use `others`"), "{error}");
    let refused = ImportOptions::new(&new, &db).into_existing(true).key(KeyLayout::Digest);
    let error = bedload::import(&refused, &Silent).expect_err("other keys");
    assert!(error.to_string().contains("would store them by digest"), "{error}");
    let report = bedload::import(&ImportOptions::new(&new, &db).into_existing(true), &Silent).expect("imported");
    assert_eq!(report.column_family, "blocks");
    let verified = read(&["verify"], &db, &[], 0);
    assert_eq!((&verified["valid"], &verified["records"]), (&json!(true), &json!(90)));
}

#[test]
fn adding_to_a_block_log_is_refused() {
    let (place, log) = Place::with_file("block_log", &log::raw(&log::steem(1, 30, 1)));
    import(&place, &log).succeeds();
    let reason = "holds the blocks of a block log, to which nothing can be added";
    is_refused(&place, &[], reason, "import into a new database");
    is_refused(&place, &["--key", "digest", "--column-family", "blocks"], reason, "import into a new database");
    is_valid(&place.path("db"));
}

/// The record may change between the first check and the lock.
#[test]
fn layout_is_checked_again_under_the_lock() {
    let place = Place::new();
    let (old, new) = (some(0..50), place.file("new.car", &rooted(&some(40..90))));
    import(&place, place.file("old.car", &rooted(&old))).succeeds();
    let other = Place::new();
    import(&other, place.path("old.car")).key(Key::Digest).holds(&old);
    let db = place.path("db");
    let replace = |event: &Event| {
        if matches!(event, Event::Planned { .. }) {
            std::fs::remove_dir_all(&db).expect("removed");
            std::fs::rename(other.path("db"), &db).expect("renamed");
        }
    };
    let error = bedload::import(&ImportOptions::new(&new, &db).into_existing(true), &replace);
    let error = error.expect_err("another database by now").to_string();
    assert!(error.contains("stores its blocks by digest, and the import would store them by cid"), "{error}");
    is_valid(&db);
}

/// The counts of the report: read, new, existing, duplicate.
#[track_caller]
fn counts(done: &Done) -> [u64; 4] {
    done.succeeded();
    let [read, written, existing, duplicate] =
        ["read", "written", "existing", "duplicate"].map(|name| done.number(&format!("/blocks/{name}")));
    [read, written - existing, existing, duplicate]
}

/// An import that brought nothing new reported that its blocks were written and none was a duplicate.
#[test]
fn new_and_existing_blocks_are_counted() {
    for way in [&[][..], &["--preset", "memtable"]] {
        let place = Place::new();
        let done = import(&place, place.file("old.car", &rooted(&some(0..200)))).args(way).run();
        assert_eq!(done.json["blocks"].get("existing"), None);
        let twice = [some(150..300), some(150..160)].concat();
        let new = place.file("new.car", &rooted(&twice));
        let add = || import(&place, &new).args(&["--into-existing"]).args(way).run();
        assert_eq!(counts(&add()), [160, 100, 50, 10], "{way:?}");
        let again = add();
        assert_eq!(counts(&again), [160, 0, 150, 10], "{way:?}");
        let text =
            program().args(["import", "--into-existing"]).arg(&new).arg("--db").arg(&again.db).args(way).assert();
        text.success().stdout(contains("160 read, 0 new, 150 existing, 10 duplicate"));
    }
}

/// A snapshot of version 2 (FRC-0108): its root is metadata, which name the head and the F3 data.
fn version_2(height: u64) -> Vec<u8> {
    let (f3, head) = (blake(RAW, &noise(height, 500)), filecoin_header(height, 1_700_000_000, 1));
    rooted(&[f3_metadata(&f3.0, &[&head.0]), f3, head])
}

#[test]
fn older_snapshot_keeps_the_newer_head() {
    let place = Place::new();
    let db = place.path("db");
    let add = |path: &Path| import(&place, path).args(&["--f3", "skip", "--into-existing"]).succeeds();
    let file = |height: u64| place.file(&format!("{height}.car"), &version_2(height));
    let newer = file(900);
    let first = import(&place, &newer).args(&["--f3", "skip"]).run();
    assert_eq!(first.number("/head/height"), 900);
    let headless = place.file("headless.car", &rooted(&some(0..5)));
    for older in [file(500), headless, file(899)] {
        let done = add(&older);
        assert_eq!(done.number("/head/height"), 900, "{}", older.display());
        assert_eq!(done.text("/newest/path"), newer.to_str().expect("text"));
        assert_eq!(done.json["newest"]["roots"], first.json["source"]["roots"]);
        assert_eq!(done.json["newest"]["f3"], first.json["f3"]);
        assert_eq!((&record(&db)["newest"], &record(&db)["head"]), (&done.json["newest"], &first.json["head"]));
    }
    // The F3 data of the newest snapshot are known to be left out.
    let walked = read(&["walk"], &db, &[], 3);
    let missing = walked["first_missing"].as_array().expect("a list");
    assert!(missing.iter().all(|it| it["cid"] != first.json["f3"][0]["cid"]), "{walked:#}");
    let newest = add(&file(901));
    assert_eq!((newest.number("/head/height"), newest.json.get("newest")), (901, None));
}

#[test]
fn without_heads_the_last_roots_are_recorded() {
    let place = Place::new();
    let with_root = |range| place.file("x.car", &rooted(&some(range)));
    import(&place, with_root(0..5)).succeeds();
    let done = import(&place, with_root(5..9)).args(&["--into-existing"]).run();
    assert_eq!((done.code, done.json.get("newest")), (Some(0), None));
    let rootless = place.file("rootless.car", &car(&[], &some(9..12)));
    let kept = import(&place, rootless).args(&["--into-existing"]).run();
    assert_eq!((kept.code, &kept.json["newest"]["roots"]), (Some(0), &done.json["source"]["roots"]));
}

#[test]
fn export_counts_omitted_records() {
    let place = Place::new();
    let newer = generate(&place.path(""), "3MiB");
    let older = generate_as(place.path("older.car"), &["--size", "1MiB", "--seed", "4"]);
    let first = import(&place, &newer).run();
    let whole = place.path("whole.car");
    assert_eq!(read(&["export", whole.to_str().expect("text")], &first.db, &[], 0)["left_out"], 0);
    let added = import(&place, &older).args(&["--into-existing"]).run();
    let [_, new, existing, _] = counts(&added);
    assert!(new > 100, "{new} new, {existing} existing");
    let back = place.path("back.car");
    let report = read(&["export", back.to_str().expect("text")], &added.db, &[], 0);
    assert_eq!(report["roots"], first.json["source"]["roots"]);
    assert_eq!((&report["blocks"], &report["left_out"]), (&first.json["blocks"]["written"], &json!(new)));
    let text = format!("left out  {new} records not reachable from these roots; --root adds roots, --all exports");
    let shown = program().arg("export").arg(place.path("text.car")).arg("--db").arg(&added.db).assert();
    shown.success().stdout(contains(text));
    let all = read(&["export", "--all", place.path("all.car").to_str().expect("text")], &added.db, &[], 0);
    assert_eq!(all["left_out"], Value::Null);
    assert_eq!(all["blocks"].as_u64(), first.json["blocks"]["written"].as_u64().map(|blocks| blocks + new));
}

#[test]
fn extended_database_is_not_published() {
    let place = Place::new();
    let (old, new) = (place.file("old.car", &rooted(&some(0..5))), place.file("new.car", &rooted(&some(5..9))));
    import(&place, &old).succeeds();
    import(&place, &new).args(&["--into-existing"]).succeeds();
    let refused = bundle(&place.path("db"), place.path("to"));
    refused.refused(4, "also contains records from before its import");
}
