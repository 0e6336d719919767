//! Updates of seeded databases: existing files are not fetched again, and records of a node are kept.

use std::path::Path;

use crate::Needs;
use crate::common::bundle::*;
use crate::common::car::{Block, block, noise, rooted};
use crate::common::crash::{Snapshot, plain, small};
use crate::common::database::open;
use crate::common::run::{Place, import};
use crate::common::store::Store;

tests! {
    Needs::Nothing => [
        update_fetches_only_changed_files,
        update_fetches_damaged_files_again,
        update_refuses_a_database_with_node_writes,
        update_refuses_foreign_databases,
    ];
}

/// The blocks of [`plain`] and one more.
fn newer() -> Snapshot {
    let more = block(&noise(900_000, 700));
    let blocks: Vec<Block> = plain().blocks.iter().cloned().chain([more]).collect();
    Snapshot::of_blocks("newer.car", rooted(&blocks), &blocks)
}

fn update_fetches_only_changed_files() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    seed(&to, &y).succeeds();
    let (newer, other) = (newer(), Place::new());
    bundle(&imported(&other, &newer), &to).succeeds();
    let store = Store::of(&to);
    let z = place.path("z");
    let fresh = seed(store.url(""), &z).succeeds();
    let whole = store.served();
    seed(store.url(""), &y).refused(4, "already exists");
    store.served();
    let updated = seed(store.url(""), &y).arg(&["--update"]).succeeds();
    let came = store.served();
    assert!(came < whole / 2, "{came} of {whole} bytes came");
    assert_eq!(updated.text("/digest"), newer.digest);
    for field in ["digest", "blocks", "source", "options", "levels", "preset", "part"] {
        assert_eq!(updated.json[field], fresh.json[field], "{field}");
    }
    holds(&y, &newer);
    assert_eq!(bundle(&y, &to).succeeds().text("/id"), latest(&to));
    // A second update to this bundle fetches only its description.
    store.served();
    seed(store.url(""), &y).arg(&["--update"]).succeeds();
    assert!(store.served() < 100_000);
    holds(&y, &newer);
    // And back. Python's rocksdict leaves its settings in a database that it has opened.
    std::fs::write(y.join("rocksdict-config.json"), "{}").expect("written");
    seed(&to, &y).arg(&["--update", "--bundle", &first_id(&to)]).succeeds();
    holds(&y, plain());
}

/// The bundle of the directory that is not the newest.
fn first_id(to: &Path) -> String {
    let newest = latest(to);
    let mut all =
        to.read_dir().expect("a folder").map(|entry| entry.expect("one").file_name().into_string().expect("text"));
    all.find(|name| name.len() == 64 && *name != newest).expect("an older one")
}

fn update_fetches_damaged_files_again() {
    let place = Place::new();
    let to = published(&place, plain());
    let store = Store::of(&to);
    let y = place.path("y");
    // Files of its own: what is spoiled is not the bundle.
    seed(store.url(""), &y).succeeds();
    let sst = y.read_dir().expect("a folder").map(|entry| entry.expect("one").path());
    let sst = sst.filter(|path| path.extension().is_some_and(|it| it == "sst")).max().expect("a file");
    let mut bytes = std::fs::read(&sst).expect("a file");
    bytes[3000] ^= 1;
    let len = bytes.len() as u64;
    std::fs::write(&sst, bytes).expect("written");
    store.served();
    seed(store.url(""), &y).arg(&["--update"]).succeeds();
    let came = store.served();
    assert!(came >= len && came < 2 * len, "{came} bytes came for one file of {len}");
    holds(&y, plain());
}

fn update_refuses_a_database_with_node_writes() {
    let place = Place::new();
    let to = published(&place, plain());
    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 4] = [
        ("in the WAL", |db| open(db).put(b"a key", b"a value").expect("written")),
        ("in a file", |db| {
            let node = open(db);
            node.put(b"a key", b"a value").expect("written");
            node.flush().expect("flushed");
        }),
        ("compacted", |db| {
            let mut anew = rust_rocksdb::CompactOptions::default();
            anew.set_bottommost_level_compaction(rust_rocksdb::BottommostLevelCompaction::Force);
            open(db).compact_range_opt(None::<&[u8]>, None::<&[u8]>, &anew);
        }),
        ("in a column family of its own", |db| {
            let mut node = open(db);
            node.create_cf("own", &rust_rocksdb::Options::default()).expect("made");
            node.put_cf(node.cf_handle("own").expect("there"), b"a key", b"a value").expect("written");
        }),
    ];
    for (how, spoil) in spoils {
        let y = place.path("y");
        seed(&to, &y).succeeds();
        spoil(&y);
        let refused = seed(&to, &y).arg(&["--update"]).refused(4, "a node has written to it");
        assert!(refused.text("/hint").contains("--replace"), "{how}: {refused:?}");
        assert!(y.join("CURRENT").exists(), "{how}");
        seed(&to, &y).arg(&["--replace"]).succeeds();
        holds(&y, plain());
        std::fs::remove_dir_all(&y).expect("a database");
    }
    // One that a node has only opened is as it was.
    let y = place.path("y");
    seed(&to, &y).succeeds();
    drop(open(&y));
    seed(&to, &y).arg(&["--update"]).succeeds();
    holds(&y, plain());
}

fn update_refuses_foreign_databases() {
    let place = Place::new();
    let to = published(&place, small());
    seed(&to, &place.path("none")).arg(&["--update"]).refused(4, "is not a database that bedload can update");
    assert!(!partial(&place.path("none")).exists());
    let folder = place.path("folder");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("a file"), b"of a user").expect("written");
    seed(&to, &folder).arg(&["--update"]).refused(4, "");
    assert!(folder.join("a file").exists());
    let y = place.path("y");
    seed(&to, &y).succeeds();
    std::fs::remove_file(y.join("BEDLOAD.json")).expect("there");
    seed(&to, &y).arg(&["--update"]).refused(4, "has no valid BEDLOAD.json");
    let other = Place::new();
    let both = imported(&other, small());
    let added = import(&other, &plain().file).args(&["--into-existing"]).run();
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    seed(&to, &both).arg(&["--update"]).refused(4, "records from before its import");
    let ended = seed(&to, &y).arg(&["--update", "--replace"]).run();
    assert_eq!(ended.code, Some(2));
}
