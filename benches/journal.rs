//! Entries per second of an import's journal, each synced before the next. This measures the disk of the temporary
//! directory, not the processor.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use bedload::testing::bench_support::Appending;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn append(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut group = c.benchmark_group("journal");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    for partitions in [16, 256, 2048] {
        let place = dir.path().join(partitions.to_string());
        std::fs::create_dir(&place).expect("room for a folder");
        let journal = Appending::new(&place).expect("a new one");
        let mut offset = 0;
        group.bench_function(BenchmarkId::new("append and sync, partitions", partitions), |b| {
            b.iter(|| {
                offset += 32 << 20;
                journal.append(offset, partitions).expect("room for a line");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, append);
criterion_main!(benches);
