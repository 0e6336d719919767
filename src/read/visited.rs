//! The set of visited keys, within a fixed memory budget: [fingerprints](crate::hash::fingerprint) in shards of a hash set, which
//! are written to disk as one sorted run when the budget is used. A lookup reads at most one page per run.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};
use crate::external_sort::{Records, Run};

/// Fingerprints per page of 4 KiB.
const PAGE: usize = 256;

/// Average memory of a fingerprint in a hash set, in bytes: its slot, a control byte, and room to grow.
const HELD: u64 = 34;

/// Shards of the hash set, which reduce lock contention.
const SHARDS: usize = 64;

/// Runs that are kept before they are merged.
const MAX_RUNS: usize = 6;

/// Memory for reading merged runs, in bytes.
const MERGING: usize = MAX_RUNS * (256 << 10);

/// Fingerprints are hashes already.
#[derive(Default)]
struct OwnBits(u64);

impl Hasher for OwnBits {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    }
}

type Shard = HashSet<u128, BuildHasherDefault<OwnBits>>;

pub(super) struct Visited {
    shards: Vec<Mutex<Shard>>,
    /// Capacity of a shard in fingerprints.
    shard_max: usize,
    runs: RwLock<Vec<Pages>>,
    dir: PathBuf,
}

impl Visited {
    /// Creates an empty set that holds `budget` bytes of fingerprints in memory and the rest in files in `dir`.
    pub fn new(budget: u64, dir: PathBuf) -> Self {
        let shard_max = usize::try_from(budget / HELD).unwrap_or(usize::MAX) / SHARDS;
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_max: shard_max.max(PAGE),
            runs: RwLock::default(),
            dir,
        }
    }

    /// Adds a fingerprint; true if it is new.
    pub fn insert(&self, fingerprint: u128) -> Result<bool> {
        let Some(shard) = self.shard(fingerprint) else { return Ok(false) };
        let full = {
            // The shard remains locked during the search, so that no other worker adds the same fingerprint.
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

    pub fn contains(&self, fingerprint: u128) -> Result<bool> {
        let Some(shard) = self.shard(fingerprint) else { return Ok(false) };
        let shard = shard.lock();
        Ok(shard.contains(&fingerprint) || self.in_runs(fingerprint)?)
    }

    fn shard(&self, fingerprint: u128) -> Option<&Mutex<Shard>> {
        // The upper bits; the lower bits choose the slot within the shard.
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

    /// Moves all fingerprints in memory to a run.
    fn spill(&self) -> Result<()> {
        let failed = || Error::io("write visited keys to", &self.dir);
        // Lock order of all workers: first the shards, then the runs.
        let mut shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        if shards.iter().all(|shard| shard.len() < self.shard_max) {
            // Another thread was faster.
            return Ok(());
        }
        let mut runs = self.runs.write();
        // A shard holds a range of fingerprints, so sorting each shard sorts all.
        let sorted = shards.iter_mut().flat_map(|shard| {
            let mut sorted: Vec<u128> = std::mem::take(&mut **shard).into_iter().collect();
            sorted.sort_unstable();
            sorted.into_iter().map(Ok)
        });
        runs.push(Pages::write(&self.dir, sorted).map_err(failed())?);
        if runs.len() >= MAX_RUNS {
            let merged = Records::new(&[], runs.iter().map(|pages| &pages.run), MERGING);
            *runs = vec![merged.and_then(|merged| Pages::write(&self.dir, merged)).map_err(failed())?];
        }
        Ok(())
    }
}

struct Pages {
    run: Run<u128>,
    /// First fingerprint of each page.
    firsts: Vec<u128>,
}

impl Pages {
    fn write(dir: &Path, sorted: impl Iterator<Item = io::Result<u128>>) -> io::Result<Self> {
        let mut firsts = Vec::new();
        let noted = sorted.enumerate().inspect(|(at, fingerprint)| {
            if at.is_multiple_of(PAGE) {
                firsts.extend(fingerprint.as_ref().ok());
            }
        });
        let run = Run::write(dir, noted.map(|(_, fingerprint)| fingerprint))?;
        Ok(Self { run, firsts })
    }

    fn contains(&self, fingerprint: u128) -> io::Result<bool> {
        let Some(page) = self.firsts.partition_point(|&first| first <= fingerprint).checked_sub(1) else {
            return Ok(false);
        };
        let from = (page * PAGE) as u64;
        let mut page = [0; PAGE];
        let page = page.get_mut(..(self.run.len() - from).min(PAGE as u64) as usize).unwrap_or_default();
        self.run.read(from, page)?;
        Ok(page.binary_search(&fingerprint).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::fingerprint::fingerprint;

    #[test]
    fn spilled_set_equals_set_in_memory() {
        let dir = tempfile::tempdir().expect("a directory");
        // The smallest budget: one page per shard, so 16,384 fingerprints per run.
        let visited = Visited::new(0, dir.path().to_owned());
        let mut model = HashSet::new();
        for number in 0..120_000u64 {
            // Every number occurs again, early or late.
            let key = fingerprint(&(number * 7919 % 70_000).to_le_bytes());
            assert_eq!(visited.insert(key).expect("insert"), model.insert(key), "{number}");
        }
        assert!(!visited.runs.read().is_empty());
        for number in 0..80_000u64 {
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
