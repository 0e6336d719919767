//! A killed import of a block log resumes with the same command, to exactly the same records.

use std::path::Path;

use crate::common::crash::{copy, in_turn};
use crate::common::database::{flip, ssts};
use crate::common::log::*;
use crate::common::run::{Place, Run, import, import_pipe};

/// Imports of `log` into one place.
fn case<'a>(place: &'a Place, log: &'a [u8], piped: bool) -> impl Fn() -> Run + 'a {
    // Logs that differ have different names.
    let file = place.file(&format!("{:x}", twox_hash::XxHash3_64::oneshot(log)), log);
    move || {
        let run = if piped { import_pipe(place, log) } else { import(place, &file) };
        run.args(&["--threads", "2", "--memory", "16MiB"])
    }
}

/// Kills imports of a log with packed blocks at one point after another; some points come again.
#[test]
fn killed_import_resumes_or_starts_over() {
    let blocks = steem(1, 12_000, 1);
    let bytes = log(&blocks, |number| if number < 9000 { Packed::Raw } else { Packed::Zstd });
    let ranges =
        ["start", "range", "range-synced", "range:2", "range", "ranges", "ingest", "ingesting", "ingested", "renamed"];
    let batches = ["start", "batch", "batch:9", "ranges", "read-done", "recorded", "renamed"];
    let same: fn(Run) -> Run = |run| run;
    for (points, change) in [(&ranges[..], same), (&batches, Run::through_memtables)] {
        for piped in [false, true] {
            let place = Place::in_memory();
            let all = case(&place, &bytes, piped);
            for point in points {
                change(all()).dies_at(point);
                assert_eq!(place.path("db").exists(), *point == "renamed", "{point}");
            }
            holds(&change(all()).run(), &blocks);
        }
    }
}

#[test]
fn memtable_import_refuses_other_unfinished_work() {
    let bytes = raw(&steem(1, 6000, 6));
    let place = Place::in_memory();
    let all = case(&place, &bytes, false);
    all().through_memtables().dies_at("batch:3");
    // The same options and another log, or the same log and another preset.
    let other = case(&place, &raw(&steem(1, 6000, 7)), false)().through_memtables().run();
    assert_eq!(other.code, Some(4), "{}", other.stderr);
    all().run().refused(4, None, "contains a different unfinished import: ");
}

#[test]
fn resume_keeps_files_and_rejects_another_source() {
    let blocks = steem(1, 12_000, 3);
    let bytes = raw(&blocks);
    for piped in [false, true] {
        let place = Place::in_memory();
        let run = case(&place, &bytes, piped);
        run().dies_at("range:4");
        let built = place.path("db.partial/sst").read_dir().expect("a folder").count();
        assert!(built >= 6, "{built} files");
        let other = raw(&steem(1, 12_000, 4));
        let done = case(&place, &other, piped)().run();
        assert_eq!(done.code, Some(4), "{}", done.stderr);
        let done = run().run();
        holds(&done, &blocks);
        std::fs::remove_dir_all(&done.db).expect("removed");
        let [written, all] = [done, run().run()].map(|done| done.number("/bytes_written"));
        assert!(written < all * 4 / 5, "{written} of {all} bytes");
    }
}

/// Flips a bit at `thousandths` of a file's length.
fn flip_at(path: &Path, thousandths: usize) {
    let len = path.metadata().expect("a file").len() as usize;
    flip(path, (len - 1) * thousandths / 1000, 4);
}

/// The import says that its work is damaged, with all of `words`, and does it again when it may.
#[track_caller]
fn is_damaged(run: &dyn Fn() -> Run, words: &[&str], blocks: &[LogBlock]) {
    let done = run().run();
    assert_eq!(done.code, Some(4), "{}", done.stderr);
    assert!(done.hint().contains("--restart"), "{}", done.hint());
    assert!(!done.db.exists());
    words.iter().for_each(|word| assert!(done.stderr.contains(word), "no `{word}` in {}", done.stderr));
    let done = run().args(&["--restart"]).run();
    holds(&done, blocks);
    std::fs::remove_dir_all(&done.db).expect("removed");
}

#[test]
fn flipped_bit_in_the_work_is_not_published() {
    let blocks = steem(1, 3000, 8);
    let bytes = raw(&blocks);
    let place = Place::in_memory();
    let all = case(&place, &bytes, false);
    let run = || all().env("BEDLOAD_DURABLE_BYTES", "100000");
    let (sst, db) = (place.path("db.partial/sst"), place.path("db.partial/db"));
    let (work, kept) = (place.path("db.partial"), place.path("kept"));
    for (number, (point, dir)) in
        [("range:2", &sst), ("ranges", &sst), ("ingest", &db), ("ingested", &db)].into_iter().enumerate()
    {
        run().dies_at(point);
        copy(&work, &kept);
        // Data, index, filter, properties, footer.
        let flips = [[(0, false), (970, true)], [(500, true), (999, false)], [(930, false), (990, true)]];
        for &(thousandths, last) in in_turn(&flips, number).as_flattened() {
            let files = ssts(dir);
            let file = if last { files.last() } else { files.first() };
            flip_at(file.expect("a file"), thousandths);
            is_damaged(&run, &["the unfinished import is damaged"], &blocks);
            copy(&kept, &work);
        }
        std::fs::remove_dir_all(&work).expect("removed");
        std::fs::remove_dir_all(&kept).expect("removed");
    }
    let run = || all().args(&["--indexes", "ids,transactions"]);
    for thousandths in [0, 300, 999] {
        run().dies_at("ranges");
        flip_at(&place.path("db.partial/spill/00000.part"), thousandths);
        is_damaged(&run, &["the unfinished import is damaged: partition 0 has", "were verified"], &blocks);
    }
}
