//! Output paths: missing parents are not created, and no bundle is written into the work of an import.

use std::path::Path;

use crate::common::database::generate;
use crate::common::run::bedload;

#[track_caller]
fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = bedload().args(args).current_dir(dir).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A directory with a snapshot, its database `db` and a bundle of that.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "1MiB");
    for args in
        [&["import", "snapshot.car", "--db", "db", "--quiet"][..], &["bundle", "db", "--to", "bundle", "--quiet"]]
    {
        let (code, said) = run(dir.path(), args);
        assert_eq!(code, Some(0), "{said}");
    }
    dir
}

#[test]
fn missing_parents_are_not_created() {
    let dir = place();
    for args in [
        &["import", "snapshot.car", "--db", "typo/dir/x"][..],
        &["import", "snapshot.car", "--db", "typo/dir/x", "--dry-run"],
        &["import", "snapshot.car", "--db", "new", "--work-dir", "typo/dir/x"],
        &["import", "snapshot.car", "--db", "new", "--bundle", "typo/dir/x"],
        &["import", "snapshot.car", "--bundle", "other", "--work-dir", "typo/dir/x"],
        &["seed", "bundle", "--db", "typo/dir/x"],
        &["bundle", "db", "--to", "typo/dir/x"],
        &["export", "db", "typo/dir/x.car"],
        &["generate", "typo/dir/x.car", "--size", "1MiB"],
        &["bench", "snapshot.car", "--presets", "ingest", "--out", "typo/dir/x"],
        &["bench", "snapshot.car", "--presets", "ingest", "--dir", "typo/dir/x"],
        &["man", "typo/dir/x"],
    ] {
        let (code, said) = run(dir.path(), args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("typo/dir/x") && said.contains(": No such file or directory"), "{args:?}: {said}");
        assert!(said.contains("typo/dir: check the path, or make it: mkdir -p "), "{args:?}: {said}");
        assert!(!dir.path().join("typo").exists() && !dir.path().join("new.partial").exists(), "{args:?}");
    }
    for args in [
        &["import", "snapshot.car", "--db", "one", "--work-dir", "work", "--plan", "spill"][..],
        &["import", "snapshot.car", "--bundle", "two", "--work-dir", "work2"],
        &["bundle", "db", "--to", "three"],
    ] {
        let (code, said) = run(dir.path(), args);
        assert_eq!(code, Some(0), "{args:?}: {said}");
    }
}

#[test]
fn path_below_a_file_is_refused() {
    let dir = place();
    for args in [
        &["import", "snapshot.car", "--db", "snapshot.car/db"][..],
        &["import", "snapshot.car", "--db", "snapshot.car/no/db"],
        &["seed", "bundle", "--db", "snapshot.car/db"],
        &["import", "snapshot.car", "--db", "new", "--work-dir", "snapshot.car/work"],
        &["bundle", "db", "--to", "snapshot.car/bundle"],
    ] {
        let (code, said) = run(dir.path(), args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("hint: snapshot.car is a file, not a directory: check the path\n"), "{args:?}: {said}");
    }
}

#[test]
fn unusable_database_path_is_refused() {
    let dir = place();
    for (args, code, words) in [
        (&["import", "snapshot.car", "--db", "s3://b/x"][..], 2, "--db s3://b/x: it is a URL: databases are local"),
        (&["import", "snapshot.car", "--db", "x.partial"], 2, "--db x.partial: it is a name of unfinished work"),
        (
            &["import", "snapshot.car", "--db", "db/in"],
            4,
            "db/in: would be in the database db\nhint: choose another --db",
        ),
        (
            &["import", "snapshot.car", "--db", "snapshot.car"],
            4,
            "already exists, and is not a RocksDB database\nhint: choose",
        ),
        (
            &["import", "snapshot.car", "--db", "bundle", "--into-existing"],
            4,
            "to import into\nhint: choose another --db",
        ),
        (
            &["import", "snapshot.car", "--db", "m", "--work-dir", "m"],
            2,
            "--work-dir m: it is the place of the database",
        ),
        (&["import", "snapshot.car", "--db", "m", "--work-dir", "./m.partial"], 2, "it is the place of the database"),
        (
            &["import", "snapshot.car", "--db", "db", "--replace", "--work-dir", "db"],
            2,
            "it is the place of the database",
        ),
        (&["import", "snapshot.car", "--db", "m", "--work-dir", "snapshot.car"], 2, "it is a file, not a directory"),
        (&["import", "snapshot.car", "--db", "m", "--metrics", "m"], 2, "the name does not end in .prom"),
        (&["import", "snapshot.car", "--db", "m", "--metrics", "db/m.prom"], 2, "the directory is a RocksDB database"),
        (&["verify", "db", "--metrics", "db/LOCK"], 2, "the name does not end in .prom"),
        (&["import", "db"], 3, "it is a RocksDB database, not a snapshot"),
    ] {
        let (found, said) = run(dir.path(), args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        for made in ["m", "m.partial", "x.partial", "db/m.prom", "s3:"] {
            assert!(!dir.path().join(made).exists(), "{args:?}: {made}");
        }
    }
}

#[test]
fn bundle_in_a_work_directory_is_refused() {
    let dir = place();
    std::os::unix::fs::symlink("e.partial", dir.path().join("link")).expect("linked");
    for (args, what) in [
        (
            &["import", "snapshot.car", "--db", "e", "--bundle", "e.partial"][..],
            "the work directory of the import, e.partial",
        ),
        (
            &["import", "snapshot.car", "--db", "e/", "--bundle", "./e.partial/sst"],
            "the work directory of the import, e.partial",
        ),
        (&["import", "snapshot.car", "--db", "e", "--bundle", "e/b"], "the database e"),
        (&["bundle", "db", "--to", "db.partial"], "the work directory of the import, db.partial"),
        (&["bundle", "db/", "--to", "db/b"], "the database db/"),
    ] {
        let (code, said) = run(dir.path(), args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(
            said.contains(&format!(" is within {what}\nhint: give the bundle a directory of its own")),
            "{args:?}: {said}"
        );
        assert!(!dir.path().join("e.partial").exists() && !dir.path().join("db.partial").exists(), "{args:?}");
    }
}

#[test]
fn memory_beyond_the_machine_gives_a_warning() {
    let dir = place();
    for args in [&["import", "snapshot.car", "--db", "e"][..], &["seed", "bundle", "--db", "f"]] {
        let (code, said) = run(dir.path(), &[args, &["--memory", "100TiB"]].concat());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("warning: --memory 100.0TiB is more than the "), "{said}");
    }
    let (_, said) = run(dir.path(), &["import", "snapshot.car", "--db", "g", "--memory", "64MiB"]);
    assert!(!said.contains("warning"), "{said}");
}
