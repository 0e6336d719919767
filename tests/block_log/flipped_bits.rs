//! A flipped bit in a block log is found by the import, or it is where the report says that no checksum covers it.

use std::ops::Range;
use std::path::Path;

use crate::common::crash::rounds;
use crate::common::log::*;
use crate::common::run::Place;
use bedload::progress::Silent;
use bedload::report::{ImportReport, LogVerified, ProblemKind};
use bedload::testing::blocks::chain::Id;
use bedload::testing::hash::content_digest::ContentDigest;
use bedload::{Error, ImportOptions, LogOptions, VerifyOptions};

/// Bytes of an Antelope header without new producers and extensions, and of the signature after it.
const HEADER: usize = 116;
const SIGNATURE: usize = 66;

/// A log, and the bytes of it that nothing covers.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    blocks: Vec<LogBlock>,
    uncovered: Vec<Range<usize>>,
}

impl Case {
    /// Digest of the records if this bit is flipped where no hash covers it.
    fn changed_digest(&self, at: usize, bit: usize) -> String {
        let mut blocks = self.blocks.clone();
        for block in &mut blocks {
            let start = self.bytes.windows(block.bytes.len()).position(|bytes| bytes == block.bytes);
            let byte = at.checked_sub(start.expect("the block")).and_then(|at| block.bytes.get_mut(at));
            byte.into_iter().for_each(|byte| *byte ^= 1 << bit);
        }
        model(&blocks).digest()
    }
}

fn cases() -> Vec<Case> {
    let blocks = steem(1, 5, 1);
    let of = |name, bytes| Case { name, bytes, blocks: blocks.clone(), uncovered: Vec::new() };
    let mut cases = vec![of("raw", raw(&blocks)), of("packed", log(&blocks, |_| Packed::Zstd))];
    let antelopes = [
        ("version 1", 1, 1),
        ("version 2", 2, 1),
        ("version 3", 3, 1),
        ("version 4", 4, 1),
        ("version 3 from block 500", 3, 500),
        ("version 4 from block 500", 4, 500),
    ];
    for (name, version, first) in antelopes {
        let blocks = antelope(version, first, first + 4, 2);
        let bytes = antelope_log(version, &blocks);
        let starts = blocks.iter().map(|block| {
            let at = bytes.windows(block.bytes.len()).position(|bytes| bytes == block.bytes);
            at.expect("the log has the block") + HEADER
        });
        // In version 4 the pruning state follows the signature.
        let len = if version == 4 { SIGNATURE + 1 } else { SIGNATURE };
        let mut uncovered: Vec<_> = starts.map(|start| start..start + len).collect();
        if matches!(version, 2 | 3) && first == 1 {
            // From block 1 on versions 2 and 3 are laid out alike.
            uncovered.push(0..1);
        }
        if first > 1 {
            // Block 1 alone names the chain id.
            uncovered.push(8..40);
        }
        cases.push(Case { name, bytes, blocks, uncovered });
    }
    cases
}

fn import(dir: &Path, case: &Case, bytes: &[u8], links_only: bool) -> Result<ImportReport, Error> {
    let (file, db) = (dir.join("log"), dir.join("db"));
    std::fs::write(&file, bytes).expect("room");
    if db.exists() {
        std::fs::remove_dir_all(&db).expect("removed");
    }
    let last = &case.blocks[case.blocks.len() - 1];
    let head = (last.number, Id::from_slice(&last.id).expect("an id"));
    let log = LogOptions::default().expect_head(head).links_only(links_only);
    let options = ImportOptions::new(file, db).threads(1).memory(64 << 20).log(log);
    bedload::import(&options, &Silent)
}

/// Imports the log with this bit flipped: the digest of the database, or `None` if the log is refused as bad input.
#[track_caller]
fn flipped(dir: &Path, case: &Case, at: usize, bit: usize, links_only: bool) -> Option<ContentDigest> {
    let mut bytes = case.bytes.clone();
    bytes[at] ^= 1 << bit;
    match import(dir, case, &bytes, links_only) {
        Ok(report) => Some(report.digest),
        Err(error @ Error::BadInput { .. }) => {
            assert!(!dir.join("db").exists() && !dir.join("db.partial").exists(), "{}, byte {at}: {error}", case.name);
            None
        }
        Err(error) => panic!("{}, bit {bit} of byte {at}: {error}", case.name),
    }
}

#[test]
fn flipped_bit_is_found_or_reported_uncovered() {
    for case in cases() {
        let place = Place::in_memory();
        let whole = import(&place.path(""), &case, &case.bytes, false).expect("valid");
        let log = whole.log.expect("a log");
        assert_eq!(log.verified, LogVerified::Hash);
        let words = log.not_covered.join("; ");
        assert_eq!(words.is_empty(), case.uncovered.is_empty(), "{words}");
        assert_eq!(words.contains("signatures"), !case.uncovered.is_empty(), "{words}");
        let (mut found, mut uncovered) = (0, 0);
        for at in (0..case.bytes.len()).step_by(rounds(199, 1)) {
            for bit in 0..rounds(1, 8) {
                let bit = (at + bit) % 8;
                let Some(digest) = flipped(&place.path(""), &case, at, bit, false) else {
                    found += 1;
                    continue;
                };
                // A frame of zstd has bits that change nothing.
                let same = case.name == "packed" && digest == whole.digest;
                let is_uncovered = case.uncovered.iter().any(|range| range.contains(&at));
                let is_changed = is_uncovered && digest.to_string() == case.changed_digest(at, bit);
                assert!(same || is_changed, "{}, bit {bit} of byte {at}", case.name);
                uncovered += 1;
            }
        }
        eprintln!("{}: {found} found, {uncovered} not covered", case.name);
        assert!(found > uncovered * 2, "{}: {found} found, {uncovered} not", case.name);
    }
}

#[test]
fn verify_finds_bits_that_links_miss() {
    for case in cases() {
        let place = Place::in_memory();
        let whole = import(&place.path(""), &case, &case.bytes, true).expect("valid");
        let log = whole.log.as_ref().expect("a log");
        assert_eq!(log.verified, LogVerified::Links);
        assert!(
            log.not_covered.iter().any(|words| words.contains("only links were verified")),
            "{:?}",
            log.not_covered
        );
        let mut passed = 0;
        for at in (0..case.bytes.len()).step_by(rounds(293, 11)) {
            if case.uncovered.iter().any(|range| range.contains(&at)) {
                continue;
            }
            match flipped(&place.path(""), &case, at, at % 8, true) {
                Some(digest) if digest != whole.digest => {
                    let is_changed = case.name == "packed" || digest.to_string() == case.changed_digest(at, at % 8);
                    assert!(is_changed, "{}, byte {at}", case.name);
                }
                _ => continue,
            }
            passed += 1;
            let report = bedload::verify(&VerifyOptions::new(place.path("db")), &Silent).expect("readable");
            let kinds: Vec<ProblemKind> = report.problems.kinds.keys().copied().collect();
            assert_eq!(kinds, [ProblemKind::Root], "{}, byte {at}: {report:?}", case.name);
            let log = report.log.expect("a log");
            assert_eq!((log.import_verified, log.roots), (LogVerified::Links, case.blocks.len() as u64 - 1));
        }
        // Of packed blocks a frame that is unpacked to something else is rare.
        assert!(passed > 3 || case.name == "packed", "{}: only {passed}", case.name);
    }
}
