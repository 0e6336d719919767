//! Real snapshots: every plan, any number of threads, from a file and from a pipe, give what an independent reader
//! found in them.

use std::path::PathBuf;

use crate::common::car::Block;
use crate::common::model::{Key, Model, records};
use crate::common::run::{Done, Import, Place, import, import_pipe};
use serde_json::Value;

/// A real snapshot and what is known about it.
struct Fixture {
    path: PathBuf,
    expected: Value,
}

fn fixtures() -> Vec<Fixture> {
    let Some(dir) = crate::common::fixtures() else { return Vec::new() };
    let text = std::fs::read_to_string(dir.join("expected.jsonl")).expect("it was there a moment ago");
    let expected = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let of_cars = expected.filter(|expected| expected["file"].as_str().is_some_and(|file| file.starts_with("car/")));
    let found: Vec<_> = of_cars
        .map(|expected| Fixture { path: dir.join(expected["file"].as_str().expect("a name")), expected })
        .collect();
    assert!(found.len() >= 10, "the list of real snapshots is short");
    found
}

impl Fixture {
    fn number(&self, name: &str) -> u64 {
        self.expected[name].as_u64().expect("a number")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("a file")
    }

    #[track_caller]
    fn agrees(&self, done: &Done) {
        let name = &self.expected["file"];
        done.succeeded();
        assert_eq!(done.number("/blocks/read"), self.number("blocks"), "{name}");
        assert_eq!(done.number("/blocks/duplicate"), self.number("duplicates"), "{name}");
        assert_eq!(done.number("/blocks/written"), self.number("distinct"), "{name}");
        assert_eq!(done.number("/source/version"), self.number("version"), "{name}");
        assert_eq!(done.number("/source/null_padding"), self.number("null_padding"), "{name}");
        assert_eq!(done.text("/digest"), self.expected["digest"], "{name}");
        assert_eq!(done.number("/payload_bytes"), self.number("payload_bytes"), "{name}");
        assert_eq!(done.text("/source/wrapping") != "none", self.expected["compressed"] == true, "{name}");
        assert_eq!(done.json["verified"], true);
        let roots: Vec<String> = done.roots().iter().map(|root| hex(root)).collect();
        assert_eq!(serde_json::json!(roots), self.expected["roots"], "{name}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every plan, from a file and from a pipe.
fn every_plan_gives_what_is_expected(threads: &str) {
    for fixture in fixtures() {
        let place = Place::new();
        let check = |run: Import, args: &[&str]| {
            let done = run.args(args).args(&["--threads", threads]).run();
            fixture.agrees(&done);
            std::fs::remove_dir_all(&done.db).expect("a database");
        };
        check(import(&place, &fixture.path), &["--plan", "memory"]);
        check(import(&place, &fixture.path), &["--plan", "spill", "--memory", "16MiB"]);
        check(import_pipe(&place, fixture.bytes()), &["--memory", "256MiB"]);
        check(import_pipe(&place, fixture.bytes()), &["--plan", "spill", "--memory", "32MiB"]);
    }
}

#[test]
fn every_plan_gives_what_is_expected_with_one_thread() {
    every_plan_gives_what_is_expected("1");
}

#[test]
fn every_plan_gives_what_is_expected_with_two_threads() {
    every_plan_gives_what_is_expected("2");
}

#[test]
fn every_plan_gives_what_is_expected_with_five_threads() {
    every_plan_gives_what_is_expected("5");
}

#[test]
fn the_report_in_the_database_is_the_report_that_was_printed() {
    for fixture in fixtures() {
        let place = Place::new();
        let done = import(&place, &fixture.path).run();
        let inside = std::fs::read(done.db.join("BEDLOAD.json")).expect("a record of the import");
        let inside: Value = serde_json::from_slice(&inside).expect("JSON");
        for field in ["schema", "source", "blocks", "payload_bytes", "digest", "key", "verified", "loader", "preset"] {
            assert_eq!(inside[field], done.json[field], "{field} of {}", fixture.expected["file"]);
        }
    }
}

#[test]
fn the_three_forms_of_one_chain_are_one_database() {
    let forms = ["car/chain4.car", "car/chain4.car.zst", "car/chain4.forest.car.zst"];
    let fixtures: Vec<_> =
        fixtures().into_iter().filter(|fixture| forms.iter().any(|f| fixture.expected["file"] == **f)).collect();
    let found: Vec<_> = fixtures
        .iter()
        .map(|fixture| {
            let place = Place::new();
            let done = import(&place, &fixture.path).run();
            done.succeeded();
            (done.text("/digest").to_owned(), done.text("/source/wrapping").to_owned(), records(&done.db))
        })
        .collect();
    let [plain, zst, forest] = &found[..] else { return assert!(found.is_empty(), "not all three forms") };
    assert_eq!((&zst.0, &forest.0), (&plain.0, &plain.0));
    assert!(zst.2 == plain.2 && forest.2 == plain.2, "the records differ");
    assert_eq!((&plain.1[..], &zst.1[..], &forest.1[..]), ("none", "zstd", "forest-zstd"));
}

/// The blocks of a snapshot as iroh-car reads them, once what it cannot read is taken off: compression and CARv2.
fn as_iroh_car_reads(fixture: &Fixture) -> Vec<Block> {
    let mut bytes = fixture.bytes();
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut unpacked = Vec::new();
        let mut decoder = zstd::Decoder::new(&bytes[..]).expect("a decoder");
        std::io::Read::read_to_end(&mut decoder, &mut unpacked).expect("sound data");
        bytes = unpacked;
    }
    if bytes.starts_with(crate::common::car::PRAGMA) {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
        let (offset, size) = (number(27), number(35));
        bytes = bytes[offset..offset + size].to_vec();
    }
    futures::executor::block_on(async {
        let mut reader = iroh_car::CarReader::new(&bytes[..]).await.expect("a header");
        let mut blocks = Vec::new();
        while let Some((cid, data)) = reader.next_block().await.expect("a block") {
            blocks.push((cid.to_bytes(), data));
        }
        blocks
    })
}

#[test]
fn every_key_layout_holds_what_an_independent_reader_finds() {
    for fixture in fixtures() {
        let blocks = as_iroh_car_reads(&fixture);
        for key in [Key::Cid, Key::Multihash, Key::Digest] {
            let model = Model::new(&blocks, key);
            for args in [&["--plan", "memory"][..], &["--plan", "spill", "--memory", "16MiB", "--threads", "2"]] {
                let place = Place::new();
                let done = import(&place, &fixture.path).key(key).args(args).run();
                if key == Key::Digest && crate::common::car::with_digests(&blocks).len() < blocks.len() {
                    assert_eq!(done.code, Some(3), "{}", done.stderr);
                } else {
                    done.holds(&model);
                }
            }
        }
        assert_eq!(Model::new(&blocks, Key::Cid).digest(), fixture.expected["digest"]);
    }
}
