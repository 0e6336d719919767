//! A source, an option or a directory that has changed when an import resumes, or that changes while it is read.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde_json::Value;

use crate::common::car::{block, car, header, noise, rooted, section, zstd};
use crate::common::crash::*;

/// An import of a copy of [`plain`] that may be changed.
pub fn own_copy(way: Way) -> Case {
    own_copy_of(plain(), way)
}

/// An import of a copy of `snapshot` that may be changed.
pub fn own_copy_of(snapshot: &Snapshot, way: Way) -> Case {
    let case = Case::plain(way);
    Case { snapshot: snapshot.copied_to(case.path("own.car")), ..case }
}

/// Puts another file in its place, with the same times.
pub fn replace_and_put_times_back(path: &Path, bytes: &[u8]) {
    let time = path.metadata().and_then(|file| file.modified()).expect("a time");
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).expect("written");
    File::options().write(true).open(&new).and_then(|file| file.set_modified(time)).expect("set");
    std::fs::rename(&new, path).expect("renamed");
}

/// Writes into the file, and puts its times back.
pub fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    let time = path.metadata().and_then(|file| file.modified()).expect("a time");
    let file = File::options().write(true).open(path).expect("a file");
    file.write_all_at(bytes, at as u64).expect("written");
    file.set_modified(time).expect("set");
}

/// Changes four bytes in the middle.
fn change_a_value(path: &Path, bytes: &[u8]) {
    let at = bytes.len() / 2;
    overwrite(path, at, &[at, at + 1, at + 2, at + 3].map(|at| bytes[at] ^ 0x55));
}

/// The same snapshot with the first section of each length instead of all others of that length.
fn with_repeated_sections(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut first = HashMap::new();
    // The header is read as a section, too, and nothing else is as long.
    let mut at = 0;
    while let Ok((len, rest)) = unsigned_varint::decode::usize(&bytes[at..]) {
        let end = bytes.len() - rest.len() + len;
        let from = *first.entry(end - at).or_insert(at);
        bytes.copy_within(from..from + end - at, at);
        at = end;
    }
    bytes
}

/// The same snapshot with another block of the same length instead of the hundredth, or another byte of a log.
pub fn with_another_block(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = snapshot.bytes.clone();
    if snapshot.blocks.is_empty() {
        bytes[100_000] ^= 1;
        return bytes;
    }
    let [old, new] = [100, 777_777].map(|seed| section(&block(&noise(seed, 1700))));
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the block");
    bytes[at..at + new.len()].copy_from_slice(&new);
    bytes
}

type Change = fn(&Case, &Path);

const CHANGED: [&str; 2] = ["it changed while it was being read", "hint: start over with --restart"];

#[test]
fn source_changed_during_the_import_is_noticed() {
    let [spill, source, memtables] = [Way::Spill, Way::Source, Way::Memtables].map(|way| (way, "read-done"));
    let [memory, opened] = ["held", "source-opened"].map(|point| (Way::Memory, point));
    let early = [memory, (Way::Spill, "read:2"), (Way::Source, "read:2"), (Way::Memtables, "batch:2")];
    let a_value: Change = |case, path| change_a_value(path, &case.snapshot.bytes);
    let repeated: Change = |case, path| {
        let repeated = with_repeated_sections(&case.snapshot.bytes);
        assert_ne!(repeated, case.snapshot.bytes);
        overwrite(path, 0, &repeated);
    };
    let replaced: Change = |case, path| replace_and_put_times_back(path, &with_another_block(case.snapshot));
    let unpacked: Change = |_, path| replace_and_put_times_back(path, &with_another_block(plain()));
    let moved: Change = |_, path| std::fs::rename(path, path.with_extension("aside")).expect("renamed");
    let packed = Snapshot { bytes: zstd(&plain().bytes), ..plain().clone() };
    for (what, snapshot, change, stops) in [
        ("a value", plain(), a_value, &[memory, spill, memtables][..]),
        // Its keys collide then, which is not their fault.
        ("repeated sections", plain(), repeated, &[memory, spill, source, memtables]),
        ("another file", plain(), replaced, &[opened, (Way::Spill, "source-opened")]),
        ("another log", log(), replaced, &[(Way::Ranges, "source-opened")]),
        ("a plain file for a packed one", &packed, unpacked, &[opened]),
        ("moved", plain(), moved, &early),
    ] {
        for &(way, point) in stops {
            let case = own_copy_of(snapshot, way);
            let path = &case.snapshot.file;
            let vanished = ["it vanished while it was being read", "hint: put the same file back"];
            let [reason, hint] = if what == "moved" { vanished } else { CHANGED };
            case.is_refused_after(point, &format!("{what}, {way:?}"), &["own.car", reason, hint], || {
                change(&case, path)
            });
            if what == "moved" {
                std::fs::rename(path.with_extension("aside"), path).expect("renamed");
                case.finishes();
            }
        }
    }
}

#[test]
fn changed_standard_input_is_noticed() {
    for (way, point, verify) in [
        (Way::Spill, "read:2", "none"),
        (Way::Spill, "read:2", "hash"),
        (Way::Spill, "read-done", "none"),
        (Way::Memory, "held", "none"),
        (Way::Memtables, "batch:2", "none"),
    ] {
        let case = Case { from: From::Stdin, ..own_copy(way) }.arg(&["--verify", verify]);
        let words = ["-: it changed while it was being read", CHANGED[1]];
        let change = || change_a_value(&case.snapshot.file, &case.snapshot.bytes);
        case.is_refused_after(point, &format!("{way:?}, {verify}"), &words, change);
    }
}

pub const UNFINISHED: &str = "the source is not the one that the unfinished import has read";

#[test]
fn replaced_source_is_not_resumed() {
    for (snapshot, way, point) in [
        (plain(), Way::Spill, "read:3"),
        (plain(), Way::Spill, "read-done"),
        (plain(), Way::Memory, "built"),
        (log(), Way::Ranges, "ranges"),
    ] {
        let case = own_copy_of(snapshot, way);
        case.dies_at(point);
        // A change in what was read.
        replace_and_put_times_back(&case.snapshot.file, &with_another_block(case.snapshot));
        case.is_refused(&[UNFINISHED]);
        // A copy of the same source is the same.
        replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
        case.finishes();
    }
    // The journal describes the file that was opened, not the one that has its name by then.
    let case = own_copy(Way::Spill);
    let path = &case.snapshot.file;
    let replace = || replace_and_put_times_back(path, &with_another_block(case.snapshot));
    let died = case.dying_at("read:3").stopped_at("source-opened", replace);
    assert_eq!(died.code, Some(137), "{died:?}");
    case.is_refused(&[UNFINISHED]);
    replace_and_put_times_back(path, &case.snapshot.bytes);
    case.finishes();
}

/// The bug: the buffer of a block that is longer than a chunk is used again. From then on pieces are as long, and which
/// thread has it is chance. A single reader has it for all the rest, so its last piece reaches the end of the file from far.
#[test]
fn copy_read_in_other_pieces_resumes() {
    let blocks: Vec<_> = (0..6000).map(|i| block(&noise(i, if i == 0 { 3 << 20 } else { 1000 }))).collect();
    let snapshot = Snapshot::of_blocks("one-large.car", rooted(&blocks), &blocks);
    let mut case = own_copy_of(&snapshot, Way::Spill).env("BEDLOAD_DURABLE_BYTES", "1");
    case.args[3] = "24MiB".into();
    case.dies_at("read-done");
    let points = case.journal().iter().filter(|line| line["entry"] == "read").count();
    case.again();
    assert!(points > 2, "only {points} points");
    for point in (1..=points).step_by(rounds(4, 1)) {
        let died = case.dying_at(&format!("read:{point}")).run();
        // The number of points varies.
        assert!(died.code == Some(137) || point > 2, "{point}: {died:?}");
        if died.code == Some(137) {
            replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
            case.finishes();
        }
        case.again();
    }
}

fn with_report(case: &Case, path: &Path) -> Case {
    case.clone().arg(&["--report", path.to_str().expect("text")])
}

#[test]
fn report_replaces_no_file_of_the_import() {
    let case = own_copy(Way::Memory).into_existing(older());
    case.put_old();
    let (db, source) = (&case.db, &case.snapshot.file);
    let [preset, link, link_to_source] = ["own.toml", "link", "link.car"].map(|name| case.path(name));
    std::fs::write(&preset, "extends = \"ingest\"\n").expect("written");
    symlink(db, &link).expect("a link");
    symlink(source, &link_to_source).expect("a link");
    let files = [db.join("CURRENT"), db.join("BEDLOAD.json"), source.clone()];
    let before = files.each_ref().map(|name| std::fs::read(name).ok());
    let words = ["the report would replace the ", ", or a file in it", "hint: choose another name for --report"];
    let of_source = ["the report would replace the source", "hint: "];
    for (name, words) in [
        (db.join("CURRENT"), &words[..]),
        (db.join("new.json"), &words),
        (link.join("BEDLOAD.json"), &words),
        (case.partial(), &words),
        (case.partial().join("r"), &words),
        (preset.clone(), &words),
        (source.clone(), &of_source),
        (link_to_source, &of_source),
    ] {
        let own: &[&str] = if name == preset { &["--preset", preset.to_str().expect("text")] } else { &[] };
        with_report(&case, &name).arg(own).fails(2, &format!("{name:?}"), words);
        assert!(!case.partial().exists(), "{name:?}: work has begun");
    }
    // A source that comes from standard input may be a file.
    let stdin = Case { from: From::Stdin, db: case.path("new"), old: None, args: Vec::new(), ..case.clone() };
    with_report(&stdin, source).fails(2, "standard input", &[]);
    assert!(files.each_ref().map(|name| std::fs::read(name).ok()) == before, "a file has changed");
    case.finishes();
}

#[test]
fn finished_import_replaces_its_report() {
    let case = own_copy(Way::Memory);
    let old = case.path("old.json");
    let document = || serde_json::from_slice::<Value>(&std::fs::read(&old).expect("a file")).expect("JSON");
    std::fs::write(&old, b"{}").expect("written");
    with_report(&case, &old).dies_at("built");
    assert_eq!(document(), Value::Object(serde_json::Map::new()));
    let ended = with_report(&case, &old).finishes();
    assert_eq!(document(), ended.json);
    let is_left = |path: &PathBuf| path.to_string_lossy().contains(".bedload-");
    assert_eq!(list(&case.path("")).into_iter().find(is_left), None, "files are left");
}

#[test]
fn resume_names_both_sources_that_differ() {
    let case = own_copy(Way::Spill);
    case.dies_at("read:2");
    let (path, bytes) = (&case.snapshot.file, &case.snapshot.bytes);
    let time = path.metadata().and_then(|file| file.modified()).expect("a time");
    let longer = [&bytes[..], &section(&block(b"one more"))].concat();
    let flipped = |at: usize| [&bytes[..at], &[bytes[at] ^ 1], &bytes[at + 1..]].concat();
    for (what, content, age, words) in [
        ("size", longer, 0, ["own.car (4,128,221 bytes, ", "own.car (4,128,268 bytes, "]),
        ("time", bytes.clone(), 2, ["the source was ", "own.car (4,128,221 bytes, "]),
        ("head", flipped(5000), 0, ["the source was ", "with another beginning"]),
        ("tail", flipped(bytes.len() - 5), 0, ["the source was ", "with another end"]),
        ("none", bytes.clone(), 0, [""; 2]),
    ] {
        std::fs::write(path, content).expect("written");
        let file = File::options().write(true).open(path).expect("opened");
        file.set_modified(time - Duration::from_secs(age)).expect("set");
        if what == "none" {
            case.finishes();
        } else {
            let ended =
                case.fails(4, what, &["contains a different unfinished import", "the source was ", "--restart"]);
            ended.failed(4, what, &words);
        }
    }
}

#[test]
fn resume_names_both_choices_that_differ() {
    let case = Case::plain(Way::Spill);
    case.dies_at("read:2");
    let elsewhere = case.path("elsewhere");
    for (args, words) in [
        (["--preset", "ingest-zstd"], "preset was ingest, is now ingest-zstd"),
        (["--set", "node.table.block_size=32K"], "node.table.block_size was 16384, is now 32768"),
        (["--key", "digest"], "key was cid, is now digest"),
        (["--column-family", "other"], "column family was default, is now other"),
        (["--verify", "none"], "verify was true, is now false"),
        (["--null-padding", "eof"], "null padding was error, is now eof"),
        (["--f3", "skip"], "f3 was "),
        (["--work-dir", elsewhere.to_str().expect("text")], "work dir was nothing, is now "),
    ] {
        case.clone().arg(&args).fails(4, words, &[words, "--restart"]);
    }
    let mut other = case.clone();
    other.args[1] = "memory".into();
    other.is_refused(&["plan was spill, is now memory"]);

    case.edit_start(|line| line["identity"]["tool"] = "0.0.1".into());
    case.is_refused(&[&format!("tool was 0.0.1, is now {}", env!("CARGO_PKG_VERSION"))]);
    // The form that named no version; and one whose other lines are unknown as well.
    let forms: [fn(&mut Value); 2] = [
        |line| drop(line.as_object_mut().expect("an entry").remove("version")),
        |line| line["identity"] = "known to another program".into(),
    ];
    for form in forms {
        case.edit_start(form);
        let journal = || std::fs::read(case.partial().join("journal")).expect("a journal");
        let before = journal();
        case.is_refused(&[
            "another version of bedload began the unfinished import: its journal has the form 0",
            "this program reads the form 8",
            "--restart",
        ]);
        assert_eq!(journal(), before);
        assert!(case.partial().join("spill").exists(), "a refusal must not touch anything");
    }
    case.arg(&["--restart"]).finishes();
}

#[test]
fn restart_deletes_partitions_elsewhere() {
    let case = Case::plain(Way::Spill);
    let partitions = || list(&case.path("work")).len();
    case.clone().work_dir().dies_at("read:2");
    assert_eq!(partitions(), 1);
    case.clone().arg(&["--restart"]).finishes();
    assert_eq!(partitions(), 0, "partitions are left in the old work directory");
}

#[test]
fn pipe_with_another_source_is_refused() {
    let bytes = &plain().bytes;
    let mut other = bytes.clone();
    other[1 << 20] ^= 1;
    let root = block(&noise(0, 200)).0;
    let other_roots = [&header(&[])[..], &bytes[header(std::slice::from_ref(&root)).len()..]].concat();
    let pipes = [
        ("other", &other[..], UNFINISHED),
        ("short", &bytes[..1 << 20], UNFINISHED),
        ("other roots", &other_roots, "the source was - (a pipe), is now - (a pipe) with another header"),
    ];
    for (way, points) in
        [(Way::Spill, &["read:3", "read-done", "built:2", "ingested"][..]), (Way::Memory, &["ingested"])]
    {
        let case = Case::of(plain(), way, From::Pipe);
        if way == Way::Memory {
            // In memory everything is read and checked again; another whole snapshot must still not be mixed in.
            case.dies_at("built");
            let blocks: Vec<_> = (0..9000).map(|i| block(&noise(i, 900))).collect();
            case.run_with(&car(std::slice::from_ref(&root), &blocks)).failed(4, "another snapshot", &[]);
        }
        for (number, point) in points.iter().enumerate() {
            case.dies_at(point);
            for (what, bytes, words) in in_turn(&pipes, number) {
                case.run_with(bytes).failed(4, &format!("{way:?}, {point}: {what}"), &[words, "--restart"]);
            }
        }
        case.finishes();
    }
}

/// Two blocks of which both records have the same digest without a key: the first one, and where the bits are that differ.
fn colliding_block() -> (Vec<u8>, [usize; 2]) {
    const KEY: usize = 38;
    let secret = twox_hash::xxhash3_128::Hasher::with_seed(KEY as u64).into_secret();
    let mut data = noise(77, 400);
    // A multiplication by zero hides the upper half of a word, and two carries out of 64 bits are lost.
    let flipped = [2, 3].map(|stripe| {
        let at = stripe * 64 - KEY;
        data[at..at + 4].copy_from_slice(&secret[stripe * 8..stripe * 8 + 4]);
        at + 7
    });
    (data, flipped)
}

/// The bug: the records that were stored were compared with those that were verified by a checksum that anybody can forge.
#[test]
fn forged_blocks_are_noticed() {
    let (data, flipped) = colliding_block();
    let mut blocks = plain().blocks[..2000].to_vec();
    blocks.insert(1000, block(&data));
    let mut forged = data.clone();
    flipped.iter().for_each(|at| forged[*at] ^= 0x80);
    let digest_of = |data: &[u8]| {
        let mut digest = bedload::testing::hash::content_digest::ContentDigest::default();
        digest.add_record(&blocks[1000].0, data);
        digest
    };
    assert_eq!(digest_of(&data), digest_of(&forged), "the digest without a key");
    let bytes = rooted(&blocks);
    let block_at = bytes.windows(data.len()).position(|window| window == data).expect("the block");
    let snapshot = Snapshot::of_blocks("forged.car", bytes, &blocks);
    // Nothing shows whether the source or the references to it are wrong.
    for (way, point, words) in [
        (Way::Memory, "held", "own.car: it changed while it was being read: partition "),
        (Way::Source, "read-done", "the unfinished import is damaged: partition "),
    ] {
        let case = own_copy_of(&snapshot, way);
        let words = [words, " records, which are not the ", " that were verified", "--restart"];
        case.is_refused_after(point, &format!("{way:?}"), &words, || {
            let file = File::options().read(true).write(true).open(&case.snapshot.file).expect("a file");
            let len = snapshot.bytes.len();
            let (protection, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            // SAFETY: the file has these bytes, and nothing refers to them in this process. A map leaves the times of a file in
            // memory as they are.
            unsafe {
                let map = mmap(std::ptr::null_mut(), len, protection, shared, &file, 0).expect("a map");
                flipped.iter().for_each(|at| *map.cast::<u8>().add(block_at + at) ^= 0x80);
                munmap(map, len).expect("unmapped");
            }
        });
    }
}

#[test]
fn digest_key_is_private_to_second_readings() {
    let mut keys = BTreeSet::new();
    for (snapshot, way, has_key) in [
        (plain(), Way::Memory, true),
        (plain(), Way::Memory, true),
        (plain(), Way::Source, true),
        (plain(), Way::Spill, false),
        (forest(), Way::Memory, false),
    ] {
        let case = Case::of(snapshot, way, From::File);
        case.dies_at("start");
        let what = format!("{} {way:?}", snapshot.name);
        let journal = case.journal();
        let key = journal[0]["digest_key"].as_str();
        assert_eq!(key.is_some(), has_key, "{what}");
        let Some(key) = key else { continue };
        assert_eq!(key.len(), 64, "{what}: {key}");
        let mode = case.partial().join("journal").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{what}");
        // Nothing else has it, and the work that it protects is resumed.
        case.dies_at(if way == Way::Memory { "held" } else { "read-done" });
        assert_eq!(case.journal()[0]["digest_key"], key, "{what}");
        let ended = case.finishes();
        let record = std::fs::read_to_string(case.db.join("BEDLOAD.json")).expect("a record");
        assert!(!format!("{record}{}{}", ended.json, ended.stderr).contains(key), "{what}: the key is shown");
        assert!(keys.insert(key.to_owned()), "{what}: each import has its own");
    }
}
