//! A database where a snapshot is expected, and the reverse; directories; budgets; raw bytes and terminals.

use std::path::Path;

use crate::common::car::{block, noise, rooted};
use crate::common::database::{bedload, generate, import};
use crate::common::terminal;
use crate::common::{is_root, skipped};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

#[test]
fn database_as_source_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), &generate(dir.path(), "256KiB"), &[]);
    let shown = db.display();
    let words = format!(
        "error: read {shown}: it is a RocksDB database, not a snapshot\nhint: bedload verify {shown} checks it, bedload \
         stat {shown} describes it; to rebuild it, import its snapshot: bedload import SNAPSHOT --db {shown} --replace\n"
    );
    bedload().arg("inspect").arg(&db).assert().code(3).stderr(contains(&*words));
    let other = dir.path().join("other");
    bedload().arg("import").arg(&db).arg("--db").arg(&other).assert().code(3).stderr(contains(&*words));
    assert!(!other.exists());
}

#[test]
fn inspect_reads_a_directory_of_cars() {
    let dir = tempfile::tempdir().expect("a directory");
    let cars = dir.path().join("cars");
    std::fs::create_dir(&cars).expect("created");
    let inspect = |more: &[&str]| {
        let mut command = bedload();
        command.arg("inspect").arg(&cars).args(more);
        command.assert()
    };
    inspect(&[]).code(3).stderr(contains("no CAR (*.car, *.car.zst"));
    std::fs::write(cars.join("a.car"), rooted(&[block(b"one")])).expect("written");
    let only = cars.join("a.car").display().to_string();
    inspect(&["--full"]).success().stdout(contains(&*only));
    inspect(&["--list"]).success().stdout(contains("\"type\":\"block\""));
    let damaged = block(b"two");
    std::fs::write(cars.join("b.car"), rooted(&[(damaged.0, b"2".to_vec())])).expect("written");
    std::fs::write(cars.join("c.car"), rooted(&[block(b"three")])).expect("written");
    let third = cars.join("c.car").display().to_string();
    // Damage of one does not hide the others.
    inspect(&["--full"])
        .code(3)
        .stdout(contains(&*only).and(contains(&*third)))
        .stderr(contains("b.car: 1 bad block found"));
    inspect(&["--list"]).code(2).stderr(contains("--list is of one snapshot"));
    let database = dir.path().join("db");
    let mut command = bedload();
    command.arg("import").arg(&cars).arg("--db").arg(&database).args(["--verify", "none"]).assert().success();
}

#[test]
fn random_bytes_are_refused_as_a_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("random");
    for seed in 0..40 {
        std::fs::write(&path, noise(seed, 5000)).expect("written");
        for command in ["inspect", "import"] {
            let mut command_line = bedload();
            command_line.arg(command).arg(&path);
            if command == "import" {
                command_line.arg("--db").arg(dir.path().join("db"));
            }
            command_line.assert().code(3).stderr(contains("this is neither a CAR nor a block log: "));
        }
    }
    let log = dir.path().join("block_log");
    bedload().arg("generate").arg(&log).args(["--profile", "steem", "--size", "64KiB", "--quiet"]).assert().success();
    let forced =
        bedload().args(["import", "--format", "car"]).arg(&log).arg("--db").arg(dir.path().join("db")).assert();
    forced.code(3).stderr(contains("this is not a CAR: it is a block log\nhint: leave --format car out"));
}

#[test]
fn bundle_of_a_missing_directory_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("to");
    let nosuch = dir.path().join("nosuch");
    let mut command = bedload();
    let ended = command.arg("bundle").arg(&nosuch).arg("--to").arg(&to).assert().code(4);
    ended.stderr(contains(format!("error: {}: there is no such directory\n", nosuch.display())));
    std::fs::create_dir(&nosuch).expect("created");
    let ended = bedload().arg("bundle").arg(&nosuch).arg("--to").arg(&to).assert().code(4);
    ended.stderr(contains("is not a RocksDB database"));
}

#[test]
fn readers_name_an_unfinished_import() {
    let place = crate::common::run::Place::new();
    let partial = place.path("db.partial");
    std::fs::create_dir(&partial).expect("created");
    std::fs::write(partial.join("journal"), "").expect("written");
    for command in ["verify", "stat", "walk"] {
        let ended = bedload().arg(command).arg(&partial).assert().code(4);
        let hint = "hint: run the same `bedload import` command again: it resumes, and makes the database\n";
        let says = format!("error: {}: is an unfinished import, not a database\n{hint}", partial.display());
        ended.stderr(contains(says));
    }
}

#[test]
fn unreadable_directory_reports_the_permission() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    let place = crate::common::run::Place::new();
    let db = place.path("db");
    let car = place.file("x.car", &rooted(&[block(b"one")]));
    bedload().arg("import").arg(&car).arg("--db").arg(&db).arg("--quiet").assert().success();
    mode(&db, 0o000);
    let mut command = match is_root() {
        false => std::process::Command::new(crate::common::run::BEDLOAD),
        true => {
            // Root may read everything: run as nobody.
            let program = place.path("bedload");
            std::fs::copy(crate::common::run::BEDLOAD, &program).expect("a copy of the program");
            mode(&program, 0o755);
            mode(&place.path(""), 0o777);
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
            command
        }
    };
    for name in ["stat", "verify"] {
        let Ok(output) =
            std::process::Command::new(command.get_program()).args(command.get_args()).arg(name).arg(&db).output()
        else {
            return skipped("there is no setpriv");
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("error: read {}: ", db.display())), "{said}");
        assert!(
            said.to_lowercase().contains("permission denied") && said.contains("hint: check who may use it"),
            "{said}"
        );
    }
    command.arg("--version");
    mode(&db, 0o755);
}

#[test]
fn budgets_below_the_minimum_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "256KiB");
    let db = import(dir.path(), &car, &[]);
    let (car, db) = (car.to_str().expect("text"), db.to_str().expect("text"));
    let out = dir.path().join("out.car");
    let out = out.to_str().expect("text");
    for command in [
        &["walk", db][..],
        &["verify", db, "--against", car],
        &["export", db, out],
        &["inspect", "--full", car],
        &["inspect", car],
        &["doctor", "--dir", "/tmp"],
    ] {
        let refused = bedload().args(command).args(["--memory", "1"]).assert().code(2);
        refused.stderr(contains("a memory budget of 1 B is too small to work with\nhint: give --memory "));
    }
    assert!(!Path::new(out).exists());
}

/// A block may hold escape sequences, which a terminal obeys.
#[test]
fn raw_blocks_do_not_reach_a_terminal() {
    let place = crate::common::run::Place::new();
    let hostile = block(b"\x1b]0;title\x07\x1b[2J");
    let root = cid::Cid::try_from(&hostile.0[..]).expect("a CID").to_string();
    let car = place.file("x.car", &rooted(&[hostile]));
    let db = place.path("db");
    bedload().arg("import").arg(&car).arg("--db").arg(&db).arg("--quiet").assert().success();
    let (program, shown) = (crate::common::run::BEDLOAD, db.display());
    for option in ["--raw", "--as raw"] {
        let Some(session) = terminal::run(&format!("{program} get {option} {shown} {root}"), 100, &[], None) else {
            return;
        };
        assert_eq!(session.code, Some(2), "{}", session.raw);
        assert!(session.raw.contains("the bytes of a block cannot go to a terminal"), "{}", session.raw);
        assert!(!session.raw.contains("\x1b]0;") && !session.raw.contains("\x1b[2J"), "{:?}", session.raw);
    }
    let piped = bedload().args(["get", "--raw"]).arg(&db).arg(&root).output().expect("run");
    assert_eq!(piped.stdout, b"\x1b]0;title\x07\x1b[2J");
}

#[test]
fn import_ends_with_commands_to_copy() {
    let place = crate::common::run::Place::new();
    let car = place.file("x.car", &rooted(&[block(b"one")]));
    let db = place.path("my db");
    let made = bedload().arg("import").arg(&car).arg("--db").arg(&db).output().expect("run");
    let text = String::from_utf8(made.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    let [.., said, check, read] = &*lines else { panic!("{text}") };
    assert_eq!(*said, "complete  the database can be used");
    let check = check.strip_prefix("check it  ").expect("how to check");
    let read = read.strip_prefix("read it   ").expect("how to read");
    assert_eq!(check, format!("bedload verify '{}'", db.display()));
    for command in [check, read] {
        let arguments = command.strip_prefix("bedload").expect("the program's name");
        let shell = format!("{}{arguments}", crate::common::run::BEDLOAD);
        let ended = std::process::Command::new("sh").args(["-c", &shell]).output().expect("run");
        assert!(ended.status.success() && !ended.stdout.is_empty(), "{command}: {ended:?}");
    }
}
