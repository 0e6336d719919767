//! Blocks per second of the checks of a block log's blocks, on one core.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::ops::Range;

use bedload::testing::blocks::chain::{Family, TransactionOptions, check_transactions, header};
use bedload::testing::generate::log::{LogSpec, write};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Bytes of the log: more than the last-level cache keeps of it.
const SIZE: u64 = 32 << 20;

/// A log without packed blocks, and the positions of the blocks.
fn log(family: Family) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut log, mut blocks) = (Vec::new(), Vec::new());
    let each = |entry: &bedload::testing::generate::log::LogEntry| {
        let start = entry.word as usize;
        blocks.push(start..start + entry.len as usize);
        Ok(())
    };
    write(&LogSpec::new(family, SIZE), &mut log, each).expect("memory has room");
    (log, blocks)
}

fn version(family: Family) -> u32 {
    if family == Family::Antelope { 3 } else { 0 }
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("header");
    for family in [Family::Steem, Family::Antelope] {
        let (log, blocks) = log(family);
        group.throughput(Throughput::Elements(blocks.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(family), |b| {
            b.iter(|| {
                for block in &blocks {
                    black_box(header(family, version(family), &log[block.clone()]).expect("a header"));
                }
            });
        });
    }
    group.finish();
}

fn transactions(c: &mut Criterion) {
    for (name, ids, merkle) in [("ids", true, false), ("merkle", false, true), ("ids and merkle", true, true)] {
        let mut group = c.benchmark_group(format!("transactions/{name}"));
        group.sample_size(20);
        let options = TransactionOptions { ids, merkle, skip_unknown: false };
        for family in [Family::Steem, Family::Antelope] {
            let (log, blocks) = log(family);
            let headers: Vec<_> = blocks
                .iter()
                .map(|block| header(family, version(family), &log[block.clone()]).expect("a header"))
                .collect();
            group.throughput(Throughput::Bytes(log.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(family), |b| {
                b.iter(|| {
                    for (block, header) in blocks.iter().zip(&headers) {
                        let block = &log[block.clone()];
                        black_box(check_transactions(family, version(family), block, header, &options).expect("valid"));
                    }
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, headers, transactions);
criterion_main!(benches);
