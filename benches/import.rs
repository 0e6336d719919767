//! Bytes of snapshot per second of a whole small import, closed and ready, through memory and through files. The disk of
//! the temporary folder is part of it; `scripts/measure` measures large ones.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use bedload::load::PlanChoice;
use bedload::progress::Silent;
use bedload::{ImportOptions, Outcome, import};
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
    for (name, plan) in [("through memory", PlanChoice::Memory), ("through files", PlanChoice::Spill)] {
        let mut options = ImportOptions::new(&source, &db);
        options.plan = plan;
        options.memory = Some(256 * common::MIB);
        group.bench_function(name, |b| {
            let run = |()| {
                let outcome = import(&options, &Silent).expect("a sound snapshot");
                assert!(matches!(outcome, Outcome::Imported(_)));
            };
            b.iter_batched(clear, run, BatchSize::PerIteration);
        });
        clear();
    }
    group.finish();
}

criterion_group!(benches, whole);
criterion_main!(benches);
