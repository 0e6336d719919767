//! Commands on databases that were imported from streams of records.

use std::path::Path;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use rust_rocksdb::{DB, Options};

use super::rebuild::files;
use super::records::{dump, import, kv, refused};
use serde_json::Value;

use crate::common::database::{bedload, flip, generate, json, ssts};
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
    get(&["--column-family", "posts"]).code(1).stderr(contains("whether it is in another --column-family"));
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

/// The bug: `verify` compared only the sum over all column families after a program had opened the database, and named none.
#[test]
fn verify_finds_records_of_another_family() {
    let place = Place::in_memory();
    let names = ["a", "b"];
    let one = place.file("1.kv", &kv(&names, false, &[(0, b"k1", b"v1"), (1, b"k2", b"v2")]));
    let two = place.file("2.kv", &kv(&names, false, &[(0, b"k2", b"v2"), (1, b"k1", b"v1")]));
    let db = place.path("db");
    import(&[&one], &db).assert().success();
    let against = bedload().arg("verify").arg(&db).arg("--against").arg(&two).assert().code(3);
    let against = against.stdout(contains("it was compared with a source other than the imported one"));
    let against = against.stdout(contains("the source does not have this record in the column family `a`"));
    assert!(!String::from_utf8_lossy(&against.get_output().stderr).contains("default"), "it was not imported");
    let node = DB::open_cf(&Options::default(), &db, ["default", "a", "b"]).expect("opened");
    node.delete_cf(node.cf_handle("a").expect("there"), b"k1").expect("deleted");
    node.put_cf(node.cf_handle("b").expect("there"), b"k1", b"v1").expect("written");
    drop(node);
    let report = json(&["verify"], &db, &[], 3);
    assert_eq!(report["verdict"], "damaged", "{report}");
}

/// The bug: only warnings about options of all families were printed.
#[test]
fn options_of_a_family_give_warnings() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["a", "b"], false, &[(0, b"k", b"v")]));
    let run = |db: &str, set: &str| import(&[&source], &place.path(db)).args(["--set", set]).assert().success();
    let warning = contains("warning: a: option cf.a.disable_auto_compactions=true: ");
    run("one", "cf.a.disable_auto_compactions=true").stderr(warning.count(1));
    let warning = contains("warning: 2 column families: option node.cf.disable_auto_compactions=true: ");
    run("all", "node.cf.disable_auto_compactions=true").stderr(warning.count(1));
    // A value of the built-in preset does not fit it.
    let warning = contains("RocksDB makes `false` of `node.cf.level_compaction_dynamic_level_bytes` = `true`");
    run("universal", "cf.b.compaction_style=kCompactionStyleUniversal").stderr(warning);
    run("levels", "cf.a.compression_per_level=kNoCompression:kZSTD").stderr("");
}

/// The bug: options of `blocks.meta` were read as unknown ones of `blocks`, and messages had names that nobody wrote.
#[test]
fn longest_name_of_a_family_has_the_option() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["blocks", "blocks.meta"], false, &[(1, b"k", b"v")]));
    let run = |set: &str| import(&[&source], &place.path("db")).args(["--set", set]).assert();
    let words = "option cf.blocks.meta.foo=1: unknown option `cf.blocks.meta.foo`";
    run("cf.blocks.meta.foo=1").code(2).stderr(contains(words));
    run("cf.blocks.compresion=1").code(2).stderr(contains("hint: write `cf.blocks.compression`"));
    run("cf.blocks.node.cf.foo=1").code(2).stderr(contains("names no column family of the source"));
    run("blocks.compression=kZSTD").code(2).stderr(contains("hint: write `cf.blocks.compression`"));
    run("cf.blocks.meta.compression=kZSTD").success();
    let (_, options) = files(&place.path("db")).into_iter().rfind(|(path, _)| path.contains("/OPTIONS-")).expect("one");
    let options = String::from_utf8(options).expect("text");
    let family = |name: &str| options.split_once(&format!("[CFOptions \"{name}\"]")).expect("there").1;
    let compression = |name| family(name).lines().find(|line| line.trim().starts_with("compression=")).expect("set");
    assert!(compression("blocks.meta").ends_with("kZSTD"), "{options}");
    assert!(!compression("blocks").ends_with("kZSTD"), "{options}");
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

/// The bug: if a program had added a record, too, an overwritten one was not noticed, and the import was called confirmed.
#[test]
fn verify_does_not_confirm_overwritten_records() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1"), (0, b"b", b"1")]));
    let run = |name: &str, changes: &[(&[u8], &[u8])], is_flushed: bool, code| {
        let db = place.path(name);
        import(&[&source], &db).assert().success();
        let program = DB::open(&Options::default(), &db).expect("opened");
        changes.iter().for_each(|(key, value)| program.put(key, value).expect("put"));
        if is_flushed {
            program.flush().expect("flushed");
        }
        drop(program);
        json(&["verify"], &db, &[], code)["verdict"].clone()
    };
    for is_flushed in [false, true] {
        let of = |name: &str| format!("{name}-{is_flushed}");
        assert_eq!(run(&of("added"), &[(b"c", b"1")], is_flushed, 0), "confirmed");
        assert_eq!(run(&of("both"), &[(b"c", b"1"), (b"a", b"2")], is_flushed, 1), "intact");
        assert_eq!(
            run(&of("more"), &[(b"c", b"1"), (b"d", b"1"), (b"a", b"2"), (b"b", b"2")], is_flushed, 1),
            "intact"
        );
        assert_eq!(run(&of("overwritten"), &[(b"a", b"2")], is_flushed, 3), "damaged");
    }
}

/// The bug: what a program wrote to a family that was not imported was not compared, and a wrong stream meant damage then.
#[test]
fn verify_reports_records_of_other_families() {
    let place = Place::in_memory();
    let stream = |names: &[&str], value: &[u8]| kv(names, false, &[(0, b"k", value)]);
    let (right, wrong) = (place.file("a.kv", &stream(&["a"], b"1")), place.file("b.kv", &stream(&["a"], b"2")));
    let db = place.path("db");
    import(&[&right], &db).assert().success();
    let mut program = DB::open_cf(&Options::default(), &db, ["default", "a"]).expect("opened");
    program.put(b"new", b"1").expect("put");
    program.create_cf("b", &Options::default()).expect("made");
    program.put_cf(program.cf_handle("b").expect("there"), b"k", b"1").expect("put");
    drop(program);
    let verify = |source: &Path, more: &[&str], code| {
        json(&["verify"], &db, &[&["--against", source.to_str().expect("text")], more].concat(), code)
    };
    let report = verify(&right, &[], 3);
    assert_eq!((&report["verdict"], &report["against"]["extra"]), (&"differs".into(), &2.into()));
    assert_eq!(verify(&right, &["--allow-extra"], 0)["verdict"], "confirmed");
    let report = verify(&wrong, &[], 3);
    assert_eq!((&report["verdict"], &report["problems"]["kinds"]["source"]), (&"differs".into(), &1.into()));
}

/// The bug: a record in a new family meant that no family was confirmed, if several had been imported.
#[test]
fn new_family_leaves_imported_ones_confirmed() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["a", "b"], false, &[(0, b"k", b"1"), (1, b"k", b"2")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    let mut program = DB::open_cf(&Options::default(), &db, ["default", "a", "b"]).expect("opened");
    program.create_cf("new", &Options::default()).expect("made");
    program.put_cf(program.cf_handle("new").expect("there"), b"k", b"1").expect("put");
    assert_eq!(json(&["verify"], &db, &[], 0)["verdict"], "confirmed");
    program.put_cf(program.cf_handle("b").expect("there"), b"k", b"3").expect("put");
    assert_eq!(json(&["verify"], &db, &[], 3)["verdict"], "damaged");
}

/// The bugs: the comparison ended with an error, or counted a family without records as a record.
#[test]
fn verify_compares_streams_with_other_families() {
    let place = Place::in_memory();
    let stream = |names: &[&str]| kv(names, false, &[(0, b"k", b"1")]);
    let (one, two) = (place.file("a.kv", &stream(&["a"])), place.file("b.kv", &stream(&["a", "b"])));
    let three = place.file("c.kv", &kv(&["a", "b"], false, &[(0, b"k", b"1"), (1, b"k", b"2")]));
    let (small, large) = (place.path("small"), place.path("large"));
    import(&[&one], &small).assert().success();
    import(&[&two], &large).assert().success();
    let report = json(&["verify"], &large, &["--against", one.to_str().expect("text")], 0);
    assert_eq!(report["verdict"], "confirmed");
    let verify = |db: &Path| bedload().arg("verify").arg(db).arg("--against").arg(&two).assert();
    let output = bedload().arg("verify").arg(&small).arg("--against").arg(&three).assert().code(3);
    let output = output.stdout(contains("the column family `b` of the source is missing"));
    let output = output.stdout(contains("it was compared with a source other than the imported one"));
    output.stdout(contains("2 records, 1 match"));
    let mut program = DB::open_cf(&Options::default(), &large, ["default", "a", "b"]).expect("opened");
    program.drop_cf("a").expect("dropped");
    drop(program);
    let output = verify(&large).code(3).stdout(contains("the column family `a` of the source is missing"));
    output.stdout(contains("not from").not()).stdout(contains("damaged: "));
}

/// The bug: records in families that the import did not have were called missing in the copy, which had them.
#[test]
fn verify_compares_added_families_with_a_copy() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["a"], false, &[(0, b"k", b"1")]));
    let (db, copy) = (place.path("db"), place.path("copy"));
    import(&[&source], &db).assert().success();
    let mut program = DB::open_cf(&Options::default(), &db, ["default", "a"]).expect("opened");
    program.put(b"new", b"1").expect("put");
    program.create_cf("b", &Options::default()).expect("made");
    program.put_cf(program.cf_handle("b").expect("there"), b"k", b"1").expect("put");
    drop(program);
    import(&[&db], &copy).assert().success();
    let against = ["--against", copy.to_str().expect("text")];
    let report = json(&["verify"], &db, &against, 0);
    assert_eq!((&report["verdict"], &report["against"]["same"]), (&"confirmed".into(), &3.into()), "{report}");
    let program = DB::open_cf(&Options::default(), &db, ["default", "a", "b"]).expect("opened");
    program.put_cf(program.cf_handle("b").expect("there"), b"k", b"2").expect("put");
    drop(program);
    assert_eq!(json(&["verify"], &db, &against, 3)["problems"]["kinds"]["differs"], 1);
}

/// The bug: a deletion in a family that was not copied counted as a record.
#[test]
fn deletions_make_no_family_of_a_copy() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default", "b"], false, &[(0, b"k", b"1"), (1, b"k", b"1")]));
    let (db, copy) = (place.path("db"), place.path("copy"));
    import(&[&source], &db).assert().success();
    import(&[&db], &copy).args(["--column-family", "default"]).assert().success();
    let mut program = DB::open_cf(&Options::default(), &copy, ["default"]).expect("opened");
    program.create_cf("b", &Options::default()).expect("made");
    program.delete_cf(program.cf_handle("b").expect("there"), b"x").expect("deleted");
    drop(program);
    let report = json(&["verify"], &copy, &["--against", db.to_str().expect("text")], 0);
    assert_eq!(report["verdict"], "confirmed");
}

/// The bug: all families of an unrelated database were left out of the comparison, whose verdict was "confirmed" then.
#[test]
fn copy_differs_from_an_unrelated_database() {
    let place = Place::in_memory();
    let source = |name: &str| place.file(name, &kv(&[name], false, &[(0, b"k", b"1")]));
    let (one, two, copy) = (place.path("1"), place.path("2"), place.path("copy"));
    import(&[&source("a")], &one).assert().success();
    import(&[&source("b")], &two).assert().success();
    import(&[&one], &copy).args(["--column-family", "a"]).assert().success();
    let report = json(&["verify"], &copy, &["--allow-extra", "--against", two.to_str().expect("text")], 3);
    assert_eq!((&report["verdict"], &report["against"]["blocks"]), (&"differs".into(), &1.into()), "{report}");
}

/// The bug: a record in another family counted as one in the imported family, where another entry hid a record of the import.
#[test]
fn record_in_another_family_hides_no_lost_one() {
    let place = Place::in_memory();
    let source = place.file("x.kv", &kv(&["x"], false, &[(0, b"k", b"1"), (0, b"l", b"1")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    let families = ["default", "x"];
    let program = DB::open_cf(&Options::default(), &db, families).expect("opened");
    program.put_cf(program.cf_handle("x").expect("there"), b"k", b"2").expect("put");
    program.put_cf(program.cf_handle("x").expect("there"), b"m", b"1").expect("put");
    program.put(b"q", b"1").expect("put");
    drop(program);
    let report = json(&["verify"], &db, &[], 1);
    assert_eq!(report["verdict"], "intact", "{report}");
}

/// The bugs: a family without records was missed as damage, and families that only the other database had were not compared.
#[test]
fn verify_compares_families_without_records() {
    let place = Place::in_memory();
    let one = place.file("1.kv", &kv(&["a"], false, &[(0, b"k", b"1")]));
    let two = place.file("2.kv", &kv(&["a", "b"], false, &[(0, b"k", b"1")]));
    let three = place.file("3.kv", &kv(&["a", "b"], false, &[(0, b"k", b"1"), (1, b"k", b"2")]));
    let (db, other) = (place.path("db"), place.path("other"));
    import(&[&one], &db).assert().success();
    import(&[&three], &other).assert().success();
    let verify = |against: &Path, code| json(&["verify"], &db, &["--against", against.to_str().expect("text")], code);
    assert_eq!(verify(&two, 0)["verdict"], "confirmed");
    let report = verify(&other, 3);
    assert_eq!((&report["verdict"], &report["against"]["blocks"]), (&"differs".into(), &2.into()), "{report}");
}

/// The bugs: records outside of `default` were not read, a stream was called a CAR, and `get` asked for a CID.
#[test]
fn records_without_bedload_json_are_read() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["a", "default"], false, &[(0, b"k1", b"1"), (0, b"k2", b"1")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    let report = json(&["verify"], &db, &[], 0);
    assert_eq!((&report["verdict"], &report["records"], &report["key"]), (&"intact".into(), &2.into(), &"any".into()));
    let verify = bedload().arg("verify").arg(&db).arg("--against").arg(&source).assert();
    verify
        .code(4)
        .stderr(contains("is no database, and only the database's BEDLOAD.json says how a stream was imported"));
    let get = |more: &[&str]| bedload().arg("get").arg(&db).arg("6b31").args(more).assert();
    get(&["--column-family", "a"]).success().stdout("31\n");
    get(&[]).code(1).stderr(contains("whether it is in another --column-family"));
    let car = generate(&place.path(""), "100KiB");
    let blocks = place.path("blocks");
    import(&[&car], &blocks).args(["--column-family", "x"]).assert().success();
    std::fs::remove_file(blocks.join("BEDLOAD.json")).expect("removed");
    let report = json(&["verify"], &blocks, &["--column-family", "x"], 0);
    assert_eq!((&report["verdict"], &report["key"]), (&"intact".into(), &"cid".into()));
}

/// The bug: the comparison ended at a damaged block, and called the records after it missing.
#[test]
fn records_after_a_damaged_block_are_compared() {
    let place = Place::in_memory();
    let keys: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_be_bytes).collect();
    let items: Vec<_> = keys.iter().map(|key| (0, &key[..], &b"a value of some bytes"[..])).collect();
    let source = place.file("a.kv", &kv(&["default"], false, &items));
    let (db, copy) = (place.path("db"), place.path("copy"));
    import(&[&source], &db).assert().success();
    import(&[&db], &copy).assert().success();
    let file = ssts(&db).into_iter().max_by_key(|file| file.metadata().expect("a file").len()).expect("a file");
    flip(&file, 20_000, 1);
    for against in [&source, &copy] {
        let report = json(&["verify"], &db, &["--against", against.to_str().expect("text")], 3);
        let number = |name: &str| report["against"][name].as_u64().expect("a number");
        assert_eq!((&report["verdict"], &report["problems"]["kinds"]["missing"]), (&"damaged".into(), &Value::Null));
        assert!((1..2_000).contains(&number("unreadable")), "{report}");
        assert_eq!(number("same") + number("unreadable"), 20_000);
    }
}

/// The bug: without `BEDLOAD.json`, keys of 32 bytes were taken for digests, and no option said otherwise.
#[test]
fn keys_like_digests_are_read_as_any_bytes() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, &[b'k'; 32], b"1")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    let verify = bedload().arg("verify").arg(&db).assert().code(4);
    verify.stderr(contains("give --key digest, or --key any if they are records of another program"));
    let report = json(&["verify"], &db, &["--key", "any"], 0);
    assert_eq!((&report["verdict"], &report["records"]), (&"intact".into(), &1.into()));
    let car = generate(&place.path(""), "100KiB");
    let import = bedload().arg("import").arg(&car).arg("--db").arg(place.path("x")).args(["--key", "any"]).assert();
    import.code(2).stderr(contains("a CAR has no such keys"));
}

#[test]
fn verify_takes_a_list_of_streams() {
    let place = Place::in_memory();
    let one = place.file("1.kv", &kv(&["default"], false, &[(0, b"k", b"1")]));
    let two = place.file("2.kv", &kv(&["default"], false, &[(0, b"k", b"2")]));
    let list = place.file("list", format!("{}\n{}\n", one.display(), two.display()).as_bytes());
    let (db, list) = (place.path("db"), format!("@{}", list.display()));
    import(&[&one, &two], &db).args(["--duplicates", "last"]).assert().success();
    assert_eq!(json(&["verify"], &db, &["--against", &list], 0)["verdict"], "confirmed");
    assert_eq!(json(&["verify"], &db, &["--against", one.to_str().expect("text")], 3)["verdict"], "differs");
}

/// The bug: the hint named a broken disk.
#[test]
fn keys_like_cids_get_the_hint_of_other_keys() {
    let place = Place::in_memory();
    let key = [&[1, 0x71, 0x12, 0x20][..], &[7; 32]].concat();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, &key, b"1")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    let verify = bedload().arg("verify").arg(&db).assert().code(3);
    verify.stderr(contains(
        "1 problem found\nhint: nothing says that these records are blocks: give --key any if they are not",
    ));
    json(&["verify"], &db, &["--key", "any"], 0);
}

/// The bug: the stream was called a snapshot that `inspect` reads.
#[test]
fn verify_compares_a_copy_with_the_first_stream() {
    let place = Place::in_memory();
    let stream = place.file("a.kv", &kv(&["default", "b"], false, &[(0, b"a", b"1"), (1, b"k", b"v")]));
    let (db, copy) = (place.path("db"), place.path("copy"));
    import(&[&stream], &db).assert().success();
    import(&[&db], &copy).assert().success();
    let report = json(&["verify"], &copy, &["--against", stream.to_str().expect("text")], 0);
    assert_eq!(report["verdict"], "confirmed");
    let text = place.file("posts.txt", dump([(&b"p"[..], &b"2"[..])]).as_bytes());
    let (posts, copy) = (place.path("posts"), place.path("copy of posts"));
    import(&[&text], &posts).args(["--column-family", "posts"]).assert().success();
    import(&[&posts], &copy).assert().success();
    let report = json(&["verify"], &copy, &["--against", text.to_str().expect("text")], 0);
    assert_eq!(report["verdict"], "confirmed");
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
    let text = place.file("a.txt", b"0x00 ==> 0x00\n0x01 =");
    refused(&text, &place.path("x"), &["--allow-no-trailer"], 3, "it ends inside a line: it is cut");
}

/// The bug: the options of each family were listed, 4 KB in one line.
#[test]
fn differences_of_two_imports_are_few() {
    let place = Place::in_memory();
    let one = place.file("1.kv", &kv(&["a", "b"], false, &[(0, b"k", b"1")]));
    let two = place.file("2.kv", &kv(&["c"], false, &[(0, b"k", b"1")]));
    let db = place.path("db");
    import(&[&one], &db).env("BEDLOAD_ABORT_AT", "built").assert().failure();
    let output = import(&[&two], &db).assert().code(4).stderr(contains("the source was "));
    let output = output.stderr(predicates::str::is_match("; and [0-9]+ more\nhint: ").expect("a pattern"));
    assert!(output.get_output().stderr.len() < 1000);
}
