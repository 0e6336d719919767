//! Copying a RocksDB database into a new one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use predicates::str::contains;
use rust_rocksdb::{
    BlockBasedOptions, ColumnFamilyDescriptor, DB, DBCompressionType, IteratorMode, MergeOperands, Options,
    PlainTableFactoryOptions, SliceTransform, WriteBatch,
};

use super::old_rocksdb::{nodes, python};
use crate::common::chance::is_long;
use crate::common::database::{bedload, inspect, json, record, ssts};
use crate::common::run::Place;

pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// A name, and the maker of a database.
type Make<'a> = (&'a str, &'a dyn Fn(&Path));

/// A value that depends on key and version, of several sizes.
fn value(number: u32, version: u32) -> Vec<u8> {
    let len = [0, 1, 40, 1200, 9000][number as usize % 5];
    let seed = number.wrapping_mul(2_654_435_761).wrapping_add(version);
    (0..len).map(|at: u32| (seed.wrapping_add(at).wrapping_mul(40_503) >> 8) as u8).collect()
}

pub fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(256 << 10);
    options
}

/// Creates a database with overwritten, deleted and range-deleted keys in several files and in the WAL.
pub fn old(dir: &Path) -> PathBuf {
    let path = dir.join("old");
    let mut prefixed = options();
    prefixed.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
    let families = [("default", options()), ("\n", prefixed), ("empty", options())];
    let families = families.map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
    let db = DB::open_cf_descriptors(&options(), &path, families).expect("opened");
    let prefixed = db.cf_handle("\n").expect("there");
    for version in 0..3 {
        let mut batch = WriteBatch::default();
        for number in (0..4000u32).filter(|number| version == 0 || number % 3 == version) {
            batch.put(number.to_be_bytes(), value(number, version));
            batch.put_cf(prefixed, number.to_le_bytes().repeat(4), value(number, version + 10));
        }
        db.write(&batch).expect("written");
        db.flush().expect("flushed");
    }
    db.put(b"", b"an empty key").expect("put");
    for number in (0..4000u32).step_by(7) {
        db.delete(number.to_be_bytes()).expect("deleted");
    }
    db.delete_range_cf(db.cf_handle("default").expect("there"), 1000u32.to_be_bytes(), 1500u32.to_be_bytes())
        .expect("deleted");
    path
}

/// All records of all column families, as another reader sees them.
pub fn records(path: &Path) -> BTreeMap<String, Records> {
    let names = DB::list_cf(&Options::default(), path).expect("families");
    let db = DB::open_cf_for_read_only(&Options::default(), path, &names, false).expect("opened");
    let of = |name: &String| {
        let family = db.cf_handle(name).expect("there");
        let all = db.iterator_cf(family, IteratorMode::Start).map(|item| item.expect("read"));
        (name.clone(), all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
    };
    names.iter().map(of).collect()
}

/// The names and bytes of all files of a directory.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = dir.read_dir().expect("listed").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.display().to_string(), std::fs::read(&path).expect("read"))).collect()
}

pub fn import(old: &Path, new: &Path) -> assert_cmd::Command {
    let mut command = bedload();
    command.arg("import").arg(old).arg("--db").arg(new).arg("--quiet");
    command
}

#[test]
fn copy_has_every_record_at_the_last_level() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (old(dir.path()), dir.path().join("new"));
    let (before, expected) = (files(&old), records(&old));
    assert!(expected["default"].len() > 2000 && expected["\n"].len() == 4000);
    import(&old, &new).assert().success();
    assert_eq!(records(&new), expected);
    assert_eq!(files(&old), before, "the old database is unchanged");
    let record = record(&new);
    assert_eq!((&record["source"]["format"], &record["key"]), (&"rocksdb".into(), &"any".into()));
    let names: Vec<&str> =
        record["families"].as_array().expect("families").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["default", "\n", "empty"]);
    for family in record["families"].as_array().expect("families") {
        let levels: Vec<i64> =
            family["levels"].as_array().expect("levels").iter().filter_map(|it| it["level"].as_i64()).collect();
        assert!(levels.iter().all(|level| *level == 6), "{levels:?}");
        assert_eq!(family["records"], expected[family["name"].as_str().expect("text")].len());
    }
    let entries = |family: &serde_json::Value| family["entries"].as_u64().unwrap_or(0);
    let rebuilt = record["rebuilt"].as_array().expect("families");
    assert!(entries(&rebuilt[0]) > 4000, "{rebuilt:?}");
    // The options of each column family are those of the old one.
    let written = std::fs::read_dir(&new).expect("listed").filter_map(|entry| Some(entry.ok()?.path()));
    let file = written.filter(|path| path.display().to_string().contains("OPTIONS-")).max().expect("options");
    let text = std::fs::read_to_string(file).expect("read");
    assert_eq!(text.matches("write_buffer_size=262144").count(), 3, "{text}");
    assert_eq!(text.matches("prefix_extractor=rocksdb.FixedPrefix.4").count(), 1, "{text}");
    json(&["verify"], &new, &[], 0);
}

#[test]
fn copy_takes_preset_and_options_of_families() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (old(dir.path()), dir.path().join("new"));
    let set =
        ["--preset", "ingest-zstd", "--set", "cf.\n.compression=kLZ4Compression", "--skip-column-family", "empty"];
    import(&old, &new).args(set).assert().success();
    let mut expected = records(&old);
    expected.remove("empty");
    assert_eq!(records(&new), expected);
    let text = bedload().args(["stat"]).arg(&new).output().expect("run").stdout;
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.matches("kLZ4Compression").count(), 1, "{text}");
    assert_eq!(text.matches("rocksdb.FixedPrefix.4").count(), 1, "it belongs to the keys: {text}");
    let mut plan = bedload();
    plan.arg("import").arg(&old).arg("--db").arg(dir.path().join("x")).arg("--dry-run");
    plan.assert().success().stdout(contains("column families default, \\u{a}, empty;"));
    import(&old, &dir.path().join("x")).args(["--set", "cf.none.compression=kZSTD"]).assert().code(2).stderr(contains(
        "error: `cf.none.compression=kZSTD` names no column family of the source\nhint: write node.cf.option=value or cf.NAME.option=value with one of: ",
    ));
    import(&old, &dir.path().join("x"))
        .args(["--column-family", "none"])
        .assert()
        .code(2)
        .stderr(contains("has no column family `none`\nhint: it has default, "));
}

#[test]
fn database_is_replaced_by_its_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, kept) = (old(dir.path()), dir.path().join("kept"));
    let expected = records(&old);
    import(&old, &old).arg("--replace").arg("--keep-old").arg(kept.join(".")).assert().success();
    assert_eq!(records(&old), expected);
    assert_eq!(record(&old)["replaced"], true);
    assert_eq!(records(&kept), expected);
    assert!(!kept.join("BEDLOAD.json").exists());
    import(&old, &old).arg("--replace").assert().success();
    assert_eq!(records(&old), expected);
}

#[test]
fn open_database_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = old(dir.path());
    let names = DB::list_cf(&Options::default(), &path).expect("families");
    let db = DB::open_cf(&Options::default(), &path, &names).expect("opened");
    let own = format!("process {}", std::process::id());
    import(&path, &dir.path().join("new")).assert().code(4).stderr(contains(own));
    drop(db);
    import(&path, &dir.path().join("new")).assert().success();
}

#[test]
fn reversed_keys_keep_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let text = "comparator=rocksdb.ReverseBytewiseComparator";
    let mut reversed = options().get_options_from_string(text).expect("options");
    reversed.create_if_missing(true);
    let open = |path: &Path| DB::open(&reversed, path).expect("opened");
    let all = |db: &DB| -> Vec<_> { db.iterator(IteratorMode::Start).map(|item| item.expect("read")).collect() };
    let db = open(&old);
    (0..5000u32).for_each(|number| db.put(number.to_be_bytes(), value(number, 1)).expect("put"));
    db.flush().expect("flushed");
    let expected = all(&db);
    assert!(expected[0].0 > expected[1].0);
    drop(db);
    import(&old, &new).assert().success();
    assert_eq!(all(&open(&new)), expected);
    let report = json(&["verify"], &new, &["--against", old.to_str().expect("text")], 0);
    assert_eq!(report["against"]["same"], 5000);
}

/// A sum of numbers, which no other program knows.
fn sum(_: &[u8], before: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    Some(operands.into_iter().chain(before).map(|bytes| bytes.len() as u8).fold(0, u8::wrapping_add).to_string().into())
}

#[test]
fn foreign_merge_operands_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    for flushed in [true, false] {
        let old = dir.path().join(format!("old-{flushed}"));
        let mut merging = options();
        merging.set_merge_operator_associative("sum of my node", sum);
        let db = DB::open(&merging, &old).expect("opened");
        db.put(b"a", b"1").expect("put");
        db.flush().expect("flushed");
        db.merge(b"a", b"2").expect("merged");
        if flushed {
            db.flush().expect("flushed");
        }
        drop(db);
        let report = inspect(&old, &[], 0);
        assert_eq!(report["database"]["can_be_rebuilt"], false, "{flushed}: {report:#}");
        let new = dir.path().join("new");
        import(&old, &new).assert().code(4).stderr(contains(
            "the column family `default` cannot be copied: it has pending merge operands of an operator of its program, `sum of my node`\n\
             hint: compact it with the program that wrote it (CompactRange), or leave it out with --skip-column-family\n",
        ));
        assert!(!new.exists() && !dir.path().join("new.partial").exists());
    }
}

#[test]
fn large_wal_is_read_within_the_budget() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let mut large = options();
    large.set_write_buffer_size(512 << 20);
    let db = DB::open(&large, &old).expect("opened");
    let long = vec![7; 64 << 10];
    let count = if is_long() { 4800 } else { 640 };
    (0..count).for_each(|number: u32| db.put(number.to_be_bytes(), &long).expect("put"));
    drop(db);
    let (before, expected) = (files(&old), records(&old));
    assert_eq!(expected["default"].len(), count as usize);
    import(&old, &new).args(["--memory", "16MiB"]).assert().success();
    assert_eq!(records(&new), expected);
    assert_eq!(files(&old), before);
    let peak = record(&new)["peak_rss_bytes"].as_u64().expect("measured");
    assert!(peak < 80 << 20, "{peak}");
}

#[test]
fn verify_compares_both_databases() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (old(dir.path()), dir.path().join("new"));
    import(&old, &new).assert().success();
    let against = ["--against", old.to_str().expect("text")];
    let report = json(&["verify"], &new, &against, 0);
    assert_eq!(report["verdict"], "confirmed");
    assert_eq!(report["against"]["same"], report["records"]);
    let names = DB::list_cf(&Options::default(), &new).expect("families");
    let db = DB::open_cf(&Options::default(), &new, &names).expect("opened");
    db.put(2u32.to_be_bytes(), b"another value").expect("put");
    db.delete(3u32.to_be_bytes()).expect("deleted");
    db.put(b"more", b"a record").expect("put");
    drop(db);
    let report = json(&["verify"], &new, &against, 3);
    let kinds = &report["problems"]["kinds"];
    assert_eq!((&kinds["differs"], &kinds["missing"], &kinds["extra"]), (&1.into(), &1.into(), &1.into()), "{kinds}");
}

#[test]
fn every_compression_and_format_is_copied() {
    let place = Place::in_memory();
    for (number, compression) in [
        DBCompressionType::None,
        DBCompressionType::Snappy,
        DBCompressionType::Zlib,
        DBCompressionType::Bz2,
        DBCompressionType::Lz4,
        DBCompressionType::Lz4hc,
        DBCompressionType::Zstd,
    ]
    .into_iter()
    .enumerate()
    {
        let (old, new) = (place.path(&format!("old-{number}")), place.path(&format!("new-{number}")));
        let mut table = BlockBasedOptions::default();
        table.set_format_version([2, 3, 4, 5, 6, 7, 7][number]);
        let mut packed = options();
        packed.set_block_based_table_factory(&table);
        packed.set_compression_type(compression);
        // Dictionaries, where the compression has them.
        packed.set_compression_options(-14, 32767, 0, 4 << 10);
        packed.set_zstd_max_train_bytes(64 << 10);
        let db = DB::open(&packed, &old).expect("opened");
        for file in 0..4 {
            (0..500u32).for_each(|key| db.put((key * 4 + file).to_be_bytes(), value(key, file)).expect("put"));
            db.flush().expect("flushed");
        }
        drop(db);
        import(&old, &new).assert().success();
        assert_eq!(records(&new), records(&old), "{number}");
    }
}

#[test]
fn hundred_files_at_level_zero_are_copied() {
    let place = Place::in_memory();
    let (old, new) = (place.path("old"), place.path("new"));
    let mut idle = options();
    idle.set_disable_auto_compactions(true);
    let db = DB::open(&idle, &old).expect("opened");
    for version in 0..100u32 {
        (0..50u32).for_each(|key| db.put((key * 7 % 60).to_be_bytes(), value(key, version)).expect("put"));
        db.flush().expect("flushed");
    }
    drop(db);
    assert!(ssts(&old).len() == 100);
    import(&old, &new).assert().success();
    assert_eq!(records(&new), records(&old));
    assert_eq!(ssts(&new).len(), 1);
}

#[test]
fn values_in_blob_files_are_stored_inline() {
    let place = Place::in_memory();
    let (old, new) = (place.path("old"), place.path("new"));
    let mut blobs = options();
    blobs.set_enable_blob_files(true);
    blobs.set_min_blob_size(100);
    let db = DB::open(&blobs, &old).expect("opened");
    for version in 0..2 {
        (0..500u32).for_each(|key| db.put(key.to_be_bytes(), value(key, version)).expect("put"));
        db.flush().expect("flushed");
    }
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    drop(db);
    let expected = records(&old);
    let report = inspect(&old, &[], 0);
    let family = &report["database"]["column_families"][0];
    assert!(family["blob_files"].as_u64() > Some(0), "{family}");
    let note = "values in blob files are stored in SST files";
    import(&old, &new).assert().success();
    assert!(
        family["notes"]
            .as_array()
            .expect("notes")
            .iter()
            .any(|text| text.as_str().is_some_and(|text| text.contains(note)))
    );
    assert_eq!(records(&new), expected);
    assert!(files(&new).keys().all(|name| !name.ends_with(".blob")));
}

#[test]
fn odd_databases_are_copied() {
    let place = Place::in_memory();
    // Without a record; with one huge value; with a TTL.
    let make: [Make<'_>; 3] = [
        ("empty", &|path| drop(DB::open(&options(), path).expect("opened"))),
        ("huge", &|path| DB::open(&options(), path).expect("opened").put(b"huge", vec![7; 100 << 20]).expect("put")),
        ("ttl", &|path| {
            let db = DB::open_with_ttl(&options(), path, std::time::Duration::from_secs(3600)).expect("opened");
            db.put(b"a key", b"a value").expect("put");
        }),
    ];
    for (name, make) in make {
        let (old, new) = (place.path(name), place.path(&format!("new-{name}")));
        make(&old);
        import(&old, &new).assert().success();
        assert_eq!(records(&new), records(&old), "{name}");
        json(&["verify"], &new, &["--against", old.to_str().expect("text")], 0);
    }
}

#[test]
fn plain_tables_and_timestamps_are_refused() {
    let place = Place::in_memory();
    let (plain, stamped, new) = (place.path("plain"), place.path("stamped"), place.path("new"));
    let mut tables = options();
    tables.set_plain_table_factory(&PlainTableFactoryOptions {
        user_key_length: 0,
        bloom_bits_per_key: 10,
        hash_table_ratio: 0.75,
        index_sparseness: 16,
        huge_page_tlb_size: 0,
        encoding_type: rust_rocksdb::KeyEncodingType::Plain,
        full_scan_mode: false,
        store_index_in_file: false,
    });
    tables.set_prefix_extractor(SliceTransform::create_fixed_prefix(1));
    tables.set_allow_mmap_reads(true);
    DB::open(&tables, &plain).expect("opened").put(b"a", b"1").expect("put");
    let refused = "the column family `default` cannot be copied: its files have the format PlainTable";
    import(&plain, &new).assert().code(4).stderr(contains(refused));
    let mut times = options();
    let compare = |a: &[u8], b: &[u8]| a.cmp(b);
    times.set_comparator_with_ts(
        "order.u64ts",
        8,
        Box::new(compare),
        Box::new(compare),
        Box::new(|a, _, b, _| a.cmp(b)),
    );
    drop(DB::open(&times, &stamped).expect("opened"));
    let refused = "the column family `default` cannot be copied: its keys have user timestamps (`order.u64ts`)";
    import(&stamped, &new).assert().code(4).stderr(contains(refused));
    assert!(!new.exists());
}

#[test]
fn operands_of_a_known_operator_are_merged() {
    let place = Place::in_memory();
    for (number, operator) in ["{id=StringAppendOperator;delimiter=,;}", "UInt64AddOperator"].into_iter().enumerate() {
        let (old, new) = (place.path(&format!("old-{number}")), place.path(&format!("new-{number}")));
        let mut merging = options().get_options_from_string(format!("merge_operator={operator}")).expect("options");
        merging.create_if_missing(true);
        let db = DB::open(&merging, &old).expect("opened");
        db.put(b"sum", 5u64.to_le_bytes()).expect("put");
        db.flush().expect("flushed");
        db.merge(b"sum", 7u64.to_le_bytes()).expect("merged");
        db.flush().expect("flushed");
        let expected = db.get(b"sum").expect("read").expect("there");
        drop(db);
        import(&old, &new).assert().success();
        assert_eq!(records(&new)["default"][&b"sum"[..]], expected, "{operator}");
    }
}

/// Column families with the count and the digest of their records, as another program reads them.
fn shown(library: &str, db: &Path) -> serde_json::Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/records.py");
    let output = python().args([script, "show", library]).arg(db).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn databases_of_other_programs_are_copied() {
    for library in nodes() {
        let choices: &[&str] = match library {
            // It cannot read the zlib blocks of other programs.
            "rocksdict" => &["snappy", "bz2", "lz4", "lz4hc", "zstd"],
            _ => &[
                "compression=kNoCompression;block_based_table_factory={format_version=2}",
                "compression=kSnappyCompression;block_based_table_factory={format_version=3}",
                "compression=kZlibCompression;block_based_table_factory={format_version=4}",
                "compression=kZSTD;compression_opts={max_dict_bytes=8192};prefix_extractor=rocksdb.FixedPrefix.4",
                "compression=kLZ4Compression;enable_blob_files=true;min_blob_size=100",
            ],
        };
        for choice in choices {
            let place = Place::in_memory();
            let (old, new, compat) = (place.path("old"), place.path("new"), place.path("compat"));
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/records.py");
            let output = python().args([script, "make", library]).arg(&old).arg(choice).output().expect("it runs");
            assert!(output.status.success(), "{choice}: {}", String::from_utf8_lossy(&output.stderr));
            import(&old, &new).assert().success();
            import(&old, &compat).args(["--preset", "ingest-compat"]).assert().success();
            assert_eq!(records(&new), records(&old), "{library}, {choice}");
            let before = shown(library, &old);
            assert!(before["\n"][0].as_u64() > Some(2000), "{before}");
            for copy in [&new, &compat] {
                assert_eq!(shown(library, copy), before, "{library}, {choice}");
            }
        }
    }
}

#[test]
fn sample_estimates_the_whole_copy() {
    let place = Place::new();
    let old = place.path("old");
    let db = DB::open(&options(), &old).expect("opened");
    let mut batch = WriteBatch::default();
    for number in 0..40_000u32 {
        batch.put(number.wrapping_mul(2_654_435_761).to_be_bytes(), value(number, 1));
    }
    db.write(&batch).expect("written");
    db.flush().expect("flushed");
    drop(db);
    let (out, dir) = (place.path("out"), place.path("dir"));
    let mut command = bedload();
    command.arg("bench").arg(&old).arg("--out").arg(&out).arg("--dir").arg(&dir);
    command.args(["--presets", "ingest,ingest-zstd", "--sample", "8MiB", "--runs", "1", "--lookups", "100"]);
    command.args(["--set", "load.ingest.sst_size=4M"]).assert().success().stdout(contains("a copy of all takes about"));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("results.json")).expect("there")).expect("JSON");
    let sample = &report["runs"][0]["import"]["sample"];
    assert!(sample["ranges"].as_u64() < sample["of"].as_u64(), "{sample}");
    // Each database is as large as its sample says.
    let whole = place.path("whole");
    import(&old, &whole).args(["--preset", report["runs"][0]["variant"].as_str().expect("text")]).assert().success();
    let size: u64 = ssts(&whole).iter().map(|path| std::fs::metadata(path).expect("there").len()).sum();
    let estimated = sample["whole_bytes"].as_u64().expect("a number");
    assert!(estimated.abs_diff(size) < size / 5, "{estimated} for {size}");
}
