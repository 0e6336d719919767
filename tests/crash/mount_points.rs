//! Mount points among the work of an import: nothing in them is removed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::crash::*;
use crate::common::run::{Place, bedload};

/// A directory that is mounted at another one while this lives.
struct Mount(PathBuf);

impl Mount {
    /// `None`, said loudly, where nothing may be mounted.
    fn bind(from: &Path, to: &Path) -> Option<Self> {
        std::fs::create_dir_all(to).expect("a folder");
        let mut mount = Command::new("mount");
        mount.arg("--bind").arg(from).arg(to).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(to.to_owned()));
        }
        crate::common::skipped("nothing can be mounted here: that takes root");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn clean_and_restart_keep_mount_points() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    // Files with names of a database, and of partitions, on the same file system.
    let mine = place.path("mine");
    std::fs::create_dir(&mine).expect("made");
    for name in ["CURRENT", "000001.sst", "00000.part", "MANIFEST-000001"] {
        std::fs::write(mine.join(name), "mine").expect("written");
    }
    let files = list(&mine);
    for at in ["db", "spill", "spill/00007.part", "db/archive"] {
        case.dies_at("read:2");
        let Some(mount) = Mount::bind(&mine, &case.partial().join(at)) else { return };
        for how in ["--dry-run", "--yes"] {
            let output = bedload().args(["clean", "--json", how]).arg(&case.db).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(if how == "--yes" { 4 } else { 0 }), "{at}: {output:?}");
            assert!(said.contains("is a mount point: unmount it first"), "{at}: {said}");
        }
        let refused = [&mount.0.display().to_string(), "is a mount point: nothing in it is removed", "umount "];
        for args in [&[][..], &["--restart"]] {
            case.clone().arg(args).is_refused(&refused);
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
    let mounted = Command::new("bindfs").arg(&back).arg(&front).stderr(Stdio::null()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return crate::common::skipped("bindfs cannot mount a FUSE file system here");
    }
    let _mount = Mount(front.clone());
    let work = front.join("work");
    let case = Case::new(&front, plain(), Way::Spill, From::File).arg(&["--work-dir", work.to_str().expect("text")]);
    let ended = case.finishes();
    assert!(!ended.stderr.contains("warning"), "{ended:?}");
    assert_eq!(list(&work), Vec::<PathBuf>::new());
    let case = Case { db: front.join("two"), ..case };
    case.dies_at("read:2");
    let output = bedload().args(["clean", "--yes"]).arg(&case.db).output().expect("it runs");
    assert_eq!((output.status.code(), list(&work)), (Some(0), Vec::new()), "{output:?}");
    assert!(!case.partial().exists(), "{output:?}");
}
