//! A resumed import detects damaged, lost or truncated files of the run before. `tests/attack`
//! flips random bits of every file.

use std::path::Path;

use crate::common::crash::*;
use crate::common::database::flip;

type Damage = (&'static str, fn(&Path));

fn flip_middle(path: &Path) {
    flip(path, path.metadata().expect("a file").len() as usize / 2, 4);
}

fn cut(path: &Path, len: usize) {
    std::fs::File::options().write(true).open(path).and_then(|file| file.set_len(len as u64)).expect("cut");
}

#[test]
fn damaged_journal_never_makes_a_wrong_database() {
    let damages: [Damage; 3] = [
        ("a cut in the middle", |path| cut(path, path.metadata().expect("a journal").len() as usize / 2)),
        ("a flipped bit", flip_middle),
        ("a cut in the last line", |path| {
            let text = std::fs::read_to_string(path).expect("a journal");
            cut(path, (text.trim_end().rfind('\n').map_or(0, |at| at + 1) + text.len()) / 2);
        }),
    ];
    let mut resumed = 0;
    let spill = ["read:2", "built:2", "ingested"].map(|point| (Way::Spill, point));
    let memory = ["built:2", "ingest", "complete"].map(|point| (Way::Memory, point));
    for (number, (way, point)) in spill.into_iter().chain(memory).enumerate() {
        let case = Case::of(mixed(), way, From::File);
        for (what, damage) in in_turn(&damages, number) {
            case.dies_at(point);
            damage(&case.partial().join("journal"));
            resumed += u32::from(case.finishes_or_says_why(&format!("{way:?}, {point}: {what}")));
            case.again();
        }
    }
    assert!(resumed > 0, "none resumed by itself");
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
fn damaged_files_of_the_work_are_noticed() {
    let restart = "hint: pass --restart to delete it and start over";
    let damages: [Damage; 3] = [
        ("removed", |path| std::fs::remove_file(path).expect("removed")),
        ("cut", |path| cut(path, 10)),
        ("flipped", flip_middle),
    ];
    for (way, point, dir) in [
        (Way::Spill, "read:3", "spill"),
        (Way::Spill, "read-done", "spill"),
        (Way::Source, "read:3", "spill"),
        (Way::Memory, "built", "sst"),
    ] {
        let case = Case::plain(way);
        case.dies_at(point);
        let (name, kept) = (named(&case, dir), case.path("kept"));
        copy(&case.partial(), &kept);
        for (what, damage) in damages {
            damage(&case.partial().join(dir).join(&name));
            // RocksDB's own checksum finds a block of an SST first.
            let damaged = if dir == "sst" { "Corruption" } else { "that were verified" };
            let words = match what {
                "flipped" => ["the unfinished import is damaged", damaged, "--restart"],
                _ => ["the unfinished import lacks", &name, restart],
            };
            case.fails(4, &format!("{way:?}, {point}: {what}"), &words);
            case.again();
            copy(&kept, &case.partial());
        }
        case.finishes();
    }
    // Files that RocksDB has taken over are read back, too.
    let case = Case::plain(Way::Memory);
    let none = format!("it has 0 of {}", plain().records);
    for (what, words) in [
        ("removed", ["the unfinished import lacks", &none]),
        ("flipped", ["the unfinished import is damaged", "Corruption"]),
    ] {
        case.dies_at("ingested");
        let db = case.partial().join("db");
        if what == "removed" {
            std::fs::remove_dir_all(db).expect("removed");
        } else {
            flip_middle(&crate::common::database::ssts(&db)[0]);
        }
        case.fails(4, what, &words);
        case.clone().arg(&["--restart"]).finishes();
        case.again();
    }
}

#[test]
fn partition_changed_during_import_is_noticed() {
    let case = Case::plain(Way::Spill);
    let flip = || flip_middle(&case.partial().join("spill").join(named(&case, "spill")));
    let words = ["the unfinished import is damaged: partition ", "that were verified", "--restart"];
    case.is_refused_after("read-done", "a flipped bit", &words, flip);
    case.clone().arg(&["--restart"]).finishes();
}

/// The random attack found exit code 3 and a hint at `verify`, which knows no unfinished import.
#[test]
fn file_damaged_before_the_ingest_is_noticed() {
    for (way, point) in [(Way::Memory, "ingesting"), (Way::Spill, "ingesting"), (Way::Memtables, "read-done")] {
        let case = Case::plain(way);
        let words = ["the unfinished import is damaged: ", "Corruption: ", "hint: pass --restart to delete it"];
        let dir = if way == Way::Memtables { "db" } else { "sst" };
        // RocksDB reads the first block of a file that it ingests.
        let damage = || drop(flip(&crate::common::database::ssts(&case.partial().join(dir))[0], 10, 4));
        case.is_refused_after(point, "a flipped bit", &words, damage);
        case.clone().arg(&["--restart"]).finishes();
    }
}

/// The random attack found a changed key in the database: its digest had been computed before RocksDB copied the record.
#[test]
fn partition_changed_at_first_record_is_noticed() {
    let case = Case::plain(Way::Spill).arg(&["--verify", "none"]);
    let flip_first = || {
        let dir = case.partial().join("spill");
        let parts = list(&dir).into_iter().filter(|path| path.extension().is_some_and(|end| end == "part"));
        parts.for_each(|path| drop(flip(&path, 18, 0x20)));
    };
    let words = ["the unfinished import is damaged: partition ", "--restart"];
    case.is_refused_after("file-created", "a flipped bit", &words, flip_first);
    case.clone().arg(&["--restart"]).finishes();
}
