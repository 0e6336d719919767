//! Several imports with one `--work-dir`.

use std::path::PathBuf;

use crate::common::crash::*;
use crate::common::run::{Place, bedload};

/// An import of [`plain`] into `volume/db` with partitions in `work`.
fn case(place: &Place, from: From) -> Case {
    let work = place.path("work");
    Case::new(&place.path("volume"), plain(), Way::Spill, from).arg(&["--work-dir", work.to_str().expect("text")])
}

fn spills(place: &Place) -> Vec<PathBuf> {
    list(&place.path("work"))
}

/// Two containers have different volumes at the same path.
#[test]
fn equal_paths_of_two_volumes_share_nothing() {
    let place = Place::in_memory();
    let first = case(&place, From::File);
    first.dies_at("read:2");
    let kept = spills(&place);
    assert_eq!(kept.len(), 1, "{kept:?}");
    let other = place.path("other");
    std::fs::rename(place.path("volume"), &other).expect("renamed");
    let second = case(&place, From::File);
    second.dies_at("read:2");
    assert_eq!(spills(&place).len(), 2, "each import has its partitions");
    second.clone().arg(&["--restart"]).finishes();
    assert_eq!(spills(&place), kept, "the partitions of the other import are gone");
    std::fs::remove_dir_all(place.path("volume")).expect("ours");
    std::fs::rename(&other, place.path("volume")).expect("renamed");
    assert!(first.journal().iter().any(|line| line["entry"] == "read"));
    first.finishes();
    assert_eq!(spills(&place), Vec::<PathBuf>::new());
}

#[test]
fn copied_work_is_refused_while_in_use() {
    let place = Place::in_memory();
    let first = case(&place, From::Pipe);
    let (mut child, stdin) = first.start_stalled(&plain().bytes[..3 << 19]);
    let journal = first.partial().join("journal");
    wait_for(|| journal.metadata().is_ok_and(|there| there.len() > 0) && !spills(&place).is_empty());
    copy(&place.path("volume"), &place.path("copy"));
    let second = Case { db: place.path("copy/db"), ..first.clone() };
    for args in [&[][..], &["--restart"]] {
        second.clone().arg(args).is_refused(&["another import is working on it (process "]);
    }
    let clean = bedload().args(["clean", "--yes"]).arg(place.path("copy")).output().expect("it runs");
    assert_eq!(clean.status.code(), Some(4), "{clean:?}");
    assert_eq!(spills(&place).len(), 1);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(stdin);
    first.finishes();
}
