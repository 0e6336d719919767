//! `--replace`: at every instant one of both databases is whole under the name, and the same command comes to the new one.

use std::path::Path;

use rustix::io::Errno;

use crate::common::crash::*;
use crate::common::fault::{failing, killed_at_change};
use crate::common::model::{self, Key, Model};
use crate::common::run::{Place, import, program};

/// Points before the exchange, and behind it.
const BEFORE: [&str; 5] = ["start", "recorded", "complete", "exchanging", "set-aside"];
const BEHIND: [&str; 3] = ["exchanged", "renamed", "old-removed"];

fn replacing(dir: &Path, snapshot: &'static Snapshot, way: Way) -> Case {
    Case::new(dir, snapshot, way, From::File).arg(&["--replace"])
}

/// Puts the database of [`older`] there: as a node makes it, or as an import does, which leaves a record.
fn put_old(case: &Case, by_import: bool) {
    let dir = case.db.parent().expect("a folder");
    if by_import {
        case.again();
        Case::new(dir, older(), Way::Memory, From::File).finishes();
    } else {
        Case::new(dir, older(), Way::Memory, From::File).into_existing(older()).put_old();
    }
}

/// Whether the new database has the name; else the old one has. Whichever it is, it is whole.
#[track_caller]
fn is_new(case: &Case, what: &str) -> bool {
    let digest = Model { records: model::records(&case.db), read: 0, payload: 0 }.digest();
    let old = Model::new(&older().blocks, Key::Cid).digest();
    assert!(digest == old || digest == case.digest(), "{what}: neither of both databases is whole under the name");
    digest != old
}

#[test]
fn killed_around_the_exchange_one_of_both_is_whole_and_the_same_command_finishes() {
    let place = Place::in_memory();
    for (number, way) in [Way::Memory, Way::Spill, Way::Memtables].into_iter().enumerate() {
        for (index, point) in BEFORE.into_iter().chain(BEHIND).enumerate() {
            let case = replacing(&place.path(""), plain(), way);
            put_old(&case, (number + index) % 2 == 0);
            assert_eq!(case.dying_at(point).run().code, Some(137), "{way:?}: {point}");
            assert_eq!(is_new(&case, point), BEHIND.contains(&point), "{way:?}: {point}");
            let ended = case.finishes();
            assert_eq!(ended.json["replaced"], true, "{way:?}: {point}");
            case.again();
        }
    }
    let log = replacing(&place.path(""), log(), Way::Ranges);
    for point in ["complete", "set-aside", "exchanged"] {
        put_old(&log, true);
        assert_eq!(log.dying_at(point).run().code, Some(137), "{point}");
        log.finishes();
    }
}

#[test]
fn killed_at_one_point_after_the_other_it_still_comes_to_the_new_one() {
    let place = Place::in_memory();
    for by_import in [false, true] {
        let case = replacing(&place.path(""), plain(), Way::Spill);
        put_old(&case, by_import);
        for point in ["read-done", "complete", "exchanging", "set-aside", "complete", "set-aside", "exchanged"] {
            assert_eq!(case.dying_at(point).run().code, Some(137), "{point}");
            assert_eq!(is_new(&case, point), point == "exchanged", "{point}");
        }
        // Half of the old one is gone already.
        for path in list(&case.partial().join("exchange")).into_iter().step_by(2) {
            std::fs::remove_file(path).expect("removed");
        }
        case.finishes();
        case.again();
    }
}

#[test]
fn killed_at_any_change_of_a_file_one_of_both_is_whole() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    let mut chance = Chance::new();
    let (mut number, mut ends) = (1, [0, 0]);
    loop {
        put_old(&case, number % 2 == 0);
        let Some(killed) = killed_at_change(&case, number) else { return };
        let ended = killed.run();
        if ended.code == Some(0) {
            break;
        }
        assert_eq!(ended.code, Some(137), "call {number}: {ended:?}");
        ends[usize::from(is_new(&case, &format!("call {number}")))] += 1;
        case.finishes();
        number += 1 + rounds(chance.below(16) as usize, 0);
    }
    assert!(ends[0] > 3 && ends[1] > 0, "killed before and behind the exchange: {ends:?}");
}

#[test]
fn a_disk_that_fails_or_is_full_leaves_one_of_both_whole() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    let below = case.db.parent().expect("a folder").to_str().expect("text").trim_end_matches('/').to_owned();
    let mut chance = Chance::new();
    // At about the last of these RocksDB compacts what it has not been given yet, and says nothing of the failure.
    for (nth, number) in (0..rounds(12, 200)).map(|_| 1 + chance.below(110) as u32).chain(104..114).enumerate() {
        for &errno in in_turn(&[Errno::IO, Errno::NOSPC], nth) {
            put_old(&case, true);
            let Some(failing) = failing(&case, "change", number, errno, &below) else { return };
            let ended = failing.run();
            assert!([Some(0), Some(1)].contains(&ended.code), "call {number}: {ended:?}");
            is_new(&case, &format!("call {number}, {errno:?}"));
            case.finishes();
        }
    }
}

#[test]
fn a_new_name_needs_nothing_to_replace() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), plain(), Way::Memory);
    assert_eq!(case.finishes().json["replaced"], false);
    // What is there now is replaced by itself.
    assert_eq!(case.finishes().json["replaced"], true);
    case.again();
    std::fs::create_dir(&case.db).expect("a folder");
    assert_eq!(case.finishes().json["replaced"], false);
    let planned = case.clone().arg(&["--dry-run"]).run();
    let holds = planned.text("/space/0/holds");
    assert!(holds.ends_with("beside the one that is replaced"), "{holds}");
}

#[test]
fn a_database_that_another_process_has_open_is_not_replaced() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), plain(), Way::Memory);
    put_old(&case, false);
    let node = rust_rocksdb::DB::open_default(&case.db).expect("opened");
    let hint = format!("hint: stop the node (process {})", std::process::id());
    case.is_refused(&["another process has the database open", &hint]);
    assert!(!case.partial().exists(), "something is left of the work");
    drop(node);
    // The lock is held until the names are exchanged.
    let open = || rust_rocksdb::DB::open_default(&case.db).map(drop);
    let ended = case.stopped_at("set-aside", || {
        let error = open().expect_err("it is locked");
        assert!(error.to_string().contains("LOCK"), "{error}");
    });
    case.has_finished(&ended);
    open().expect("the new one is free");
}

#[test]
fn only_a_database_is_replaced_and_nothing_else_is_removed() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    let refused = |words: &[&str]| {
        case.is_refused(words);
        case.says_nothing_is_left();
    };
    std::fs::write(&case.db, "of a user").expect("written");
    refused(&["is a file, which is not replaced", "nothing was removed"]);
    assert_eq!(std::fs::read(&case.db).expect("there"), b"of a user");
    std::fs::remove_file(&case.db).expect("removed");

    std::fs::create_dir(&case.db).expect("a folder");
    std::fs::write(case.db.join("notes"), "of a user").expect("written");
    refused(&["is not a RocksDB database that could be replaced"]);
    put_old(&case, false);
    std::fs::create_dir(case.db.join("archive")).expect("a folder");
    for name in ["notes", "archive/notes"] {
        let notes = case.db.join(name);
        std::fs::write(&notes, "of a user").expect("written");
        refused(&["is not replaced", name, "is not of a RocksDB database", "hint: move it away"]);
        assert!(!is_new(&case, "refused") && notes.exists(), "{name} is gone");
        std::fs::remove_file(&notes).expect("removed");
    }

    // A name as of RocksDB's files.
    let source = case.db.join("000077.log");
    std::fs::copy(&small().file, &source).expect("copied");
    let done = import(&place, &source).db(case.db.clone()).args(&["--replace"]).run();
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.stderr.contains("000077.log is in it, which is imported") && source.exists(), "{done:?}");
    std::fs::remove_file(&source).expect("it is there");

    let elsewhere = place.path("elsewhere");
    let mut options = rust_rocksdb::Options::default();
    options.set_wal_dir(&elsewhere);
    drop(rust_rocksdb::DB::open(&options, &case.db).expect("opened"));
    refused(&["keeps its WAL in another directory"]);
    std::fs::remove_dir_all(&elsewhere).expect("removed");
    put_old(&case, false);

    std::fs::rename(&case.db, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &case.db).expect("a link");
    refused(&["is a symbolic link, which is not replaced"]);
    let with_slash = Case { db: format!("{}/", case.db.display()).into(), ..case.clone() };
    with_slash.is_refused(&["is a symbolic link, which is not replaced"]);
    assert!(elsewhere.join("CURRENT").exists(), "what the link leads to is gone");

    let mounted = program().args(["import", "-", "--replace", "--db", "/dev/shm"]).assert().code(4);
    let said = String::from_utf8_lossy(&mounted.get_output().stderr).into_owned();
    assert!(said.contains("is a mount point, whose name cannot be given to another directory"), "{said}");
}

/// Python's rocksdict leaves its settings in a database that it has opened.
#[test]
fn replace_accepts_the_file_of_rocksdict() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    put_old(&case, true);
    let companion = case.db.join("rocksdict-config.json");
    std::fs::write(&companion, "{\"raw_mode\":true}").expect("written");
    case.finishes();
    assert!(is_new(&case, "replaced") && !companion.exists());
    case.says_nothing_is_left();
}

impl Case {
    #[track_caller]
    fn says_nothing_is_left(&self) {
        assert!(!self.partial().exists(), "something is left of the work");
    }
}

#[test]
fn what_comes_between_start_and_exchange_is_not_removed() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    put_old(&case, false);
    let notes = case.db.join("notes");
    let ended = case.stopped_at("recorded", || std::fs::write(&notes, "of a user").expect("written"));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    ended.says(&["notes is not of a RocksDB database"]);
    assert!(!is_new(&case, "a note"));
    std::fs::remove_file(&notes).expect("removed");
    case.finishes();

    put_old(&case, false);
    let (elsewhere, other) = (place.path("elsewhere"), place.path("other"));
    let another = Case { db: other.join("db"), ..Case::new(&other, older(), Way::Memory, From::File) };
    another.finishes();
    let ended = case.stopped_at("recorded", || {
        std::fs::rename(&case.db, &elsewhere).expect("moved");
        std::fs::rename(&another.db, &case.db).expect("moved");
    });
    assert_eq!(ended.code, Some(4), "{ended:?}");
    ended.says(&["is another database than when the import began"]);
    assert!(!is_new(&case, "another one"));
    case.finishes();
    assert!(elsewhere.join("CURRENT").exists());
}

#[test]
fn a_file_system_that_exchanges_no_names_is_told_before_anything_is_read() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    put_old(&case, true);
    let words = ["is on a file system that cannot exchange two names in one step", "hint: move the old database away"];
    // The second change there is the exchange; the first makes the directory.
    let Some(early) = failing(&case, "change", 2, Errno::INVAL, "probe/2.bedload$") else { return };
    let early = early.env("BEDLOAD_FAULT_TIMES", "1");
    early.is_refused(&words);
    assert!(!case.partial().exists() && !is_new(&case, "refused early"));

    let name = format!("{}$", case.db.to_str().expect("text"));
    let late = failing(&case, "change", 1, Errno::INVAL, &name).expect("a compiler");
    late.is_refused(&words);
    assert!(!is_new(&case, "refused late"));
    // As the hint says.
    std::fs::rename(&case.db, place.path("elsewhere")).expect("moved");
    let ended = case.dying_at("ingesting").run();
    assert_eq!(ended.code, Some(0), "the finished work is not kept: {ended:?}");
    case.has_finished(&ended);
}

#[test]
fn without_replace_what_is_there_stays() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    let without = Case::new(&place.path(""), small(), Way::Memory, From::File);
    for point in ["complete", "set-aside"] {
        put_old(&case, true);
        assert_eq!(case.dying_at(point).run().code, Some(137), "{point}");
        without.is_refused(&["already exists", "--replace"]);
        assert!(!is_new(&case, point));
        case.finishes();
    }
    // The exchange is done: what is left is to clean up, which both do.
    for again in [&without, &case] {
        put_old(&case, true);
        assert_eq!(case.dying_at("exchanged").run().code, Some(137));
        again.finishes();
    }
    // Another snapshot takes the place of what is done.
    put_old(&case, false);
    assert_eq!(case.dying_at("exchanged").run().code, Some(137));
    replacing(&place.path(""), mixed(), Way::Memory).finishes();
    put_old(&case, true);
    assert_eq!(case.dying_at("exchanged").run().code, Some(137));
    case.clone().arg(&["--restart"]).finishes();

    let refused = case.clone().arg(&["--into-existing"]).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    refused.says(&["--replace and --into-existing exclude each other", "hint: "]);
}

#[test]
fn where_neither_is_known_to_be_the_new_one_nothing_is_removed() {
    let place = Place::in_memory();
    let case = replacing(&place.path(""), small(), Way::Memory);
    let swap = case.partial().join("exchange");
    let words = ["nothing tells whether this is the new database or the one that it replaces"];
    let is_kept = |what: &str| {
        for case in [case.clone(), case.clone().arg(&["--restart"])] {
            case.is_refused(&words);
        }
        assert!(is_new(&case, what) && swap.join("CURRENT").exists(), "{what}");
        let old = Model { records: model::records(&swap), read: 0, payload: 0 }.digest();
        assert_eq!(old, older().digest, "{what}: the old one");
    };
    for by_import in [false, true] {
        put_old(&case, by_import);
        assert_eq!(case.dying_at("exchanged").run().code, Some(137));
        std::fs::remove_file(case.db.join("BEDLOAD.json")).expect("removed");
        is_kept("no record");
        case.again();

        put_old(&case, by_import);
        assert_eq!(case.dying_at("exchanged").run().code, Some(137));
        let journal = case.partial().join("journal");
        let mut bytes = std::fs::read(&journal).expect("a journal");
        let last = bytes.len() - 9;
        bytes[last] ^= 1;
        std::fs::write(&journal, &bytes).expect("written");
        is_kept("a damaged journal");
        std::fs::remove_file(&journal).expect("removed");
        is_kept("no journal");
        case.again();

        // The new one was moved away: the old one is not taken for it.
        put_old(&case, by_import);
        assert_eq!(case.dying_at("exchanged").run().code, Some(137));
        std::fs::rename(&case.db, place.path("moved")).expect("moved");
        case.is_refused(&words);
        std::fs::rename(place.path("moved"), &case.db).expect("moved");
        // A new one that does not open any more: the old one is kept, and the error says where.
        let manifest = list(&case.db).into_iter().find(|path| path.display().to_string().contains("MANIFEST"));
        std::fs::remove_file(manifest.expect("a file")).expect("removed");
        case.is_refused(&["does not open any more", "the database that it replaced is whole in"]);
        assert!(swap.join("CURRENT").exists());
        case.again();
    }
}
