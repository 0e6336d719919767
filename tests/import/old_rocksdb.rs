//! An imported database has a sequence number above 0, so that a node with an older RocksDB loses no record. `stat`,
//! `verify` and `doctor` report a database at 0.
//!
//! RocksDB before its change 13155 drops every ingested key when it compacts while a snapshot lives that was taken before
//! the first write. The nodes here are Debian's librocksdb 7.8 and the Python package rocksdict 0.3.24 with RocksDB 9.0:
//! `make test-slow` installs both. Each runs in a separate process (`compat/old_node.py`).
//!
//! Older nodes that take their options from the OPTIONS file load it, too: Debian's `ldb`, and rocksdict.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::database::{bedload, generate, generate_as, import, json, open, ssts};
use crate::common::run::Place;
use predicates::str::contains;
use rust_rocksdb::{BlockBasedOptions, DB, IngestExternalFileOptions, IteratorMode, Options, SstFileWriter};
use serde_json::Value;

/// Older RocksDBs: what `old_node.py` calls them, what tells whether they are there, and what they are.
const NODES: [(&str, &str, &str); 2] = [
    ("librocksdb.so.7.8", "import ctypes; ctypes.CDLL('librocksdb.so.7.8')", "Debian's librocksdb7.8"),
    ("rocksdict", "import importlib.metadata as it; assert it.version('rocksdict') == '0.3.24'", "rocksdict 0.3.24"),
];

pub fn python() -> Command {
    let mut python = Command::new(std::env::var_os("BEDLOAD_PYTHON").unwrap_or_else(|| "python3".into()));
    // scripts/old-rocksdb installs it there.
    python.env("PYTHONPATH", Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("old-rocksdb"));
    python
}

/// The installed nodes; a notice names the missing ones.
pub fn nodes() -> Vec<&'static str> {
    let is_here = |&&(_, check, name): &&(&str, &str, &str)| {
        let here = python().args(["-c", check]).output().is_ok_and(|output| output.status.success());
        if !here {
            crate::common::skipped(format_args!("no {name} here; make test-slow installs it"));
        }
        here
    };
    NODES.iter().filter(is_here).map(|(node, ..)| *node).collect()
}

/// Lets a node compact a copy of a database while a snapshot from before its first write lives.
#[track_caller]
fn compacted(node: &str, db: &Path, more: &[&str]) -> Value {
    let place = Place::in_memory();
    let copy = place.path("db");
    assert!(Command::new("cp").arg("-r").args([db, &copy]).status().expect("cp").success());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/old_node.py");
    let output = python().args([script, node]).arg(&copy).args(more).output().expect("it runs");
    assert!(output.status.success(), "{node}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Every node keeps every record of every family.
#[track_caller]
fn keeps_everything(db: &Path, families: &[&str]) {
    for node in nodes() {
        let found = compacted(node, db, &[]);
        assert_eq!(found["kept"], found["had"], "{node}");
        for family in families {
            assert!(found["had"][family].as_u64() > Some(0), "{node}: {family} of {found}");
        }
    }
}

/// Past sequence number 0, with these families and no others, and everything at the last level.
#[track_caller]
fn has_nonzero_sequence(db: &Path, families: &[&str]) {
    let mut found = DB::list_cf(&Options::default(), db).expect("its families");
    found.sort();
    assert_eq!(found, families);
    let stat = json(&["stat"], db, &[], 0);
    assert!(stat["last_sequence"].as_u64() >= Some(1), "{stat}");
    assert_eq!(stat["warnings"], Value::Array(Vec::new()));
    for family in stat["column_families"].as_array().expect("families") {
        let levels = family["levels"].as_array().expect("levels");
        assert!(levels.len() <= 1 && levels.iter().all(|level| level["level"] == 6), "{levels:?}");
    }
    let live = stat["column_families"].as_array().into_iter().flatten().map(|family| family["files"].as_u64());
    assert_eq!(Some(ssts(db).len() as u64), live.sum(), "a file of no family");
}

/// An empty database of the oldest format.
fn empty(db: &Path) -> (Options, DB) {
    let mut table = BlockBasedOptions::default();
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.create_if_missing(true);
    let new = DB::open(&options, db).expect("a new database");
    (options, new)
}

/// The records of a database, ingested into another at sequence number 0, as older versions of the import did.
fn at_sequence_zero(dir: &Path) -> PathBuf {
    let made = import(dir, &generate(dir, "1MiB"), &["--preset", "ingest-compat"]);
    let (sst, db) = (dir.join("all.sst"), dir.join("zero"));
    let (options, new) = empty(&db);
    let mut writer = SstFileWriter::create(&options);
    writer.open(&sst).expect("a file");
    for record in open(&made).iterator(IteratorMode::Start) {
        let (key, value) = record.expect("a record");
        writer.put(key, value).expect("put");
    }
    writer.finish().expect("finished");
    new.ingest_external_file_opts(&IngestExternalFileOptions::default(), vec![&sst]).expect("ingested");
    assert_eq!(new.latest_sequence_number(), 0);
    db
}

const LOG: [&str; 4] = ["--profile", "steem", "--size", "1MiB"];

#[test]
fn old_node_keeps_every_record() {
    let place = Place::in_memory();
    let (car, log) = (generate(&place.path(""), "2MiB"), generate_as(place.path("block_log"), &LOG));
    let compat = ["--preset", "ingest-compat"];
    for (source, more, families) in [
        (&car, &compat[..], &["default"][..]),
        (&car, &[&compat[..], &["--column-family", "chain"]].concat(), &["chain", "default"]),
        (&log, &[&compat[..], &["--indexes", "ids,transactions"]].concat(), &["block_ids", "default", "transactions"]),
        (&car, &["--into-existing"], &["default"]),
    ] {
        if more == ["--into-existing"] {
            assert_eq!(empty(&place.path("db")).1.latest_sequence_number(), 0);
        }
        let db = import(&place.path(""), source, more);
        has_nonzero_sequence(&db, families);
        // The family of the blocks may have left the default one empty.
        keeps_everything(&db, if families[0] == "chain" { &families[..1] } else { families });
        std::fs::remove_dir_all(db).expect("a database");
    }
}

/// Debian's `ldb` of RocksDB 7.8, if it is here.
fn old_ldb() -> Option<Command> {
    let dir = std::env::var_os("BEDLOAD_ROCKSDB_7_TOOLS").map(PathBuf::from).unwrap_or_default();
    let path = dir.join("ldb");
    let output = Command::new(&path).arg("--version").output().ok();
    let is_old = output.is_some_and(|it| it.status.success() && String::from_utf8_lossy(&it.stdout).contains(" 7.8"));
    if !is_old {
        crate::common::skipped(format_args!("no ldb of RocksDB 7.8 here; apt install rocksdb-tools"));
    }
    is_old.then(|| Command::new(path))
}

/// The records that 7.8's `ldb` finds with the options of the OPTIONS file, or what it says.
fn scanned(mut ldb: Command, db: &Path, family: &str) -> Result<usize, String> {
    let arguments = [format!("--db={}", db.display()), format!("--column_family={family}")];
    let output = ldb.args(arguments).args(["--try_load_options", "scan", "--hex"]).output().expect("it runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match text.lines().filter(|line| line.starts_with("0x")).count() {
        0 => Err(text),
        records => Ok(records),
    }
}

/// The records that rocksdict finds in the default family with the options of the OPTIONS file; `None` without it.
fn loaded_by_rocksdict(db: &Path) -> Option<usize> {
    let script = "import rocksdict, sys\n\
        options, families = rocksdict.Options.load_latest(sys.argv[1])\n\
        db = rocksdict.Rdict(sys.argv[1], options, column_families=families)\n\
        print(sum(1 for _ in db.keys()))";
    nodes().contains(&"rocksdict").then(|| {
        let output = python().args(["-c", script]).arg(db).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    })
}

#[test]
fn old_node_loads_the_options_file() {
    let place = Place::in_memory();
    let (car, log) = (generate(&place.path(""), "1MiB"), generate_as(place.path("block_log"), &LOG));
    // RocksDB 7.8 reads the families that are named, and cannot read the files of `ingest`, which shows that this test can
    // fail.
    for (source, preset, readable_by_7_8) in [
        (&car, "ingest-compat", Some(&["default"][..])),
        (&log, "ingest-compat", Some(&["default", "block_ids"])),
        (&car, "ingest", Some(&[])),
        (&car, "ingest-zstd", None),
        (&log, "ingest", None),
    ] {
        let own = Place::in_memory();
        let args: Vec<&str> = ["--preset"].into_iter().chain(preset.split(' ')).collect();
        let db = import(&own.path(""), source, &args);
        json(&["verify"], &db, &[], 0);
        let stat = json(&["stat"], &db, &[], 0);
        let entries = |name: &str| {
            let mut families = stat["column_families"].as_array().expect("families").iter();
            families
                .find(|family| family["name"] == name)
                .and_then(|family| family["entries"].as_u64())
                .expect("counted")
        };
        assert!(entries("default") > 10, "{preset}: {stat}");
        for family in readable_by_7_8.unwrap_or_default() {
            if let Some(ldb) = old_ldb() {
                assert_eq!(scanned(ldb, &db, family), Ok(entries(family) as usize), "{preset}: {family}");
            }
        }
        if let (Some([]), Some(ldb)) = (readable_by_7_8, old_ldb()) {
            let said = scanned(ldb, &db, "default").expect_err("another format");
            assert!(said.contains("unsupported format_version"), "{said}");
        }
        // Last: it writes a new OPTIONS file.
        if let Some(found) = loaded_by_rocksdict(&db) {
            assert_eq!(found as u64, entries("default"), "{preset}");
        }
    }
}

#[test]
fn sequence_zero_is_reported_with_remedy() {
    let place = Place::in_memory();
    let db = at_sequence_zero(&place.path(""));
    let warned = |report: &Value| {
        let found: Vec<&Value> = report["warnings"].as_array().expect("warnings").iter().collect();
        found.into_iter().find(|warning| warning["id"] == "sequence-zero").cloned()
    };
    let doctor = |dir: &Path| {
        crate::common::run::json(bedload().args(["doctor", "--dir"]).arg(dir).env("HOME", place.path("")), 0)
    };
    let of_stat = json(&["stat"], &db, &[], 0);
    assert_eq!(of_stat["last_sequence"], 0);
    for report in [&of_stat, &json(&["verify"], &db, &[], 0), &doctor(&db)] {
        let Value::Object(warning) = warned(report).expect("it is named") else { panic!("an object") };
        let says = |name: &str, words: &str| warning[name].as_str().is_some_and(|text| text.contains(words));
        assert!(says("finding", "has the sequence number 0") && says("remedy", "write one record"), "{warning:?}");
    }
    for command in ["stat", "verify"] {
        let warned = bedload().args([command, "--db"]).arg(&db).assert().success();
        warned.stdout(contains("has the sequence number 0")).stdout(contains("write one record before any snapshot"));
    }
    // The cure that is named, and the bug it is for: else the tests above would show nothing.
    for node in nodes() {
        let ill = compacted(node, &db, &[]);
        assert_eq!((&ill["sequence"], &ill["kept"]["default"]), (&0.into(), &0.into()), "{node} has no such bug");
        let cured = compacted(node, &db, &["--write-first"]);
        assert_eq!(cured["kept"], cured["had"], "{node}");
    }
    // An import into it is another.
    let mut add = bedload();
    add.arg("import").arg(place.path("snapshot.car")).arg("--db").arg(&db).arg("--into-existing").assert().success();
    assert!(json(&["stat"], &db, &[], 0)["last_sequence"].as_u64() >= Some(1));
    assert_eq!(warned(&doctor(&db)), None);
    keeps_everything(&db, &["default"]);
}
