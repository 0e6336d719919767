//! The ledger of the memtable loader: a fingerprint of every block, kept where the database alone cannot tell later what
//! came from the source.
//!
//! A memtable takes the last value of a key and forgets those before. Two blocks under one key would go unseen where
//! their hashes do not forbid it, and in a database that held records before, nobody could say afterwards how many came
//! from this source. So each block leaves
//!
//! ```text
//! XXH3-128 of the key (16 bytes) | its part of the content digest (16 bytes)
//! ```
//!
//! in a partition file, by its key; each partition is sorted in memory at the end.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use twox_hash::XxHash3_128;

use crate::digest::ContentDigest;
use crate::error::Result;
use crate::sort::key::{KeyLayout, Record};
use crate::sort::spill::{Extent, Pieces, Spill};
use crate::source::car::CidSpan;

/// Bytes of one entry.
const ENTRY: usize = 32;

/// Bytes of a partition that are aimed at.
const PARTITION: u64 = 32 << 20;

/// The most partitions: each is an open file.
pub(super) const MAX_PARTITIONS: u64 = 64;

/// A mean block is guessed to be at least this large, in bytes.
const SMALL_BLOCK: u64 = 512;

/// Bytes appended to a partition at once.
const PIECE: usize = 16 << 10;

/// A digest of fewer bytes may be that of two blocks.
const FULL_DIGEST: u32 = 16;

/// Whether hashes cannot rule out that another block has the same key.
pub(super) fn may_conflict(verified: bool, layout: KeyLayout, cid: &CidSpan) -> bool {
    !verified || layout == KeyLayout::Digest || cid.len - cid.digest < FULL_DIGEST
}

/// All entries.
pub(super) struct Ledger {
    spill: Spill,
}

/// One thread's pen.
pub(super) struct Pen<'a> {
    ledger: &'a Ledger,
    pieces: Pieces,
}

/// What the entries come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Distinct records.
    pub records: u64,
    pub digest: ContentDigest,
    /// The hash of a key that stands for two different blocks.
    pub conflict: Option<u128>,
}

/// What a key is known by.
pub(super) fn key_hash(key: &[u8]) -> u128 {
    XxHash3_128::oneshot(key)
}

impl Ledger {
    /// Prepares files in `dir` for a source of about `expected` bytes.
    pub fn new(dir: &Path, expected: Option<u64>) -> Self {
        let bytes = expected.unwrap_or(u64::MAX) / SMALL_BLOCK;
        let partitions = (bytes.saturating_mul(ENTRY as u64) / PARTITION).clamp(1, MAX_PARTITIONS);
        Self { spill: Spill::new(PathBuf::from(dir), partitions as u32) }
    }

    /// Takes up what an earlier run has noted and synced.
    ///
    /// # Errors
    /// A file is missing or shorter than it was.
    pub fn resume(dir: &Path, expected: Option<u64>, extents: &[(u32, Extent)]) -> Result<Self> {
        let partitions = Self::new(dir, expected).spill.partitions();
        Ok(Self { spill: Spill::resume(dir.to_owned(), partitions, extents)? })
    }

    /// Makes what was noted durable; all pens must be put down. What it holds then.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn sync(&self) -> Result<Vec<(u32, Extent)>> {
        let extents = self.spill.extents();
        self.spill.sync(&extents)?;
        Ok(extents)
    }

    pub fn pen(&self) -> Pen<'_> {
        Pen { ledger: self, pieces: Pieces::new(self.spill.partitions(), PIECE) }
    }

    /// Adds everything up, when all pens have been put down.
    pub fn sum(&self) -> Result<Sum> {
        (0..self.spill.partitions())
            .into_par_iter()
            .map(|partition| self.sum_of(partition))
            .try_reduce(Sum::default, |a, b| Ok(a.and(b)))
    }

    fn sum_of(&self, partition: u32) -> Result<Sum> {
        let bytes = self.spill.read_all(partition, None)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u128::from_le_bytes);
        let mut entries: Vec<(u128, u128)> = bytes
            .chunks_exact(ENTRY)
            .map(|entry| entry.split_at(ENTRY / 2))
            .map(|(key, content)| (number(key), number(content)))
            .collect();
        drop(bytes);
        entries.sort_unstable();
        entries.dedup();
        let conflict = entries.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(*a),
            _ => None,
        });
        let sum = entries.iter().fold(0u128, |sum, (_, content)| sum.wrapping_add(*content));
        self.spill.delete(partition)?;
        Ok(Sum { records: entries.len() as u64, digest: ContentDigest::from_value(sum), conflict })
    }
}

impl Pen<'_> {
    /// Notes one block.
    pub fn note(&mut self, record: Record<'_>) -> Result<()> {
        let content = record.digest();
        let key = key_hash(record.key());
        let mut entry = [0; ENTRY];
        entry[..ENTRY / 2].copy_from_slice(&key.to_le_bytes());
        entry[ENTRY / 2..].copy_from_slice(&content.value().to_le_bytes());
        let partitions = u128::from(self.ledger.spill.partitions());
        // The high bits, so that the low ones stay free for sorting.
        let partition = ((key >> 96) * partitions) >> 32;
        self.pieces.add(&self.ledger.spill, partition as u32, &entry, content)
    }

    /// Writes down what is left.
    pub fn put_down(mut self) -> Result<()> {
        self.pieces.flush(&self.ledger.spill)
    }
}

impl Sum {
    fn and(mut self, other: Self) -> Self {
        self.records += other.records;
        self.digest.merge(other.digest);
        self.conflict = self.conflict.or(other.conflict);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sum_of(expected: u64, records: &[(u8, u8)]) -> Sum {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::new(dir.path(), Some(expected));
        for half in records.chunks(records.len().div_ceil(2).max(1)) {
            let mut pen = ledger.pen();
            for &(key, value) in half {
                pen.note(Record::from_parts(&[key, key, value], 2)).expect("noted");
            }
            pen.put_down().expect("written");
        }
        ledger.sum().expect("readable")
    }

    proptest! {
        #[test]
        fn it_counts_distinct_records_and_finds_two_values_of_one_key(
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
                let mut digest = ContentDigest::default();
                model.iter().for_each(|(&key, values)| digest.add_record(&[key, key], values));
                prop_assert_eq!((sum.records, sum.digest), (model.len() as u64, digest));
            }
        }
    }

    #[test]
    fn only_full_hashes_that_were_checked_rule_conflicts_out() {
        let cid = |digest: u32| CidSpan { len: 6 + digest, multihash: 2, digest: 6, codec: 0x71, hash: 0xb220 };
        for (verified, layout, digest, conflicts) in [
            (true, KeyLayout::Cid, 32, false),
            (true, KeyLayout::Multihash, 16, false),
            (true, KeyLayout::Cid, 15, true),
            (true, KeyLayout::Digest, 32, true),
            (false, KeyLayout::Cid, 32, true),
        ] {
            assert_eq!(may_conflict(verified, layout, &cid(digest)), conflicts, "{verified} {layout:?} {digest}");
        }
    }
}
