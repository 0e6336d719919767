//! An import that is killed at a named point resumes with the same command, to exactly the same records. `tests/attack`
//! kills at random calls.
//!
//! `BEDLOAD_LONG_TESTS=1` kills every kind of import at every point, and cuts power 300 times.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::damaged_work::named;
use crate::common::crash::*;
use crate::common::model::Key;

const WAYS: [Way; 6] = [Way::Memory, Way::Spill, Way::Source, Way::Memtables, Way::Ranges, Way::Batches];

/// Points of an import into a database that was there, before its first write.
const OF_EXISTING: [&str; 3] = ["checkpoint", "opening", "opened"];

/// Every snapshot that can go this way, from a file and from a pipe.
fn kinds(way: Way) -> Vec<Case> {
    let snapshots = snapshots().into_iter().filter(|snapshot| ways(snapshot).contains(&way));
    snapshots.flat_map(|snapshot| [From::File, From::Pipe].map(|from| Case::of(snapshot, way, from))).collect()
}

/// Every combination of key layout and verification, except of a log.
fn choices(way: Way) -> Vec<Case> {
    let keys: &[Key] = if ways(log()).contains(&way) { &[] } else { &[Key::Cid, Key::Multihash, Key::Digest] };
    let of_key = |key: &Key| ["hash", "none"].map(|verify| Case::plain(way).key(*key).arg(&["--verify", verify]));
    keys.iter().flat_map(of_key).collect()
}

/// Each point alone in the long tests, otherwise the points in `few` sequences.
fn sequences(points: &[&'static str], few: usize) -> Vec<Vec<&'static str>> {
    let count = rounds(few, points.len());
    (0..count).map(|nth| points.iter().skip(nth).step_by(count).copied().collect()).collect()
}

/// The long form kills every import at every point; the short form kills an import of each way at one point after another.
#[test]
fn import_resumes_from_every_named_point() {
    for (number, way) in WAYS.into_iter().enumerate() {
        let of_new = [&points(way)[..], &["renamed"]].concat();
        let into_existing = |case: Case| case.into_existing(older());
        let existing: Vec<Case> = choices(way).into_iter().map(into_existing).collect();
        let more = if is_long() { points(way) } else { vec!["complete"] };
        let of_existing =
            OF_EXISTING.into_iter().chain(more).filter(|point| *point != "options-rewritten").collect::<Vec<_>>();
        let new = [kinds(way), choices(way)].concat();
        for (cases, sequences) in [(new, sequences(&of_new, 2)), (existing, sequences(&of_existing, 1))] {
            for (nth, sequence) in sequences.iter().enumerate() {
                for case in in_turn(&cases, number * 4 + nth * 3) {
                    for (point, ended) in case.resumes_from_each(sequence, || {}) {
                        let is_finished = point == "renamed" || (point == "complete" && case.old.is_some());
                        let message = "db.partial: deleted, because an import through memtables starts over\n";
                        if matches!(way, Way::Memtables | Way::Batches) && !OF_EXISTING.contains(&point) {
                            assert_eq!(ended.stderr.contains(message), !is_finished, "{way:?}, {point}: {ended:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn resume_reads_only_after_the_checkpoint() {
    let case = Case::plain(Way::Spill);
    let whole = case.finishes().number("/bytes_read");
    case.again();
    case.dies_at("read:4");
    let last = case.journal().into_iter().rfind(|line| line["entry"] == "read").expect("a point");
    let offset = last["checkpoint"]["offset"].as_u64().expect("a number");
    assert!(offset >= 3 << 19, "{last}");
    let rest = case.finishes().number("/bytes_read");
    assert!(rest + offset <= whole + (1 << 19), "{rest} of {whole} bytes were read after {offset} were durable");
    case.again();
    let rest = case.resumes_from("read-done").number("/bytes_read");
    let size = plain().bytes.len() as u64;
    assert!(rest + size <= whole + (1 << 19), "{rest} of {whole} bytes were read after all {size} were durable");
}

/// Leaves what a power cut leaves: all bytes that the journal names, and any or none of the others.
fn cut_power(case: &Case, chance: &mut Chance) {
    let journal = case.journal();
    let extents = journal.iter().rev().find_map(|line| line["extents"].as_array()).cloned().unwrap_or_default();
    let built: Vec<&str> = journal
        .iter()
        .flat_map(|line| [&line["files"], &line["blocks"]["files"], &line["ids"]["files"]])
        .filter_map(|files| files.as_array())
        .flatten()
        .map(|file| file["name"].as_str().expect("a name"))
        .collect();
    let has = |entry: &str| journal.iter().any(|line| line["entry"] == entry);

    for entry in list(&case.partial().join("spill")) {
        let index: u64 = entry.file_stem().and_then(|stem| stem.to_str()).expect("a name").parse().expect("a number");
        // A partition whose blocks are in files may be half gone already.
        let mut ranges = journal.iter().filter_map(|line| Some(line["first"].as_u64()?..line["end"].as_u64()?));
        if !ranges.any(|range| range.contains(&index)) {
            let extent = extents.iter().find(|pair| pair[0] == index);
            lose(&entry, extent.map_or(0, |pair| pair[1]["bytes"].as_u64().expect("bytes")), chance);
        }
    }
    for entry in list(&case.partial().join("sst")) {
        if !built.contains(&entry.file_name().and_then(|name| name.to_str()).expect("a name")) {
            lose(&entry, 0, chance);
        }
    }
    let staging = case.partial().join("db");
    if !has("ingesting") && staging.exists() {
        std::fs::remove_dir_all(&staging).expect("removed");
    }
    if !has("complete") && staging.join("BEDLOAD.json").exists() {
        lose(&staging.join("BEDLOAD.json"), 0, chance);
    }
    let mut journal = File::options().append(true).open(case.partial().join("journal")).expect("a journal");
    let rest = &b"0123456789abcdef {\"entry\":\"comp\n\0\0\0"[..chance.below(34) as usize];
    journal.write_all(rest).expect("written");
}

/// Keeps the first `durable` bytes; the rest is cut, half cut, zero or rubbish, and without any the file may be gone.
fn lose(path: &Path, durable: u64, chance: &mut Chance) {
    let mut bytes = std::fs::read(path).expect("a file");
    let durable = durable as usize;
    assert!(durable <= bytes.len(), "{} is shorter than the journal says", path.display());
    match chance.below(5) {
        0 => bytes.truncate(durable),
        1 => bytes.truncate(durable + (bytes.len() - durable) / 2),
        2 => bytes[durable..].fill(0),
        3 => {
            bytes.truncate(durable);
            bytes.extend([0x5a; 70_000]);
        }
        _ if durable == 0 => return std::fs::remove_file(path).expect("removed"),
        _ => bytes[durable..].fill(0xff),
    }
    std::fs::write(path, bytes).expect("written");
}

/// RocksDB's memtables are left out: RocksDB decides what it syncs.
#[test]
fn power_cut_loses_no_block() {
    let mut chance = Chance::new();
    for _ in 0..rounds(1, 8) {
        for way in [Way::Memory, Way::Spill, Way::Ranges] {
            for (number, sequence) in sequences(&points(way), 2).iter().enumerate() {
                let cases = kinds(way);
                let case = &cases[(number + chance.below(2) as usize * 2) % cases.len()];
                case.resumes_from_each(sequence, || cut_power(case, &mut chance));
            }
        }
    }
}

/// RocksDB opens only some of the files at once; the resume check must know the records of all.
#[test]
fn resume_counts_all_ingested_files() {
    for (number, way) in [Way::Memory, Way::Spill, Way::Source].into_iter().enumerate() {
        for point in in_turn(&["ingest", "ingested", "recorded"], number) {
            let case = Case::plain(way).arg(&["--set", "load.ingest.sst_size=64K"]);
            let files = case.resumes_from(point).number("/levels/0/files");
            assert!(files > 50, "{way:?}, {point}: only {files} files: not enough to see anything");
        }
    }
}

#[test]
fn import_into_an_imported_database_resumes() {
    let new = |way| {
        let case = Case::plain(way).into_existing(mixed());
        Case::new(&case.path(""), mixed(), Way::Memory, From::File).finishes();
        case
    };
    let spill = ["start", "read-done", "built", "ingesting", "ingest", "ingested", "recorded", "complete"];
    for (way, points) in
        [(Way::Spill, &spill[..]), (Way::Memory, &["ingest"]), (Way::Memtables, &["batch:2", "read-done"])]
    {
        let case = new(way);
        points.iter().for_each(|point| case.dies_at(point));
        case.finishes();
    }
    // A file that went before RocksDB was asked to take it is missed.
    let case = new(Way::Memory);
    case.dies_at("built");
    std::fs::remove_file(case.partial().join("sst").join(named(&case, "sst"))).expect("removed");
    case.is_refused(&["the unfinished import lacks"]);
}

/// The random attack found a refusal, because the torn line was taken for a damaged one.
#[test]
fn torn_journal_resumes_into_a_database() {
    for way in [Way::Memory, Way::Spill] {
        let case = Case::plain(way).into_existing(older());
        case.put_old();
        case.dies_at("opening");
        let mut journal = File::options().append(true).open(case.partial().join("journal")).expect("a journal");
        journal.write_all(b"0123456789abcdef {\"entry\":\"und").expect("written");
        case.finishes();
    }
}
