//! Reading from a finished database, as a node does: opened with its own options, single lookups, many at once, all.
//!
//! This runs in a process of its own (`bedload bench-read`), so that memory and processor time are those of reading
//! alone. Every kind of lookup has keys of its own, so that one does not warm the cache for the next one; when
//! everything is to be warm, all of it is done once before, unmeasured.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::cache;
use super::keys;
use crate::error::Result;
use crate::os::resources;
use crate::parallel;
use crate::report::bench::{LookupTimes, ReadFigures};
use crate::report::statistics::quantile;
use crate::rocks::{ReadCounts, Reader};

/// Keys in one `multi_get`.
pub const MULTI_GET: usize = 100;

/// How long one kind of lookup may take: cold lookups on a slow disk are cut off there.
const MAX_LOOKUPS: Duration = Duration::from_secs(5);

/// How long the iteration over all records may take.
const MAX_ITERATION: Duration = Duration::from_secs(20);

/// Records between two readings of the clock.
const STRIDE: u64 = 4096;

/// What to read, and how.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The database.
    pub db: PathBuf,
    /// Its column family; `None` for the one its record names.
    pub family: Option<String>,
    /// Keys that are there, one a line in hex, as [`keys::sample`] writes them.
    pub keys: PathBuf,
    /// Whether nothing of the database is to be in memory before; otherwise all of it is.
    pub cold: bool,
    /// The block cache in bytes.
    pub block_cache: u64,
    /// Threads that look up at once. Defaults to the number of cores.
    pub threads: Option<usize>,
}

/// Reads, and measures how long it takes.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no such column family; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): the database or the keys cannot be read; [`Error::Usage`](crate::Error::Usage): a
/// key is not in hex.
pub fn read(options: &ReadOptions) -> Result<ReadFigures> {
    let family = match &options.family {
        Some(family) => family.clone(),
        None => keys::family_of(&options.db)?,
    };
    let all = keys::load(&options.keys)?;
    let threads = options.threads.unwrap_or_else(crate::parallel::cores).max(1);
    // Single hits, single misses, hits and misses on all threads, multi_get.
    let share = all.len() / 5;
    let part = |index: usize| all.get(index * share..(index + 1) * share).unwrap_or_default();
    let misses = |index: usize| part(index).iter().map(|key| keys::absent(key)).collect::<Vec<_>>();
    let (hits, multi) = ([part(0), part(2)], part(4));
    let misses = [misses(1), misses(3)];

    if options.cold {
        cache::evict(&options.db)?;
    } else {
        cache::warm(&options.db)?;
    }
    let resident_before = cache::resident(&options.db);
    let start = Instant::now();
    let reader = Reader::open_as_node(&options.db, usize::try_from(options.block_cache).unwrap_or(usize::MAX))?;
    let open_seconds = start.elapsed().as_secs_f64();
    let reading = Reading { reader: &reader, family: &family };
    if !options.cold {
        for keys in hits.iter().copied().chain(misses.iter().map(Vec::as_slice)) {
            reading.singly(keys)?;
        }
        reading.at_once(multi)?;
    }
    let (hit, hit_counts) = reading.counted(hits[0])?;
    let resident_after_hits = cache::resident(&options.db);
    let (miss, miss_counts) = reading.counted(&misses[0])?;
    let hits_per_second_threads = reading.on_threads(hits[1], threads)?;
    let misses_per_second_threads = reading.on_threads(&misses[1], threads)?;
    let multi_get_per_second = reading.at_once(multi)?;
    let iterated = reading.iterate()?;
    let per_second = |count: u64| (iterated.seconds > 0.0 && count > 0).then(|| count as f64 / iterated.seconds);
    Ok(ReadFigures {
        resident_before,
        resident_after_hits,
        open_seconds,
        block_cache_bytes: options.block_cache,
        hit,
        hit_counts,
        miss,
        miss_counts,
        threads,
        hits_per_second_threads,
        misses_per_second_threads,
        multi_get_keys: MULTI_GET,
        multi_get_per_second,
        iterate_bytes_per_second: per_second(iterated.bytes),
        iterate_records_per_second: per_second(iterated.records),
        iterate_complete: iterated.complete,
        peak_rss_bytes: resources::peak_rss(),
        cpu_seconds: resources::cpu_seconds(),
    })
}

/// The result of reading all records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Iterated {
    /// Records read.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Whether it came to the end.
    pub complete: bool,
}

/// Reads all records in order, opening included, without a limit of time: the scan of a database without links.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no such column family; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): the database cannot be read.
pub fn scan_in_order(db: &std::path::Path, block_cache: u64) -> Result<Iterated> {
    let family = keys::family_of(db)?;
    let start = Instant::now();
    let reader = Reader::open_as_node(db, usize::try_from(block_cache).unwrap_or(usize::MAX))?;
    let iterated = Reading { reader: &reader, family: &family }.go_through(Duration::MAX)?;
    Ok(Iterated { seconds: start.elapsed().as_secs_f64(), ..iterated })
}

struct Reading<'a> {
    reader: &'a Reader,
    family: &'a str,
}

impl Reading<'_> {
    /// The latencies of single lookups, and what these made RocksDB read.
    fn counted(&self, keys: &[Vec<u8>]) -> Result<(LookupTimes, Option<ReadCounts>)> {
        let before = self.reader.counts();
        let times = latency(self.singly(keys)?);
        let counts = self.reader.counts().zip(before).map(|(after, before)| after.since(before));
        Ok((times, counts))
    }

    /// One lookup after the other; nanoseconds of each.
    fn singly(&self, keys: &[Vec<u8>]) -> Result<Vec<u64>> {
        let begin = Instant::now();
        let mut times = Vec::with_capacity(keys.len());
        for key in keys {
            let start = Instant::now();
            std::hint::black_box(self.reader.size_of(self.family, key)?);
            times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if begin.elapsed() > MAX_LOOKUPS {
                break;
            }
        }
        Ok(times)
    }

    /// Lookups per second of all threads together.
    fn on_threads(&self, keys: &[Vec<u8>], threads: usize) -> Result<Option<f64>> {
        let each = keys.len() / threads;
        if each == 0 {
            return Ok(None);
        }
        // Held until all have started, or one was refused.
        let gate = RwLock::new(());
        let (done, seconds) = std::thread::scope(|scope| {
            let closed = gate.write();
            let workers: Result<Vec<_>> = keys
                .chunks_exact(each)
                .take(threads)
                .map(|keys| {
                    let gate = &gate;
                    parallel::start(scope, move || {
                        drop(gate.read());
                        self.singly(keys).map(|times| times.len())
                    })
                })
                .collect();
            let start = Instant::now();
            drop(closed);
            let done: Result<usize> = workers?
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .sum();
            done.map(|done| (done, start.elapsed().as_secs_f64()))
        })?;
        Ok((seconds > 0.0).then(|| done as f64 / seconds))
    }

    /// Keys per second through `multi_get`.
    fn at_once(&self, keys: &[Vec<u8>]) -> Result<Option<f64>> {
        let start = Instant::now();
        let mut done = 0;
        for batch in keys.chunks(MULTI_GET) {
            for found in self.reader.get_many(self.family, batch, false)? {
                std::hint::black_box(found?.map(|value| value.as_ref().len()));
            }
            done += batch.len();
            if start.elapsed() > MAX_LOOKUPS {
                break;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok((done > 0 && seconds > 0.0).then(|| done as f64 / seconds))
    }

    fn iterate(&self) -> Result<Iterated> {
        self.go_through(MAX_ITERATION)
    }

    fn go_through(&self, patience: Duration) -> Result<Iterated> {
        let start = Instant::now();
        let mut scan = self.reader.scan(self.family, None, None)?;
        let (mut records, mut bytes, mut complete) = (0, 0, true);
        while let Some((key, value)) = scan.item() {
            records += 1;
            bytes += (key.len() + value.len()) as u64;
            if records % STRIDE == 0 && start.elapsed() > patience {
                complete = false;
                break;
            }
            scan.next();
        }
        scan.status()?;
        Ok(Iterated { records, bytes, seconds: start.elapsed().as_secs_f64(), complete })
    }
}

/// The latencies of single operations.
pub(super) fn latency(mut times: Vec<u64>) -> LookupTimes {
    let total: u64 = times.iter().sum();
    times.sort_unstable();
    let mut histogram: Vec<(u64, u64)> = Vec::new();
    for &time in &times {
        let bound = bucket(time);
        match histogram.last_mut() {
            Some((last, count)) if *last == bound => *count += 1,
            _ => histogram.push((bound, 1)),
        }
    }
    LookupTimes {
        count: times.len() as u64,
        per_second: (total > 0).then(|| times.len() as f64 * 1e9 / total as f64),
        p50_ns: quantile(&times, 0.5),
        p99_ns: quantile(&times, 0.99),
        p999_ns: quantile(&times, 0.999),
        max_ns: times.last().copied(),
        histogram,
    }
}

/// The upper bound of the quarter of a power of two that contains `nanoseconds`.
fn bucket(nanoseconds: u64) -> u64 {
    let quarters = (nanoseconds.max(1) as f64).log2() * 4.0;
    ((quarters.floor() + 1.0) / 4.0).exp2().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_its_quantiles_and_its_shape() {
        let times: Vec<u64> = (1..=1000).rev().map(|it| it * 1000).collect();
        let found = latency(times);
        assert_eq!((found.count, found.p50_ns, found.p99_ns), (1000, Some(500_000), Some(990_000)));
        assert_eq!((found.p999_ns, found.max_ns), (Some(999_000), Some(1_000_000)));
        assert!((found.per_second.expect("a rate") - 1e9 / 500_500.0).abs() < 1e-6);
        assert_eq!(found.histogram.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert!(found.histogram.is_sorted());
        let nothing = latency(Vec::new());
        assert_eq!((nothing.count, nothing.p50_ns, nothing.per_second), (0, None, None));
    }

    #[test]
    fn buckets_are_quarters_of_powers_of_two() {
        for (time, bound) in [(1, 1), (1000, 1024), (1024, 1218), (1200, 1218), (1219, 1448), (2048, 2435)] {
            assert_eq!(bucket(time), bound, "{time}");
        }
    }
}
