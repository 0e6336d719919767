//! Several sources: an import resumes in the one where it stopped, and names the one that is not what it was.

use std::path::Path;

use super::changed_sources::replace_and_put_times_back;
use crate::common::car::*;
use crate::common::crash::*;
use crate::common::model::{Key, Model};

const WAYS: [Way; 4] = [Way::Memory, Way::Spill, Way::Source, Way::Memtables];

/// Plain CARs in a folder of one's own, and a case that imports it.
fn own_folder(way: Way) -> Case {
    let case = Case::plain(way);
    let dir = case.folder("cars");
    for (number, blocks) in shares().iter().enumerate() {
        std::fs::write(dir.join(format!("{number}.car")), rooted(blocks)).expect("room");
    }
    let blocks = shares().concat();
    let all = Snapshot::new("all.car", Vec::new(), &Model::new(&blocks, Key::Cid));
    Case { snapshot: Snapshot { file: dir, blocks, ..all }.leaked(), ..case }
}

/// Blocks, duplicates and roots of each source.
fn rows(ended: &Ended) -> Vec<[u64; 3]> {
    let number = |row: &serde_json::Value, field: &str| row["blocks"][field].as_u64().expect("a number");
    let roots = |row: &serde_json::Value| row["roots"].as_array().expect("a list").len() as u64;
    let rows = ended.json["sources"].as_array().expect("rows").iter();
    rows.map(|row| [number(row, "read"), number(row, "duplicate"), roots(row)]).collect()
}

#[test]
fn killed_import_reports_the_same_rows() {
    let expected = rows(&own_folder(Way::Memory).finishes());
    for way in WAYS {
        let points: &[&str] = match way {
            Way::Memory => &["held", "built", "ingested"],
            Way::Spill | Way::Source => &["read", "read-synced:3", "read-done", "built:2", "ingested"],
            _ => &["batch", "batch:3", "read-done", "compacted", "checked"],
        };
        let case = own_folder(way);
        for (point, ended) in case.resumes_from_each(points, || {}) {
            assert!(ended.code != Some(0) || rows(&ended) == expected, "{way:?} after {point}: {ended:?}");
        }
    }
}

/// The message for a change to a folder of sources, and the change.
type Change<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn changed_source_among_several_is_named() {
    let write =
        |dir: &Path, name: &str, share: usize| std::fs::write(dir.join(name), rooted(&shares()[share])).expect("room");
    let changes: [Change<'_>; 4] = [
        ("source 1 was", &|dir| write(dir, "0.car", 2)),
        ("source 2 was", &|dir| std::fs::remove_file(dir.join("1.car")).expect("removed")),
        ("source 6 was nothing, is now", &|dir| write(dir, "7.car", 3)),
        ("source 1 was", &|dir| std::fs::rename(dir.join("0.car"), dir.join("8.car")).expect("renamed")),
    ];
    for way in WAYS {
        let point = match way {
            Way::Memory => "held",
            Way::Memtables => "batch:2",
            _ => "read:3",
        };
        let case = own_folder(way);
        let (dir, kept) = (&case.snapshot.file, case.path("kept"));
        copy(dir, &kept);
        case.dies_at(point);
        for (words, change) in changes {
            change(dir);
            let what = format!("{way:?}, {words}");
            case.fails(4, &what, &["contains a different unfinished import", words]);
            std::fs::remove_dir_all(dir).expect("removed");
            copy(&kept, dir);
        }
        // While a different source is read.
        let other = own_folder(way);
        let words = ["4.car", "it changed while it was being read"];
        other
            .is_refused_after("source-opened", &format!("{way:?}"), &words, || write(&other.snapshot.file, "4.car", 2));
        if way == Way::Memtables {
            // It starts over with any value.
            continue;
        }
        // A value of a source that was read to its end, with size and times as they were.
        let path = case.snapshot.file.join("0.car");
        let mut blocks = shares()[0].clone();
        let middle = blocks.len() / 2;
        blocks[middle] = block(&noise(77, blocks[middle].1.len()));
        replace_and_put_times_back(&path, &rooted(&blocks));
        case.is_refused(&["0.car", "is not the one that the unfinished import has read"]);
        // A copy of what it was is the same.
        replace_and_put_times_back(&path, &rooted(&shares()[0]));
        case.finishes();
    }
}

#[test]
fn changed_pipe_among_sources_is_refused() {
    let folder = own_folder(Way::Spill);
    let file = |name| folder.snapshot.file.join(name);
    let first = Snapshot { file: file("0.car"), ..folder.snapshot.clone() }.leaked();
    // A file, the pipe, and another file.
    let case = Case { snapshot: first, ..folder.clone() }.arg(&["-", file("4.car").to_str().expect("text")]);
    let pipe = rooted(&shares()[2]);
    let killed = ended(case.dying_at("read:3").start_fed(&pipe));
    assert_eq!(killed.code, Some(137), "{killed:?}");
    ended(case.start_fed(&rooted(&shares()[0]))).failed(4, "another pipe", &["the source - is not the one"]);
    let done = ended(case.start_fed(&pipe));
    assert_eq!(done.code, Some(0), "{done:?}");
    case.holds_everything();
}
