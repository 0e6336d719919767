//! Bytes of snapshot per second of partitioning, on one thread: extracting keys from CIDs, learning the borders of
//! partitions, routing, appending to partition files in pieces of a large and of a small budget, and reading these files.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use bedload::testing::sort::key::KeyLayout;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn keys(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(32 * common::MIB);
    let mut group = c.benchmark_group("key extraction");
    group.throughput(Throughput::Bytes(bytes));
    for layout in [KeyLayout::Cid, KeyLayout::Multihash, KeyLayout::Digest] {
        group.bench_function(layout.name(), |b| b.iter(|| snapshot.extract_keys(layout)));
    }
    group.finish();
}

fn routing(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(32 * common::MIB);
    let mut group = c.benchmark_group("routing");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("learn", |b| b.iter(|| snapshot.learn(6)));
    for bits in [0, 6, 11] {
        let routing = snapshot.learn(bits);
        group.bench_function(BenchmarkId::new("route, partitions", 1 << bits), |b| {
            b.iter(|| snapshot.route(&routing));
        });
    }
    group.finish();
}

fn spilling(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(32 * common::MIB);
    let mut group = c.benchmark_group("spilling");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    for (bits, piece) in [(4, 512 << 10), (6, 128 << 10), (8, 16 << 10), (11, 6 << 10)] {
        let routing = snapshot.learn(bits);
        let name = format!("{} partitions, pieces of {} KiB", 1 << bits, piece >> 10);
        group.bench_function(name, |b| {
            // The folder goes after the clock has stopped.
            let spill = |dir: tempfile::TempDir| {
                snapshot.spill(&routing, dir.path(), piece).expect("room for the partitions");
                dir
            };
            b.iter_batched(common::folder, spill, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn reading_back(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(32 * common::MIB);
    let mut group = c.benchmark_group("reading spilled partitions");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    for bits in [4, 8] {
        let routing = snapshot.learn(bits);
        let dir = common::folder();
        let spilled = snapshot.spill(&routing, dir.path(), 128 << 10).expect("room for the partitions");
        group.bench_function(BenchmarkId::new("partitions", 1 << bits), |b| {
            b.iter(|| spilled.read().expect("they are there"));
        });
    }
    group.finish();
}

criterion_group!(benches, keys, routing, spilling, reading_back);
criterion_main!(benches);
