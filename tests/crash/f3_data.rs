//! F3 data of a snapshot of version 2 that are left out or written to a file: verified like every block, however long.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ipld_core::ipld::Ipld;
use rustix::io::Errno;

use crate::common::car::*;
use crate::common::crash::*;
use crate::common::fault::failing;
use crate::common::model::{Key, Model};
use crate::common::run::{Place, program};

/// Bytes of F3 data: more than the budget of [`Way::Spill`].
const F3_BYTES: usize = 24 << 20;

fn f3() -> &'static Block {
    static BLOCK: OnceLock<Block> = OnceLock::new();
    BLOCK.get_or_init(|| blake(RAW, &noise(77, F3_BYTES)))
}

/// Metadata that name `f3` and the first of the other blocks, which follow.
fn blocks(f3: &Block, rest: &[Block]) -> Vec<Block> {
    let link = |block: &Block| Ipld::Link(cid::Cid::try_from(&block.0[..]).expect("a CID"));
    let fields =
        [("F3Data", link(f3)), ("HeadTipsetKey", Ipld::List(vec![link(&rest[0])])), ("Version", Ipld::Integer(2))];
    let map = Ipld::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    let metadata = block(&serde_ipld_dagcbor::to_vec(&map).expect("encoded"));
    [&[metadata], rest].concat()
}

/// A snapshot whose database has all but the F3 data, which stand before block `at`.
fn snapshot(name: &'static str, at: &[usize]) -> Snapshot {
    let stored = blocks(f3(), &plain().blocks);
    of(name, stored, at)
}

fn of(name: &'static str, stored: Vec<Block>, at: &[usize]) -> Snapshot {
    let mut all = stored.clone();
    at.iter().rev().for_each(|&at| all.insert(at, f3().clone()));
    let model = Model::new(&stored, Key::Cid);
    Snapshot { blocks: stored, ..Snapshot::new(name, rooted(&all), &model) }
}

/// As nodes write it: the F3 data are the second block.
fn v2() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| snapshot("v2.car", &[1]))
}

fn case(dir: &Path, snapshot: &'static Snapshot, way: Way, from: From, f3: &str) -> Case {
    Case::new(dir, snapshot, way, from).arg(&["--f3", f3])
}

fn file_of(place: &Place) -> (PathBuf, String) {
    let file = place.path("f3.bin");
    let text = file.to_str().expect("text").to_owned();
    (file, text)
}

#[track_caller]
fn has_f3(file: &Path, what: &str) {
    assert!(std::fs::read(file).expect("a file") == f3().1, "{what}: the file is not the F3 data");
}

#[test]
fn f3_data_longer_than_the_budget_are_left_out_or_written_to_a_file() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        for from in [From::File, From::Pipe].into_iter().filter(|from| way != Way::Source || *from == From::File) {
            let skipped = case(&place.path(""), v2(), way, from, "skip");
            let ended = skipped.finishes();
            assert_eq!(ended.number("/f3/0/bytes"), F3_BYTES as u64, "{way:?} {from:?}");
            assert_eq!((ended.number("/f3/0/blocks"), &ended.json["f3"][0]["file"]), (1, &serde_json::Value::Null));
            skipped.again();

            let written = case(&place.path(""), v2(), way, from, &text);
            assert_eq!(written.finishes().text("/f3/0/file"), text, "{way:?} {from:?}");
            has_f3(&file, &format!("{way:?} {from:?}"));
            written.again();
            // It is the same, and stays.
            written.finishes();
            has_f3(&file, "the same file");
            std::fs::remove_file(&file).expect("removed");
            written.again();
        }
    }
    let packed =
        Box::leak(Box::new(Snapshot::new("v2.car.zst", zstd(&v2().bytes), &Model::new(&v2().blocks, Key::Cid))));
    case(&place.path(""), packed, Way::Spill, From::Pipe, &text).finishes();
    has_f3(&file, "packed");
}

#[test]
fn f3_data_are_passed_over_wherever_and_however_often_they_stand() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    for (name, at) in [("again.car", &[1, 1, 4000][..]), ("last.car", &[8001]), ("middle.car", &[777])] {
        let snapshot = Box::leak(Box::new(snapshot(name, at)));
        for (way, from) in [(Way::Spill, From::File), (Way::Memory, From::File), (Way::Spill, From::Pipe)] {
            let case = case(&place.path(""), snapshot, way, from, &text);
            let ended = case.finishes();
            assert_eq!(ended.number("/f3/0/blocks"), at.len() as u64, "{name}");
            has_f3(&file, name);
            std::fs::remove_file(&file).expect("removed");
            case.again();
        }
        let _ = std::fs::remove_file(&snapshot.file);
    }
}

#[test]
fn stored_f3_data_that_do_not_fit_name_the_other_ways() {
    let place = Place::in_memory();
    let ended = case(&place.path(""), v2(), Way::Spill, From::File, "store").run();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    ended.says(&["a block of 24.0 MiB does not fit a memory budget of 16.0 MiB", "--f3 skip", "--f3 FILE"]);
}

#[test]
fn a_changed_bit_or_a_cut_in_f3_data_is_found() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    let start = rooted(&v2().blocks[..1]).len();
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        for from in [From::File, From::Pipe] {
            for f3 in ["skip", &text] {
                let mut bytes = v2().bytes.clone();
                bytes[start + F3_BYTES / 2] ^= 1;
                let damaged = place.file("damaged.car", &bytes);
                let broken = Box::leak(Box::new(Snapshot {
                    file: damaged,
                    bytes,
                    blocks: Vec::new(),
                    digest: String::new(),
                    ..*v2()
                }));
                let case_of = |snapshot| case(&place.path(""), snapshot, way, from, f3);
                let ended = case_of(broken).run();
                assert_eq!(ended.code, Some(3), "{way:?} {from:?} {f3}: {ended:?}");
                ended.says(&[&format!("at byte {start}: block "), "does not match its hash"]);
                assert!(!file.exists() && !case_of(broken).partial().exists(), "something is left");

                let cut = v2().bytes[..start + F3_BYTES / 3].to_vec();
                let path = place.file("cut.car", &cut);
                let cut = Box::leak(Box::new(Snapshot {
                    file: path,
                    bytes: cut,
                    blocks: Vec::new(),
                    digest: String::new(),
                    ..*v2()
                }));
                let ended = case_of(cut).run();
                assert_eq!(ended.code, Some(3), "{way:?} {from:?} {f3}: {ended:?}");
                ended.says(&[&format!("at byte {}: the snapshot ends inside a block", start + F3_BYTES / 3)]);
                assert!(!file.exists() && !case_of(cut).partial().exists(), "something is left");
            }
        }
    }
}

#[test]
fn killed_in_the_middle_of_f3_data_and_behind_them_it_goes_on() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    for (way, points) in [
        (
            Way::Memory,
            &["f3-piece:9", "f3-synced", "held", "built", "ingested", "f3-checked", "f3-named", "complete"][..],
        ),
        (Way::Spill, &["f3-piece:9", "f3-synced", "read", "read:3", "read-done", "f3-checked", "f3-named", "renamed"]),
        (Way::Memtables, &["f3-piece:9", "f3-synced", "batch", "read-done", "f3-named"]),
    ] {
        for from in [From::File, From::Pipe] {
            let case = case(&place.path(""), v2(), way, from, &text);
            for point in points {
                case.dies_at(point);
                let is_named = ["f3-named", "complete", "renamed"].contains(point);
                assert_eq!(file.exists(), is_named, "{way:?} {from:?}: {point}");
                let ended = case.finishes();
                assert_eq!(ended.number("/f3/0/bytes"), F3_BYTES as u64, "{way:?} {from:?}: {point}");
                has_f3(&file, point);
                std::fs::remove_file(&file).expect("removed");
                case.again();
            }
        }
    }
    // Links are followed in what was read before, without the F3 data in memory; these are there.
    let case = case(&place.path(""), v2(), Way::Spill, From::Pipe, "skip").arg(&["--links", "check"]);
    case.dies_at("read:3");
    assert_eq!(case.finishes().number("/links/missing"), 0);
}

#[test]
fn a_file_that_was_damaged_or_removed_between_two_runs_is_not_named() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    let case = case(&place.path(""), v2(), Way::Spill, From::File, &text);
    for is_removed in [false, true] {
        case.dies_at("read-done");
        let ours = case.partial().join("f3");
        match is_removed {
            true => std::fs::remove_file(&ours).expect("removed"),
            false => std::fs::write(&ours, noise(78, F3_BYTES)).expect("written"),
        }
        case.is_refused(&["the unfinished import lacks the F3 data in", "--restart"]);
        assert!(!file.exists(), "it has its name");
        case.clone().arg(&["--restart"]).finishes();
        has_f3(&file, "again");
        std::fs::remove_file(&file).expect("removed");
        case.again();
    }
}

#[test]
fn another_file_of_the_name_is_refused_and_so_is_what_has_no_effect() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    std::fs::write(&file, "of a user").expect("written");
    let case_of = |f3: &str| case(&place.path(""), v2(), Way::Spill, From::File, f3);
    case_of(&text).is_refused(&["exists, and does not hold the F3 data of the snapshot"]);
    assert_eq!(std::fs::read(&file).expect("there"), b"of a user");
    std::fs::remove_file(&file).expect("removed");
    // One that comes while the import runs.
    let ended = case_of(&text).stopped_at("read-done", || std::fs::write(&file, "of a user").expect("written"));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert_eq!(std::fs::read(&file).expect("there"), b"of a user");
    std::fs::remove_file(&file).expect("removed");
    // Another choice does not go on with it.
    case_of("skip").is_refused(&["holds an unfinished import of something else", "f3 was file"]);
    case_of(&text).finishes();
    case_of(&text).again();

    let inside = case_of(&text).db.join("f3").display().to_string();
    let refused = case_of(&inside).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.says(&["is where the database is made"]);
    let without = case(&place.path(""), plain(), Way::Spill, From::File, &place.path("x").display().to_string()).run();
    assert_eq!(without.code, Some(2), "{without:?}");
    without.says(&["the snapshot names no F3 data that could go to a file"]);
    // Nothing to leave out is no fault.
    let skipped = case(&place.path(""), plain(), Way::Spill, From::File, "skip");
    assert!(skipped.finishes().json.get("f3").is_none());
    let log = Case::new(&place.path("log"), log(), Way::Ranges, From::File).arg(&["--f3", "skip"]).run();
    assert_eq!(log.code, Some(2), "{log:?}");
    // Metadata that name data which are not there.
    let snapshot = Box::leak(Box::new(Snapshot::of_blocks("lacks.car", rooted(&v2().blocks), &v2().blocks)));
    skipped.again();
    let lacks = case(&place.path(""), snapshot, Way::Spill, From::File, &place.path("x").display().to_string()).run();
    assert_eq!(lacks.code, Some(3), "{lacks:?}");
    lacks.says(&["the F3 data that its metadata names", "are not in the snapshot"]);
}

#[test]
fn a_disk_that_is_full_under_f3_data_is_reported_and_the_work_goes_on() {
    let place = Place::in_memory();
    let (file, text) = file_of(&place);
    let case = case(&place.path(""), v2(), Way::Spill, From::File, &text);
    for (call, number) in [("write", 5), ("sync", 1)] {
        let Some(failing) = failing(&case, call, number, Errno::NOSPC, "partial/f3") else { return };
        let ended = failing.run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.says(&["find room at", "partial/f3", "No space left on device"]);
        assert!(!file.exists());
        case.finishes();
        has_f3(&file, call);
        std::fs::remove_file(&file).expect("removed");
        case.again();
    }
}

#[test]
fn what_was_left_out_is_not_missed() {
    let place = Place::in_memory();
    let stored = blocks(f3(), &[blake(RAW, b"a head")]);
    let snapshot = Box::leak(Box::new(of("linked-v2.car", stored, &[1])));
    let case = case(&place.path(""), snapshot, Way::Spill, From::File, "skip").arg(&["--links", "require"]);
    case.finishes();
    let (db, source) = (case.db.to_str().expect("text"), case.snapshot.file.to_str().expect("text"));
    program().args(["verify", db, "--against", source]).assert().success();
    let walked = program().args(["walk", db, "--json"]).assert().success();
    let report: serde_json::Value = serde_json::from_slice(&walked.get_output().stdout).expect("JSON");
    assert_eq!(report["missing"], 0, "{report}");
    program().args(["export", db]).arg(place.path("back.car")).assert().success();
}

#[test]
fn each_of_several_sources_has_f3_data_of_its_own() {
    let place = Place::in_memory();
    let dir = place.path("cars");
    std::fs::create_dir(&dir).expect("a folder");
    let (shares, mut stored, mut with_f3) = (shares(), Vec::new(), 0);
    for (number, share) in shares.iter().enumerate() {
        // The last one has none, as a diff; nor has the one without blocks.
        let mut all = share.clone();
        if number + 1 < shares.len() && !share.is_empty() {
            with_f3 += 1;
            let f3 = blake(RAW, &noise(80 + number as u64, F3_BYTES));
            all = blocks(&f3, share);
            stored.extend_from_slice(&all);
            all.insert(1, f3);
        } else {
            stored.extend_from_slice(&all);
        }
        std::fs::write(dir.join(format!("{number}.car")), rooted(&all)).expect("room");
    }
    let model = Model::new(&stored, Key::Cid);
    let snapshot =
        Snapshot { file: dir.clone(), blocks: stored, ..Snapshot::new("several-v2.car", Vec::new(), &model) };
    let snapshot = Box::leak(Box::new(snapshot));
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        let case = case(&place.path(""), snapshot, way, From::File, "skip");
        let point = if way == Way::Memory { "held" } else { "read:3" };
        let expected = case.finishes().json["f3"].clone();
        assert_eq!(expected.as_array().map(Vec::len), Some(with_f3), "{way:?}: {expected}");
        case.again();
        case.dies_at(point);
        assert_eq!(case.finishes().json["f3"], expected, "{way:?}");
        case.again();
    }
    let joined = case(&place.path(""), snapshot, Way::Memory, From::File, "skip").arg(&["--concatenated"]).run();
    assert_eq!(joined.code, Some(2), "{joined:?}");
    joined.says(&["have no effect on CARs that are joined in one file"]);
    let (_, text) = file_of(&place);
    let refused = case(&place.path(""), snapshot, Way::Spill, From::File, &text).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.says(&["--f3 FILE is of one snapshot, and these are"]);
}
