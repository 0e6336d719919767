//! The calls of a node that embeds the library: plan, import, resume, clean, observers and readers.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bedload::progress::{CancellationToken, Event, Observer, Phase, Silent};
use bedload::{Error, ImportOptions, KeyLayout, PlanChoice, StateKind, Unfinished};

use crate::common::car::{Block, block, noise, rooted, zstd};
use crate::common::model::{Key, Model, records};
use crate::common::run::{Place, partial, stops_at};

pub fn some(seed: u64, count: usize) -> Vec<Block> {
    (0..count).map(|number| block(&noise(seed + number as u64, 2000))).collect()
}

/// Leaves the unfinished import of `car` into `db`.
fn leave_unfinished(car: &Path, db: &Path) {
    let stop = CancellationToken::default();
    let options = ImportOptions::new(car, db).plan(PlanChoice::Spill).stop(stop.clone());
    let error = bedload::import(&options, &stops_at(Phase::Build, stop)).expect_err("it was cancelled");
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    assert!(partial(db).join("journal").exists() && !db.exists());
}

#[test]
fn plan_writes_nothing_and_has_the_event() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 100)));
    let options = ImportOptions::new(&car, place.path("db")).memory(1 << 30).threads(2);
    let planned = bedload::plan(&options).expect("a plan");
    assert_eq!((planned.memory, planned.threads, planned.preset.as_str()), (1 << 30, 2, "ingest"));
    assert_eq!(planned.expected_bytes, Some(car.metadata().expect("there").len()));
    assert!(planned.check_space().is_ok() && planned.space[0].free_bytes > planned.space[0].least_bytes);
    assert_eq!(place.path("").read_dir().expect("listed").count(), 1);
    let seen = parking_lot::Mutex::new(None);
    let observer = |event: &Event| {
        if let Event::Planned { plan } = event {
            *seen.lock() = Some(plan.clone());
        }
    };
    let report = bedload::import(&options, &observer).expect("imported");
    let seen = seen.into_inner().expect("an event");
    assert_eq!((&seen.source, seen.memory), (&car.display().to_string(), planned.memory));
    assert_eq!(report.plan.source, "", "the report names its sources");
}

#[test]
fn database_that_appears_during_import_exists() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 100)));
    let db = place.path("db");
    let appears = |event: &Event| {
        if matches!(event, Event::Phase { phase: Phase::Commit, .. }) {
            std::fs::create_dir(&db).and_then(|()| std::fs::write(db.join("file"), "of another")).expect("made");
        }
    };
    let options = ImportOptions::new(&car, &db);
    let error = bedload::import(&options, &appears).expect_err("the name is taken");
    assert!(matches!(&error, Error::State { kind: StateKind::Exists, path, .. } if *path == db), "{error:?}");
    std::fs::remove_dir_all(&db).expect("removed");
    assert!(bedload::import(&options, &Silent).expect("imported").resumed);
}

#[test]
fn replaced_snapshot_is_imported_or_refused() {
    let old = some(1, 2000);
    let mut changed = old.clone();
    changed[1000] = block(&noise(777_777, 2000));
    // Size, ends and times of the file are the same: only reading finds the difference.
    let middle = "not the one that the unfinished import has read";
    for (new, words) in [(some(7000, 2000), "contains a different unfinished import"), (changed, middle)] {
        let (place, car) = Place::with_file("x.car", &rooted(&old));
        let db = place.path("db");
        leave_unfinished(&car, &db);
        let time = car.metadata().and_then(|there| there.modified()).expect("a time");
        std::fs::write(&car, rooted(&new)).expect("written");
        if words == middle {
            std::fs::File::options().write(true).open(&car).and_then(|file| file.set_modified(time)).expect("set");
        }
        let options = ImportOptions::new(&car, &db).plan(PlanChoice::Spill);
        let error = bedload::import(&options, &Silent).expect_err("another source");
        assert!(matches!(error, Error::State { .. }) && error.to_string().contains(words), "{error}");
        let starts_over = AtomicUsize::new(0);
        let warn = |event: &Event| {
            let words = "it is deleted, and the import starts over";
            let is_it = matches!(event, Event::Warning { message } if message.ends_with(words));
            starts_over.fetch_add(usize::from(is_it), Ordering::Relaxed);
        };
        bedload::import(&options.unfinished(Unfinished::ResumeOrRestart), &warn).expect("imported");
        // The run that finds another middle says so itself.
        assert!(words == middle || starts_over.into_inner() == 1, "nothing is said");
        assert!(records(&db) == Model::new(&new, Key::Cid).records);
        assert!(!partial(&db).exists());
    }
}

#[test]
fn resume_or_restart_resumes_the_same_source() {
    let place = Place::new();
    let blocks = some(1, 2000);
    let (car, db) = (place.file("x.car", &rooted(&blocks)), place.path("db"));
    leave_unfinished(&car, &db);
    let options = ImportOptions::new(&car, &db).plan(PlanChoice::Spill).unfinished(Unfinished::ResumeOrRestart);
    assert!(bedload::import(&options, &Silent).expect("imported").resumed);
    leave_unfinished(&car, &place.path("other"));
    let options = ImportOptions::new(&car, place.path("other")).plan(PlanChoice::Spill);
    assert!(!bedload::import(&options.unfinished(Unfinished::Restart), &Silent).expect("imported").resumed);
}

#[test]
fn import_cancelled_at_once_leaves_nothing() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    for phase in [None, Some(Phase::Plan)] {
        let stop = CancellationToken::default();
        if phase.is_none() {
            stop.cancel();
        }
        let cancel = |event: &Event| {
            if matches!(event, Event::Planned { .. }) {
                stop.cancel();
            }
        };
        let options = ImportOptions::new(&car, place.path("db")).stop(stop.clone());
        let error = bedload::import(&options, &cancel).expect_err("cancelled");
        assert!(matches!(error, Error::Interrupted { .. }), "{error}");
        assert_eq!(place.path("").read_dir().expect("listed").count(), 1, "{phase:?}");
    }
}

#[test]
fn clean_removes_the_unfinished_work() {
    let place = Place::new();
    let (car, db) = (place.file("x.car", &rooted(&some(1, 2000))), place.path("db"));
    assert!(bedload::clean(&db).expect("nothing to do").found.is_empty());
    leave_unfinished(&car, &db);
    let report = bedload::clean(&db).expect("cleaned");
    assert!(report.found.len() == 1 && report.found[0].removed && report.removed_bytes > 4_000_000, "{report:?}");
    assert!(!partial(&db).exists());
}

#[test]
fn shared_observers_receive_the_events() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let shared = Arc::new(|_: &Event| _ = CALLS.fetch_add(1, Ordering::Relaxed));
    let boxed: Box<dyn Observer + Send> = Box::new(Arc::clone(&shared));
    let observers: [&dyn Observer; 2] = [&shared, &boxed];
    for (number, observer) in observers.into_iter().enumerate() {
        let before = CALLS.load(Ordering::Relaxed);
        bedload::import(&ImportOptions::new(&car, place.path(&format!("db-{number}"))), observer).expect("imported");
        assert!(CALLS.load(Ordering::Relaxed) > before + 3, "{number}");
    }
}

#[test]
fn reader_is_imported_and_read_once() {
    let place = Place::new();
    let blocks = some(1, 2000);
    let car = rooted(&blocks);
    for (name, bytes) in [("plain", car.clone()), ("packed", zstd(&car))] {
        let db = place.path(name);
        let options = ImportOptions::from_reader(std::io::Cursor::new(bytes), &db);
        let report = bedload::import(&options, &Silent).expect("imported");
        assert_eq!((report.source.path.as_str(), report.blocks.written), ("-", 2000));
        assert!(records(&db) == Model::new(&blocks, Key::Cid).records);
        let error = bedload::import(&options.replace(true), &Silent).expect_err("it was read");
        assert!(error.to_string().contains("has been read already"), "{error}");
    }
}

type Fault = fn(&mut [u8]) -> usize;

/// A reader with a fault at the end of its input.
struct Faulty(std::io::Take<std::io::Cursor<Vec<u8>>>, Fault);

impl Read for Faulty {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.0.limit() == 0 { Ok((self.1)(buf)) } else { self.0.read(buf) }
    }
}

/// A payload whose drop is another panic.
pub struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("by the drop");
    }
}

#[test]
fn faults_of_readers_are_errors() {
    let place = Place::new();
    let faults: [(Fault, _); 3] = [
        (|_| panic!("by the test"), "the reader panicked: by the test"),
        (|_| std::panic::panic_any(PanicsOnDrop), "the reader panicked: no message"),
        (|buf| buf.len() + 1, "more bytes than it was asked for"),
    ];
    for (fault, message) in faults {
        let car = std::io::Cursor::new(rooted(&some(1, 2000)));
        let options = ImportOptions::from_reader(Faulty(car.take(100_000), fault), place.path("db"));
        match bedload::import(&options, &Silent).expect_err("the reader failed") {
            Error::Io { source, .. } => assert!(source.to_string().contains(message), "{source}"),
            other => panic!("{other}"),
        }
        assert!(!place.path("db").exists());
    }
}

/// A writer with a fault after its first bytes.
struct FaultyOutput(usize, OutputFault);

/// Returns the count for a number of bytes.
type OutputFault = fn(usize) -> usize;

impl std::io::Write for FaultyOutput {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 += 1;
        Ok(if self.0 > 1 { (self.1)(buf.len()) } else { buf.len() })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn faults_of_writers_are_errors() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 200)));
    bedload::import(&ImportOptions::new(&car, place.path("db")), &Silent).expect("imported");
    let faults: [(OutputFault, _); 2] = [
        (|_| panic!("by the {}", "test"), "the writer panicked: by the test"),
        (|len| len + 1, "the writer returned more bytes than it was given"),
    ];
    for (fault, message) in faults {
        let options = bedload::ExportOptions::new(place.path("db")).selection(bedload::Selection::All);
        match bedload::export_to(&options, &mut FaultyOutput(0, fault), &Silent).expect_err("the writer failed") {
            Error::Io { source, .. } => assert_eq!(source.to_string(), message),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn verify_and_export_can_be_cancelled() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 200)));
    let (db, stop) = (place.path("db"), CancellationToken::default());
    bedload::import(&ImportOptions::new(&car, &db), &Silent).expect("imported");
    stop.cancel();
    let verified = bedload::verify(&bedload::VerifyOptions::new(&db).stop(stop.clone()), &Silent).map(drop);
    let linked = bedload::ExportOptions::new(&db).stop(stop);
    let exported = bedload::export(&linked, &place.path("y.car"), &Silent).map(drop);
    for ended in [verified, exported] {
        assert!(matches!(ended, Err(Error::Interrupted { .. })), "{ended:?}");
    }
    assert!(!place.path("y.car").exists());
}

#[test]
fn impossible_memory_is_refused() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    for memory in [1 << 50, u64::MAX] {
        let options = ImportOptions::new(&car, place.path("db")).plan(PlanChoice::Memory).memory(memory);
        let refused = [bedload::plan(&options).map(drop), bedload::import(&options, &Silent).map(drop)];
        for error in refused.map(|refused| refused.expect_err("refused")) {
            assert!(matches!(error, Error::Usage { .. }) && error.to_string().ends_with("is too large"), "{error}");
        }
    }
    assert_eq!(place.path("").read_dir().expect("listed").count(), 1);
}

#[test]
fn empty_and_long_paths_are_refused() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    let (db, name, path) = (place.path("db"), "a".repeat(250), "a/".repeat(2500));
    let to = |db: &str| ImportOptions::new(&car, place.path("").join(db));
    let cases = [
        (ImportOptions::new(&car, ""), "the path of the database is empty"),
        (ImportOptions::new("", &db), "the path of a source is empty"),
        (ImportOptions::new(&car, &db).work_dir(""), "the path of the work directory is empty"),
        (ImportOptions::new(&car, "a\0b"), "the path of the database contains a NUL byte"),
        (ImportOptions::new(&path, &db), "the path of a source has 5000 bytes, and a path has at most 4095"),
        (
            to(&name),
            "the path of the database with `.partial` contains a name of 258 bytes, and a name has at most 255",
        ),
        (to(&name.repeat(2)), "the path of the database contains a name of 500 bytes, and a name has at most 255"),
    ];
    for (options, message) in cases {
        for refused in [bedload::plan(&options).map(drop), bedload::import(&options, &Silent).map(drop)] {
            let error = refused.expect_err("refused");
            assert!(matches!(error, Error::Usage { .. }) && error.to_string() == message, "{error}");
        }
    }
    assert_eq!(bedload::clean("").expect_err("refused").to_string(), "the path of the directory is empty");
    let error = bedload::verify(&bedload::VerifyOptions::new(""), &Silent).expect_err("refused");
    assert_eq!(error.to_string(), "the path of the database is empty");
    bedload::import(&ImportOptions::new(&car, &db), &Silent).expect("imported");
    let bundled = bedload::bundle(&bedload::BundleOptions::new(&db, ""), &Silent).map(drop);
    let seeded = bedload::seed(&bedload::SeedOptions::new("", place.path("other")), &Silent).map(drop);
    for error in [bundled, seeded].map(|refused| refused.expect_err("refused")) {
        assert_eq!(error.to_string(), "the path of the bundle is empty");
    }
    let exported = bedload::export(&bedload::ExportOptions::new(&db), std::path::Path::new(""), &Silent);
    assert_eq!(exported.expect_err("refused").to_string(), "the path of the file is empty");
}

/// Before, the work that was left refused another work directory.
#[test]
fn unusable_work_directory_leaves_no_work() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    let options = ImportOptions::new(&car, place.path("db"));
    let error = bedload::import(&options.clone().work_dir("/proc/x"), &Silent).expect_err("refused");
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("/proc/x"), "{error}");
    bedload::import(&options, &Silent).expect("imported");
}

/// Before, an export panicked, and a bundle started every thread that the caller asked for.
#[test]
fn too_many_threads_are_limited() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 200)));
    let (db, to) = (place.path("db"), place.path("bundle"));
    bedload::import(&ImportOptions::new(&car, &db).threads(usize::MAX), &Silent).expect("imported");
    let many = bedload::Resources::default().threads(usize::MAX);
    let exported = bedload::ExportOptions::new(&db).resources(many);
    bedload::export(&exported, &place.path("y.car"), &Silent).expect("exported");
    bedload::bundle(&bedload::BundleOptions::new(&db, &to).threads(usize::MAX), &Silent).expect("bundled");
}

#[test]
fn number_key_is_refused_for_cars() {
    let place = Place::new();
    let car = place.file("x.car", &rooted(&some(1, 10)));
    let options = ImportOptions::new(&car, place.path("db")).key(KeyLayout::Number);
    let error = bedload::import(&options, &Silent).expect_err("refused");
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
}

/// Before, RocksDB's binding panicked on a thread whose panic ends the process.
#[test]
fn column_family_with_nul_is_refused() {
    let place = Place::new();
    let car = place.file("x.car", &rooted(&some(1, 10)));
    let options = ImportOptions::new(&car, place.path("db")).column_family("a\0b");
    let error = bedload::import(&options, &Silent).expect_err("refused");
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
    assert_eq!(place.path("").read_dir().expect("listed").count(), 1);
}

#[test]
fn interrupted_reader_resumes_with_another() {
    let place = Place::new();
    let blocks = some(1, 2000);
    let (car, db) = (rooted(&blocks), place.path("db"));
    let options = |bytes: &[u8]| {
        ImportOptions::from_reader(std::io::Cursor::new(bytes.to_vec()), &db)
            .plan(PlanChoice::Spill)
            .unfinished(Unfinished::ResumeOrRestart)
    };
    let stop = CancellationToken::default();
    bedload::import(&options(&car).stop(stop.clone()), &stops_at(Phase::Build, stop)).expect_err("it was cancelled");
    let mut other = car.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    // The reader is at its end when the difference is found: the next one starts over.
    bedload::import(&options(&other), &Silent).expect_err("another source");
    assert!(!partial(&db).exists());
    bedload::import(&options(&car), &Silent).expect("imported");
    assert!(records(&db) == Model::new(&blocks, Key::Cid).records);
}

/// Before, errors of the library quoted `--set`, the command line and standard input.
#[test]
fn messages_name_no_command_line() {
    let (place, car) = Place::with_file("x.car", &rooted(&some(1, 10)));
    let to = |options: ImportOptions| bedload::import(&options, &Silent).expect_err("refused");
    let set = bedload::Overrides::default().set(vec!["node.table.block_size=x".to_owned()]);
    let broken = Faulty(std::io::Cursor::new(Vec::new()).take(0), |_| panic!("by the test"));
    let sum = format!("sha256:{}", "0".repeat(64));
    let errors = [
        (to(ImportOptions::new(&car, place.path("db")).overrides(set)), "option node.table.block_size=x: "),
        (to(ImportOptions::from_reader(broken, place.path("db"))), "cannot read the input stream"),
        (to(ImportOptions::new(&car, place.path("db")).checksum(sum)), "but the checksum option declares 0000"),
    ];
    for (error, words) in &errors {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let text = format!("{error}: {}", cause.unwrap_or_default());
        assert!(text.contains(words) && !text.contains("command line") && !text.contains("--"), "{text}");
    }
}
