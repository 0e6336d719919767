//! `--key` and `--column-family` that contradict the database are refused before anything is reported.

use std::path::Path;

use super::{made, made_log, on};
use crate::common::database::{bedload, generate, import};
use predicates::str::contains;

/// Runs a command on `db` with these options of the location, and expects the refusal.
#[track_caller]
fn refused(command: &[&str], db: &Path, location: &[&str], words: &str, hint: &str) {
    let refused = bedload().args(command).arg("--db").arg(db).args(location).assert().code(4);
    refused.stderr(contains(format!("error: {}: {words}\nhint: {hint}\n", db.display())));
}

const CID: &str = "bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu";

#[test]
fn wrong_key_layout_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "256KiB");
    let to = dir.path().join("out.car");
    let to = to.to_str().expect("text");
    let hint = "leave --key out: BEDLOAD.json says what the keys are";
    for (made, plural, others) in
        [("cid", "CIDs", ["multihash", "digest"]), ("digest", "digests", ["cid", "multihash"])]
    {
        let db = import(dir.path(), &car, &["--key", made]);
        let words = format!("the keys of this database are {plural}");
        for other in others {
            for command in [&["verify"][..], &["verify", "--sample", "9"], &["walk"], &["get", CID], &["export", to]] {
                refused(command, &db, &["--key", other], &words, hint);
            }
        }
        assert!(!Path::new(to).exists());
        on(&db, &["verify", "--key", made]).success();
        // Without a record the keys themselves tell.
        std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
        refused(&["verify"], &db, &["--key", others[1]], &words, &format!("give --key {made}"));
        refused(&["get", CID], &db, &["--key", others[1]], &words, &format!("give --key {made}"));
        on(&db, &["verify", "--key", made]).success();
        std::fs::remove_dir_all(&db).expect("removed");
    }
}

#[test]
fn wrong_column_family_is_refused() {
    let (dir, _car, db) = made("256KiB", &["--column-family", "chain"]);
    let words = "the blocks of this database are in the column family chain, not in default";
    let to = dir.path().join("out.car");
    for command in [&["verify"][..], &["walk"], &["get", CID], &["export", to.to_str().expect("text")]] {
        let hint = "leave --column-family out: BEDLOAD.json names it";
        refused(command, &db, &["--column-family", "default"], words, hint);
    }
    on(&db, &["verify", "--column-family", "chain"]).success();
}

#[test]
fn key_layout_of_a_log_is_refused() {
    let (_dir, _log, db) = made_log("256KiB", &[]);
    for command in [&["verify"][..], &["walk"], &["get", "1"]] {
        let words = "the keys of this database are block numbers";
        refused(command, &db, &["--key", "cid"], words, "leave --key out: BEDLOAD.json says what the keys are");
    }
}
