//! Refusals of the commands that read a database: wrong paths, keys, column families, lists and names of files.

use crate::cli::{command, ends, with_database, with_snapshot};
use crate::common::car::zstd;
use crate::common::run::Place;

const CID: &str = "bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu";

/// A folder with a database `db` of a block log.
fn with_log() -> Place {
    let place = Place::in_memory();
    ends(&place, "generate block_log --profile steem --size 256KiB --quiet", 0, "");
    ends(&place, "import block_log --db db --quiet", 0, "");
    place
}

#[test]
fn every_reader_refuses_other_paths() {
    let place = with_snapshot("1MiB");
    place.file("packed.car.zst", &zstd(&std::fs::read(place.path("snapshot.car")).expect("read")));
    place.file("text", b"a text");
    ["empty", "begun.partial"].iter().for_each(|name| std::fs::create_dir(place.path(name)).expect("made"));
    place.file("begun.partial/journal", b"");
    let takes = "`bedload import` makes a database from it";
    let name = "name the directory that an import made";
    let resumes = "run the same `bedload import` command again to finish the import\n";
    for (path, words, hint) in [
        ("snapshot.car", "is a snapshot, not a database", takes),
        ("packed.car.zst", "is a snapshot, not a database", takes),
        ("text", "is a file, not a database", takes),
        ("empty", "is not a RocksDB database", name),
        ("nothing", "there is no such directory", name),
        ("begun", "there is no such directory", "its import is not finished: run the same `bedload import` command"),
        ("begun.partial", "is an unfinished import, not a database", resumes),
    ] {
        for reader in ["verify", "stat", "walk", "export out.car", "get bafkqaaa", "bundle --to out.car"] {
            let said = ends(&place, &format!("{reader} --db {path}"), 4, "").stderr;
            assert!(said.starts_with(&format!("error: {path}: {words}\nhint: {hint}")), "{reader}: {said}");
        }
    }
}

#[test]
fn wrong_key_layout_is_refused() {
    let place = with_snapshot("256KiB");
    let get = format!("get {CID}");
    let readers = ["verify", &get, "verify --sample 9", "walk", "export out.car"];
    for (made, plural, others) in
        [("cid", "CIDs", ["multihash", "digest"]), ("digest", "digests", ["cid", "multihash"])]
    {
        let refused = |reader: &str, key: &str, hint: &str| {
            let words = format!("error: db: the keys of this database are {plural}\nhint: {hint}\n");
            ends(&place, &format!("{reader} --db db --key {key}"), 4, &words);
        };
        ends(&place, &format!("import snapshot.car --db db --key {made} --quiet"), 0, "");
        for (reader, other) in readers.iter().flat_map(|reader| others.map(|other| (reader, other))) {
            refused(reader, other, "omit --key: BEDLOAD.json records the key layout");
        }
        assert!(!place.path("out.car").exists());
        ends(&place, &format!("verify --db db --key {made}"), 0, "");
        // Without a record the keys themselves tell.
        std::fs::remove_file(place.path("db/BEDLOAD.json")).expect("removed");
        for reader in &readers[..2] {
            let hint = format!("give --key {made}, or --key any if they are records of another program");
            refused(reader, others[1], &hint);
        }
        ends(&place, &format!("verify --db db --key {made}"), 0, "");
        std::fs::remove_dir_all(place.path("db")).expect("removed");
    }
    let log = with_log();
    for reader in ["verify", "walk", "get 1"] {
        let words = "error: db: the keys of this database are block numbers\nhint: omit --key: BEDLOAD.json records the key \
                     layout\n";
        ends(&log, &format!("{reader} --db db --key cid"), 4, words);
    }
}

#[test]
fn wrong_column_family_is_refused() {
    let place = with_snapshot("256KiB");
    ends(&place, "import snapshot.car --db db --column-family chain --quiet", 0, "");
    for reader in ["verify", "walk", &format!("get {CID}"), "export out.car"] {
        let words = "error: db: the blocks of this database are in the column family chain, not in default\nhint: omit \
                     --column-family: BEDLOAD.json records it\n";
        ends(&place, &format!("{reader} --db db --column-family default"), 4, words);
    }
    ends(&place, "verify --db db --column-family chain", 0, "");
}

#[test]
fn walk_refuses_a_block_log() {
    assert_eq!(
        ends(&with_log(), "walk db", 4, "").stderr,
        "error: db: contains a block log, whose blocks link only to the previous block\n\
         hint: bedload verify checks that each block follows the previous one\n"
    );
}

#[test]
fn missing_root_or_file_is_explained() {
    let place = with_database("1MiB");
    for (line, code, words) in [
        (
            "export nowhere",
            2,
            "error: no output file is given\nhint: name both, e.g. bedload export chain chain.car; `-` \
             is standard output\n",
        ),
        ("export --db nowhere nowhere out.car", 2, "error: the database is named twice\n"),
        // A missing database is reported first.
        ("export nowhere out.car", 4, "there is no such directory"),
    ] {
        ends(&place, line, code, words);
    }
    ends(&place, "import snapshot.car --db hashes --key multihash --quiet", 0, "");
    for db in ["db", "hashes"] {
        std::fs::remove_file(place.path(db).join("BEDLOAD.json")).expect("removed");
    }
    for (command, args, hint) in [
        ("walk", "db", ""),
        ("export", "db out.car", ", or export every record with --all"),
        ("export", "hashes out.car --key multihash", ", or the blocks to export with --cids FILE"),
    ] {
        let error = format!("no root to {command} from: the database has no BEDLOAD.json that names one");
        let said = ends(&place, &format!("{command} {args}"), 2, "").stderr;
        assert_eq!(said, format!("error: {error}\nhint: name one with --root CID{hint}\n"));
    }
}

#[test]
fn export_refuses_unusable_files_and_lists() {
    let place = with_database("1MiB");
    for (list, words) in [
        ("\n\nnonsense\n", "error: line 3 of list is not a CID: "),
        ("\n\nnonsense\n", "one CID per line"),
        ("\n", "error: list contains no CID\nhint: "),
    ] {
        place.file("list", list.as_bytes());
        ends(&place, "export --cids list --json db out.car", 2, words);
        assert!(!place.path("out.car").exists());
    }
    let to = place.file("out.car", b"mine");
    let words = "error: out.car: the output already exists\nhint: choose another name, or replace it with --force\n";
    assert_eq!(ends(&place, "export db out.car", 4, "").stderr, words);
    assert_eq!(std::fs::read(&to).expect("read"), b"mine");
    ends(&place, "export db out.car --force", 0, "");
    assert!(std::fs::metadata(&to).expect("a file").len() > 1 << 19);
    for name in ["out.car.gz", "out.tar", "out.zst", "out"] {
        assert_eq!(
            ends(&place, &format!("export db {name}"), 2, "").stderr,
            format!(
                "error: the suffix of {name} is not a format that this database can be exported to\nhint: use the suffix .car, .car.zst or \
                 .forest.car.zst, or pass --format\n"
            )
        );
        assert!(!place.path(name).exists());
    }
    // The option wins over the ending.
    let report = ends(&place, "export db out.car.zst --format car --json", 0, "").json();
    assert_eq!(report["format"], "car");
    let bytes = std::fs::read(place.path("out.car.zst")).expect("read");
    assert_ne!(bytes[..4], [0x28, 0xb5, 0x2f, 0xfd], "it is packed");
}

#[test]
fn export_writes_only_the_snapshot_to_stdout() {
    let place = with_database("3MiB");
    ends(&place, "export db out.car --report report.json --quiet", 0, "");
    let output = command(&place, "export --json - --db db --progress off").output().expect("run");
    assert!(output.status.success());
    assert!(output.stdout == std::fs::read(place.path("out.car")).expect("read"));
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("the report");
    let filed = std::fs::read(place.path("report.json")).expect("read");
    let filed: serde_json::Value = serde_json::from_slice(&filed).expect("JSON");
    assert_eq!((&report["digest"], &report["file"]), (&filed["digest"], &"-".into()));
}

#[test]
fn truncated_snapshot_names_the_offset() {
    let place = with_snapshot("3MiB");
    let bytes = std::fs::read(place.path("snapshot.car")).expect("read");
    place.file("snapshot.car", &bytes[..2_000_000]);
    for way in ["--full", "--list"] {
        ends(&place, &format!("inspect {way} snapshot.car"), 3, "at byte 2000000: the snapshot ends inside ");
    }
}
