//! `bedload export` of a block log: the log that was imported comes back, byte for byte where that can be, and else as the
//! same blocks.

use std::path::Path;

use crate::block_log::imported;
use crate::common::crash::copy;
use crate::common::database::{open_all, ssts};
use crate::common::log::*;
use crate::common::log_export::{comes_back, comes_back_otherwise, export, output};
use crate::common::run::{Place, import, import_pipe};
use serde_json::Value;

#[test]
fn raw_logs_are_exported_unchanged() {
    let place = Place::in_memory();
    let mut logs = vec![raw(&steem(1, 1000, 1))];
    for (version, first, last) in
        [(1, 1, 1000), (2, 1, 1000), (3, 1, 1000), (4, 1, 1000), (3, 701, 1500), (4, 701, 1500)]
    {
        logs.push(antelope_log(version, &antelope(version, first, last, 2)));
    }
    for (number, log) in logs.iter().enumerate() {
        comes_back(&place.file("log", log), log, &[]);
        if number % 2 == 1 {
            continue;
        }
        let place = Place::in_memory();
        let done = import_pipe(&place, log.clone()).args(&["--memory", "16MiB"]).succeeds();
        let (report, bytes) = export(&place, &done.db, "back", &[]);
        assert!(&bytes == log);
        assert_eq!(report["log"]["identical"], true);
    }
}

#[test]
fn rearranged_logs_are_exported_raw() {
    let blocks = steem(1, 900, 4);
    let one = raw(&blocks);
    let mixed = log(&blocks, |number| if number.is_multiple_of(3) { Packed::Zstd } else { Packed::Raw });
    let torn = [&one[..], &[1; 300]].concat();
    let antelope = antelope(3, 1, 500, 5);
    let mut pruned = antelope_log(3, &antelope);
    pruned[3] |= 0x80;
    pruned.extend(200u32.to_le_bytes());
    let split = Place::in_memory();
    std::fs::create_dir(split.path("chain")).expect("a folder");
    split.file("chain/block_log_part.0001", &raw(&blocks[..400]));
    split.file("chain/block_log_part.0002", &raw(&blocks[400..]));
    let done = import(&split, split.path("chain")).run();
    for ((place, done), exported, reason) in [
        (imported(&mixed, &[]), &one, "300 blocks were compressed with zstd and are raw now"),
        ((split, done), &one, "it was split into 2 files"),
        (imported(&torn, &["--tail", "trim"]), &one, "300 bytes followed its last complete block"),
        (imported(&pruned, &[]), &antelope_log(3, &antelope[300..]), "it was pruned"),
    ] {
        let (bytes, differs) = comes_back_otherwise(&place, &done, &[]);
        assert!(bytes == *exported, "{reason}");
        assert_eq!(differs, reason);
    }
}

#[test]
fn range_of_a_log_is_exported() {
    let blocks = steem(1, 900, 6);
    let range = ["--from", "200", "--to", "300"];
    let (place, done) = imported(&raw(&blocks), &[]);
    let (report, bytes) = export(&place, &done.db, "back", &range);
    assert!(bytes == raw(&blocks[199..300]));
    assert_eq!((&report["selection"], &report["all_records"]), (&"range".into(), &false.into()));
    assert_eq!(report["log"]["differs"][0], "only some of its blocks are exported");
    // The database of a part knows that it is one.
    let (place, done) = imported(&raw(&blocks), &range);
    let (bytes, differs) = comes_back_otherwise(&place, &done, &[]);
    assert!(bytes == raw(&blocks[199..300]));
    assert_eq!(differs, "only some of its blocks are exported");

    for version in 1..=4 {
        let blocks = antelope(version, 1, 500, 7);
        let (place, done) = imported(&antelope_log(version, &blocks), &[]);
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
    let (place, done) = imported(&log, &[]);
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
    // The last block's transactions, which no id covers.
    let longer = [&blocks[299].bytes[..], b"more"].concat();
    let (place, done) = imported(&raw(&blocks), &[]);
    for (number, bytes, words) in [
        (150u32, None, "no block 150 found"),
        (300, None, "no block 300 found"),
        (150, Some(&b"none"[..]), "an invalid block 150 (the block ends inside"),
        (150, Some(&others[149].bytes), "a block 150 that does not follow block 149"),
        (150, Some(&blocks[150].bytes), "block 151 under the number 150"),
        (300, Some(&longer), "blocks other than those of the import"),
    ] {
        let damaged = place.path("damaged");
        copy(&done.db, &damaged);
        let (db, _) = open_all(&damaged);
        match bytes {
            Some(bytes) => db.put(number.to_be_bytes(), bytes).expect("put"),
            None => db.delete(number.to_be_bytes()).expect("deleted"),
        }
        db.flush().expect("flushed");
        drop(db);
        refused(&place, &damaged, &[], 3, words);
        std::fs::remove_dir_all(&damaged).expect("removed");
    }
    for sst in ssts(&done.db) {
        let mut bytes = std::fs::read(&sst).expect("read");
        (100..bytes.len().min(5000)).for_each(|at| bytes[at] ^= 0x55);
        std::fs::write(&sst, bytes).expect("written");
    }
    refused(&place, &done.db, &[], 3, "");
}

#[test]
fn export_options_without_effect_are_refused() {
    let (place, done) = imported(&raw(&steem(1, 100, 11)), &[]);
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
        refused(&place, &done.db, more, 2, "has no effect on the export of a block log");
    }
    let words = "block 101 is not in the database: it has blocks 1 to 100";
    refused(&place, &done.db, &["--from", "101"], 2, words);
    refused(&place, &done.db, &["--from", "9", "--to", "8"], 2, "the first block is after the last block");
    let (place, done) = imported(&crate::common::car::rooted(&[crate::common::car::block(b"a block")]), &[]);
    for more in [&["--from", "1"][..], &["--to", "1"], &["--format", "log"]] {
        refused(&place, &done.db, more, 2, "has no effect on the export of a CAR");
    }
}

#[test]
fn record_without_the_head_is_refused() {
    let (place, done) = imported(&antelope_log(3, &antelope(3, 1, 100, 12)), &[]);
    let path = done.db.join("BEDLOAD.json");
    let record: Value = serde_json::from_slice(&std::fs::read(&path).expect("a record")).expect("JSON");
    for (head, words) in [
        (Value::Null, "BEDLOAD.json has no valid head"),
        ("0300zz".into(), "BEDLOAD.json has no valid head"),
        ("03000000".into(), "the log ends inside it"),
        (
            format!("{}00", record["log"]["layout"]["head"].as_str().expect("hex")).into(),
            "the head in BEDLOAD.json has trailing bytes",
        ),
    ] {
        let mut spoiled = record.clone();
        spoiled["log"]["layout"]["head"] = head;
        std::fs::write(&path, spoiled.to_string()).expect("written");
        refused(&place, &done.db, &[], 4, words);
    }
    let mut old = record;
    old["log"].as_object_mut().expect("fields").shift_remove("layout");
    std::fs::write(&path, old.to_string()).expect("written");
    refused(&place, &done.db, &[], 4, "the log cannot be exported: the import did not record its head");
}
