//! Updates of seeded databases: existing files are not fetched again, and records of a node are kept.

use std::path::Path;

use crate::common::bundle::*;
use crate::common::car::{block, noise};
use crate::common::crash::{Snapshot, plain, small};
use crate::common::database::{flip, open, ssts};
use crate::common::run::{Place, import};
use crate::common::store::Store;

/// The blocks of [`plain`] and one more.
fn newer() -> Snapshot {
    let more = block(&noise(900_000, 700));
    Snapshot::plain("newer.car", plain().blocks.iter().cloned().chain([more]))
}

#[test]
fn update_fetches_only_changed_files() {
    let (place, to, y) = bundled(plain());
    seed(&to, &y).succeeds();
    let (first, newer, other) = (latest(&to), newer(), Place::in_memory());
    bundle(&imported(&other, &newer), &to).succeeds();
    let store = Store::of(&to);
    let fresh = seed(store.url(""), &place.path("z")).succeeds();
    let whole = store.served();
    let refused = seed(store.url(""), &y).refused(4, "already exists");
    assert!(refused.hint().contains(" --update,") && !refused.hint().contains("--into-existing"), "{refused:?}");
    store.served();
    let updated = seed(store.url(""), &y).args(&["--update"]).seeds(&newer);
    is_valid(&y);
    let came = store.served();
    assert!(came < whole / 2, "{came} of {whole} bytes came");
    assert_eq!(updated.text("/digest"), newer.digest);
    for field in ["digest", "blocks", "source", "options", "levels", "preset", "part"] {
        assert_eq!(updated.json[field], fresh.json[field], "{field}");
    }
    assert_eq!(bundle(&y, &to).succeeds().text("/id"), latest(&to));
    // A second update to this bundle fetches only its description.
    store.served();
    seed(store.url(""), &y).args(&["--update"]).seeds(&newer);
    assert!(store.served() < 100_000);
    // And back. Python's rocksdict leaves its settings in a database that it has opened.
    std::fs::write(y.join("rocksdict-config.json"), "{}").expect("written");
    seed(&to, &y).args(&["--update", "--bundle", &first]).seeds(plain());
    // A damaged file is fetched again.
    let len = flip(&ssts(&y).pop().expect("a file"), 3000, 1).len() as u64;
    store.served();
    seed(store.url(""), &y).args(&["--update", "--bundle", &first]).seeds(plain());
    let came = store.served();
    assert!(came >= len && came < 2 * len, "{came} bytes came for one file of {len}");
}

type Write = fn(&Path);

/// Writes of a node to an imported database.
pub const NODE_WRITES: [(&str, Write); 4] = [
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
    ("in a new column family", |db| {
        let mut node = open(db);
        node.create_cf("own", &rust_rocksdb::Options::default()).expect("made");
        node.put_cf(node.cf_handle("own").expect("there"), b"a key", b"a value").expect("written");
    }),
];

#[test]
fn update_refuses_a_database_with_node_writes() {
    let (_place, to, y) = bundled(small());
    seed(&to, &y).succeeds();
    for (how, write) in NODE_WRITES {
        write(&y);
        let refused = seed(&to, &y).args(&["--update"]).refused(4, "a node has written to it");
        assert!(refused.text("/hint").contains("--replace"), "{how}: {refused:?}");
        assert!(y.join("CURRENT").exists(), "{how}");
        seed(&to, &y).args(&["--replace"]).succeeds();
    }
    // One that a node has only opened is as it was.
    drop(open(&y));
    seed(&to, &y).args(&["--update"]).seeds(small());
}

#[test]
fn update_refuses_foreign_databases() {
    let (place, to, y) = bundled(small());
    let update = |db: &Path| seed(&to, db).args(&["--update"]);
    update(&place.path("none")).refused_at_once(4, "is not a database that bedload can update");
    let folder = place.dir("folder");
    std::fs::write(folder.join("a file"), b"of a user").expect("written");
    update(&folder).refused(4, "");
    assert!(folder.join("a file").exists());
    seed(&to, &y).succeeds();
    std::fs::remove_file(y.join("BEDLOAD.json")).expect("there");
    update(&y).refused(4, "has no valid BEDLOAD.json");
    let other = Place::in_memory();
    let both = imported(&other, small());
    import(&other, &plain().file).args(&["--into-existing"]).succeeds();
    update(&both).refused(4, "records from before its import");
    assert_eq!(update(&y).args(&["--replace"]).run().code, Some(2));
}
