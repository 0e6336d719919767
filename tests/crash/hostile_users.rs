//! Links, pipes and files that another user puts under the names that an import uses: no file or directory of that user
//! is written, cut or removed through them.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::common::bundle::make_pipe;
use crate::common::crash::*;

const NOBODY: u32 = 65534;

/// With and without starting over.
const RESTARTS: [&[&str]; 2] = [&[], &["--restart"]];

/// Names that every import may use in its folder.
const NAMES: [&str; 6] = ["lock", "journal", "spill", "sst", "db", "BEDLOAD.json"];

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").mode() & 0o7777
}

struct Victim {
    dir: PathBuf,
    before: BTreeMap<PathBuf, (u32, u64, Vec<u8>)>,
}

impl Victim {
    /// With files under all names that imports have for theirs.
    fn new(case: &Case) -> Self {
        let dir = case.folder("victim");
        let names =
            ["file", "00000.part", "00001.part", "000001.sst", "CURRENT", "LOG", "lock", "journal", "MANIFEST-1"];
        for name in names {
            std::fs::write(dir.join(name), format!("precious {name}")).expect("written");
        }
        Self { before: Self::all(&dir), dir }
    }

    fn all(dir: &Path) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
        let state = |path: PathBuf| {
            let (there, bytes) = (path.metadata().expect("it is there"), std::fs::read(&path).expect("a file"));
            (path, (there.mode(), there.ino(), bytes))
        };
        list(dir).into_iter().map(state).collect()
    }

    #[track_caller]
    fn is_unharmed(&self, what: &str) {
        assert!(Self::all(&self.dir) == self.before, "{what}: another's files have changed");
    }
}

/// The object that replaces a file or folder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    LinkToFile,
    LinkToFolder,
    LinkToNothing,
    HardLink,
    Pipe,
    Folder,
}
use Planted::*;

/// One for each name in turn, and all in the long tests.
const PLANTED: [Planted; 6] = [LinkToFile, LinkToFolder, LinkToNothing, HardLink, Pipe, Folder];

impl Planted {
    fn put(self, at: &Path, victim: &Victim) {
        match at.symlink_metadata() {
            Ok(there) if there.is_dir() => std::fs::remove_dir_all(at).expect("it goes"),
            Ok(_) => std::fs::remove_file(at).expect("it goes"),
            Err(_) => {}
        }
        let file = victim.dir.join("file");
        match self {
            LinkToFile => symlink(file, at).expect("a link"),
            LinkToFolder => symlink(&victim.dir, at).expect("a link"),
            // What is written through it would appear among the victim's files.
            LinkToNothing => symlink(victim.dir.join("new"), at).expect("a link"),
            HardLink => std::fs::hard_link(file, at).expect("a link"),
            Pipe => make_pipe(at),
            Folder => std::fs::create_dir(at).expect("a folder"),
        }
    }
}

#[test]
fn prepared_partial_folder_is_not_followed() {
    for (offset, way) in [Way::Spill, Way::Memtables].into_iter().enumerate() {
        let case = Case::of(small(), way, From::File);
        let victim = Victim::new(&case);
        for (number, name) in NAMES.into_iter().enumerate() {
            for planted in in_turn(&PLANTED, number + offset) {
                std::fs::create_dir(case.partial()).expect("a folder");
                std::fs::write(case.partial().join("lock"), "").expect("written");
                planted.put(&case.partial().join(name), &victim);
                let ended = case.run();
                let what = format!("{way:?}, {planted:?} as {name}");
                victim.is_unharmed(&what);
                assert!(matches!(ended.code, Some(0 | 4)), "{what}: {ended:?}");
                // What is not of an import stays where it is.
                let again = case.clone().arg(&["--restart"]).run();
                assert_eq!(again.code, Some(if ended.code == Some(0) { 4 } else { 0 }), "{what}: {again:?}");
                victim.is_unharmed(&format!("{what}, then --restart"));
                case.holds_everything();
                case.again();
            }
        }
    }
}

#[test]
fn replaced_unfinished_work_is_not_followed() {
    let case = Case::plain(Way::Spill);
    let (victim, died) = (Victim::new(&case), case.path("died"));
    let (mut refused, mut round) = (0, 0..);
    let with_files =
        ["journal", "spill", "spill/00003.part", "sst", "sst/000001.sst", "sst/000002.sst", "sst/000099.sst"];
    for (point, names) in [
        ("read:3", &["lock", "journal", "spill", "spill/00000.part", "spill/00000.run00000", "sst", "db"][..]),
        ("built", &with_files),
        ("ingested", &["journal", "spill", "sst", "db", "db/BEDLOAD.json"]),
        ("complete", &["lock", "journal", "spill", "sst", "db", "db/BEDLOAD.json"]),
    ] {
        case.dies_at(point);
        copy(&case.partial(), &died);
        for name in names {
            let all = if point == "complete" { &PLANTED[..2] } else { &PLANTED };
            for planted in in_turn(all, round.next().expect("endless")) {
                if !case.partial().exists() {
                    copy(&died, &case.partial());
                }
                planted.put(&case.partial().join(name), &victim);
                let what = format!("{planted:?} as {name} at {point}");
                refused += usize::from(!case.finishes_or_says_why(&what));
                victim.is_unharmed(&what);
                case.again();
            }
        }
        std::fs::remove_dir_all(&died).expect("it is ours");
    }
    assert!(refused > 0, "nothing was ever refused");
}

#[test]
fn foreign_files_in_partial_folder_are_kept() {
    let case = Case::plain(Way::Spill);
    std::fs::create_dir_all(case.partial().join("db")).expect("a folder");
    let precious = case.partial().join("db/precious");
    std::fs::write(&precious, "precious").expect("written");
    for args in RESTARTS {
        case.clone().arg(args).is_refused(&["db.partial: holds files that are not of an import", "--db"]);
        assert_eq!(std::fs::read(&precious).expect("it is there"), b"precious");
    }
    // Other files in the folder remain.
    std::fs::remove_dir_all(case.partial()).expect("it is ours");
    case.dies_at("read:3");
    std::fs::write(case.partial().join("notes"), "precious").expect("written");
    assert_eq!(case.run().code, Some(0));
    case.holds_everything();
    assert_eq!(list(&case.partial()), [case.partial().join("notes")]);
}

#[test]
fn work_folders_are_closed_to_others() {
    let case = Case::plain(Way::Spill).work_dir();
    let work = case.folder("work");
    set_mode(&work, 0o1777);
    // Everybody may write everything here.
    let case = case.through(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    let mut names = Vec::new();
    for _ in 0..2 {
        case.dies_at("read:3");
        let spills = list(&work);
        let [spill] = &spills[..] else { panic!("not one folder with partitions: {spills:?}") };
        for dir in [&case.partial(), &case.partial().join("sst"), spill] {
            assert_eq!(mode(dir), 0o700, "{}", dir.display());
        }
        names.push(spill.clone());
        // It resumes with them, and takes them away.
        case.finishes();
        assert_eq!(list(&work).len(), 0, "partitions are left");
        case.again();
    }
    assert_ne!(names[0], names[1], "the name can be foretold");
    case.finishes();
    assert_eq!(mode(&case.db), 0o777, "the database is as the umask says");
}

#[test]
fn work_writable_by_others_is_refused() {
    let case = Case::plain(Way::Spill);
    case.dies_at("read:3");
    for mode in [0o777, 0o720, 0o1777, 0o702] {
        set_mode(case.partial(), mode);
        let said = format!("db.partial: may be written to by other users (mode {mode:o})");
        for args in RESTARTS {
            case.clone().arg(args).is_refused(&[&said, "hint: "]);
        }
    }
    // Read they may.
    set_mode(case.partial(), 0o755);
    case.finishes();
}

/// True if folders can be given to another user here.
fn can_give_away(case: &Case) -> bool {
    let can = chown(case.folder("probe"), Some(NOBODY), Some(NOBODY)).is_ok();
    if !can {
        crate::common::skipped("only root can make what another user would have prepared");
    }
    can
}

/// Starts in a folder that another user has prepared, is refused, and leaves all as it is.
#[track_caller]
fn is_refused_unharmed(case: &Case, victim: &Victim, what: &str, words: &[&str]) {
    for args in RESTARTS {
        case.clone().arg(args).fails(4, what, words);
        victim.is_unharmed(what);
    }
}

#[test]
fn foreign_partial_folder_is_refused() {
    let case = Case::plain(Way::Spill);
    let victim = Victim::new(&case);
    for planted in PLANTED.into_iter().filter(|&planted| planted != Folder) {
        planted.put(&case.partial(), &victim);
        let words = ["db.partial: is ", ", not a directory", "hint: "];
        is_refused_unharmed(&case, &victim, &format!("{planted:?}"), &words);
        std::fs::remove_file(case.partial()).expect("it goes");
    }
    case.finishes();
    case.again();
    if !can_give_away(&case) {
        return;
    }
    // As in /tmp.
    set_mode(case.path(""), 0o1777);
    let words =
        ["db.partial: belongs to user 65534, not to user 0", "hint: bedload uses only a directory of its own user"];
    for (number, name) in NAMES.into_iter().enumerate() {
        for &mode in in_turn(&[0o700, 0o755, 0o777], number) {
            for planted in in_turn(&[LinkToFile, LinkToFolder, Pipe], number + 1) {
                std::fs::create_dir(case.partial()).expect("a folder");
                planted.put(&case.partial().join(name), &victim);
                chown(case.partial(), Some(NOBODY), Some(NOBODY)).expect("root may");
                set_mode(case.partial(), mode);
                let what = format!("{planted:?} as {name}, mode {mode:o}");
                is_refused_unharmed(&case, &victim, &what, &words);
                assert_eq!(list(&case.partial()).len(), 1, "{what}: something was made or removed there");
                case.again();
            }
        }
    }
}

#[test]
fn foreign_folders_in_work_directory_are_ignored() {
    let case = Case::plain(Way::Spill).work_dir();
    if !can_give_away(&case) {
        return;
    }
    let (victim, work) = (Victim::new(&case), case.path("work"));
    // The beginning of the name can be seen while an import runs.
    case.dies_at("read:3");
    let name = list(&work)[0].file_name().expect("partitions").to_str().expect("text").to_owned();
    let seen = name.rsplitn(3, '.').last().expect("a name").to_owned();
    case.finishes();
    set_mode(&work, 0o1777);

    let theirs = [format!("{seen}.0000.spill"), format!("{seen}.zzzz.spill"), format!("{seen}.spill"), name];
    for name in &theirs {
        let dir = work.join(name);
        std::fs::create_dir(&dir).expect("a folder");
        LinkToFile.put(&dir.join("00000.part"), &victim);
        chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    symlink(&victim.dir, work.join(format!("{seen}.1111.spill"))).expect("a link");
    for restart in RESTARTS {
        case.again();
        case.dies_at("read:3");
        case.clone().arg(restart).finishes();
        victim.is_unharmed("a work directory");
    }
    assert_eq!(list(&work).len(), theirs.len() + 1, "what is not ours stays");
}

#[test]
fn user_files_among_the_work_are_kept() {
    for more in RESTARTS {
        let case = Case::of(small(), Way::Memory, From::File).arg(more);
        let partial = case.partial();
        let put = |dir: &str| {
            let dir = partial.join(dir);
            std::fs::create_dir_all(dir.join("sub")).expect("a folder");
            let paths = [dir.join("my.txt"), dir.join("sub/000001.sst")];
            paths.iter().for_each(|path| std::fs::write(path, "mine").expect("written"));
            set_mode(dir, 0o700);
            paths
        };
        let all = ["sst", "spill", "db"].map(put);
        std::fs::write(partial.join("lock"), "").expect("written");
        set_mode(&partial, 0o700);
        let words = " is a foreign file in the directory of the new database\nhint: move it away";
        case.fails(4, "in the database", &[words]);
        assert!(all.iter().flatten().all(|path| path.exists()));
        std::fs::remove_dir_all(partial.join("db")).expect("it goes");
        case.run().failed(0, "elsewhere", &["warning: ", " is not of an import: it stays where it is"]);
        for path in all[..2].iter().flatten() {
            assert!(std::fs::read(path).is_ok_and(|bytes| bytes == b"mine"), "{}", path.display());
        }
        case.holds_everything();
    }
}

#[test]
fn resume_publishes_no_file_of_the_user() {
    for (way, stage) in [(Way::Memory, "built"), (Way::Memory, "recorded"), (Way::Memtables, "compacted")] {
        let case = Case::of(small(), way, From::File);
        case.dies_at(stage);
        let staging = case.partial().join("db");
        std::fs::create_dir_all(&staging).expect("a folder");
        let theirs = staging.join("my.txt");
        std::fs::write(&theirs, "mine").expect("written");
        let words = ["/my.txt: is a foreign file in the directory of the new database", "hint: move it away and run"];
        case.fails(4, stage, &words);
        assert!(theirs.exists(), "{stage}: it is gone");
        std::fs::rename(&theirs, case.path("my.txt")).expect("moved");
        case.finishes();
    }
}
