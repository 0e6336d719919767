//! `bedload verify` on valid databases, and on databases with one known fault each.

use super::{counts, made, made_log, on, other, put, text, verify};
use crate::common::crash::rounds;
use crate::common::database::{bedload, flip, generate, import, open, open_all, some_keys, ssts, walk};
use bedload::progress::Event;
use predicates::str::contains;
use serde_json::Value;

fn count(report: &Value, kind: &str) -> u64 {
    report["problems"]["kinds"][kind].as_u64().unwrap_or(0)
}

/// The problems that are listed.
fn listed(report: &Value) -> &[Value] {
    report["problems"]["first"].as_array().expect("a list")
}

#[test]
fn every_layout_is_valid_and_reachable() {
    for key in ["cid", "multihash", "digest"] {
        let (_dir, car, db) = made("3MiB", &["--key", key]);
        let report = verify(&db, &["--against", &car], 0);
        assert_eq!(report["key"], key);
        assert_eq!(report["key_from"], "record");
        assert_eq!(report["digest"], report["recorded"]["digest"]);
        assert_eq!(report["records"], report["against"]["same"]);
        assert_eq!(report["against"]["blocks"], report["against"]["distinct"]);
        assert!(report["records"].as_u64() > Some(1000), "{report:#}");
        let walked = walk(&db, &[], 0);
        assert_eq!((&walked["missing"], &walked["unreachable"]), (&0.into(), &0.into()));
        assert_eq!(walked["reachable"], report["records"]);
    }
}

/// The bug: `verify` gave the decoder a quarter of the budget, `import` 20 MiB or more.
#[test]
fn small_budget_decodes_large_zstd_windows() {
    use std::io::Write;
    let dir = tempfile::tempdir().expect("a directory");
    let car = std::fs::read(generate(dir.path(), "3MiB")).expect("a snapshot");
    let mut frame = zstd::stream::Encoder::new(Vec::new(), 3).expect("an encoder");
    // Decoding keeps 8 MiB.
    frame.window_log(23).expect("a window");
    frame.write_all(&car).expect("memory");
    let packed = dir.path().join("window.car.zst");
    std::fs::write(&packed, frame.finish().expect("a frame")).expect("room");
    let small = ["--memory", "16MiB", "--threads", "2"];
    let db = import(dir.path(), &packed, &small);
    let report = verify(&db, &[&["--against", packed.to_str().expect("text")], &small[..]].concat(), 0);
    assert_eq!(report["records"], report["against"]["same"]);
    let mut inspect = bedload();
    inspect.args(["inspect", "--full", "--memory", "16MiB"]).arg(&packed).assert().success();
}

#[test]
fn flipped_bit_in_a_file_is_found() {
    let (_dir, _car, db) = made("2MiB", &[]);
    let total = verify(&db, &[], 0)["records"].as_u64().expect("records");
    let file = ssts(&db).pop().expect("a file");
    let size = file.metadata().expect("metadata").len();
    let good = std::fs::read(&file).expect("read");
    // The end has the filter, the properties, the index and the footer; the footer has 53 bytes, some unused.
    let tail = (size - 6000..size).step_by(rounds(499, 97));
    for at in (0..size).step_by(size as usize / rounds(10, 40)).chain(tail) {
        flip(&file, at as usize, 0x10);
        let report = verify(&db, &[], 3);
        assert!(count(&report, "checksum") > 0 || count(&report, "open") > 0, "byte {at} of {size}: {report:#}");
        let first = listed(&report);
        let is_named = first.iter().any(|problem| problem["file"] == file.to_str().expect("text"));
        assert!(is_named, "byte {at} of {size}: {first:?}");
        std::fs::write(&file, &good).expect("restore");
    }
    assert_eq!(verify(&db, &[], 0)["records"], total);
}

#[test]
fn bad_block_hides_only_its_own_records() {
    let (_dir, car, db) = made("4MiB", &[]);
    let total = verify(&db, &[], 0)["records"].as_u64().expect("records");
    for (number, file) in ssts(&db).iter().enumerate().take(3) {
        flip(file, 40_000 * (number + 1), 0x10);
    }
    let faults = ssts(&db).len().min(3) as u64;
    let report = verify(&db, &["--against", &car], 3);
    let read = report["records"].as_u64().expect("records");
    // A block has 16 KiB or little more, a record about 1 KiB.
    assert!(read < total && read > total - 40 * faults, "{read} of {total}");
    assert_eq!(count(&report, "checksum"), faults, "{report:#}");
    assert_eq!(count(&report, "count"), 1);
    assert_eq!(count(&report, "digest"), 1);
    assert_eq!(report["problems"]["total"], faults + 2);
    assert_eq!(report["against"]["unreadable"], total - read);
    assert_eq!(report["against"]["same"], read);
}

#[test]
fn missing_or_truncated_file_is_named() {
    let (_dir, _car, db) = made("2MiB", &[]);
    let file = ssts(&db).pop().expect("a file");
    let good = std::fs::read(&file).expect("read");
    std::fs::write(&file, &good[..good.len() - 1000]).expect("cut");
    let report = verify(&db, &[], 3);
    assert_eq!(count(&report, "file"), 1);
    let message = report["problems"]["first"][0]["message"].as_str().expect("a message");
    assert_eq!(
        message,
        format!("the file is {} bytes long, but the database declares {}", good.len() - 1000, good.len())
    );
    std::fs::remove_file(&file).expect("remove");
    let report = verify(&db, &[], 3);
    assert_eq!(count(&report, "file"), 1);
    assert_eq!(report["problems"]["first"][0]["file"], file.to_str().expect("text"));
    assert!(count(&report, "checksum") > 0, "{report:#}");
}

#[test]
fn wrong_values_are_listed_with_their_keys() {
    for key in ["cid", "multihash", "digest"] {
        let (_dir, car, db) = made("2MiB", &["--key", key]);
        let keys = some_keys(&db, 25);
        put(&db, keys.iter().map(|key| (key, "not what was here")));
        open(&db).flush().expect("flush");
        let report = verify(&db, &["--against", &car], 3);
        assert_eq!(counts(&report), [("digest", 1), ("hash", 25), ("differs", 25)], "{key}: {report:#}");
        assert_eq!(report["problems"]["total"], 51);
        let first = listed(&report);
        assert_eq!(first.len(), 10);
        let newest = ssts(&db).pop().expect("a file");
        assert_eq!(first[1]["kind"], "hash");
        assert_eq!(first[1]["file"], newest.to_str().expect("text"));
        if key == "cid" {
            assert_eq!(first[1]["key"], text(&keys[0]));
        }
        let message = first[1]["message"].as_str().expect("a message");
        assert!(message.contains("does not match its hash: the CID says "), "{message}");
        on(&db, &["verify"])
            .code(3)
            .stdout(contains("problems  26 (1 digest, 25 hash)\n"))
            .stderr(contains(format!("error: verify {}: 26 problems found\nhint: ", db.display())));
    }
}

#[test]
fn missing_and_extra_records_are_distinguished() {
    let (_dir, car, db) = made("2MiB", &[]);
    let gone = some_keys(&db, 3).pop().expect("a key");
    // dag-cbor, identity, an empty list: a valid record that the source does not have.
    let extra = [1, 0x71, 0, 1, 0x80];
    open(&db).delete(&gone).expect("delete");
    put(&db, [(extra, [0x80])]);
    assert_eq!(counts(&verify(&db, &[], 3)), [("digest", 1)], "the count is the same");
    for memory in ["1GiB", "16MiB"] {
        let report = verify(&db, &["--against", &car, "--memory", memory], 3);
        assert_eq!(counts(&report), [("digest", 1), ("missing", 1), ("extra", 1)]);
        for (kind, key) in [("missing", text(&gone)), ("extra", text(&extra))] {
            let problem = listed(&report).iter().find(|problem| problem["kind"] == kind).expect("a problem");
            assert_eq!(problem["key"], key);
        }
    }
}

#[test]
fn spilled_comparison_finds_the_same() {
    let (dir, car, db) = made("8MiB", &[]);
    let work = dir.path().join("work");
    std::fs::create_dir(&work).expect("create");
    let more = ["--against", &car, "--memory", "1M", "--work-dir", work.to_str().expect("text")];
    let report = verify(&db, &more, 0);
    assert_eq!(report["against"]["same"], report["records"]);
    assert_eq!(std::fs::read_dir(&work).expect("list").count(), 0, "temporary files remain");
}

#[test]
fn keys_without_a_record_are_assumed_cids() {
    let (_dir, _car, db) = made("1MiB", &[]);
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("remove");
    let report = verify(&db, &[], 0);
    assert_eq!(report["key_from"], "assumed");
    assert_eq!(report["recorded"], Value::Null);
    on(&db, &["verify"])
        .success()
        .stdout(contains("keys      cid (assumed: nothing says what they are)\n"))
        .stdout(contains("problems  none\n"));
    assert_eq!(verify(&db, &["--key", "cid"], 0)["key_from"], "caller");
}

/// The bytes of a record with the checksum that belongs to them.
fn resealed(record: &Value) -> Vec<u8> {
    let mut record = record.clone();
    record.as_object_mut().expect("fields").shift_remove("checksum").expect("a checksum");
    let text = serde_json::to_string_pretty(&record).expect("JSON");
    let body = text.strip_suffix("\n}").expect("an object");
    let checksum = twox_hash::XxHash3_128::oneshot(body.as_bytes());
    format!("{body},\n  \"checksum\": \"{checksum:032x}\"\n}}").into_bytes()
}

#[test]
fn truncated_or_edited_record_is_found() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let path = db.join("BEDLOAD.json");
    let good = std::fs::read(&path).expect("a record");
    verify(&db, &[], 0);
    let mut record: Value = serde_json::from_slice(&good).expect("JSON");
    let text = String::from_utf8(good.clone()).expect("text");
    let (cut, longer) = (good[..good.len() - 1].to_vec(), [&good[..], b"\n"].concat());
    let only_record = &[("record", 1)][..];
    let mut damaged = [cut, longer, b"{".to_vec(), Vec::new()].map(|bytes| (bytes, only_record)).to_vec();
    // Written anew, with the same fields but one.
    record["preset"] = "another".into();
    damaged.push((serde_json::to_vec_pretty(&record).expect("JSON"), only_record));
    record.as_object_mut().expect("fields").shift_remove("checksum");
    damaged.push((serde_json::to_vec_pretty(&record).expect("JSON"), only_record));
    let mut change = |at: usize, kinds| {
        let mut changed = good.clone();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        damaged.push((changed, kinds));
    };
    let names = text.match_indices("\": ").step_by(15).map(|(at, _)| at - 1);
    names.chain((1..60).step_by(7).map(|back| good.len() - back)).for_each(|at| change(at, only_record));
    // A value that the database contradicts is a problem besides.
    for (before, kinds) in [
        ("\"preset\": \"", only_record),
        ("\"digest\": \"", &[("record", 1), ("digest", 1)]),
        ("\n    \"read\": ", &[("record", 1), ("tally", 1)]),
        ("\n    \"written\": ", &[("record", 1), ("tally", 1), ("count", 1)]),
        ("\"name\": \"IDENTITY\",\n      \"checksum\": \"", &[("file", 1), ("record", 1)]),
    ] {
        change(text.find(before).expect(before) + before.len(), kinds);
    }
    for (bytes, kinds) in damaged {
        std::fs::write(&path, &bytes).expect("write");
        let report = verify(&db, &[], 3);
        assert_eq!(counts(&report), kinds, "{}\n{report:#}", String::from_utf8_lossy(&bytes));
    }
    record["checksum"] = "".into();
    std::fs::write(&path, resealed(&record)).expect("write");
    verify(&db, &[], 0);
}

#[test]
fn contradictory_counts_are_a_problem() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let (_log_dir, _log, of_log) = made_log("1MiB", &["--indexes", "ids,transactions"]);
    for (db, places) in [
        (&db, &["/blocks/read", "/blocks/duplicate"][..]),
        (&of_log, &["/log/families/1/duplicates", "/log/families/2/duplicates", "/log/transactions"]),
    ] {
        let path = db.join("BEDLOAD.json");
        let good: Value = serde_json::from_slice(&std::fs::read(&path).expect("a record")).expect("JSON");
        verify(db, &[], 0);
        for place in places {
            for by in [1, u64::MAX >> 1] {
                let mut record = good.clone();
                let number = record.pointer_mut(place).expect("a number");
                *number = (number.as_u64().expect("a number") + by).into();
                std::fs::write(&path, resealed(&record)).expect("write");
                // The records of `transactions` are counted from the blocks as well.
                let report = verify(db, &[], 3);
                let mut found = counts(&report);
                found.retain(|(kind, _)| *kind != "index" || !place.ends_with("2/duplicates"));
                assert_eq!(found, [("tally", 1)], "{place}");
            }
        }
    }
}

#[test]
fn missing_or_changed_metadata_file_is_named() {
    let (_dir, _car, db) = made("1MiB", &[]);
    assert_eq!(verify(&db, &[], 0)["notes"], serde_json::json!([]));
    let list = || std::fs::read_dir(&db).expect("list").map(|entry| entry.expect("entry").path());
    let options = list().find(|path| path.to_string_lossy().contains("/OPTIONS-")).expect("an OPTIONS file");
    for path in [&db.join("IDENTITY"), &options] {
        let good = std::fs::read(path).expect("read");
        let changed: [&dyn Fn(); 3] = [
            &|| std::fs::remove_file(path).expect("remove"),
            &|| std::fs::write(path, [&good[..], b"\n# more"].concat()).expect("write"),
            &|| std::fs::write(path, &good[..good.len() / 2]).expect("write"),
        ];
        for change in changed {
            change();
            let report = verify(&db, &[], 3);
            assert_eq!(count(&report, "file"), 1, "{report:#}");
            assert!(
                listed(&report).iter().any(|problem| problem["file"] == path.to_str().expect("text")),
                "{report:#}"
            );
            std::fs::write(path, &good).expect("restore");
        }
    }
    let current = db.join("CURRENT");
    let good = std::fs::read(&current).expect("read");
    std::fs::remove_file(&current).expect("remove");
    assert_eq!(counts(&verify(&db, &[], 3)), [("open", 1)]);
    std::fs::write(&current, good).expect("restore");
    verify(&db, &[], 0);
}

#[test]
fn newer_options_file_is_only_noted() {
    let (_dir, _car, db) = made("1MiB", &[]);
    for times in 1..4 {
        put(&db, [([1, 0x71, 0, 1, 0x80], [0x80])]);
        // Overwritten records in the WAL may stand for deleted ones.
        let report = verify(&db, if times == 1 { &[] } else { &["--allow-extra"] }, 0);
        // The record that was put is one more than the import's; the files are what they should be.
        assert_eq!(report["recorded"]["more_than_recorded"], 1, "opened {times} times");
        let note = report["notes"][0].as_str().expect("a note");
        assert!(
            note.starts_with("a program has opened the database since the import: the current options are in OPTIONS-"),
            "{note}"
        );
    }
    open(&db).flush().expect("flushed");
    assert_eq!(verify(&db, &[], 0)["verdict"], "confirmed", "no file has a deletion");
}

#[test]
fn sample_checks_the_requested_count() {
    let (_dir, _car, db) = made("2MiB", &[]);
    let report = verify(&db, &["--sample", "300"], 0);
    assert_eq!(report["records"], 300);
    assert_eq!(report["digest"], Value::Null);
    let keys = all_keys(&open(&db));
    let report = verify(&db, &["--sample", "1000000"], 0);
    assert_eq!((&report["records"], &report["sample"]), (&keys.len().into(), &Value::Null), "no record twice");
    assert_eq!(report["verdict"], "confirmed");
    // The bug: some records were picked twice, and others never.
    put(&db, keys.iter().step_by(7).map(|key| (key, "not what was here")));
    let report = verify(&db, &["--sample", &(keys.len() - 1).to_string()], 3);
    assert_eq!(report["records"], keys.len() - 1);
    assert!(count(&report, "hash") + 1 >= keys.len().div_ceil(7) as u64, "{report:#}");
    put(&db, keys.into_iter().map(|key| (key, "not what was here")));
    assert_eq!(counts(&verify(&db, &["--sample", "300"], 3)), [("hash", 300)]);
}

#[test]
fn foreign_column_families_are_verified() {
    let (_car_dir, _car, of_car) = made("1MiB", &[]);
    let (_log_dir, _log, of_log) = made_log("1MiB", &[]);
    for db in [of_car, of_log] {
        let before = ssts(&db);
        let (mut node, _) = open_all(&db);
        node.create_cf("node", &rust_rocksdb::Options::default()).expect("a family");
        let family = node.cf_handle("node").expect("the family");
        (0..2000u32).for_each(|number| node.put_cf(family, number.to_be_bytes(), [7; 50]).expect("put"));
        node.flush_cf(family).expect("flush");
        drop(node);
        verify(&db, &[], 0);
        let file = ssts(&db).into_iter().find(|file| !before.contains(file)).expect("a new file");
        flip(&file, 300, 0x10);
        let report = verify(&db, &[], 3);
        assert_eq!(counts(&report), [("checksum", 1)], "{report:#}");
        assert_eq!(report["problems"]["first"][0]["file"], file.to_str().expect("text"));
    }
}

#[test]
fn fewer_records_than_added_are_a_problem() {
    let (dir, _car, db) = made("40KiB", &[]);
    import(dir.path(), &other(&dir, "2MiB"), &["--into-existing"]);
    let added = verify(&db, &[], 0)["recorded"]["records"].as_u64().expect("a count");
    let node = open(&db);
    let keys = all_keys(&node);
    assert!(keys.len() as u64 > added && added > 1000, "{} keys, {added} of them added", keys.len());
    let excess = keys.len() - added as usize;
    keys.iter().take(excess).for_each(|key| node.delete(key).expect("deleted"));
    drop(node);
    verify(&db, &[], 0);
    open(&db).delete(&keys[excess]).expect("deleted");
    let report = verify(&db, &[], 3);
    assert_eq!(counts(&report), [("count", 1)]);
    let grouped = |count: u64| format!("{},{:03}", count / 1000, count % 1000);
    let message = format!("{} records can be read, but the import added {}", grouped(added - 1), grouped(added));
    assert_eq!(report["problems"]["first"][0]["message"], message);
}

/// With mapped reads, a truncated file must not end the process by SIGBUS.
#[test]
fn truncated_mapped_file_is_a_problem() {
    let (_dir, _car, db) = made("1MiB", &["--set", "node.db.allow_mmap_reads=true"]);
    let file = ssts(&db).pop().expect("a file");
    let name = file.to_str().expect("text").to_owned();
    let cut = |event: &Event| {
        if !matches!(event, Event::Phase { .. }) {
            return;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").expect("text");
        assert!(!maps.contains(&name), "{name} is mapped");
        let open = std::fs::read_dir("/proc/self/fd").expect("a folder").flatten();
        assert!(open.filter_map(|fd| fd.path().read_link().ok()).any(|path| path == file), "{name} is not open");
        std::fs::File::options().write(true).open(&file).expect("open").set_len(20_000).expect("cut");
    };
    let report = bedload::verify(&bedload::VerifyOptions::new(&db), &cut).expect("a report");
    assert!(report.problems.kinds.contains_key(&bedload::report::ProblemKind::Checksum), "{report:?}");
}

fn all_keys(store: &rust_rocksdb::DB) -> Vec<Vec<u8>> {
    store.iterator(rust_rocksdb::IteratorMode::Start).map(|item| item.expect("read").0.to_vec()).collect()
}
