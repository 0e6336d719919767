//! `bedload walk`: which blocks the roots lead to, which are missing and which nothing leads to.

use super::{made, put, text};
use crate::common::car;
use crate::common::database::{bedload, import, json, open, some_keys, walk};
use cid::Cid;
use serde_json::Value;

#[test]
fn walk_lists_missing_and_unreachable_blocks() {
    let (_dir, _car, db) = made("2MiB", &[]);
    let whole = walk(&db, &[], 0);
    let lost = some_keys(&db, 2).pop().expect("a key");
    let unlinked = [1, 0x71, 0, 1, 0x80];
    open(&db).delete(&lost).expect("delete");
    put(&db, [(unlinked, [0x80])]);
    let report = walk(&db, &[], 3);
    assert_eq!(report["missing"], 1);
    let missing = &report["first_missing"][0];
    assert_eq!(missing["cid"], text(&lost));
    let parent = Cid::try_from(missing["parent"].as_str().expect("a parent")).expect("a CID").to_bytes();
    let block = open(&db).get(parent).expect("read").expect("the parent is there");
    assert!(block.windows(lost.len()).any(|window| window == lost), "the parent has the link");
    // Blocks that only the lost block links to are unreachable too. The unlinked block replaces it in the count.
    let listed = report["first_unreachable"].as_array().expect("a list");
    assert!(listed.iter().any(|key| *key == text(&unlinked)), "{report:#}");
    let count = |report: &Value, name: &str| report[name].as_u64().expect("a count");
    assert_eq!(count(&report, "unreachable") + count(&report, "reachable"), count(&whole, "reachable"));
}

/// The bug: without a record the blocks were counted again for `unreachable`, and the progress added both counts.
#[test]
fn walk_progress_counts_each_block_once() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let root = walk(&db, &[], 0)["roots"][0].as_str().expect("a root").to_owned();
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    let output = bedload().arg("walk").arg(&db).args(["--root", &root, "--progress", "lines"]).output().expect("run");
    let [text, progress] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    let reachable = text.lines().find_map(|line| line.strip_prefix("reachable   ")).expect("a row");
    let (count, _) = reachable.split_once(", up to ").expect("a count and a size");
    assert!(progress.contains(&format!("  {count}, ")), "{count}: {progress}");
}

#[test]
fn overlong_link_is_counted_as_malformed() {
    let dir = tempfile::tempdir().expect("a directory");
    let leaf = car::block(b"a block that only the long link leads to");
    let inside = [&[0x82, 0x5a, 0, 1, 0x10, 0][..], &vec![7; 0x1_1000], &car::link(&leaf.0)].concat();
    let (long, _) = car::identity(0x71, &inside);
    let root = car::blake(0x71, &[&[0x81][..], &car::link(&long)].concat());
    let path = dir.path().join("long.car");
    std::fs::write(&path, car::car(std::slice::from_ref(&root.0), &[root.clone(), leaf])).expect("write");
    let db = import(dir.path(), &path, &[]);
    for memory in ["32MiB", "1GiB"] {
        let report = json(&["walk"], &db, &["--memory", memory], 0);
        assert_eq!(["malformed", "reachable", "unreachable"].map(|name| report[name].as_u64()), [Some(1); 3]);
        let out = dir.path().join(format!("{memory}.car"));
        let file = out.to_str().expect("text");
        let report = json(&["export", file], &db, &["--memory", memory], 0);
        assert_eq!((&report["malformed"], &report["blocks"]), (&1.into(), &1.into()), "{report:#}");
    }
}
