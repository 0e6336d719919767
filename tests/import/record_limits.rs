//! Streams of records that do not fit into the memory budget.

use predicates::str::contains;

use super::rebuild::records as stored;
use super::records::{Item, import, kv, refused};
use crate::common::run::Place;

#[test]
fn records_beyond_the_memory_are_refused() {
    let place = Place::in_memory();
    let keys: Vec<[u8; 4]> = (0..120u32).map(|number| number.reverse_bits().to_be_bytes()).collect();
    let value = vec![7; 1 << 20];
    let items: Vec<Item<'_>> = keys.iter().map(|key| (0, &key[..], &value[..])).collect();
    let (source, db) = (place.file("a.kv", &kv(&["default"], false, &items)), place.path("db"));
    let with = |memory: &str| {
        let mut command = import(&[&source], &db);
        command.args(["--memory", memory]);
        command
    };
    let words = contains("merge 3 sorted runs, and the records make more\nhint: run the same command with --memory ");
    with("16MiB").assert().code(4).stderr(words);
    with("256MiB").assert().success();
    assert_eq!(stored(&db)["default"].len(), keys.len());
    let names: Vec<String> = (0..40).map(|number| format!("family {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = place.file("many.kv", &kv(&names, false, &[(0, b"a", b"1")]));
    refused(&many, &place.path("x"), &["--memory", "32MiB"], 2, "40 column families need --memory 40MiB");
    let line = place.file("a.dump", format!("0x00 ==> 0x{}\n", "0".repeat(9 << 20)).as_bytes());
    refused(&line, &place.path("x"), &["--memory", "16MiB"], 3, " bytes needs --memory ");
    refused(&line, &place.path("x"), &["--column-family", ""], 2, "a column family has a name");
}

/// RocksDB and the journal have the first and last keys of all files in memory.
#[test]
fn long_keys_beyond_the_memory_are_refused() {
    let place = Place::in_memory();
    let keys: Vec<Vec<u8>> = (0..1500u32).map(|number| [&number.to_be_bytes()[..], &[7; 65_531]].concat()).collect();
    // A small budget has fewer threads, with larger files.
    for (sorted, threads) in [(true, "2"), (false, "2"), (true, "16"), (false, "16")] {
        let items: Vec<Item<'_>> = keys.iter().map(|key| (0, &key[..], &b""[..])).collect();
        let (source, db) = (place.file("a.kv", &kv(&["default"], sorted, &items)), place.path("db"));
        let command = |memory: &str| {
            let mut command = import(&[&source], &db);
            command.args(["--memory", memory, "--threads", threads]);
            command
        };
        let output = command("16MiB").assert().code(4).stderr(contains("the first and last keys of the files take "));
        let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        let hint = text.split_once("run the same command with --memory ").expect("a hint").1;
        let needed = hint.split_once(" or more").expect("a hint").0;
        command(needed).assert().success();
        assert_eq!(stored(&db)["default"].keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
        std::fs::remove_dir_all(&db).expect("removed");
    }
}
