//! Block logs through memtables: what several threads write in any order comes out as it does in the order of the chain.

use crate::block_log::imported;
use crate::common::car::noise;
use crate::common::log::*;
use crate::common::model::family;
use crate::common::run::{Place, import};

#[test]
fn first_place_of_a_repeated_transaction_wins() {
    let (count, every) = (4500, 1000);
    let blocks = delayed(count, every);
    let bytes = antelope_log(2, &blocks);
    // The first block of each id, whatever was written last.
    let place_of = |number: u32| (noise(u64::from(number % every), 32), [number.to_be_bytes(), [0; 4]].concat());
    let expected: std::collections::BTreeMap<_, _> = (1..=every).map(place_of).collect();
    for preset in ["ingest", "memtable", "rocksdb-defaults"] {
        let points =
            if preset == "ingest" { ["range", "built-synced", "built"] } else { ["batch", "ranges", "read-done"] };
        let place = Place::in_memory();
        let file = place.file("blocks.log", &bytes);
        let run = || {
            let run = import(&place, &file).args(&["--indexes", "ids,transactions", "--preset", preset]);
            let run = run.args(&["--threads", "4"]);
            let small = ["--set", "load.write.batch_bytes=8K", "--set", "load.cf.write_buffer_size=64K"];
            if preset == "ingest" { run } else { run.args(&small) }
        };
        for kills in [&[][..], &points] {
            kills.iter().for_each(|point| run().dies_at(point));
            let done = run().run();
            holds(&done, &blocks);
            assert!(family(&done.db, "transactions") == expected, "the database holds other transactions");
            let found = &done.json["log"]["families"][2];
            assert_eq!((&found["records"], &found["duplicates"]), (&every.into(), &(count - every).into()), "{found}");
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
