//! A disk that fails, is full, or will not open one more file, at every kind of file that an import reads and writes:
//! the error names the file and the reason, the work is kept, and the same command finishes once the disk is well.
//! `tests/attack` lets random calls fail, also of an import into an existing database.
//!
//! The faults are put between the real binary and the C library by a small preloaded library (`common/fault.c`), which
//! is compiled here; a machine without a C compiler or a dynamic linker skips these tests.

use crate::common::crash::*;
use crate::common::fault::failing;
use rustix::io::Errno;

/// A fault: the way of the import, the system call, the number of the first call that fails, the files, and the message.
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

const OPENS: [Fault; 5] = [
    (Way::Spill, "open", 2, "/spill/", &[".part"]),
    (Way::Spill, "open", 2, ".sst", &[".sst"]),
    (Way::Memory, "open", 2, ".sst", &[".sst"]),
    (Way::Memory, "open", 1, "db/MANIFEST", &["MANIFEST"]),
    (Way::Memtables, "open", 2, ".sst", &["db.partial/db"]),
];

/// Fails with `errno`, says `words`, keeps the work; in the long tests it fails again in the same way; then it finishes.
#[track_caller]
fn fails_and_finishes(fault: Fault, errno: Errno, words: &[&str]) {
    let (way, call, number, text, named) = fault;
    let case = Case::plain(way);
    let Some(failing) = failing(&case, call, number, errno, text) else { return };
    let what = format!("{fault:?}, {errno:?}");
    for round in 0..rounds(1, 2) {
        let ended = failing.run();
        if ended.code == Some(0) && round == 1 && number > 1 {
            // There was less left to do than at the first time.
            break;
        }
        ended.failed(1, &what, &[words, named, &["error: ", "hint: "]].concat());
        case.nothing_under_the_name(&what);
        assert!(case.partial().join("journal").exists(), "{what}: the work is not kept");
    }
    if !case.db.exists() {
        case.finishes();
    }
}

#[test]
fn failed_write_keeps_the_work() {
    let full = ["error: not enough space in ", " free: ", "No space left on device", "hint: free some space (df -h "];
    let broken = ["Input/output error", "check the disk (dmesg, smartctl)"];
    for (number, fault) in WRITES.into_iter().enumerate() {
        let failures = [(Errno::NOSPC, &full[..]), (Errno::IO, &broken)];
        for (errno, words) in if fault.1 == "write" { in_turn(&failures, number) } else { &failures[1..] } {
            fails_and_finishes(fault, *errno, words);
        }
    }
}

#[test]
fn missing_first_byte_of_room_is_reported() {
    for file in ["partial/lock", "partial/journal"] {
        let case = Case::plain(Way::Spill);
        let Some(failing) = failing(&case, "write", 1, Errno::NOSPC, file) else { return };
        let words = ["error: not enough space in ", " MiB more needed, ", file, "No space left on device"];
        failing.fails(1, file, &words);
        case.finishes();
    }
}

#[test]
fn failed_open_keeps_the_work() {
    let failures = [(Errno::MFILE, "Too many open files"), (Errno::NFILE, "Too many open files in system")];
    for (number, fault) in OPENS.into_iter().enumerate() {
        for (errno, words) in in_turn(&failures, number) {
            fails_and_finishes(fault, *errno, &[words, "too many open files: raise the limit"]);
        }
    }
}

#[test]
fn failed_read_keeps_the_work() {
    for (way, from, number, text, named) in [
        // The head, then somewhere in the middle of it.
        (Way::Memory, From::File, 1, "plain.car", "plain.car"),
        (Way::Spill, From::File, 4, "plain.car", "plain.car"),
        (Way::Memtables, From::File, 1, "plain.car", "plain.car"),
        (Way::Spill, From::Pipe, 20, "pipe:", "the input stream"),
        (Way::Memory, From::Pipe, 9, "pipe:", "the input stream"),
        (Way::Spill, From::File, 1, "/spill/", ".part"),
        (Way::Spill, From::File, 2, "/spill/", ".part"),
        (Way::Memory, From::File, 1, ".sst", ".sst"),
    ] {
        let case = Case::of(plain(), way, from);
        let Some(failing) = failing(&case, "read", number, Errno::IO, text) else { return };
        let words = ["error: ", named, "Input/output error", "check the disk (dmesg, smartctl)"];
        failing.fails(1, &format!("{way:?}, {text}"), &words);
        case.finishes();
    }
}

#[test]
fn failed_rename_leaves_complete_work() {
    let case = Case::plain(Way::Memory);
    let to = format!("{}$", case.db.to_str().expect("text"));
    let Some(failing) = failing(&case, "rename", 1, Errno::IO, &to) else { return };
    let words = [&*format!("error: cannot rename to {}: Input/output error", case.db.display()), "hint: "];
    failing.fails(1, "a failing rename", &words);
    assert_eq!(case.journal().last().expect("lines")["entry"], "complete");
    case.finishes();
}
