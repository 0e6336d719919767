//! Databases that are replaced while a command reads them: the replacement is reported, and never as damage.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::database::{bedload, import, record, ssts};
use bedload::progress::{Event, Observer};
use bedload::testing::read::walk::{WalkOptions, walk};
use bedload::{Error, ExportOptions, StatOptions, VerifyOptions};
use parking_lot::Mutex;

/// An observer that replaces a database once, when the first phase of a command begins.
fn once(replace: impl FnOnce() + Send) -> impl Observer {
    let replace = Mutex::new(Some(replace));
    move |event: &Event| {
        if matches!(event, Event::Phase { .. })
            && let Some(replace) = replace.lock().take()
        {
            replace();
        }
    }
}

/// A database, and another snapshot to replace it with.
struct Case {
    dir: tempfile::TempDir,
    db: PathBuf,
    other: PathBuf,
}

impl Case {
    fn new() -> Self {
        // More files than a command that reads keeps open: those that it opens later are of the other database.
        let (dir, _, db) = super::made("8MiB", &["--set", "load.ingest.sst_size=32K"]);
        let other = super::other(&dir, "8MiB");
        Self { dir, db, other }
    }

    fn replacer(&self) -> impl Observer {
        once(|| replace(&self.db, &self.other))
    }
}

fn replace(db: &Path, snapshot: &Path) {
    import(db.parent().expect("a folder"), snapshot, &["--replace", "--set", "load.ingest.sst_size=32K"]);
}

#[track_caller]
fn is_replaced<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("it was replaced");
    assert!(error.to_string().ends_with("/db: the database was replaced or moved while it was read"), "{error}");
    assert!(matches!(error, Error::Replaced { .. }), "{error:?}");
}

/// `verify` reported damage, and advised to check the disk.
#[test]
fn readers_name_a_replaced_database() {
    type Reader = fn(&Case) -> Result<(), Error>;
    let readers: [Reader; 3] = [
        |case| bedload::verify(&VerifyOptions::new(&case.db), &case.replacer()).map(drop),
        |case| walk(&WalkOptions::default().db(&case.db), &case.replacer()).map(drop),
        |case| bedload::stat(&StatOptions::new(&case.db).digest(true), &case.replacer()).map(drop),
    ];
    let case = Case::new();
    readers.into_iter().for_each(|read| is_replaced(read(&case)));
    assert!(bedload::verify(&VerifyOptions::new(&case.db), &bedload::progress::Silent).expect("read").valid);
}

/// A directory that is moved away takes its files along.
#[test]
fn export_names_a_moved_database() {
    let case = Case::new();
    let (aside, file) = (case.dir.path().join("aside"), case.dir.path().join("out.car"));
    let moved = once(|| {
        std::fs::rename(&case.db, &aside).expect("moved");
        for path in ssts(&aside) {
            std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(9)).expect("cut");
        }
    });
    is_replaced(bedload::export(&ExportOptions::new(&case.db), &file, &moved));
    assert!(!file.exists());
    // Without a replacement this is damage.
    std::fs::rename(&aside, &case.db).expect("moved back");
    let error = bedload::export(&ExportOptions::new(&case.db), &file, &bedload::progress::Silent);
    assert!(matches!(error, Err(Error::Rocks { .. })), "{error:?}");
}

#[test]
fn replaced_database_exits_with_code_1() {
    let case = Case::new();
    let mut command = std::process::Command::new(bedload().get_program());
    command.args(["--progress", "off", "get", "--as", "hex"]).arg(&case.db).arg("-");
    let mut get = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let root = record(&case.db)["source"]["roots"][0].as_str().expect("a root").to_owned();
    let mut keys = get.stdin.take().expect("a pipe");
    // As many keys as are looked up at once show that the database is open.
    for _ in 0..256 {
        writeln!(keys, "{root}").expect("written");
    }
    let mut lines = BufReader::new(get.stdout.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a block").is_ok());
    replace(&case.db, &case.other);
    writeln!(keys, "bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu").expect("written");
    drop(keys);
    lines.for_each(drop);
    let ended = get.wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the database was replaced or moved while it was read\nhint: run the same command"),
        "{said}"
    );
}
