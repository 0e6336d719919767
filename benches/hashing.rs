//! Bytes per second of every hash function at the sizes blocks have, and of the content digest. One core.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;

use bedload::testing::hash::content_digest::ContentDigest;
use bedload::testing::hash::{BATCH, Checker, Claim, Function};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const SIZES: [usize; 4] = [128, 1 << 10, 4 << 10, 64 << 10];

/// Different bytes in every block, about 4 MiB at once: more than a first-level cache, as during an import.
fn blocks(size: usize) -> Vec<Vec<u8>> {
    let count = ((4 << 20) / size).clamp(64, 4 * BATCH);
    (0..count as u64)
        .map(|block| {
            (0..size as u64).map(|at| ((block * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
        })
        .collect()
}

fn functions(c: &mut Criterion) {
    for code in [0xb220, 0xb240, 0xb260, 0x12, 0x13, 0x56, 0x11, 0x16, 0x1b, 0x1e, 0x00] {
        let Some(function) = Function::from_code(code) else { continue };
        let mut group = c.benchmark_group(format!("verify/{function}"));
        for size in SIZES {
            let blocks = blocks(size);
            let digests: Vec<_> = blocks.iter().map(|data| function.digest(data)).collect();
            let claims: Vec<_> =
                blocks.iter().zip(&digests).map(|(data, digest)| Claim { code, digest, data }).collect();
            let mut checker = Checker::new();
            group.throughput(Throughput::Bytes((size * claims.len()) as u64));
            group.bench_function(BenchmarkId::from_parameter(size), |b| {
                b.iter(|| checker.check(black_box(&claims)).is_ok());
            });
        }
        group.finish();
    }
}

/// The lanes against one block at a time.
fn blake2b_one_at_a_time(c: &mut Criterion) {
    let mut group = c.benchmark_group("blake2b-256 one at a time");
    let params = blake2b_simd::Params::new().hash_length(32).clone();
    for size in SIZES {
        let blocks = blocks(size);
        group.throughput(Throughput::Bytes((size * blocks.len()) as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                blocks.iter().for_each(|data| {
                    black_box(params.hash(data));
                })
            });
        });
    }
    group.finish();
}

fn content_digest(c: &mut Criterion) {
    const KEY: usize = 38;
    let mut group = c.benchmark_group("content digest");
    for size in [200, 1 << 10, 4 << 10, 64 << 10] {
        let blocks = blocks(size);
        group.throughput(Throughput::Bytes((size * blocks.len()) as u64));
        group.bench_function(BenchmarkId::new("section", size), |b| {
            b.iter(|| {
                let mut digest = ContentDigest::default();
                blocks.iter().for_each(|block| digest.add_section(block, KEY));
                digest
            });
        });
        group.bench_function(BenchmarkId::new("record", size), |b| {
            b.iter(|| {
                let mut digest = ContentDigest::default();
                for block in &blocks {
                    let (key, value) = block.split_at(KEY);
                    digest.add_record(key, value);
                }
                digest
            });
        });
    }
    group.finish();
}

criterion_group!(hashing, functions, blake2b_one_at_a_time, content_digest);
criterion_main!(hashing);
