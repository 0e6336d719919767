//! Output paths: missing parents are not created, and no bundle is written into the work of an import.

use crate::cli::{ends, with_database};
use crate::common::run::Place;

/// A folder with a snapshot, its database `db` and a bundle of that.
fn place() -> Place {
    let place = with_database("1MiB");
    ends(&place, "bundle db --to bundle --quiet", 0, "");
    place
}

#[test]
fn missing_parents_are_not_created() {
    let place = place();
    for line in [
        "import snapshot.car --db typo/dir/x",
        "import snapshot.car --db typo/dir/x --dry-run",
        "import snapshot.car --db new --work-dir typo/dir/x",
        "import snapshot.car --db new --bundle typo/dir/x",
        "import snapshot.car --bundle other --work-dir typo/dir/x",
        "seed bundle --db typo/dir/x",
        "bundle db --to typo/dir/x",
        "export db typo/dir/x.car",
        "generate typo/dir/x.car --size 1MiB",
        "bench snapshot.car --presets ingest --out typo/dir/x",
        "bench snapshot.car --presets ingest --dir typo/dir/x",
        "man typo/dir/x",
    ] {
        let said = ends(&place, line, 1, "typo/dir/x").stderr;
        for words in [": No such file or directory", "typo/dir: check the path, or make it: mkdir -p "] {
            assert!(said.contains(words), "{line}: {said}");
        }
        assert!(!place.path("typo").exists() && !place.path("new.partial").exists(), "{line}");
    }
    let said = ends(&place, "generate gone/a.car --size 1MiB", 1, "").stderr;
    let hint = "hint: there is no directory gone: check the path, or make it: mkdir -p gone";
    assert_eq!(said, format!("error: cannot create gone/a.car: No such file or directory\n{hint}\n"));
    for line in [
        "import snapshot.car --db one --work-dir work --plan spill",
        "import snapshot.car --bundle two --work-dir work2",
        "bundle db --to three",
    ] {
        ends(&place, line, 0, "");
    }
}

#[test]
fn unusable_path_is_refused() {
    let place = place();
    let below_a_file = "hint: snapshot.car is a file, not a directory: check the path\n";
    let own = "hint: give the bundle a directory of its own";
    let [of_e, of_db] =
        ["e", "db"].map(|db| format!(" is within the work directory of the import, {db}.partial\n{own}"));
    std::fs::create_dir(place.path("elsewhere")).expect("made");
    std::os::unix::fs::symlink("elsewhere", place.path("linked")).expect("linked");
    for (line, code, words) in [
        ("import snapshot.car --db linked", 4, "already exists"),
        ("import snapshot.car --db snapshot.car/db", 1, below_a_file),
        ("import snapshot.car --db snapshot.car/no/db", 1, below_a_file),
        ("seed bundle --db snapshot.car/db", 1, below_a_file),
        ("import snapshot.car --db new --work-dir snapshot.car/work", 1, below_a_file),
        ("bundle db --to snapshot.car/bundle", 1, below_a_file),
        ("import snapshot.car --db e --bundle e.partial", 2, &of_e),
        ("import snapshot.car --db e/ --bundle ./e.partial/sst", 2, &of_e),
        ("import snapshot.car --db e --bundle e/b", 2, " is within the database e\nhint: give the bundle a"),
        ("bundle db --to db.partial", 2, &of_db),
        ("bundle db/ --to db/b", 2, " is within the database db/\nhint: give the bundle a directory of its own"),
        (
            "import snapshot.car --db db",
            4,
            "choose another --db, add the blocks of a CAR to it with --into-existing, or replace it",
        ),
        (
            "import snapshot.car --db s3://b/x",
            2,
            "cannot make a database at s3://b/x: it is a URL: databases are local",
        ),
        (
            "import snapshot.car --db x.partial",
            2,
            "cannot make a database at x.partial: names that end in .partial are reserved",
        ),
        ("import snapshot.car --db db/in", 4, "db/in: would be in the database db\nhint: choose another --db"),
        ("import snapshot.car --db snapshot.car", 4, "already exists, and is not a RocksDB database\nhint: choose"),
        ("import snapshot.car --db bundle --into-existing", 4, "to import into\nhint: choose another --db"),
        (
            "import snapshot.car --db m --work-dir m",
            2,
            "cannot use the work directory m: it is the place of the database",
        ),
        ("import snapshot.car --db m --work-dir ./m.partial", 2, "it is the place of the database"),
        ("import snapshot.car --db db --replace --work-dir db", 2, "it is the place of the database"),
        ("import snapshot.car --db m --work-dir snapshot.car", 2, "snapshot.car: it is a file"),
        ("import gone --db m", 3, "cannot read gone: there is no such file\n"),
        ("import @gone --db m", 3, "cannot open gone: No such file or directory\n"),
        ("import snapshot.car --db m --options-file gone", 3, "cannot read gone: No such file or directory\n"),
        ("import snapshot.car --db m --preset ./gone", 3, "cannot open ./gone: No such file or directory\n"),
        ("import snapshot.car --db m --checksum sha256:gone", 3, "cannot read gone: No such file or directory\n"),
        ("export db m --format car --cids gone", 3, "cannot open gone: No such file or directory\n"),
        ("import snapshot.car --db m --metrics m", 2, "the name does not end in .prom"),
        ("import snapshot.car --db m --metrics db/m.prom", 2, "the directory is a RocksDB database"),
        ("verify db --metrics db/LOCK", 2, "the name does not end in .prom"),
    ] {
        ends(&place, line, code, words);
        for made in ["m", "m.partial", "x.partial", "linked.partial", "db/m.prom", "s3:", "e.partial", "db.partial"] {
            assert!(!place.path(made).exists(), "{line}: {made}");
        }
    }
}

#[test]
fn memory_beyond_the_machine_gives_a_warning() {
    let place = place();
    for line in ["import snapshot.car --db e --memory 100TiB", "seed bundle --db f --memory 100TiB"] {
        ends(&place, line, 0, "warning: the memory budget of 100.0 TiB is more than the ");
    }
    let said = ends(&place, "import snapshot.car --db g --memory 64MiB", 0, "").stderr;
    assert!(!said.contains("warning"), "{said}");
}
