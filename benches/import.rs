//! Bytes of snapshot per second of a whole small import, closed and ready, by each loader: `ingest` through memory and
//! through files, `memtable`. The disk of the temporary folder is part of it; `bedload bench` measures large ones.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use bedload::PlanChoice;
use bedload::progress::Silent;
use bedload::{ImportOptions, import};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn whole(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (source, db) = (dir.path().join("bench.car"), dir.path().join("db"));
    let car = common::car(64 * common::MIB);
    std::fs::write(&source, &car).expect("room for a file");

    let clear = || {
        if db.exists() {
            std::fs::remove_dir_all(&db).expect("it is ours");
        }
    };

    let mut group = c.benchmark_group("import");
    group.throughput(Throughput::Bytes(car.len() as u64)).sample_size(10);
    for (name, preset, plan) in [
        ("through memory", "ingest", PlanChoice::Memory),
        ("through files", "ingest", PlanChoice::Spill),
        ("through memtables", "memtable", PlanChoice::Auto),
    ] {
        let options = ImportOptions::new(&source, &db).plan(plan).preset(preset).memory(256 * common::MIB);
        group.bench_function(name, |b| {
            let run = |()| import(&options, &Silent).expect("a valid snapshot");
            b.iter_batched(clear, run, BatchSize::PerIteration);
        });
        clear();
    }
    group.finish();
}

criterion_group!(benches, whole);
criterion_main!(benches);
