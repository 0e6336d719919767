//! The memory of `bundle` and `seed` does not grow with the database.

use crate::common::run::{Place, bedload};
use crate::common::store::Store;
use crate::memory::budgets::snapshot;
use crate::memory::{FIXED, MIB, measured};
use bedload::testing::generate::Format;

#[test]
fn bundle_and_seed_stay_within_the_budget() {
    let place = Place::new();
    let budget = 64;
    let source = snapshot(&place, 4 * budget * MIB, Format::Car);
    let (db, to) = (place.path("made"), place.path("to"));
    let memory = format!("{budget}MiB");
    let made = ["--memory", &memory, "--threads", "2", "--set", "load.ingest.sst_size=32M"];
    let done = measured(bedload().arg("import").arg(&source).arg("--db").arg(&db).args(made), None);
    assert!(done.is_done, "{}", done.stderr);
    std::fs::remove_file(source).expect("it is ours");
    let done = measured(bedload().arg("bundle").arg(&db).arg("--to").arg(&to).args(["--threads", "2"]), None);
    let bytes = done.number("bytes");
    assert!(bytes > 3 * budget * MIB, "only {bytes} bytes");
    // A bundle has no budget: it holds a block cache and the indexes of some files.
    assert!(done.resident <= 2 * FIXED, "{} MiB", done.resident / MIB);
    let (store, y) = (Store::of(&to), place.path("y"));
    for from in [to.display().to_string(), store.url("")] {
        let args = ["--memory", &memory, "--threads", "2"];
        let done = measured(bedload().arg("seed").arg(&from).arg("--db").arg(&y).args(args), None);
        done.stays_within(budget * MIB + FIXED, &from);
        std::fs::remove_dir_all(&y).expect("a database");
    }
}
