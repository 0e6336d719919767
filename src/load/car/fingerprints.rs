//! Fingerprints of all blocks that the memtable loader has read, kept beside the database.
//!
//! A memtable keeps only the last value of a key, so the database alone does not show which blocks the source has. Each block
//! leaves
//!
//! ```text
//! XXH3-128 of the key (16 bytes) | its part of the content digest (16 bytes)
//! ```
//!
//! in a partition file, by its key. Each partition is sorted at the end. The sum of all entries must be the blocks that were
//! read, and the sum of the distinct ones must be the new records of the database. The lowest bits of the key's hash are
//! replaced: 16 bits have the number of the source, and the last is set if an existing database has the record already. So the
//! entries of a key are in the order of the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use twox_hash::XxHash3_128;

use crate::error::Result;
use crate::hash::{Content, ContentDigest};
use crate::sort::{PartitionBuffers, Record, Spill};

/// Bytes of one entry.
const ENTRY: usize = 32;

/// Bytes of the key's hash.
const KEY: usize = ENTRY / 2;

/// The wanted bytes of a partition.
const PARTITION: u64 = 32 << 20;

/// The most partitions: each is an open file.
const MAX_PARTITIONS: u64 = 64;

/// The least bytes of a mean block, as a guess.
const SMALL_BLOCK: u64 = 512;

/// Bytes appended to a partition at once.
const PIECE: usize = 16 << 10;

/// All entries.
pub(super) struct Fingerprints {
    spill: Spill,
}

/// One thread's writer.
pub(super) struct FingerprintWriter<'a> {
    fingerprints: &'a Fingerprints,
    pieces: PartitionBuffers,
}

/// The sum of the entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FingerprintSum {
    /// All blocks, each time they were read.
    pub read: Content,
    /// Distinct records.
    pub records: Content,
    /// The distinct records that an existing database did not have before.
    pub fresh: Content,
    /// The hash of a key with two different blocks.
    pub conflict: Option<u128>,
    /// Duplicates by source: all but the first entry of a record.
    pub repeats: BTreeMap<u32, u64>,
}

/// The hash of a key without the lowest bits.
pub(super) fn key_hash(key: &[u8]) -> u128 {
    XxHash3_128::oneshot(key) & !(HELD | SOURCE)
}

/// The number of the source, in a key's hash.
const SOURCE: u128 = 0xffff << 1;

/// Set in a key's hash if an existing database has the record already.
const HELD: u128 = 1;

impl Fingerprints {
    /// Prepares files in `dir` for a source of about `expected` bytes.
    pub fn new(dir: &Path, expected: Option<u64>) -> Self {
        let bytes = expected.unwrap_or(u64::MAX) / SMALL_BLOCK;
        let partitions = (bytes.saturating_mul(ENTRY as u64) / PARTITION).clamp(1, MAX_PARTITIONS);
        Self { spill: Spill::new(PathBuf::from(dir), partitions as u32) }
    }

    pub fn writer(&self) -> FingerprintWriter<'_> {
        FingerprintWriter { fingerprints: self, pieces: PartitionBuffers::new(self.spill.partitions(), PIECE) }
    }

    /// Adds everything up, when all writers are finished. Each thread sorts within `memory` bytes.
    pub fn sum(&self, memory: usize) -> Result<FingerprintSum> {
        (0..self.spill.partitions())
            .into_par_iter()
            .map(|partition| self.sum_of(partition, memory))
            .try_reduce(FingerprintSum::default, |a, b| Ok(a.and(b)))
    }

    fn sum_of(&self, partition: u32, memory: usize) -> Result<FingerprintSum> {
        let mut sum = FingerprintSum::default();
        let mut previous = None;
        let numbers = |entry: [u128; 2]| entry.map(u128::from_le);
        self.spill.for_each_sorted(partition, KEY, memory, numbers, |entry| {
            let [key, content] = entry;
            let content = ContentDigest::from_value(content);
            sum.read.add(content);
            if let Some(before) = previous.replace(entry) {
                if before[0] & !SOURCE == key & !SOURCE && before[1] == entry[1] {
                    *sum.repeats.entry(((key & SOURCE) >> 1) as u32).or_default() += 1;
                    return Ok(());
                }
                let hash = key & !(HELD | SOURCE);
                if before[0] & !(HELD | SOURCE) == hash {
                    sum.conflict.get_or_insert(hash);
                }
            }
            sum.records.add(content);
            if key & HELD == 0 {
                sum.fresh.add(content);
            }
            Ok(())
        })?;
        Ok(sum)
    }
}

impl FingerprintWriter<'_> {
    /// Notes one block of `source` with its `content` digest. `holds` is true if an existing database has it already.
    pub fn note(&mut self, record: Record<'_>, content: ContentDigest, holds: bool, source: u32) -> Result<()> {
        let key = key_hash(record.key()) | (u128::from(source) << 1 & SOURCE) | u128::from(holds);
        let mut entry = [0; ENTRY];
        entry[..KEY].copy_from_slice(&key.to_le_bytes());
        entry[KEY..].copy_from_slice(&content.value().to_le_bytes());
        let partitions = u128::from(self.fingerprints.spill.partitions());
        // The high bits, so that the low ones stay free for sorting.
        let partition = ((key >> 96) * partitions) >> 32;
        // The digest of a partition is compared when the partition is read back.
        let digest = ContentDigest::of_section(&entry, KEY);
        self.pieces.add(&self.fingerprints.spill, partition as u32, &entry, digest)
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<()> {
        self.pieces.flush(&self.fingerprints.spill)
    }
}

impl FingerprintSum {
    fn and(mut self, other: Self) -> Self {
        self.read.merge(other.read);
        self.records.merge(other.records);
        self.fresh.merge(other.fresh);
        self.conflict = self.conflict.or(other.conflict);
        for (source, count) in other.repeats {
            *self.repeats.entry(source).or_default() += count;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum_of(expected: u64, records: &[(u8, u8)]) -> FingerprintSum {
        let dir = tempfile::tempdir().expect("a directory");
        let fingerprints = Fingerprints::new(dir.path(), Some(expected));
        for half in records.chunks(records.len().div_ceil(2).max(1)) {
            let mut writer = fingerprints.writer();
            for &(key, value) in half {
                let bytes = [key, key, value];
                let record = Record::from_parts(&bytes, 2);
                writer.note(record, record.digest(), key % 3 == 0, 3).expect("noted");
            }
            writer.finish().expect("written");
        }
        fingerprints.sum(1 << 20).expect("readable")
    }

    proptest! {
        #[test]
        fn fingerprints_find_two_values_of_one_key(
            records in proptest::collection::vec((0u8..40, 0u8..2), 0..60),
            expected in prop_oneof![Just(1u64), Just(4 << 30), Just(u64::MAX)],
        ) {
            let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
            for &(key, value) in &records {
                let values = model.entry(key).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let sum = sum_of(expected, &records);
            let conflicts: Vec<u128> =
                model.iter().filter(|(_, values)| values.len() > 1).map(|(&key, _)| key_hash(&[key, key])).collect();
            prop_assert_eq!(sum.conflict.is_some(), !conflicts.is_empty());
            if let Some(conflict) = sum.conflict {
                prop_assert!(conflicts.contains(&conflict));
            } else {
                let mut read = ContentDigest::default();
                records.iter().for_each(|&(key, value)| read.add_record(&[key, key], &[value]));
                prop_assert_eq!((sum.read.records, sum.read.digest), (records.len() as u64, read));
                for (found, counts) in [(sum.records, false), (sum.fresh, true)] {
                    let mut expected = Content::default();
                    for (&key, values) in model.iter().filter(|(key, _)| !counts || **key % 3 != 0) {
                        let bytes = [key, key, values[0]];
                        expected.add(Record::from_parts(&bytes, 2).digest());
                    }
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn changed_entry_on_disk_is_found() {
        for at in [0, 15, 16, 31, 32 * 9 + 3] {
            let dir = tempfile::tempdir().expect("a directory");
            let fingerprints = Fingerprints::new(dir.path(), Some(1));
            let mut writer = fingerprints.writer();
            for key in 0..10u8 {
                let bytes = [key, 7];
                let record = Record::from_parts(&bytes, 1);
                writer.note(record, record.digest(), false, 0).expect("noted");
            }
            writer.finish().expect("written");
            let path = dir.path().join("00000.part");
            let mut entries = std::fs::read(&path).expect("a partition");
            entries[at] ^= 1;
            std::fs::write(&path, entries).expect("written");
            let error = fingerprints.sum(1 << 20).expect_err("it has changed");
            assert!(error.to_string().contains("00000.part: the unfinished import is damaged"), "{at}: {error}");
        }
    }
}
