//! Databases that a program makes of its own records.

use std::time::{Duration, Instant};

use bedload::progress::{CancellationToken, Silent};
use bedload::{Error, ImportOptions, SortedWriter, Sorter};

use super::rebuild::records;
use crate::common::run::Place;

fn options(place: &Place) -> ImportOptions {
    ImportOptions::of_records(place.path("db")).memory(32 << 20)
}

/// No database and no unfinished work.
fn is_clean(place: &Place) -> bool {
    place.path("").read_dir().expect("listed").next().is_none()
}

#[test]
fn threads_fill_two_families() {
    for count in [0u32, 7, 200_000] {
        let place = Place::in_memory();
        let sorter = Sorter::new(options(&place), ["default", "second"], Silent).expect("begun");
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let sorter = &sorter;
                threads.spawn(move || {
                    for number in (thread..count).step_by(4) {
                        let key = number.wrapping_mul(2_654_435_761).to_be_bytes().repeat(8);
                        sorter
                            .add(["default", "second"][number as usize % 2], &key, &number.to_le_bytes())
                            .expect("added");
                    }
                });
            }
        });
        let report = sorter.finish().expect("complete");
        assert_eq!(report.blocks.written, u64::from(count));
        let found = records(&place.path("db"));
        assert_eq!(found["default"].len() + found["second"].len(), count as usize);
        assert!(found["second"].values().all(|value| value[0] % 2 == 1));
    }
}

#[test]
fn dropped_sorter_leaves_nothing() {
    let place = Place::in_memory();
    let sorter = Sorter::new(options(&place), ["default"], Silent).expect("begun");
    (0..50_000u32).for_each(|number| sorter.add("default", &number.to_be_bytes(), &[1; 900]).expect("added"));
    drop(sorter);
    assert!(is_clean(&place));
    drop(Sorter::new(options(&place), ["default"], Silent).expect("begun"));
    assert!(is_clean(&place));
}

#[test]
fn wrong_calls_are_refused() {
    let place = Place::in_memory();
    for families in [&[][..], &[""], &["a", "a"], &["a\0"]] {
        let ended = Sorter::new(options(&place), families.iter().copied(), Silent).and_then(Sorter::finish);
        assert!(matches!(ended, Err(Error::BadInput { .. })), "{families:?}: {ended:?}");
        assert!(is_clean(&place));
    }
    let sorter = Sorter::new(options(&place), ["a"], Silent).expect("begun");
    let refused = |outcome: bedload::Result<()>| assert!(matches!(outcome, Err(Error::Usage { .. })), "{outcome:?}");
    refused(sorter.add("b", b"", b""));
    refused(sorter.add("a", &[0; 65_536], b""));
    sorter.add("a", &[0; 65_535], b"").expect("added");
    assert_eq!(sorter.finish().expect("complete").blocks.written, 1);
    let again = Sorter::new(options(&place), ["a"], Silent).and_then(Sorter::finish);
    assert!(matches!(again, Err(Error::State { .. })), "the database exists: {again:?}");
}

#[test]
fn duplicate_is_an_error_of_the_import() {
    let place = Place::in_memory();
    let sorter = Sorter::new(options(&place), ["default"], Silent).expect("begun");
    sorter.add("default", b"key", b"1").expect("added");
    sorter.add("default", b"key", b"2").expect("added");
    let error = sorter.finish().expect_err("two values");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains("the key 0x6b6579 has another value"), "{cause}");
    assert!(is_clean(&place));
}

#[test]
fn failed_import_ends_the_calls() {
    let place = Place::in_memory();
    let options = options(&place).preset("no-such-preset");
    let Ok(sorter) = Sorter::new(options, ["default"], Silent) else { return };
    let start = Instant::now();
    let error = loop {
        if let Err(error) = sorter.add("default", &start.elapsed().as_nanos().to_be_bytes(), &[0; 9000]) {
            break error;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no error");
    };
    assert!(error.to_string().contains("no-such-preset"), "{error}");
}

#[test]
fn cancelled_sorter_is_interrupted() {
    let place = Place::in_memory();
    let stop = CancellationToken::default();
    let sorter = Sorter::new(options(&place).stop(stop.clone()), ["default"], Silent).expect("begun");
    sorter.add("default", b"a", b"b").expect("added");
    stop.cancel();
    assert!(matches!(sorter.finish(), Err(Error::Interrupted { .. })));
    assert!(!place.path("db").exists());
}

#[test]
fn sorted_writer_takes_only_sorted_records() {
    let place = Place::in_memory();
    let mut writer = SortedWriter::new(options(&place), ["a", "b"], Silent).expect("begun");
    for number in 0..100_000u32 {
        writer.put(if number < 50_000 { "a" } else { "b" }, &number.to_be_bytes(), &[3; 100]).expect("added");
    }
    for (family, key) in [("b", 99_999u32), ("b", 7), ("a", 100_000)] {
        assert!(matches!(writer.put(family, &key.to_be_bytes(), b""), Err(Error::Usage { .. })));
    }
    assert_eq!(writer.finish().expect("complete").blocks.written, 100_000);
    let found = records(&place.path("db"));
    assert_eq!((found["a"].len(), found["b"].len()), (50_000, 50_000));
}
