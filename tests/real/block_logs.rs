//! Real block logs: every way in gives what independent readers found in them.

use std::path::PathBuf;

use crate::common::run::{Done, Place, import, import_pipe};
use serde_json::Value;

/// A real log and what is known about it.
struct Fixture {
    dir: PathBuf,
    path: PathBuf,
    expected: Value,
}

fn fixtures() -> Vec<Fixture> {
    let Some(dir) = crate::common::fixtures() else { return Vec::new() };
    let text = std::fs::read_to_string(dir.join("expected.jsonl")).expect("it was there a moment ago");
    let expected = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let found: Vec<_> = expected
        .filter(|expected| expected["file"].as_str().is_some_and(|file| file.starts_with("block_log/")))
        .map(|expected| {
            let path = dir.join(expected["file"].as_str().expect("a name"));
            Fixture { dir: dir.clone(), path, expected }
        })
        .collect();
    assert_eq!(found.len(), 5, "real logs");
    found
}

impl Fixture {
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("a file")
    }

    fn dictionaries(&self) -> String {
        self.dir.join("block_log/hive").display().to_string()
    }

    #[track_caller]
    fn agrees(&self, done: &Done) {
        let name = &self.expected["file"];
        done.succeeded();
        assert_eq!(done.text("/source/format"), "block-log", "{name}");
        assert_eq!(done.json["blocks"]["read"], self.expected["blocks"], "{name}");
        assert_eq!(done.json["blocks"]["written"], self.expected["blocks"], "{name}");
        for (end, of) in [("first", "/log/first"), ("last", "/log/last")] {
            assert_eq!(
                done.number(&format!("{of}/number")),
                self.expected[end][0].as_u64().expect("a number"),
                "{name}"
            );
            assert_eq!(done.text(&format!("{of}/id")), self.expected[end][1], "{name}");
        }
        assert_eq!(done.text("/digest"), self.expected["digest"], "{name}");
        if let Some(payload) = self.expected["payload_bytes"].as_u64() {
            assert_eq!(done.number("/payload_bytes"), payload, "{name}");
        }
        if let Some(chain_id) = self.expected["chain_id"].as_str() {
            assert_eq!(done.text("/log/chain_id"), chain_id, "{name}");
        }
    }
}

#[test]
fn every_way_in_gives_what_is_expected() {
    for fixture in fixtures() {
        let dictionaries = fixture.dictionaries();
        let all = ["--dictionaries", &dictionaries, "--index", "transactions"];
        for threads in ["1", "2", "5"] {
            for verify in ["hash", "links", "none"] {
                let place = Place::in_memory();
                let args = [&all[..], &["--threads", threads, "--verify", verify]].concat();
                fixture.agrees(&import(&place, &fixture.path).args(&args).run());
                let place = Place::in_memory();
                fixture.agrees(&import_pipe(&place, fixture.bytes()).args(&args).run());
            }
        }
    }
}

fn wrapped(name: &str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match name {
        "zst" => zstd::encode_all(bytes, 3).expect("packed"),
        "gz" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("packed");
            encoder.finish().expect("packed")
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(bytes).expect("packed");
            encoder.finish().expect("packed")
        }
        _ => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).expect("packed");
            encoder.finish().expect("packed")
        }
    }
}

#[test]
fn a_log_inside_any_compression_is_unpacked_on_the_fly() {
    for fixture in fixtures() {
        for wrapping in ["zst", "gz", "xz", "lz4"] {
            let place = Place::in_memory();
            let file = place.file("log", &wrapped(wrapping, &fixture.bytes()));
            let done = import(&place, file).args(&["--dictionaries", &fixture.dictionaries()]).run();
            fixture.agrees(&done);
            assert_ne!(done.text("/source/wrapping"), "none");
        }
    }
}

/// The rows of a list of blocks, by the names in its first line.
fn rows(list: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = list.lines();
    let names: Vec<&str> = lines.next().expect("names").split('\t').collect();
    lines.map(|line| names.iter().copied().zip(line.split('\t')).collect()).collect()
}

#[test]
fn every_block_has_the_id_that_the_list_beside_its_log_gives() {
    let mut lists = 0;
    for fixture in fixtures() {
        let Ok(list) = std::fs::read_to_string(fixture.path.with_file_name("blocks.tsv")) else { continue };
        lists += 1;
        let place = Place::in_memory();
        let db = import(&place, &fixture.path).args(&["--dictionaries", &fixture.dictionaries()]).run().db;
        let rows = rows(&list);
        assert_eq!(rows.len() as u64, fixture.expected["blocks"], "{}", fixture.expected["file"]);
        let of = |row: &[(&str, &str)], name: &str| {
            row.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name}")).1.to_owned()
        };
        // By number, and by the id itself: both find the same block.
        for by in ["num", "block_id"] {
            let keys: String = rows.iter().map(|row| of(row, by) + "\n").collect();
            let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_bedload"));
            let output = command.args(["get", "-", "--db"]).arg(&db).write_stdin(keys).output().expect("it runs");
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            let found = String::from_utf8(output.stdout).expect("text");
            assert_eq!(found.lines().count(), rows.len());
            for (line, row) in found.lines().zip(&rows) {
                let block: Value = serde_json::from_str(line).expect("JSON");
                assert_eq!(block["number"].to_string(), of(row, "num"));
                assert_eq!(block["id"], of(row, "block_id"), "block {}", of(row, "num"));
                assert_eq!(block["previous"], of(row, "previous"), "block {}", of(row, "num"));
            }
        }
    }
    assert!(lists > 0 || crate::common::fixtures().is_none(), "no list was found");
}
