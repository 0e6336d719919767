//! What another user has prepared under the names that an import uses: no link there leads to a file or directory of that
//! user that is then written, cut or removed.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::common::crash::*;
use crate::common::run::Place;

/// Another user.
const NOBODY: u32 = 65534;

/// A file and a folder that no import may touch.
struct Victim {
    dir: PathBuf,
    before: BTreeMap<PathBuf, (u32, u64, Vec<u8>)>,
}

impl Victim {
    /// With files under all names that imports have for theirs.
    fn new(place: &Place) -> Self {
        let dir = place.path("victim");
        std::fs::create_dir(&dir).expect("a folder");
        for name in
            ["file", "00000.part", "00001.part", "000001.sst", "CURRENT", "LOG", "lock", "journal", "MANIFEST-1"]
        {
            std::fs::write(dir.join(name), format!("precious {name}")).expect("written");
        }
        let before = Self::all(&dir);
        Self { dir, before }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("file")
    }

    fn all(dir: &Path) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
        let entries = dir.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
        let state = |path: PathBuf| {
            let there = path.metadata().expect("it is there");
            let bytes = std::fs::read(&path).expect("a file");
            (path, (there.mode(), there.ino(), bytes))
        };
        entries.map(state).collect()
    }

    #[track_caller]
    fn is_unharmed(&self, what: &str) {
        assert!(Self::all(&self.dir) == self.before, "{what}: another's files have changed");
    }
}

/// What stands in the place of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    LinkToFile,
    LinkToFolder,
    LinkToNothing,
    HardLink,
    Pipe,
    Folder,
}

const ALL: [Planted; 6] = [
    Planted::LinkToFile,
    Planted::LinkToFolder,
    Planted::LinkToNothing,
    Planted::HardLink,
    Planted::Pipe,
    Planted::Folder,
];

/// Two of a kind for each name in turn, and all in the long tests.
const PAIRS: [[Planted; 2]; 3] = [[ALL[0], ALL[3]], [ALL[1], ALL[4]], [ALL[2], ALL[5]]];

impl Planted {
    fn put(&self, at: &Path, victim: &Victim) {
        match at.symlink_metadata() {
            Ok(there) if there.is_dir() => std::fs::remove_dir_all(at).expect("it goes"),
            Ok(_) => std::fs::remove_file(at).expect("it goes"),
            Err(_) => {}
        }
        match self {
            Self::LinkToFile => symlink(victim.file(), at).expect("a link"),
            Self::LinkToFolder => symlink(&victim.dir, at).expect("a link"),
            // What is written through it would appear among the victim's files.
            Self::LinkToNothing => symlink(victim.dir.join("new"), at).expect("a link"),
            Self::HardLink => std::fs::hard_link(victim.file(), at).expect("a link"),
            Self::Pipe => {
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
            }
            Self::Folder => std::fs::create_dir(at).expect("a folder"),
        }
    }
}

/// Runs to a good end, or is refused and then comes to one with `--restart`; either way the victim keeps all.
#[track_caller]
fn ends_well(case: &Case, victim: &Victim, what: &str) -> bool {
    let ended = case.run();
    victim.is_unharmed(what);
    if ended.code == Some(0) {
        case.has_finished(&ended);
    } else {
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        assert!(ended.text("/hint").contains("--restart"), "{what}: {ended:?}");
        case.clone().arg(&["--restart"]).finishes();
    }
    victim.is_unharmed(&format!("{what}, then --restart"));
    ended.code == Some(0)
}

fn spilling(place: &Place) -> Case {
    Case::new(&place.path(""), plain(), Way::Spill, From::File)
}

#[test]
fn what_lies_in_a_partial_folder_before_an_import_is_not_followed() {
    let place = Place::in_memory();
    let victim = Victim::new(&place);
    let mut round = 0..;
    for way in [Way::Spill, Way::Memtables] {
        let case = Case::new(&place.path(""), plain(), way, From::File);
        for name in ["lock", "journal", "spill", "sst", "db", "BEDLOAD.json"] {
            for planted in in_turn(&PAIRS, round.next().expect("endless")).concat() {
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
fn what_takes_the_place_of_unfinished_work_is_not_followed() {
    let place = Place::in_memory();
    let victim = Victim::new(&place);
    let case = spilling(&place);
    let (mut refused, mut round) = (0, 0..);
    for (point, names) in [
        ("read:3", &["lock", "journal", "spill", "spill/00000.part", "spill/00000.run00000", "sst", "db"][..]),
        (
            "built",
            &["journal", "spill", "spill/00003.part", "sst", "sst/000001.sst", "sst/000002.sst", "sst/000099.sst"],
        ),
        ("ingested", &["journal", "spill", "sst", "db", "db/BEDLOAD.json"]),
        ("complete", &["lock", "journal", "spill", "sst", "db", "db/BEDLOAD.json"]),
    ] {
        case.dies_at(point);
        let died = place.path("died");
        copy(&case.partial(), &died);
        for name in names {
            let round = round.next().expect("endless");
            for planted in if point == "complete" { ALL[..2].to_vec() } else { in_turn(&PAIRS, round).concat() } {
                if !case.partial().exists() {
                    copy(&died, &case.partial());
                }
                planted.put(&case.partial().join(name), &victim);
                refused += usize::from(!ends_well(&case, &victim, &format!("{planted:?} as {name} at {point}")));
                case.again();
            }
        }
        std::fs::remove_dir_all(died).expect("it is ours");
    }
    assert!(refused > 0, "nothing was ever refused");
}

#[test]
fn the_name_of_the_partial_folder_itself_is_not_followed() {
    let place = Place::in_memory();
    let victim = Victim::new(&place);
    let case = spilling(&place);
    for planted in ALL.into_iter().filter(|&planted| planted != Planted::Folder) {
        planted.put(&case.partial(), &victim);
        for args in [&[][..], &["--restart"]] {
            let ended = case.clone().arg(args).run();
            assert_eq!(ended.code, Some(4), "{planted:?}: {ended:?}");
            ended.says(&["db.partial: is ", ", not a directory", "hint: "]);
            victim.is_unharmed(&format!("{planted:?}"));
        }
        std::fs::remove_file(case.partial()).expect("it goes");
    }
    case.finishes();
}

#[test]
fn a_folder_with_files_of_another_kind_is_not_taken_for_unfinished_work() {
    let place = Place::in_memory();
    let case = spilling(&place);
    std::fs::create_dir_all(case.partial().join("db")).expect("a folder");
    let precious = case.partial().join("db/precious");
    std::fs::write(&precious, "precious").expect("written");
    for args in [&[][..], &["--restart"]] {
        case.clone().arg(args).is_refused(&["db.partial: holds files that are not of an import", "--db"]);
        assert_eq!(std::fs::read(&precious).expect("it is there"), b"precious");
    }
    // And what lies beside the work of an import outlives it.
    std::fs::remove_dir_all(case.partial()).expect("it is ours");
    case.dies_at("read:3");
    std::fs::write(case.partial().join("notes"), "precious").expect("written");
    assert_eq!(case.run().code, Some(0));
    case.holds_everything();
    let left: Vec<_> = case.partial().read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["notes"]);
}

#[test]
fn folders_for_the_work_are_closed_to_others() {
    let place = Place::in_memory();
    let work = place.path("work");
    std::fs::create_dir(&work).expect("a folder");
    std::fs::set_permissions(&work, Permissions::from_mode(0o1777)).expect("ours");
    // Where everybody may write everything.
    let case = spilling(&place).arg(&["--work-dir", work.to_str().expect("text")]);
    let case = case.through(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    let mode = |path: &Path| path.metadata().expect("it is there").mode() & 0o7777;
    let mut names = Vec::new();
    for _ in 0..2 {
        case.dies_at("read:3");
        let spills: Vec<PathBuf> = work.read_dir().expect("a folder").flatten().map(|entry| entry.path()).collect();
        let [spill] = &spills[..] else { panic!("not one folder with partitions: {spills:?}") };
        for dir in [&case.partial(), &case.partial().join("sst"), spill] {
            assert_eq!(mode(dir), 0o700, "{}", dir.display());
        }
        names.push(spill.file_name().expect("a name").to_owned());
        // It goes on with them, and takes them away.
        case.finishes();
        assert_eq!(work.read_dir().expect("a folder").count(), 0, "partitions are left");
        case.again();
    }
    assert_ne!(names[0], names[1], "the name can be foretold");
    let mode = |place: &Path| place.metadata().expect("the database").mode() & 0o7777;
    case.finishes();
    assert_eq!(mode(&case.db), 0o777, "the database is as the umask says");
}

#[test]
fn work_that_others_may_write_to_is_refused() {
    let place = Place::in_memory();
    let case = spilling(&place);
    for mode in [0o777, 0o720, 0o1777, 0o702] {
        case.dies_at("read:3");
        std::fs::set_permissions(case.partial(), Permissions::from_mode(mode)).expect("ours");
        let said = format!("db.partial: may be written to by other users (mode {mode:o})");
        case.is_refused(&[&said, "hint: "]);
        case.clone().arg(&["--restart"]).is_refused(&[&said]);
        // Read they may.
        std::fs::set_permissions(case.partial(), Permissions::from_mode(0o755)).expect("ours");
        case.finishes();
        case.again();
    }
}

/// Whether folders can be given to another user here.
fn can_give_away(place: &Place) -> bool {
    let probe = place.path("probe");
    std::fs::create_dir(&probe).expect("a folder");
    let can = chown(&probe, Some(NOBODY), Some(NOBODY)).is_ok();
    if !can {
        crate::common::skipped("only root can make what another user would have prepared");
    }
    can
}

#[test]
fn a_partial_folder_of_another_user_is_refused() {
    let place = Place::in_memory();
    if !can_give_away(&place) {
        return;
    }
    let victim = Victim::new(&place);
    // As in /tmp.
    std::fs::set_permissions(place.path(""), Permissions::from_mode(0o1777)).expect("ours");
    let case = spilling(&place);
    for mode in [0o700, 0o755, 0o777] {
        for name in ["lock", "journal", "spill", "sst", "db", "BEDLOAD.json"] {
            for planted in [Planted::LinkToFile, Planted::LinkToFolder, Planted::Pipe] {
                std::fs::create_dir(case.partial()).expect("a folder");
                planted.put(&case.partial().join(name), &victim);
                chown(case.partial(), Some(NOBODY), Some(NOBODY)).expect("root may");
                std::fs::set_permissions(case.partial(), Permissions::from_mode(mode)).expect("root may");
                for args in [&[][..], &["--restart"]] {
                    case.clone().arg(args).is_refused(&[
                        "db.partial: belongs to user 65534, not to user 0",
                        "hint: bedload uses only a directory of its own user",
                    ]);
                    victim.is_unharmed(&format!("{planted:?} as {name}"));
                }
                let left: Vec<_> = case.partial().read_dir().expect("a folder").flatten().collect();
                assert_eq!(left.len(), 1, "something was made or removed there: {left:?}");
                case.again();
            }
        }
    }
}

#[test]
fn folders_of_another_user_in_a_work_directory_are_passed_over() {
    let place = Place::in_memory();
    if !can_give_away(&place) {
        return;
    }
    let victim = Victim::new(&place);
    let work = place.path("work");
    let case = spilling(&place).arg(&["--work-dir", work.to_str().expect("text")]);
    // The beginning of the name can be seen while an import runs.
    case.dies_at("read:3");
    let name = work.read_dir().expect("a folder").flatten().next().expect("partitions").file_name();
    let name = name.into_string().expect("text");
    let seen = name.rsplitn(3, '.').last().expect("a name").to_owned();
    case.finishes();
    std::fs::set_permissions(&work, Permissions::from_mode(0o1777)).expect("ours");

    let theirs = [format!("{seen}.0000.spill"), format!("{seen}.zzzz.spill"), format!("{seen}.spill"), name];
    for name in &theirs {
        let dir = work.join(name);
        std::fs::create_dir(&dir).expect("a folder");
        Planted::LinkToFile.put(&dir.join("00000.part"), &victim);
        chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    symlink(&victim.dir, work.join(format!("{seen}.1111.spill"))).expect("a link");
    for restart in [&[][..], &["--restart"]] {
        case.again();
        case.dies_at("read:3");
        case.clone().arg(restart).finishes();
        victim.is_unharmed("a work directory");
    }
    assert_eq!(work.read_dir().expect("a folder").count(), theirs.len() + 1, "what is not ours stays");
}

#[test]
fn files_of_the_user_among_the_work_are_kept_and_named() {
    let bedload = |args: &[&str]| {
        let output = crate::common::run::bedload().args(args).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for more in [None, Some("--restart")] {
        let place = Place::in_memory();
        let (car, db, partial) = (place.path("snapshot.car"), place.path("db"), place.path("db.partial"));
        let (car, db) = (car.to_str().expect("text"), db.to_str().expect("text"));
        assert_eq!(bedload(&["generate", car, "--size", "1MiB", "--quiet"]).0, Some(0));
        let put = |dir: &str| {
            let dir = partial.join(dir);
            std::fs::create_dir_all(dir.join("sub")).expect("a folder");
            let paths = [dir.join("my.txt"), dir.join("sub/000001.sst")];
            paths.iter().for_each(|path| std::fs::write(path, "mine").expect("written"));
            paths
        };
        let all = ["sst", "spill", "db"].map(put);
        std::fs::write(partial.join("lock"), "").expect("written");
        for dir in [&partial, &partial.join("sst"), &partial.join("spill"), &partial.join("db")] {
            std::fs::set_permissions(dir, Permissions::from_mode(0o700)).expect("ours");
        }
        let import: Vec<&str> = ["import", car, "--db", db, "--progress", "lines"].into_iter().chain(more).collect();
        let (code, said) = bedload(&import);
        assert_eq!(code, Some(4), "{said}");
        assert!(
            said.contains(" is not of an import, and stands where its database is made\nhint: move it away"),
            "{said}"
        );
        assert!(all.iter().flatten().all(|path| path.exists()), "{said}");
        std::fs::remove_dir_all(partial.join("db")).expect("it goes");
        let (code, said) = bedload(&import);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("warning: ") && said.contains(" is not of an import: it stays where it is"), "{said}");
        let kept = all[..2].iter().flatten();
        assert!(kept.clone().all(|path| std::fs::read(path).is_ok_and(|bytes| bytes == b"mine")), "{said}");
        assert_eq!(bedload(&["verify", "--db", db, "--quiet"]).0, Some(0));
    }
}

#[test]
fn a_file_of_the_user_among_the_files_of_the_database_is_not_published_by_a_resume() {
    let stages = [(Way::Memory, "built"), (Way::Memory, "recorded"), (Way::Memtables, "compacted")];
    for (way, stage) in stages {
        let place = Place::in_memory();
        let case = Case::new(&place.path(""), plain(), way, From::File);
        case.dies_at(stage);
        let staging = place.path("db.partial/db");
        std::fs::create_dir_all(&staging).expect("a folder");
        let theirs = staging.join("my.txt");
        std::fs::write(&theirs, "mine").expect("written");
        let ended = case.run();
        assert_eq!(ended.code, Some(4), "{stage}: {ended:?}");
        ended.says(&[
            "/my.txt: is not of an import, and stands where its database is made",
            "hint: move it away and run",
        ]);
        assert!(theirs.exists() && !place.path("db").exists(), "{stage}: {ended:?}");
        std::fs::rename(&theirs, place.path("my.txt")).expect("moved");
        case.finishes();
    }
}
