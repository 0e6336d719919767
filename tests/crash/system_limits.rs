//! Limits of address space, open files, threads and file sizes, and a missing temporary directory: an error with a
//! hint and the exit code of a failure, never a signal; the work is kept, and the same command finishes with room.
//!
//! `BEDLOAD_LONG_TESTS=1` tries every limit in small steps.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::common::crash::*;
use crate::common::fault::failing;
use crate::common::run::{BEDLOAD, Place, bedload, hermetic};
use rustix::io::Errno;

const MIB: u64 = 1 << 20;

/// Every way of a CAR and of a block log.
fn cases() -> Vec<Case> {
    let ways_of = |snapshot| ways(snapshot).iter().map(move |way| (snapshot, *way));
    let all = ways_of(plain()).chain(ways_of(log()));
    all.map(|(snapshot, way)| Case::of(snapshot, way, From::File)).collect()
}

/// Runs under one limit after another, each time from the start or over what the last run has left, and finishes
/// without any. Returns the runs that failed.
#[track_caller]
fn sweep(case: &Case, limited: impl Iterator<Item = Case>) -> Vec<Ended> {
    let mut failed = Vec::new();
    for (number, limited) in limited.enumerate() {
        let ended = limited.run();
        let what = format!("{:?} {:?} {:?}", limited.through, limited.args, limited.env.last());
        match ended.code {
            Some(0) => {
                case.has_finished(&ended);
                case.again();
                continue;
            }
            Some(1 | 4) => ended.says(&["error: ", "hint: "]),
            _ => panic!("{what}: {ended:?}"),
        }
        failed.push(ended);
        case.nothing_under_the_name(&what);
        if number % 3 == 2 {
            case.finishes();
            case.again();
        }
    }
    if case.partial().exists() {
        case.finishes();
    }
    case.again();
    failed
}

/// Under a limit that `prlimit` sets, as `--as=BYTES`.
fn within(case: &Case, limit: &str, number: u64) -> Case {
    case.clone().through(&["prlimit", &format!("--{limit}={number}:{number}")])
}

#[test]
fn address_space_limit_is_an_error() {
    for (number, case) in cases().into_iter().enumerate() {
        let steps: Vec<u64> = if is_long() { (60..1200).step_by(10).collect() } else { vec![80, 320] };
        let failed = sweep(&case, steps.into_iter().map(|mib| within(&case, "as", mib * MIB)));
        assert!(!failed.is_empty(), "{:?}: no limit was met", case.args);
        // Without --memory the limit sets the budget.
        let mut free = case.clone();
        let at = free.args.iter().position(|arg| arg == "--memory").expect("a budget");
        free.args.drain(at..at + 2);
        sweep(&free, in_turn(&[200, 1000], number).iter().map(|mib| within(&free, "as", mib * MIB)));
    }
}

#[test]
fn budget_over_the_address_space_is_refused() {
    let case = Case { args: vec!["--memory".into(), "1GiB".into()], ..Case::plain(Way::Memory) };
    let words =
        ["needs at least 1.1 GiB of address space, and this process may have 512.0 MiB", "ulimit -v ", "--memory"];
    let ended = within(&case, "as", 512 * MIB).fails(4, "512 MiB", &words);
    assert!(!case.partial().exists());
    // What the hint names suffices, and is not far from what is needed.
    let hint = ended.stderr.split("ulimit -v ").nth(1).expect("a limit");
    let kib: u64 = hint.split(|c: char| !c.is_ascii_digit()).next().and_then(|kib| kib.parse().ok()).expect("a number");
    assert!(kib > 1_146_880, "{kib}");
    within(&case, "as", kib << 10).finishes();
}

#[test]
fn limit_of_files_is_an_error() {
    let (too_large, too_many) = (&["File too large", "ulimit -f"][..], &["Too many open files", "ulimit -n"][..]);
    for case in cases() {
        let sizes: Vec<u64> = if is_long() { (0..400).map(|step| step * 20_000).collect() } else { vec![0, 20_000] };
        let failed = sweep(&case, sizes.into_iter().map(|bytes| within(&case, "fsize", bytes)));
        assert!(!failed.is_empty(), "{:?}: no limit was met", case.args);
        within(&case, "fsize", 300_000).fails(1, "300,000 bytes", too_large);
        case.again();
    }
    let case = Case::plain(Way::Spill);
    let failed = sweep(&case, [8, 12, 16, 24].into_iter().map(|files| within(&case, "nofile", files)));
    assert!(!failed.is_empty(), "no limit was too low");
    for ended in &failed {
        // Known before the start, or met even before that.
        let refused = ["open files at once, and this process may have", "ulimit -Hn"];
        ended.says(if ended.code == Some(4) { &refused } else { too_many });
    }
}

#[test]
fn refused_thread_is_an_error() {
    for case in cases() {
        let mut tried = 0;
        // At once, and ever: RocksDB starts threads whenever it opens a database, and must be refused none of them.
        let at_once = (1..=rounds(1, 60) as u32).map(|number| ("thread", number));
        let ever = (1..120).step_by(rounds(60, 1)).map(|number| ("start", number));
        let limited =
            at_once.chain(ever).map_while(|(call, number)| failing(&case, call, number, Errno::AGAIN, "thread"));
        let failed = sweep(&case, limited.inspect(|_| tried += 1));
        assert!(!failed.is_empty() || tried == 0, "{:?}: no thread was refused", case.args);
    }
}

/// An import that tries options on disk: overrides may be values that RocksDB changes.
fn with_override() -> Case {
    let mut case = Case::plain(Way::Memory);
    case.args.extend(["--set", "node.table.block_size=8192"].map(OsString::from));
    case
}

/// The directories beside the database in which options are tried.
fn left_over(case: &Case) -> Vec<PathBuf> {
    let beside = list(case.db.parent().expect("a directory")).into_iter();
    beside.filter(|path| path.to_string_lossy().contains("/.bedload-options-")).collect()
}

#[test]
fn next_run_deletes_leftover_options() {
    let case = with_override();
    case.dies_at("probed");
    assert_eq!(left_over(&case).len(), 1);
    case.finishes();
    assert_eq!(left_over(&case), [] as [PathBuf; 0]);
    case.again();
    case.dies_at("probed");
    assert_eq!(left_over(&case).len(), 1);
    let cleaned =
        bedload().args(["clean", "--yes"]).arg(case.db.parent().expect("a directory")).output().expect("it runs");
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(left_over(&case), [] as [PathBuf; 0]);
}

/// Before, each import opened three databases in a scratch directory.
#[test]
fn builtin_preset_tries_options_in_memory() {
    let ended = Case::plain(Way::Memory).dying_at("probed").run();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn no_room_to_try_options_is_reported() {
    for number in [1, 3] {
        let case = with_override();
        let Some(failing) = failing(&case, "write", number, Errno::NOSPC, "/.bedload-options-") else { return };
        let words = ["error: cannot try the options in ", ": No space left on device", "hint: free some space (df -h "];
        let ended = failing.fails(1, &format!("write {number}"), &words);
        assert!(!ended.stderr.contains("bedload-options-"), "the directory is gone: {ended:?}");
        case.finishes();
    }
}

/// Before, RocksDB's binding created the directories `/probe` and `/rehearsal` for databases in memory, which only root can.
#[test]
fn import_of_another_user_succeeds() {
    let place = Place::in_memory();
    let (program, db) = (place.path("bedload"), place.path("own/db"));
    let car = crate::common::database::generate(&place.path(""), "1MiB");
    std::fs::copy(BEDLOAD, &program).expect("copied");
    let own = place.dir("own");
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(""), all).expect("opened");
    if std::os::unix::fs::chown(&own, Some(65534), Some(65534)).is_err() {
        return crate::common::skipped("only root can become another user");
    }
    for options in [&[][..], &["--replace", "--set", "node.table.block_size=8192"]] {
        let mut command = hermetic("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        let output = command.arg("import").arg(&car).arg("--db").arg(&db).args(options).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn abort_within_rocksdb_gives_a_document() {
    let place = Place::in_memory();
    let car = crate::common::database::generate(&place.path(""), "1MiB");
    let (mut died, mut failed) = (0, 0);
    for kib in (100_000..420_000).step_by(rounds(40_000, 5_000)) {
        let line = format!("ulimit -v {kib} && exec \"$0\" \"$@\"");
        let mut command = hermetic("sh");
        command.args(["-c", &line, BEDLOAD, "import"]).arg(&car).arg("--db").arg(place.path(&kib.to_string()));
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
        let (schema, code) = (&document["schema"], &document["exit"]);
        assert_eq!((schema, code), (&"bedload-error-1".into(), &exit.into()), "{kib} KiB: {said}");
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
