//! Bytes per second of cutting a CAR into chunks of whole sections: the part of reading that one thread does alone. The
//! file is in the page cache.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use std::sync::Arc;

use bedload::testing::bench_support;
use bedload::testing::source::input::Input;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn frame(input: Input, mapped: bool) -> u64 {
    bench_support::frame(input, mapped).expect("a valid CAR")
}

fn framing(c: &mut Criterion) {
    let bytes: Arc<[u8]> = common::car(64 * common::MIB).into();
    let dir = common::folder();
    let path = dir.path().join("bench.car");
    std::fs::write(&path, &bytes).expect("room for a file");

    let mut group = c.benchmark_group("framing");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("stream", |b| b.iter(|| frame(common::stream(Arc::clone(&bytes)), false)));
    group.bench_function("file, read", |b| b.iter(|| frame(common::plain(&path), false)));
    group.bench_function("file, mapped", |b| b.iter(|| frame(common::plain(&path), true)));
    group.finish();
}

criterion_group!(benches, framing);
criterion_main!(benches);
