//! An import of a block log that is killed goes on with the same command, to exactly the same records.

mod common;

use common::log::*;
use common::run::{Import, Place, import, import_pipe};

/// The named points that an import of a log passes.
const POINTS: [&str; 14] = [
    "start",
    "range-synced",
    "range",
    "range:3",
    "range-synced:4",
    "ranges",
    "ingesting",
    "ingest",
    "ingesting:2",
    "ingest:2",
    "ingested",
    "recorded",
    "complete",
    "renamed",
];

/// The same through memtables.
const OF_MEMTABLES: [&str; 9] =
    ["start", "range-synced", "range", "range:3", "ranges", "read-done", "recorded", "complete", "renamed"];

/// Through memtables, with many durable points.
fn through_memtables(run: Import) -> Import {
    run.args(&["--preset", "memtable", "--set", "load.cf.write_buffer_size=256K"])
        .env("BEDLOAD_DURABLE_BYTES", "100000")
}

fn case<'a>(place: &'a Place, log: &'a [u8], piped: bool) -> impl Fn() -> Import + 'a {
    let file = place.file("block_log", log);
    move || {
        let run = if piped { import_pipe(place, log) } else { import(place, &file) };
        run.args(&["--threads", "2", "--memory", "16MiB"])
    }
}

#[test]
fn killed_at_every_named_point_it_goes_on() {
    let blocks = steem(1, 12_000, 1);
    let bytes = log(&blocks, |number| if number < 9000 { Packed::Raw } else { Packed::Zstd });
    for piped in [false, true] {
        for point in POINTS {
            let place = Place::in_memory();
            let run = case(&place, &bytes, piped);
            let done = run().env("BEDLOAD_ABORT_AT", point).run();
            assert_eq!(done.code, Some(137), "{point}, piped {piped}: {}", done.stderr);
            assert_eq!(done.db.exists(), point == "renamed", "{point}");
            holds(&run().run(), &blocks);
        }
    }
}

#[test]
fn killed_at_one_point_after_the_other_it_still_goes_on() {
    let blocks = steem(1, 12_000, 2);
    let bytes = raw(&blocks);
    for piped in [false, true] {
        let place = Place::in_memory();
        let run = case(&place, &bytes, piped);
        for point in ["start", "range", "range-synced", "range:2", "range", "ranges", "ingest", "ingesting", "ingested"]
        {
            let done = run().env("BEDLOAD_ABORT_AT", point).run();
            assert_eq!(done.code, Some(137), "{point}, piped {piped}: {}", done.stderr);
        }
        holds(&run().run(), &blocks);
    }
}

#[test]
fn killed_on_the_way_through_memtables_it_goes_on() {
    let blocks = steem(1, 12_000, 5);
    let bytes = log(&blocks, |number| if number < 9000 { Packed::Raw } else { Packed::Zstd });
    for piped in [false, true] {
        let place = Place::in_memory();
        let all = case(&place, &bytes, piped);
        let run = || through_memtables(all());
        for point in OF_MEMTABLES {
            let done = run().env("BEDLOAD_ABORT_AT", point).run();
            assert_eq!(done.code, Some(137), "{point}, piped {piped}: {}", done.stderr);
            assert_eq!(done.db.exists(), point == "renamed", "{point}");
            holds(&run().run(), &blocks);
            std::fs::remove_dir_all(&done.db).expect("removed");
        }
        for point in ["start", "range", "range-synced", "range:2", "range", "ranges", "read-done", "recorded"] {
            let done = run().env("BEDLOAD_ABORT_AT", point).run();
            assert_eq!(done.code, Some(137), "{point}, piped {piped}: {}", done.stderr);
        }
        holds(&run().run(), &blocks);
    }
}

#[test]
fn what_went_through_memtables_and_is_durable_is_not_read_again() {
    let blocks = steem(1, 12_000, 6);
    let bytes = raw(&blocks);
    let place = Place::in_memory();
    let all = case(&place, &bytes, false);
    let run = || through_memtables(all());
    let whole = run().run();
    holds(&whole, &blocks);
    std::fs::remove_dir_all(&whole.db).expect("removed");
    assert_eq!(run().env("BEDLOAD_ABORT_AT", "range:3").run().code, Some(137));
    // The same options and another log, or the same log and another preset.
    let other = place.file("other", &raw(&steem(1, 12_000, 7)));
    let other = through_memtables(import(&place, other)).args(&["--threads", "2", "--memory", "16MiB"]).run();
    assert_eq!(other.code, Some(4), "{}", other.stderr);
    let other = all().run();
    other.refused(4, None, "an unfinished import of something else lies here: ");
    let rest = run().run();
    holds(&rest, &blocks);
    let batches = |done: &common::run::Done| done.number("/memtable/batches");
    assert!(batches(&rest) < batches(&whole) * 4 / 5, "{} of {} batches", batches(&rest), batches(&whole));
}

#[test]
fn what_is_built_is_not_built_again_and_another_source_is_refused() {
    let blocks = steem(1, 12_000, 3);
    let bytes = raw(&blocks);
    for piped in [false, true] {
        let place = Place::in_memory();
        let run = case(&place, &bytes, piped);
        assert_eq!(run().env("BEDLOAD_ABORT_AT", "range:4").run().code, Some(137));
        let built = place.path("db.partial/sst").read_dir().expect("a folder").count();
        assert!(built >= 6, "{built} files");
        let other = raw(&steem(1, 12_000, 4));
        let done = if piped {
            import_pipe(&place, other.clone()).args(&["--threads", "2", "--memory", "16MiB"]).run()
        } else {
            import(&place, place.file("other", &other)).args(&["--threads", "2", "--memory", "16MiB"]).run()
        };
        assert_eq!(done.code, Some(4), "{}", done.stderr);
        let done = run().run();
        holds(&done, &blocks);
        let whole = {
            std::fs::remove_dir_all(&done.db).expect("removed");
            run().run()
        };
        let written = |done: &common::run::Done| done.number("/bytes_written");
        assert!(written(&done) < written(&whole) * 4 / 5, "{} of {} bytes", written(&done), written(&whole));
    }
}

#[test]
fn transactions_are_found_after_a_kill_as_after_none() {
    let Some(dir) = common::fixtures() else { return };
    let bytes = std::fs::read(dir.join("block_log/antelope_v2/blocks.log")).expect("a file");
    let digest = |done: &common::run::Done| {
        done.succeeded();
        done.json["log"]["families"].as_array().expect("families").clone()
    };
    let place = Place::in_memory();
    let expected = digest(&import(&place, place.file("log", &bytes)).args(&["--index", "transactions"]).run());
    assert_eq!(expected.len(), 3);
    let with_files =
        ["range-synced", "range", "built-synced", "built", "ingest:3", "ingested"].map(|point| (false, point));
    let with_batches = ["range-synced", "range", "built-synced", "built", "read-done"].map(|point| (true, point));
    for (batches, point) in with_files.into_iter().chain(with_batches) {
        let place = Place::in_memory();
        let file = place.file("log", &bytes);
        let run = || {
            let run = import(&place, &file).args(&["--index", "transactions"]);
            if batches { through_memtables(run) } else { run }
        };
        let done = run().env("BEDLOAD_ABORT_AT", point).run();
        assert_eq!(done.code, Some(137), "{point}: {}", done.stderr);
        let found = digest(&run().run());
        for (found, expected) in found.iter().zip(&expected) {
            for field in ["name", "records", "duplicates", "digest"] {
                assert_eq!(found[field], expected[field], "{point}, batches {batches}");
            }
        }
        assert_eq!(found.len(), expected.len());
    }
}
