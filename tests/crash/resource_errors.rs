//! Full disks, too few descriptors, directories that may not be written, sources that change: errors that say what is
//! wrong, work that is kept, and never a wrong database.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::crash::*;
use crate::common::disk::Disk;
use crate::common::run::{Place, bedload};

/// A case whose temporary files lie elsewhere than its database.
fn case(place: &Place, dir: &Path, way: Way, from: From) -> Case {
    let mut case = Case::new(dir, plain(), way, from);
    case.env.retain(|(name, _)| name != "TMPDIR");
    case.env("TMPDIR", place.path("").to_str().expect("text"))
}

/// Fails for want of room, keeps what it has, and finishes when there is room.
#[track_caller]
fn fails_and_finishes_with_room(case: &Case, disk: &Disk, words: &[&str]) {
    let ended = case.run();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.says(&[&format!("error: find room at {}", disk.0.display()), " free", "No space left on device"]);
    ended.says(&["hint: make room (df -h "]);
    ended.says(words);
    case.nothing_under_the_name("a full disk");
    assert!(case.partial().join("journal").exists(), "the work is not kept");
    // Without room it fails in the same way, and loses nothing.
    let again = case.run();
    assert_eq!(again.code, Some(1), "{again:?}");
    again.says(&["find room at ", "No space left on device"]);
    disk.make_room();
    case.finishes();
}

#[test]
fn partitions_that_fill_a_disk_are_kept_and_the_import_goes_on() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("work"), 5 << 10) else { return };
    // The size of a pipe is not known, so nothing can be refused before.
    let case = case(&place, &place.path(""), Way::Spill, From::Pipe).arg(&["--work-dir", disk.arg()]);
    let ended = case.run();
    let read = case.journal().iter().filter(|line| line["entry"] == "read").count();
    assert!(ended.code == Some(1) && read > 0, "{ended:?}");
    fails_and_finishes_with_room(&case, &disk, &[".part"]);
}

#[test]
fn a_database_that_fills_a_disk_is_kept_and_the_import_goes_on() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill] {
        let Some(disk) = Disk::new(place.path("data"), 6 << 10) else { return };
        // A file that may end before its last byte is not refused before.
        let mut case = case(&place, &disk.0, way, From::File).arg(&["--null-padding", "eof"]);
        if way == Way::Spill {
            case = case.arg(&["--work-dir", place.path("work").to_str().expect("text")]);
        }
        // How much is missing is known: the source is a file.
        fails_and_finishes_with_room(&case, &disk, &[".sst", " MiB more needed, "]);
    }
}

#[test]
fn a_journal_that_fills_a_disk_is_kept_and_the_import_goes_on() {
    let place = Place::in_memory();
    // Room for the lock and a page or two of lines.
    let Some(disk) = Disk::new(place.path("data"), 16) else { return };
    let case = case(&place, &disk.0, Way::Spill, From::Pipe)
        .arg(&["--work-dir", place.path("work").to_str().expect("text")])
        .env("BEDLOAD_DURABLE_BYTES", "1");
    fails_and_finishes_with_room(&case, &disk, &["db.partial/journal"]);
}

#[test]
fn partitions_that_cannot_fit_are_refused_before_anything_is_written() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("work"), 5 << 10) else { return };
    let case = case(&place, &place.path(""), Way::Spill, From::File).arg(&["--work-dir", disk.arg()]);
    // A dry run tells it as well.
    for case in [case.clone().arg(&["--dry-run"]), case.clone()] {
        let ended = case.run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.says(&[&format!("error: find room at {}: 7.9 MiB more needed, 5.0 MiB free\n", disk.0.display())]);
    }
    assert!(!case.partial().exists() && disk.0.read_dir().expect("a folder").next().is_none(), "something was written");
}

#[test]
fn import_without_room_is_refused_as_a_dry_run() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("data"), 6 << 10) else { return };
    let case = case(&place, &disk.0, Way::Memory, From::File);
    disk.make_room();
    let fits = case.clone().arg(&["--dry-run"]).run();
    assert_eq!((fits.code, fits.stderr.as_str()), (Some(0), ""));
    assert!(fits.number("/space/0/least_bytes") > 6 << 20, "{}", fits.json);
    disk.remount("size=6m");
    let dry = case.clone().arg(&["--dry-run"]).run();
    assert_eq!(dry.code, Some(1), "{dry:?}");
    dry.says(&[&format!("error: find room at {}: ", disk.0.display()), " MiB more needed, 6.0 MiB free\n"]);
    assert!(!dry.stderr.contains("warning: "), "{dry:?}");
    let ended = case.run();
    assert_eq!((ended.code, &ended.stderr), (Some(1), &dry.stderr), "{ended:?}");
    assert!(!case.partial().exists(), "something was written");
    // What compresses may fit.
    let packed = case.clone().arg(&["--restart", "--preset", "ingest-zstd", "--dry-run"]).run();
    assert_eq!(packed.code, Some(0), "{packed:?}");
    packed.says(&["warning: ", "less if the blocks compress well"]);
    assert_eq!(packed.number("/space/0/least_bytes"), 0);
}

#[test]
fn the_plan_reports_what_each_file_system_needs() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("work"), 64 << 10) else { return };
    let case = case(&place, &place.path(""), Way::Spill, From::File).arg(&["--dry-run"]);
    let one = case.run();
    let size = plain().bytes.len() as u64;
    let holds = |ended: &Ended| {
        let space = ended.json["space"].as_array().expect("file systems").clone();
        space.into_iter().map(|space| (space["holds"].as_str().expect("text").to_owned(), space)).collect::<Vec<_>>()
    };
    let [(what, space)] = &holds(&one)[..] else { panic!("one file system: {one:?}") };
    assert_eq!(what, "partitions and database");
    let needed = space["needed_bytes"].as_u64().expect("a number");
    assert!(needed >= size && needed <= size * 3, "{needed} for a source of {size}");
    assert_eq!(space["certain_bytes"], size);

    let two = case.clone().arg(&["--work-dir", disk.arg()]).run();
    let [(first, _), (second, space)] = &holds(&two)[..] else { panic!("two file systems: {two:?}") };
    assert_eq!((&first[..], &second[..]), ("database", "partitions"));
    assert_eq!(space["file_system"], "tmpfs");
    assert_eq!(space["path"], disk.arg());
    assert_eq!(space["free_bytes"], 64 << 20);
    assert_eq!(space["needed_bytes"], size);
    let announced = crate::common::run::bedload()
        .arg("import")
        .arg(&plain().file)
        .arg("--db")
        .arg(&case.db)
        .args(&case.args)
        .arg("--work-dir")
        .arg(&disk.0)
        .output()
        .expect("it runs");
    let announced = String::from_utf8(announced.stdout).expect("text");
    assert!(announced.contains("partitions go to another file system and are copied back"), "{announced}");
    assert!(!case.partial().exists(), "a dry run writes nothing");
}

#[test]
fn a_full_or_read_only_directory_for_temporary_files_does_not_matter() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("tmp"), 16) else { return };
    std::fs::write(disk.0.join("filler"), [0; 32 << 10]).expect_err("more than it has");
    let mut case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    case.env.retain(|(name, _)| name != "TMPDIR");
    let case = case.env("TMPDIR", disk.arg());
    for options in ["rw", "ro"] {
        disk.remount(options);
        case.finishes();
        case.again();
        // Nor does it without a place in memory.
        case.clone()
            .through(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$0\" \"$@\""])
            .finishes();
        case.again();
    }
    disk.remount("rw");
    let left: Vec<_> = disk.0.read_dir().expect("a folder").collect();
    assert_eq!(left.len(), 1, "something is left beside the filler: {left:?}");
}

#[test]
fn a_read_only_file_system_is_said_to_be_one() {
    let place = Place::in_memory();
    let Some(disk) = Disk::new(place.path("data"), 1 << 10) else { return };
    disk.remount("ro");
    let case = case(&place, &disk.0, Way::Memory, From::File);
    let ended = case.run();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.says(&["error: create ", "db.partial: Read-only file system", "hint: the file system is mounted read-only"]);
    // So is one that becomes read-only behind an import, as the kernel does when a disk fails.
    disk.remount("rw,size=100m");
    case.dies_at("built");
    disk.remount("ro");
    assert_eq!(case.run().code, Some(1));
    disk.remount("rw");
    case.finishes();
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let place = Place::in_memory();
    let case = case(&place, Path::new("/proc/self"), Way::Memory, From::File);
    let ended = case.run();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.says(&["error: create /proc/self/db.partial", "hint: "]);
}

#[test]
fn too_few_descriptors_are_an_error_that_says_so() {
    let place = Place::in_memory();
    let case = case(&place, &place.path(""), Way::Spill, From::File);
    let mut refused = 0;
    for limit in [8, 10, 12, 14, 16, 20, 24] {
        let few = case.clone().through(&["prlimit", &format!("--nofile={limit}:{limit}")]);
        let ended = few.run();
        if ended.code == Some(0) {
            case.has_finished(&ended);
        } else {
            refused += 1;
            // Known before the start, or met even before that.
            match ended.code {
                Some(4) => ended.says(&["open files at once, and this process may have", "ulimit -Hn"]),
                Some(1) => ended.says(&["Too many open files", "ulimit -n"]),
                _ => panic!("{limit}: {ended:?}"),
            }
            case.nothing_under_the_name("too few descriptors");
        }
        if case.partial().exists() {
            // Fewer descriptors may mean fewer partitions.
            case.finishes_or_says_why("more descriptors");
        }
        case.again();
    }
    assert!(refused > 0, "no limit was too low");
}

#[test]
fn paths_that_are_not_utf8_work() {
    let place = Place::in_memory();
    let name = |text: &[u8]| place.path("").join(OsString::from_vec(text.to_vec()));
    let source = name(b"s\xff.car");
    std::fs::write(&source, &plain().bytes).expect("written");
    for way in [Way::Memory, Way::Spill] {
        let mut case = case(&place, &place.path(""), way, From::File);
        case.db = name(b"d\xfe\xff");
        case.args.extend(["--work-dir".into(), name(b"w\xfd").into()]);
        case.dies_at("built");
        case.dies_at("ingested");
        case.finishes();
        case.again();
    }
    let only = name(b"");
    for entry in only.read_dir().expect("a folder") {
        let entry = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(!entry.contains('\u{fffd}') || entry.len() < 12, "a path went astray: {entry}");
    }
}

#[test]
fn a_source_that_shrinks_while_it_is_read_is_an_error_and_no_signal() {
    let place = Place::in_memory();
    let mut failed = 0;
    for way in [Way::Memory, Way::Spill] {
        let case = case(&place, &place.path(""), way, From::File);
        let source = place.path("s.car");
        for wait in (0..rounds(12, 60)).map(|step| Duration::from_millis(step as u64 * 6)) {
            std::fs::write(&source, &plain().bytes).expect("written");
            let mut command = crate::common::run::bedload();
            command.arg("import").arg(&source).arg("--db").arg(&case.db).args(&case.args);
            command.args(["--json", "--progress", "off"]).envs(case.env.iter().cloned());
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let child = child.expect("it starts");
            // Not before the plan, which has its own look at the size.
            let journal = case.partial().join("journal");
            while !journal.exists() && !case.db.exists() && Path::new("/proc").join(child.id().to_string()).exists() {
                std::thread::sleep(Duration::from_millis(1));
                if started_long_ago(&source) {
                    break;
                }
            }
            std::thread::sleep(wait);
            std::fs::File::options().write(true).open(&source).expect("opened").set_len(100_000).expect("cut");
            let ended = ended(child);
            assert_eq!(ended.signal, None, "{way:?}, {wait:?}: {ended:?}");
            if ended.code == Some(0) {
                case.has_finished(&ended);
            } else {
                failed += 1;
                // Found by reading behind its end, by finding its end, or by looking at it again.
                let words = match ended.code {
                    Some(1) => "the file shrank, or the disk failed, while it was being read",
                    Some(3) => "ends inside",
                    Some(4) => "it changed while it was being read",
                    _ => panic!("{way:?}, {wait:?}: {ended:?}"),
                };
                ended.says(&["s.car", words, "hint: "]);
                case.nothing_under_the_name("a source that shrank");
            }
            case.again();
        }
    }
    assert!(failed > 0, "it was always faster");
}

fn started_long_ago(source: &Path) -> bool {
    let written = source.metadata().and_then(|metadata| metadata.modified()).expect("a time");
    written.elapsed().is_ok_and(|age| age > Duration::from_secs(20))
}

#[test]
fn a_source_that_is_written_to_while_it_is_read_is_noticed() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::in_memory();
    let source = place.path("s.car");
    let case = case(&place, &place.path(""), Way::Memory, From::File);
    for _ in 0..50 {
        std::fs::write(&source, &plain().bytes).expect("written");
        let child = start_on(&source, &case);
        let journal = case.partial().join("journal");
        while !std::fs::read(&journal).is_ok_and(|text| text.contains(&b'\n')) && !case.db.exists() {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!started_long_ago(&source), "it does not begin");
        }
        // Held while another process writes the same length of something else.
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).expect("it lives");
        let file = std::fs::File::options().write(true).open(&source).expect("opened");
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 7 << 20).expect("written");
        kill_process(pid, Signal::CONT).expect("it lives");
        let ended = ended(child);
        if ended.code != Some(0) {
            case.nothing_under_the_name("a changed source");
            match ended.code {
                // The block that was hit had not been checked yet.
                Some(3) => return ended.says(&["s.car at byte "]),
                _ => return ended.says(&["s.car: it changed while it was being read", "--restart"]),
            }
        }
        // It was done before.
        case.has_finished(&ended);
        case.again();
    }
    panic!("it was always faster");
}

#[test]
fn a_source_that_vanishes_while_it_is_read_is_noticed_and_goes_on_when_it_is_back() {
    let place = Place::in_memory();
    let (source, aside) = (place.path("s.car"), place.path("aside.car"));
    std::fs::write(&source, &plain().bytes).expect("written");
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        let case = case(&place, &place.path(""), way, From::File);
        let mut noticed = false;
        for _ in 0..50 {
            let child = start_on(&source, &case);
            let journal = case.partial().join("journal");
            let started = std::time::Instant::now();
            while !std::fs::read(&journal).is_ok_and(|text| text.contains(&b'\n')) && !case.db.exists() {
                std::thread::sleep(Duration::from_millis(1));
                assert!(started.elapsed() < Duration::from_secs(20), "it does not begin");
            }
            std::fs::rename(&source, &aside).expect("renamed");
            let ended = ended(child);
            std::fs::rename(&aside, &source).expect("renamed");
            if ended.code == Some(0) {
                // It was done before.
                case.has_finished(&ended);
                case.again();
                continue;
            }
            assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
            ended.says(&["s.car: it vanished while it was being read", "hint: put the same file back"]);
            case.nothing_under_the_name("a source that vanished");
            let again = crate::common::crash::ended(start_on(&source, &case));
            case.has_finished(&again);
            case.again();
            noticed = true;
            break;
        }
        assert!(noticed, "{way:?}: it was always faster");
    }
}

/// Starts the import of a file that the test has made.
fn start_on(source: &Path, case: &Case) -> std::process::Child {
    let mut command = crate::common::run::bedload();
    command.arg("import").arg(source).arg("--db").arg(&case.db).args(&case.args);
    command.args(["--json", "--progress", "off"]).envs(case.env.iter().cloned());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.expect("it starts")
}

#[test]
fn a_budget_too_small_to_work_with_is_refused() {
    let place = Place::in_memory();
    let mut case = case(&place, &place.path(""), Way::Spill, From::File);
    case.args = ["--memory", "15MiB"].iter().map(Into::into).collect();
    let ended = case.run();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    ended.says(&["error: the memory budget of 15.0 MiB is too small\n", "hint: give --memory 16MiB or more\n"]);
    assert!(!case.partial().exists());
}

#[test]
fn a_disk_that_fills_up_in_the_compaction_is_reported_as_that() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("data"), 9 << 10) else { return };
    let (db, sources) = (disk.0.join("db"), [("one.car", "1MiB"), ("two.car", "2MiB")]);
    let import = |source: &Path| {
        let mut command = bedload();
        command.arg("import").arg(source).arg("--db").arg(&db).args(["--progress", "off"]);
        command
    };
    for (seed, (name, size)) in sources.iter().enumerate() {
        let seed = seed.to_string();
        let made = bedload().arg("generate").arg(place.path(name)).args(["--size", size, "--seed", &seed]).output();
        assert!(made.expect("it runs").status.success());
    }
    assert!(import(&place.path("one.car")).output().expect("it runs").status.success());
    let output = import(&place.path("two.car")).arg("--into-existing").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device") && !said.contains("bedload verify"), "{said}");
    disk.make_room();
    let output = import(&place.path("two.car")).arg("--into-existing").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_link_to_an_empty_directory_is_no_name_for_a_new_database() {
    let place = Place::new();
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::File);
    let elsewhere = place.path("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    std::os::unix::fs::symlink(&elsewhere, &case.db).expect("a link");
    case.is_refused(&["already exists"]);
    assert!(!case.partial().exists(), "work has begun");
}
