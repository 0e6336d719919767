//! A database where a snapshot is expected, and the reverse; directories; budgets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cli::{ends, output, with_database};
use crate::common::car::{block, noise, rooted};
use crate::common::run::{BEDLOAD, Place, hermetic};
use crate::common::{is_root, skipped};

#[test]
fn database_as_source_is_copied() {
    let place = with_database("256KiB");
    assert!(ends(&place, "inspect db", 0, "").stdout.contains("all records can be copied into a new database"));
    let words = "error: --full reads a snapshot\nhint: `bedload verify` reads all of a database\n";
    ends(&place, "inspect db --full", 2, words);
    let words = "error: --list reads a snapshot\nhint: ";
    ends(&place, "inspect db --list", 2, words);
    for (more, words) in [
        ("--key multihash", "error: a key layout has no effect on a RocksDB database\nhint: leave it out"),
        ("--skip-column-family default", "error: no column family is left to copy\nhint: skip fewer families"),
        (
            "--preset memtable",
            "error: the preset `memtable` writes through memtables, and a database is copied into SST files\nhint: ",
        ),
        ("--keep-old old", "error: "),
        ("snapshot.car", "error: db is a RocksDB database, which must be imported alone\nhint: name only the database"),
    ] {
        ends(&place, &format!("import db --db other {more}"), 2, words);
    }
    ends(&place, "import db --bundle other", 2, "error: a bundle cannot be made from a database\nhint: ");
    assert!(!place.path("other").exists() && !place.path("other.partial").exists());
    ends(&place, "import db --db other", 0, "");
    let words = "error: cannot add a RocksDB database to an existing database\nhint: import it into a new one";
    ends(&place, "import db --db other --into-existing", 2, words);
    ends(&place, "verify other --against db", 0, "");
    ends(
        &place,
        "verify other --sample 3",
        2,
        "error: a database of records is verified as a whole\nhint: omit --sample",
    );
    ends(&place, "walk other", 4, "has records of a program, which have no links\nhint: ");
    let words = "error: only RocksDB databases have samples, and families to choose or to skip\nhint: name at most one column family, and skip none";
    ends(&place, "import snapshot.car --db x --column-family a --column-family b", 2, words);
    ends(&place, "generate block_log --profile steem --size 64KiB --quiet", 0, "");
    ends(&place, "import block_log --db x --skip-column-family block_ids", 2, words);
}

#[test]
fn inspect_reads_a_directory_of_cars() {
    let place = Place::in_memory();
    std::fs::create_dir(place.path("cars")).expect("created");
    ends(&place, "inspect cars", 3, "no CAR (*.car, *.car.zst");
    place.file("cars/a.car", &rooted(&[block(b"one")]));
    place.file("two.car", &rooted(&[block(b"one")]).repeat(2));
    let hint = "hint: import it with: bedload import two.car --db DIR --concatenated\n";
    ends(&place, "inspect two.car --full", 3, hint);
    assert!(ends(&place, "inspect cars --full", 0, "").stdout.contains("cars/a.car"));
    assert!(ends(&place, "inspect cars --list", 0, "").stdout.contains("\"type\":\"block\""));
    let damaged = block(b"two");
    place.file("cars/b.car", &rooted(&[(damaged.0, b"2".to_vec())]));
    place.file("cars/c.car", &rooted(&[block(b"three")]));
    // Damage of one does not hide the others.
    let text = ends(&place, "inspect cars --full", 3, "b.car: 1 bad block found").stdout;
    assert!(text.contains("cars/a.car") && text.contains("cars/c.car"), "{text}");
    ends(&place, "inspect cars --list", 2, "--list takes one snapshot");
    ends(&place, "import cars --db db --verify none", 0, "");
}

#[test]
fn random_bytes_are_refused_as_a_source() {
    let place = Place::in_memory();
    for seed in 0..8 {
        place.file("random", &noise(seed, 5000));
        for line in ["inspect random", "import random --db db"] {
            ends(&place, line, 3, "this is neither a CAR nor a block log: ");
        }
    }
    ends(&place, "generate block_log --profile steem --size 64KiB --quiet", 0, "");
    let words = "this is not a CAR: it is a block log\nhint: leave --format car out";
    ends(&place, "import --format car block_log --db db", 3, words);
    place.file("x.car", &rooted(&[block(b"one")]));
    ends(&place, "import x.car --db db --quiet", 0, "");
    let words = "it is a block log\nhint: pass the CAR that the database was imported from";
    ends(&place, "verify db --against block_log", 3, words);
}

#[test]
fn unreadable_path_reports_the_permission() {
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    let place = Place::in_memory();
    place.file("x.car", &rooted(&[block(b"one")]));
    ends(&place, "import x.car --db db --quiet", 0, "");
    let (db, car, program) = (place.path("db"), place.path("x.car"), place.path("bedload"));
    std::fs::copy(BEDLOAD, &program).expect("a copy of the program");
    let paths = [&db, &car, &program, &place.path("")];
    paths.iter().zip([0o000, 0o000, 0o755, 0o777]).for_each(|(path, bits)| mode(path, bits));
    // Root may read everything: run as the user `nobody`.
    let command = || {
        let mut command = hermetic(if is_root() { "setpriv".as_ref() } else { program.as_os_str() });
        if is_root() {
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        }
        command
    };
    if command().arg("--version").output().is_err() {
        return skipped("there is no setpriv");
    }
    for name in ["stat", "verify"] {
        let ended = output(command().arg(name).arg(&db));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for words in [&format!("error: cannot read {}: ", db.display()), "hint: check the permissions with ls -ld"] {
            assert!(ended.stderr.contains(words), "{ended:?}");
        }
        assert!(ended.stderr.to_lowercase().contains("permission denied"), "{ended:?}");
    }
    mode(&db, 0o755);
    let refused = output(command().arg("import").arg(&car).arg("--db").arg(place.path("new")));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let error = format!("error: cannot read {}: no permission to read it\nhint: ", car.display());
    assert!(refused.stderr.starts_with(&error) && !place.path("new").exists(), "{refused:?}");
}

#[test]
fn budgets_below_the_minimum_are_refused() {
    let place = with_database("256KiB");
    for line in [
        "import snapshot.car --db new",
        "walk db",
        "verify db --against snapshot.car",
        "export db out.car",
        "inspect --full snapshot.car",
        "inspect snapshot.car",
        "doctor --dir /tmp",
    ] {
        let words = "the memory budget of 1 B is too small\nhint: pass --memory ";
        ends(&place, &format!("{line} --memory 1"), 2, words);
    }
    let words = "error: the memory budget of 15.0 MiB is too small\nhint: pass --memory 16MiB or more\n";
    ends(&place, "import snapshot.car --db new --memory 15MiB", 2, words);
    assert!(["out.car", "new", "new.partial"].iter().all(|name| !place.path(name).exists()));
}
