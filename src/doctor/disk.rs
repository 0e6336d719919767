//! Measures the speed of a file system.
//!
//! Each measurement ends after its time or its amount, whichever comes first, so that a slow disk takes no longer than a
//! fast one.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, pwritev2};

use super::scratch;
use crate::error::{Error, Result};
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::progress::CancellationToken;
use crate::report::statistics::{median, quantile};
use crate::report::{DiskSpeed, Latency};

/// Bytes of a small write or read, and the alignment of direct I/O.
const SMALL: usize = 4 << 10;

/// Bytes of a large write or read.
const LARGE: usize = 4 << 20;

/// Most small writes, enough for a 99th percentile, and most random reads.
const ENOUGH: u64 = 500;
const ENOUGH_READS: u64 = 4000;

/// The largest size of the file, and the share of the free space that it may take.
const FILE: u64 = 256 << 20;
const FREE_SHARE: u64 = 4;

/// Rounds of the synced write. The median counts, because a shared disk is uneven.
const ROUNDS: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct MeasureLimits {
    /// Bytes of the file.
    pub bytes: u64,
    pub time: Duration,
}

impl MeasureLimits {
    /// For a file system with so many bytes free.
    pub fn for_free(free: u64) -> Self {
        Self { bytes: FILE.min(free / FREE_SHARE), time: Duration::from_millis(900) }
    }
}

/// Number of measurements; each round of the synced write is one.
pub(super) const STEPS: u64 = 5 + ROUNDS as u64;

/// Measures the file system of `dir`, and calls `step` after each of [`STEPS`] measurements.
pub(super) fn measure(
    dir: &Path,
    limits: MeasureLimits,
    stop: &CancellationToken,
    step: &dyn Fn(),
) -> Result<DiskSpeed> {
    let file = scratch::nameless(dir)?;
    let mut bench = Bench { file: &file, dir, limits, stop, buffer: Buffer::new(LARGE)? };
    // No file system compresses these bytes.
    fastrand::Rng::with_seed(0).fill(&mut bench.buffer);
    let sync_write = bench.small_writes(|bench, at| {
        let piece = IoSlice::new(&bench.buffer[..SMALL]);
        let written = pwritev2(bench.file.as_fd(), &[piece], at, ReadWriteFlags::DSYNC);
        written.map(drop).map_err(Into::into)
    })?;
    step();
    let fsync = bench.small_writes(|bench, at| {
        bench.file.write_all_at(&bench.buffer[..SMALL], at).and_then(|()| bench.file.sync_all())
    })?;
    step();
    let synced = bench.synced_writes(step)?;
    let is_direct = direct::set(&file, true) && bench.can_read_direct();
    direct::set(&file, is_direct);
    let write = bench.sequential(limits.bytes, |bench, at| bench.file.write_all_at(&bench.buffer, at))?;
    step();
    file.sync_data().map_err(Error::io("sync a file in", dir))?;
    let file_bytes = file.metadata().map_err(Error::io("read metadata of a file in", dir))?.len();
    if !is_direct {
        // Only advice: if it has no effect, the numbers are those of the page cache.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
    let end = file_bytes - file_bytes % LARGE as u64;
    let read = bench.sequential(end, |bench, at| bench.file.read_exact_at(&mut bench.buffer, at))?;
    step();
    if !is_direct {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let _ = fadvise(&file, 0, None, Advice::Random);
    }
    let random = bench.random_reads(end)?;
    step();
    Ok(DiskSpeed {
        sync_write,
        fsync,
        // A write into the page cache does not bypass it.
        write_bytes_per_second: write.filter(|_| is_direct).or(synced),
        synced_write_bytes_per_second: synced,
        read_bytes_per_second: read,
        random_reads_per_second: random,
        past_the_cache: if is_direct { "direct" } else { "dropped" }.into(),
        file_bytes,
    })
}

pub(super) fn interrupted() -> Error {
    Error::Interrupted { hint: "nothing is left over; run the same command again".into() }
}

struct Bench<'a> {
    file: &'a File,
    dir: &'a Path,
    limits: MeasureLimits,
    stop: &'a CancellationToken,
    buffer: Buffer,
}

impl Bench<'_> {
    fn failed(&self) -> impl FnOnce(std::io::Error) -> Error {
        Error::io("write and read a file in", self.dir)
    }

    /// Repeats `work` with its number, at most `most` times and as long as the time allows. Returns how often, and the seconds.
    fn repeat(&mut self, most: u64, mut work: impl FnMut(&mut Self, u64) -> std::io::Result<()>) -> Result<(u64, f64)> {
        let (started, mut count) = (Instant::now(), 0);
        while count < most && started.elapsed() < self.limits.time {
            self.stop.check(interrupted)?;
            work(self, count).map_err(self.failed())?;
            count += 1;
        }
        Ok((count, started.elapsed().as_secs_f64()))
    }

    fn small_writes(&mut self, write: impl Fn(&Self, u64) -> std::io::Result<()>) -> Result<Option<Latency>> {
        self.file.set_len(0).map_err(self.failed())?;
        let mut times = Vec::new();
        self.repeat(ENOUGH, |bench, count| {
            let begun = Instant::now();
            write(bench, count * SMALL as u64)?;
            times.push(begun.elapsed());
            Ok(())
        })?;
        Ok(latency(times))
    }

    /// Bytes per second through the page cache with a sync at the end; the median of [`ROUNDS`].
    fn synced_writes(&mut self, step: &dyn Fn()) -> Result<Option<f64>> {
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            self.file.set_len(0).map_err(self.failed())?;
            let started = Instant::now();
            let (count, _) = self.repeat(self.limits.bytes / LARGE as u64, |bench, count| {
                bench.file.write_all_at(&bench.buffer, count * LARGE as u64)?;
                // As RocksDB does: the disk begins at once.
                start_writing(bench.file, count * LARGE as u64);
                Ok(())
            })?;
            self.file.sync_data().map_err(self.failed())?;
            if count > 0 {
                rates.push((count * LARGE as u64) as f64 / started.elapsed().as_secs_f64());
            }
            step();
        }
        Ok(median(&rates))
    }

    /// Bytes per second of large pieces, each at its place, within the first `bytes` of the file.
    fn sequential(&mut self, bytes: u64, work: impl Fn(&mut Self, u64) -> std::io::Result<()>) -> Result<Option<f64>> {
        let most = bytes.min(self.limits.bytes) / LARGE as u64;
        let (count, seconds) = self.repeat(most, |bench, count| work(bench, count * LARGE as u64))?;
        Ok((count > 0).then(|| (count * LARGE as u64) as f64 / seconds))
    }

    fn random_reads(&mut self, bytes: u64) -> Result<Option<f64>> {
        let places = bytes / SMALL as u64;
        if places == 0 {
            return Ok(None);
        }
        let mut random = fastrand::Rng::with_seed(1);
        let (count, seconds) = self.repeat(ENOUGH_READS, |bench, _| {
            bench.file.read_exact_at(&mut bench.buffer[..SMALL], random.u64(..places) * SMALL as u64)
        })?;
        Ok(Some(count as f64 / seconds))
    }

    /// True if a direct read succeeds: some file systems accept the flag and refuse to read with it.
    fn can_read_direct(&mut self) -> bool {
        let file = self.file.as_fd();
        let mut piece = [IoSliceMut::new(&mut self.buffer[..SMALL])];
        rustix::io::preadv(file, &mut piece, 0).is_ok()
    }
}

/// Median and 99th percentile; `None` of nothing.
fn latency(times: Vec<Duration>) -> Option<Latency> {
    let mut nanos: Vec<u64> = times.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).collect();
    nanos.sort_unstable();
    let micros = |share| quantile(&nanos, share).map(|nanos| nanos as f64 / 1e3);
    Some(Latency { median_us: micros(0.5)?, p99_us: micros(0.99)?, count: nanos.len() as u64 })
}

/// Starts to write one large piece.
fn start_writing(file: &File, at: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: a plain system call on a descriptor that lives; it changes nothing but when bytes are written.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), at as i64, LARGE as i64, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_measured_without_leftovers() {
        let dir = tempfile::tempdir().expect("a directory");
        let limits = MeasureLimits { bytes: 16 << 20, time: Duration::from_millis(200) };
        let found = measure(dir.path(), limits, &CancellationToken::default(), &|| {}).expect("a disk");
        let writes = found.sync_write.expect("measured");
        assert!(writes.count > 0 && writes.median_us <= writes.p99_us, "{found:?}");
        for rate in [
            found.write_bytes_per_second,
            found.synced_write_bytes_per_second,
            found.read_bytes_per_second,
            found.random_reads_per_second,
        ] {
            assert!(rate.is_some_and(|rate| rate > 0.0), "{found:?}");
        }
        assert!(dir.path().read_dir().expect("listed").next().is_none());
    }

    #[test]
    fn full_disk_has_no_throughput() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = measure(dir.path(), MeasureLimits::for_free(0), &CancellationToken::default(), &|| {})
            .expect("some bytes fit");
        assert_eq!(found.synced_write_bytes_per_second, None);
        assert_eq!(found.read_bytes_per_second, None);
        assert_eq!(found.random_reads_per_second, None);
    }

    #[test]
    fn latency_has_median_and_99th_percentile() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let found = latency(times).expect("some");
        assert_eq!((found.median_us, found.p99_us, found.count), (50_000.0, 99_000.0, 100));
        assert_eq!(latency(Vec::new()), None);
    }

    #[test]
    fn measurement_is_cancellable() {
        let dir = tempfile::tempdir().expect("a directory");
        let stop = CancellationToken::default();
        stop.cancel();
        let error = measure(dir.path(), MeasureLimits::for_free(1 << 30), &stop, &|| {}).expect_err("stopped");
        assert_eq!(error.exit(), crate::error::Exit::Interrupted);
    }
}
