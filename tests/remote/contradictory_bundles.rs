//! Bundles whose description contradicts their files, their record or its own format, and special files in a bundle.

use std::path::Path;

use serde_json::{Value, json};

use crate::Needs;
use crate::common::bundle::*;
use crate::common::car::{block, car};
use crate::common::crash::{plain, small};
use crate::common::run::{Place, bedload, import};
use crate::common::store::{Answer, Store};

tests! {
    Needs::Nothing => [
        description_is_compared_with_the_files,
        records_of_every_file_are_compared,
        files_other_than_tables_are_refused,
        seed_rejects_files_with_merge_operands,
        seed_rejects_a_wrong_payload_size,
        contradictory_record_is_refused,
        contradictory_log_record_is_refused,
        reformatted_description_is_refused,
        malformed_pointer_is_refused,
        special_files_in_a_bundle_are_refused,
        oversized_pointer_reports_the_limit,
        seed_reads_responses_without_a_length,
        bundle_is_independent_of_threads_and_memory,
        bundle_reports_damaged_older_files,
        seed_warns_of_unverified_blocks,
    ];
}

type Change = Box<dyn FnOnce(&mut Value)>;

fn set(path: &'static str, value: Value) -> Change {
    Box::new(move |described| *described.pointer_mut(path).expect("a field") = value)
}

fn description_is_compared_with_the_files() {
    let place = Place::new();
    let to = published(&place, plain());
    let (id, y) = (latest(&to), place.path("y"));
    let last = described(&to)["files"].as_array().expect("files").len() - 1;
    let key = |byte: u8| format!("0171a0e40220{}", format!("{byte:02x}").repeat(32));
    let moved: Change = Box::new(|described| {
        for (file, by) in [(0, 1i64), (1, -1)] {
            let records = &mut described["files"][file]["records"];
            *records = json!(records.as_i64().expect("a number") + by);
        }
    });
    let end: Change = Box::new(move |described| described["files"][last]["last"] = json!(key(255)));
    let start: Change = Box::new(move |described| described["files"][0]["first"] = json!(key(0)));
    let cases: [(&str, usize, Change); 3] =
        [("records says", 0, moved), ("first says", 0, start), ("last says", last, end)];
    for (words, file, change) in cases {
        alter(&to, change);
        let name = described(&to)["files"][file]["name"].as_str().expect("a name").to_owned();
        let refused = seed(&to, &y).refused(3, words);
        assert!(refused.text("/error").contains(&name), "{refused:?} does not name {name}");
        nothing_is_ingested(&y);
        // The fetched files are valid under the original description.
        std::fs::write(to.join("latest"), &id).expect("written");
        seed(&to, &y).arg(&["--restart"]).succeeds();
        holds(&y, plain());
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

fn records_of_every_file_are_compared() {
    let place = Place::new();
    let done = import(&place, &plain().file).args(&["--set", "load.ingest.sst_size=256K"]).run();
    let to = place.path("bundles");
    bundle(&done.db, &to).succeeds();
    let (id, y) = (latest(&to), place.path("y"));
    let last = described(&to)["files"].as_array().expect("files").len() - 1;
    assert!(last > 20, "{last} files");
    alter(&to, |described| {
        for (file, by) in [(0, 1i64), (last, -1)] {
            let records = &mut described["files"][file]["records"];
            *records = json!(records.as_i64().expect("a number") + by);
        }
    });
    seed(&to, &y).refused(3, "records says");
    nothing_is_ingested(&y);
    std::fs::write(to.join("latest"), &id).expect("written");
    seed(&to, &y).arg(&["--restart"]).succeeds();
    // An update finds each of them in the database.
    assert_eq!(seed(&to, &y).arg(&["--update"]).succeeds().text("/digest"), plain().digest);
}

fn files_other_than_tables_are_refused() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    let noise = crate::common::car::noise(7, 300_000);
    let sum = blake3::hash(&noise).to_hex().to_string();
    std::fs::write(to.join("files").join(format!("{sum}.sst")), &noise).expect("written");
    alter(&to, |described| {
        let file = &mut described["files"][1];
        (file["name"], file["blake3"], file["bytes"]) =
            (json!(format!("{sum}.sst")), json!(sum), json!(noise.len() as u64));
    });
    let refused = seed(&to, &y).refused(3, "RocksDB does not ingest it");
    assert!(refused.text("/error").contains(&sum), "{refused:?}");
    nothing_is_ingested(&y);
    // A second run reports the same error.
    seed(&to, &y).refused(3, "RocksDB does not ingest it");
}

/// Replaces a bundle's second file with the SST that `write` makes of its records.
fn replace_second_file(to: &Path, db: &Path, write: impl Fn(&mut rust_rocksdb::SstFileWriter, &[u8], &[u8])) -> String {
    let key = |end: &str| {
        let hex = described(to)["files"][1][end].as_str().expect("a key").to_owned();
        data_encoding::HEXLOWER.decode(hex.as_bytes()).expect("hex")
    };
    let (first, last) = (key("first"), key("last"));
    let options = rust_rocksdb::Options::default();
    let source = rust_rocksdb::DB::open_for_read_only(&options, db, false).expect("open");
    let sst = to.join("made.sst");
    let mut writer = rust_rocksdb::SstFileWriter::create(&options);
    writer.open(&sst).expect("created");
    let from = rust_rocksdb::IteratorMode::From(&first, rust_rocksdb::Direction::Forward);
    for record in source.iterator(from) {
        let (key, value) = record.expect("read");
        if *key > *last {
            break;
        }
        write(&mut writer, &key, &value);
    }
    writer.finish().expect("finished");
    let bytes = std::fs::read(&sst).expect("a file");
    let sum = blake3::hash(&bytes).to_hex().to_string();
    std::fs::rename(&sst, to.join("files").join(format!("{sum}.sst"))).expect("moved");
    alter(to, |described| {
        let file = &mut described["files"][1];
        (file["name"], file["blake3"], file["bytes"]) =
            (json!(format!("{sum}.sst")), json!(sum), json!(bytes.len() as u64));
    });
    sum
}

/// Such files were ingested, and RocksDB could not read the database: no merge operator is set.
fn seed_rejects_files_with_merge_operands() {
    let place = Place::new();
    let db = imported(&place, plain());
    let (to, y) = (place.path("bundles"), place.path("y"));
    bundle(&db, &to).succeeds();
    let sum = replace_second_file(&to, &db, |writer, key, value| writer.merge(key, value).expect("written"));
    let refused = seed(&to, &y).refused(3, "merge operands");
    assert!(refused.text("/error").contains(&sum), "{refused:?}");
    nothing_is_ingested(&y);
}

fn seed_rejects_a_wrong_payload_size() {
    let place = Place::new();
    // Blocks without duplicates, whose bytes are exactly those of the records.
    let car =
        place.file("distinct.car", &car(&[], &(0..4000u32).map(|it| block(&it.to_le_bytes())).collect::<Vec<_>>()));
    let done = import(&place, &car).args(&["--set", "load.ingest.sst_size=64K"]).run();
    let (db, to, y) = (done.db, place.path("bundles"), place.path("y"));
    bundle(&db, &to).succeeds();
    let id = latest(&to);
    for declared in [15_999, 16_001] {
        alter(&to, set("/record/payload_bytes", json!(declared)));
        let words = format!("payload_bytes says {declared} bytes, the values of default have 16000");
        seed(&to, &y).arg(&["--restart"]).refused(3, &words);
        nothing_is_ingested(&y);
        std::fs::write(to.join("latest"), &id).expect("written");
    }
    // The record is right, and the values of one file are longer.
    replace_second_file(&to, &db, |writer, key, value| {
        writer.put(key, [value, b"!"].concat()).expect("written");
    });
    seed(&to, &y).arg(&["--restart"]).refused(3, "payload_bytes says 16000 bytes, the values of default have 1");
    nothing_is_ingested(&y);
}

/// Each is refused before anything is fetched.
fn each_is_refused(place: &Place, to: &Path, cases: Vec<(&str, Change)>) {
    let (id, y) = (latest(to), place.path("y"));
    for (words, change) in cases {
        alter(to, change);
        seed(to, &y).refused(3, words);
        assert!(!partial(&y).exists() && !y.exists(), "{words}");
        std::fs::write(to.join("latest"), &id).expect("written");
    }
}

fn contradictory_record_is_refused() {
    let place = Place::new();
    let to = published(&place, plain());
    let own = "not of an import into a new database";
    each_is_refused(
        &place,
        &to,
        vec![
            ("are not the sum of blocks written and duplicates", set("/record/blocks/read", json!(1))),
            ("are not the sum of blocks written and duplicates", set("/record/blocks/duplicate", json!(u64::MAX))),
            (own, set("/record/into_existing", json!(true))),
            (own, set("/record/loader", json!("memtable"))),
            (own, set("/record/loader", json!("another"))),
            ("which default cannot have", set("/record/key", json!("multihash"))),
            ("a key layout", set("/record/key", json!("number"))),
            ("hash functions", set("/record/key", json!("digest"))),
            (
                "which default cannot have",
                Box::new(|described| {
                    described["record"]["key"] = json!("digest");
                    described["record"]["hash_functions"] = json!([0xb220]);
                }),
            ),
            ("oldest_rocksdb", set("/oldest_rocksdb", json!("99.0"))),
            ("oldest_rocksdb", set("/oldest_rocksdb", json!("old"))),
            ("oldest_rocksdb", set("/oldest_rocksdb", json!("07.8"))),
            (
                "a part of another bundle",
                Box::new(|described| {
                    let part = json!({"bundle": "0", "files": 1, "of_files": 2, "of_digest": "0".repeat(32)});
                    described["record"]["part"] = part;
                }),
            ),
        ],
    );
}

fn contradictory_log_record_is_refused() {
    let place = Place::new();
    let log = place.path("block_log");
    let made =
        bedload().args(["generate", "--profile", "steem", "--size", "2MiB"]).arg(&log).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let done = import(&place, &log).args(&SMALL_FILES).args(&["--indexes", "ids,transactions"]).run();
    let to = place.path("bundles");
    bundle(&done.db, &to).succeeds();
    let counts = "do not match its log";
    each_is_refused(
        &place,
        &to,
        vec![
            ("names other column families", set("/record/log/families/1/name", json!("more"))),
            ("of an unknown chain", set("/record/log/family", json!("other"))),
            ("which block_ids cannot have", set("/record/log/family", json!("antelope"))),
            (counts, set("/record/log/first/number", json!(2))),
            (counts, set("/record/log/transactions", json!(1))),
            (
                "does not match its files",
                Box::new(|described| {
                    for end in ["first", "last"] {
                        let number = described["record"]["log"][end]["number"].as_u64().expect("a number");
                        described["record"]["log"][end]["number"] = json!(number + 1);
                    }
                }),
            ),
            ("a key layout", set("/record/key", json!("cid"))),
        ],
    );
}

fn reformatted_description_is_refused() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    let text = std::fs::read(to.join(latest(&to)).join("bundle.json")).expect("a description");
    let value: Value = serde_json::from_slice(&text).expect("JSON");
    let mut known = value.clone();
    known["record"]["a field of a newer program"] = json!(1);
    for other in [
        serde_json::to_vec(&value).expect("JSON"),
        [&text[..], b"\n"].concat(),
        serde_json::to_vec_pretty(&known).expect("JSON"),
        String::from_utf8(text.clone()).expect("text").replace('\n', "\r\n").into_bytes(),
    ] {
        publish_text(&to, &other);
        seed(&to, &y).refused(3, "its formatting differs from bedload's");
        assert!(!partial(&y).exists());
    }
    publish_text(&to, &text);
    seed(&to, &y).succeeds();
}

fn malformed_pointer_is_refused() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    let id = latest(&to);
    for wrong in [format!("{id}\r\n"), format!("{id} "), format!(" {id}"), format!("{id}\n\n"), id.to_uppercase()] {
        std::fs::write(to.join("latest"), &wrong).expect("written");
        seed(&to, &y).refused(3, "names no bundle");
    }
    std::fs::write(to.join("latest"), &id).expect("written");
    seed(&to, &y).succeeds();
    holds(&y, small());
}

fn special_files_in_a_bundle_are_refused() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    let sst = files(&to).remove(0);
    for name in [sst, to.join(latest(&to)).join("bundle.json"), to.join("latest")] {
        let aside = place.path("aside");
        std::fs::rename(&name, &aside).expect("moved");
        let loops = || std::os::unix::fs::symlink(&name, &name).expect("a link");
        let pipe = || {
            rustix::fs::mknodat(rustix::fs::CWD, &name, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe")
        };
        // Names of sockets are short.
        let socket = || {
            let short = place.path("s");
            drop(std::os::unix::net::UnixListener::bind(&short).expect("a socket"));
            std::fs::rename(&short, &name).expect("moved");
        };
        let folder = || std::fs::create_dir(&name).expect("a folder");
        let all: [(&str, &dyn Fn()); 4] = [
            ("a directory", &folder),
            ("a special file", &pipe),
            ("a symbolic link", &loops),
            ("a special file", &socket),
        ];
        for (what, make) in all {
            make();
            seed(&to, &y).refused(3, &format!("it is not a regular file: {what}"));
            nothing_is_ingested(&y);
            // An unfinished seed would resume with its first bundle.
            let _ = std::fs::remove_dir_all(partial(&y));
            let _ = std::fs::remove_file(&name).or_else(|_| std::fs::remove_dir(&name));
        }
        std::fs::rename(&aside, &name).expect("moved back");
    }
    seed(&to, &y).succeeds();
}

fn oversized_pointer_reports_the_limit() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    std::fs::write(to.join("latest"), vec![b'0'; 300]).expect("written");
    for from in [to.display().to_string(), Store::of(&to).url("")] {
        seed(&from, &y).refused(3, "exceeds the limit of 256 bytes");
    }
}

fn seed_reads_responses_without_a_length() {
    let place = Place::new();
    let store = Store::of(&published(&place, plain()));
    store.now(|_, _| Answer::Endless);
    let y = place.path("y");
    seed(store.url(""), &y).succeeds();
    holds(&y, plain());
}

fn bundle_is_independent_of_threads_and_memory() {
    let record = |args: &[&str]| {
        let place = Place::new();
        let done = import(&place, &plain().file).args(args).run();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let to = place.path("to");
        bundle(&done.db, &to).succeeds();
        described(&to)["record"].clone()
    };
    let one = record(&["--threads", "1", "--memory", "4GiB"]);
    for other in [&["--threads", "3", "--memory", "64MiB"][..], &["--threads", "2", "--plan", "spill"]] {
        assert_eq!(record(other), one, "{other:?}");
    }
}

fn bundle_reports_damaged_older_files() {
    let place = Place::new();
    let to = published(&place, plain());
    let older = latest(&to);
    let damaged = files(&to).remove(1);
    let mut bytes = std::fs::read(&damaged).expect("a file");
    bytes[4000] ^= 1;
    std::fs::write(&damaged, bytes).expect("written");
    // This import has equal records in other bytes.
    let other = Place::new();
    let done = bundle(&imported(&other, plain()), &to).succeeds();
    let name = damaged.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(done.stderr.contains("is damaged or missing") && done.stderr.contains(&name), "{}", done.stderr);
    assert_ne!(latest(&to), older);
    let y = place.path("y");
    seed(&to, &y).succeeds();
    holds(&y, plain());
}

fn seed_warns_of_unverified_blocks() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    alter(&to, |described| {
        described["record"]["preset"] = json!("of-another-program");
        described["record"]["verified"] = json!(false);
    });
    let done = seed(&to, &y).succeeds();
    assert!(done.stderr.contains("the preset `of-another-program`"), "{}", done.stderr);
    assert!(done.stderr.contains("has not checked the blocks"), "{}", done.stderr);
    is_valid(&y);
}
