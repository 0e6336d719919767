//! An import that is killed at any moment goes on with the same command, to exactly the same records.
//!
//! `BEDLOAD_LONG_TESTS=1 cargo test --release --test crash kills` kills at 200 and more random moments and at
//! every named point of every kind of import instead of a few.

use std::path::Path;
use std::time::Duration;

use super::damaged_work::named;
use crate::common::crash::*;
use crate::common::model::Key;
use crate::common::run::Place;

/// The named points that every import passes, those of the ingest loader, and those of each way.
const OF_ALL: [&str; 4] = ["start", "recorded", "complete", "renamed"];

const OF_INGEST: [&str; 6] = ["built-synced", "built", "ingesting", "ingest", "ingested", "options-rewritten"];

const OF_MEMORY: [&str; 1] = ["held"];

const OF_MEMTABLES: [&str; 5] = ["batch", "batch:3", "read-done", "compacted", "checked"];

/// Those of a database that is added to.
const OF_EXISTING: [&str; 3] = ["checkpoint", "opening", "opened"];

const OF_RANGES: [&str; 8] =
    ["range-synced", "range", "range:3", "ranges", "ingesting", "ingest", "ingest:2", "ingested"];
const OF_BATCHES: [&str; 4] = ["batch", "batch:3", "ranges", "read-done"];

const OF_SPILL: [&str; 10] = [
    "read-synced",
    "read",
    "read-synced:3",
    "read:4",
    "read-done-synced",
    "read-done",
    "built-synced:2",
    "built:2",
    "built-synced:3",
    "built:3",
];

fn points(way: Way) -> Vec<&'static str> {
    let own: [&[&str]; 2] = match way {
        Way::Memory => [&OF_INGEST, &OF_MEMORY],
        Way::Spill | Way::Source => [&OF_INGEST, &OF_SPILL],
        Way::Memtables => [&OF_MEMTABLES, &[]],
        Way::Ranges => [&OF_RANGES, &[]],
        Way::Batches => [&OF_BATCHES, &[]],
    };
    OF_ALL.iter().chain(own.into_iter().flatten()).copied().collect()
}

fn cases(place: &Place) -> Vec<(Way, Case)> {
    let mut cases = Vec::new();
    for (index, snapshot) in snapshots().into_iter().enumerate() {
        for &way in ways(snapshot) {
            for from in [From::File, From::Pipe] {
                let dir = place.path(&format!("{index}-{way:?}-{from:?}"));
                std::fs::create_dir_all(&dir).expect("a folder");
                cases.push((way, Case::new(&dir, snapshot, way, from)));
            }
        }
    }
    cases
}

#[test]
fn killed_at_every_named_point_it_goes_on() {
    let place = Place::in_memory();
    for (index, (way, case)) in cases(&place).into_iter().enumerate() {
        for (number, point) in points(way).into_iter().enumerate() {
            // Each point for some of the kinds; for all of them in the long run.
            if rounds(0, 1) == 0 && (number + index) % 5 != 0 {
                continue;
            }
            case.dies_at(point);
            case.finishes();
            case.again();
        }
    }
}

/// Every combination of loader, key layout, verification, and a database that is new or was there.
fn combinations(place: &Place) -> Vec<(Way, Case)> {
    let mut all = Vec::new();
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        for key in [Key::Cid, Key::Multihash, Key::Digest] {
            for verify in ["hash", "none"] {
                for existing in [false, true] {
                    let dir = place.path(&format!("{way:?}-{}-{verify}-{existing}", key.name()));
                    std::fs::create_dir_all(&dir).expect("a folder");
                    let case = Case::new(&dir, plain(), way, From::File).key(key).arg(&["--verify", verify]);
                    all.push((way, if existing { case.into_existing(older()) } else { case }));
                }
            }
        }
    }
    all
}

fn goes_on_from(case: &Case, point: &str) {
    case.put_old();
    case.dies_at(point);
    case.finishes();
    case.again();
}

#[test]
fn every_combination_of_loader_and_choices_goes_on_from_every_point() {
    let place = Place::in_memory();
    let first = Chance::new().below(20) as usize;
    let mut number = first;
    for (way, case) in combinations(&place) {
        let more: &[&str] = if case.old.is_some() { &OF_EXISTING } else { &[] };
        for point in points(way).iter().chain(more) {
            let is_new = case.old.is_none();
            number += 1;
            if (["renamed", "options-rewritten"].contains(point) && !is_new)
                || (rounds(0, 1) == 0 && !number.is_multiple_of(20))
            {
                continue;
            }
            goes_on_from(&case, point);
        }
    }
}

#[test]
fn memtable_import_starts_over_from_every_point() {
    let place = Place::in_memory();
    let new = |snapshot, way| Case::new(&place.path(""), snapshot, way, From::File);
    for (way, case) in [
        (Way::Memtables, new(plain(), Way::Memtables).key(Key::Digest)),
        (Way::Memtables, new(plain(), Way::Memtables).arg(&["--verify", "none"]).into_existing(older())),
        (Way::Batches, new(log(), Way::Batches)),
    ] {
        for point in points(way) {
            if point == "renamed" && case.old.is_some() {
                continue;
            }
            case.put_old();
            case.dies_at(point);
            let ended = case.finishes();
            let is_finished = point == "renamed" || (point == "complete" && case.old.is_some());
            let message = "db.partial: deleted, because an import through memtables starts over\n";
            assert_eq!(ended.stderr.contains(message), !is_finished, "{way:?}, {point}: {ended:?}");
            case.again();
        }
    }
}

#[test]
fn killed_at_one_point_after_the_other_it_still_goes_on() {
    let place = Place::in_memory();
    for (way, case) in cases(&place).into_iter().step_by(rounds(5, 1)) {
        let one_after_the_other: &[&str] = match way {
            Way::Memory => &["start", "held", "built-synced", "built", "ingesting", "ingest", "ingested", "complete"],
            Way::Memtables => &["start", "batch", "batch:2", "read-done", "compacted", "recorded", "complete"],
            Way::Ranges => &["start", "range", "range-synced", "range", "ranges", "ingest", "ingested", "complete"],
            Way::Batches => &["start", "batch", "batch:2", "ranges", "read-done", "recorded", "complete"],
            Way::Spill | Way::Source => &[
                "start",
                "read",
                "read-synced",
                "read",
                "read",
                "read-done",
                "built",
                "built-synced",
                "built",
                "ingest",
            ],
        };
        for point in one_after_the_other {
            case.dies_at(point);
        }
        case.dies_at("renamed");
        case.holds_everything();
        case.finishes();
    }
}

#[test]
fn what_was_durable_is_not_read_again() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let whole = case.finishes().number("/bytes_read");
    case.again();
    case.dies_at("read:4");
    let last = case.journal().into_iter().rfind(|line| line["entry"] == "read").expect("a point");
    let offset = last["checkpoint"]["offset"].as_u64().expect("a number");
    assert!(offset >= 4 << 20, "{last}");
    let rest = case.finishes().number("/bytes_read");
    assert!(rest + offset <= whole + (1 << 20), "{rest} of {whole} bytes were read after {offset} were durable");
    case.again();
    case.dies_at("read-done");
    let rest = case.finishes().number("/bytes_read");
    let size = plain().bytes.len() as u64;
    assert!(rest + size <= whole + (1 << 20), "{rest} of {whole} bytes were read after all {size} were durable");
}

#[test]
fn killed_at_random_moments_it_goes_on() {
    let place = Place::in_memory();
    let mut chance = Chance::new();
    let mut kills = 0;
    let cases = cases(&place);
    for round in 0..rounds(14, 220) {
        let (_, case) = &cases[round % cases.len()];
        let undisturbed = std::time::Instant::now();
        case.finishes();
        let whole = undisturbed.elapsed().as_millis() as u64;
        case.again();
        for _ in 0..=chance.below(3) {
            let mut child = case.start();
            std::thread::sleep(Duration::from_millis(chance.below(whole + 5)));
            child.kill().expect("killed");
            let ended = ended(child);
            if ended.signal.is_some() {
                kills += 1;
            } else if ended.code == Some(4) {
                // The one before was killed when all was done.
                ended.says(&["already exists"]);
                case.holds_everything();
                case.again();
            } else {
                case.has_finished(&ended);
                case.again();
            }
            if case.db.exists() {
                case.holds_everything();
            }
        }
        if case.db.exists() && !case.partial().join("journal").exists() {
            // It was killed when all was done.
            case.is_refused(&["already exists"]);
            assert!(!case.partial().exists(), "something is left of the work");
        } else {
            case.finishes();
        }
        case.again();
    }
    assert!(kills > 0, "every run had ended before it was killed");
}

/// What is on the disk after a power cut: all that the journal names, and of anything else any bytes or none.
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
        let is_built = |line: &serde_json::Value| {
            let range = line["first"].as_u64().zip(line["end"].as_u64());
            range.is_some_and(|(first, end)| (first..end).contains(&index))
        };
        if journal.iter().any(is_built) {
            continue;
        }
        let durable =
            extents.iter().find(|pair| pair[0] == index).map(|pair| pair[1]["bytes"].as_u64().expect("bytes"));
        lose(&entry, durable.unwrap_or(0), chance);
    }
    for entry in list(&case.partial().join("sst")) {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("a name");
        if !built.contains(&name) {
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
    let path = case.partial().join("journal");
    let mut text = std::fs::read(&path).expect("a journal");
    text.extend(&b"0123456789abcdef {\"entry\":\"comp\n\0\0\0"[..chance.below(34) as usize]);
    std::fs::write(&path, text).expect("written");
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

#[test]
fn what_was_not_synced_may_be_lost() {
    let place = Place::in_memory();
    let mut chance = Chance::new();
    // What RocksDB syncs of its own is its own affair.
    let is_ours = |way: Way| way != Way::Memtables && way != Way::Batches;
    let cases: Vec<_> = cases(&place).into_iter().filter(|(way, _)| is_ours(*way)).collect();
    for round in 0..rounds(14, 300) {
        let (way, case) = &cases[round % cases.len()];
        let points = points(*way);
        let point = points[chance.below(points.len() as u64) as usize];
        if point == "renamed" {
            continue;
        }
        for _ in 0..2 {
            // The second time the point may lie behind it.
            let ended = case.dying_at(point).run();
            if ended.code == Some(0) {
                break;
            }
            assert_eq!(ended.code, Some(137), "{point}: {ended:?}");
            cut_power(case, &mut chance);
        }
        if !case.db.exists() {
            case.finishes();
        }
        case.holds_everything();
        case.again();
    }
}

#[test]
fn leftovers_of_a_finished_import_are_swept_by_the_same_command_only() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.dies_at("renamed");
    assert!(case.partial().exists());
    case.finishes();
    case.again();

    case.dies_at("renamed");
    let other = Case { snapshot: mixed(), ..case.clone() };
    other.is_refused(&["already exists"]);
    assert!(!case.partial().exists(), "leftovers of a finished import stay");
    case.holds_everything();
    case.is_refused(&["already exists"]);
}

#[test]
fn many_files_that_were_taken_over_are_all_counted_after_a_crash() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Source] {
        for point in ["ingest", "ingested", "recorded"] {
            // RocksDB opens some of the files at once; the resume check must still know the records of all.
            let case =
                Case::new(&place.path(""), plain(), way, From::File).arg(&["--set", "load.ingest.sst_size=128K"]);
            case.dies_at(point);
            let ended = case.finishes();
            let files = ended.number("/levels/0/files");
            assert!(files > 50, "only {files} files: not enough to see anything");
            case.again();
        }
    }
}

#[test]
fn adding_to_a_database_goes_on_too() {
    let place = Place::in_memory();
    let points = ["start", "read-done", "built", "ingesting", "ingest", "ingested", "recorded", "complete"];
    let more = [(Way::Memory, "ingest"), (Way::Memtables, "batch:2"), (Way::Memtables, "read-done")];
    for (way, point) in points.iter().map(|point| (Way::Spill, *point)).chain(more) {
        let old = Case::new(&place.path(""), mixed(), Way::Memory, From::File);
        old.finishes();
        let case = Case::new(&place.path(""), plain(), way, From::File).arg(&["--into-existing"]);
        let died = case.dying_at(point).run();
        assert_eq!(died.code, Some(137), "{point}: {died:?}");
        let ended = case.run();
        assert_eq!(ended.code, Some(0), "{point}: {ended:?}");
        assert_eq!(ended.text("/digest"), plain().digest, "{point}");
        let records = crate::common::model::records(&case.db).len() as u64;
        assert_eq!(records, plain().records + mixed().records, "{way:?}, {point}");
        assert!(!case.partial().exists(), "{point}: something is left of the work");
        case.again();
    }
    // A file that went before RocksDB was asked to take it is missed.
    Case::new(&place.path(""), mixed(), Way::Memory, From::File).finishes();
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::File).arg(&["--into-existing"]);
    assert_eq!(case.dying_at("built").run().code, Some(137));
    std::fs::remove_file(case.partial().join("sst").join(named(&case, "sst"))).expect("removed");
    case.is_refused(&["the unfinished import lacks"]);
}
