//! A program that embeds the library: its own open databases keep their locks, and its faults lose no report.

use bedload::progress::{Event, Observer, Phase, Sample, Silent};
use bedload::{Error, ImportOptions, StateKind, Unfinished};
use rust_rocksdb::DB;

use crate::common::car::{block, rooted};
use crate::common::run::{Place, program};
use crate::import::library_calls::PanicsOnDrop;

/// The options of an import into the database of a host, with one of the ways to use a database that exists.
type Way = fn(ImportOptions) -> ImportOptions;

const WAYS: [Way; 3] = [
    |options| options.into_existing(true),
    |options| options.replace(true),
    |options| options.replace(true).unfinished(Unfinished::Restart),
];

/// Closing a descriptor of LOCK released the lock of the host. The import also replaced the database under it.
#[test]
fn hosts_open_database_keeps_its_lock() {
    let (place, car) = Place::with_file("new.car", &rooted(&[block(b"new")]));
    for (number, way) in WAYS.into_iter().enumerate() {
        let path = place.path(&format!("db-{number}"));
        let host = DB::open_default(&path).expect("a database");
        host.put(b"key", b"value").expect("written");
        let options = way(ImportOptions::new(&car, &path));
        let planned = bedload::plan(&options).expect_err("it is open");
        for error in [planned, bedload::import(&options, &Silent).expect_err("it is open")] {
            assert!(matches!(error, Error::State { kind: StateKind::Open, .. }), "{number}: {error}");
            assert!(error.to_string().contains("this process has the database open"), "{number}: {error}");
        }
        let other = program().args(["import", "--into-existing"]).arg(&car).arg("--db").arg(&path).assert().code(4);
        let shown = String::from_utf8_lossy(&other.get_output().stderr).into_owned();
        assert!(shown.contains("another process has the database open"), "{number}: {shown}");
        assert_eq!(host.get(b"key").expect("read").as_deref(), Some(&b"value"[..]), "{number}");
        drop(host);
        let done = bedload::import(&way(ImportOptions::new(&car, &path)), &Silent);
        assert!(done.is_ok(), "{number}: {done:?}");
    }
}

#[test]
fn replace_refuses_a_database_opened_meanwhile() {
    let (place, car) = Place::with_file("new.car", &rooted(&[block(b"new")]));
    let path = place.path("db");
    DB::open_default(&path).expect("a database").put(b"key", b"value").expect("written");
    let opened = parking_lot::Mutex::new(None);
    let open = |event: &Event| {
        if matches!(event, Event::Phase { phase: Phase::Commit }) {
            *opened.lock() = DB::open_default(&path).ok();
        }
    };
    let options = ImportOptions::new(&car, &path).replace(true);
    let error = bedload::import(&options, &open).expect_err("it is open");
    assert!(error.to_string().contains("this process has the database open"), "{error}");
    let opened = opened.into_inner().expect("the host has opened it");
    assert_eq!(opened.get(b"key").expect("read").as_deref(), Some(&b"value"[..]));
    drop(opened);
    bedload::import(&options, &Silent).expect("imported");
}

/// Panics in one of its methods.
struct Panics {
    in_event: Option<Phase>,
}

impl Observer for Panics {
    fn event(&self, event: &Event) {
        if self.in_event.is_none() {
            // Longer than the time between two samples.
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        if let (Event::PhaseDone { phase, .. }, Some(wanted)) = (event, self.in_event)
            && *phase == wanted
        {
            std::panic::panic_any(PanicsOnDrop);
        }
    }

    fn sample(&self, _: &Sample) {
        assert!(self.in_event.is_some(), "the observer fails");
    }
}

#[test]
fn observer_panic_does_not_lose_the_report() {
    let (place, car) = Place::with_file("some.car", &rooted(&[block(b"a block")]));
    for (number, in_event) in [None, Some(Phase::Read), Some(Phase::Commit)].into_iter().enumerate() {
        let options = ImportOptions::new(&car, place.path(&format!("db-{number}")));
        let report = bedload::import(&options, &Panics { in_event }).expect("imported");
        assert_eq!(report.blocks.written, 1, "{in_event:?}");
    }
}
