//! Filters of blocks.

use std::sync::atomic::{AtomicUsize, Ordering};

use bedload::progress::{CancellationToken, Event, Phase, Silent};
use bedload::testing::generate::{Profile, Spec, write};
use bedload::{Error, ImportOptions, Links, PlanChoice, VerifyOptions};

use super::library_calls::some;
use crate::common::car::{Block, rooted, zstd};
use crate::common::model::{Key, Model, records};
use crate::common::run::{Place, stops_at};

/// A filter that omits a third of the blocks.
fn keeps(_: &bedload::RawCid, data: &[u8]) -> bool {
    !data[0].is_multiple_of(3)
}

fn kept(blocks: &[Block]) -> Vec<Block> {
    blocks.iter().filter(|(_, data)| !data[0].is_multiple_of(3)).cloned().collect()
}

#[test]
fn filter_omits_blocks_in_every_plan() {
    let place = Place::new();
    let blocks = some(1, 3000);
    let (car, kept) = (place.file("x.car", &rooted(&blocks)), kept(&blocks));
    let packed = place.file("x.car.zst", &zstd(&rooted(&blocks)));
    let model = Model::new(&kept, Key::Cid);
    let ways = [
        (&car, PlanChoice::Memory, "ingest"),
        (&car, PlanChoice::Spill, "ingest"),
        (&car, PlanChoice::Source, "ingest"),
        (&packed, PlanChoice::Memory, "ingest"),
        (&packed, PlanChoice::Spill, "ingest"),
        (&car, PlanChoice::Auto, "memtable"),
    ];
    for (number, (source, plan, preset)) in ways.into_iter().enumerate() {
        let db = place.path(&format!("db-{number}"));
        let report = bedload::import(&ImportOptions::new(source, &db).plan(plan).preset(preset).filter(keeps), &Silent);
        let report = report.expect("imported");
        let (read, omitted) = (kept.len() as u64, (blocks.len() - kept.len()) as u64);
        assert_eq!((report.blocks.read, report.blocks.written, report.blocks.omitted), (read, read, Some(omitted)));
        assert_eq!((report.digest.to_string(), report.payload_bytes), (model.digest(), model.payload), "{number}");
        assert!(records(&db) == model.records, "{number}");
        assert!(bedload::verify(&VerifyOptions::new(&db), &Silent).expect("read").valid, "{number}");
    }
}

/// Blocks that were kept in memory are read again when they are spilled.
#[test]
fn filter_omits_blocks_that_spill_late() {
    let place = Place::new();
    let blocks = some(1, 40_000);
    let (car, db) = (place.file("x.car", &rooted(&blocks)), place.path("db"));
    let options = ImportOptions::new(&car, &db).plan(PlanChoice::Memory).memory(64 << 20).threads(2).filter(keeps);
    let spills = AtomicUsize::new(0);
    let count = |event: &Event| {
        let is_it = matches!(event, Event::Warning { message } if message.contains("spilled to files"));
        spills.fetch_add(usize::from(is_it), Ordering::Relaxed);
    };
    bedload::import(&options, &count).expect("imported");
    assert_eq!(spills.into_inner(), 1);
    assert!(records(&db) == Model::new(&kept(&blocks), Key::Cid).records);
}

#[test]
fn filtered_import_resumes_with_a_filter_only() {
    let place = Place::new();
    let blocks = some(1, 3000);
    let (car, db) = (place.file("x.car", &rooted(&blocks)), place.path("db"));
    for plan in [PlanChoice::Memory, PlanChoice::Spill] {
        let stop = CancellationToken::default();
        let options = ImportOptions::new(&car, &db).plan(plan).links(Links::Check);
        let cancelled = options.clone().filter(keeps).stop(stop.clone());
        bedload::import(&cancelled, &stops_at(Phase::Build, stop)).expect_err("it was cancelled");
        let error = bedload::import(&options, &Silent).expect_err("no filter");
        assert!(error.to_string().contains("filtered was true, is now nothing"), "{error}");
        // A copy has another inode: the blocks that were taken are read again and compared.
        let copy = place.path("copy.car");
        std::fs::copy(&car, &copy).expect("copied");
        let time = car.metadata().and_then(|there| there.modified()).expect("a time");
        std::fs::File::options().write(true).open(&copy).and_then(|file| file.set_modified(time)).expect("set");
        std::fs::rename(&copy, &car).expect("renamed");
        let report = bedload::import(&options.filter(keeps), &Silent).expect("imported");
        assert_eq!(report.resumed, plan == PlanChoice::Spill);
        assert_eq!(report.blocks.omitted, Some((blocks.len() - kept(&blocks).len()) as u64), "{plan:?}");
        assert!(records(&db) == Model::new(&kept(&blocks), Key::Cid).records);
        std::fs::remove_dir_all(&db).expect("removed");
    }
}

#[test]
fn links_to_omitted_blocks_are_missing() {
    let place = Place::new();
    let mut snapshot = std::io::Cursor::new(Vec::new());
    write(&Spec::new(Profile::Small, 2 << 20), &mut snapshot).expect("generated");
    let car = place.file("x.car", &snapshot.into_inner());
    let missing = |options: ImportOptions| {
        let report = bedload::import(&options.links(Links::Check), &Silent).expect("imported");
        report.links.expect("a report of links").missing
    };
    let whole = missing(ImportOptions::new(&car, place.path("whole")));
    let filtered = missing(ImportOptions::new(&car, place.path("db")).filter(|_, data| data.len() < 1000));
    assert!(filtered > whole, "{filtered}, {whole}");
}

/// Before, the import panicked without the message of the filter.
#[test]
fn panic_of_a_filter_is_an_error() {
    let place = Place::new();
    let blocks = some(1, 3000);
    let (car, db) = (place.file("x.car", &rooted(&blocks)), place.path("db"));
    for (plan, preset) in
        [(PlanChoice::Memory, "ingest"), (PlanChoice::Spill, "ingest"), (PlanChoice::Auto, "memtable")]
    {
        let options = ImportOptions::new(&car, &db).plan(plan).preset(preset);
        let panics = |_: &bedload::RawCid, data: &[u8]| data[0] != 7 || panic!("block {}", data[0]);
        match bedload::import(&options.clone().filter(panics), &Silent).expect_err("it panicked") {
            Error::Io { source, .. } => assert_eq!(source.to_string(), "the filter panicked: block 7"),
            other => panic!("{other}"),
        }
        bedload::import(&options.filter(keeps), &Silent).expect("the next call imports");
        assert!(records(&db) == Model::new(&kept(&blocks), Key::Cid).records);
        std::fs::remove_dir_all(&db).expect("removed");
    }
}

#[test]
fn filter_of_a_block_log_is_refused() {
    let (place, log) = Place::with_file("block_log", &crate::common::log::raw(&crate::common::log::steem(1, 30, 1)));
    let error = bedload::import(&ImportOptions::new(&log, place.path("db")).filter(keeps), &Silent);
    assert!(matches!(error, Err(Error::Usage { .. })), "{error:?}");
}
