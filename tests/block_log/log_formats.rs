//! Block logs of every family and framing, in one file or many, with and without what nodes keep beside them.

use std::path::Path;

use crate::common::log::*;
use crate::common::run::{Done, Place, import, import_pipe};

/// Blocks of a few ranges: with 8 ranges a thread, a range has 1 MiB.
const MANY: u32 = 6000;

fn indexes(done: &Done) -> Vec<(bool, String)> {
    let all = done.json["log"]["indexes"].as_array().expect("a list");
    all.iter()
        .map(|index| (index["used"].as_bool().expect("a word"), index["reason"].as_str().unwrap_or("").to_owned()))
        .collect()
}

#[test]
fn raw_log_gives_its_blocks_and_ids() {
    let blocks = steem(1, MANY, 1);
    let log = raw(&blocks);
    for threads in ["1", "2", "3"] {
        let place = Place::in_memory();
        let file = place.file("block_log", &log);
        let done = import(&place, &file).args(&["--threads", threads]).run();
        holds(&done, &blocks);
        assert_eq!(done.text("/log/family"), "steem");
        let place = Place::in_memory();
        holds(&import_pipe(&place, log.clone()).args(&["--threads", threads, "--memory", "16MiB"]).run(), &blocks);
    }
}

#[test]
fn raw_and_packed_blocks_may_be_mixed() {
    let blocks = steem(1, 2000, 2);
    for every in [1, 2, 7] {
        let packed = |number: u32| if number.is_multiple_of(every) { Packed::Zstd } else { Packed::Raw };
        let bytes = log(&blocks, packed);
        let place = Place::in_memory();
        let done = import(&place, place.file("log", &bytes)).run();
        holds(&done, &blocks);
        assert_eq!(done.text("/log/family"), "hive");
        let zstd = u64::from(2000 / every);
        assert_eq!((done.number("/log/packings/zstd"), done.number("/log/packings/raw")), (zstd, 2000 - zstd));
        let place = Place::in_memory();
        holds(&import_pipe(&place, bytes).run(), &blocks);
    }
}

#[test]
fn wrong_index_is_ignored_with_its_reason() {
    let blocks = steem(1, MANY, 3);
    let bytes = raw(&blocks);
    let right = index(&bytes);
    let mut shifted = right.clone();
    shifted[8 * 3000] ^= 1;
    let cut = &right[..right.len() - 8];
    let other = index(&raw(&steem(1, MANY, 4)));
    let all: [(&[u8], bool, &str); 4] = [
        (&right, true, ""),
        (&shifted, false, "its entry of block 3001 is another than the log has"),
        (cut, false, "it has 5999 entries, the log 6000 blocks"),
        (&other, false, ""),
    ];
    for (beside, used, reason) in all {
        let place = Place::in_memory();
        let file = place.file("block_log", &bytes);
        place.file("block_log.index", beside);
        let done = import(&place, file).run();
        holds(&done, &blocks);
        let found = indexes(&done);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, used, "{found:?}");
        assert!(found[0].1.contains(reason), "{found:?}");
    }
}

#[test]
fn wrong_artifacts_are_ignored_with_their_reason() {
    let blocks = steem(1, 3000, 5);
    let bytes = log(&blocks, |number| if number < 1000 { Packed::Raw } else { Packed::Zstd });
    for minor in [0, 1] {
        let right = artifacts(&bytes, &blocks, minor);
        let mut wrong_id = right.clone();
        let at = wrong_id.len() - 24 * 100 - 1;
        wrong_id[at] ^= 1;
        let mut wrong_head = right.clone();
        wrong_head[0] ^= 1;
        let mut wrong_version = right.clone();
        wrong_version[45] = 2;
        let all: [(&[u8], &str); 4] = [
            (&right, ""),
            (&wrong_id, "its entry of block 2900 is another"),
            (&wrong_head, "its head is block 3001, that of the log 3000"),
            (&wrong_version, "its version is not 1.0 or 1.1"),
        ];
        for (beside, reason) in all {
            let place = Place::in_memory();
            let file = place.file("block_log", &bytes);
            place.file("block_log.artifacts", beside);
            let done = import(&place, file).run();
            holds(&done, &blocks);
            let found = indexes(&done);
            assert_eq!(found[0].0, reason.is_empty(), "{found:?}");
            assert!(found[0].1.contains(reason), "{found:?}");
        }
    }
}

/// Writes the parts of a split log, each with positions of its own.
fn parts(place: &Place, blocks: &[LogBlock], each: usize, skip: usize) {
    std::fs::create_dir_all(place.path("chain")).expect("a folder");
    for (number, part) in blocks.chunks(each).enumerate().skip(skip) {
        let packed = |number: u32| if number.is_multiple_of(3) { Packed::Raw } else { Packed::Zstd };
        std::fs::write(place.path(&format!("chain/block_log_part.{:04}", number + 1)), log(part, packed))
            .expect("room");
    }
}

#[test]
fn split_log_is_read_by_any_name() {
    let blocks = steem(1, 1600, 6);
    let place = Place::in_memory();
    parts(&place, &blocks, 400, 0);
    let done = import(&place, place.path("chain")).run();
    holds(&done, &blocks);
    assert_eq!((done.number("/log/parts"), done.text("/log/family")), (4, "hive"));
    std::fs::remove_dir_all(&done.db).expect("removed");
    holds(&import(&place, place.path("chain/block_log_part.0001")).run(), &blocks);
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
    for version in 1..=4 {
        for (first, last) in [(1, MANY), (501, 1500)] {
            if first > 1 && version < 3 {
                continue;
            }
            let blocks = antelope(version, first, last, 8);
            let bytes = antelope_log(version, &blocks);
            let place = Place::in_memory();
            let done = import(&place, place.file("blocks.log", &bytes)).run();
            holds(&done, &blocks);
            assert_eq!((done.text("/log/family"), done.number("/source/version")), ("antelope", version.into()));
            let place = Place::in_memory();
            holds(&import_pipe(&place, bytes).run(), &blocks);
        }
    }
}

#[test]
fn pruned_log_gives_its_last_blocks() {
    let blocks = antelope(3, 1, 1000, 9);
    let mut bytes = antelope_log(3, &blocks);
    bytes[3] |= 0x80;
    // What was pruned is a hole, but for stale pieces.
    let kept = 300;
    let from = words_of_antelope(&bytes, 1000 - kept);
    bytes[200..from - 50].fill(0);
    bytes.extend((kept as u32).to_le_bytes());
    let place = Place::in_memory();
    holds(&import(&place, place.file("blocks.log", &bytes)).run(), &blocks[1000 - kept..]);
    let place = Place::in_memory();
    import_pipe(&place, bytes).run().refused(3, 0, "a pruned log can only be read from its end");
}

/// Where the block `index` of a log begins.
fn words_of_antelope(log: &[u8], index: usize) -> usize {
    let mut end = log.len();
    let mut starts = Vec::new();
    while end > 126 {
        end = u64::from_le_bytes(log[end - 8..end].try_into().expect("8 bytes")) as usize;
        starts.push(end);
    }
    starts.reverse();
    starts[index]
}

#[test]
fn partitions_and_the_newest_log_are_joined() {
    let blocks = antelope(3, 1, 900, 10);
    let place = Place::in_memory();
    std::fs::create_dir_all(place.path("blocks/retained")).expect("a folder");
    let write = |name: &str, part: &[LogBlock]| std::fs::write(place.path(name), antelope_log(3, part)).expect("room");
    write("blocks/retained/blocks-1-300.log", &blocks[..300]);
    write("blocks/retained/blocks-301-600.log", &blocks[300..600]);
    write("blocks/blocks.log", &blocks[600..]);
    holds(&import(&place, place.path("blocks")).run(), &blocks);
}

#[test]
fn range_of_blocks_is_imported() {
    let blocks = steem(1, MANY, 11);
    let bytes = raw(&blocks);
    for (from, to) in [(1, 10), (2500, 2500), (777, 5011), (5999, 6000)] {
        let args = ["--from", &from.to_string(), "--to", &to.to_string()];
        let wanted = &blocks[from - 1..to];
        let place = Place::in_memory();
        holds(&import(&place, place.file("block_log", &bytes)).args(&args).run(), wanted);
        let place = Place::in_memory();
        holds(&import_pipe(&place, bytes.clone()).args(&args).args(&["--memory", "16MiB"]).run(), wanted);
    }
}

#[test]
fn torn_log_is_trimmed_when_requested() {
    let blocks = steem(1, 500, 12);
    for packed in [Packed::Raw, Packed::Zstd] {
        let whole = log(&blocks, |_| packed);
        let starts: Vec<usize> = words(&whole).iter().map(|word| (word & ((1 << 48) - 1)) as usize).collect();
        let (last, before) = (starts[499], starts[498]);
        let zeros = [&whole[..last], &[0; 700]].concat();
        for torn in [&whole[..whole.len() - 1], &whole[..last + 30], &whole[..before + 40], &zeros] {
            let kept = if torn.len() < last { 498 } else { 499 };
            let place = Place::in_memory();
            let done = import(&place, place.file("block_log", torn)).args(&["--tail", "trim"]).run();
            holds(&done, &blocks[..kept]);
            let end = if kept == 498 { before } else { last };
            assert_eq!(done.number("/log/trimmed_bytes"), (torn.len() - end) as u64);
            let place = Place::in_memory();
            holds(&import_pipe(&place, torn).args(&["--tail", "trim"]).run(), &blocks[..kept]);
        }
    }
}

#[test]
fn matching_checkpoints_are_accepted() {
    let blocks = steem(1, 700, 13);
    let pin = |block: &LogBlock| format!("{}:{}", block.number, hex(&block.id));
    let place = Place::in_memory();
    let list = place.file("checkpoints", format!("# some\n{}\n\n{}\n", pin(&blocks[8]), pin(&blocks[600])).as_bytes());
    let args = ["--expect-head", &pin(&blocks[699]), "--checkpoint", &pin(&blocks[0]), "--checkpoint"];
    let file = place.file("block_log", &raw(&blocks));
    let done = import(&place, file).args(&args).args(&[&list.display().to_string()]).run();
    holds(&done, &blocks);
    assert_eq!(done.number("/log/checkpoints"), 3);
}

#[test]
fn indexes_none_creates_no_family() {
    let blocks = steem(1, 100, 14);
    let place = Place::in_memory();
    let done = import(&place, place.file("block_log", &raw(&blocks))).args(&["--indexes", "none"]).run();
    done.succeeded();
    let families = rust_rocksdb::DB::list_cf(&rust_rocksdb::Options::default(), &done.db).expect("a database");
    assert_eq!(families, ["default"]);
}

fn bedload(db: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = crate::common::run::program();
    let (first, rest) = args.split_first().expect("a command");
    let output =
        command.arg(first).arg("--db").arg(db).args(rest).args(["--progress", "off"]).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn blocks_are_found_by_number_and_id() {
    for antelope_chain in [false, true] {
        let blocks = if antelope_chain { antelope(3, 1, 300, 15) } else { steem(1, 300, 15) };
        let bytes = if antelope_chain { antelope_log(3, &blocks) } else { raw(&blocks) };
        let place = Place::in_memory();
        let db = import(&place, place.file("log", &bytes)).run().db;
        let block = &blocks[122];
        for key in ["123", &hex(&block.id)] {
            let (code, out, _) = bedload(&db, &["get", key]);
            let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!(code, Some(0));
            assert_eq!((json["number"].as_u64(), json["id"].as_str()), (Some(123), Some(&hex(&block.id)[..])));
            assert_eq!(json["previous"].as_str(), Some(&hex(&blocks[121].id)[..]));
            assert_eq!(bedload(&db, &["get", "--as", "hex", key]).1.trim(), hex(&block.bytes));
        }
        assert_eq!(bedload(&db, &["get", "301"]).0, Some(1));
        assert_eq!(bedload(&db, &["get", "nonsense"]).0, Some(2));
        let (code, out, _) = bedload(&db, &["verify", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(
            (code, json["valid"].as_bool(), json["records"].as_u64()),
            (Some(0), Some(true), Some(300)),
            "{out}"
        );
    }
}

/// Writes over records of a database that is valid.
fn spoil(db: &Path, spoil: impl Fn(&rust_rocksdb::DB)) {
    let options = rust_rocksdb::Options::default();
    let db = rust_rocksdb::DB::open_cf(&options, db, ["default", "block_ids"]).expect("a database");
    spoil(&db);
    db.flush().expect("flushed");
}

#[test]
fn verify_finds_wrong_blocks_and_ids() {
    let blocks = steem(1, 300, 16);
    let others = steem(1, 300, 17);
    let problems = |spoiling: &dyn Fn(&rust_rocksdb::DB)| {
        let place = Place::in_memory();
        let db = import(&place, place.file("log", &raw(&blocks))).run().db;
        spoil(&db, spoiling);
        let (code, out, _) = bedload(&db, &["verify", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(code, Some(3), "{out}");
        json["problems"]["kinds"].as_object().expect("kinds").keys().cloned().collect::<Vec<_>>()
    };
    let key = 150u32.to_be_bytes();
    let swapped = problems(&|db| db.put(key, &others[149].bytes).expect("put"));
    assert_eq!(swapped, ["digest", "link", "index"]);
    let mut changed = blocks[149].bytes.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    assert_eq!(problems(&|db| db.put(key, &changed).expect("put")), ["digest", "root"]);
    assert_eq!(problems(&|db| db.delete(key).expect("deleted")), ["count", "digest", "link", "index"]);
    assert_eq!(problems(&|db| db.put(key, b"no block").expect("put")), ["digest", "hash", "link", "index"]);
    let ids = |db: &rust_rocksdb::DB| {
        let family = db.cf_handle("block_ids").expect("a family");
        db.put_cf(family, &blocks[7].id, 9u32.to_be_bytes()).expect("put");
        db.flush_cf(family).expect("flushed");
    };
    assert_eq!(problems(&ids), ["digest"]);
}

#[test]
fn inspect_describes_a_log() {
    let blocks = steem(1, 800, 18);
    let packed = |number: u32| if number > 300 { Packed::Zstd } else { Packed::Raw };
    let bytes = log(&blocks, packed);
    let inspect = |file: &Path| {
        let mut command = crate::common::run::program();
        let output = command.arg("inspect").arg(file).arg("--json").output().expect("it runs");
        (output.status.code(), serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON"))
    };
    let place = Place::in_memory();
    let (code, json) = inspect(&place.file("log", &bytes));
    assert_eq!((code, json["format"].as_str(), json["blocks"].as_u64()), (Some(0), Some("block-log"), Some(800)));
    let log = &json["log"];
    assert_eq!((log["family"].as_str(), log["first"]["number"].as_u64()), (Some("hive"), Some(1)));
    assert_eq!(log["last"]["id"].as_str(), Some(&hex(&blocks[799].id)[..]));
    assert_eq!((log["packings"]["raw"].as_u64(), log["packings"]["zstd"].as_u64()), (Some(300), Some(500)));
    assert_eq!(json["digest"].as_str(), Some(&model(&blocks).digest()[..]));
    let (code, json) = inspect(&place.file("torn", &bytes[..bytes.len() - 1]));
    assert_eq!(
        (code, json["valid"].as_bool(), json["log"]["last"]["number"].as_u64()),
        (Some(3), Some(false), Some(799))
    );
}

/// The lines of `inspect --list`, and the exit code.
fn listed(source: &str, stdin: &[u8]) -> (Option<i32>, Vec<serde_json::Value>, String) {
    let mut command = crate::common::run::program();
    let output = command.args(["inspect", "--list", source]).write_stdin(stdin).output().expect("it runs");
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (output.status.code(), lines, String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn inspect_lists_every_block() {
    let place = Place::in_memory();
    let blocks = steem(1, 900, 19);
    let mixed = log(&blocks, |number| if number.is_multiple_of(3) { Packed::Zstd } else { Packed::Raw });
    let starts: Vec<u64> = words(&mixed).iter().map(|word| word & ((1 << 48) - 1)).collect();
    let file = place.file("log", &mixed).display().to_string();
    for (source, stdin) in [(&file[..], &b""[..]), ("-", &mixed[..])] {
        let (code, lines, _) = listed(source, stdin);
        assert_eq!((code, lines.len()), (Some(0), blocks.len()));
        for (index, (line, block)) in lines.iter().zip(&blocks).enumerate() {
            let end = starts.get(index + 1).map_or(mixed.len() as u64, |next| *next);
            let expected = serde_json::json!({
                "schema": "bedload-list-1", "type": "block", "number": block.number, "id": hex(&block.id),
                "bytes": block.bytes.len(), "stored_bytes": end - 8 - starts[index], "offset": starts[index],
            });
            assert_eq!(line, &expected);
        }
    }
    // Offsets of a split log are those in each part.
    parts(&place, &blocks, 400, 0);
    let (code, lines, _) = listed(&place.path("chain").display().to_string(), b"");
    assert_eq!((code, lines.len()), (Some(0), blocks.len()));
    for index in [0, 399, 400, 899] {
        let line = &lines[index];
        assert_eq!((&line["number"], &line["part"]), (&(index + 1).into(), &(index / 400 + 1).into()));
        assert_eq!(line["offset"] == 0, index.is_multiple_of(400));
    }
}

#[test]
fn list_ends_at_the_damage() {
    let place = Place::in_memory();
    let blocks = steem(1, 300, 20);
    let whole = raw(&blocks);
    let start = (words(&whole)[150] & ((1 << 48) - 1)) as usize;
    let mut damaged = whole.clone();
    damaged[start + 22] ^= 1;
    let (code, lines, stderr) = listed(&place.file("log", &damaged).display().to_string(), b"");
    assert_eq!((code, lines.len()), (Some(3), 151), "{stderr}");
    assert!(stderr.contains("block 152 says that it follows"), "{stderr}");
    let (code, lines, stderr) = listed("-", &whole[..whole.len() - 3]);
    assert_eq!((code, lines.len()), (Some(3), 299), "{stderr}");
    assert!(stderr.contains("a torn tail found") && stderr.contains("imports up to block 299"), "{stderr}");
}
