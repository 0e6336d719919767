//! Several imports with one `--work-dir`.

use std::path::PathBuf;
use std::process::Command;

use crate::common::crash::*;
use crate::common::run::Place;

/// An import of [`plain`] into `volume/db` with partitions in `work`.
fn case(place: &Place, from: From) -> Case {
    std::fs::create_dir_all(place.path("volume")).expect("a folder");
    let work = place.path("work");
    Case::new(&place.path("volume"), plain(), Way::Spill, from).arg(&["--work-dir", work.to_str().expect("text")])
}

#[track_caller]
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
    assert_eq!(spills(&place).len(), 2, "each has partitions of its own");
    second.clone().arg(&["--restart"]).finishes();
    assert_eq!(spills(&place), kept, "the partitions of the other import are gone");
    std::fs::remove_dir_all(place.path("volume")).expect("ours");
    std::fs::rename(&other, place.path("volume")).expect("renamed");
    let read = first.journal().iter().filter(|line| line["entry"] == "read").count();
    assert!(read > 0);
    first.finishes();
    assert_eq!(spills(&place), Vec::<PathBuf>::new());
}

#[test]
fn copied_work_is_refused_while_in_use() {
    let place = Place::in_memory();
    let first = case(&place, From::Pipe);
    let (mut child, stdin) = first.start_stalled(&plain().bytes[..3 << 20]);
    let started = std::time::Instant::now();
    while !first.partial().join("journal").metadata().is_ok_and(|there| there.len() > 0) || spills(&place).is_empty() {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let copied = Command::new("cp").arg("-a").arg(place.path("volume")).arg(place.path("copy")).status();
    assert!(copied.expect("cp").success());
    let mut second = first.clone();
    second.db = place.path("copy/db");
    for args in [&[][..], &["--restart"]] {
        second.clone().arg(args).is_refused(&["another import is working on it (process "]);
    }
    let clean =
        crate::common::run::bedload().args(["clean", "--yes"]).arg(place.path("copy")).output().expect("it runs");
    assert_eq!(clean.status.code(), Some(4), "{clean:?}");
    assert_eq!(spills(&place).len(), 1);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(stdin);
    first.finishes();
}
