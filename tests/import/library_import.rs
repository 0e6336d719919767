//! An import through the library writes only its database. It changes no limit and no signal handler of the process
//! unless the program requests that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use bedload::progress::Silent;
use bedload::testing::generate::{Profile, Spec, write};
use bedload::{Error, ImportOptions, InputKind, PlanChoice, StateKind, VerifyOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::car::{block, rooted};
use crate::common::run::Place;

/// The variable that makes the test the program that embeds the library; it names the folder with the snapshot.
const EMBEDS: &str = "BEDLOAD_TEST_EMBEDS";

/// Limits, signals, mask of file modes, environment and working directory of this process.
fn state() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).expect(path);
    let mut all: Vec<String> = read("/proc/self/limits").lines().map(str::to_owned).collect();
    let of_status = ["Umask:", "SigBlk:", "SigIgn:", "SigCgt:", "NoNewPrivs:", "Seccomp:"];
    // Of this thread: the main one blocks all signals for as long as it starts another.
    let status = read("/proc/thread-self/status");
    all.extend(status.lines().filter(|line| of_status.iter().any(|name| line.starts_with(name))).map(str::to_owned));
    for signal in 1..=64 {
        // SAFETY: plain data, and a call that only asks what is in force.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0 {
            all.push(format!("signal {signal}: {:#x}, flags {:#x}", action.sa_sigaction, action.sa_flags));
        }
    }
    all.extend(std::env::vars_os().map(|(name, value)| format!("{name:?} = {value:?}")));
    all.push(std::env::current_dir().expect("a directory").display().to_string());
    all
}

fn embed(dir: &Path) {
    let limit = Rlimit { current: Some(512), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("lowered");
    let before = state();
    for (name, plan) in [("held", PlanChoice::Memory), ("spilled", PlanChoice::Spill)] {
        let options =
            ImportOptions::new(dir.join("snapshot.car"), dir.join("databases").join(name)).plan(plan).threads(2);
        bedload::import(&options, &Silent).expect("imported");
    }
    assert_eq!(state(), before, "the import has changed its process");
    bedload::handle_sigbus();
    let handled = state();
    assert_ne!(handled, before, "a handler that is asked for is not seen here: the comparison says nothing");
    bedload::raise_open_files();
    assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    assert_ne!(state(), handled, "a limit that is raised is not seen here: the comparison says nothing");
}

/// Everything below `dir`, and when it was last written to: of a directory, when a name came or went in it.
fn contents(dir: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut all = BTreeMap::from([(dir.to_owned(), dir.metadata().expect("there").modified().expect("a time"))]);
    for entry in dir.read_dir().expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), path.metadata().expect("there").modified().expect("a time"));
        }
    }
    all
}

#[test]
fn import_leaves_its_process_unchanged() {
    if let Some(dir) = std::env::var_os(EMBEDS) {
        return embed(Path::new(&dir));
    }
    let place = Place::new();
    let user = ["home", "cache", "config", "data", "temporary", "working"].map(|name| place.path(name));
    user.iter().chain([&place.path("databases")]).for_each(|dir| std::fs::create_dir(dir).expect("created"));
    std::fs::write(user[0].join("file"), "of the user").expect("written");
    let mut snapshot = std::fs::File::create(place.path("snapshot.car")).expect("created");
    write(&Spec::new(Profile::Small, 8 << 20), &mut snapshot).expect("generated");
    let watched = || user.iter().map(|dir| contents(dir)).collect::<Vec<_>>();
    let before = watched();
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "import::library_import::import_leaves_its_process_unchanged"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(EMBEDS, place.path(""))
        .envs(["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"].iter().zip(&user))
        .current_dir(&user[5])
        .output()
        .expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("1 passed"), "the test has another name: {stdout}");
    assert_eq!(watched(), before);
    let mut names: Vec<_> =
        place.path("databases").read_dir().expect("listed").map(|entry| entry.expect("one").file_name()).collect();
    names.sort();
    assert_eq!(names, ["held", "spilled"]);
}

#[test]
fn library_errors_have_kinds() {
    let place = Place::new();
    let db = place.path("db");
    let import = |source: &Path| bedload::import(&ImportOptions::new(source, &db), &Silent).expect_err("it is refused");
    let error = import(&place.path("none.car"));
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound),
        "{error:?}: {error}"
    );
    let whole = rooted(&[block(b"one"), block(b"two")]);
    let flipped = [&whole[..whole.len() - 1], b"!"].concat();
    for (bytes, expected) in [
        (flipped.as_slice(), InputKind::HashMismatch),
        (&whole[..whole.len() - 1], InputKind::Truncated),
        (b"<html>", InputKind::NotASnapshot),
    ] {
        let car = place.file("bad.car", bytes);
        let error = import(&car);
        assert!(matches!(&error, Error::BadInput { kind, .. } if *kind == expected), "{error:?}");
        assert!(error.to_string().starts_with(&format!("cannot read {}", car.display())), "{error}");
    }
    let error = bedload::verify(&VerifyOptions::new(&db), &Silent).expect_err("there is none");
    assert!(matches!(&error, Error::State { kind: StateKind::NoDatabase, path, .. } if *path == db), "{error:?}");

    let car = place.file("a.car", &whole);
    bedload::import(&ImportOptions::new(&car, &db), &Silent).expect("imported");
    let error = import(&car);
    assert!(matches!(&error, Error::State { kind: StateKind::Exists, path, .. } if *path == db), "{error:?}");
}
