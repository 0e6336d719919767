//! `bedload verify` on databases that a node has used: added records are distinguished from damage.

use std::path::Path;

use super::verdicts::compact;
use super::{kinds, made, made_log, on, other, put, verify};
use crate::common::car::noise;
use crate::common::database::{bedload, import, open, open_all, some_keys};
use crate::common::log::{antelope_log, delayed};
use predicates::str::{contains, ends_with};
use rust_rocksdb::{DB, IteratorMode};
use serde_json::Value;

/// Identity CIDs of small numbers in dag-cbor: valid records that no generated snapshot has.
fn added(number: u8) -> ([u8; 5], [u8; 1]) {
    ([1, 0x71, 0, 1, number], [number])
}

fn add(db: &Path, numbers: std::ops::Range<u8>) {
    put(db, numbers.map(added));
}

/// The number of records beyond the recorded ones, and true if all of the import are confirmed.
fn recorded(report: &Value) -> (u64, bool) {
    let recorded = &report["recorded"];
    (recorded["more_than_recorded"].as_u64().expect("a number"), recorded["confirmed"].as_bool().expect("a boolean"))
}

#[test]
fn records_added_by_a_node_are_valid() {
    let (_dir, car, db) = made("1MiB", &[]);
    let car = &*car;
    assert_eq!(recorded(&verify(&db, &[], 0)), (0, true));
    add(&db, 0..3);
    // The three are in the WAL only, the import's files are as they were.
    assert_eq!(recorded(&verify(&db, &[], 0)), (3, true));
    on(&db, &["verify"]).success().stdout(contains(
        "since     written to since the import: 3 records more than recorded; no record of the import is missing\n",
    ));
    open(&db).flush().expect("flushed");
    assert_eq!(recorded(&verify(&db, &[], 0)), (3, true), "in a new file");
    // Nothing is left to tell from once a compaction has written the import's files anew.
    compact(&db);
    assert_eq!(recorded(&verify(&db, &[], 1)), (3, false));
    on(&db, &["verify", "--allow-extra"]).success().stdout(contains(
        "since     written to since the import: 3 records more than recorded; records of the import may be missing\n",
    ));

    let report = verify(&db, &["--against", car], 3);
    assert_eq!(kinds(&report), ["extra"]);
    assert_eq!(report["against"]["extra"], 3);
    on(&db, &["verify", "--against", car]).code(3).stderr(contains(
        "3 problems found\nhint: a program or an earlier import may have written these records: --allow-extra accepts them\n",
    ));

    let report = verify(&db, &["--against", car, "--allow-extra"], 0);
    assert_eq!(report["against"]["extra"], 3);
    assert_eq!(report["against"]["imported"], true);
    assert_eq!(report["against"]["digest"], report["recorded"]["digest"]);
    assert_eq!(report["recorded"]["confirmed"], true);
    let compared = "3 records more than recorded; no record of the import is missing";
    on(&db, &["verify", "--allow-extra", "--against", car]).success().stdout(contains(compared));
}

/// The bug: all records counted as added ones, so a count of none was called damage.
#[test]
fn used_database_of_blocks_matches_its_copy() {
    let (dir, _, db) = made("1MiB", &[]);
    let copy = dir.path().join("copy");
    bedload().arg("import").arg(&db).arg("--db").arg(&copy).arg("--quiet").assert().success();
    add(&db, 0..3);
    let report = verify(&db, &["--against", copy.to_str().expect("text"), "--allow-extra"], 0);
    assert_eq!((&report["verdict"], recorded(&report)), (&"confirmed".into(), (3, true)));
}

/// The bug: the comparison with another database called a sound one damaged.
#[test]
fn database_of_blocks_differs_from_another_one() {
    let (dir, _, db) = made("1MiB", &[]);
    let other = dir.path().join("other");
    bedload().arg("import").arg(&db).arg("--db").arg(&other).arg("--quiet").assert().success();
    add(&other, 0..1);
    let against = ["--against", other.to_str().expect("text")];
    assert_eq!(verify(&db, &against, 3)["verdict"], "differs");
    add(&db, 1..2);
    assert_eq!(verify(&db, &against, 3)["verdict"], "differs");
    let car = super::other(&dir, "512KiB");
    assert_eq!(verify(&db, &["--against", car.to_str().expect("text")], 3)["verdict"], "differs");
    let lost = some_keys(&db, 3).pop().expect("a key");
    open(&db).delete(lost).expect("deleted");
    assert_eq!(verify(&db, &[], 3)["verdict"], "damaged");
}

/// The bug: blocks in another column family were called lost, because the digest of blocks is the same there.
#[test]
fn blocks_in_another_family_differ() {
    let (dir, car, db) = made("256KiB", &[]);
    let other = dir.path().join("other");
    let family = ["--column-family", "blocks", "--quiet"];
    bedload().arg("import").arg(&car).arg("--db").arg(&other).args(family).assert().success();
    let differs = |db: &Path| {
        let report = verify(db, &["--against", other.to_str().expect("text")], 3);
        assert_eq!((&report["verdict"], &report["against"]["imported"]), (&"differs".into(), &false.into()));
    };
    differs(&db);
    // The bug: the family did not count if the database had blocks before.
    let (dir, _, db) = made("128KiB", &[]);
    import(dir.path(), Path::new(&car), &["--into-existing"]);
    differs(&db);
}

/// The bug: a database that had blocks before the import was called damaged if another one had a block more.
#[test]
fn database_with_earlier_blocks_differs() {
    let (dir, _, db) = made("256KiB", &[]);
    let (more, copy) = (other(&dir, "128KiB"), dir.path().join("copy"));
    import(dir.path(), &more, &["--into-existing"]);
    bedload().arg("import").arg(&db).arg("--db").arg(&copy).arg("--quiet").assert().success();
    add(&copy, 0..1);
    assert_eq!(verify(&db, &["--against", copy.to_str().expect("text")], 3)["verdict"], "differs");
    let lost = some_keys(&db, 9).pop().expect("a key");
    open(&db).delete(lost).expect("deleted");
    assert_eq!(verify(&db, &["--against", more.to_str().expect("text"), "--allow-extra"], 3)["verdict"], "damaged");
}

/// The bug: a comparison with blocks that are all there confirmed a database that had lost the imported ones.
#[test]
fn other_source_does_not_confirm_added_blocks() {
    let (dir, car, db) = made("256KiB", &[]);
    let earlier = some_keys(&db, usize::MAX);
    let more = other(&dir, "128KiB");
    import(dir.path(), &more, &["--into-existing"]);
    let more = more.to_str().expect("text");
    let against = |source: &str| verify(&db, &["--against", source, "--allow-extra"], 0)["verdict"].clone();
    assert_eq!((against(more), against(&car)), ("confirmed".into(), "intact".into()));
    let lost = some_keys(&db, usize::MAX).into_iter().find(|key| !earlier.contains(key)).expect("an imported one");
    open(&db).delete(lost).expect("deleted");
    assert_eq!(against(&car), "intact");
}

#[test]
fn lost_record_among_added_ones_is_unconfirmed() {
    let (_dir, car, db) = made("1MiB", &[]);
    let lost = some_keys(&db, 3).pop().expect("a key");
    open(&db).delete(lost).expect("deleted");
    assert_eq!(kinds(&verify(&db, &[], 3)), ["count", "digest"]);
    let told = |more: &[&str]| {
        let said = bedload().arg("verify").arg(&db).args(more).assert().code(3).get_output().stderr.clone();
        String::from_utf8(said).expect("text")
    };
    let hint = "hint: a program has deleted records (--against SNAPSHOT lists them): no file is damaged, ";
    assert!(told(&[]).contains(hint) && !told(&[]).contains("dmesg"), "{}", told(&[]));
    assert!(told(&["--against", &car]).contains("hint: a program has deleted records: no file"));
    add(&db, 0..1);
    assert_eq!(kinds(&verify(&db, &[], 3)), ["digest"]);
    add(&db, 1..3);
    // Two more than recorded are all that can be said, and nothing is confirmed: not while a deletion is in the WAL,
    // nor in a file, nor when a compaction has dropped it.
    assert_eq!(recorded(&verify(&db, &[], 1)), (2, false));
    open(&db).flush().expect("flushed");
    assert_eq!(recorded(&verify(&db, &[], 1)), (2, false));
    open(&db).compact_range(None::<&[u8]>, None::<&[u8]>);
    assert_eq!(recorded(&verify(&db, &[], 1)), (2, false));
    let report = verify(&db, &["--against", &car, "--allow-extra"], 3);
    assert_eq!(kinds(&report), ["count", "digest", "missing"]);
    assert_eq!(report["recorded"]["confirmed"], false);
}

#[test]
fn unexplained_extra_records_are_damage() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let options = |db: &Path| -> Vec<std::path::PathBuf> {
        let files = db.read_dir().expect("list").map(|entry| entry.expect("entry").path());
        let mut files: Vec<_> = files.filter(|file| file.to_string_lossy().contains("/OPTIONS-")).collect();
        files.sort();
        files
    };
    let imported = options(&db);
    add(&db, 0..1);
    let newer: Vec<_> = options(&db).into_iter().filter(|file| !imported.contains(file)).collect();
    assert_eq!(newer.len(), 1);
    verify(&db, &[], 0);
    let text = std::fs::read(&newer[0]).expect("read");
    std::fs::remove_file(&newer[0]).expect("removed");
    assert_eq!(kinds(&verify(&db, &[], 3)), ["count", "digest"]);
    std::fs::write(&newer[0], text).expect("restored");
    put(&db, [(added(7).0, [8])]);
    let report = verify(&db, &[], 3);
    assert_eq!(kinds(&report), ["count", "digest", "hash"]);
    assert_eq!(report["recorded"]["more_than_recorded"], 0);
}

#[test]
fn verify_names_a_wrong_snapshot() {
    let (dir, car, db) = made("1MiB", &[]);
    let other = other(&dir, "1MiB").display().to_string();
    let digest = verify(&db, &[], 0)["digest"].as_str().expect("a digest").to_owned();
    let report = verify(&db, &["--against", &other, "--allow-extra"], 3);
    assert_eq!(kinds(&report), ["missing", "source"]);
    let of_other = report["against"]["digest"].as_str().expect("a digest");
    assert_eq!(
        report["problems"]["first"][0]["message"],
        format!("the database was imported from {car}, digest {digest}, not from {other}, digest {of_other}")
    );
    on(&db, &["verify", "--against", &other])
        .code(3)
        .stdout(ends_with("verdict   differs: it was compared with a source other than the imported one\n"))
        .stderr(contains(format!(
            "hint: give --against what the database was imported from (several sources in their order): {car}; if that is what you gave, it has changed since\n"
        )));
    // The bug: without the record, intact records of another snapshot were called damaged.
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    on(&db, &["verify", "--against", &other]).code(3).stdout(ends_with(
        "verdict   differs: records are missing or have other values; without BEDLOAD.json, the imported source is unknown\n",
    ));
}

#[test]
fn blocks_added_to_a_log_are_counted() {
    let indexes = ["--indexes", "ids,transactions"];
    let (_dir, log, whole) = made_log("1MiB", &indexes);
    let dir = tempfile::tempdir().expect("a directory");
    let part = import(dir.path(), &log, &[&indexes[..], &["--to", "50"]].concat());
    let (from, families) = open_all(&whole);
    let (node, _) = open_all(&part);
    for name in families {
        let (from_family, to_family) =
            (from.cf_handle(&name).expect("a family"), node.cf_handle(&name).expect("a family"));
        for record in from.iterator_cf(from_family, IteratorMode::Start) {
            let (key, value) = record.expect("read");
            if node.get_cf(to_family, &key).expect("read").is_none() {
                node.put_cf(to_family, key, value).expect("put");
            }
        }
    }
    drop(node);
    let all = from.iterator(IteratorMode::Start).count();
    assert_eq!(recorded(&verify(&part, &[], 0)), (all as u64 - 50, true));
    // A block of the import that is gone stays a problem, however many were added.
    let (node, _) = open_all(&part);
    node.delete(20u32.to_be_bytes()).expect("deleted");
    drop(node);
    let report = verify(&part, &[], 3);
    assert!(kinds(&report).contains(&"link") && kinds(&report).contains(&"digest"), "{report:#}");
    assert_eq!(report["recorded"]["confirmed"], false);
}

#[test]
fn repeated_transaction_in_added_block_is_valid() {
    let (imported, all, every) = (30u32, 60u32, 25);
    let id = |number: u32| noise(u64::from(number % every), 32);
    let blocks = delayed(all, every);
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("blocks.log");
    std::fs::write(&log, antelope_log(2, &blocks[..imported as usize])).expect("written");
    for overwrites in [false, true] {
        let db = import(dir.path(), &log, &["--indexes", "ids,transactions"]);
        let (node, _) = open_all(&db);
        let (ids, transactions) =
            (node.cf_handle("block_ids").expect("ids"), node.cf_handle("transactions").expect("transactions"));
        for block in &blocks[imported as usize..] {
            let number = block.number.to_be_bytes();
            node.put(number, &block.bytes).expect("put");
            node.put_cf(ids, &block.id, number).expect("put");
            if overwrites || node.get_cf(transactions, id(block.number)).expect("read").is_none() {
                node.put_cf(transactions, id(block.number), [number, [0; 4]].concat()).expect("put");
            }
        }
        drop(node);
        assert_eq!(recorded(&verify(&db, &[], 0)), (u64::from(all - imported), true), "{overwrites}");
        // A place where no block names it; then no place at all.
        let edit = |edit: &dyn Fn(&DB, &rust_rocksdb::ColumnFamily)| {
            let (node, _) = open_all(&db);
            edit(&node, node.cf_handle("transactions").expect("transactions"));
        };
        let place_of = |id: u32| [id.to_be_bytes(), [0; 4]].concat();
        let right = std::cell::RefCell::new(Vec::new());
        edit(&|node, family| {
            right.replace(node.get_cf(family, id(7)).expect("read").expect("there"));
            node.put_cf(family, id(7), place_of(8)).expect("put");
        });
        assert_eq!(kinds(&verify(&db, &[], 3)), ["index"], "{overwrites}");
        edit(&|node, family| {
            node.put_cf(family, id(7), right.take()).expect("put");
            node.delete_cf(family, id(9)).expect("deleted");
        });
        assert_eq!(kinds(&verify(&db, &[], 3)), ["index"], "{overwrites}");
        std::fs::remove_dir_all(&db).expect("removed");
    }
}
