//! Skipped F3 data of a snapshot of version 2: verified like every block, however long.

use std::sync::OnceLock;

use crate::common::car::*;
use crate::common::crash::*;
use crate::common::model::{Key, Model};
use crate::common::run::{Place, json, program};

/// Bytes of F3 data: more than the budget of [`Way::Spill`].
const F3_BYTES: usize = 17 << 20;

fn f3() -> &'static Block {
    static BLOCK: OnceLock<Block> = OnceLock::new();
    BLOCK.get_or_init(|| blake(RAW, &noise(77, F3_BYTES)))
}

/// Metadata that name `f3` and the first of the other blocks, which follow.
fn blocks(f3: &Block, rest: &[Block]) -> Vec<Block> {
    [&[f3_metadata(&f3.0, &[&rest[0].0])], rest].concat()
}

/// A snapshot whose database has `stored`, and not the F3 data before block `at`.
fn snapshot(name: &'static str, stored: Vec<Block>, at: &[usize]) -> Snapshot {
    let mut all = stored.clone();
    at.iter().rev().for_each(|&at| all.insert(at, f3().clone()));
    let model = Model::new(&stored, Key::Cid);
    Snapshot { blocks: stored, ..Snapshot::new(name, rooted(&all), &model) }
}

/// As nodes write it: the F3 data are the second block.
fn v2() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| snapshot("v2.car", blocks(f3(), &plain().blocks), &[1]))
}

fn case(snapshot: &'static Snapshot, way: Way, from: From, f3: &str) -> Case {
    Case::of(snapshot, way, from).arg(&["--f3", f3])
}

#[test]
fn f3_data_over_budget_are_skipped() {
    let of = |name, at| snapshot(name, v2().blocks.clone(), at).leaked();
    let file = [Way::Memory, Way::Spill, Way::Source, Way::Memtables].map(|way| (way, From::File));
    let pipe = [Way::Memory, Way::Spill, Way::Memtables].map(|way| (way, From::Pipe));
    let few = [file[0], file[1], pipe[1]];
    for (snapshot, blocks, all) in [
        (v2(), 1, &[&file[..], &pipe].concat()[..]),
        (of("again.car", &[1, 1, 2000]), 3, in_turn(&few, 0)),
        (of("last.car", &[4001]), 1, in_turn(&few, 1)),
        (of("middle.car", &[777]), 1, in_turn(&few, 2)),
    ] {
        for &(way, from) in all {
            let ended = case(snapshot, way, from, "skip").finishes();
            let what = format!("{}, {way:?} {from:?}", snapshot.name);
            assert_eq!(ended.number("/f3/0/blocks"), blocks, "{what}");
            assert!(blocks > 1 || ended.number("/f3/0/bytes") == F3_BYTES as u64, "{what}: {ended:?}");
        }
    }
    let packed = Snapshot::new("v2.car.zst", zstd(&v2().bytes), &Model::new(&v2().blocks, Key::Cid)).leaked();
    case(packed, Way::Spill, From::Pipe, "skip").finishes();
}

#[test]
fn stored_f3_data_over_budget_name_skip() {
    let words = ["a block of 17.0 MiB does not fit a memory budget of 16.0 MiB", "--f3 skip"];
    case(v2(), Way::Spill, From::File, "store").fails(3, "stored", &words);
}

#[test]
fn damaged_f3_data_are_found() {
    let start = rooted(&v2().blocks[..1]).len();
    let end = start + F3_BYTES / 3;
    let mut flipped = v2().bytes.clone();
    flipped[start + F3_BYTES / 2] ^= 1;
    for (name, bytes, words) in [
        ("flipped.car", flipped, [&*format!("at byte {start}: block "), "does not match its hash"]),
        ("cut.car", v2().bytes[..end].to_vec(), [&*format!("at byte {end}: "), "the snapshot ends inside a block"]),
    ] {
        let snapshot = Snapshot::new(name, bytes, &Model::new(&[], Key::Cid)).leaked();
        for (number, way) in [Way::Memory, Way::Spill, Way::Memtables].into_iter().enumerate() {
            for &from in in_turn(&[From::File, From::Pipe], number) {
                let case = case(snapshot, way, from, "skip");
                case.fails(3, &format!("{name}, {way:?} {from:?}"), &words);
                assert!(!case.partial().exists(), "{name}, {way:?} {from:?}: something is left");
            }
        }
    }
}

#[test]
fn import_killed_within_f3_data_resumes() {
    for (way, points) in [
        (Way::Memory, &["f3-piece:9", "held", "built", "ingested", "complete"][..]),
        (Way::Spill, &["f3-piece:9", "read", "read:3", "read-done", "renamed"]),
        (Way::Memtables, &["f3-piece:9", "batch", "read-done"]),
    ] {
        for from in [From::File, From::Pipe] {
            let points: Vec<_> = points.iter().copied().skip(usize::from(from == From::Pipe)).step_by(2).collect();
            let runs = case(v2(), way, from, "skip").resumes_from_each(&points, || {});
            let (point, ended) = runs.last().expect("runs");
            assert_eq!(ended.number("/f3/0/bytes"), F3_BYTES as u64, "{way:?} {from:?}: {point}");
        }
    }
    // Links are followed in what was read before, without the F3 data in memory; these are there.
    let case = case(v2(), Way::Spill, From::Pipe, "skip").arg(&["--links", "check"]);
    assert_eq!(case.resumes_from("read:3").number("/links/missing"), 0);
}

#[test]
fn skip_without_effect_is_accepted_or_refused() {
    // A snapshot without F3 data, and one whose metadata name data that it does not have.
    let lacks = Snapshot::of_blocks("lacks.car", rooted(&v2().blocks), &v2().blocks).leaked();
    for snapshot in [plain(), lacks] {
        assert!(case(snapshot, Way::Spill, From::File, "skip").finishes().json.get("f3").is_none());
    }
    case(log(), Way::Ranges, From::File, "skip").fails(2, "a log", &[]);
}

#[test]
fn skipped_f3_data_are_not_missed() {
    let stored = blocks(f3(), &[blake(RAW, b"a head")]);
    let snapshot = snapshot("linked-v2.car", stored, &[1]).leaked();
    let case = case(snapshot, Way::Spill, From::File, "skip").arg(&["--links", "require"]);
    case.finishes();
    let (db, source) = (case.db.to_str().expect("text"), case.snapshot.file.to_str().expect("text"));
    program().args(["verify", db, "--against", source]).assert().success();
    assert_eq!(json(program().args(["walk", db]), 0)["missing"], 0);
    program().args(["export", db]).arg(case.path("back.car")).assert().success();
}

#[test]
fn each_source_has_its_own_f3_data() {
    let place = Place::in_memory();
    let dir = place.dir("cars");
    let (shares, mut stored, mut with_f3) = (shares(), Vec::new(), 0);
    for (number, share) in shares.iter().enumerate() {
        // The last one has none, as a diff; nor has the one without blocks.
        let f3 = blake(RAW, &noise(80 + number as u64, 2 << 20));
        let has_f3 = number + 1 < shares.len() && !share.is_empty();
        let mut all = if has_f3 { blocks(&f3, share) } else { share.clone() };
        stored.extend_from_slice(&all);
        if has_f3 {
            with_f3 += 1;
            all.insert(1, f3);
        }
        std::fs::write(dir.join(format!("{number}.car")), rooted(&all)).expect("room");
    }
    let several = Snapshot::new("several-v2.car", Vec::new(), &Model::new(&stored, Key::Cid));
    let snapshot = Snapshot { file: dir, blocks: stored, ..several }.leaked();
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        let case = case(snapshot, way, From::File, "skip");
        let point = match way {
            Way::Memory => "held",
            Way::Memtables => "batch",
            _ => "read:3",
        };
        let expected = case.finishes().json["f3"].clone();
        assert_eq!(expected.as_array().map(Vec::len), Some(with_f3), "{way:?}: {expected}");
        case.again();
        assert_eq!(case.resumes_from(point).json["f3"], expected, "{way:?}");
    }
    let joined = case(snapshot, Way::Memory, From::File, "skip").arg(&["--concatenated"]);
    joined.fails(2, "joined", &["F3 data cannot be skipped in CARs that are joined"]);
}
