//! Copies of a database that are killed, whose disk fails, or whose source is damaged. `tests/attack` does so at random.

use std::path::Path;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use crate::common::crash::{Way, is_long, points};
use crate::common::database::{flip, json, open_all, ssts};
use crate::common::fault;
use crate::common::run::{Place, bedload};
use crate::import::rebuild::{files, import, old, records};

/// The outcome of an import of which `fault` disturbs `times` system calls; with 0, all from the first one on.
fn disturbed(old: &Path, new: &Path, more: &[&str], fault: &str, times: u64) -> Option<std::process::Output> {
    let library = fault::library()?;
    let mut command = bedload();
    command.args(["import", "--quiet", "--progress", "off", "--db"]).arg(new).arg(old).args(more);
    if times > 0 {
        command.env("BEDLOAD_FAULT_TIMES", times.to_string());
    }
    Some(command.env("LD_PRELOAD", library).env("BEDLOAD_FAULT", fault).output().expect("it runs"))
}

/// Options with which a copy has many ranges and files.
const SMALL: [&str; 4] = ["--set", "load.ingest.sst_size=64K", "--threads", "2"];

#[test]
fn killed_copy_resumes_from_every_change() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let (before, expected) = (files(&old), records(&old));
    let (new, inside) = (place.path("new"), place.path("new").display().to_string());
    let (mut number, step) = (1, if is_long() { 1 } else { 151 });
    loop {
        let Some(output) = disturbed(&old, &new, &SMALL, &format!("change:{number}:0:{inside}"), 0) else { return };
        if output.status.success() {
            break;
        }
        // The last changes are made when the database has its name.
        if new.exists() {
            assert_eq!(records(&new), expected, "killed at change {number}");
        }
        if !new.exists() || new.with_added_extension("partial").exists() {
            import(&old, &new).args(SMALL).assert().success();
        }
        assert_eq!(records(&new), expected, "killed at change {number}");
        json(&["verify"], &new, &[], 0);
        assert_eq!(files(&old), before, "killed at change {number}");
        std::fs::remove_dir_all(&new).expect("removed");
        number += step;
    }
    assert!(number > 50, "only {number} changes");
}

#[test]
fn killed_replacement_keeps_all_records() {
    let place = Place::in_memory();
    let (source, path, kept) = (old(&place.path("")), place.path("db"), place.path("kept"));
    let expected = records(&source);
    let inside = path.display().to_string();
    let (mut number, step) = (1, if is_long() { 1 } else { 173 });
    let keep = ["--replace", "--keep-old", kept.to_str().expect("text")];
    let more: Vec<&str> = SMALL.iter().chain(&keep).copied().collect();
    loop {
        [&path, &kept, &path.with_added_extension("partial")]
            .into_iter()
            .for_each(|dir| drop(std::fs::remove_dir_all(dir)));
        crate::common::process::copy(&source, &path);
        let Some(output) = disturbed(&path, &path, &more, &format!("change:{number}:0:{inside}"), 0) else { return };
        assert_eq!(records(&path), expected, "killed at change {number}");
        if output.status.success() {
            break;
        }
        if !kept.exists() || path.with_added_extension("partial").exists() {
            let again = import(&path, &path).args(&more).output().expect("it runs");
            let text = String::from_utf8_lossy(&again.stderr).into_owned();
            assert!(again.status.success(), "killed at change {number}: {text}");
        }
        assert_eq!(records(&path), expected, "killed at change {number}");
        assert_eq!(records(&kept), expected, "killed at change {number}");
        assert!(path.join("BEDLOAD.json").exists() && !kept.join("BEDLOAD.json").exists());
        number += step;
    }
}

#[test]
fn flipped_bits_are_refused_or_harmless() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let (expected, new) = (records(&old), place.path("new"));
    let (mut refused, mut copied) = (0, 0);
    for file in old.read_dir().expect("listed").map(|entry| entry.expect("an entry").path()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let len = std::fs::metadata(&file).expect("there").len() as usize;
        // RocksDB does not read these when it opens a database.
        if len == 0 || name.starts_with("LOG") || name.starts_with("LOCK") || name == "IDENTITY" {
            continue;
        }
        let count = if is_long() { 200 } else { 6 };
        for at in (0..count).map(|part| part * (len - 1) / (count - 1)) {
            let what = format!("{name}, byte {at} of {len}");
            let bytes = flip(&file, at, 1 << (at % 8));
            let output = import(&old, &new).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => {
                    assert_eq!(records(&new), expected, "{what}");
                    std::fs::remove_dir_all(&new).expect("removed");
                    copied += 1;
                }
                Some(2..=4) => {
                    assert!(text.contains("error: ") && text.contains("hint: "), "{what}: {text}");
                    assert!(!new.exists(), "{what}");
                    refused += 1;
                }
                code => panic!("{what}: {code:?}: {text}"),
            }
            let _ = std::fs::remove_dir_all(new.with_added_extension("partial"));
            std::fs::write(&file, bytes).expect("written");
        }
    }
    assert!(refused > 10 && copied > 0, "{refused} refused, {copied} copied");
    import(&old, &new).assert().success();
}

#[test]
fn missing_table_is_named() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let gone = ssts(&old).pop().expect("a file");
    std::fs::remove_file(&gone).expect("removed");
    let name = gone.file_name().expect("a name").to_string_lossy().into_owned();
    import(&old, &new).assert().code(3).stderr(contains(name).and(contains("restore it from a backup")));
    assert!(!new.exists());
}

#[test]
fn failing_disk_publishes_nothing() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let expected = records(&old);
    let (from, to) = (old.display(), new.display());
    for (fault, code) in [
        (format!("read:40:5:{from}"), 1),
        (format!("write:9:28:{to}"), 1),
        (format!("sync:5:5:{to}"), 1),
        (format!("open:5:24:{from}"), 1),
    ] {
        let Some(output) = disturbed(&old, &new, &SMALL, &fault, 0) else { return };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{fault}: {text}");
        assert!(text.contains("error: ") && text.contains("hint: "), "{fault}: {text}");
        assert!(!new.exists(), "{fault}");
    }
    import(&old, &new).args(SMALL).assert().success();
    assert_eq!(records(&new), expected);
}

#[test]
fn resume_refuses_a_changed_database() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let mut command = import(&old, &new);
    command.args(SMALL).env("BEDLOAD_ABORT_AT", "built:2").assert().failure();
    let (db, _) = open_all(&old);
    db.put(b"one more", b"record").expect("put");
    db.flush().expect("flushed");
    drop(db);
    import(&old, &new).args(SMALL).assert().code(4).stderr(contains("contains a different unfinished import"));
    import(&old, &new).args(SMALL).arg("--restart").assert().success();
    assert_eq!(records(&new), records(&old));
}

#[test]
fn copy_resumes_from_every_named_point() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let expected = records(&old);
    // Only the presets for older RocksDBs rewrite options.
    for point in points(Way::Copy).into_iter().filter(|point| *point != "options-rewritten") {
        import(&old, &new).args(SMALL).env("BEDLOAD_ABORT_AT", point).assert().code(predicates::ord::ne(0));
        assert!(!new.exists(), "{point}");
        import(&old, &new).args(SMALL).assert().success();
        assert_eq!(records(&new), expected, "{point}");
        std::fs::remove_dir_all(&new).expect("removed");
    }
}

#[test]
fn old_database_is_kept_after_a_kill() {
    let place = Place::in_memory();
    let (source, path, kept) = (old(&place.path("")), place.path("db"), place.path("kept"));
    let expected = records(&source);
    for point in ["start", "exchanging", "set-aside", "exchanged", "renamed"] {
        crate::common::process::copy(&source, &path);
        let keep = ["--replace", "--keep-old", kept.to_str().expect("text")];
        let mut killed = import(&path, &path);
        killed.args(SMALL).args(keep).env("BEDLOAD_ABORT_AT", point).assert().code(predicates::ord::ne(0));
        if ["exchanged", "renamed"].contains(&point) {
            let words = "has the replaced database, which --keep-old moves to";
            bedload().args(["clean", "-y"]).arg(place.path("")).assert().stdout(contains(words));
        }
        // The place is known from the first run.
        import(&path, &path).args(SMALL).arg("--replace").assert().success();
        assert_eq!((records(&path), records(&kept)), (expected.clone(), expected.clone()), "{point}");
        assert!(path.join("BEDLOAD.json").exists() && !kept.join("BEDLOAD.json").exists(), "{point}");
        [&path, &kept].into_iter().for_each(|dir| std::fs::remove_dir_all(dir).expect("removed"));
    }
}

#[test]
fn lock_of_a_finished_replacement_is_removed() {
    let place = Place::in_memory();
    let (path, kept) = (old(&place.path("")), place.path("kept"));
    let again = || {
        let mut command = import(&path, &path);
        command.args(["--replace", "--keep-old"]).arg(&kept);
        command
    };
    again().assert().success();
    // The last file that a finished import removes.
    let partial = path.with_added_extension("partial");
    std::fs::create_dir(&partial).expect("created");
    std::fs::write(partial.join("lock"), "process 1 on here\n").expect("written");
    again().assert().code(4).stderr(contains("kept: already exists"));
    assert!(!partial.exists());
}

/// The random attack found copies that did not resume: RocksDB had noted the files of one family and removed them again, when
/// those of another family had moved already.
#[test]
fn copy_resumes_after_one_failed_call() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let expected = records(&old);
    let (mut number, step) = (1, if is_long() { 1 } else { 31 });
    loop {
        let fault = format!("change:{number}:28:{}", new.display());
        let Some(output) = disturbed(&old, &new, &[], &fault, 1) else { return };
        if !new.exists() {
            import(&old, &new).assert().success();
        }
        assert_eq!(records(&new), expected, "failed call {number}");
        let partial = new.with_added_extension("partial");
        [&new, &partial].into_iter().for_each(|dir| drop(std::fs::remove_dir_all(dir)));
        // Far after the last call.
        if output.status.success() && number > 400 {
            break;
        }
        number += step;
    }
}
