//! A flipped bit in a database's MANIFEST, CURRENT, WAL or OPTIONS ends every command in time with the file's name. RocksDB
//! itself spins on a record of the type of a recycled log, and dies by a null pointer on an unknown table format.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use crate::common::crash::{Case, Way, rounds};
use crate::common::database::{bedload, generate, import, json, open};
use crate::common::run::Place;

/// A run takes milliseconds; one that spins takes for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Types of records in a file that is used again.
const REUSED: [u8; 6] = [5, 6, 7, 8, 11, 131];

/// The message about such a record.
const WORDS: &str = "is of a type that is not allowed there";

/// A database whose last writes are in its WAL only, and a key in it.
fn with_wal(place: &Place) -> (PathBuf, String) {
    let dir = place.path("");
    let made = import(&dir, &generate(&dir, "40KiB"), &[]);
    let root = json(&["stat"], &made, &[], 0)["import"]["source"]["roots"][0].as_str().expect("a root").to_owned();
    let writing = open(&made);
    for number in 0..4u8 {
        writing.put([number], [number; 40]).expect("put");
    }
    let db = place.path("with-wal");
    assert!(std::process::Command::new("cp").arg("-r").args([&made, &db]).status().expect("cp").success());
    (db, root)
}

/// The files whose name begins and ends so, but no empty ones.
fn files(db: &Path, begin: &str, end: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(db).expect("a folder").map(|entry| entry.expect("an entry").path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(begin) && name.ends_with(end) && path.metadata().is_ok_and(|it| it.len() > 0)
    };
    all.filter(fits).collect()
}

/// The one MANIFEST, and the one WAL that has anything.
fn logs(db: &Path) -> [PathBuf; 2] {
    [("MANIFEST-", ""), ("0", ".log")].map(|(begin, end)| {
        let [only] = <[PathBuf; 1]>::try_from(files(db, begin, end)).expect("one file");
        only
    })
}

/// Offsets of the types of the records in a log of one block.
fn types(log: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 7 <= log.len() {
        found.push(at + 6);
        at += 7 + usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
    }
    assert!(found.len() > 2 && at == log.len(), "a log of whole records");
    found
}

/// Runs a command on a database whose `file` holds `bytes` for that time.
#[track_caller]
fn run(command: &[&str], db: &Path, file: &Path, bytes: &[u8], more: &[&str]) -> Output {
    let valid = std::fs::read(file).expect("read");
    std::fs::write(file, bytes).expect("written");
    let output = bedload().args(command).arg("--db").arg(db).args(more).timeout(PATIENCE).output().expect("it runs");
    std::fs::write(file, valid).expect("written");
    assert!(output.status.code().is_some(), "{command:?} does not end: {output:?}");
    output
}

/// All it has said.
fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[test]
fn recycled_log_record_is_reported_with_file() {
    let place = Place::in_memory();
    let (db, root) = with_wal(&place);
    let car = place.path("snapshot.car");
    let car = car.to_str().expect("text");
    let walk = ["--root", root.as_str()];
    let commands: [(&[&str], &[&str], i32); 5] = [
        (&["verify"], &[], 3),
        (&["stat"], &[], 3),
        (&["get", root.as_str()], &[], 3),
        (&["walk"], &walk, 3),
        (&["import", car], &["--into-existing"], 3),
    ];
    for file in logs(&db) {
        let valid = std::fs::read(&file).expect("read");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        for (number, at) in types(&valid).into_iter().enumerate().skip(1) {
            let mut bytes = valid.clone();
            bytes[at] = REUSED[number % REUSED.len()];
            // All commands on the first; the one that is quickest on the others.
            for (command, more, code) in
                commands.iter().skip(usize::from(number > 1)).take(if number > 1 { 1 } else { 5 })
            {
                let output = run(command, &db, &file, &bytes, more);
                assert_eq!(output.status.code(), Some(*code), "{command:?}: {}", said(&output));
                for words in [name, WORDS] {
                    assert!(said(&output).contains(words), "{command:?}: {}", said(&output));
                }
                std::fs::remove_dir_all(place.path("with-wal.partial")).ok();
            }
        }
    }
    assert_eq!(
        json(&["verify"], &db, &[], 3)["problems"]["kinds"],
        serde_json::json!({ "key": 4, "count": 1, "digest": 1 })
    );
}

#[test]
fn flipped_bits_never_hang_a_command() {
    let place = Place::in_memory();
    let (db, _) = with_wal(&place);
    let [manifest, wal] = logs(&db);
    for file in [manifest, wal, db.join("CURRENT")] {
        let valid = std::fs::read(&file).expect("read");
        for at in (0..valid.len()).step_by(rounds(13, 1)) {
            let mut bytes = valid.clone();
            bytes[at] ^= 1 << (at % 8);
            let code = run(&["stat"], &db, &file, &bytes, &[]).status.code();
            assert!(matches!(code, Some(0 | 1 | 3)), "{}, byte {at}: {code:?}", file.display());
        }
    }
}

#[test]
fn unknown_table_format_is_reported() {
    let place = Place::in_memory();
    let (db, _) = with_wal(&place);
    let newest = files(&db, "OPTIONS-", "").into_iter().max().expect("an OPTIONS file");
    let valid = std::fs::read_to_string(&newest).expect("text");
    let unknown = "RocksDB has no table format";
    for (damaged, reason) in [
        ("TableOptions/BlOckBasedTable ", unknown),
        ("TableOptions/BlockBasedTable$", unknown),
        ("TableOptions/Bl\u{f6}ckBasedTable ", unknown),
        // 0xEF, one byte.
        ("TableOptions/BlockBased\u{fffd}able ", "is not a RocksDB OPTIONS file: invalid utf-8"),
    ] {
        let text = valid.replace("TableOptions/BlockBasedTable ", damaged);
        let bytes: Vec<u8> = text.split('\u{fffd}').map(str::as_bytes).collect::<Vec<_>>().join(&0xEF);
        for command in ["stat", "verify"] {
            let output = run(&[command], &db, &newest, &bytes, &[]);
            assert_eq!(output.status.code(), Some(3), "{command}: {}", said(&output));
            assert!(said(&output).contains(reason), "{command}: {}", said(&output));
        }
    }
}

#[test]
fn incomplete_manifest_or_wal_is_read() {
    let place = Place::in_memory();
    let (db, _) = with_wal(&place);
    for file in logs(&db) {
        let valid = std::fs::read(&file).expect("read");
        let last = *types(&valid).last().expect("a record");
        for cut in [last - 6, last - 3, last, last + 1, valid.len() - 1] {
            let output = run(&["stat"], &db, &file, &valid[..cut], &[]);
            assert!(output.status.success(), "cut at {cut}: {}", said(&output));
        }
    }
}

#[test]
fn damaged_staging_manifest_suggests_restart() {
    let case = Case::plain(Way::Memory);
    case.dies_at("ingested");
    let staging = case.partial().join("db");
    let [manifest] = <[PathBuf; 1]>::try_from(files(&staging, "MANIFEST-", "")).expect("one file");
    let valid = std::fs::read(&manifest).expect("read");
    for (at, value) in [(types(&valid)[2], 5), (types(&valid)[2] + 3, 0xff)] {
        let mut bytes = valid.clone();
        bytes[at] = value;
        std::fs::write(&manifest, bytes).expect("written");
        case.is_refused(&[
            "MANIFEST-",
            "the unfinished import is damaged: Corruption: the record at byte ",
            "--restart",
        ]);
    }
    case.finishes_or_says_why("a damaged MANIFEST");
}

fn replace_by(file: &Path, kind: &str) {
    std::fs::remove_file(file).expect("removed");
    match kind {
        "pipe" => rustix::fs::mkfifoat(rustix::fs::CWD, file, 0o600.into()).expect("a pipe"),
        "device" => std::os::unix::fs::symlink("/dev/zero", file).expect("a link"),
        _ => std::fs::create_dir(file).expect("a folder"),
    }
}

#[test]
fn special_file_instead_of_metadata_is_refused() {
    let place = Place::in_memory();
    let (db, root) = with_wal(&place);
    for file in logs(&db) {
        let valid = std::fs::read(&file).expect("read");
        replace_by(&file, "pipe");
        let output = bedload().args(["stat", "--db"]).arg(&db).timeout(PATIENCE).output().expect("it runs");
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(said(&output).contains("it is not a regular file"), "{}", said(&output));
        std::fs::remove_file(&file).expect("removed");
        std::fs::write(&file, valid).expect("restored");
    }
    let newest = files(&db, "OPTIONS-", "").into_iter().max().expect("an OPTIONS file");
    let walk = ["--root", root.as_str()];
    let commands: [(&[&str], &[&str]); 4] =
        [(&["verify"], &[]), (&["stat"], &[]), (&["get", root.as_str()], &[]), (&["walk"], &walk)];
    for file in [db.join("BEDLOAD.json"), db.join("IDENTITY"), newest] {
        let valid = std::fs::read(&file).expect("read");
        for kind in ["pipe", "device", "folder"] {
            replace_by(&file, kind);
            for (command, more) in commands {
                let what = format!("{command:?}, {kind} as {}", file.display());
                let output = bedload().args(command).arg("--db").arg(&db).args(more).timeout(PATIENCE).output();
                let output = output.expect("it runs");
                let code = if command[0] != "verify" && file.ends_with("BEDLOAD.json") { 4 } else { 3 };
                assert_eq!(output.status.code(), Some(code), "{what}: {}", said(&output));
                assert!(said(&output).contains("it is not a regular file"), "{what}: {}", said(&output));
            }
            if kind == "folder" { std::fs::remove_dir(&file) } else { std::fs::remove_file(&file) }.expect("removed");
            std::fs::write(&file, &valid).expect("restored");
        }
    }
}
