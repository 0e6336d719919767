//! `bedload export` of a block log: the log that was imported comes back, byte for byte where that can be, and else as the
//! same blocks.

use std::path::Path;

use crate::common::log::*;
use crate::common::log_export::{comes_back, comes_back_otherwise, export, output};
use crate::common::run::{Place, import, import_pipe};
use serde_json::Value;

#[test]
fn raw_logs_are_exported_unchanged() {
    let place = Place::in_memory();
    let mut logs = vec![raw(&steem(1, 3000, 1))];
    for version in 1..=4 {
        logs.push(antelope_log(version, &antelope(version, 1, 3000, 2)));
    }
    logs.push(antelope_log(3, &antelope(3, 701, 1500, 3)));
    logs.push(antelope_log(4, &antelope(4, 701, 1500, 3)));
    for log in &logs {
        comes_back(&place.file("log", log), log, &[]);
        let place = Place::in_memory();
        let done = import_pipe(&place, log.clone()).args(&["--memory", "16MiB"]).run();
        done.succeeded();
        let (report, bytes) = export(&place, &done.db, "back", &[]);
        assert!(&bytes == log);
        assert_eq!(report["log"]["identical"], true);
    }
}

#[test]
fn generated_logs_are_exported() {
    for profile in
        [&["steem"][..], &["antelope"], &["antelope", "--log-version", "4"], &["antelope", "--first-block", "77"]]
    {
        let place = Place::in_memory();
        let path = place.path("log");
        let mut args = vec!["generate", path.to_str().expect("text"), "--size", "1MiB", "--quiet", "--profile"];
        args.extend(profile);
        assert_eq!(output(&args).status.code(), Some(0));
        comes_back(&path, &std::fs::read(&path).expect("a log"), &[]);
    }
    let place = Place::in_memory();
    let path = place.path("log");
    output(&["generate", path.to_str().expect("text"), "--size", "1MiB", "--quiet", "--profile", "hive"]);
    let done = import(&place, &path).run();
    let (_, differs) = comes_back_otherwise(&place, &done, &[]);
    assert!(differs.ends_with("blocks were packed with zstd, and are raw now"), "{differs}");
}

#[test]
fn rearranged_logs_are_exported_raw() {
    let blocks = steem(1, 900, 4);
    let one = raw(&blocks);
    let place = Place::in_memory();
    let mixed = log(&blocks, |number| if number.is_multiple_of(3) { Packed::Zstd } else { Packed::Raw });
    let (bytes, differs) = comes_back_otherwise(&place, &import(&place, place.file("log", &mixed)).run(), &[]);
    assert!(bytes == one);
    assert_eq!(differs, "300 blocks were packed with zstd, and are raw now");

    let place = Place::in_memory();
    std::fs::create_dir(place.path("chain")).expect("a folder");
    place.file("chain/block_log_part.0001", &raw(&blocks[..400]));
    place.file("chain/block_log_part.0002", &raw(&blocks[400..]));
    let (bytes, differs) = comes_back_otherwise(&place, &import(&place, place.path("chain")).run(), &[]);
    assert!(bytes == one);
    assert_eq!(differs, "it was split into 2 files");

    let place = Place::in_memory();
    let torn = [&one[..], &[1; 300]].concat();
    let done = import(&place, place.file("log", &torn)).args(&["--tail", "trim"]).run();
    let (bytes, differs) = comes_back_otherwise(&place, &done, &[]);
    assert!(bytes == one);
    assert_eq!(differs, "it went on for 300 bytes behind its last whole block");

    let place = Place::in_memory();
    let blocks = antelope(3, 1, 500, 5);
    let mut pruned = antelope_log(3, &blocks);
    let kept = antelope_log(3, &blocks[300..]);
    pruned[3] |= 0x80;
    pruned.extend(200u32.to_le_bytes());
    let (bytes, differs) = comes_back_otherwise(&place, &import(&place, place.file("blocks.log", &pruned)).run(), &[]);
    assert!(bytes == kept);
    assert_eq!(differs, "it was pruned");
}

#[test]
fn range_of_a_log_is_exported() {
    let blocks = steem(1, 900, 6);
    let place = Place::in_memory();
    let done = import(&place, place.file("log", &raw(&blocks))).run();
    let (report, bytes) = export(&place, &done.db, "back", &["--from", "200", "--to", "300"]);
    assert!(bytes == raw(&blocks[199..300]));
    assert_eq!((&report["selection"], &report["all_records"]), (&"range".into(), &false.into()));
    assert_eq!(report["log"]["differs"][0], "only a part of its blocks is here");
    // What was imported as a part knows so.
    let place = Place::in_memory();
    let done = import(&place, place.file("log", &raw(&blocks))).args(&["--from", "200", "--to", "300"]).run();
    let (bytes, differs) = comes_back_otherwise(&place, &done, &[]);
    assert!(bytes == raw(&blocks[199..300]));
    assert_eq!(differs, "only a part of its blocks is here");

    for version in 1..=4 {
        let blocks = antelope(version, 1, 500, 7);
        let place = Place::in_memory();
        let done = import(&place, place.file("log", &antelope_log(version, &blocks))).run();
        let (report, bytes) = export(&place, &done.db, "back", &["--from", "101"]);
        let version = version.max(2);
        assert_eq!(report["log"]["version"], version);
        // Version 2 has its genesis state wherever it begins.
        if version > 2 {
            assert!(bytes == antelope_log(version, &blocks[100..]), "version {version}");
        }
        let again = Place::in_memory();
        let again = import(&again, place.path("back")).run();
        holds(&again, &blocks[100..]);
        assert_eq!(again.text("/log/chain_id"), done.text("/log/chain_id"));
        let (_, bytes) = export(&place, &done.db, "back", &["--to", "101"]);
        assert!(bytes == antelope_log(done.number("/source/version") as u32, &blocks[..101]));
    }
}

#[test]
fn log_is_exported_to_stdout_and_zstd() {
    let log = raw(&steem(1, 500, 8));
    let place = Place::in_memory();
    let done = import(&place, place.file("log", &log)).run();
    let output = output(&["export", "--db", done.db.to_str().expect("text"), "-"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == log);
    let summary = String::from_utf8(output.stderr).expect("text");
    assert!(summary.contains("byte for byte the log that was imported"), "{summary}");
    let (report, bytes) = export(&place, &done.db, "back.zst", &[]);
    assert_eq!((&report["format"], &report["car_bytes"]), (&"log.zst".into(), &log.len().into()));
    assert!(bytes.len() < log.len() && zstd::decode_all(&bytes[..]).expect("zstd") == log);
    comes_back(&place.path("back.zst"), &log, &[]);
}

/// Exports what cannot be: the exit code and the words, and nothing under the file's name.
#[track_caller]
fn refused(place: &Place, db: &Path, more: &[&str], code: i32, words: &str) {
    let to = place.path("never");
    let args = ["export", "--db", db.to_str().expect("text"), to.to_str().expect("text")];
    let output = output(&[&args[..], more].concat());
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{more:?}: {stderr}");
    assert!(stderr.contains(words) && stderr.contains("hint: "), "{more:?}: {stderr}");
    assert!(!to.exists());
}

#[test]
fn damaged_database_is_not_exported() {
    let (blocks, others) = (steem(1, 300, 9), steem(1, 300, 10));
    let spoiled = |spoil: &dyn Fn(&rust_rocksdb::DB), words: &str| {
        let place = Place::in_memory();
        let db = import(&place, place.file("log", &raw(&blocks))).run().db;
        let options = rust_rocksdb::Options::default();
        let open = rust_rocksdb::DB::open_cf(&options, &db, ["default", "block_ids"]).expect("a database");
        spoil(&open);
        open.flush().expect("flushed");
        drop(open);
        refused(&place, &db, &[], 3, words);
    };
    let key = |number: u32| number.to_be_bytes();
    spoiled(&|db| db.delete(key(150)).expect("deleted"), "no block 150 found");
    spoiled(&|db| db.delete(key(300)).expect("deleted"), "no block 300 found");
    spoiled(&|db| db.put(key(150), b"none").expect("put"), "a block 150 that is none (the block ends inside");
    spoiled(&|db| db.put(key(150), &others[149].bytes).expect("put"), "a block 150 that does not follow block 149");
    spoiled(&|db| db.put(key(150), &blocks[150].bytes).expect("put"), "block 151 under the number 150");
    // The last block's transactions, which no id covers.
    let longer = [&blocks[299].bytes[..], b"more"].concat();
    spoiled(&|db| db.put(key(300), &longer).expect("put"), "other blocks than the import wrote");
    let place = Place::in_memory();
    let db = import(&place, place.file("log", &raw(&blocks))).run().db;
    let files = std::fs::read_dir(&db).expect("a folder").map(|entry| entry.expect("an entry").path());
    for sst in files.filter(|path| path.extension().is_some_and(|ending| ending == "sst")) {
        let mut bytes = std::fs::read(&sst).expect("read");
        (100..bytes.len().min(5000)).for_each(|at| bytes[at] ^= 0x55);
        std::fs::write(&sst, bytes).expect("written");
    }
    let output = output(&["export", "--db", db.to_str().expect("text"), place.path("never").to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!place.path("never").exists());
}

#[test]
fn export_options_without_effect_are_refused() {
    let place = Place::in_memory();
    let db = import(&place, place.file("log", &raw(&steem(1, 100, 11)))).run().db;
    for more in [
        &["--all"][..],
        &["--root", "bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu"],
        &["--cids", "-"],
        &["--allow-missing"],
        &["--allow-missing-below", "7"],
        &["--format", "car"],
        &["--key", "cid"],
        &["--column-family", "default"],
    ] {
        refused(&place, &db, more, 2, "has no effect on the export of a block log");
    }
    refused(&place, &db, &["--from", "101"], 2, "block 101 is not in the database: it has blocks 1 to 100");
    refused(&place, &db, &["--from", "9", "--to", "8"], 2, "--from is behind --to");
    let car = Place::in_memory();
    let db = import(&car, car.file("some.car", &crate::common::car::rooted(&[crate::common::car::block(b"a block")])))
        .run()
        .db;
    for more in [&["--from", "1"][..], &["--to", "1"], &["--format", "log"]] {
        refused(&car, &db, more, 2, "has no effect on the export of a CAR");
    }
}

#[test]
fn record_without_the_head_is_refused() {
    let place = Place::in_memory();
    let db = import(&place, place.file("log", &antelope_log(3, &antelope(3, 1, 100, 12)))).run().db;
    let path = db.join("BEDLOAD.json");
    let record: Value = serde_json::from_slice(&std::fs::read(&path).expect("a record")).expect("JSON");
    for (head, words) in [
        (Value::Null, "BEDLOAD.json has no head of it"),
        ("0300zz".into(), "BEDLOAD.json has no head of it"),
        ("03000000".into(), "the head of the log cannot be right: the log ends inside it"),
        (format!("{}00", record["log"]["layout"]["head"].as_str().expect("hex")).into(), "goes on behind its end"),
    ] {
        let mut spoiled = record.clone();
        spoiled["log"]["layout"]["head"] = head;
        std::fs::write(&path, spoiled.to_string()).expect("written");
        refused(&place, &db, &[], 4, words);
    }
    let mut old = record;
    old["log"].as_object_mut().expect("fields").shift_remove("layout");
    std::fs::write(&path, old.to_string()).expect("written");
    refused(&place, &db, &[], 4, "its log cannot be written again: the import did not record its head");
}
