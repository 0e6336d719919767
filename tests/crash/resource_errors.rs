//! Full disks, directories that may not be written, files that shrink: errors that say what is wrong, work that is kept,
//! and never a wrong database.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::changed_sources::{overwrite, own_copy};
use crate::common::crash::*;
use crate::common::disk::Disk;
use crate::common::run::{Place, bedload};

/// A case whose temporary files are not beside its database.
fn case(place: &Place, dir: &Path, way: Way, from: From) -> Case {
    Case::new(dir, plain(), way, from).env("TMPDIR", place.path("").to_str().expect("text"))
}

#[test]
fn import_on_full_disk_resumes_with_room() {
    let place = Place::in_memory();
    let (work, data) = (place.path("work"), place.path("data"));
    // A file that may end before its last byte is not refused before the start, nor is a pipe, whose size is not known.
    let eof = ["--null-padding", "eof"];
    let missing = [".sst", " MiB more needed, "];
    for (what, full, way, from, kib, more, words) in [
        ("partitions", &work, Way::Spill, From::Pipe, 5 << 9, &[][..], &[".part"][..]),
        ("database", &data, Way::Memory, From::File, 3 << 10, &eof, &missing),
        ("database after partitions", &data, Way::Spill, From::File, 3 << 10, &eof, &missing),
        // Room for the lock and a page or two of lines.
        ("journal", &data, Way::Spill, From::Pipe, 16, &[], &["db.partial/journal"]),
    ] {
        let Some(disk) = Disk::new(full.clone(), kib) else { return };
        let mut case = case(&place, &data, way, from).arg(more).arg(&["--work-dir", work.to_str().expect("text")]);
        if what == "journal" {
            case = case.env("BEDLOAD_DURABLE_BYTES", "1");
        }
        let room = format!("error: not enough space in {}", disk.0.display());
        let words = [&[&room, " free", "No space left on device", "hint: free some space (df -h "], words].concat();
        // Without room it fails again in the same way, and loses nothing.
        for words in [&words[..], &["not enough space in ", "No space left on device"]] {
            case.fails(1, what, words);
            assert!(case.partial().join("journal").exists(), "{what}: the work is not kept");
            // The last line of a journal on a full disk may be cut.
            let is_durable = || case.journal().iter().any(|line| line["entry"] == "read");
            assert!(what != "partitions" || is_durable(), "{what}: nothing was durable");
        }
        disk.make_room();
        case.finishes();
    }
}

#[test]
fn missing_room_is_refused_before_writing() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("work"), 2 << 10) else { return };
    let spill = case(&place, &place.path(""), Way::Spill, From::File).arg(&["--work-dir", disk.arg()]);
    for case in [spill.clone().arg(&["--dry-run"]), spill.clone()] {
        let words = format!("error: not enough space in {}: 3.9 MiB more needed, 2.0 MiB free\n", disk.0.display());
        case.fails(1, "partitions", &[&words]);
    }
    assert!(!spill.partial().exists() && list(&disk.0).is_empty(), "something was written");

    let case = case(&place, &disk.0, Way::Memory, From::File);
    disk.make_room();
    let fits = case.clone().arg(&["--dry-run"]).run();
    assert_eq!((fits.code, fits.stderr.as_str()), (Some(0), ""));
    assert!(fits.number("/space/0/least_bytes") > 3 << 20, "{}", fits.json);
    disk.remount("size=3m");
    let room = format!("error: not enough space in {}: ", disk.0.display());
    let words = [&room, " MiB more needed, 3.0 MiB free\n"];
    let dry = case.clone().arg(&["--dry-run"]).fails(1, "a dry run", &words);
    assert!(!dry.stderr.contains("warning: "), "{dry:?}");
    assert_eq!(case.fails(1, "a run", &words).stderr, dry.stderr);
    assert!(!case.partial().exists(), "something was written");
    // What compresses may fit.
    let packed = case.arg(&["--restart", "--preset", "ingest-zstd", "--dry-run"]).run();
    packed.failed(0, "compressed", &["warning: ", "less if the blocks compress well"]);
    assert_eq!(packed.number("/space/0/least_bytes"), 0);
}

#[test]
fn plan_reports_needs_of_file_systems() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("work"), 64 << 10) else { return };
    let one = case(&place, &place.path(""), Way::Spill, From::File).arg(&["--dry-run"]);
    let two = one.clone().arg(&["--work-dir", disk.arg()]);
    let size = plain().bytes.len() as u64;
    let space = |case: &Case| case.run().json["space"].as_array().expect("file systems").clone();
    let [space_of_all] = &space(&one)[..] else { panic!("not one file system") };
    assert_eq!(
        (&space_of_all["holds"], &space_of_all["certain_bytes"]),
        (&"partitions and database".into(), &size.into())
    );
    let needed = space_of_all["needed_bytes"].as_u64().expect("a number");
    assert!(needed >= size && needed <= size * 3, "{needed} for a source of {size}");

    let [database, partitions] = &space(&two)[..] else { panic!("not two file systems") };
    assert_eq!(database["holds"], "database");
    for (field, value) in [
        ("holds", "partitions".into()),
        ("file_system", "tmpfs".into()),
        ("path", disk.arg().into()),
        ("free_bytes", serde_json::Value::from(64 << 20)),
        ("needed_bytes", size.into()),
    ] {
        assert_eq!(partitions[field], value, "{field}");
    }
    let text = bedload().arg("import").arg(&plain().file).arg("--db").arg(&two.db).args(&two.args).output();
    let text = String::from_utf8(text.expect("it runs").stdout).expect("text");
    assert!(text.contains("partitions go to another file system and are copied back"), "{text}");
    assert!(!two.partial().exists(), "a dry run writes nothing");
}

#[test]
fn import_needs_no_temporary_directory() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("tmp"), 16) else { return };
    std::fs::write(disk.0.join("filler"), [0; 32 << 10]).expect_err("more than it has");
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::File).env("TMPDIR", disk.arg());
    // Nor a place in memory.
    let closed = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$0\" \"$@\""];
    for options in ["rw", "ro"] {
        disk.remount(options);
        for case in [case.clone(), case.clone().through(&closed)] {
            case.finishes();
            case.again();
        }
    }
    disk.remount("rw");
    assert_eq!(list(&disk.0).len(), 1, "something is left beside the filler");
}

#[test]
fn unwritable_directory_is_named() {
    let place = Place::in_memory();
    case(&place, Path::new("/proc/self"), Way::Memory, From::File).fails(
        1,
        "not a place for files",
        &["error: cannot create /proc/self/db.partial", "hint: "],
    );
    let Some(disk) = Disk::new(place.path("data"), 1 << 10) else { return };
    disk.remount("ro");
    let case = case(&place, &disk.0, Way::Memory, From::File);
    let words =
        ["error: cannot create ", "db.partial: Read-only file system", "hint: the file system is mounted read-only"];
    case.fails(1, "read-only", &words);
    // The kernel makes a file system read-only when its disk fails.
    disk.remount("rw,size=100m");
    case.dies_at("built");
    disk.remount("ro");
    case.fails(1, "read-only since a kill", &[]);
    disk.remount("rw");
    case.finishes();
}

#[test]
fn import_accepts_paths_other_than_utf8() {
    for way in [Way::Memory, Way::Spill] {
        let case = Case::plain(way);
        let name = |text: &[u8]| case.path("").join(OsString::from_vec(text.to_vec()));
        let snapshot = plain().copied_to(name(b"s\xff.car"));
        let mut case = Case { snapshot, db: name(b"d\xfe\xff"), ..case.clone() };
        case.args.extend(["--work-dir".into(), name(b"w\xfd").into()]);
        case.dies_at("built");
        case.dies_at("ingested");
        case.finishes();
        for entry in list(&case.path("")) {
            let entry = entry.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(!entry.contains('\u{fffd}') || entry.len() < 12, "a path went astray: {entry}");
        }
    }
}

#[test]
fn truncated_or_overwritten_source_is_an_error() {
    let cut = |path: &Path| File::options().write(true).open(path).and_then(|file| file.set_len(100_000)).expect("cut");
    let mut found = Vec::new();
    for (way, point) in [
        (Way::Memory, "source-opened"),
        (Way::Memory, "start"),
        (Way::Memory, "held"),
        (Way::Spill, "start"),
        (Way::Spill, "read"),
        (Way::Spill, "read-done"),
    ] {
        for is_cut in [true, false] {
            let case = own_copy(way);
            let path = &case.snapshot.file;
            let change = || if is_cut { cut(path) } else { overwrite(path, 7 << 19, &[0; 4096]) };
            let ended = case.stopped_at(point, change);
            let what = format!("{way:?}, {point}, {}", if is_cut { "cut" } else { "overwritten" });
            let (code, words) = match ended.code {
                // The map ends before the data.
                Some(1) if is_cut => (1, "the file shrank, or the disk failed, while it was being read"),
                Some(3) if is_cut => (3, "ends inside"),
                // A block that had not been verified.
                Some(3) => (3, " at byte "),
                Some(4) => (4, "it changed while it was being read"),
                _ => panic!("{what}: {ended:?}"),
            };
            ended.failed(code, &what, &["own.car", words, if is_cut || code == 3 { "hint: " } else { "--restart" }]);
            case.nothing_under_the_name(&what);
            found.push((is_cut, code));
        }
    }
    for expected in [(true, 1), (false, 4)] {
        assert!(found.contains(&expected), "{expected:?} is not among {found:?}");
    }
}

#[test]
fn full_disk_during_compaction_is_reported() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("data"), 9 << 10) else { return };
    let (db, sources) = (disk.0.join("db"), [place.path("one.car"), place.path("two.car")]);
    let import = |source: &Path, more: &[&str]| {
        let done =
            bedload().arg("import").arg(source).arg("--db").arg(&db).args(["--progress", "off"]).args(more).output();
        let done = done.expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (source, args) in sources.iter().zip([["--seed=0", "--size=1MiB"], ["--seed=1", "--size=2MiB"]]) {
        assert!(bedload().arg("generate").arg(source).args(args).status().expect("it runs").success());
    }
    assert_eq!(import(&sources[0], &[]).0, Some(0));
    let (code, said) = import(&sources[1], &["--into-existing"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("No space left on device") && !said.contains("bedload verify"), "{said}");
    disk.make_room();
    let (code, said) = import(&sources[1], &["--into-existing"]);
    assert_eq!(code, Some(0), "{said}");
}
