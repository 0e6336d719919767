//! Parts of bundles: some column families.

use std::path::{Path, PathBuf};

use crate::common::bundle::*;
use crate::common::crash::log;
use crate::common::run::{Done, Place, import, program};

/// Publishes an import of a block log. Returns the import and the place of the bundle.
pub fn published_log(place: &Place, index: &[&str]) -> (Done, PathBuf) {
    let (done, to) = (import(place, &log().file).args(&SMALL_FILES).args(index).succeeds(), place.path("bundles"));
    bundle(&done.db, &to).succeeds();
    (done, to)
}

/// A seed of these column families alone.
fn seed_part(to: &Path, y: &Path, families: &[&str]) -> Run {
    families.iter().fold(seed(to, y), |run, name| run.args(&["--column-family", name]))
}

#[test]
fn log_is_seeded_with_or_without_its_indexes() {
    for index in [&["--indexes", "none"][..], &["--indexes", "ids,transactions"], &[]] {
        let place = Place::in_memory();
        let (done, to) = published_log(&place, index);
        let seeded = seed(&to, &place.path("y")).succeeds();
        assert_eq!(seeded.json["log"]["families"], done.json["log"]["families"], "{index:?}");
        assert_eq!(seeded.json["digest"], done.json["digest"]);
        is_valid(&place.path("y"));
    }
    let place = Place::in_memory();
    let (done, to) = published_log(&place, &["--indexes", "ids,transactions"]);
    let y = place.path("y");
    for families in [&["default"][..], &["transactions", "default"]] {
        let seeded = seed_part(&to, &y, families).succeeds();
        assert_eq!(seeded.json["log"]["families"].as_array().expect("families").len(), families.len());
        assert_eq!(seeded.json["digest"], done.json["digest"]);
        is_valid(&y);
        bundle(&y, &to).refused(4, "is only a part of a bundle");
        std::fs::remove_dir_all(&y).expect("a database");
    }
    seed_part(&to, &y, &["block_ids"]).refused(2, "there are no blocks");
    seed_part(&to, &y, &["other"]).refused_at_once(2, "has no column family `other`");
    assert!(!y.exists());
    // A killed seed resumes only with the same part.
    seed_part(&to, &y, &["default"]).dies_at("fetched:2");
    seed_part(&to, &y, &["default", "transactions"]).refused(4, "part was");
    seed(&to, &y).refused(4, "part was");
    seed_part(&to, &y, &["default"]).succeeds();
    is_valid(&y);
    program().arg("verify").arg(&y).assert().stdout(predicates::str::contains("is a part of a bundle"));
}
