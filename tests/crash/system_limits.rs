//! Where the system gives no more address space, no more threads, no larger files or no temporary directory: an error
//! with a hint and the exit code of a failure, never a signal; the work is kept, and the same command finishes once
//! there is room.
//!
//! `BEDLOAD_LONG_TESTS=1` tries every limit in small steps.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::common::crash::*;
use crate::common::fault::failing;
use crate::common::run::Place;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const MIB: u64 = 1 << 20;

/// Every way of a CAR and of a block log.
fn cases(place: &Place) -> Vec<Case> {
    let from_file = |snapshot, way: &Way| Case::new(&place.path(""), snapshot, *way, From::File);
    let cars = ways(plain()).iter().map(|way| from_file(plain(), way));
    cars.chain(ways(log()).iter().map(|way| from_file(log(), way))).collect()
}

/// Ends well, or with an error, a hint and an exit code of its own.
#[track_caller]
fn ends_with_words(ended: &Ended, what: &str) -> bool {
    match ended.code {
        Some(0) => return true,
        Some(1 | 4) => ended.says(&["error: ", "hint: "]),
        _ => panic!("{what}: {ended:?}"),
    }
    false
}

/// Runs under one limit after another, each time from the start or over what the last run has left, and finishes
/// without any. Returns how many runs failed.
#[track_caller]
fn sweep(case: &Case, limited: impl Iterator<Item = Case>) -> usize {
    let mut failed = 0;
    for (number, limited) in limited.enumerate() {
        let ended = limited.run();
        let what = format!("{:?} {:?} {:?}", limited.through, limited.args, limited.env.last());
        if ends_with_words(&ended, &what) {
            case.has_finished(&ended);
            case.again();
            continue;
        }
        failed += 1;
        case.nothing_under_the_name("a limit");
        if number % 3 == 2 {
            case.finishes();
            case.again();
        }
    }
    case.again();
    failed
}

/// Under a limit that `prlimit` sets, as `--as=BYTES`.
fn within(case: &Case, limit: &str, bytes: u64) -> Case {
    case.clone().through(&["prlimit", &format!("--{limit}={bytes}:{bytes}")])
}

#[test]
fn a_limit_of_the_address_space_ends_in_words_and_the_work_is_kept() {
    let place = Place::in_memory();
    for case in cases(&place) {
        let steps: Vec<u64> = if rounds(0, 1) == 1 { (60..1200).step_by(10).collect() } else { vec![80, 220, 420] };
        let failed = sweep(&case, steps.into_iter().map(|mib| within(&case, "as", mib * MIB)));
        assert!(failed > 0, "{:?}: no limit was met", case.args);
        // Without a budget of its own it takes what the limit allows.
        let mut free = case.clone();
        let at = free.args.iter().position(|arg| arg == "--memory").expect("a budget");
        free.args.drain(at..at + 2);
        sweep(&free, [200, 1000].into_iter().map(|mib| within(&free, "as", mib * MIB)));
    }
}

#[test]
fn an_address_space_that_is_smaller_than_the_budget_is_refused_before_anything_is_done() {
    let place = Place::in_memory();
    let mut case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    case.args = vec!["--memory".into(), "1GiB".into()];
    let ended = within(&case, "as", 512 * MIB).run();
    assert_eq!(ended.code, Some(4), "{ended:?}");
    ended.says(&[
        "needs at least 1.1 GiB of address space, and this process may have 512.0 MiB",
        "ulimit -v ",
        "--memory",
    ]);
    assert!(!case.partial().exists());
    // What the hint names suffices, and is not far from what is needed.
    let hint = ended.stderr.split("ulimit -v ").nth(1).expect("a limit");
    let kib: u64 = hint.split(|c: char| !c.is_ascii_digit()).next().and_then(|kib| kib.parse().ok()).expect("a number");
    assert!(kib > 1_146_880, "{kib}");
    within(&case, "as", kib << 10).finishes();
}

#[test]
fn a_limit_of_the_file_size_is_reported_as_one_and_the_work_is_kept() {
    let place = Place::in_memory();
    for case in cases(&place) {
        let steps: Vec<u64> = if rounds(0, 1) == 1 {
            (0..400).map(|step| step * 20_000).collect()
        } else {
            vec![0, 20_000, 300_000, 3 << 20]
        };
        let failed = sweep(&case, steps.into_iter().map(|bytes| within(&case, "fsize", bytes)));
        assert!(failed > 0, "{:?}: no limit was met", case.args);
        let ended = within(&case, "fsize", 300_000).run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.says(&["File too large", "ulimit -f"]);
        case.again();
    }
}

#[test]
fn a_thread_that_the_system_refuses_is_an_error_and_no_panic() {
    let place = Place::in_memory();
    for case in cases(&place) {
        let mut tried = 0;
        // At once, and ever: RocksDB starts threads whenever it opens a database, and must be refused none of them.
        let at_once = (1..=rounds(6, 60) as u32).map(|number| ("thread", number));
        let ever = (1..120).step_by(if rounds(0, 1) == 1 { 1 } else { 29 }).map(|number| ("start", number));
        let limited =
            at_once.chain(ever).map_while(|(call, number)| failing(&case, call, number, Errno::AGAIN, "thread"));
        let failed = sweep(&case, limited.inspect(|_| tried += 1));
        assert!(failed > 0 || tried == 0, "{:?}: no thread was refused", case.args);
    }
}

/// Where options are tried first.
fn scratch() -> PathBuf {
    PathBuf::from("/dev/shm")
}

/// The directories in which options are tried and that no process holds.
fn left_over() -> Vec<PathBuf> {
    let is_free = |path: &Path| {
        let dir = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path);
        dir.is_ok_and(|dir| flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok())
    };
    let entries = scratch().read_dir().expect("memory").flatten().map(|entry| entry.path());
    let is_named = |path: &PathBuf| path.to_string_lossy().contains("/bedload-options-");
    entries.filter(is_named).filter(|path| is_free(path)).collect()
}

#[test]
fn what_a_kill_leaves_where_options_are_tried_goes_with_the_next_run() {
    if !scratch().is_dir() {
        crate::common::skipped(format_args!("this system has no {}", scratch().display()));
        return;
    }
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    // Another test's run may sweep it first.
    let left = (0..20).map(|_| (case.dies_at("probed"), left_over()).1).find(|left| !left.is_empty());
    let left = left.expect("a directory is left");
    case.finishes();
    assert_eq!(left.iter().filter(|dir| dir.exists()).count(), 0, "{left:?}");
}

#[test]
fn no_room_to_try_options_is_reported_as_that() {
    let place = Place::in_memory();
    for number in [1, 3] {
        let case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
        let Some(failing) = failing(&case, "write", number, Errno::NOSPC, "/bedload-options-") else { return };
        let ended = failing.run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.says(&["error: try the options in ", ": No space left on device", "hint: make room (df -h ", "TMPDIR"]);
        assert!(!ended.stderr.contains("bedload-options-"), "the directory is gone: {ended:?}");
        case.finishes();
        case.again();
    }
}

#[test]
fn what_ends_the_program_in_rocksdb_is_reported_with_its_reason_and_as_a_document() {
    let place = Place::in_memory();
    let car = place.path("snapshot.car");
    let program = crate::common::run::BEDLOAD;
    let made = crate::common::run::bedload().arg("generate").arg(&car).args(["--size", "1MiB", "--quiet"]).status();
    assert!(made.expect("it runs").success());
    let (mut died, mut failed) = (0, 0);
    for kib in (100_000..420_000).step_by(rounds(20_000, 5_000)) {
        let line = format!("ulimit -v {kib} && exec \"$0\" \"$@\"");
        let mut command = crate::common::run::hermetic("sh");
        command.args(["-c", &line, program, "import"]).arg(&car).arg("--db").arg(place.path(&kib.to_string()));
        let output = command.args(["--json", "--progress", "off"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A limit below what the program itself takes is the loader's to tell.
        if output.status.success() || said.contains("error while loading shared libraries") {
            continue;
        }
        failed += 1;
        // What the plan already knows not to fit is refused before anything is made.
        let exit = if said.contains(" of address space, and this process may have ") { 4 } else { 1 };
        assert_eq!(output.status.code(), Some(exit), "{kib} KiB: {said}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&said);
        assert_eq!(
            (&document["schema"], &document["exit"]),
            (&"bedload-error-1".into(), &exit.into()),
            "{kib} KiB: {said}"
        );
        if said.contains("the program aborted: ") {
            died += 1;
            assert!(said.contains("the system refused memory or a thread"), "{kib} KiB: {said}");
            for word in ["ulimit -v, -u, -s", "--memory", "--threads"] {
                assert!(document["hint"].as_str().is_some_and(|hint| hint.contains(word)), "{document}");
            }
        }
    }
    assert!(failed > 0, "no limit was met");
    eprintln!("{failed} refused, {died} of them inside RocksDB");
}
