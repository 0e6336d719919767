//! Block logs of every family and framing, in one file or many, with and without what nodes keep beside them.

use std::path::Path;

use crate::block_log::{antelope_starts, both, flipped, imported, starts};
use crate::common::crash::copy;
use crate::common::database::{inspect, json, open_all};
use crate::common::log::*;
use crate::common::run::{Place, import, import_pipe, program};
use serde_json::Value;

/// Blocks of a few ranges: with 8 ranges a thread, a range has 1 MiB.
const MANY: u32 = 6000;

#[test]
fn raw_log_gives_its_blocks_and_ids() {
    let blocks = steem(1, MANY, 1);
    for threads in ["1", "2", "3"] {
        both(&raw(&blocks), &["--threads", threads], |done| {
            holds(done, &blocks);
            assert_eq!(done.text("/log/family"), "steem");
        });
    }
}

#[test]
fn raw_and_packed_blocks_may_be_mixed() {
    let blocks = steem(1, 2000, 2);
    for every in [1, 2, 7] {
        let packed = |number: u32| if number.is_multiple_of(every) { Packed::Zstd } else { Packed::Raw };
        both(&log(&blocks, packed), &[], |done| {
            holds(done, &blocks);
            assert_eq!(done.text("/log/family"), "hive");
            let zstd = u64::from(2000 / every);
            assert_eq!((done.number("/log/packings/zstd"), done.number("/log/packings/raw")), (zstd, 2000 - zstd));
        });
    }
}

#[test]
fn wrong_index_is_ignored_with_its_reason() {
    let check = |log: &[u8], blocks: &[LogBlock], (name, beside, used, reason): (&str, &[u8], bool, &str)| {
        let place = Place::in_memory();
        place.file(name, beside);
        let done = import(&place, place.file("block_log", log)).run();
        holds(&done, blocks);
        let [index] = &done.json["log"]["indexes"].as_array().expect("a list")[..] else { panic!("{done:?}") };
        assert_eq!(index["used"], used, "{index}");
        assert!(index["reason"].as_str().unwrap_or_default().contains(reason), "no `{reason}` in {index}");
    };
    let blocks = steem(1, MANY, 3);
    let bytes = raw(&blocks);
    let right = index(&bytes);
    let shifted = flipped(&right, 8 * 3000, 1);
    let other = index(&raw(&steem(1, MANY, 4)));
    for row in [
        ("block_log.index", &right[..], true, ""),
        ("block_log.index", &shifted, false, "its entry of block 3001 does not match the log"),
        ("block_log.index", &right[..right.len() - 8], false, "it has 5999 entries, the log 6000 blocks"),
        ("block_log.index", &other, false, ""),
    ] {
        check(&bytes, &blocks, row);
    }
    let blocks = steem(1, 1000, 5);
    let bytes = log(&blocks, |number| if number < 300 { Packed::Raw } else { Packed::Zstd });
    for minor in [0, 1] {
        let right = artifacts(&bytes, &blocks, minor);
        let wrong_id = flipped(&right, right.len() - 24 * 100 - 1, 1);
        for row in [
            ("block_log.artifacts", &right[..], true, ""),
            ("block_log.artifacts", &wrong_id, false, "its entry of block 900 does not match"),
            ("block_log.artifacts", &flipped(&right, 0, 1), false, "its head is block 1001, that of the log 1000"),
            ("block_log.artifacts", &flipped(&right, 45, 3), false, "its version is not 1.0 or 1.1"),
        ] {
            check(&bytes, &blocks, row);
        }
    }
}

/// Writes the parts of a split log below `chain`, each with its positions.
fn parts(place: &Place, blocks: &[LogBlock], each: usize, skip: usize) {
    std::fs::create_dir_all(place.path("chain")).expect("a folder");
    for (number, part) in blocks.chunks(each).enumerate().skip(skip) {
        let packed = |number: u32| if number.is_multiple_of(3) { Packed::Raw } else { Packed::Zstd };
        place.file(&format!("chain/block_log_part.{:04}", number + 1), &log(part, packed));
    }
}

#[test]
fn split_log_is_read_by_any_name() {
    let blocks = steem(1, 1600, 6);
    let place = Place::in_memory();
    parts(&place, &blocks, 400, 0);
    for name in ["chain", "chain/block_log_part.0001"] {
        let done = import(&place, place.path(name)).run();
        holds(&done, &blocks);
        assert_eq!((done.number("/log/parts"), done.text("/log/family")), (4, "hive"));
        std::fs::remove_dir_all(&done.db).expect("removed");
    }
}

#[test]
fn split_log_may_lack_its_oldest_parts() {
    let blocks = steem(1, 1600, 7);
    let place = Place::in_memory();
    parts(&place, &blocks, 400, 2);
    let elsewhere = place.path("elsewhere");
    std::fs::rename(place.path("chain/block_log_part.0004"), &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, place.path("chain/block_log_part.0004")).expect("linked");
    holds(&import(&place, place.path("chain")).run(), &blocks[800..]);
}

#[test]
fn antelope_logs_of_every_version_are_imported() {
    for (version, first, last) in
        [(1, 1, MANY), (2, 1, 1000), (3, 1, 1000), (4, 1, MANY), (3, 501, 1500), (4, 501, 1500)]
    {
        let blocks = antelope(version, first, last, 8);
        both(&antelope_log(version, &blocks), &[], |done| {
            holds(done, &blocks);
            assert_eq!((done.text("/log/family"), done.number("/source/version")), ("antelope", version.into()));
        });
    }
}

#[test]
fn pruned_log_gives_its_last_blocks() {
    let blocks = antelope(3, 1, 1000, 9);
    let mut bytes = antelope_log(3, &blocks);
    bytes[3] |= 0x80;
    // The pruned blocks are a hole, but for stale pieces.
    let kept = 300;
    let from = antelope_starts(&bytes)[1000 - kept];
    bytes[200..from - 50].fill(0);
    bytes.extend((kept as u32).to_le_bytes());
    holds(&imported(&bytes, &[]).1, &blocks[1000 - kept..]);
    let place = Place::in_memory();
    import_pipe(&place, bytes).run().refused(3, 0, "a pruned log can only be read from its end");
}

#[test]
fn partitions_and_the_newest_log_are_joined() {
    let blocks = antelope(3, 1, 900, 10);
    let place = Place::in_memory();
    std::fs::create_dir_all(place.path("blocks/retained")).expect("a folder");
    for (name, part) in [("retained/blocks-1-300.log", 0), ("retained/blocks-301-600.log", 1), ("blocks.log", 2)] {
        place.file(&format!("blocks/{name}"), &antelope_log(3, &blocks[300 * part..][..300]));
    }
    holds(&import(&place, place.path("blocks")).run(), &blocks);
}

#[test]
fn range_of_blocks_is_imported() {
    let blocks = steem(1, MANY, 11);
    for (from, to) in [(1, 10), (2500, 2500), (777, 5011), (5999, 6000)] {
        let args = ["--from", &from.to_string(), "--to", &to.to_string()];
        both(&raw(&blocks), &args, |done| holds(done, &blocks[from - 1..to]));
    }
}

#[test]
fn torn_log_is_trimmed_when_requested() {
    let blocks = steem(1, 500, 12);
    for packed in [Packed::Raw, Packed::Zstd] {
        let whole = log(&blocks, |_| packed);
        let (last, before) = (starts(&whole)[499], starts(&whole)[498]);
        let zeros = [&whole[..last], &[0; 700]].concat();
        for torn in [&whole[..whole.len() - 1], &whole[..last + 30], &whole[..before + 40], &zeros] {
            let (kept, end) = if torn.len() < last { (498, before) } else { (499, last) };
            both(torn, &["--tail", "trim"], |done| {
                holds(done, &blocks[..kept]);
                assert_eq!(done.number("/log/trimmed_bytes"), (torn.len() - end) as u64);
            });
        }
    }
}

#[test]
fn matching_checkpoints_are_accepted() {
    let blocks = steem(1, 700, 13);
    let pin = |block: &LogBlock| format!("{}:{}", block.number, hex(&block.id));
    let place = Place::in_memory();
    let list = place.file("checkpoints", format!("# some\n{}\n\n{}\n", pin(&blocks[8]), pin(&blocks[600])).as_bytes());
    let list = list.display().to_string();
    let args = ["--expect-head", &pin(&blocks[699]), "--checkpoint", &pin(&blocks[0]), "--checkpoint", &list];
    let (_place, done) = imported(&raw(&blocks), &args);
    holds(&done, &blocks);
    assert_eq!(done.number("/log/checkpoints"), 3);
}

#[test]
fn indexes_none_creates_no_family() {
    let (_place, done) = imported(&raw(&steem(1, 100, 14)), &["--indexes", "none"]);
    done.succeeded();
    let families = rust_rocksdb::DB::list_cf(&rust_rocksdb::Options::default(), &done.db).expect("a database");
    assert_eq!(families, ["default"]);
}

/// Runs `bedload get`. Returns the exit code and standard output.
fn get(db: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = program().args(["get", "--db"]).arg(db).args(args).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn blocks_are_found_by_number_and_id() {
    let (steem, antelope) = (steem(1, 300, 15), antelope(3, 1, 300, 15));
    for (blocks, bytes) in [(&steem, raw(&steem)), (&antelope, antelope_log(3, &antelope))] {
        let (_place, done) = imported(&bytes, &[]);
        let (db, block) = (&done.db, &blocks[122]);
        for key in ["123", &hex(&block.id)] {
            let (code, text) = get(db, &[key]);
            let json: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!((code, &json["number"]), (Some(0), &123.into()));
            assert_eq!((&json["id"], &json["previous"]), (&hex(&block.id).into(), &hex(&blocks[121].id).into()));
            assert_eq!(get(db, &["--as", "hex", key]).1.trim(), hex(&block.bytes));
        }
        assert_eq!((get(db, &["301"]).0, get(db, &["nonsense"]).0), (Some(1), Some(2)));
        let report = json(&["verify"], db, &[], 0);
        assert_eq!((&report["valid"], &report["records"]), (&true.into(), &300.into()), "{report}");
    }
}

#[test]
fn verify_finds_wrong_blocks_and_ids() {
    let (blocks, others) = (steem(1, 300, 16), steem(1, 300, 17));
    let key = 150u32.to_be_bytes();
    let mut changed = blocks[149].bytes.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    let swap = |db: &rust_rocksdb::DB| db.put(key, &others[149].bytes).expect("put");
    let change = |db: &rust_rocksdb::DB| db.put(key, &changed).expect("put");
    let delete = |db: &rust_rocksdb::DB| db.delete(key).expect("deleted");
    let no_block = |db: &rust_rocksdb::DB| db.put(key, b"no block").expect("put");
    let move_id = |db: &rust_rocksdb::DB| {
        let family = db.cf_handle("block_ids").expect("a family");
        db.put_cf(family, &blocks[7].id, 9u32.to_be_bytes()).expect("put");
        db.flush_cf(family).expect("flushed");
    };
    type Spoil<'a> = &'a dyn Fn(&rust_rocksdb::DB);
    let cases: [(Spoil, &[&str]); 5] = [
        (&swap, &["digest", "link", "index"]),
        (&change, &["digest", "root"]),
        (&delete, &["count", "digest", "link", "index"]),
        (&no_block, &["digest", "hash", "link", "index"]),
        (&move_id, &["digest"]),
    ];
    let (place, done) = imported(&raw(&blocks), &[]);
    for (spoil, kinds) in cases {
        let spoiled = place.path("spoiled");
        copy(&done.db, &spoiled);
        let (db, _) = open_all(&spoiled);
        spoil(&db);
        db.flush().expect("flushed");
        drop(db);
        let report = json(&["verify"], &spoiled, &[], 3);
        std::fs::remove_dir_all(&spoiled).expect("removed");
        let found = report["problems"]["kinds"].as_object().expect("kinds").keys();
        assert_eq!(found.collect::<Vec<_>>(), kinds);
    }
}

#[test]
fn inspect_describes_a_log() {
    let blocks = steem(1, 800, 18);
    let bytes = log(&blocks, |number| if number > 300 { Packed::Zstd } else { Packed::Raw });
    let place = Place::in_memory();
    let report = inspect(&place.file("log", &bytes), &[], 0);
    assert_eq!((&report["format"], &report["blocks"]), (&"block-log".into(), &800.into()));
    let log = &report["log"];
    assert_eq!((&log["family"], &log["first"]["number"]), (&"hive".into(), &1.into()));
    assert_eq!(log["last"]["id"], hex(&blocks[799].id));
    assert_eq!((&log["packings"]["raw"], &log["packings"]["zstd"]), (&300.into(), &500.into()));
    assert_eq!(report["digest"], model(&blocks).digest());
    let report = inspect(&place.file("torn", &bytes[..bytes.len() - 1]), &[], 3);
    assert_eq!(report["log"]["last"]["number"], 799);
}

/// The lines of `inspect --list`, and standard error.
#[track_caller]
fn listed(source: &Path, stdin: &[u8], code: i32) -> (Vec<Value>, String) {
    let output = program().args(["inspect", "--list"]).arg(source).write_stdin(stdin).output().expect("it runs");
    let [lines, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(output.status.code(), Some(code), "{said}");
    (lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), said)
}

#[test]
fn inspect_lists_every_block() {
    let place = Place::in_memory();
    let blocks = steem(1, 900, 19);
    let mixed = log(&blocks, |number| if number.is_multiple_of(3) { Packed::Zstd } else { Packed::Raw });
    let starts = starts(&mixed);
    for (source, stdin) in [(place.file("log", &mixed), &b""[..]), ("-".into(), &mixed)] {
        let (lines, _) = listed(&source, stdin, 0);
        assert_eq!(lines.len(), blocks.len());
        for (index, (line, block)) in lines.iter().zip(&blocks).enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(mixed.len());
            let expected = serde_json::json!({
                "schema": "bedload-list-1", "type": "block", "number": block.number, "id": hex(&block.id),
                "bytes": block.bytes.len(), "stored_bytes": end - 8 - starts[index], "offset": starts[index],
            });
            assert_eq!(line, &expected);
        }
    }
    // Offsets of a split log are those in each part.
    parts(&place, &blocks, 400, 0);
    let (lines, _) = listed(&place.path("chain"), b"", 0);
    assert_eq!(lines.len(), blocks.len());
    for index in [0, 399, 400, 899] {
        let line = &lines[index];
        assert_eq!((&line["number"], &line["part"]), (&(index + 1).into(), &(index / 400 + 1).into()));
        assert_eq!(line["offset"] == 0, index.is_multiple_of(400));
    }
}

#[test]
fn list_ends_at_the_damage() {
    let place = Place::in_memory();
    let whole = raw(&steem(1, 300, 20));
    let damaged = flipped(&whole, starts(&whole)[150] + 22, 1);
    let (lines, said) = listed(&place.file("log", &damaged), b"", 3);
    assert_eq!(lines.len(), 151, "{said}");
    assert!(said.contains("block 152 says that it follows"), "{said}");
    let (lines, said) = listed("-".as_ref(), &whole[..whole.len() - 3], 3);
    assert_eq!(lines.len(), 299, "{said}");
    assert!(said.contains("a torn tail found") && said.contains("imports up to block 299"), "{said}");
}
