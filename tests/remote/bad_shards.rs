//! Parts that `bundle --join` refuses, and imports that cannot be sharded.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::bundle::*;
use crate::common::crash::{list, log, older, plain, small};
use crate::common::database::flip;
use crate::common::run::Place;
use crate::remote::shards::published_shards;

/// The only set of parts in a directory.
pub fn set(to: &Path) -> PathBuf {
    let latest = std::fs::read_to_string(to.join("parts/latest")).expect("a pointer");
    to.join("parts").join(latest.trim_end())
}

#[test]
fn join_names_missing_parts() {
    let place = Place::in_memory();
    let to = place.dir("bundles");
    join(&to).refused(4, "has no parts");
    published_shards(&place, &small().file, 6, (0..6).filter(|number| ![1, 3, 5].contains(number)), &[]);
    let refused = join(&to).refused(4, "3 of 6 parts are missing: 1, 3, 5");
    assert!(refused.text("/hint").contains("counted from 0"), "{refused:?}");
    assert!(!to.join("latest").exists());
    published_shards(&place, &small().file, 6, [1, 3, 5], &[]);
    join(&to).succeeds();
    // Most of very many are counted.
    published_shards(&place, &small().file, 65536, [1], &[]);
    join(&to).refused(4, "65535 of 65536 parts are missing: 0, 2, 3");
}

#[test]
fn join_refuses_parts_with_other_options() {
    let place = Place::in_memory();
    let to = published_shards(&place, &small().file, 2, [0], &[]);
    published_shards(&place, &small().file, 2, [1], &["--set", "node.table.block_size=4K"]);
    let refused = join(&to).refused(3, "its `options` differs from that of shard 0");
    assert!(refused.text("/hint").contains("run that shard again"), "{refused:?}");
    published_shards(&place, &small().file, 2, [1], &["--verify", "none"]);
    join(&to).refused(3, "its `verified` differs from that of shard 0");
    assert!(!to.join("latest").exists());
    published_shards(&place, &small().file, 2, [1], &[]);
    join(&to).succeeds();
}

#[test]
fn join_refuses_damaged_parts_and_files() {
    let place = Place::in_memory();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    let part = set(&to).join("1.json");
    let bytes = std::fs::read(&part).expect("a part");
    for at in (0..bytes.len()).step_by(bytes.len() / 60).chain([bytes.len() - 1]) {
        flip(&part, at, 1);
        join(&to).refused(3, "1.json");
        flip(&part, at, 1);
    }
    for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&part, &bytes[..len]).expect("written");
        join(&to).refused(3, "1.json");
    }
    // The part of another shard.
    std::fs::copy(part.with_file_name("0.json"), &part).expect("a copy");
    join(&to).refused(3, "or has the wrong name");
    assert!(!to.join("latest").exists());
    std::fs::write(&part, &bytes).expect("written");
    let pointer = std::fs::read(to.join("parts/latest")).expect("a pointer");
    for text in ["", "nonsense", "../../etc-of-2", &"0".repeat(300)] {
        std::fs::write(to.join("parts/latest"), text).expect("written");
        join(&to).refused(3, "latest");
    }
    std::fs::write(to.join("parts/latest"), pointer).expect("written");
    let file = list(&to.join("files")).remove(0);
    std::fs::write(&file, &std::fs::read(&file).expect("bytes")[1..]).expect("written");
    join(&to).refused(3, "the bundle declares");
    std::fs::remove_file(&file).expect("gone");
    join(&to).refused(3, "a part names it, but it does not exist");
    assert!(!to.join("latest").exists());
}

#[test]
fn parts_of_one_snapshot_make_a_bundle() {
    let place = Place::in_memory();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    seed(&to, &place.path("y")).refused(3, "the place has no bundle");
    let first = set(&to).file_name().expect("a name").to_string_lossy().into_owned();
    let text = std::fs::read(set(&to).join("0.json")).expect("a part");
    published_shards(&place, &older().file, 2, [1], &[]);
    join(&to).refused(4, "1 of 2 parts are missing: 0");
    let done = join(&to).args(&["--set", &first]).succeeds();
    assert_eq!(done.number("/records"), small().records);
    join(&to).args(&["--set", "nonsense"]).refused(2, "the name is not one of a set of parts");
    // A part cannot be seeded, also not under the names of a bundle.
    let mut part: Value = serde_json::from_slice(&text).expect("JSON");
    let fields = part.as_object_mut().expect("an object");
    fields.remove("checksum");
    fields.insert("schema".into(), "bedload-bundle-1".into());
    publish_text(&to, &serde_json::to_vec_pretty(&part).expect("JSON"));
    seed(&to, &place.path("y")).refused(3, "it is shard 0/2 alone");
}

#[test]
fn unshardable_imports_are_refused() {
    let (place, other) = (Place::in_memory(), Place::in_memory());
    let (db, there) = (place.path("db"), imported(&other, small()));
    for (db, args, words) in [
        (&db, &["--links", "check"][..], "needs all blocks"),
        (&db, &["--links", "require"], "needs all blocks"),
        (&db, &["--preset", "memtable"], "memtable"),
        (&there, &["--into-existing"], "a shard needs a database of its own"),
    ] {
        shard(&small().file, "0/2", db).args(args).refused(2, words);
    }
    shard(&log().file, "0/2", &db).refused(2, "a block log has no shards");
    shard(&plain().file, "2/2", &db).refused(2, "the shards of 16 are 0/16 to 15/16");
    assert!(!db.exists() && !partial(&db).exists());
}
