//! Skipped F3 data of a snapshot of version 2: verified like every block, however long.

use std::path::Path;
use std::sync::OnceLock;

use ipld_core::ipld::Ipld;

use crate::common::car::*;
use crate::common::crash::*;
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

#[test]
fn f3_data_longer_than_the_budget_are_skipped() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        for from in [From::File, From::Pipe].into_iter().filter(|from| way != Way::Source || *from == From::File) {
            let skipped = case(&place.path(""), v2(), way, from, "skip");
            let ended = skipped.finishes();
            assert_eq!(ended.number("/f3/0/bytes"), F3_BYTES as u64, "{way:?} {from:?}");
            assert_eq!(ended.number("/f3/0/blocks"), 1);
            skipped.again();
        }
    }
    let packed =
        Box::leak(Box::new(Snapshot::new("v2.car.zst", zstd(&v2().bytes), &Model::new(&v2().blocks, Key::Cid))));
    case(&place.path(""), packed, Way::Spill, From::Pipe, "skip").finishes();
}

#[test]
fn f3_data_at_any_place_are_skipped() {
    let place = Place::in_memory();
    for (name, at) in [("again.car", &[1, 1, 4000][..]), ("last.car", &[8001]), ("middle.car", &[777])] {
        let snapshot = Box::leak(Box::new(snapshot(name, at)));
        for (way, from) in [(Way::Spill, From::File), (Way::Memory, From::File), (Way::Spill, From::Pipe)] {
            let case = case(&place.path(""), snapshot, way, from, "skip");
            let ended = case.finishes();
            assert_eq!(ended.number("/f3/0/blocks"), at.len() as u64, "{name}");
            case.again();
        }
        let _ = std::fs::remove_file(&snapshot.file);
    }
}

#[test]
fn stored_f3_data_over_budget_name_skip() {
    let place = Place::in_memory();
    let ended = case(&place.path(""), v2(), Way::Spill, From::File, "store").run();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    ended.says(&["a block of 24.0 MiB does not fit a memory budget of 16.0 MiB", "--f3 skip"]);
}

#[test]
fn a_changed_bit_or_a_cut_in_f3_data_is_found() {
    let place = Place::in_memory();
    let start = rooted(&v2().blocks[..1]).len();
    let damaged = |name: &str, bytes: Vec<u8>| -> &'static Snapshot {
        let file = place.file(name, &bytes);
        Box::leak(Box::new(Snapshot { file, bytes, blocks: Vec::new(), digest: String::new(), ..*v2() }))
    };
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        for from in [From::File, From::Pipe] {
            let mut bytes = v2().bytes.clone();
            bytes[start + F3_BYTES / 2] ^= 1;
            let changed = case(&place.path(""), damaged("damaged.car", bytes), way, from, "skip");
            let ended = changed.run();
            assert_eq!(ended.code, Some(3), "{way:?} {from:?}: {ended:?}");
            ended.says(&[&format!("at byte {start}: block "), "does not match its hash"]);
            assert!(!changed.partial().exists(), "something is left");

            let end = start + F3_BYTES / 3;
            let cut = case(&place.path(""), damaged("cut.car", v2().bytes[..end].to_vec()), way, from, "skip");
            let ended = cut.run();
            assert_eq!(ended.code, Some(3), "{way:?} {from:?}: {ended:?}");
            ended.says(&[&format!("at byte {end}: the snapshot ends inside a block")]);
            assert!(!cut.partial().exists(), "something is left");
        }
    }
}

#[test]
fn import_killed_within_f3_data_or_later_resumes() {
    let place = Place::in_memory();
    for (way, points) in [
        (Way::Memory, &["f3-piece:9", "held", "built", "ingested", "complete"][..]),
        (Way::Spill, &["f3-piece:9", "read", "read:3", "read-done", "renamed"]),
        (Way::Memtables, &["f3-piece:9", "batch", "read-done"]),
    ] {
        for from in [From::File, From::Pipe] {
            let case = case(&place.path(""), v2(), way, from, "skip");
            for point in points {
                case.dies_at(point);
                let ended = case.finishes();
                assert_eq!(ended.number("/f3/0/bytes"), F3_BYTES as u64, "{way:?} {from:?}: {point}");
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
fn skip_without_effect_is_accepted_or_refused() {
    let place = Place::in_memory();
    // Another choice does not resume.
    let stored = case(&place.path(""), plain(), Way::Spill, From::File, "store");
    stored.dies_at("read-done");
    let skipped = case(&place.path(""), plain(), Way::Spill, From::File, "skip");
    skipped.is_refused(&["holds an unfinished import of something else", "f3 was"]);
    stored.finishes();
    stored.again();
    // A snapshot without F3 data, and one whose metadata name data that it does not have.
    assert!(skipped.finishes().json.get("f3").is_none());
    skipped.again();
    let snapshot = Box::leak(Box::new(Snapshot::of_blocks("lacks.car", rooted(&v2().blocks), &v2().blocks)));
    assert!(case(&place.path(""), snapshot, Way::Spill, From::File, "skip").finishes().json.get("f3").is_none());
    let log = Case::new(&place.path("log"), log(), Way::Ranges, From::File).arg(&["--f3", "skip"]).run();
    assert_eq!(log.code, Some(2), "{log:?}");
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
        let point = match way {
            Way::Memory => "held",
            Way::Memtables => "batch",
            _ => "read:3",
        };
        let expected = case.finishes().json["f3"].clone();
        assert_eq!(expected.as_array().map(Vec::len), Some(with_f3), "{way:?}: {expected}");
        case.again();
        case.dies_at(point);
        assert_eq!(case.finishes().json["f3"], expected, "{way:?}");
        case.again();
    }
    let joined = case(&place.path(""), snapshot, Way::Memory, From::File, "skip").arg(&["--concatenated"]).run();
    assert_eq!(joined.code, Some(2), "{joined:?}");
    joined.says(&["has no effect on CARs that are joined in one file"]);
}
