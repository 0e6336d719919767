//! Several sources: an import goes on in the one where it stopped, and names the one that is not what it was.

use std::path::PathBuf;
use std::process::Stdio;

use crate::common::car::*;
use crate::common::crash::*;
use crate::common::run::Place;

/// Plain CARs in a folder of one's own, and a case that imports it.
fn own_folder(place: &Place, way: Way) -> (Case, PathBuf) {
    let dir = place.path("cars");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("ours");
    }
    std::fs::create_dir(&dir).expect("a folder");
    let shares = shares();
    for (number, blocks) in shares.iter().enumerate() {
        std::fs::write(dir.join(format!("{number}.car")), rooted(blocks)).expect("room");
    }
    let model = crate::common::model::Model::new(&shares.concat(), crate::common::model::Key::Cid);
    let own = Snapshot {
        name: "own folder",
        file: dir.clone(),
        bytes: Vec::new(),
        blocks: shares.concat(),
        digest: model.digest(),
        read: model.read,
        records: model.records.len() as u64,
    };
    (Case::new(&place.path(""), Box::leak(Box::new(own)), way, From::File), dir)
}

/// The rows of an import that was not stopped.
fn rows(ended: &Ended) -> Vec<(u64, u64, u64)> {
    let number = |row: &serde_json::Value, field: &str| row["blocks"][field].as_u64().expect("a number");
    let roots = |row: &serde_json::Value| row["roots"].as_array().expect("a list").len() as u64;
    let rows = ended.json["sources"].as_array().expect("rows").iter();
    rows.map(|row| (number(row, "read"), number(row, "duplicate"), roots(row))).collect()
}

#[test]
fn wherever_it_was_killed_the_rows_are_those_of_an_import_that_was_not() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        let (case, _) = own_folder(&place, way);
        let expected = rows(&case.finishes());
        case.again();
        let points: &[&str] = match way {
            Way::Memory => &["held", "built", "ingested"],
            Way::Spill | Way::Source => &["read", "read-synced:3", "read:4", "read-done", "built:2", "ingested"],
            _ => &["batch", "batch:3", "read-done", "compacted", "checked"],
        };
        for point in points {
            case.dies_at(point);
            assert_eq!(rows(&case.finishes()), expected, "{way:?} after {point}");
            case.again();
        }
        // Twice.
        if way != Way::Memory {
            let point = if way == Way::Memtables { "batch:2" } else { "read:2" };
            case.dies_at(point);
            case.dies_at(point);
            assert_eq!(rows(&case.finishes()), expected, "{way:?}");
            case.again();
        }
    }
}

/// What is done to a folder of sources, and what is said of it.
type Change<'a> = (&'a dyn Fn(&std::path::Path), &'a str);

#[test]
fn a_source_that_is_another_one_is_named() {
    let place = Place::in_memory();
    for way in [Way::Spill, Way::Source, Way::Memtables, Way::Memory] {
        let point = match way {
            Way::Memory => "held",
            Way::Memtables => "batch:2",
            _ => "read:3",
        };
        let changes: [Change<'_>; 4] = [
            (&|dir| std::fs::write(dir.join("0.car"), rooted(&shares()[2])).expect("written"), "source 1 was"),
            (&|dir| std::fs::remove_file(dir.join("1.car")).expect("removed"), "source 2 was"),
            (
                &|dir| std::fs::write(dir.join("7.car"), rooted(&shares()[3])).expect("written"),
                "source 6 was nothing, is",
            ),
            (&|dir| std::fs::rename(dir.join("0.car"), dir.join("8.car")).expect("renamed"), "source 1 was"),
        ];
        for (change, words) in changes {
            let (case, dir) = own_folder(&place, way);
            case.dies_at(point);
            change(&dir);
            case.is_refused(&["holds an unfinished import of something else", words]);
            case.again();
        }
        if way == Way::Memtables {
            // It starts over with any value.
            continue;
        }
        // A value of a source that was read to its end, with size and times as they were.
        let (case, dir) = own_folder(&place, way);
        case.dies_at(point);
        let path = dir.join("0.car");
        let times = path.metadata().expect("there").modified().expect("a time");
        let mut blocks = shares()[0].clone();
        let middle = blocks.len() / 2;
        blocks[middle] = block(&noise(77, blocks[middle].1.len()));
        std::fs::write(&path, car(&[shares()[0][0].0.clone()], &blocks)).expect("written");
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(times)).expect("set");
        case.is_refused(&["0.car", "is not the one that the unfinished import has read"]);
        // A copy of what it was is the same.
        std::fs::write(&path, rooted(&shares()[0])).expect("written");
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(times)).expect("set");
        case.finishes();
        case.again();
    }
}

#[test]
fn a_source_that_changes_while_another_is_read_is_named() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        let (case, dir) = own_folder(&place, way);
        let ended = case.stopped_at("source-opened", || {
            std::fs::write(dir.join("4.car"), rooted(&shares()[2])).expect("written");
        });
        assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
        ended.says(&["4.car", "it changed while it was being read"]);
        case.again();
    }
}

#[test]
fn a_pipe_among_the_sources_is_compared_with_what_it_brought() {
    let place = Place::in_memory();
    let shares = shares();
    let files: Vec<PathBuf> =
        [0, 2, 4].iter().map(|&at| place.file(&format!("{at}.car"), &rooted(&shares[at]))).collect();
    let (case, _) = own_folder(&place, Way::Spill);
    let start = |case: &Case, bytes: &[u8]| {
        let mut command = crate::common::run::bedload();
        command.arg("import").arg(&files[0]).arg("-").arg(&files[2]).arg("--db").arg(&case.db);
        command.args(["--json", "--progress", "off", "--threads", "2"]).args(&case.args);
        command.envs(case.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (mut stdin, bytes) = (child.stdin.take().expect("a pipe"), bytes.to_vec());
        std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &bytes));
        ended(child)
    };
    let pipe = rooted(&shares[2]);
    let killed = start(&case.dying_at("read:3"), &pipe);
    assert_eq!(killed.code, Some(137), "{killed:?}");
    let other = start(&case, &rooted(&shares[0]));
    assert_eq!(other.code, Some(4), "{other:?}");
    other.says(&["the source - is not the one"]);
    let done = start(&case, &pipe);
    assert_eq!(done.code, Some(0), "{done:?}");
    case.holds_everything();
    case.again();
}
