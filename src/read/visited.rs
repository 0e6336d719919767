//! Which keys have been met, within a fixed budget of memory however many there are.
//!
//! A key is remembered as a fingerprint, XXH3-128: with a billion keys the chance that any two share one is below
//! 10^-20. Fingerprints are held in shards of a hash set; when these have used up the budget they are written to disk
//! as one sorted run, and runs are merged when they have become many. Of a run, memory holds the first fingerprint of
//! each page, so a look-up reads at most one page of each run.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use parking_lot::{Mutex, RwLock};
use twox_hash::XxHash3_128;

use crate::error::{Error, Result};

/// Fingerprints of a page: 4 KiB.
const PAGE: usize = 256;

/// Bytes of a fingerprint.
const WIDTH: usize = 16;

/// What a fingerprint takes in a hash set, on average, in bytes: its place, a byte beside it, and room to grow.
const HELD: u64 = 34;

/// Shards of the hash set, so that threads seldom wait for each other.
const SHARDS: usize = 64;

/// Runs that are kept before they are merged into one.
const MAX_RUNS: usize = 6;

/// The fingerprint of a key.
pub(super) fn fingerprint(key: &[u8]) -> u128 {
    XxHash3_128::oneshot(key)
}

/// A hash of a hash: the fingerprint's own bits.
#[derive(Default)]
struct OwnBits(u64);

impl Hasher for OwnBits {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

type Shard = HashSet<u128, BuildHasherDefault<OwnBits>>;

/// A set of fingerprints.
pub(super) struct Visited {
    shards: Vec<Mutex<Shard>>,
    /// Fingerprints that a shard may hold.
    shard_max: usize,
    runs: RwLock<Vec<Run>>,
    dir: PathBuf,
}

impl Visited {
    /// An empty set that holds `budget` bytes of fingerprints in memory and puts the others into files in `dir`.
    pub fn new(budget: u64, dir: PathBuf) -> Self {
        let shard_max = usize::try_from(budget / HELD).unwrap_or(usize::MAX) / SHARDS;
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_max: shard_max.max(PAGE),
            runs: RwLock::default(),
            dir,
        }
    }

    /// Adds a fingerprint; whether it is new.
    pub fn insert(&self, fingerprint: u128) -> Result<bool> {
        let Some(shard) = self.shard(fingerprint) else { return Ok(false) };
        let full = {
            // The shard stays locked while the runs are searched: no other worker may add the same meanwhile.
            let mut shard = shard.lock();
            if shard.contains(&fingerprint) || self.in_runs(fingerprint)? {
                return Ok(false);
            }
            shard.insert(fingerprint);
            shard.len() >= self.shard_max
        };
        if full {
            self.spill()?;
        }
        Ok(true)
    }

    /// Whether a fingerprint has been added.
    pub fn contains(&self, fingerprint: u128) -> Result<bool> {
        let Some(shard) = self.shard(fingerprint) else { return Ok(false) };
        let shard = shard.lock();
        Ok(shard.contains(&fingerprint) || self.in_runs(fingerprint)?)
    }

    fn shard(&self, fingerprint: u128) -> Option<&Mutex<Shard>> {
        // The upper bits: the lower ones place it within the shard.
        self.shards.get((fingerprint >> 122) as usize % SHARDS)
    }

    fn in_runs(&self, fingerprint: u128) -> Result<bool> {
        let runs = self.runs.read();
        for run in runs.iter() {
            if run.contains(fingerprint).map_err(Error::io("read from", &self.dir))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves everything held in memory to a run.
    fn spill(&self) -> Result<()> {
        let failed = || Error::io("write visited keys to", &self.dir);
        // All shards first, then the runs: the order in which every worker locks.
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        if shards.iter().all(|shard| shard.len() < self.shard_max) {
            // Another thread was faster.
            return Ok(());
        }
        let mut runs = self.runs.write();
        let mut writer = RunWriter::new(&self.dir).map_err(failed())?;
        // A shard holds a range of fingerprints, so sorting each sorts all.
        for shard in &mut shards {
            let mut sorted: Vec<u128> = std::mem::take(&mut **shard).into_iter().collect();
            sorted.sort_unstable();
            for fingerprint in sorted {
                writer.push(fingerprint).map_err(failed())?;
            }
        }
        runs.push(writer.finish().map_err(failed())?);
        if runs.len() >= MAX_RUNS {
            let merged = merge(&runs, &self.dir).map_err(failed())?;
            *runs = vec![merged];
        }
        Ok(())
    }
}

/// A sorted file of fingerprints. It has no name: it is gone when it is dropped.
struct Run {
    file: File,
    len: u64,
    /// The first fingerprint of each page.
    firsts: Vec<u128>,
}

impl Run {
    fn contains(&self, fingerprint: u128) -> io::Result<bool> {
        let Some(page) = self.firsts.partition_point(|&first| first <= fingerprint).checked_sub(1) else {
            return Ok(false);
        };
        let from = (page * PAGE) as u64;
        let count = (self.len - from).min(PAGE as u64) as usize;
        let mut bytes = [0; PAGE * WIDTH];
        let bytes = bytes.get_mut(..count * WIDTH).unwrap_or_default();
        self.file.read_exact_at(bytes, from * WIDTH as u64)?;
        let (entries, _) = bytes.as_chunks::<WIDTH>();
        Ok(entries.binary_search_by(|entry| u128::from_le_bytes(*entry).cmp(&fingerprint)).is_ok())
    }
}

struct RunWriter {
    out: BufWriter<File>,
    len: u64,
    firsts: Vec<u128>,
}

impl RunWriter {
    fn new(dir: &std::path::Path) -> io::Result<Self> {
        Ok(Self { out: BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(dir)?), len: 0, firsts: Vec::new() })
    }

    fn push(&mut self, fingerprint: u128) -> io::Result<()> {
        if self.len.is_multiple_of(PAGE as u64) {
            self.firsts.push(fingerprint);
        }
        self.len += 1;
        self.out.write_all(&fingerprint.to_le_bytes())
    }

    fn finish(self) -> io::Result<Run> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Run { file, len: self.len, firsts: self.firsts })
    }
}

/// One run of several that have nothing in common.
fn merge(runs: &[Run], dir: &std::path::Path) -> io::Result<Run> {
    let mut readers = Vec::new();
    for run in runs {
        let mut file = run.file.try_clone()?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(0))?;
        let mut reader = (BufReader::with_capacity(256 << 10, file), run.len);
        if let Some(first) = next(&mut reader)? {
            readers.push((first, reader));
        }
    }
    let mut writer = RunWriter::new(dir)?;
    while let Some(at) = (0..readers.len()).min_by_key(|&at| readers.get(at).map(|(first, _)| *first)) {
        let Some((first, reader)) = readers.get_mut(at) else { break };
        writer.push(*first)?;
        match next(reader)? {
            Some(following) => *first = following,
            None => drop(readers.swap_remove(at)),
        }
    }
    writer.finish()
}

fn next((reader, left): &mut (BufReader<File>, u64)) -> io::Result<Option<u128>> {
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    let mut bytes = [0; WIDTH];
    reader.read_exact(&mut bytes)?;
    Ok(Some(u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_beyond_its_budget_answers_as_a_set_in_memory_does() {
        let dir = tempfile::tempdir().expect("a directory");
        // The smallest there is: a page for each shard, so 16,384 fingerprints for every run.
        let visited = Visited::new(0, dir.path().to_owned());
        let mut model = HashSet::new();
        for number in 0..300_000u64 {
            // Every number comes again, some soon and some late.
            let key = fingerprint(&(number * 7919 % 170_000).to_le_bytes());
            assert_eq!(visited.insert(key).expect("insert"), model.insert(key), "{number}");
        }
        assert!(!visited.runs.read().is_empty());
        for number in 0..200_000u64 {
            let key = fingerprint(&number.to_le_bytes());
            assert_eq!(visited.contains(key).expect("look"), model.contains(&key), "{number}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0, "files have no names");
    }

    #[test]
    fn threads_agree_on_who_was_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let visited = Visited::new(0, dir.path().to_owned());
        let new = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..50_000u64 {
                        if visited.insert(fingerprint(&number.to_le_bytes())).expect("insert") {
                            new.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(new.into_inner(), 50_000);
    }
}
