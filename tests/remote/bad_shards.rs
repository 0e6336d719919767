//! Parts that `bundle --join` refuses, and imports that cannot be sharded.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Needs;
use crate::common::bundle::*;
use crate::common::crash::{log, older, plain, small};
use crate::common::run::Place;
use crate::shards::published_shards;

tests! {
    Needs::Nothing => [
        join_names_missing_parts,
        join_refuses_parts_with_other_options,
        join_refuses_a_misplaced_part,
        join_refuses_a_damaged_part,
        join_refuses_missing_or_truncated_files,
        join_uses_parts_of_one_snapshot,
        part_cannot_be_seeded,
        unshardable_imports_are_refused,
    ];
}

/// The only set of parts in a directory.
fn set(to: &Path) -> PathBuf {
    let latest = std::fs::read_to_string(to.join("parts/latest")).expect("a pointer");
    to.join("parts").join(latest.trim_end())
}

fn join_names_missing_parts() {
    let place = Place::new();
    let to = place.path("bundles");
    std::fs::create_dir(&to).expect("a folder");
    join(&to).refused(4, "has no parts");
    published_shards(&place, &small().file, 16, (0..16).filter(|number| ![3, 7, 15].contains(number)), &[]);
    let refused = join(&to).refused(4, "3 of 16 parts are missing: 3, 7, 15");
    assert!(refused.text("/hint").contains("counted from 0"), "{refused:?}");
    assert!(!to.join("latest").exists());
    published_shards(&place, &small().file, 16, [3, 7, 15], &[]);
    join(&to).succeeds();
    // Most of very many are counted.
    published_shards(&place, &small().file, 65536, [1], &[]);
    join(&to).refused(4, "65535 of 65536 parts are missing: 0, 2, 3");
}

fn join_refuses_parts_with_other_options() {
    let place = Place::new();
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

fn join_refuses_a_misplaced_part() {
    let place = Place::new();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    let set = set(&to);
    std::fs::copy(set.join("0.json"), set.join("1.json")).expect("a copy");
    join(&to).refused(3, "or has the wrong name");
    assert!(!to.join("latest").exists());
}

fn join_refuses_a_damaged_part() {
    let place = Place::new();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    let part = set(&to).join("1.json");
    let bytes = std::fs::read(&part).expect("a part");
    for at in (0..bytes.len()).step_by(bytes.len() / 60).chain([bytes.len() - 1]) {
        let mut other = bytes.clone();
        other[at] ^= 1;
        std::fs::write(&part, &other).expect("written");
        join(&to).refused(3, "1.json");
    }
    for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&part, &bytes[..len]).expect("written");
        join(&to).refused(3, "1.json");
    }
    assert!(!to.join("latest").exists());
    std::fs::write(&part, &bytes).expect("written");
    for text in ["", "nonsense", "../../etc-of-2", &"0".repeat(300)] {
        std::fs::write(to.join("parts/latest"), text).expect("written");
        join(&to).refused(3, "latest");
    }
}

fn join_refuses_missing_or_truncated_files() {
    let place = Place::new();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    let file = to.join("files").read_dir().expect("files").next().expect("one").expect("a file").path();
    let bytes = std::fs::read(&file).expect("bytes");
    std::fs::write(&file, &bytes[1..]).expect("written");
    join(&to).refused(3, "the bundle declares");
    std::fs::remove_file(&file).expect("gone");
    join(&to).refused(3, "a part names it, but it does not exist");
    assert!(!to.join("latest").exists());
}

fn join_uses_parts_of_one_snapshot() {
    let place = Place::new();
    let to = published_shards(&place, &small().file, 2, 0..2, &[]);
    let first = set(&to).file_name().expect("a name").to_string_lossy().into_owned();
    published_shards(&place, &older().file, 2, [1], &[]);
    join(&to).refused(4, "1 of 2 parts are missing: 0");
    let done = join(&to).arg(&["--set", &first]).succeeds();
    assert_eq!(done.number("/records"), small().records);
    join(&to).arg(&["--set", "nonsense"]).refused(2, "--set is not a set of parts");
}

fn part_cannot_be_seeded() {
    let place = Place::new();
    let to = published_shards(&place, &small().file, 2, [0], &[]);
    seed(&to, &place.path("y")).refused(3, "there is no bundle here");
    // Also not under the names of a bundle.
    let text = std::fs::read(set(&to).join("0.json")).expect("a part");
    let mut part: Value = serde_json::from_slice(&text).expect("JSON");
    let fields = part.as_object_mut().expect("an object");
    fields.remove("checksum");
    fields.insert("schema".into(), "bedload-bundle-1".into());
    let text = serde_json::to_vec_pretty(&part).expect("JSON");
    let id = blake3::hash(&text).to_hex().to_string();
    std::fs::create_dir(to.join(&id)).expect("a folder");
    std::fs::write(to.join(&id).join("bundle.json"), &text).expect("written");
    seed(&to, &place.path("y")).arg(&["--bundle", &id]).refused(3, "it is shard 0/2 alone");
}

fn unshardable_imports_are_refused() {
    let place = Place::new();
    let db = place.path("db");
    let of = |args: &[&str]| shard(&small().file, "0/2", &db).arg(args);
    of(&["--links", "check"]).refused(2, "need all blocks");
    of(&["--links", "require"]).refused(2, "need all blocks");
    let other = Place::new();
    let there = imported(&other, small());
    shard(&small().file, "0/2", &there).arg(&["--into-existing"]).refused(2, "--shard is for a database of its own");
    shard(&small().file, "0/2", &db).arg(&["--preset", "memtable"]).refused(2, "memtable");
    shard(&log().file, "0/2", &db).refused(2, "a block log has no shards");
    shard(&plain().file, "2/2", &db).refused(2, "counted from 0, so the last one is 1/2");
    shard(&plain().file, "auto/2", &db).refused(2, "none of SLURM_ARRAY_TASK_ID");
    let two = shard(&plain().file, "auto/2", &db).env("SLURM_ARRAY_TASK_ID", "0").env("JOB_COMPLETION_INDEX", "1");
    two.refused(2, "SLURM_ARRAY_TASK_ID=0, JOB_COMPLETION_INDEX=1");
    assert!(!db.exists() && !partial(&db).exists());
}
