//! `bedload stat`: levels, sizes, options, the import's record.

use super::{made, on};
use crate::common::database::{json, open, ssts};
use predicates::str::contains;
use serde_json::Value;

#[test]
fn stat_agrees_with_the_import_record() {
    let (_dir, _car, db) = made("3MiB", &[]);
    let report = json(&["stat"], &db, &[], 0);
    assert_eq!(report["schema"], "bedload-stat-1");
    let family = &report["column_families"][0];
    let import = &report["import"];
    assert_eq!(import["schema"], "bedload-import-6");
    assert_eq!(family["name"], "default");
    assert_eq!(family["levels"], import["levels"]);
    assert_eq!(family["entries"], import["blocks"]["written"]);
    let entries = family["entries"].as_u64().expect("a count");
    let filter = family["filter_bytes"].as_u64().expect("a size");
    assert!((entries..2 * entries).contains(&filter), "ten bits a key: {filter} for {entries}");
    assert!(family["index_bytes"].as_u64() > Some(0));
    assert_eq!((&family["records"], &family["digest"]), (&Value::Null, &Value::Null), "not measured is null");
    let options = family["options"].as_array().expect("options");
    let block_size = options.iter().find(|option| option["option"] == "table.block_size").expect("block size");
    assert_eq!((&block_size["value"], &block_size["default"]), (&"16384".into(), &"4096".into()));
    assert!(options.iter().all(|option| option["value"] != option["default"]));
    on(&db, &["stat"])
        .success()
        .stdout(contains("column family default\n  entries   "))
        .stdout(contains("table.block_size = 16384 (default 4096)\n"));
    let report = json(&["stat"], &db, &["--digest"], 0);
    let family = &report["column_families"][0];
    assert_eq!((&family["digest"], &family["payload_bytes"]), (&import["digest"], &import["payload_bytes"]));
    assert_eq!(family["records"], import["blocks"]["written"]);
    open(&db).put(b"one more", b"record").expect("put");
    let report = json(&["stat"], &db, &["--digest"], 0);
    let more = &report["column_families"][0];
    assert_ne!(more["digest"], import["digest"]);
    assert_eq!(more["records"].as_u64(), import["blocks"]["written"].as_u64().map(|count| count + 1));
}

/// The bug: it had 0 entries, and no warning.
#[test]
fn stat_warns_of_a_missing_file() {
    let (_dir, _car, db) = made("3MiB", &[]);
    std::fs::remove_file(&ssts(&db)[0]).expect("removed");
    let report = json(&["stat"], &db, &[], 0);
    assert_eq!(report["warnings"][0]["id"], "unreadable-files", "{report}");
    let remedy = format!("bedload verify {} names them", db.display());
    assert_eq!(report["warnings"][0]["remedy"], remedy);
    on(&db, &["stat"]).success().stdout(contains("  entries   unknown\n"));
}
