//! Parts of bundles: some column families.

use std::path::PathBuf;

use crate::Needs;
use crate::common::bundle::*;
use crate::common::crash::plain;
use crate::common::run::{Done, Place, bedload, import};

tests! {
    Needs::Nothing => [
        log_is_seeded_without_its_indexes,
        seed_resumes_only_the_same_part,
        unknown_column_family_is_refused,
    ];
}

/// Publishes an import of a generated log with both indexes. Returns the import and the place of the bundle.
fn published_log(place: &Place) -> (Done, PathBuf) {
    let log = place.path("block_log");
    let made =
        bedload().args(["generate", "--profile", "steem", "--size", "4MiB"]).arg(&log).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let done = import(place, &log).args(&SMALL_FILES).args(&["--indexes", "ids,transactions"]).run();
    let to = place.path("to");
    bundle(&done.db, &to).succeeds();
    (done, to)
}

fn log_is_seeded_without_its_indexes() {
    let place = Place::new();
    let (done, to) = published_log(&place);
    for (families, count) in [(&["default"][..], 1), (&["transactions", "default"], 2)] {
        let y = place.path("y");
        let args: Vec<&str> = families.iter().flat_map(|name| ["--column-family", name]).collect();
        let seeded = seed(&to, &y).arg(&args).succeeds();
        assert_eq!(seeded.json["log"]["families"].as_array().expect("families").len(), count);
        assert_eq!(seeded.json["digest"], done.json["digest"]);
        is_valid(&y);
        bundle(&y, &to).refused(4, "is only a part of a bundle");
        std::fs::remove_dir_all(&y).expect("a database");
    }
    let y = place.path("y");
    seed(&to, &y).arg(&["--column-family", "block_ids"]).refused(2, "there are no blocks");
}

fn seed_resumes_only_the_same_part() {
    let place = Place::new();
    let (_, to) = published_log(&place);
    let y = place.path("y");
    let args =
        |families: &[&'static str]| families.iter().flat_map(|name| ["--column-family", *name]).collect::<Vec<_>>();
    seed(&to, &y).arg(&args(&["default"])).dies_at("fetched:2");
    let other = args(&["default", "transactions"]);
    seed(&to, &y).arg(&other).refused(4, "part was");
    seed(&to, &y).refused(4, "part was");
    seed(&to, &y).arg(&args(&["default"])).succeeds();
    is_valid(&y);
    let verified = bedload().arg("verify").arg(&y).output().expect("it runs");
    assert!(String::from_utf8_lossy(&verified.stdout).contains("it is a part"), "{verified:?}");
}

fn unknown_column_family_is_refused() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    seed(&to, &y).arg(&["--column-family", "other"]).refused(2, "has no column family `other`");
    assert!(!partial(&y).exists() && !y.exists());
}
