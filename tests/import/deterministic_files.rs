//! The files of a database depend on the source, the keys and the options, but not on threads, memory or compression.

use serde_json::Value;

use crate::common::bundle::{bundle, described};
use crate::common::car::*;
use crate::common::database::{generate_as, ssts};
use crate::common::run::{Place, Run, import};

/// Blocks of several classes of keys, some of which belong to none, and duplicates.
fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = (0..6000).map(|i| blake(0x71, &noise(i, 500 + (i * 37 % 900) as usize))).collect();
    blocks.extend((0..900).map(|i| sha256(0x55, &noise(10_000 + i, 300))));
    blocks.extend((0..40).map(|i| identity(0x55, &noise(20_000 + i, 20))));
    blocks.extend_from_within(100..400);
    // An order that has nothing to do with that of the keys, and some of each class at the beginning.
    blocks.sort_by_key(|(cid, data)| (data.len() % 7, cid.last().copied()));
    blocks
}

/// Bundles of all these imports have the same files: the first one writes more than `least`, and the others none.
fn are_equal(place: &Place, imports: impl IntoIterator<Item = Run>, least: u64) {
    let mut first: Option<Value> = None;
    for (number, import) in imports.into_iter().enumerate() {
        let (db, to) = (place.path(&format!("db-{number}")), place.path("bundle"));
        import.db(db.clone()).succeeds();
        let written = bundle(&db, &to).succeeds().number("/uploaded_files");
        let files = described(&to)["files"].take();
        if number == 0 {
            assert!(
                written > least && files.as_array().is_some_and(|files| files.len() as u64 == written),
                "{written}"
            );
        } else {
            assert_eq!((Some(&files), written), (first.as_ref(), 0), "import {number}");
        }
        first = Some(files);
    }
}

#[test]
fn car_import_is_deterministic() {
    let place = Place::new();
    let car = rooted(&blocks());
    let (plain, packed) = (place.file("a.car", &car), place.file("a.car.zst", &zstd(&car)));
    let ways: [&[&str]; 6] = [
        &["--threads", "1"],
        &["--threads", "8", "--memory", "256MiB"],
        &["--threads", "2", "--memory", "16MiB"],
        &["--threads", "2", "--plan", "spill"],
        &["--threads", "5", "--plan", "memory"],
        &["--threads", "3", "--plan", "source"],
    ];
    let sources = ways[..5].iter().flat_map(|way| [(way, &plain), (way, &packed)]).chain([(&ways[5], &plain)]);
    let small = ["--set", "load.ingest.sst_size=2M"];
    are_equal(&place, sources.map(|(way, source)| import(&place, source).args(&small).args(way)), 8);
    // On another host they would differ.
    for path in ssts(&place.path("db-0")) {
        let bytes = std::fs::read(&path).expect("a file");
        assert!(!bytes.windows(13).any(|window| window == b"host.identity"), "{}", path.display());
    }
}

#[test]
fn block_log_import_is_deterministic() {
    let place = Place::new();
    let source = generate_as(place.path("block_log"), &["--profile", "steem", "--size", "12MiB"]);
    let ways = [
        ["--threads", "1", "--memory", "128MiB"],
        ["--threads", "8", "--memory", "256MiB"],
        ["--threads", "2", "--memory", "16MiB"],
    ];
    let indexes = ["--indexes", "ids,transactions"];
    are_equal(&place, ways.map(|way| import(&place, &source).args(&indexes).args(&way)), 0);
}
