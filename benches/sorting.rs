//! Bytes of snapshot per second of sorting blocks in memory, on one thread.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn sorting(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(64 * common::MIB);
    let routing = snapshot.learn(0);
    let (blocks, entries) = snapshot.into_partitions(&routing);

    let mut group = c.benchmark_group("sorting");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    // By their first eight bytes, as hashes are; and by whole keys, as only an adversary's are.
    for (name, entries) in [("by prefix", entries.clone()), ("by key", entries.alike())] {
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| entries.clone(), |entries| blocks.sort(entries), BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, sorting);
criterion_main!(benches);
