//! Mount points among the work of an import: nothing in them is removed.

use std::process::Command;

use crate::common::crash::*;
use crate::common::disk::Disk;
use crate::common::run::{Place, bedload};

#[test]
fn clean_and_restart_keep_mount_points() {
    let case = Case::plain(Way::Spill);
    // Files with names of a database, and of partitions, on the same file system.
    let mine = case.folder("mine");
    for name in ["CURRENT", "000001.sst", "00000.part", "MANIFEST-000001"] {
        std::fs::write(mine.join(name), "mine").expect("written");
    }
    let files = list(&mine);
    for at in ["db", "spill", "spill/00007.part", "db/archive"] {
        case.dies_at("read:2");
        let at = case.partial().join(at);
        std::fs::create_dir_all(&at).expect("a folder");
        if !succeeds(Command::new("mount").arg("--bind").arg(&mine).arg(&at)) {
            return crate::common::skipped("nothing can be mounted here: that takes root");
        }
        let mount = Disk(at);
        let at = mount.arg();
        for (how, code) in [("--dry-run", 0), ("--yes", 4)] {
            let output = bedload().args(["clean", "--json", how]).arg(&case.db).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(code), "{at}: {output:?}");
            assert!(said.contains("is a mount point: unmount it first"), "{at}: {said}");
        }
        for args in [&[][..], &["--restart"]] {
            case.clone().arg(args).is_refused(&[at, "is a mount point: nothing in it is removed", "umount "]);
        }
        assert_eq!(list(&mine), files, "{at}: files are gone");
        assert!(case.partial().join("journal").exists(), "{at}: the work is gone");
        drop(mount);
        case.clone().arg(&["--restart"]).finishes();
        case.again();
    }
}

/// On FUSE an open file that is removed stays under another name until it is closed.
#[test]
fn import_on_fuse_leaves_nothing() {
    let place = Place::in_memory();
    let (back, front) = (place.path("back"), place.path("front"));
    [&back, &front].iter().for_each(|dir| std::fs::create_dir(dir).expect("made"));
    if !succeeds(Command::new("bindfs").arg(&back).arg(&front)) {
        return crate::common::skipped("bindfs cannot mount a FUSE file system here");
    }
    let _mount = Disk(front.clone());
    let work = front.join("work");
    let case = Case::new(&front, plain(), Way::Spill, From::File).work_dir();
    let ended = case.finishes();
    assert!(!ended.stderr.contains("warning"), "{ended:?}");
    assert!(list(&work).is_empty(), "partitions are left");
    let case = Case { db: front.join("two"), ..case };
    case.dies_at("read:2");
    let output = bedload().args(["clean", "--yes"]).arg(&case.db).output().expect("it runs");
    assert_eq!((output.status.code(), list(&work)), (Some(0), Vec::new()), "{output:?}");
    assert!(!case.partial().exists(), "{output:?}");
}
