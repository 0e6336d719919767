//! Shards: each imports its range of the keys alone, and the bundle of all of them is that of one import.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::bundle::*;
use crate::common::car::{block, car, noise};
use crate::common::crash::{Snapshot, copy, forest, hashed, mixed, plain, several, small};
use crate::common::model::{Key, Model, records};
use crate::common::run::{Place, import};
use crate::common::store::Store;

/// The database of one shard.
fn imported_shard(place: &Place, source: &Path, shard: &str, args: &[&str]) -> PathBuf {
    let db = place.path(&format!("shard-{}", shard.replace('/', "-of-")));
    crate::common::bundle::shard(source, shard, &db).args(args).succeeds();
    db
}

/// Imports and publishes these shards.
pub fn published_shards(
    place: &Place,
    source: &Path,
    of: u32,
    numbers: impl IntoIterator<Item = u32>,
    args: &[&str],
) -> PathBuf {
    let to = place.path("bundles");
    for number in numbers {
        let db = imported_shard(place, source, &format!("{number}/{of}"), args);
        let part = bundle(&db, &to).succeeds();
        assert_eq!(part.number("/part"), u64::from(number));
        std::fs::remove_dir_all(&db).expect("gone");
    }
    to
}

/// The shards of a source are joined, and the seeded bundle is that of one import. Returns the place of the bundle.
#[track_caller]
fn joined(place: &Place, snapshot: &Snapshot, key: Key, of: u32, args: &[&str]) -> PathBuf {
    let args = &[&["--key", key.name()], args].concat();
    let to = place.path("bundles");
    // They have the files of one import, and four are published at once.
    let is_power = of >= 4 && of.is_power_of_two();
    let numbers: Vec<u32> = (0..of).collect();
    std::thread::scope(|scope| {
        for numbers in numbers.chunks(if is_power { of as usize / 4 } else { of as usize }) {
            scope.spawn(|| published_shards(place, &snapshot.file, of, numbers.iter().copied(), args));
        }
    });
    assert!(!to.join("latest").exists(), "a part is no bundle");
    let done = join(&to).succeeds();
    assert_eq!((done.number("/joined"), done.text("/id")), (of.into(), &*latest(&to)));
    names_only_what_is_there(&to);
    let y = place.path("y");
    assert_eq!(seed(&to, &y).succeeds().json["shard"], Value::Null);
    let what = format!("{} in {of} shards, {args:?}", snapshot.name);
    assert!(records(&y) == Model::new(&snapshot.blocks, key).records, "{what}: other records than the model");
    is_valid(&y);
    let (alone, found) = (Place::in_memory(), described(&to)["record"].clone());
    let whole = import(&alone, &snapshot.file).args(&["--key", key.name()]).args(&SMALL_FILES).run();
    bundle(&whole.db, alone.path("bundles")).succeeds();
    let whole = described(&alone.path("bundles"))["record"].clone();
    assert_eq!(found, whole, "{what}");
    if is_power {
        assert!(files(&to).len() >= of as usize, "{what}: a shard has no file");
        let same = content(&to)["files"] == content(&alone.path("bundles"))["files"];
        assert!(same, "{what}: other files than those of one import");
    }
    to
}

#[test]
fn shards_of_any_source_equal_one_import() {
    // Each of sixteen shards has more than one file.
    let larger = Snapshot::plain("larger.car", (0..8000).map(|seed| block(&noise(seed, 1000))));
    for (snapshot, key, of, args) in [
        (&larger, Key::Cid, 16, &[][..]),
        (plain(), Key::Cid, 4, &[]),
        (mixed(), Key::Cid, 3, &[]),
        (forest(), Key::Cid, 3, &[]),
        (several(), Key::Cid, 3, &[]),
        (hashed(), Key::Multihash, 3, &[]),
        (hashed(), Key::Digest, 3, &[]),
        (plain(), Key::Cid, 1, &["--memory", "64M"]),
        (plain(), Key::Cid, 2, &["--memory", "16M", "--plan", "spill"]),
        (plain(), Key::Cid, 3, &["--memory", "16M", "--plan", "source"]),
        (small(), Key::Cid, 11, &["--memory", "16M", "--plan", "memory"]),
    ] {
        joined(&Place::in_memory(), snapshot, key, of, args);
    }
}

#[test]
fn shard_verifies_only_its_own_blocks() {
    let place = Place::in_memory();
    let mut blocks: Vec<_> = (0..40).map(|seed| block(&noise(seed, 300))).collect();
    blocks[20].1[100] ^= 1;
    // The digest begins after the six bytes that these CIDs share.
    let own = blocks[20].0[6] >> 6;
    let file = place.file("bad.car", &car(&[blocks[0].0.clone()], &blocks));
    for number in 0..4u8 {
        let db = place.path(&format!("db-{number}"));
        let run = shard(&file, &format!("{number}/4"), &db);
        if number == own {
            run.refused(3, "bad.car");
            assert!(!db.exists());
        } else {
            let done = run.succeeds();
            let expected = blocks.iter().filter(|block| block.0[6] >> 6 == number).count() as u64;
            assert_eq!(done.number("/blocks/read"), expected);
            assert_eq!(done.number("/shard/classes/0/blocks"), 40);
        }
    }
    // Every shard refuses a truncated source.
    let mut cut = car(&[blocks[0].0.clone()], &blocks[..10]);
    cut.truncate(cut.len() - 1);
    let file = place.file("cut.car", &cut);
    for number in 0..4 {
        shard(&file, &format!("{number}/4"), &place.path("cut")).refused(3, "cut.car");
    }
}

#[test]
fn killed_shard_resumes_only_as_itself() {
    for (args, points) in
        [(&[][..], &["held", "built", "complete"][..]), (&["--plan", "spill"], &["read-done", "built"])]
    {
        let args = &[&["--memory", "16M"], args].concat();
        let place = Place::in_memory();
        let db = place.path("db");
        let whole = shard(&plain().file, "1/4", &place.path("whole")).args(args).succeeds();
        for point in points {
            shard(&plain().file, "1/4", &db).args(args).dies_at(point);
            if *point != "complete" {
                let refused = shard(&plain().file, "2/4", &db).args(args).refused(4, "shard was 1/4, is now 2/4");
                assert!(refused.text("/error").contains("contains a different unfinished import"), "{refused:?}");
            }
        }
        // A copy of the source is compared with what was read of it.
        copy(&plain().file, &place.path("plain.car"));
        let done = shard(place.path("plain.car"), "1/4", &db).args(args).succeeds();
        assert_eq!(done.text("/digest"), whole.text("/digest"), "{args:?}");
        assert_eq!(done.number("/shard/classes/0/blocks"), plain().read, "{args:?}");
        is_valid(&db);
    }
}

#[test]
fn join_counts_roots_missing_from_all_shards() {
    let place = Place::in_memory();
    let blocks: Vec<_> = (0..200).map(|seed| block(&noise(seed, 300))).collect();
    let absent: Vec<_> = (500..540).map(|seed| block(&noise(seed, 300)).0).collect();
    let roots: Vec<_> = blocks.iter().take(30).map(|block| block.0.clone()).chain(absent).collect();
    let file = place.file("roots.car", &car(&roots, &blocks));
    let to = published_shards(&place, &file, 8, 0..8, &[]);
    join(&to).succeeds();
    let record = described(&to)["record"].clone();
    let whole = import(&place, &file).run();
    assert_eq!(record["missing_roots"], 40);
    assert_eq!(record["missing_roots"], whole.json["missing_roots"]);
    assert_eq!(record["first_missing_roots"], whole.json["first_missing_roots"]);
    // A shard checks only its own roots.
    let some = shard(&file, "3/8", &place.path("some")).args(&["--links", "roots"]).refused(3, "roots");
    assert!(!some.text("/error").contains("40 of"), "{some:?}");
}

#[test]
fn killed_or_repeated_shard_spoils_no_bundle() {
    let place = Place::in_memory();
    let to = published_shards(&place, &small().file, 3, 0..2, &[]);
    let db = imported_shard(&place, &small().file, "2/3", &[]);
    for point in ["bundle-file", "bundle-files"] {
        bundle(&db, &to).dies_at(point);
        join(&to).refused(4, "1 of 3 parts are missing: 2");
    }
    bundle(&db, &to).dies_at("part");
    join(&to).dies_at("bundle-described");
    assert!(!to.join("latest").exists());
    assert_eq!(names_only_what_is_there(&to), 1);
    join(&to).succeeds();
    assert_eq!(names_only_what_is_there(&to), 1);
    seed(&to, &place.path("y")).seeds(small());
    // A shard that is published again changes nothing. The bundle is there, so its files are used.
    let before = (latest(&to), content(&to));
    let again = imported_shard(&place, &small().file, "1/3", &["--memory", "40M"]);
    assert_eq!(bundle(&again, &to).succeeds().number("/uploaded_files"), 0);
    join(&to).succeeds();
    assert!((latest(&to), content(&to)) == before, "another bundle");
}

#[test]
fn shard_is_published_during_its_import() {
    let (place, store) = (Place::in_memory(), Store::new());
    let (dir, work, url) = (place.path("bundles"), place.dir("work"), Path::new("s3://bucket/mainnet"));
    for to in [&dir, url] {
        let at = |run: Run| if to == url { run.at(&store.endpoint()) } else { run };
        let import = |number: u32| at(import_to(plain(), to, None, &work).args(&["--shard", &format!("{number}/4")]));
        for number in 0..4 {
            for point in ["bundle-file", "bundle-files", "part"].into_iter().filter(|_| number == 3) {
                import(number).dies_at(point);
                if point != "part" {
                    at(join(to)).refused(4, "1 of 4 parts are missing: 3");
                }
            }
            assert_eq!(import(number).succeeds().number("/bundle/part"), u64::from(number));
        }
        assert_eq!(work.read_dir().expect("a folder").count(), 0, "something is left");
        assert_eq!(at(join(to)).succeeds().number("/records"), plain().records);
        at(seed(to, &place.path(&format!("y-{}", to == url)))).seeds(plain());
    }
    let (_alone, alone, _) = bundled(plain());
    assert!(content(&dir)["files"] == content(&alone)["files"], "other files than those of one import");
}
