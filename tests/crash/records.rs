//! Imports of records that are killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;

use super::changed_sources::overwrite;
use crate::common::crash::is_long;
use crate::common::database::json;
use crate::common::fault;
use crate::common::process::{ended, send, stops};
use crate::common::run::Place;
use crate::import::rebuild::records;
use crate::import::records::{Item, dump, import, kv};

/// The outcome of an import that is killed before this change below `inside`.
fn killed(source: &Path, db: &Path, more: &[&str], change: u32, inside: &str) -> Option<std::process::Output> {
    let library = fault::library()?;
    let mut command = crate::common::run::bedload();
    command.args(["import", "--quiet", "--progress", "off", "--db"]).arg(db).arg(source).args(more);
    Some(
        command
            .env("LD_PRELOAD", library)
            .env("BEDLOAD_FAULT", format!("change:{change}:0:{inside}"))
            .output()
            .expect("it runs"),
    )
}

/// The options of open files in the latest OPTIONS file: while an import runs they are others.
fn open_files(db: &Path) -> Vec<String> {
    let paths = db.read_dir().expect("listed").map(|entry| entry.expect("an entry").path());
    let is_options = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().starts_with("OPTIONS-");
    let text = std::fs::read_to_string(paths.filter(is_options).max().expect("one")).expect("text");
    let is_theirs = |line: &&str| line.contains("max_open_files=") || line.contains("table_cache_numshardbits=");
    text.lines().filter(is_theirs).map(str::to_owned).collect()
}

/// Also if the budget of the next run is another one: then records that were in memory are in runs, or the other way round.
#[test]
fn killed_import_of_records_resumes() {
    let place = Place::in_memory();
    let key = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let mut keys: Vec<[u8; 4]> = (0..60_000).map(key).collect();
    for sorted in [false, true] {
        if sorted {
            keys.sort_unstable();
        }
        let value = [7; 300];
        let items: Vec<Item<'_>> =
            keys.iter().enumerate().map(|(at, key)| (at / 40_000, &key[..], &value[..usize::from(key[0])])).collect();
        let source = place.file("a.kv", &kv(&["default", "b"], sorted, &items));
        let (db, whole, inside) = (place.path("db"), place.path("whole"), place.path("db").display().to_string());
        import(&[&source], &whole).assert().success();
        let (expected, of_node) = (records(&whole), open_files(&whole));
        assert!(!of_node.iter().any(|line| line.ends_with("=20") || line.ends_with("=0")), "{of_node:?}");
        std::fs::remove_dir_all(&whole).expect("removed");
        for budgets in [["16MiB", "16MiB"], ["1GiB", "16MiB"], ["16MiB", "1GiB"], ["1GiB", "1GiB"]] {
            let [first, second] = budgets.map(|memory| ["--memory", memory, "--threads", "2"]);
            let (mut change, step) = (1, if is_long() { 1 } else { 97 });
            loop {
                let Some(output) = killed(&source, &db, &first, change, &inside) else { return };
                if output.status.success() {
                    break;
                }
                if !db.exists() || db.with_added_extension("partial").exists() {
                    let again = import(&[&source], &db).args(second).output().expect("it runs");
                    let text = String::from_utf8_lossy(&again.stderr).into_owned();
                    assert!(again.status.success(), "{budgets:?}, killed at change {change}: {text}");
                }
                assert_eq!(records(&db), expected, "{budgets:?}, killed at change {change}");
                assert_eq!(open_files(&db), of_node, "{budgets:?}, killed at change {change}");
                json(&["verify"], &db, &[], 0);
                std::fs::remove_dir_all(&db).expect("removed");
                change += step;
            }
            assert!(change > 30, "only {change} changes");
            std::fs::remove_dir_all(&db).expect("removed");
        }
    }
}

/// A dump has no checksum, so what was read is compared.
#[test]
fn dump_whose_beginning_has_changed_is_refused() {
    let place = Place::in_memory();
    let keys: Vec<[u8; 4]> = (0..40_000u32).map(u32::to_be_bytes).collect();
    let of = |byte: u8| {
        let value = move |at: usize| if (4000..5000).contains(&at) { [byte; 600] } else { [7; 600] };
        let values: Vec<[u8; 600]> = (0..keys.len()).map(value).collect();
        dump(keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..])))
    };
    let (source, db) = (place.file("a.dump", of(1).as_bytes()), place.path("db"));
    let modified = std::fs::metadata(&source).and_then(|there| there.modified()).expect("a time");
    let again = || {
        let mut command = import(&[&source], &db);
        command.args(["--memory", "16MiB", "--threads", "1"]);
        command
    };
    again().env("BEDLOAD_ABORT_AT", "run").assert().failure();
    std::fs::write(&source, of(2)).expect("written");
    let file = std::fs::File::options().write(true).open(&source).expect("opened");
    file.set_modified(modified).expect("a time");
    let words = predicates::str::contains("it has changed since the import began");
    again().assert().code(3).stderr(words);
    std::fs::write(&source, of(1)).expect("written");
    file.set_modified(modified).expect("a time");
    again().assert().success();
    assert_eq!(records(&db)["default"].len(), keys.len());
}

/// Plain files are mapped, so a change while they are read may look like many other faults.
#[test]
fn truncated_or_overwritten_stream_is_an_error() {
    let place = Place::in_memory();
    let keys: Vec<[u8; 8]> = (0..40_000u64).map(u64::to_be_bytes).collect();
    let items: Vec<Item<'_>> = keys.iter().rev().map(|key| (0, &key[..], &[7; 600][..])).collect();
    let ascending: Vec<Item<'_>> = items.iter().rev().copied().collect();
    let (source, db) = (place.path("a.kv"), place.path("db"));
    for (sorted, memory, point) in [
        (false, "1GiB", "start"),
        (false, "1GiB", "file-created"),
        (false, "1GiB", "built"),
        (false, "16MiB", "file-created"),
        (false, "16MiB", "run"),
        (true, "1GiB", "file-created"),
        (true, "16MiB", "run"),
    ] {
        for is_cut in [true, false] {
            let bytes = kv(&["default"], sorted, if sorted { &ascending } else { &items });
            std::fs::write(&source, &bytes).expect("written");
            let mut command = crate::common::run::bedload();
            command.args(["import", "--quiet", "--memory", memory, "--db"]).arg(&db).arg(&source);
            let child = command.env("BEDLOAD_STOP_AT", point).stderr(Stdio::piped()).spawn().expect("it runs");
            assert!(stops(&child), "it ended before {point}");
            if is_cut {
                let file = std::fs::File::options().write(true).open(&source).expect("opened");
                file.set_len(100_000).expect("cut");
            } else {
                (0..50).for_each(|at| overwrite(&source, at * 400_000 + 4096, &[0; 4096]));
            }
            send(&child, Signal::CONT);
            let ended = ended(child);
            let what = format!("{sorted} {memory} {point} {is_cut}");
            ended.failed(4, &what, &["it changed while it was being read", "--restart"]);
            assert!(!db.exists(), "{what}");
            std::fs::remove_dir_all(db.with_added_extension("partial")).expect("removed");
        }
    }
}

/// A store through a shared map leaves the times of a file in memory as they were, so only the records show the change.
#[test]
fn change_without_a_new_time_is_an_error() {
    let place = Place::in_memory();
    // Only values have bytes of 7.
    let keys: Vec<String> = (0..40_000).map(|number| format!("{number:08}")).collect();
    let ascending: Vec<Item<'_>> = keys.iter().map(|key| (0, key.as_bytes(), &[7; 600][..])).collect();
    let descending: Vec<Item<'_>> = ascending.iter().rev().copied().collect();
    let (source, db) = (place.path("a.kv"), place.path("db"));
    let mut outcomes = Vec::new();
    for (sorted, memory) in [(false, "1GiB"), (false, "16MiB"), (true, "1GiB"), (true, "16MiB")] {
        let bytes = kv(&["default"], sorted, if sorted { &ascending } else { &descending });
        for number in 1.. {
            std::fs::write(&source, &bytes).expect("written");
            let mut command = crate::common::run::bedload();
            command.args(["import", "--quiet", "--threads", "1", "--memory", memory, "--db"]).arg(&db).arg(&source);
            let point = format!("file-created:{number}");
            command.env("BEDLOAD_STOP_AT", point).stdout(Stdio::null()).stderr(Stdio::piped());
            let child = command.spawn().expect("it runs");
            if !stops(&child) {
                ended(child).failed(0, "unchanged", &[]);
                std::fs::remove_dir_all(&db).expect("removed");
                break;
            }
            let file = std::fs::File::options().read(true).write(true).open(&source).expect("opened");
            // SAFETY: this test alone changes the file, and no reference to the map outlives the statement.
            let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.expect("mapped");
            // The ends of the file are compared with what was read.
            let inner = 64 << 10..map.len() - (64 << 10);
            map[inner]
                .chunks_mut(600)
                .flat_map(|part| part.iter_mut().find(|byte| **byte == 7))
                .for_each(|byte| *byte = 8);
            send(&child, Signal::CONT);
            let (what, ended) = (format!("{sorted} {memory} {number}"), ended(child));
            outcomes.push((sorted, memory, ended.code));
            if ended.code == Some(0) {
                assert!(records(&db)["default"].values().all(|value| value.iter().all(|byte| *byte == 7)), "{what}");
                std::fs::remove_dir_all(&db).expect("removed");
                break;
            }
            // Sorted records are read and written at the same time, so the reader may be the first to notice.
            if sorted && ended.code == Some(3) {
                ended.failed(3, &what, &["its CRC-32 is", "check whether the file was changed"]);
            } else {
                ended.failed(4, &what, &["its records are not what they were", "--restart"]);
            }
            assert!(!db.exists(), "{what}");
            // Bad input leaves nothing if nothing was durable.
            let _ = std::fs::remove_dir_all(db.with_added_extension("partial"));
        }
    }
    // Once all records are in runs, the source does not matter.
    let done: Vec<_> = outcomes.iter().filter(|(.., code)| *code == Some(0)).collect();
    assert_eq!(done, [&(false, "16MiB", Some(0))]);
}
