//! `--replace`: at every instant one of both databases is whole under the name, and the same command comes to the new one.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::common::crash::*;
use crate::common::database::flip;
use crate::common::fault::{failing, killed_at_change};
use crate::common::model::{self, Key, Model};
use crate::common::run::{Place, import, own_folder, program};

/// Points before the exchange, and after it.
const BEFORE: [&str; 5] = ["start", "recorded", "complete", "exchanging", "set-aside"];
const AFTER: [&str; 3] = ["exchanged", "renamed", "old-removed"];

fn replacing(snapshot: &'static Snapshot, way: Way) -> Case {
    Case::of(snapshot, way, From::File).arg(&["--replace"])
}

/// Puts the database of [`older`] there: as a node makes it, or as an import does, which leaves a record.
fn put_old(case: &Case, by_import: bool) {
    static IMPORTED: OnceLock<Case> = OnceLock::new();
    case.again();
    if by_import {
        let make = || {
            let old = Case::new(&own_folder().join("imported"), older(), Way::Memory, From::File);
            old.finishes();
            old
        };
        copy(&IMPORTED.get_or_init(make).db, &case.db);
    } else {
        case.clone().into_existing(older()).put_old();
    }
}

fn digest(db: &Path) -> String {
    Model { records: model::records(db), read: 0, payload: 0 }.digest()
}

/// True if the new database has the name; else the old one has. Whichever it is, it is whole.
#[track_caller]
fn is_new(case: &Case, what: &str) -> bool {
    let (digest, old) = (digest(&case.db), Model::new(&older().blocks, Key::Cid).digest());
    assert!(digest == old || digest == case.digest(), "{what}: neither of both databases is whole under the name");
    digest != old
}

#[test]
fn killed_replacement_leaves_one_whole_database() {
    for (number, way) in [Way::Memory, Way::Spill, Way::Memtables, Way::Ranges].into_iter().enumerate() {
        let case = replacing(if way == Way::Ranges { log() } else { plain() }, way);
        put_old(&case, number % 2 == 0);
        for point in BEFORE.into_iter().chain(AFTER).skip(rounds(number, 0)).step_by(rounds(4, 1)) {
            case.dies_at(point);
            assert_eq!(is_new(&case, point), AFTER.contains(&point), "{way:?}: {point}");
            if point == "exchanged" {
                // Half of the old one is gone already.
                for path in list(&case.partial().join("exchange")).into_iter().step_by(2) {
                    std::fs::remove_file(path).expect("removed");
                }
            }
        }
        assert_eq!(case.finishes().json["replaced"], true, "{way:?}");
    }
}

#[test]
fn fault_leaves_one_whole_database() {
    let case = replacing(small(), Way::Memory);
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
    assert!(ends[0] > 3 && ends[1] > 0, "killed before and after the exchange: {ends:?}");

    let below = case.db.parent().expect("a folder").to_str().expect("text").trim_end_matches('/').to_owned();
    // At about the last of these RocksDB compacts what it has not been given yet, and says nothing of the failure.
    for (nth, number) in
        (0..rounds(2, 200)).map(|_| 1 + chance.below(110) as u32).chain((104..114).step_by(rounds(4, 1))).enumerate()
    {
        for &errno in in_turn(&[Errno::IO, Errno::NOSPC], nth) {
            put_old(&case, true);
            let ended = failing(&case, "change", number, errno, &below).expect("a compiler").run();
            assert!([Some(0), Some(1)].contains(&ended.code), "call {number}: {ended:?}");
            is_new(&case, &format!("call {number}, {errno:?}"));
            case.finishes();
        }
    }
}

#[test]
fn replace_accepts_a_new_name() {
    let case = replacing(plain(), Way::Memory);
    assert_eq!(case.finishes().json["replaced"], false);
    // What is there now is replaced by itself. Python's rocksdict leaves its settings in a database that it has opened.
    let companion = case.db.join("rocksdict-config.json");
    std::fs::write(&companion, "{\"raw_mode\":true}").expect("written");
    assert_eq!((case.finishes().json["replaced"].as_bool(), companion.exists()), (Some(true), false));
    case.again();
    std::fs::create_dir(&case.db).expect("a folder");
    assert_eq!(case.finishes().json["replaced"], false);
    let planned = case.arg(&["--dry-run"]).run();
    let holds = planned.text("/space/0/holds");
    assert!(holds.ends_with("beside the one that is replaced"), "{holds}");
}

#[test]
fn open_database_is_not_replaced() {
    let case = replacing(plain(), Way::Memory);
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
fn only_a_database_is_replaced() {
    let case = replacing(small(), Way::Memory);
    let refused = |words: &[&str]| {
        case.is_refused(words);
        assert!(!case.partial().exists(), "{words:?}: something is left of the work");
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
    let done = import(&Place::new(), &source).db(case.db.clone()).args(&["--replace"]).run();
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.stderr.contains("000077.log is in it, which is imported") && source.exists(), "{done:?}");
    std::fs::remove_file(&source).expect("it is there");

    let elsewhere = case.path("elsewhere");
    let mut options = rust_rocksdb::Options::default();
    options.set_wal_dir(&elsewhere);
    drop(rust_rocksdb::DB::open(&options, &case.db).expect("opened"));
    refused(&["keeps its WAL in another directory"]);
    std::fs::remove_dir_all(&elsewhere).expect("removed");
    put_old(&case, false);

    std::fs::rename(&case.db, &elsewhere).expect("moved");
    symlink(&elsewhere, &case.db).expect("a link");
    refused(&["is a symbolic link, which is not replaced"]);
    let with_slash = Case { db: format!("{}/", case.db.display()).into(), ..case.clone() };
    with_slash.is_refused(&["is a symbolic link, which is not replaced"]);
    assert!(elsewhere.join("CURRENT").exists(), "what the link leads to is gone");

    let mounted = program().args(["import", "-", "--replace", "--db", "/dev/shm"]).assert().code(4);
    let said = String::from_utf8_lossy(&mounted.get_output().stderr).into_owned();
    assert!(said.contains("is a mount point, whose name cannot be given to another directory"), "{said}");
}

#[test]
fn files_added_during_the_import_are_kept() {
    let case = replacing(small(), Way::Memory);
    put_old(&case, false);
    let notes = case.db.join("notes");
    let write = || std::fs::write(&notes, "of a user").expect("written");
    case.is_refused_after("recorded", "a note", &["notes is not of a RocksDB database"], write);
    assert!(!is_new(&case, "a note"));
    std::fs::remove_file(&notes).expect("removed");
    case.finishes();

    put_old(&case, false);
    let elsewhere = case.path("elsewhere");
    let another = Case::new(&case.path("other"), older(), Way::Memory, From::File);
    another.finishes();
    case.is_refused_after("recorded", "another", &["is another database than when the import began"], || {
        std::fs::rename(&case.db, &elsewhere).expect("moved");
        std::fs::rename(&another.db, &case.db).expect("moved");
    });
    assert!(!is_new(&case, "a database of something else"));
    case.finishes();
    assert!(elsewhere.join("CURRENT").exists());
}

#[test]
fn impossible_exchange_is_refused_before_reading() {
    let case = replacing(small(), Way::Memory);
    put_old(&case, true);
    let words = ["is on a file system that cannot exchange two names in one step", "hint: move the old database away"];
    // The second change there is the exchange; the first makes the directory.
    let Some(early) = failing(&case, "change", 2, Errno::INVAL, "probe/2.bedload$") else { return };
    early.env("BEDLOAD_FAULT_TIMES", "1").is_refused(&words);
    assert!(!case.partial().exists() && !is_new(&case, "refused early"));

    let name = format!("{}$", case.db.to_str().expect("text"));
    failing(&case, "change", 1, Errno::INVAL, &name).expect("a compiler").is_refused(&words);
    assert!(!is_new(&case, "refused late"));
    // As the hint says.
    std::fs::rename(&case.db, case.path("elsewhere")).expect("moved");
    let ended = case.dying_at("ingesting").run();
    assert_eq!(ended.code, Some(0), "the finished work is not kept: {ended:?}");
    case.has_finished(&ended);
}

#[test]
fn resume_needs_the_replace_option() {
    let case = replacing(small(), Way::Memory);
    let without = Case::new(&case.path(""), small(), Way::Memory, From::File);
    for point in ["complete", "set-aside"] {
        put_old(&case, true);
        case.dies_at(point);
        without.is_refused(&["already exists", "--replace"]);
        assert!(!is_new(&case, point));
        case.finishes();
    }
    // The exchange is done: what is left is to clean up, which all do. Another snapshot takes the place of what is done.
    let another = Case { snapshot: mixed(), ..case.clone() };
    let restarted = case.clone().arg(&["--restart"]);
    for (again, by_import) in [(&without, true), (&case, true), (&another, false), (&restarted, true)] {
        put_old(&case, by_import);
        case.dies_at("exchanged");
        again.finishes();
    }
    let refused = case.arg(&["--into-existing"]).run();
    refused.failed(2, "both", &["replacing a database and adding to it exclude each other", "hint: "]);
}

#[test]
fn uncertain_exchange_removes_nothing() {
    let case = replacing(small(), Way::Memory);
    let (swap, journal) = (case.partial().join("exchange"), case.partial().join("journal"));
    let words = ["nothing tells whether this is the new database or the one that it replaces"];
    let is_kept = |what: &str| {
        for case in [case.clone(), case.clone().arg(&["--restart"])] {
            case.is_refused(&words);
        }
        assert!(is_new(&case, what) && swap.join("CURRENT").exists(), "{what}");
        assert_eq!(digest(&swap), older().digest, "{what}: the old one");
    };
    for by_import in [false, true] {
        let exchanged = || {
            put_old(&case, by_import);
            case.dies_at("exchanged");
        };
        exchanged();
        std::fs::remove_file(case.db.join("BEDLOAD.json")).expect("removed");
        is_kept("no record");

        exchanged();
        flip(&journal, journal.metadata().expect("a journal").len() as usize - 9, 1);
        is_kept("a damaged journal");
        std::fs::remove_file(&journal).expect("removed");
        is_kept("no journal");

        // The new one was moved away: the old one is not taken for it.
        exchanged();
        std::fs::rename(&case.db, case.path("moved")).expect("moved");
        case.is_refused(&words);
        std::fs::rename(case.path("moved"), &case.db).expect("moved");
        // A new one that does not open any more: the old one is kept, and the error says where.
        let manifest = list(&case.db).into_iter().find(|path| path.display().to_string().contains("MANIFEST"));
        std::fs::remove_file(manifest.expect("a file")).expect("removed");
        case.is_refused(&["does not open any more", "the database that it replaced is whole in"]);
        assert!(swap.join("CURRENT").exists());
        case.again();
    }
}
