//! Bundles whose description contradicts their files, their record or its own format, and special files in a bundle.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::bundle::*;
use crate::common::car::{block, car, noise};
use crate::common::crash::{in_turn, plain, small};
use crate::common::model::records;
use crate::common::run::{Place, import};
use crate::common::store::Store;
use crate::remote::partial_bundles::published_log;

fn set(to: &Path, path: &str, value: Value) {
    alter(to, |described| *described.pointer_mut(path).expect("a field") = value);
}

/// RocksDB reports the record counts of some twenty files when it opens a database, and of no others.
#[test]
fn description_is_compared_with_the_files() {
    let place = Place::in_memory();
    let done = import(&place, &plain().file).args(&["--set", "load.ingest.sst_size=256K"]).run();
    let (to, y) = (place.path("bundles"), place.path("y"));
    bundle(&done.db, &to).succeeds();
    let (id, last) = (latest(&to), files(&to).len() - 1);
    assert!(last > 20, "{last} files");
    let key = |byte: u8| json!(format!("0171a0e40220{}", format!("{byte:02x}").repeat(32)));
    let moved = || {
        for (file, by) in [(0, 1), (last, -1)] {
            let records = described(&to)["files"][file]["records"].as_i64().expect("a number");
            set(&to, &format!("/files/{file}/records"), json!(records + by));
        }
    };
    let cases: [(&str, usize, &dyn Fn()); 3] = [
        ("records says", 0, &moved),
        ("first says", 0, &|| set(&to, "/files/0/first", key(0))),
        ("last says", last, &|| set(&to, &format!("/files/{last}/last"), key(255))),
    ];
    for (words, file, change) in cases {
        let _ = std::fs::remove_dir_all(&y);
        change();
        let name = described(&to)["files"][file]["name"].as_str().expect("a name").to_owned();
        let refused = seed(&to, &y).refused(3, words);
        assert!(refused.text("/error").contains(&name), "{refused:?} does not name {name}");
        // The fetched files are valid under the original description.
        std::fs::write(to.join("latest"), &id).expect("written");
        seed(&to, &y).args(&["--restart"]).seeds(plain());
    }
    // An update finds each of the files in the database.
    assert_eq!(seed(&to, &y).args(&["--update"]).succeeds().text("/digest"), plain().digest);
}

type Write = fn(&mut rust_rocksdb::SstFileWriter<'_>, &[u8], &[u8]) -> Result<(), rust_rocksdb::Error>;

/// Replaces a bundle's second file with the SST that `write` makes of its records.
fn replace_second_file(to: &Path, db: &Path, write: Write) -> String {
    let key = |end: &str| {
        let hex = described(to)["files"][1][end].as_str().expect("a key").to_owned();
        data_encoding::HEXLOWER.decode(hex.as_bytes()).expect("hex")
    };
    let (first, last) = (key("first"), key("last"));
    let options = rust_rocksdb::Options::default();
    let sst = to.join("made.sst");
    let mut writer = rust_rocksdb::SstFileWriter::create(&options);
    writer.open(&sst).expect("created");
    for (key, value) in records(db).range(first..=last) {
        write(&mut writer, key, value).expect("written");
    }
    writer.finish().expect("finished");
    put_file(to, 1, &std::fs::read(&sst).expect("a file"))
}

/// Files with merge operands were ingested, and RocksDB could not read the database: no merge operator is set.
#[test]
fn files_with_other_content_are_refused() {
    let place = Place::in_memory();
    // Blocks without duplicates, whose bytes are exactly those of the records.
    let blocks: Vec<_> = (0..4000u32).map(|it| block(&it.to_le_bytes())).collect();
    let source = place.file("distinct.car", &car(&[], &blocks));
    let db = import(&place, source).args(&["--set", "load.ingest.sst_size=64K"]).run().db;
    let (to, y) = (place.path("bundles"), place.path("y"));
    bundle(&db, &to).succeeds();
    let id = latest(&to);
    for declared in [15_999, 16_001] {
        set(&to, "/record/payload_bytes", json!(declared));
        let words = format!("payload_bytes says {declared} bytes, the values of default have 16000");
        seed(&to, &y).args(&["--restart"]).refused(3, &words);
        std::fs::write(to.join("latest"), &id).expect("written");
    }
    let longer = || replace_second_file(&to, &db, |writer, key, value| writer.put(key, [value, b"!"].concat()));
    let merged = || replace_second_file(&to, &db, |writer, key, value| writer.merge(key, value));
    let none = || put_file(&to, 1, &noise(7, 300_000));
    let cases: [(&dyn Fn() -> String, &str); 3] = [
        (&longer, "payload_bytes says 16000 bytes, the values of default have 1"),
        (&merged, "merge operands"),
        (&none, "RocksDB does not ingest it"),
    ];
    for (put, words) in cases {
        let sum = put();
        let mut refused = seed(&to, &y).args(&["--restart"]).refused(3, words);
        if words.starts_with("RocksDB") {
            // A second run reports the same error.
            refused = seed(&to, &y).refused(3, words);
        }
        assert!(words.starts_with("payload") || refused.text("/error").contains(&sum), "{refused:?}");
        std::fs::write(to.join("latest"), &id).expect("written");
    }
}

/// Each invalid value of a field of the description is refused before anything is fetched.
fn each_is_refused(to: &Path, y: &Path, cases: &[(&str, &str, Value)]) {
    let id = latest(to);
    for (number, (words, path, value)) in cases.iter().enumerate() {
        set(to, path, value.clone());
        let store = Store::of(to);
        for from in in_turn(&[to.display().to_string(), store.url("")], number) {
            let refused = seed(from, y).refused_at_once(3, words);
            assert!(!refused.stderr.contains('\u{1b}'));
        }
        assert!(!store.was_asked_for_files(), "{words}: it fetched files");
        std::fs::write(to.join("latest"), &id).expect("written");
    }
}

#[test]
fn contradictory_description_is_refused() {
    let (_place, to, y) = bundled(plain());
    let whole = described(&to);
    let with = |edit: &dyn Fn(&mut Vec<Value>)| {
        let mut files = whole["files"].as_array().expect("files").clone();
        edit(&mut files);
        json!(files)
    };
    let object = |path: &str, fields: Value| {
        let mut object = whole.pointer(path).and_then(Value::as_object).expect("an object").clone();
        object.extend(fields.as_object().expect("an object").clone());
        json!(object)
    };
    let first = whole["files"][0].clone();
    let of_other = object("/files/0", json!({"column_family": "other"}));
    let lowest = json!(format!("0171a0e40220{}", "0".repeat(64)));
    let wrote = "its import wrote";
    let order = "do not follow those of the previous file";
    let sum = "are not the sum of blocks written and duplicates";
    let foreign = "not of an import into a new database";
    let part = json!({"bundle": "0", "files": 1, "of_files": 2, "of_digest": "0".repeat(32)});
    let digests = json!({"key": "digest", "hash_functions": [0xb220]});
    let cases = [
        ("its schema is `bedload-bundle-2`", "/schema", json!("bedload-bundle-2")),
        ("a different schema", "/schema", json!("else")),
        ("unknown field", "", object("", json!({"more": 1}))),
        ("oldest_rocksdb", "/oldest_rocksdb", json!("99.0")),
        ("oldest_rocksdb", "/oldest_rocksdb", json!("old")),
        ("oldest_rocksdb", "/oldest_rocksdb", json!("07.8")),
        ("invalid type", "/files", json!({})),
        ("is in it twice", "/files", with(&|files| files.insert(1, first.clone()))),
        ("has an unknown column family", "/files", with(&|files| files.push(of_other.clone()))),
        (wrote, "/files", with(&|files| drop(files.pop()))),
        (order, "/files", with(&|files| files.swap(0, 1))),
        ("not named for its BLAKE3", "/files/0/name", json!("../../x.sst")),
        ("not named for its BLAKE3", "/files/0/blake3", json!("0")),
        ("0 bytes", "/files/0/bytes", json!(0)),
        ("bytes and", "/files/0/bytes", json!(u64::MAX)),
        ("invalid value", "/files/0/bytes", json!(-1)),
        ("has an invalid key", "/files/0/first", json!("0g")),
        ("which default cannot have", "/files/0/last", json!("00")),
        (order, "/files/0/last", lowest.clone()),
        (order, "/files/1/first", lowest),
        (wrote, "/files/0/records", json!(1)),
        ("too many records", "/files/1/records", json!(u64::MAX)),
        (wrote, "/files/0/digest", json!("0".repeat(32))),
        (wrote, "/files/0/column_family", json!("other")),
        (sum, "/record/blocks/written", json!(5)),
        (sum, "/record/blocks/read", json!(1)),
        (sum, "/record/blocks/duplicate", json!(u64::MAX)),
        (wrote, "/record/column_family", json!("other")),
        ("does not have the schema", "/record/schema", json!("bedload-import-99")),
        (foreign, "/record/into_existing", json!(true)),
        (foreign, "/record/loader", json!("memtable")),
        (foreign, "/record/loader", json!("another")),
        ("unknown variant", "/record/key", json!("another layout")),
        ("which default cannot have", "/record/key", json!("multihash")),
        ("a key layout", "/record/key", json!("number")),
        ("hash functions", "/record/key", json!("digest")),
        ("which default cannot have", "/record", object("/record", digests)),
        ("a part of another bundle", "/record", object("/record", json!({"part": part}))),
    ];
    each_is_refused(&to, &y, &cases);
    seed(&to, &y).seeds(plain());
}

/// Before, RocksDB's binding panicked on a thread whose panic ends the process.
#[test]
fn column_family_of_a_bundle_has_no_nul() {
    let place = Place::in_memory();
    let (to, y) = (place.path("bundles"), place.path("y"));
    bundle(&import(&place, &small().file).run().db, &to).succeeds();
    alter(&to, |described| {
        described["record"]["column_family"] = json!("a\0b");
        let files = described["files"].as_array_mut().expect("a list");
        files.iter_mut().for_each(|file| file["column_family"] = json!("a\0b"));
    });
    seed(&to, &y).refused(1, "the name of a column family contains a NUL byte");
}

#[test]
fn contradictory_log_record_is_refused() {
    let place = Place::in_memory();
    let (_, to) = published_log(&place, &["--indexes", "ids,transactions"]);
    let mut log = described(&to)["record"]["log"].clone();
    for end in ["first", "last"] {
        log[end]["number"] = json!(log[end]["number"].as_u64().expect("a number") + 1);
    }
    let counts = "do not match its log";
    let cases = [
        ("names other column families", "/record/log/families/1/name", json!("more")),
        ("of an unknown chain", "/record/log/family", json!("other")),
        ("which block_ids cannot have", "/record/log/family", json!("antelope")),
        (counts, "/record/log/first/number", json!(2)),
        (counts, "/record/log/transactions", json!(1)),
        ("does not match its files", "/record/log", log),
        ("a key layout", "/record/key", json!("cid")),
    ];
    each_is_refused(&to, &place.path("y"), &cases);
}

#[test]
fn reformatted_description_or_pointer_is_refused() {
    let (_place, to, y) = bundled(small());
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
        seed(&to, &y).refused_at_once(3, "its formatting differs from bedload's");
    }
    publish_text(&to, &text);
    let id = latest(&to);
    for wrong in [format!("{id}\r\n"), format!("{id} "), format!(" {id}"), format!("{id}\n\n"), id.to_uppercase()] {
        std::fs::write(to.join("latest"), &wrong).expect("written");
        seed(&to, &y).refused(3, "does not name a bundle");
    }
    std::fs::write(to.join("latest"), vec![b'0'; 300]).expect("written");
    for from in [to.display().to_string(), Store::of(&to).url("")] {
        seed(&from, &y).refused(3, "exceeds the limit of 256 bytes");
    }
    std::fs::write(to.join("latest"), &id).expect("written");
    seed(&to, &y).seeds(small());
}

#[test]
fn special_files_in_a_bundle_are_refused() {
    let (place, to, y) = bundled(small());
    for name in [files(&to).remove(0), to.join(latest(&to)).join("bundle.json"), to.join("latest")] {
        let aside = place.path("aside");
        std::fs::rename(&name, &aside).expect("moved");
        // Names of sockets are short.
        let socket = || {
            let short = place.path("s");
            drop(std::os::unix::net::UnixListener::bind(&short).expect("a socket"));
            std::fs::rename(&short, &name).expect("moved");
        };
        let all: [(&str, &dyn Fn()); 4] = [
            ("a directory", &|| std::fs::create_dir(&name).expect("a folder")),
            ("a special file", &|| make_pipe(&name)),
            ("a symbolic link", &|| std::os::unix::fs::symlink(&name, &name).expect("a link")),
            ("a special file", &socket),
        ];
        for (what, make) in all {
            make();
            seed(&to, &y).refused(3, &format!("it is not a regular file: {what}"));
            // An unfinished seed would resume with its first bundle.
            let _ = std::fs::remove_dir_all(partial(&y));
            let _ = std::fs::remove_file(&name).or_else(|_| std::fs::remove_dir(&name));
        }
        std::fs::rename(&aside, &name).expect("moved back");
    }
    seed(&to, &y).succeeds();
}

#[test]
fn seed_warns_of_unverified_blocks() {
    let (_place, to, y) = bundled(small());
    set(&to, "/record/preset", json!("of-another-program"));
    set(&to, "/record/verified", json!(false));
    seed(&to, &y).succeeds().says(&["the preset `of-another-program`", "has not verified the hashes"]);
    is_valid(&y);
}
