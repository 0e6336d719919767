//! Exports of block logs and checks of the result.

use std::path::Path;

use serde_json::Value;

use super::run::{Done, Place, import, program};

pub fn output(args: &[&str]) -> std::process::Output {
    program().args(args).args(["--progress", "off"]).output().expect("it runs")
}

/// Exports a database into `place/name`: the report, and the bytes.
#[track_caller]
pub fn export(place: &Place, db: &Path, name: &str, more: &[&str]) -> (Value, Vec<u8>) {
    let to = place.path(name);
    let report = super::export::export(db, &to, &[&["--force"], more].concat(), 0);
    let bytes = std::fs::read(&to).expect("a file");
    assert_eq!(report["bytes"], bytes.len());
    (report, bytes)
}

/// Imports, exports, and expects exactly `log` back.
#[track_caller]
pub fn comes_back(source: &Path, log: &[u8], more: &[&str]) -> Value {
    let place = Place::in_memory();
    let done = import(&place, source).args(more).succeeds();
    let (report, bytes) = export(&place, &done.db, "back", &[]);
    assert!(bytes == log, "{} is another log: {} bytes, not {}", source.display(), bytes.len(), log.len());
    assert_eq!((&report["log"]["identical"], &report["all_records"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(report["log"]["differs"], Value::Array(Vec::new()));
    assert_eq!((&report["digest"], &report["format"]), (&done.json["digest"], &"log".into()));
    report
}

/// Imports, exports, and expects the same blocks back, raw: the report's reasons why it is another log.
#[track_caller]
pub fn comes_back_otherwise(place: &Place, done: &Done, more: &[&str]) -> (Vec<u8>, String) {
    done.succeeded();
    let (report, bytes) = export(place, &done.db, "back", &[]);
    assert_eq!((&report["log"]["identical"], &report["all_records"]), (&false.into(), &true.into()), "{report}");
    assert_eq!((&report["log"]["last"], &report["digest"]), (&done.json["log"]["last"], &done.json["digest"]));
    let again = Place::in_memory();
    let from = done.number("/log/first/number").to_string();
    let again = import(&again, place.path("back")).args(more).args(&["--from", &from]).succeeds();
    assert_eq!((again.text("/digest"), &again.json["log"]["last"]), (done.text("/digest"), &done.json["log"]["last"]));
    assert_eq!(again.number("/log/packings/raw"), again.number("/blocks/read"));
    let differs = report["log"]["differs"].as_array().expect("a list");
    (bytes, differs.iter().map(|reason| reason.as_str().expect("text")).collect::<Vec<_>>().join("; "))
}
