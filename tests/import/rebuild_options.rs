//! Copying a database whose options need care.

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use rust_rocksdb::{DB, Options};

use super::rebuild::{import, records};
use crate::common::database::{bedload, json};

/// A RocksDB that keeps all files open, compresses by level, and writes statistics into a column family, which it creates again.
/// The bug: the option of levels was unknown, because OPTIONS files omit it unless it is set.
#[test]
fn copy_keeps_levels_and_omits_statistics() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    let levels = "compression_per_level=kNoCompression:kZSTD";
    let text = "create_if_missing=true;max_open_files=-1;persist_stats_to_disk=true;stats_persist_period_sec=1";
    let options = Options::default().get_options_from_string(format!("{levels};{text}")).expect("options");
    let db = DB::open(&options, &old).expect("opened");
    db.put(b"a", b"1").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    drop(db);
    let mut expected = records(&old);
    assert!(expected.remove("___rocksdb_stats_history___").is_some_and(|statistics| !statistics.is_empty()));
    import(&old, &new).assert().success();
    json(&["verify"], &new, &[], 0);
    assert_eq!(records(&new), expected);
    let stat = bedload().arg("stat").arg(&new).assert().success();
    stat.stdout(contains("compression_per_level").and(contains("kNoCompression:kZSTD")));
    let db = DB::open(&options, &new).expect("a node opens it");
    assert_eq!(db.get(b"a").expect("read").as_deref(), Some(&b"1"[..]));
}
