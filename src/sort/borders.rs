//! Borders between files of sorted records.
//!
//! Borders depend only on the keys, their number and the size of a file, never on threads, memory or partitions. So
//! every machine writes the same files for the same source, and a shard writes those of its range.
//!
//! Records whose keys are a common prefix and a hash are cut into 2^bits *slices*: equal ranges of that hash.

use crate::sort::Shard;

/// The most bits of a hash that choose a slice.
const MAX_BITS: u32 = 24;

/// Returns the bits that choose a slice of `bytes` of records, so that a slice stays within `target` even if it has an
/// eighth more than its share.
pub(crate) fn slice_bits(bytes: u64, target: u64) -> u32 {
    let share = (target - target / 8).max(1);
    (0..MAX_BITS).find(|bits| bytes >> bits <= share).unwrap_or(MAX_BITS)
}

/// The first keys of the slices within a part of the keys, ascending, without the first slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Borders {
    /// The common prefix of the keys.
    class: Vec<u8>,
    shard: Shard,
    bits: u32,
    next: u64,
    end: u64,
}

impl Borders {
    /// Returns the borders within part number `part` of 2^`part_bits` equal parts of the keys of `class` and `shard`,
    /// which have 2^`bits` slices. There are none if a slice is not smaller than the part.
    pub fn within(class: &[u8], shard: Shard, (part, part_bits): (u32, u32), bits: u32) -> Self {
        let each = bits.saturating_sub(part_bits);
        let (first, end) = (u64::from(part) << each, (u64::from(part) + 1) << each);
        Self { class: class.to_vec(), shard, bits, next: first + 1, end }
    }
}

impl Iterator for Borders {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.bits == 0 || self.next >= self.end {
            return None;
        }
        let hash = self.shard.prefix_at(self.next << (64 - self.bits)).to_be_bytes();
        self.next += 1;
        // A short hash, compared as if filled with zeros, must not sort before its border.
        let len = hash.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Some([&self.class, &hash[..len]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_a_third_to_all_of_a_file() {
        for (bytes, target) in
            [(1, 1 << 20), (900 << 10, 1 << 20), (1 << 20, 1 << 20), (3 << 30, 96 << 20), (1 << 45, 1 << 28)]
        {
            let slice = bytes >> slice_bits(bytes, target);
            assert!(slice <= target && (slice > target / 3 || bytes < target), "{bytes}: {slice} of {target}");
        }
        assert_eq!(slice_bits(u64::MAX, 1), MAX_BITS);
        assert_eq!(slice_bits(0, 0), 0);
    }

    #[test]
    fn borders_of_parts_join_to_those_of_all() {
        let all: Vec<_> = Borders::within(b"ab", Shard::default(), (0, 0), 4).collect();
        assert_eq!(all.len(), 15);
        assert!(all.is_sorted());
        assert_eq!(all[0], b"ab\x10");
        assert_eq!(all[7], b"ab\x80");
        let parts: Vec<_> =
            (0..4).map(|part| Borders::within(b"ab", Shard::default(), (part, 2), 4).collect::<Vec<_>>()).collect();
        let between = [3, 7, 11].map(|at| all[at].clone());
        let mut joined = [parts.concat(), between.to_vec()].concat();
        joined.sort();
        assert_eq!(joined, all);
        assert_eq!(Borders::within(b"ab", Shard::default(), (3, 4), 4).count(), 0);
        assert_eq!(Borders::within(b"ab", Shard::default(), (3, 4), 2).count(), 0, "slices of several parts");
        assert_eq!(Borders::within(b"", Shard::default(), (0, 0), 0).count(), 0);
    }

    #[test]
    fn shards_share_the_borders_of_all() {
        let all: Vec<_> = Borders::within(b"k", Shard::default(), (0, 0), 5).collect();
        let mut found = Vec::new();
        for number in 0..8 {
            let shard = Shard::new(number, 8).expect("one");
            found.extend((0..2).flat_map(|part| Borders::within(b"k", shard, (part, 1), 2).collect::<Vec<_>>()));
        }
        let between: Vec<_> = all.iter().skip(1).step_by(2).cloned().collect();
        found.extend(between);
        found.sort();
        assert_eq!(found, all);
        let third = Shard::new(1, 3).expect("one");
        assert_eq!(Borders::within(b"", third, (0, 0), 1).collect::<Vec<_>>(), [[0x80]]);
    }

    #[test]
    fn short_hash_sorts_like_its_number() {
        let border = Borders::within(b"k", Shard::default(), (0, 0), 1).next().expect("one");
        assert!([b"k\x80".as_slice(), b"k\x80\0"].iter().all(|key| **key >= *border));
        assert!(b"k\x7f\xff".as_slice() < border.as_slice());
    }
}
