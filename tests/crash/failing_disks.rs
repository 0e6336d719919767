//! A disk that fails, is full, or will not open one more file, at every kind of file that an import reads and writes:
//! the error names the file and the reason, the work is kept, and the same command finishes once the disk is well.
//!
//! The faults are put between the real binary and the C library by a small preloaded library (`common/fault.c`), which
//! is compiled here; a machine without a C compiler or a dynamic linker skips these tests.

use crate::common::crash::*;
use crate::common::fault::failing;
use crate::common::run::Place;
use rustix::io::Errno;

/// Where a fault strikes: the way of the import, the call, from which one on, which files, and what is said of them.
type Fault = (Way, &'static str, u32, &'static str, &'static [&'static str]);

/// Everything that is written, at its first and at a later time.
const WRITES: [Fault; 14] = [
    (Way::Spill, "write", 1, "/spill/", &[".part"]),
    (Way::Spill, "write", 12, "/spill/", &[".part"]),
    (Way::Spill, "sync", 1, "/spill/", &["sync ", ".part"]),
    (Way::Spill, "sync", 9, "/spill/", &["sync ", ".part"]),
    (Way::Spill, "write", 3, "partial/journal", &["db.partial/journal"]),
    (Way::Spill, "sync", 6, "partial/journal", &["db.partial/journal"]),
    (Way::Spill, "write", 2, ".sst", &[".sst"]),
    (Way::Memory, "write", 1, ".sst", &[".sst"]),
    (Way::Memory, "sync", 2, ".sst", &[".sst"]),
    (Way::Memory, "write", 2, "db/MANIFEST", &["MANIFEST"]),
    (Way::Memory, "write", 1, "db/OPTIONS", &["OPTIONS"]),
    (Way::Memory, "write", 1, "BEDLOAD.json", &["BEDLOAD.json"]),
    (Way::Memtables, "write", 3, ".sst", &["db.partial/db"]),
    (Way::Memtables, "write", 2, "db/MANIFEST", &["db.partial/db"]),
];

/// Fails with `errno`, says `words`, keeps the work; fails again in the same way, and then finishes.
#[track_caller]
fn fails_and_finishes(case: &Case, fault: Fault, errno: Errno, words: &[&str]) {
    let (_, call, number, text, named) = fault;
    let Some(failing) = failing(case, call, number, errno, text) else { return };
    for round in 0..2 {
        let ended = failing.run();
        if ended.code == Some(0) && round == 1 && number > 1 {
            // There was less left to do than at the first time.
            break;
        }
        assert_eq!(ended.code, Some(1), "{fault:?}: {ended:?}");
        ended.says(words);
        ended.says(named);
        ended.says(&["error: ", "hint: "]);
        case.nothing_under_the_name("a failing disk");
        assert!(case.partial().join("journal").exists(), "{fault:?}: the work is not kept");
    }
    if !case.db.exists() {
        case.finishes();
    }
    case.again();
}

#[test]
fn a_disk_that_fails_to_write_is_reported_and_the_work_is_kept() {
    let place = Place::in_memory();
    for fault in WRITES {
        let case = Case::new(&place.path(""), plain(), fault.0, From::File);
        fails_and_finishes(&case, fault, Errno::IO, &["Input/output error", "look at the disk (dmesg, smartctl)"]);
    }
}

#[test]
fn a_disk_that_is_full_at_any_file_is_reported_with_what_is_missing() {
    let place = Place::in_memory();
    for fault in WRITES.into_iter().filter(|(_, call, ..)| *call == "write") {
        let case = Case::new(&place.path(""), plain(), fault.0, From::File);
        let words = ["error: find room at ", " free: ", "No space left on device", "hint: make room (df -h "];
        fails_and_finishes(&case, fault, Errno::NOSPC, &words);
    }
}

#[test]
fn a_disk_without_room_for_the_first_byte_says_so() {
    let place = Place::in_memory();
    for file in ["partial/lock", "partial/journal"] {
        let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
        let Some(failing) = failing(&case, "write", 1, Errno::NOSPC, file) else { return };
        let ended = failing.run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.says(&["error: find room at ", " MiB more needed, ", file, "No space left on device"]);
        case.finishes();
        case.again();
    }
}

#[test]
fn no_more_files_to_open_are_reported_and_the_work_is_kept() {
    let place = Place::in_memory();
    for (errno, words) in [(Errno::MFILE, "Too many open files"), (Errno::NFILE, "Too many open files in system")] {
        for fault in [
            (Way::Spill, "open", 3, "/spill/", &[".part"][..]),
            (Way::Spill, "open", 2, ".sst", &[".sst"]),
            (Way::Memory, "open", 2, ".sst", &[".sst"]),
            (Way::Memory, "open", 1, "db/MANIFEST", &["MANIFEST"]),
            (Way::Memtables, "open", 2, ".sst", &["db.partial/db"]),
        ] {
            let case = Case::new(&place.path(""), plain(), fault.0, From::File);
            fails_and_finishes(&case, fault, errno, &[words, "too many open files: raise the limit"]);
        }
    }
}

#[test]
fn a_disk_that_fails_to_read_is_reported_and_the_work_is_kept() {
    let place = Place::in_memory();
    for (way, from, number, text, named) in [
        // The head, then somewhere in the middle of it.
        (Way::Memory, From::File, 1, "plain.car", "plain.car"),
        (Way::Spill, From::File, 4, "plain.car", "plain.car"),
        (Way::Memtables, From::File, 1, "plain.car", "plain.car"),
        (Way::Spill, From::Pipe, 20, "pipe:", "standard input"),
        (Way::Memory, From::Pipe, 9, "pipe:", "standard input"),
        (Way::Spill, From::File, 1, "/spill/", ".part"),
        (Way::Spill, From::File, 3, "/spill/", ".part"),
        (Way::Memory, From::File, 1, ".sst", ".sst"),
    ] {
        let case = Case::new(&place.path(""), plain(), way, from);
        let Some(failing) = failing(&case, "read", number, Errno::IO, text) else { return };
        let ended = failing.run();
        assert_eq!(ended.code, Some(1), "{way:?}, {text}: {ended:?}");
        ended.says(&["error: ", named, "Input/output error", "look at the disk (dmesg, smartctl)"]);
        case.nothing_under_the_name("a failing disk");
        case.finishes();
        case.again();
    }
}

/// The `number`-th call that changes something fails, `once` or with all that follow: the old database opens with all of
/// its records, and the same command finishes once the disk is well. Whether there was such a call.
fn survives(case: &Case, number: u32, once: bool, errno: Errno) -> Option<bool> {
    case.put_old();
    let seen = tempfile::NamedTempFile::new().expect("a file");
    seen.as_file().set_len(8).expect("room");
    let below = case.db.parent().expect("a folder").to_str().expect("text").trim_end_matches('/');
    let failing = failing(case, "change", number, errno, below)?;
    let failing = failing.env("BEDLOAD_FAULT_SEEN", seen.path().to_str().expect("text"));
    let ended = if once { failing.env("BEDLOAD_FAULT_TIMES", "1") } else { failing }.run();
    let what = format!("call {number}, {once}, {errno:?}: {ended:?}");
    let count = std::fs::read(seen.path()).expect("a count");
    if u64::from_le_bytes(count[..8].try_into().expect("8 bytes")) < u64::from(number) {
        case.has_finished(&ended);
        return Some(false);
    }
    assert_eq!(ended.signal, None, "{what}");
    if ended.code == Some(0) {
        // It was nothing that matters, such as RocksDB's own log.
        case.holds_everything();
    } else {
        assert_eq!(ended.code, Some(1), "{what}");
        if once {
            case.holds_the_old(&what, false);
        }
        let ended = case.run();
        assert_eq!(ended.code, Some(0), "{what}, then {ended:?}");
        case.holds_everything();
        assert!(!case.partial().exists(), "{what}: something is left of the work");
    }
    Some(true)
}

#[test]
fn a_database_that_is_added_to_survives_a_failure_of_every_call() {
    let place = Place::in_memory();
    let mut chance = Chance::new();
    for way in [Way::Memory, Way::Memtables] {
        let case = Case::new(&place.path(""), small(), way, From::File).into_existing(older());
        for (once, errno) in [(true, Errno::IO), (true, Errno::NOSPC), (false, Errno::IO)] {
            let mut number = 1;
            loop {
                match survives(&case, number, once, errno) {
                    Some(true) => {}
                    Some(false) => break,
                    None => return,
                }
                number += 1 + rounds(chance.below(140) as usize, 0) as u32;
            }
            assert!(number > 100, "{way:?}: only {number} calls");
        }
    }
}

#[test]
fn a_name_that_cannot_be_given_leaves_the_work_complete() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    let to = format!("{}$", case.db.to_str().expect("text"));
    let Some(failing) = failing(&case, "rename", 1, Errno::IO, &to) else { return };
    let ended = failing.run();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.says(&[&format!("error: rename to {}: Input/output error", case.db.display()), "hint: "]);
    case.nothing_under_the_name("a failing rename");
    assert_eq!(case.journal().last().expect("lines")["entry"], "complete");
    case.finishes();
}
