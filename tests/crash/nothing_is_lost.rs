//! An import that is killed at any moment goes on with the same command, to exactly the same records.
//!
//! `BEDLOAD_LONG_TESTS=1 cargo test --release --test crash nothing_is_lost` kills at 200 and more random moments and at
//! every named point of every kind of import instead of a few.

use std::path::Path;
use std::time::Duration;

use crate::common::crash::*;
use crate::common::model::Key;
use crate::common::run::Place;
use rustix::process::{Pid, Signal, kill_process};

/// The named points that every import passes, those of the ingest loader, and those of each way.
const OF_ALL: [&str; 4] = ["start", "recorded", "complete", "renamed"];
const OF_INGEST: [&str; 5] = ["built-synced", "built", "ingesting", "ingest", "ingested"];
const OF_MEMORY: [&str; 1] = ["held"];
const OF_MEMTABLES: [&str; 6] = ["read-synced", "read", "read:3", "read-done", "settled", "checked"];
/// Those of a database that is added to.
const OF_EXISTING: [&str; 3] = ["checkpoint", "opening", "opened"];
const OF_RANGES: [&str; 8] =
    ["range-synced", "range", "range:3", "ranges", "ingesting", "ingest", "ingest:2", "ingested"];
const OF_BATCHES: [&str; 5] = ["range-synced", "range", "range:3", "ranges", "read-done"];
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
        Way::Spill => [&OF_INGEST, &OF_SPILL],
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
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
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
            if (*point == "renamed" && !is_new) || (rounds(0, 1) == 0 && !number.is_multiple_of(20)) {
                continue;
            }
            goes_on_from(&case, point);
        }
    }
}

#[test]
fn the_memtable_loader_goes_on_from_its_last_steps() {
    let place = Place::in_memory();
    for (args, existing) in [(["--key", "digest"], false), (["--verify", "none"], false), (["--key", "cid"], true)] {
        let mut case = Case::new(&place.path(""), plain(), Way::Memtables, From::File).arg(&args);
        case.key = if args[1] == "digest" { Key::Digest } else { Key::Cid };
        case = if existing { case.into_existing(older()) } else { case };
        for point in ["read-done", "settled", "checked", "recorded", "complete"] {
            goes_on_from(&case, point);
        }
    }
}

#[test]
fn killed_at_one_point_after_the_other_it_still_goes_on() {
    let place = Place::in_memory();
    for (way, case) in cases(&place).into_iter().step_by(rounds(5, 1)) {
        let one_after_the_other: &[&str] = match way {
            Way::Memory => &["start", "held", "built-synced", "built", "ingesting", "ingest", "ingested", "complete"],
            Way::Memtables => &["start", "read", "read-synced", "read", "read", "read-done", "recorded", "complete"],
            Way::Ranges => &["start", "range", "range-synced", "range", "ranges", "ingest", "ingested", "complete"],
            Way::Batches => &["start", "range", "range-synced", "range", "ranges", "read-done", "recorded", "complete"],
            Way::Spill => &[
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
    let offset = last["mark"]["offset"].as_u64().expect("a number");
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
    for round in 0..rounds(22, 220) {
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

fn list(dir: &Path) -> Vec<std::path::PathBuf> {
    dir.read_dir().into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
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
fn a_damaged_journal_never_makes_a_wrong_database() {
    let place = Place::in_memory();
    let mut chance = Chance::new();
    let mut went_on = 0;
    for way in [Way::Spill, Way::Memory] {
        let case = Case::new(&place.path(""), mixed(), way, From::File);
        for round in 0..rounds(8, 60) {
            let points: &[&str] =
                if way == Way::Spill { &["read:2", "built:2", "ingested"] } else { &["built:2", "ingest", "complete"] };
            case.dies_at(points[round % points.len()]);
            let path = case.partial().join("journal");
            let mut text = std::fs::read(&path).expect("a journal");
            let at = chance.below(text.len() as u64) as usize;
            match round % 3 {
                0 => text.truncate(at),
                1 => text[at] ^= 1 << chance.below(8),
                _ => {
                    let last = text[..text.len() - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                    text.truncate(last + (text.len() - last) / 2);
                }
            }
            std::fs::write(&path, text).expect("written");
            went_on += u32::from(case.finishes_or_says_why(&format!("{way:?}, round {round}, byte {at}")));
            case.again();
        }
    }
    assert!(went_on > 0, "none went on by itself");
}

/// A file in `dir` that the journal names.
fn named(case: &Case, dir: &str) -> String {
    let lines = case.journal();
    let name = lines.iter().rev().find_map(|line| match dir {
        "spill" => Some(format!("{:05}.part", line["extents"][0][0].as_u64()?)),
        _ => Some(line["files"][0]["name"].as_str()?.to_owned()),
    });
    name.expect("the journal names some")
}

#[test]
fn files_that_are_missing_or_cut_are_noticed() {
    let place = Place::in_memory();
    let spill = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let memory = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    let cut = |path: &Path| {
        let file = std::fs::File::options().write(true).open(path).expect("a file");
        file.set_len(1000).expect("cut");
    };
    for (case, point, dir) in [(&spill, "read:3", "spill"), (&spill, "read-done", "spill"), (&memory, "built", "sst")] {
        for gone in [true, false] {
            case.dies_at(point);
            let path = case.partial().join(dir).join(named(case, dir));
            if gone {
                std::fs::remove_file(&path).expect("removed")
            } else {
                cut(&path)
            }
            let ended = case.run();
            assert_eq!(ended.code, Some(4), "{point}, {gone}: {ended:?}");
            ended.says(&["the unfinished import lacks", path.file_name().expect("a name").to_str().expect("text")]);
            ended.says(&["hint: --restart throws the rest away and starts over"]);
            case.clone().arg(&["--restart"]).finishes();
            case.again();
        }
    }
    // What RocksDB has written is no less a part of the work.
    for (snapshot, way, point) in [(plain(), Way::Memtables, "read:3"), (log(), Way::Batches, "range:3")] {
        let case = Case::new(&place.path(""), snapshot, way, From::File);
        case.dies_at(point);
        std::fs::remove_dir_all(case.partial().join("db")).expect("removed");
        case.is_refused(&["the unfinished import lacks", "db.partial/db", "hint: --restart throws the rest away"]);
        case.clone().arg(&["--restart"]).finishes();
        case.again();
    }
    memory.dies_at("ingested");
    std::fs::remove_dir_all(memory.partial().join("db")).expect("removed");
    memory.is_refused(&["the unfinished import lacks", &format!("it has 0 of {}", plain().records)]);
    memory.clone().arg(&["--restart"]).finishes();
}

/// Flips one bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_flipped_bit_in_the_unfinished_work_is_noticed() {
    let place = Place::in_memory();
    let spill = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let memory = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    for (case, point, dir) in [(&spill, "read:3", "spill"), (&spill, "read-done", "spill"), (&memory, "built", "sst")] {
        case.dies_at(point);
        flip(&case.partial().join(dir).join(named(case, dir)));
        case.is_refused(&["the unfinished import is damaged", "records with the content digest"].map(|words| {
            // RocksDB's own checksum finds a block of an SST first.
            if dir == "sst" && words.starts_with("records") { "Corruption" } else { words }
        }));
        case.clone().arg(&["--restart"]).finishes();
        case.again();
    }
    // Files that RocksDB has taken over are read back, too.
    memory.dies_at("ingested");
    let db = memory.partial().join("db");
    let sst = list(&db).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sst"));
    flip(&sst.expect("an SST"));
    memory.is_refused(&["the unfinished import is damaged", "Corruption"]);
    memory.clone().arg(&["--restart"]).finishes();
}

#[test]
fn a_partition_that_changes_while_the_import_runs_is_noticed() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let ended = case.stopped_at("read-done", || flip(&case.partial().join("spill").join(named(&case, "spill"))));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    ended.says(&["the unfinished import is damaged: partition ", "records with the content digest", "--restart"]);
    case.nothing_under_the_name("a flipped bit");
    case.clone().arg(&["--restart"]).finishes();
}

/// A snapshot of one's own that may be changed, and a case that imports it.
fn own_copy(place: &Place, way: Way) -> (Case, std::path::PathBuf) {
    own_copy_of(plain(), place, way)
}

fn own_copy_of(snapshot: &Snapshot, place: &Place, way: Way) -> (Case, std::path::PathBuf) {
    let path = place.file("own.car", &snapshot.bytes);
    let Snapshot { name, bytes, blocks, digest, read, records, .. } = snapshot;
    let (bytes, blocks, digest) = (bytes.clone(), blocks.clone(), digest.clone());
    let own = Snapshot { name, file: path.clone(), bytes, digest, blocks, read: *read, records: *records };
    let snapshot = Box::leak(Box::new(own));
    (Case::new(&place.path(""), snapshot, way, From::File), path)
}

/// Puts another file in its place, with the same times.
fn replace_and_put_times_back(path: &Path, bytes: &[u8]) {
    let times = path.metadata().expect("a file").modified().expect("a time");
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).expect("written");
    std::fs::File::options().write(true).open(&new).and_then(|file| file.set_modified(times)).expect("set");
    std::fs::rename(&new, path).expect("renamed");
}

/// Changes one byte of a value in the middle and puts size and times back.
fn change_and_put_times_back(path: &Path) {
    let times = path.metadata().expect("a file");
    let mut bytes = std::fs::read(path).expect("a file");
    let at = bytes.len() / 2;
    bytes[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0x55);
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..at + 4], at as u64).expect("written");
    file.set_modified(times.modified().expect("a time")).expect("set");
}

#[test]
fn a_source_that_changes_between_hashing_and_building_is_noticed() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        let (case, path) = own_copy(&place, way);
        let point = if way == Way::Memory { "held" } else { "read-done" };
        let ended = case.stopped_at(point, || change_and_put_times_back(&path));
        assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
        ended.says(&["own.car", "it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a changed source");
        case.again();
    }
}

/// The same snapshot with another block of the same length in place of the hundredth.
fn with_another_block(bytes: &[u8]) -> Vec<u8> {
    let [old, new] = [100, 777_777]
        .map(|seed| crate::common::car::section(&crate::common::car::block(&crate::common::car::noise(seed, 1700))));
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the block");
    [&bytes[..at], &new, &bytes[at + old.len()..]].concat()
}

#[test]
fn a_replaced_source_is_not_resumed_as_the_same() {
    let place = Place::in_memory();
    for (way, point) in
        [(Way::Spill, "read:3"), (Way::Spill, "read-done"), (Way::Memory, "built"), (Way::Memtables, "read:3")]
    {
        let (case, path) = own_copy(&place, way);
        case.dies_at(point);
        // A change in what was taken.
        replace_and_put_times_back(&path, &with_another_block(&case.snapshot.bytes));
        case.is_refused(&[UNFINISHED]);
        // A copy of the same source is the same.
        replace_and_put_times_back(&path, &case.snapshot.bytes);
        case.finishes();
        case.again();
    }
}

const UNFINISHED: &str = "the source is not the one that the unfinished import has read";
const FINISHED: &str = "the source is not the one that the finished import has read";

/// A finished import of which something is left answers `bytes` with a refusal, and its own source with its report.
#[track_caller]
fn answers_for_its_own_source_only(case: &Case, point: &str, bytes: &[u8]) {
    let what = format!("{point} of {} from a {:?}", case.snapshot.name, case.from);
    for is_own in [false, true] {
        replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
        case.put_old();
        let died = case.dying_at(point).run();
        assert_eq!(died.code, Some(137), "{what}: {died:?}");
        if is_own {
            // A copy is the same.
            replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
            case.finishes();
            continue;
        }
        if case.from == From::File {
            replace_and_put_times_back(&case.snapshot.file, bytes);
        }
        let ended = ended(case.start_with(bytes));
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        ended.says(&[FINISHED, "hint: ", "--into-existing"]);
        assert!(!case.partial().exists(), "{what}: leftovers of a finished import stay");
        case.holds_everything();
    }
    case.again();
}

#[test]
fn a_finished_import_that_is_not_swept_answers_for_its_own_source_only() {
    let place = Place::in_memory();
    let more = crate::common::car::section(&crate::common::car::block(b"one more"));
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        for from in [From::File, From::Pipe] {
            let (mut case, _) = own_copy(&place, way);
            (case.from, case.args[3]) = (from, "512MiB".into());
            let bytes = &case.snapshot.bytes;
            answers_for_its_own_source_only(&case, "renamed", &with_another_block(bytes));
            let case = case.into_existing(older());
            answers_for_its_own_source_only(&case, "complete", &with_another_block(&case.snapshot.bytes));
            if from == From::Pipe {
                answers_for_its_own_source_only(&case, "complete", &[&case.snapshot.bytes[..], &more].concat());
            }
        }
    }
    let mut other = log().bytes.clone();
    // In a signature, which nothing in a log depends on.
    let signature = other.len() / 2;
    other[signature] ^= 1;
    for (way, from) in [Way::Ranges, Way::Batches].into_iter().flat_map(|way| [(way, From::File), (way, From::Pipe)]) {
        let case = Case { from, ..own_copy_of(log(), &place, way).0 };
        answers_for_its_own_source_only(&case, "renamed", &other);
    }
}

#[test]
fn a_longer_log_is_not_answered_for_by_what_was_taken_of_a_cut_one() {
    let place = Place::in_memory();
    let whole = &log().bytes;
    for way in [Way::Ranges, Way::Batches] {
        let case = Case::new(&place.path(""), log(), way, From::Pipe).arg(&["--tail", "trim"]);
        let points: &[&str] = if way == Way::Ranges {
            &["ingested", "complete", "renamed"]
        } else {
            &["read-done", "complete", "renamed"]
        };
        for point in points {
            let died = ended(case.dying_at(point).start_with(&whole[..whole.len() * 2 / 3]));
            assert_eq!(died.code, Some(137), "{way:?}, {point}: {died:?}");
            let ended = ended(case.start_with(whole));
            assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
            ended.says(&[if *point == "renamed" { FINISHED } else { UNFINISHED }, "hint: "]);
            case.again();
        }
    }
}

#[test]
fn what_a_longer_pipe_brings_behind_the_end_is_refused_or_imported() {
    let place = Place::in_memory();
    let more = crate::common::car::section(&crate::common::car::block(b"one more"));
    let longer = [&plain().bytes[..], &more].concat();
    for (way, points) in [
        (Way::Spill, &["read-done", "built", "ingested", "complete"][..]),
        (Way::Memory, &["held", "built", "ingested", "complete"]),
        (Way::Memtables, &["read-done", "settled", "complete"]),
    ] {
        for point in points {
            let case = Case::new(&place.path(""), plain(), way, From::Pipe);
            case.dies_at(point);
            let ended = ended(case.start_with(&longer));
            if way == Way::Memtables {
                // It goes on behind what was taken.
                assert_eq!(ended.code, Some(0), "{way:?}, {point}: {ended:?}");
                assert_eq!(ended.number("/blocks/read"), plain().read + 1, "{way:?}, {point}");
                assert_eq!(crate::common::model::records(&case.db).len() as u64, plain().records + 1, "{point}");
            } else {
                assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
                ended.says(&[UNFINISHED, "--restart"]);
                case.finishes();
            }
            case.again();
        }
    }
}

#[test]
fn a_file_on_standard_input_is_compared_like_a_pipe() {
    let place = Place::in_memory();
    let from = |case: &Case, path: &Path| {
        ended(case.command().stdin(std::fs::File::open(path).expect("opened")).spawn().expect("it starts"))
    };
    for (way, point) in [
        (Way::Spill, "read:3"),
        (Way::Spill, "read-done"),
        (Way::Memory, "ingested"),
        (Way::Memtables, "read:3"),
        (Way::Memory, "renamed"),
        (Way::Ranges, "range:3"),
        (Way::Ranges, "renamed"),
    ] {
        let snapshot = if way == Way::Ranges { log() } else { plain() };
        let (case, path) = own_copy_of(snapshot, &place, way);
        let case = Case { from: From::Pipe, ..case };
        let died = from(&case.dying_at(point), &path);
        assert_eq!(died.code, Some(137), "{way:?}, {point}: {died:?}");
        let mut other = snapshot.bytes.clone();
        if way == Way::Ranges {
            other[100_000] ^= 1;
        } else {
            other = with_another_block(&other);
        }
        let ended = from(&case, &place.file("other.car", &other));
        assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
        ended.says(&[if point == "renamed" { FINISHED } else { UNFINISHED }]);
        if point != "renamed" {
            case.has_finished(&from(&case, &path));
        }
        case.again();
    }
}

#[test]
fn a_copy_that_is_read_in_other_pieces_goes_on_behind_the_last_of_them() {
    use crate::common::car::{block, noise, rooted};
    let place = Place::in_memory();
    // The buffer of a block that is longer than a chunk is used again: from then on pieces are as long, and which thread
    // has it is chance. A single reader has it for all the rest, so its last piece reaches the end of the file from far.
    let blocks: Vec<_> = (0..6000).map(|i| block(&noise(i, if i == 0 { 3 << 20 } else { 1000 }))).collect();
    let snapshot = Snapshot::of_blocks("one-large.car", rooted(&blocks), &blocks);
    let (case, path) = own_copy_of(&snapshot, &place, Way::Spill);
    let mut case = case.env("BEDLOAD_DURABLE_BYTES", "1");
    case.args[3] = "24MiB".into();
    case.dies_at("read-done");
    let points = case.journal().iter().filter(|line| line["entry"] == "read").count();
    case.again();
    assert!(points > 2, "only {points} points");
    for point in 1..=points {
        let died = case.dying_at(&format!("read:{point}")).run();
        // How many points there are is chance, too.
        assert!(died.code == Some(137) || point > 2, "{point}: {died:?}");
        if died.code == Some(137) {
            replace_and_put_times_back(&path, &case.snapshot.bytes);
            case.finishes();
        }
        case.again();
    }
}

#[test]
fn a_source_that_is_renamed_over_while_it_is_opened_is_not_known_by_the_name() {
    let place = Place::in_memory();
    for (way, name) in [(Way::Memory, "plain"), (Way::Spill, "plain"), (Way::Memory, "zstd"), (Way::Ranges, "log")] {
        let (case, path) = own_copy_of(if name == "log" { log() } else { plain() }, &place, way);
        let own =
            if name == "zstd" { crate::common::car::zstd(&case.snapshot.bytes) } else { case.snapshot.bytes.clone() };
        let mut other = case.snapshot.bytes.clone();
        if name == "log" {
            other[100_000] ^= 1;
        } else {
            other = with_another_block(&other);
        }
        std::fs::write(&path, &own).expect("written");
        let ended = case.stopped_at("source-opened", || replace_and_put_times_back(&path, &other));
        assert_eq!(ended.code, Some(4), "{way:?}, {name}: {ended:?}");
        ended.says(&["own.car", "it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a replaced source");
        case.again();
        if way != Way::Spill {
            continue;
        }
        replace_and_put_times_back(&path, &own);
        let died = case.dying_at("read:3").stopped_at("source-opened", || replace_and_put_times_back(&path, &other));
        assert_eq!(died.code, Some(137), "{died:?}");
        case.is_refused(&[UNFINISHED]);
        replace_and_put_times_back(&path, &own);
        case.finishes();
        case.again();
    }
}

#[test]
fn a_report_replaces_neither_its_source_nor_an_older_report_before_there_is_one() {
    let place = Place::in_memory();
    let (case, path) = own_copy(&place, Way::Memory);
    let report = |case: &Case, path: &Path| case.clone().arg(&["--report", path.to_str().expect("text")]);
    let link = place.path("link.car");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for name in [&path, &link] {
        let ended = report(&case, name).run();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.says(&["the report would replace the source", "hint: "]);
        assert!(std::fs::read(&path).expect("a file") == case.snapshot.bytes, "the snapshot has changed");
        assert!(!case.db.exists() && !case.partial().exists(), "work has begun");
    }
    let old = place.file("old.json", b"{}");
    std::fs::write(&path, b"no snapshot").expect("written");
    assert_eq!(report(&case, &old).run().code, Some(3));
    assert_eq!(std::fs::read(&old).expect("a file"), b"{}");
    std::fs::write(&path, &case.snapshot.bytes).expect("written");
    assert_eq!(report(&case, &old).dying_at("built").run().code, Some(137));
    assert_eq!(std::fs::read(&old).expect("a file"), b"{}");
    let ended = report(&case, &old).finishes();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&old).expect("a file")).expect("JSON");
    assert_eq!(written, ended.json);
    let left: Vec<_> =
        list(&place.path("")).into_iter().filter(|path| path.to_string_lossy().contains(".bedload-")).collect();
    assert_eq!(left, [] as [std::path::PathBuf; 0], "files are left");
}

#[test]
fn a_killed_generate_leaves_no_file() {
    let place = Place::in_memory();
    let out = place.path("out.car");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bedload"));
    command.arg("generate").arg(&out).args(["--size", "2GiB", "--progress", "off"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("a child").is_none(), "it has ended");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert_eq!(list(&place.path("")), [] as [std::path::PathBuf; 0], "a file is left");
}

#[test]
fn another_source_is_refused_and_both_sides_are_named() {
    let place = Place::in_memory();
    let file = place.file("s.car", &plain().bytes);
    let mut case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    // As a file of its own that can be changed.
    case.args.insert(0, file.clone().into());
    let import = |case: &Case| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bedload"));
        command.arg("import").args(&case.args).arg("--db").arg(&case.db).args(["--json", "--progress", "off"]);
        command.envs(case.env.iter().cloned());
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        ended(command.stderr(std::process::Stdio::piped()).spawn().expect("it starts"))
    };
    assert_eq!(import(&case.dying_at("read:2")).code, Some(137));
    let modified = file.metadata().expect("there").modified().expect("a time");
    let set_time = |time| std::fs::File::options().write(true).open(&file).expect("opened").set_modified(time);
    let refused = |what: &str, text: &[&str]| {
        let ended = import(&case);
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        ended.says(&["an unfinished import of something else lies here", "--restart"]);
        ended.says(text);
        std::fs::write(&file, &plain().bytes).expect("written");
        set_time(modified).expect("set");
    };
    let len = plain().bytes.len();

    let mut longer = plain().bytes.clone();
    longer.extend(crate::common::car::section(&crate::common::car::block(b"one more")));
    std::fs::write(&file, &longer).expect("written");
    refused("size", &[&format!("source file bytes was {len}, is {}", longer.len())]);
    set_time(modified - Duration::from_secs(2)).expect("set");
    refused("time", &["source file modified seconds was "]);
    let changed_at = |at: usize| {
        let mut bytes = plain().bytes.clone();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).expect("written");
        set_time(modified).expect("set");
    };
    changed_at(5000);
    refused("head", &["source file head was "]);
    changed_at(len - 5);
    refused("tail", &["source file tail was "]);

    // As it was it goes on.
    let ended = import(&case);
    case.has_finished(&ended);
}

#[test]
fn another_way_of_importing_is_refused_and_both_sides_are_named() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.dies_at("read:2");
    let with = |args: &[&str]| case.clone().arg(args);
    with(&["--preset", "ingest-small"]).is_refused(&["preset was ingest, is ingest-small", "--restart"]);
    with(&["--set", "node.table.block_size=32K"]).is_refused(&["settings was "]);
    with(&["--key", "digest"]).is_refused(&["key was cid, is digest"]);
    with(&["--column-family", "other"]).is_refused(&["column family was default, is other"]);
    with(&["--verify", "none"]).is_refused(&["verify was true, is false"]);
    with(&["--null-padding", "eof"]).is_refused(&["null padding was error, is eof"]);
    with(&["--work-dir", place.path("elsewhere").to_str().expect("text")]).is_refused(&["work dir was nothing, is "]);
    let mut other = case.clone();
    other.args = ["--plan", "spill", "--memory", "512MiB"].iter().map(Into::into).collect();
    other.is_refused(&["partition bits was 2, is "]);
    other.args[1] = "memory".into();
    other.is_refused(&["spill was true, is false"]);

    case.edit_journal(|line| {
        if line["entry"] == "start" {
            line["identity"]["tool"] = "0.0.1".into();
        }
    });
    case.is_refused(&[&format!("tool was 0.0.1, is {}", env!("CARGO_PKG_VERSION"))]);
    assert!(case.partial().join("spill").exists(), "a refusal must not touch anything");
    with(&["--restart"]).finishes();
}

#[test]
fn a_journal_of_another_version_is_refused_and_left_as_it_is() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.dies_at("read:2");
    let refused = "another version of bedload began the unfinished import: its journal has the form 0, this program \
                   reads the form 1";
    // The form that named no version; and one whose other lines are unknown as well.
    let forms: [fn(&mut serde_json::Value); 2] = [
        |line| {
            line.as_object_mut().expect("an entry").remove("version");
        },
        |line| line["identity"] = "known to another program".into(),
    ];
    for form in forms {
        case.edit_journal(|line| {
            if line["entry"] == "start" {
                form(line);
            }
        });
        let journal = std::fs::read(case.partial().join("journal")).expect("a journal");
        case.is_refused(&[refused, "--restart"]);
        assert_eq!(std::fs::read(case.partial().join("journal")).expect("a journal"), journal);
        assert!(case.partial().join("spill").exists(), "a refusal must not touch anything");
    }
    case.arg(&["--restart"]).finishes();
}

#[test]
fn restart_removes_what_another_work_directory_holds() {
    let place = Place::in_memory();
    let work = place.path("work");
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.clone().arg(&["--work-dir", work.to_str().expect("text")]).dies_at("read:2");
    assert_eq!(list(&work).len(), 1);
    case.clone().arg(&["--restart"]).finishes();
    assert_eq!(list(&work).len(), 0, "partitions are left in the old work directory");
}

#[test]
fn two_databases_of_one_name_share_a_work_directory() {
    let place = Place::in_memory();
    let work = place.path("work");
    let [one, two] = [(plain(), "one"), (mixed(), "two")].map(|(snapshot, name)| {
        let dir = place.path(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        Case::new(&dir, snapshot, Way::Spill, From::File).arg(&["--work-dir", work.to_str().expect("text")])
    });
    one.dies_at("read:3");
    two.dies_at("read-done");
    one.finishes();
    two.finishes();
    assert_eq!(list(&work).len(), 0, "partitions are left");
}

#[test]
fn a_pipe_that_brings_something_else_is_refused() {
    let place = Place::in_memory();
    let mut other = plain().bytes.clone();
    other[1 << 20] ^= 1;
    let mut other_roots = crate::common::car::header(&[]);
    let blocks_at =
        crate::common::car::header(&[crate::common::car::block(&crate::common::car::noise(0, 200)).0]).len();
    other_roots.extend(&plain().bytes[blocks_at..]);
    let short = &plain().bytes[..1 << 20];
    for (way, point) in [
        (Way::Spill, "read:3"),
        (Way::Spill, "read-done"),
        (Way::Spill, "built:2"),
        (Way::Spill, "ingested"),
        (Way::Memory, "ingested"),
        (Way::Memtables, "read:2"),
        (Way::Memtables, "read-done"),
    ] {
        let case = Case::new(&place.path(""), plain(), way, From::Pipe);
        case.dies_at(point);
        for (bytes, words) in [
            (&other[..], "the source is not the one that the unfinished import has read"),
            (short, "the source is not the one that the unfinished import has read"),
            (&other_roots, "source header was "),
        ] {
            let ended = ended(case.start_with(bytes));
            assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
            ended.says(&[words, "--restart"]);
        }
        case.finishes();
        case.again();
    }
    // In memory everything is read and checked again; another whole snapshot must still not be mixed in.
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::Pipe);
    case.dies_at("built");
    let blocks: Vec<_> = (0..9000).map(|i| crate::common::car::block(&crate::common::car::noise(i, 900))).collect();
    let root = crate::common::car::block(&crate::common::car::noise(0, 200)).0;
    let ended = ended(case.start_with(&crate::common::car::car(&[root], &blocks)));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    case.finishes();
}

#[test]
fn a_second_import_into_the_same_place_is_refused_while_the_first_lives() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    let (mut first, stdin) = case.start_stalled(&plain().bytes[..3 << 20]);
    wait_for(|| case.partial().join("journal").exists());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    case.is_refused(&["another import is working on it", &format!("process {} on {host}", first.id())]);
    case.clone().arg(&["--restart"]).is_refused(&["another import is working on it"]);
    first.kill().expect("killed");
    drop(stdin);
    assert_eq!(ended(first).signal, Some(9));
    // Its lock is still there, and nobody's.
    assert!(case.partial().join("lock").exists());
    case.finishes();
}

#[track_caller]
fn wait_for(what: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tell(child: &std::process::Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

#[test]
fn the_first_signal_stops_within_two_seconds_and_the_same_command_goes_on() {
    let place = Place::in_memory();
    for (way, from, signal) in [
        (Way::Spill, From::Pipe, Signal::INT),
        (Way::Spill, From::File, Signal::TERM),
        (Way::Memory, From::Pipe, Signal::TERM),
        (Way::Memory, From::File, Signal::INT),
        (Way::Memtables, From::File, Signal::INT),
        (Way::Memtables, From::Pipe, Signal::INT),
        (Way::Ranges, From::Pipe, Signal::INT),
        (Way::Ranges, From::File, Signal::TERM),
        (Way::Batches, From::File, Signal::INT),
        (Way::Batches, From::Pipe, Signal::TERM),
    ] {
        let snapshot = if matches!(way, Way::Ranges | Way::Batches) { log() } else { plain() };
        let case = Case::new(&place.path(""), snapshot, way, from);
        // A pipe that brings nothing more is the longest wait there is.
        let (child, stdin) = match from {
            From::Pipe => {
                let (child, stdin) = case.start_stalled(&snapshot.bytes[..3 << 20]);
                (child, Some(stdin))
            }
            From::File => (case.start(), None),
        };
        wait_for(|| case.partial().join("journal").exists() || case.db.exists());
        tell(&child, signal);
        let ended = ended(child);
        drop(stdin);
        assert!(ended.took < Duration::from_millis(2500), "{way:?} {from:?}: {:?}", ended.took);
        if ended.code == Some(0) && from == From::File {
            // It was done before it heard.
            case.has_finished(&ended);
        } else {
            assert_eq!(ended.code, Some(130), "{way:?} {from:?}: {ended:?}");
            ended.says(&["error: interrupted\n", "hint: run the same command again to go on from here\n"]);
            case.nothing_under_the_name("a signal");
            case.finishes();
        }
        case.again();
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    let (child, stdin) = case.start_stalled(&plain().bytes[..3 << 20]);
    wait_for(|| case.partial().join("journal").exists());
    tell(&child, Signal::INT);
    // Two signals at the same time are one.
    std::thread::sleep(Duration::from_millis(300));
    tell(&child, Signal::INT);
    let ended = ended(child);
    drop(stdin);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.took < Duration::from_secs(1), "{:?}", ended.took);
    case.finishes();
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
    for way in [Way::Memory, Way::Spill] {
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
    let more = [(Way::Memory, "ingest"), (Way::Memtables, "read:2"), (Way::Memtables, "read-done")];
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
