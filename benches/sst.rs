//! Bytes of snapshot per second of building one SST from sorted blocks, on one thread: the `ingest` preset, and one
//! option of it changed at a time. Files are written to memory where the system has such a place.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

mod common;

use bedload::testing::bench_support::Ssts;
use bedload::testing::preset::{Overrides, Preset, resolve};
use bedload::testing::rocks::option_map::OptionMap;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// `ingest` has blocks of 16 KiB, a bloom filter and no compression.
const CHANGES: [(&str, &str); 7] = [
    ("ingest", ""),
    ("block size 4 KiB", "node.table.block_size=4K"),
    ("block size 64 KiB", "node.table.block_size=64K"),
    ("no filter", "node.table.filter_policy=none"),
    ("ribbon filter", "node.table.filter_policy=ribbon:10"),
    ("lz4", "node.cf.compression=kLZ4Compression"),
    ("zstd", "node.cf.compression=kZSTD"),
];

fn options(change: &str) -> OptionMap {
    let set: Vec<String> = (!change.is_empty()).then(|| change.to_owned()).into_iter().collect();
    let preset = Preset::builtin("ingest").expect("it is built in");
    resolve(&preset, &Overrides::default().set(set)).expect("options that RocksDB takes").loading()
}

fn sst(c: &mut Criterion) {
    let (snapshot, bytes) = common::snapshot(32 * common::MIB);
    let routing = snapshot.learn(0);
    let (blocks, mut entries) = snapshot.into_partitions(&routing);
    blocks.sort(&mut entries);
    let dir = common::folder();

    let mut group = c.benchmark_group("sst");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    for (name, change) in CHANGES {
        let ssts = Ssts::new(&options(change), dir.path()).expect("options that RocksDB takes");
        group.bench_function(name, |b| b.iter(|| ssts.build(&blocks, &entries).expect("room for a file")));
    }
    group.finish();
}

criterion_group!(benches, sst);
criterion_main!(benches);
