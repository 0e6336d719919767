//! Block logs through memtables: what several threads write in any order comes out as it does in the order of the chain.

use std::path::Path;

use crate::block_log::imported;
use crate::common::car::noise;
use crate::common::log::*;
use crate::common::run::{Done, Place, import};

/// Bytes of an Antelope header, and of the signature after it.
const HEADER: usize = 116 + 66;

/// Blocks that each name one transaction by its id alone, as they do that execute a delayed one; after `every` blocks the
/// ids repeat.
fn delayed(count: u32, every: u32) -> Vec<LogBlock> {
    let mut blocks = antelope(2, 1, count, 8);
    for block in &mut blocks {
        block.bytes.truncate(HEADER);
        // One receipt: status, processor time, words of the net, an id instead of a transaction; no extensions.
        block.bytes.extend([1, 0, 9, 0, 0, 0, 7, 0]);
        block.bytes.extend(noise(u64::from(block.number % every), 32));
        block.bytes.push(0);
    }
    blocks
}

fn transactions(db: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (options, names) = (rust_rocksdb::Options::default(), ["default", "block_ids", "transactions"]);
    let db = rust_rocksdb::DB::open_cf_for_read_only(&options, db, names, false).expect("a database");
    let all = db.iterator_cf(db.cf_handle("transactions").expect("the family"), rust_rocksdb::IteratorMode::Start);
    all.map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("readable")).collect()
}

/// The first block of each id, whatever was written last.
#[track_caller]
fn has_the_first_of_each(done: &Done, count: u32, every: u32) {
    let mut expected: Vec<_> = (1..=every)
        .map(|number| (noise(u64::from(number % every), 32), [number.to_be_bytes(), [0; 4]].concat()))
        .collect();
    expected.sort();
    assert!(transactions(&done.db) == expected, "the database holds other transactions");
    let family = &done.json["log"]["families"][2];
    assert_eq!((&family["records"], &family["duplicates"]), (&every.into(), &(count - every).into()), "{family}");
}

#[test]
fn first_place_of_a_repeated_transaction_wins() {
    let (count, every) = (4500, 1000);
    let blocks = delayed(count, every);
    let bytes = antelope_log(2, &blocks);
    for preset in ["block-log", "memtable", "rocksdb-defaults"] {
        let points =
            if preset == "block-log" { ["range", "built-synced", "built"] } else { ["batch", "ranges", "read-done"] };
        let place = Place::in_memory();
        let file = place.file("blocks.log", &bytes);
        let run = || {
            let run = import(&place, &file).args(&["--indexes", "ids,transactions", "--preset", preset]);
            // The headers are those of other transactions.
            let run = run.args(&["--threads", "4", "--verify", "links"]);
            let small = ["--set", "load.write.batch_bytes=8K", "--set", "load.cf.write_buffer_size=64K"];
            if preset == "block-log" { run } else { run.args(&small) }
        };
        for kills in [&[][..], &points] {
            kills.iter().for_each(|point| run().dies_at(point));
            let done = run().run();
            holds(&done, &blocks);
            has_the_first_of_each(&done, count, every);
            std::fs::remove_dir_all(&done.db).expect("removed");
        }
    }
}

#[test]
fn report_shows_the_skipped_compaction() {
    let blocks = steem(1, 3000, 12);
    let args =
        "--preset memtable --set load.compaction.final=false --set node.cf.level0_file_num_compaction_trigger=100";
    let (_place, done) = imported(&raw(&blocks), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.json["compacted"], false);
    assert_eq!(done.text("/digest"), model(&blocks).digest());
    for family in done.json["log"]["families"].as_array().expect("families") {
        assert_eq!(family["levels"][0]["level"], 0, "{family}");
    }
}

#[test]
fn write_buffers_over_the_budget_are_refused() {
    let log = raw(&steem(1, 60_000, 13));
    let run = |size: &str| {
        let few = ["--preset", "memtable", "--memory", "32MiB", "--set", "load.cf.max_write_buffer_number=2"];
        imported(&log, &[&few[..], &["--set", &format!("load.cf.write_buffer_size={size}")]].concat())
    };
    run("12M").1.refused(2, None, "of write buffers, more than the memory budget of 32.0 MiB");
    let (_place, done) = run("5M");
    done.succeeded();
    assert_eq!(done.number("/plan/memtable/write_buffer_bytes"), 2 * 2 * (5 << 20));
}
