//! The last line of `verify` is its verdict, and the exit code agrees with it.

use std::path::Path;

use super::{made, put};
use crate::common::database::{bedload, flip, json, open, some_keys, ssts};
use rust_rocksdb::{BottommostLevelCompaction, CompactOptions};

/// Runs `verify`: its last line, its document, and what it says on standard error.
#[track_caller]
fn verdict(db: &Path, more: &[&str], code: i32) -> (String, serde_json::Value, String) {
    let output = bedload().arg("verify").arg(db).args(more).output().expect("run");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().last().expect("a line").to_owned();
    let report = json(&["verify"], db, more, code);
    (line, report, said)
}

/// Rewrites every file, so that nothing tells which records the import wrote.
pub fn compact(db: &Path) {
    let mut anew = CompactOptions::default();
    anew.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    open(db).compact_range_opt(None::<&[u8]>, None::<&[u8]>, &anew);
}

#[test]
fn finished_import_is_confirmed() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let (line, report, _) = verdict(&db, &[], 0);
    assert_eq!((&*line, &report["verdict"]), ("verdict   confirmed", &"confirmed".into()));
    assert!(report["not_confirmed"].is_null());
    for (color, line) in [("always", "\x1b[1;32mverdict   confirmed\x1b[0m\n"), ("never", "\nverdict   confirmed\n")] {
        let colored = bedload().args(["--color", color, "verify"]).arg(&db).output().expect("run");
        assert!(String::from_utf8_lossy(&colored.stdout).ends_with(line), "{colored:?}");
    }
    let (line, report, _) = verdict(&db, &["--sample", "9"], 0);
    assert_eq!(line, "verdict   intact but not confirmed: only 9 records were checked");
    assert_eq!((&report["verdict"], &report["valid"]), (&"intact".into(), &true.into()));
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    let (line, ..) = verdict(&db, &[], 0);
    assert_eq!(line, "verdict   intact but not confirmed: without BEDLOAD.json the expected records are unknown");
}

/// It said so in the middle of the report and ended with exit code 0.
#[test]
fn possible_loss_of_records_fails() {
    let (_dir, car, db) = made("1MiB", &[]);
    let lost = some_keys(&db, 9);
    lost.iter().for_each(|key| open(&db).delete(key).expect("deleted"));
    put(&db, (0..10u8).map(|number| ([1, 0x71, 0, 1, number], [number])));
    compact(&db);
    let (line, report, said) = verdict(&db, &[], 1);
    let reason =
        "it has been written to since the import, 1 record more than recorded; records of the import may be missing";
    assert_eq!(line, format!("verdict   intact but not confirmed: {reason}"));
    assert_eq!((&report["verdict"], &report["not_confirmed"]), (&"intact".into(), &reason.into()));
    assert_eq!(report["valid"], true);
    let error = format!(
        "error: verify {}: intact but not confirmed: {reason}\nhint: --against SOURCE --allow-extra",
        db.display()
    );
    assert!(said.starts_with(&error), "{said}");
    // --allow-extra accepts the added records; the comparison shows the loss.
    verdict(&db, &["--allow-extra"], 0);
    let (line, ..) = verdict(&db, &["--allow-extra", "--against", &car], 3);
    assert!(line.starts_with("verdict   damaged: "), "{line}");
}

#[test]
fn damaged_database_gets_the_damaged_verdict() {
    let (dir, _car, db) = made("1MiB", &[]);
    flip(&ssts(&db)[0], 5000, 0x10);
    let exported = bedload().arg("export").arg(&db).arg(dir.path().join("back.car")).output().expect("run");
    assert_eq!(exported.status.code(), Some(3), "{exported:?}");
    let (line, report, _) = verdict(&db, &[], 3);
    assert!(line.starts_with("verdict   damaged: ") && line.contains("problem"), "{line}");
    assert_eq!(report["verdict"], "damaged");
    let red = bedload().args(["--color", "always", "verify"]).arg(&db).output().expect("run");
    assert!(String::from_utf8_lossy(&red.stdout).contains("\x1b[1;31mverdict   damaged: "), "{red:?}");
}
