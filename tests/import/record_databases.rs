//! Commands on databases that were imported from streams of records.

use predicates::str::contains;
use rust_rocksdb::{DB, Options};

use super::rebuild::files;
use super::records::{dump, import, kv, refused};
use crate::common::database::{bedload, json};
use crate::common::run::Place;

/// The bug: the largest family was read, and keys of others were reported as missing.
#[test]
fn get_asks_for_one_of_several_families() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["users", "posts"], false, &[(0, b"u", b"1"), (1, b"p", b"2")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    let get = |more: &[&str]| bedload().arg("get").arg(&db).arg("75").args(more).assert();
    get(&[])
        .code(2)
        .stderr(contains("the database has 2 column families\nhint: pass --column-family, e.g. users or posts\n"));
    get(&["--column-family", "users"]).success().stdout("31\n");
    let empty = place.file("empty.kv", &kv(&["default"], false, &[(0, b"", b"3")]));
    import(&[&empty], &place.path("empty")).assert().success();
    bedload().arg("get").arg(place.path("empty")).arg("0x").assert().success().stdout("33\n");
    get(&["--column-family", "posts"]).code(1).stderr(contains("check the key, and --column-family"));
}

#[test]
fn bundle_of_records_is_refused() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1")]));
    let (db, to) = (place.path("db"), place.path("bundle"));
    import(&[&source], &db).assert().success();
    let words = contains("has records without hashes, and a bundle has blocks");
    bedload().arg("bundle").arg(&db).arg("--to").arg(&to).assert().code(4).stderr(words);
    assert!(!to.exists());
}

/// The bug: intact databases were called damaged.
#[test]
fn verify_names_a_wrong_stream() {
    let place = Place::in_memory();
    let one = place.file("1.kv", &kv(&["default"], false, &[(0, b"a", b"1"), (0, b"b", b"1")]));
    let two = place.file("2.kv", &kv(&["default"], false, &[(0, b"a", b"2")]));
    let db = place.path("db");
    import(&[&one], &db).assert().success();
    let report = json(&["verify"], &db, &["--against", two.to_str().expect("text")], 3);
    assert_eq!(report["verdict"], "differs");
    assert!(report["problems"]["kinds"].get("source").is_some(), "{report}");
    let message = format!("imported from {}, digest", one.display());
    let command = |more: &[&str]| bedload().arg("verify").arg(&db).args(more).assert();
    let output = command(&["--against", two.to_str().expect("text")]).code(3);
    let output = output.stdout(contains("it was compared with a source other than the imported one"));
    output.stdout(contains(message)).stdout(contains(format!("not from {}, digest", two.display())));
}

/// The bug: the dump was compared with the largest family.
#[test]
fn verify_compares_a_dump_with_its_family() {
    let place = Place::in_memory();
    let users = place.file("users.kv", &kv(&["users"], false, &[(0, b"a", b"1"), (0, b"b", b"1")]));
    let text = place.file("posts.txt", dump([(&b"p"[..], &b"2"[..])]).as_bytes());
    let db = place.path("db");
    import(&[&users, &text], &db).args(["--column-family", "posts"]).assert().success();
    let sources = ["--against", users.to_str().expect("text"), "--against", text.to_str().expect("text")];
    assert_eq!(json(&["verify"], &db, &sources, 0)["verdict"], "confirmed");
}

/// The bug: a record of another program was called damage.
#[test]
fn verify_accepts_records_of_a_program() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default", "b"], false, &[(0, b"a", b"1"), (1, b"k", b"v")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    let names = DB::list_cf(&Options::default(), &db).expect("families");
    let program = DB::open_cf(&Options::default(), &db, &names).expect("opened");
    program.put(b"new", b"1").expect("put");
    drop(program);
    let against = ["--against", source.to_str().expect("text")];
    assert_eq!(json(&["verify"], &db, &[], 1)["verdict"], "intact");
    assert_eq!(json(&["verify"], &db, &["--allow-extra"], 0)["verdict"], "intact");
    assert_eq!(json(&["verify"], &db, &against, 3)["verdict"], "differs");
    assert_eq!(json(&["verify"], &db, &[&against[..], &["--allow-extra"]].concat(), 0)["verdict"], "confirmed");
    let program = DB::open_cf(&Options::default(), &db, &names).expect("opened");
    program.delete_cf(program.cf_handle("b").expect("there"), b"k").expect("deleted");
    drop(program);
    assert_eq!(json(&["verify"], &db, &[&against[..], &["--allow-extra"]].concat(), 3)["verdict"], "damaged");
}

/// The bug: RocksDB added a column family of statistics while it was open for the import, and `verify` counted its records.
#[test]
fn statistics_of_rocksdb_are_no_records() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1")]));
    let db = place.path("db");
    import(&[&source], &db).args(["--set", "node.db.persist_stats_to_disk=true"]).assert().success();
    assert_eq!(DB::list_cf(&Options::default(), &db).expect("families"), ["default"]);
    assert_eq!(json(&["verify"], &db, &[], 0)["verdict"], "confirmed");
    let (_, options) = files(&db).into_iter().rfind(|(path, _)| path.contains("/OPTIONS-")).expect("one");
    assert!(String::from_utf8_lossy(&options).contains("persist_stats_to_disk=true\n"), "not the option of the node");
}

/// The bug: `--allow-no-trailer` accepted a `kv` stream whose producer died.
#[test]
fn kv_without_a_trailer_is_always_refused() {
    let place = Place::in_memory();
    let stream = kv(&["default"], false, &[(0, b"a", b"1")]);
    let source = place.file("a.kv", &stream[..stream.len() - 16]);
    refused(&source, &place.path("x"), &["--allow-no-trailer"], 3, "it has no trailer: it is cut");
}
