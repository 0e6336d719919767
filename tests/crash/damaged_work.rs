//! What lay on the disk between two runs, and was damaged, lost or cut, is noticed by the run that goes on.

use std::path::Path;

use crate::common::crash::*;
use crate::common::database::flip;
use crate::common::run::Place;

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
pub fn named(case: &Case, dir: &str) -> String {
    let lines = case.journal();
    let name = lines.iter().rev().find_map(|line| match dir {
        "spill" => {
            let kind = if case.args.contains(&"source".into()) { "refs" } else { "part" };
            Some(format!("{:05}.{kind}", line["extents"][0][0].as_u64()?))
        }
        _ => Some(line["files"][0]["name"].as_str()?.to_owned()),
    });
    name.expect("the journal names some")
}

#[test]
fn files_that_are_missing_or_cut_are_noticed() {
    let place = Place::in_memory();
    let spill = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let source = Case::new(&place.path(""), plain(), Way::Source, From::File);
    let memory = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    let cut = |path: &Path| {
        let file = std::fs::File::options().write(true).open(path).expect("a file");
        file.set_len(10).expect("cut");
    };
    for (case, point, dir) in [
        (&spill, "read:3", "spill"),
        (&spill, "read-done", "spill"),
        (&source, "read:3", "spill"),
        (&memory, "built", "sst"),
    ] {
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
            ended.says(&["hint: pass --restart to delete it and start over"]);
            case.clone().arg(&["--restart"]).finishes();
            case.again();
        }
    }
    memory.dies_at("ingested");
    std::fs::remove_dir_all(memory.partial().join("db")).expect("removed");
    memory.is_refused(&["the unfinished import lacks", &format!("it has 0 of {}", plain().records)]);
    memory.clone().arg(&["--restart"]).finishes();
}

fn flip_middle(path: &Path) {
    flip(path, path.metadata().expect("a file").len() as usize / 2, 4);
}

#[test]
fn a_flipped_bit_in_the_unfinished_work_is_noticed() {
    let place = Place::in_memory();
    let spill = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let source = Case::new(&place.path(""), plain(), Way::Source, From::File);
    let memory = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    for (case, point, dir) in [
        (&spill, "read:3", "spill"),
        (&spill, "read-done", "spill"),
        (&source, "read:3", "spill"),
        (&memory, "built", "sst"),
    ] {
        case.dies_at(point);
        flip_middle(&case.partial().join(dir).join(named(case, dir)));
        case.is_refused(&["the unfinished import is damaged", "that were verified"].map(|words| {
            // RocksDB's own checksum finds a block of an SST first.
            if dir == "sst" && words.starts_with("that") { "Corruption" } else { words }
        }));
        case.clone().arg(&["--restart"]).finishes();
        case.again();
    }
    // Files that RocksDB has taken over are read back, too.
    memory.dies_at("ingested");
    let db = memory.partial().join("db");
    let sst = list(&db).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sst"));
    flip_middle(&sst.expect("an SST"));
    memory.is_refused(&["the unfinished import is damaged", "Corruption"]);
    memory.clone().arg(&["--restart"]).finishes();
}

#[test]
fn a_partition_that_changes_while_the_import_runs_is_noticed() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    let ended = case.stopped_at("read-done", || flip_middle(&case.partial().join("spill").join(named(&case, "spill"))));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    ended.says(&["the unfinished import is damaged: partition ", "that were verified", "--restart"]);
    case.nothing_under_the_name("a flipped bit");
    case.clone().arg(&["--restart"]).finishes();
}
