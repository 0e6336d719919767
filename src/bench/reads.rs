//! Reads from a finished database as a node does: with its own options, by single lookups, in batches, and in order.
//!
//! `bedload bench-read` runs this in a process of its own, so that memory and processor time are those of the reads. Every
//! kind of lookup has keys of its own, so that one does not warm the cache for the next one. Warm lookups are made once
//! before they are measured.

use std::path::Path;
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

/// The time limit of one kind of lookup. Cold lookups on a slow disk reach it.
const MAX_LOOKUPS: Duration = Duration::from_secs(5);

/// The time limit of the iteration.
const MAX_ITERATION: Duration = Duration::from_secs(20);

/// Lookups of several kinds have keys of their own: see [`read`].
pub(super) const KINDS_OF_LOOKUPS: usize = 5;

/// Records between two checks of the time.
const STRIDE: u64 = 4096;

/// Measures reads of the keys in a file of [`keys::sample`]. `cold` evicts the database from the page cache before;
/// otherwise it is read into it. `block_cache` is in bytes.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no such column family; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): the database or the keys cannot be read; [`Error::Usage`](crate::Error::Usage): a
/// key is not in hex.
pub fn read(db: &Path, file: &Path, cold: bool, block_cache: u64) -> Result<ReadFigures> {
    let family = keys::family_of(db)?;
    let all = keys::load(file)?;
    let threads = parallel::cores();
    // Single hits, single misses, hits and misses on all threads, multi_get.
    let share = all.len() / KINDS_OF_LOOKUPS;
    let part = |index: usize| all.get(index * share..(index + 1) * share).unwrap_or_default();
    let misses = |index: usize| part(index).iter().map(|key| keys::missing_key(key)).collect::<Vec<_>>();
    let (hits, multi) = ([part(0), part(2)], part(4));
    let misses = [misses(1), misses(3)];

    if cold { cache::evict(db) } else { cache::warm(db) }?;
    let resident_before = cache::resident(db);
    let start = Instant::now();
    let reader = Reader::open_as_node(db, usize::try_from(block_cache).unwrap_or(usize::MAX))?;
    let open_seconds = start.elapsed().as_secs_f64();
    let reading = NodeReads { reader: &reader, family: &family };
    if !cold {
        for keys in hits.iter().copied().chain(misses.iter().map(Vec::as_slice)) {
            reading.time_each(keys)?;
        }
        reading.get_batches(multi)?;
    }
    let (hit, hit_counts) = reading.measure(hits[0])?;
    let resident_after_hits = cache::resident(db);
    let (miss, miss_counts) = reading.measure(&misses[0])?;
    let hits_per_second_threads = reading.get_on_threads(hits[1], threads)?;
    let misses_per_second_threads = reading.get_on_threads(&misses[1], threads)?;
    let multi_get_per_second = reading.get_batches(multi)?;
    let iterated = reading.iterate(MAX_ITERATION)?;
    let found = hits[0].iter().map(|key| Ok(reader.size_of(&family, key)?.is_none()));
    let missing_keys = found.collect::<Result<Vec<_>>>()?.into_iter().map(u64::from).sum();
    let per_second = |count: u64| (iterated.seconds > 0.0 && count > 0).then(|| count as f64 / iterated.seconds);
    Ok(ReadFigures {
        resident_before,
        resident_after_hits,
        open_seconds,
        block_cache_bytes: block_cache,
        hit,
        hit_counts,
        missing_keys,
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

/// An iteration over all records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Iterated {
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    pub seconds: f64,
    /// True if it reached the end.
    pub complete: bool,
}

/// Reads all records in order without a time limit, opening included: the scan of a database without links.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no such column family; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): the database cannot be read.
pub fn scan_in_order(db: &Path, block_cache: u64) -> Result<Iterated> {
    let family = keys::family_of(db)?;
    let start = Instant::now();
    let reader = Reader::open_as_node(db, usize::try_from(block_cache).unwrap_or(usize::MAX))?;
    let iterated = NodeReads { reader: &reader, family: &family }.iterate(Duration::MAX)?;
    Ok(Iterated { seconds: start.elapsed().as_secs_f64(), ..iterated })
}

struct NodeReads<'a> {
    reader: &'a Reader,
    family: &'a str,
}

impl NodeReads<'_> {
    /// Returns the durations of single lookups, and RocksDB's counters of them.
    fn measure(&self, keys: &[Vec<u8>]) -> Result<(LookupTimes, Option<ReadCounts>)> {
        let before = self.reader.counts();
        let times = lookup_times(self.time_each(keys)?);
        let counts = self.reader.counts().zip(before).map(|(after, before)| after.since(before));
        Ok((times, counts))
    }

    /// Looks keys up one after the other; returns the nanoseconds of each.
    fn time_each(&self, keys: &[Vec<u8>]) -> Result<Vec<u64>> {
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

    /// Returns the lookups per second of all threads together.
    fn get_on_threads(&self, keys: &[Vec<u8>], threads: usize) -> Result<Option<f64>> {
        let each = keys.len() / threads;
        if each == 0 {
            return Ok(None);
        }
        // Locked until all threads have started, or the system has refused one.
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
                        self.time_each(keys).map(|times| times.len())
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

    /// Returns the keys per second through `multi_get`.
    fn get_batches(&self, keys: &[Vec<u8>]) -> Result<Option<f64>> {
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

    fn iterate(&self, limit: Duration) -> Result<Iterated> {
        let start = Instant::now();
        let mut scan = self.reader.scan(self.family, None, None)?;
        let (mut records, mut bytes, mut complete) = (0, 0, true);
        while let Some((key, value)) = scan.item() {
            records += 1;
            bytes += (key.len() + value.len()) as u64;
            if records % STRIDE == 0 && start.elapsed() > limit {
                complete = false;
                break;
            }
            scan.next();
        }
        scan.status()?;
        Ok(Iterated { records, bytes, seconds: start.elapsed().as_secs_f64(), complete })
    }
}

fn lookup_times(mut times: Vec<u64>) -> LookupTimes {
    let total: u64 = times.iter().sum();
    times.sort_unstable();
    LookupTimes {
        count: times.len() as u64,
        per_second: (total > 0).then(|| times.len() as f64 * 1e9 / total as f64),
        p50_ns: quantile(&times, 0.5),
        p99_ns: quantile(&times, 0.99),
        p999_ns: quantile(&times, 0.999),
        max_ns: times.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_times_have_quantiles() {
        let found = lookup_times((1..=1000).rev().map(|it| it * 1000).collect());
        assert_eq!((found.count, found.p50_ns, found.p99_ns), (1000, Some(500_000), Some(990_000)));
        assert_eq!((found.p999_ns, found.max_ns), (Some(999_000), Some(1_000_000)));
        assert!((found.per_second.expect("a rate") - 1e9 / 500_500.0).abs() < 1e-6);
        let nothing = lookup_times(Vec::new());
        assert_eq!((nothing.count, nothing.p50_ns, nothing.per_second), (0, None, None));
    }
}
