//! Unreadable sources and full disks give an error with a hint and keep the work.

use std::path::Path;

use crate::common::car::*;
use crate::common::disk::Disk;
use crate::common::run::{Done, Place, import, import_pipe};
use crate::common::{is_root, skipped};

use super::refusals::*;

#[test]
fn directory_without_snapshots_is_refused() {
    let place = Place::new();
    let folder = place.path("folder.car");
    std::fs::create_dir(&folder).expect("a folder");
    import(&place, &folder).run().refused(
        3,
        None,
        "no CAR (*.car, *.car.zst, *.car.gz, *.car.xz, *.car.lz4) and no block log is in this directory",
    );
}

#[test]
fn missing_source_is_refused() {
    let place = Place::new();
    import(&place, place.path("missing.car")).run().refused(3, None, "there is no such file");
}

#[test]
fn unreadable_source_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let source = place.file("secret.car", &rooted(&blocks()));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    mode(&source, 0o000);
    let run = import(&place, &source);
    if !is_root() {
        return run.run().refused(3, None, "no permission to read it");
    }
    // Root may read everything: run as nobody.
    let program = place.path("bedload");
    std::fs::copy(crate::common::run::BEDLOAD, &program).expect("a copy of the program");
    mode(&program, 0o755);
    mode(&place.path(""), 0o777);
    match run.without_rights(&program).run() {
        Done { code: Some(127), stderr, .. } => skipped(format_args!("cannot run as another user: {stderr}")),
        done => done.refused(3, None, "no permission to read it"),
    }
}

fn twenty_mib() -> Vec<Block> {
    (0..320).map(|i| blake(RAW, &noise(i, 64 << 10))).collect()
}

#[test]
fn full_work_directory_keeps_the_work() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("work"), 8 << 10) else { return };
    let work = disk.0.display().to_string();
    let blocks = twenty_mib();
    let snapshot = rooted(&blocks);
    let args = ["--plan", "spill", "--memory", "16MiB", "--work-dir", work.as_str()];
    // A file says how large it is: it is refused before the start, with both numbers.
    let source = place.file("fine.car", &snapshot);
    let done = import(&place, &source).args(&args).run();
    done.refused(1, None, "20.0 MiB more needed, 8.0 MiB free");
    assert!(done.stderr.starts_with(&format!("error: find room at {work}")), "it names the place: {}", done.stderr);
    // A pipe does not: its partitions fill the disk.
    let run = || import_pipe(&place, snapshot.clone()).args(&args);
    let done = run().run();
    done.refused(1, None, "No space left on device");
    assert!(done.stderr.starts_with(&format!("error: find room at {work}/")), "it names the file: {}", done.stderr);
    assert!(done.hint().starts_with(&format!("make room (df -h {work}/")), "{}", done.hint());
    // The hint holds: with room, the same command ends well.
    disk.make_room();
    run().holds(&blocks);
    assert!(disk.0.read_dir().expect("a folder").next().is_none(), "something is left in the work directory");
}

#[test]
fn full_database_disk_keeps_the_work() {
    let place = Place::new();
    let blocks = twenty_mib();
    let source = place.file("fine.car", &rooted(&blocks));
    for plan in ["memory", "spill"] {
        let Some(disk) = Disk::new(place.path(plan), 8 << 10) else { return };
        let work = place.path("work").display().to_string();
        // With padding as the end, the database may be smaller than the source, so the import starts.
        let args = ["--plan", plan, "--memory", "64MiB", "--work-dir", &work, "--null-padding", "eof"];
        let run = || import(&place, &source).args(&args).db(disk.0.join("db"));
        let done = run().run();
        done.refused(1, None, "No space left on device");
        assert!(done.hint().contains("make room"), "{}", done.hint());
        disk.make_room();
        run().holds(&blocks);
        let names: Vec<_> = disk.0.read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["db"], "something is left beside the database");
    }
}
