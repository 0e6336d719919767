//! `bedload clean` removes the files of unfinished imports and nothing else.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStdin};

use crate::cli::{command, ends, names, stalled, with_snapshot};
use crate::common::crash::wait_for;
use crate::common::run::Place;
use serde_json::Value;

/// Starts an import into `name` that waits in the middle of its source, in files.
fn begun(place: &Place, name: &str, more: &str) -> (Child, ChildStdin) {
    let car = std::fs::read(place.path("snapshot.car")).expect("read");
    // A memtable loader has no plan, and one line is in its journal before it waits. The directories of a plan are made
    // after the first line, and before others.
    let (plan, lines) = if more.contains("memtable") { ("", 1) } else { ("--plan spill", 2) };
    let mut command = command(place, &format!("import - --db {name} --progress off {more} {plan}"));
    let begun = stalled(command.env("BEDLOAD_DURABLE_BYTES", "100000"), &car[..car.len() / 2]);
    let journal = place.path(&format!("{name}.partial/journal"));
    wait_for(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() >= lines));
    begun
}

/// Begins an import, kills it, and returns its work directory.
fn killed(place: &Place, name: &str, more: &str) -> PathBuf {
    let (mut child, pipe) = begun(place, name, more);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(pipe);
    place.path(&format!("{name}.partial"))
}

/// The report of `bedload clean`, or null.
#[track_caller]
fn clean(place: &Place, args: &str, code: i32, words: &str) -> Value {
    let ended = ends(place, &format!("clean --json {args}"), code, words);
    serde_json::from_str(&ended.stdout).unwrap_or_default()
}

fn found(report: &Value) -> usize {
    report["found"].as_array().unwrap_or_else(|| panic!("no list in {report}")).len()
}

/// The reason to keep the only unfinished import.
#[track_caller]
fn kept(report: &Value) -> &str {
    report["found"][0]["kept"].as_str().unwrap_or_else(|| panic!("no reason in {report}"))
}

const NOTHING: [&str; 0] = [];

#[test]
fn clean_removes_killed_imports() {
    let place = with_snapshot("4MiB");
    std::fs::create_dir(place.path("work")).expect("made");
    killed(&place, "one", "");
    killed(&place, "two", "--work-dir work");
    assert_eq!(names(&place.path("work")).len(), 1, "partitions");
    let before = names(&place.path(""));
    let report = clean(&place, ". --dry-run", 0, "");
    assert_eq!((&report["schema"], &report["dry_run"]), (&"bedload-clean-1".into(), &true.into()));
    assert_eq!(found(&report), 2, "{report}");
    assert!(report["found"][0]["bytes"].as_u64() > Some(0), "{report}");
    assert_eq!(report["found"][1]["work"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(names(&place.path("")), before, "a dry run removes nothing");
    clean(&place, ".", 2, "without confirmation: not a terminal\nhint: run it with --dry-run, then with --yes");
    assert_eq!(names(&place.path("")), before, "nothing is removed without a word");
    let report = clean(&place, ". --yes", 0, "");
    assert!(report["found"].as_array().expect("a list").iter().all(|found| found["removed"] == true), "{report}");
    assert_eq!(names(&place.path("")), ["snapshot.car", "work"]);
    assert_eq!(names(&place.path("work")), NOTHING);
    assert_eq!(found(&clean(&place, ".", 0, "")), 0);
}

#[test]
fn clean_accepts_every_name_of_the_work() {
    let place = with_snapshot("4MiB");
    for name in ["one", "one.partial", "one/"] {
        let partial = killed(&place, "one", "");
        let report = clean(&place, &format!("{name} --yes"), 0, "");
        assert_eq!(report["found"][0]["path"], "one.partial", "{name}");
        assert!(!partial.exists(), "{name}");
    }
    let words = "nothing: is neither a directory nor the name of an unfinished import";
    clean(&place, "nothing --yes", 4, words);
    std::fs::create_dir(place.path("work")).expect("made");
    for (db, work, cleaned) in [("work/one", "work", "work/../work"), ("work/../work/one", "work", "work")] {
        killed(&place, db, &format!("--work-dir {work}"));
        let report = clean(&place, &format!("{cleaned} --yes"), 0, "");
        assert_eq!((found(&report), names(&place.path("work")).len()), (1, 0), "{report}");
    }
}

#[test]
fn clean_keeps_a_running_import() {
    let place = with_snapshot("4MiB");
    let (mut child, mut pipe) = begun(&place, "one", "");
    let report = clean(&place, ". --yes", 4, "1 of 1 unfinished imports are kept\nhint: ");
    let words = format!("an import is working on it (process {} on ", child.id());
    assert!(kept(&report).starts_with(&words), "{report}");
    let car = std::fs::read(place.path("snapshot.car")).expect("read");
    pipe.write_all(&car[car.len() / 2..]).expect("it reads");
    drop(pipe);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(place.path("one/CURRENT").exists());
}

#[test]
fn clean_keeps_foreign_files() {
    let (place, elsewhere) = (with_snapshot("4MiB"), with_snapshot("4MiB"));
    for dir in ["work", "mine.partial"] {
        std::fs::create_dir(place.path(dir)).expect("made");
    }
    for name in ["mine.partial/lock", "mine.partial/journal", "file.partial"] {
        place.file(name, b"mine");
    }
    let other = killed(&elsewhere, "other", "");
    symlink(&other, place.path("link.partial")).expect("linked");
    let before = names(&place.path(""));
    assert_eq!(found(&clean(&place, ". --yes", 0, "")), 0);
    assert_eq!(names(&place.path("")), before);
    assert!(other.join("journal").exists(), "a link is not followed");

    // A file of the user among those of an import: all of it stays, since an import needs it whole.
    let partial = killed(&place, "one", "--work-dir work");
    let spill = place.path("work").join(&names(&place.path("work"))[0]);
    for folder in [&partial, &partial.join("db"), &spill] {
        let _ = std::fs::create_dir(folder);
        std::fs::write(folder.join("notes.txt"), "mine").expect("written");
        let all = || [names(&partial), names(&spill)];
        let before = all();
        for (how, code) in [("--dry-run", 0), ("--yes", 4)] {
            let report = clean(&place, &format!(". {how}"), code, "");
            assert!(kept(&report).contains("notes.txt is not of an import"), "{report}");
            assert_eq!((&report["removed_bytes"], all()), (&0.into(), before.clone()), "{how}");
        }
        std::fs::remove_file(folder.join("notes.txt")).expect("there");
    }
    // Partitions whose import is elsewhere are shown, and stay.
    let report = clean(&place, "work --yes", 4, "");
    assert!(kept(&report).contains("of another place"), "{report}");
    clean(&place, "one --yes", 0, "");
    assert!(!partial.exists() && !spill.exists());
}

/// The bug: imports of older versions left an empty directory on FUSE, which `clean` did not find.
#[test]
fn clean_removes_an_empty_partial_directory() {
    let place = Place::in_memory();
    std::fs::create_dir(place.path("db.partial")).expect("made");
    assert_eq!(clean(&place, ". --yes", 0, "")["found"][0]["removed"], true);
    assert_eq!(names(&place.path("")), NOTHING);
}

#[test]
fn clean_keeps_the_checkpoint_of_a_database() {
    let place = with_snapshot("4MiB");
    ends(&place, "import snapshot.car --db one --quiet", 0, "");
    let partial = killed(&place, "one", "--into-existing --preset memtable");
    // It may have been killed before it wrote to the database.
    std::fs::create_dir_all(partial.join("checkpoint")).expect("made");
    let report = clean(&place, ". --yes", 4, "");
    assert!(kept(&report).contains("was before an import into it, which is not finished"), "{report}");
    assert!(partial.join("journal").exists());
}
