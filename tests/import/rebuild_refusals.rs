//! Databases whose copy would lack records or have other ones: they are refused, or copied right.

use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use rust_rocksdb::{DB, MergeOperands};

use super::rebuild::{files, import, old, options, records};
use crate::common::database::{bedload, inspect, json, ssts};
use crate::common::run::{self, Place};

/// The newest file of a database with this beginning of its name.
fn newest(db: &Path, begin: &str) -> PathBuf {
    let paths = files(db).into_keys().map(PathBuf::from);
    let of_kind = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin));
    paths.filter(of_kind).max().expect("one")
}

/// Replaces a text in the newest OPTIONS file.
fn edit_options(db: &Path, from: &str, to: &str) {
    let path = newest(db, "OPTIONS-");
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

/// Checks that `inspect` shows what `import` refuses.
fn assert_note(old: &Path, words: &str) {
    let report = inspect(old, &[], 0);
    let families = &report["database"]["column_families"];
    assert!(families[0]["notes"].to_string().contains(words), "{families}");
}

fn refused(old: &Path, new: &Path, code: i32, words: &str) {
    for more in [&["--dry-run"][..], &[]] {
        import(old, new).args(more).assert().code(code).stderr(contains(words));
        assert!(!new.exists(), "{words}");
    }
}

/// RocksDB drops the WAL from the first operand on if it makes no operator of the text, and other delimiters give other values.
#[test]
fn unreadable_delimiters_are_refused() {
    let place = Place::in_memory();
    let text = "merge_operator={id=StringAppendOperator;delimiter=,;}";
    for (number, delimiter) in [";", "\\:", ", ", " ", ""].into_iter().enumerate() {
        for flushed in [false, true] {
            let (old, new) = (place.path(&format!("old-{number}-{flushed}")), place.path("new"));
            let mut merging = options().get_options_from_string(text).expect("options");
            merging.create_if_missing(true);
            let db = DB::open(&merging, &old).expect("opened");
            db.put(b"a", b"1").expect("put");
            db.merge(b"a", b"2").expect("merged");
            (0..100u32).for_each(|key| db.put(key.to_be_bytes(), b"later").expect("put"));
            if flushed {
                db.merge(b"a", b"3").expect("merged");
                db.flush().expect("flushed");
                db.merge(b"a", b"4").expect("merged");
                db.flush().expect("flushed");
            }
            drop(db);
            edit_options(&old, "delimiter=,;", &format!("delimiter={delimiter};"));
            refused(&old, &new, 4, "its delimiter cannot be read");
        }
    }
}

/// The OPTIONS file of an operator without options names no delimiter.
#[test]
fn operands_without_delimiter_are_refused() {
    fn join(_: &[u8], before: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
        Some(before.into_iter().chain(operands).flatten().copied().collect())
    }
    let place = Place::in_memory();
    let (old, new) = (place.path("old"), place.path("new"));
    let mut merging = options();
    merging.set_merge_operator_associative("StringAppendOperator", join);
    let db = DB::open(&merging, &old).expect("opened");
    db.put(b"a", b"1").expect("put");
    db.merge(b"a", b"2").expect("merged");
    drop(db);
    refused(&old, &new, 4, "its delimiter cannot be read");
}

/// Without an operator, RocksDB crashes when it reads operands backwards, and drops those in a WAL.
#[test]
fn foreign_operands_are_refused_when_read() {
    fn last(_: &[u8], _: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
        operands.iter().last().map(<[u8]>::to_vec)
    }
    for is_flushed in [true, false] {
        let place = Place::in_memory();
        let (old, words) = (place.path("old"), "has pending merge operands of an operator of its program");
        let mut own = options();
        own.set_merge_operator_associative("my.merge", last);
        let db = DB::open(&own, &old).expect("opened");
        [b"a", b"z"].iter().for_each(|key| db.put(key, b"1").expect("put"));
        db.flush().expect("flushed");
        db.merge(b"z", b"2").expect("merged");
        if is_flushed {
            db.flush().expect("flushed");
        }
        drop(db);
        bedload().arg("verify").arg(&old).assert().code(4).stderr(contains(words));
        bedload().arg("get").arg(&old).args(["7a", "--key", "digest"]).assert().code(4).stderr(contains(words));
    }
}

#[test]
fn family_that_options_do_not_name_is_refused() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    // RocksDB writes no OPTIONS file if the disk is full, and reports no error.
    edit_options(&old, "[CFOptions \"empty\"]", "[CFOptions \"other\"]");
    edit_options(&old, "[TableOptions/BlockBasedTable \"empty\"]", "[TableOptions/BlockBasedTable \"other\"]");
    refused(&old, &new, 4, "the column family `empty` cannot be copied: the newest OPTIONS file does not name it");
    import(&old, &new).args(["--skip-column-family", "empty"]).assert().success();
}

#[test]
fn wal_of_another_directory_is_refused() {
    let place = Place::in_memory();
    let (old, new, other) = (old(&place.path("")), place.path("new"), place.path("other"));
    std::fs::create_dir(&other).expect("made");
    edit_options(&old, "[DBOptions]\n", &format!("[DBOptions]\n  wal_dir={}\n", other.display()));
    refused(&old, &new, 4, "its OPTIONS file names another directory for the WAL");
}

#[test]
fn cut_manifest_is_refused() {
    let place = Place::in_memory();
    let (old, new) = (place.path("old"), place.path("new"));
    let db = DB::open(&options(), &old).expect("opened");
    db.put(b"a", b"1").expect("put");
    db.flush().expect("flushed");
    let len = newest(&old, "MANIFEST-").metadata().expect("there").len();
    db.put(b"b", b"2").expect("put");
    db.flush().expect("flushed");
    drop(db);
    let manifest = newest(&old, "MANIFEST-");
    let whole = std::fs::read(&manifest).expect("read");
    for (cut, words) in [(len, "the MANIFEST does not name "), (len + 9, "the record at byte")] {
        std::fs::write(&manifest, &whole[..cut as usize]).expect("cut");
        bedload().arg("inspect").arg(&old).assert().code(3).stderr(contains(words));
        refused(&old, &new, 3, words);
    }
    std::fs::write(&manifest, &whole).expect("written");
    import(&old, &new).assert().success();
}

#[test]
fn prepared_transactions_are_refused() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    edit_options(&old, "allow_2pc=false", "allow_2pc=true");
    refused(&old, &new, 4, "the WAL of its database may have prepared transactions");
    assert_eq!(inspect(&old, &[], 0)["database"]["can_be_rebuilt"], false);
}

#[test]
fn missing_file_is_no_best_effort() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    edit_options(&old, "best_efforts_recovery=false", "best_efforts_recovery=true");
    let gone = ssts(&old).pop().expect("a file");
    std::fs::remove_file(&gone).expect("removed");
    refused(&old, &new, 3, &gone.file_name().expect("a name").to_string_lossy());
}

#[test]
fn statistics_of_the_old_database_are_not_copied() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let expected = records(&old);
    edit_options(&old, "persist_stats_to_disk=false", "persist_stats_to_disk=true");
    import(&old, &new).assert().success();
    assert_eq!(records(&new), expected);
    json(&["verify"], &new, &["--against", old.to_str().expect("text")], 0);
}

#[test]
fn options_that_a_copy_cannot_have_are_named() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    edit_options(&old, "compaction_style=kCompactionStyleLevel", "compaction_style=kCompactionStyleFIFO");
    assert_note(&old, "a copy cannot keep its `compaction_style`");
    let words = contains("has options that a copy cannot have").and(contains("compaction_style"));
    import(&old, &new).assert().code(2).stderr(words);
    import(&old, &new).args(["--preset", "ingest"]).assert().success();
    assert_eq!(records(&new), records(&old));
}

/// RocksDB crashes with these options.
#[test]
fn too_many_shards_of_files_are_left_out() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    edit_options(&old, "table_cache_numshardbits=6", "table_cache_numshardbits=40");
    inspect(&old, &[], 0);
    import(&old, &new).assert().success();
    assert_eq!(records(&new), records(&old));
}

#[test]
fn places_inside_the_database_are_refused() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let before = files(&old);
    let inside = old.join("deep");
    import(&old, &inside).assert().code(4).stderr(contains("would be in the database"));
    import(&old, &old)
        .args(["--replace", "--keep-old"])
        .arg(&inside)
        .assert()
        .code(2)
        .stderr(contains("is in a database, or of an unfinished import"));
    let other = place.path("other");
    import(&old, &other).assert().success();
    for kept in [other.join("deep"), place.path("x.partial/"), place.path("new.partial/exchange")] {
        let words = contains("is in a database, or of an unfinished import");
        import(&old, &old).args(["--replace", "--keep-old"]).arg(&kept).assert().code(2).stderr(words);
    }
    let mut bench = bedload();
    bench.arg("bench").arg(&old).args(["--presets", "all", "--runs", "1", "--out"]).arg(&inside);
    bench.assert().code(4).stderr(contains("is in the database "));
    assert_eq!(files(&old), before);
    std::fs::create_dir(&inside).expect("made");
    import(&old, &inside.join("deeper")).assert().code(4).stderr(contains("would be in the database"));
}

#[test]
fn left_out_families_are_not_compared() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    import(&old, &new).args(["--column-family", "empty"]).assert().success();
    let mut verify = bedload();
    verify.arg("verify").arg(&new).arg("--against").arg(&old);
    verify
        .assert()
        .success()
        .stderr(contains("warning: the column family `default` was not copied, and is not compared"));
}

#[test]
fn bench_checks_keys_before_it_copies() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let file = place.path("keys");
    let run = || {
        let mut command = bedload();
        command.arg("bench").arg(&old).arg("--keys").arg(&file).arg("--out").arg(place.path("out"));
        command.args(["--sample", "1MiB", "--runs", "1"]);
        command
    };
    run().assert().code(3).stderr(contains("cannot open"));
    for (text, words) in
        [("", "has 0 keys, and there are 5 kinds of lookups"), ("0x00\nxyz\n", ":2: this is not a key in hex")]
    {
        std::fs::write(&file, text).expect("written");
        run().assert().code(2).stderr(contains(words));
    }
    assert!(!place.path("out").exists());
}

/// A database whose WAL is written again in place, with the same size.
#[test]
fn resume_refuses_a_rewritten_wal() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let small = ["--set", "load.ingest.sst_size=64K"];
    import(&old, &new).args(small).env("BEDLOAD_ABORT_AT", "built:2").assert().failure();
    let wal = files(&old).into_iter().find(|(name, bytes)| name.ends_with(".log") && !bytes.is_empty()).expect("a WAL");
    std::fs::write(&wal.0, &wal.1).expect("written");
    import(&old, &new).args(small).assert().code(4).stderr(contains("contains a different unfinished import"));
}

#[test]
fn other_database_must_have_all_families() {
    let place = Place::in_memory();
    let (old, new, other) = (old(&place.path("")), place.path("new"), place.path("other"));
    import(&old, &new).assert().success();
    let typo = bedload().arg("verify").arg(&new).arg("--against").arg(place.path("typo")).assert();
    typo.code(3).stderr(contains("typo: there is no such file"));
    drop(DB::open(&options(), &other).expect("opened"));
    let report = json(&["verify"], &new, &["--against", other.to_str().expect("text")], 3);
    assert!(report["problems"]["kinds"]["extra"].as_u64() > Some(2), "{report}");
}

/// RocksDB refuses the option while bedload writes without a WAL.
#[test]
fn recycled_logs_are_an_option_of_the_copy() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    edit_options(&old, "recycle_log_file_num=0", "recycle_log_file_num=2");
    import(&old, &new).assert().success();
    assert_eq!(records(&new), records(&old));
    let text = std::fs::read_to_string(newest(&new, "OPTIONS-")).expect("read");
    assert!(text.contains("recycle_log_file_num=2"), "{text}");
}

#[test]
fn family_with_one_level_is_refused() {
    let place = Place::in_memory();
    let (old, new) = (place.path("old"), place.path("new"));
    let mut flat = options();
    flat.set_num_levels(1);
    flat.set_compaction_style(rust_rocksdb::DBCompactionStyle::Universal);
    DB::open(&flat, &old).expect("opened").put(b"a", b"1").expect("put");
    assert_note(&old, "a copy cannot keep its `num_levels`: pass --set node.cf.num_levels=7");
    refused(&old, &new, 2, "a copy cannot keep `num_levels` of `default`");
    import(&old, &new).args(["--set", "node.cf.num_levels=7"]).assert().success();
}

#[test]
fn copy_into_an_existing_database_is_refused() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    import(&old, &new).args(["--progress", "lines"]).assert().success().stderr(contains(" records, "));
    let hint = "already exists\nhint: choose another --db or replace it with --replace\n";
    import(&old, &new).assert().code(4).stderr(contains(hint));
}

/// Parts that an earlier run has copied are known by their numbers.
#[test]
fn ranges_do_not_depend_on_the_budget() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    std::fs::File::create(old.join("999999.blob")).and_then(|file| file.set_len(8 << 30)).expect("a sparse file");
    let range_bytes = ["16MiB", "1GiB"].map(|memory| {
        let plan = run::json(import(&old, &new).args(["--memory", memory, "--dry-run"]), 0);
        plan["ranges"]["range_bytes"].as_u64()
    });
    assert_eq!(range_bytes, [Some(256 << 20); 2]);
}

#[test]
fn lost_families_of_a_replacement_are_named() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let words = "not copied, and removed with the old database unless --keep-old keeps it: \\u{a}, empty\n";
    import(&old, &old).args(["--replace", "--column-family", "default"]).assert().success().stderr(contains(words));
    assert_eq!(records(&old).len(), 1);
}

#[test]
fn missing_target_and_current_are_named() {
    let place = Place::in_memory();
    let old = old(&place.path(""));
    let hint = format!("bedload import {} --db NEW copies it", old.display());
    bedload().arg("import").arg(&old).assert().code(3).stderr(contains(hint));
    std::fs::remove_file(old.join("CURRENT")).expect("removed");
    import(&old, &place.path("new")).assert().code(3).stderr(contains("but no CURRENT\nhint: restore CURRENT"));
}

#[test]
fn files_of_other_programs_are_copied() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    std::fs::write(old.join("rocksdict-config.json"), "{}").expect("written");
    import(&old, &new).assert().success();
    assert_eq!(std::fs::read(new.join("rocksdict-config.json")).expect("read"), b"{}");
}

/// A flush that was killed leaves a file without its end.
#[test]
fn unfinished_newest_file_is_ignored() {
    let place = Place::in_memory();
    let (old, new) = (old(&place.path("")), place.path("new"));
    let whole = std::fs::read(&ssts(&old)[0]).expect("read");
    for len in [0, 5, whole.len() / 2, whole.len() - 1] {
        std::fs::write(old.join("009999.sst"), &whole[..len]).expect("written");
        import(&old, &new).arg("--restart").assert().success();
        assert_eq!(records(&new), records(&old));
        std::fs::remove_dir_all(&new).expect("removed");
    }
    std::fs::write(old.join("009999.sst"), &whole).expect("written");
    refused(&old, &new, 3, "the MANIFEST does not name ");
}

/// The keys are looked up in a sample.
#[test]
fn bench_compares_the_old_options() {
    let place = Place::in_memory();
    let (old, out) = (old(&place.path("")), place.path("out"));
    std::fs::write(place.path("keys"), "ff\n".repeat(50)).expect("written");
    let mut command = bedload();
    command.arg("bench").arg(&old).arg("--keys").arg(place.path("keys")).arg("--out").arg(&out);
    command.args(["--set", "cf.empty.compression=kNoCompression"]);
    command.args(["--sample", "64MiB", "--runs", "1", "--json", "--dir"]).arg(place.path("dir"));
    let output = command.assert().success().get_output().stdout.clone();
    let report: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
    let names =
        report["variants"].as_array().expect("a list").iter().map(|variant| variant["name"].as_str().expect("text"));
    assert_eq!(names.collect::<Vec<_>>(), [old.to_str().expect("text"), "ingest", "ingest-zstd"]);
    let has_zstd = |variant: usize| report["variants"][variant]["options"].to_string().contains("kZSTD");
    assert_eq!(report["variants"][0]["set"][0], "cf.empty.compression=kNoCompression");
    assert_eq!([0, 1, 2].map(has_zstd), [false, false, true]);
    let note = "10 of 10 keys that were looked up are not in the database";
    assert_eq!(report["runs"][0]["notes"][0], note, "{report}");
}

#[test]
fn foreign_comparator_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("old");
    let mut ordered = options();
    ordered.set_comparator("order of my node", Box::new(|a: &[u8], b: &[u8]| b.len().cmp(&a.len()).then(a.cmp(b))));
    DB::open(&ordered, &path).expect("opened").put(b"a", b"1").expect("put");
    let report = inspect(&path, &[], 0);
    assert_eq!(report["database"]["column_families"][0]["comparator"], "order of my node");
    import(&path, &dir.path().join("new")).assert().code(4).stderr(contains(
        "the column family `default` cannot be copied: its program orders the keys by a comparator of its own, `order of my node`",
    ));
    assert!(!dir.path().join("new.partial").exists());
    for command in ["stat", "verify"] {
        let words = contains("its program orders the keys by a comparator of its own, `order of my node`");
        bedload().arg(command).arg(&path).assert().code(4).stderr(words);
    }
}

#[test]
fn leveldb_is_refused_by_every_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = old(dir.path());
    std::fs::write(path.join("000999.ldb"), b"a table").expect("written");
    for file in ssts(&path) {
        std::fs::remove_file(file).expect("removed");
    }
    let refused =
        || contains("has the tables of LevelDB, which RocksDB 11 does not read\nhint: `ldb --db=DIR --hex dump`");
    import(&path, &dir.path().join("new")).assert().code(4).stderr(refused());
    for command in ["stat", "verify", "inspect"] {
        bedload().arg(command).arg(&path).assert().code(4).stderr(refused());
    }
    bedload().arg("get").arg(&path).arg("00").assert().code(4).stderr(refused());
}
