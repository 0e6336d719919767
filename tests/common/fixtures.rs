//! Snapshots that are kept as files, and what is known about each: a line of `expected.jsonl`.
//!
//! Those below `fixtures/` are made by this project's own code (`tests/project/fixtures.rs`) and are always there. The
//! real ones, from public repositories, are not: `fixtures/real.jsonl` lists them, `scripts/fixtures` says where they
//! come from, and a test that needs one is reported as ignored where it is absent.

use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Fixture {
    /// The folder that has all files of its kind.
    pub dir: PathBuf,
    pub path: PathBuf,
    pub expected: Value,
}

pub fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The folder of the real snapshots: `BEDLOAD_FIXTURES`, or `../shared/fixtures`.
pub fn real() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    std::env::var_os("BEDLOAD_FIXTURES").map_or_else(beside, PathBuf::from)
}

/// Every snapshot that is listed, there or not: first our own, then the real ones, among them those that only the list
/// beside them knows.
pub fn all() -> Vec<Fixture> {
    let mut all = listed(&own(), &own().join("expected.jsonl"));
    all.extend(listed(&real(), &own().join("real.jsonl")));
    let beside = real().join("expected.jsonl");
    let beside = if beside.is_file() { listed(&real(), &beside) } else { Vec::new() };
    for fixture in beside {
        if all.iter().all(|known| known.path != fixture.path) {
            all.push(fixture);
        }
    }
    all
}

fn listed(dir: &Path, list: &Path) -> Vec<Fixture> {
    let text = std::fs::read_to_string(list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    rows.map(|expected| {
        let path = dir.join(expected["file"].as_str().expect("a file"));
        Fixture { dir: dir.to_owned(), path, expected }
    })
    .collect()
}

impl Fixture {
    pub fn name(&self) -> &str {
        self.expected["file"].as_str().expect("a file")
    }

    pub fn number(&self, field: &str) -> u64 {
        self.expected[field].as_u64().unwrap_or_else(|| panic!("no {field} of {}", self.name()))
    }

    pub fn options(&self) -> &'static [&'static str] {
        if self.number("null_padding") == 0 { &[] } else { &["--null-padding", "eof"] }
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("a file")
    }

    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}
