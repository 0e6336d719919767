//! Routing of keys to partitions.
//!
//! Digests are spread evenly, but their CIDs begin with the same few bytes (`01 71 a0 e4 02 20` for dag-cbor and
//! blake2b-256). The router learns these common beginnings, the *classes*, from the first chunk. Each class is cut into
//! `2^bits` partitions by the first bits of the digest; keys of no known class go to the gap between their neighbours.
//! Partitions are numbered in the order of their keys:
//!
//! ```text
//! gap 0 | class 0: 0 .. 2^bits | gap 1 | class 1: 0 .. 2^bits | gap 2 | ...
//! ```
//!
//! The order holds for all keys; only the evenness depends on them. A class is a sequence of varints and so never the beginning
//! of another class.
//!
//! A shard has one of equal ranges of the digest in each class, and all partitions are in that range. The gaps belong to the
//! first shard, so the keys of two shards never interleave within a class or a gap.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::sort::{Borders, KeyLayout, Record, Shard, slice_bits};
use crate::source::car::Section;

/// The most classes.
const MAX_CLASSES: usize = 6;

/// A class must have at least one of this many blocks of the sample.
const MIN_SHARE: usize = 32;

/// The longest class beginning; real ones have at most 10 bytes.
const MAX_PREFIX: usize = 24;

/// Up to 2^this shards, of a power of two, make the files of a whole import: each class has at least as many files, if the
/// largest one has.
const SHARED_BITS: u32 = 4;

/// Neighbouring partitions that are built together, and the borders of files among their records.
#[derive(Debug, Clone)]
pub(crate) struct PartitionGroup {
    pub partitions: Range<u32>,
    pub borders: Borders,
}

/// Blocks, and bytes of their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    pub blocks: u64,
    pub bytes: u64,
}

/// Counts of the whole source, all shards included, by class in the order of the router; the last is for keys of no class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClassCounts([Count; MAX_CLASSES + 1]);

impl ClassCounts {
    /// Adds a block, whose value has `bytes`.
    pub fn add(&mut self, route: Route, bytes: u64) {
        if let Some(count) = self.0.get_mut(route.class as usize) {
            count.blocks += 1;
            count.bytes += bytes;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.blocks += theirs.blocks;
            mine.bytes += theirs.bytes;
        }
    }

    pub fn all(&self) -> Count {
        self.0.iter().fold(Count::default(), |all, count| Count {
            blocks: all.blocks + count.blocks,
            bytes: all.bytes + count.bytes,
        })
    }
}

/// The partition of a key, and its first sort key there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub partition: u32,
    /// The class; [`MAX_CLASSES`] if the key has none.
    class: u32,
    /// True if the key is in the shard.
    pub is_own: bool,
    /// Eight bytes of the key, big-endian, zero-filled. Within a partition they have the order of the keys.
    pub prefix: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Router {
    classes: Vec<Vec<u8>>,
    pub bits: u32,
    /// The range that is partitioned.
    #[serde(default, skip_serializing_if = "Shard::is_all")]
    shard: Shard,
}

impl Router {
    /// Learns the classes from a sample of keys, each with the position of its digest.
    pub fn learn<'a>(sample: impl Iterator<Item = (&'a [u8], usize)>, bits: u32) -> Self {
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        let mut total = 0usize;
        for (key, digest_at) in sample {
            total += 1;
            if digest_at <= MAX_PREFIX {
                *counts.entry(&key[..digest_at]).or_default() += 1;
            }
        }
        let mut common: Vec<_> = counts.into_iter().filter(|(_, count)| count * MIN_SHARE >= total).collect();
        common.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        common.truncate(MAX_CLASSES);
        let mut classes: Vec<Vec<u8>> = common.into_iter().map(|(class, _)| class.to_vec()).collect();
        classes.sort_unstable();
        Self { classes, bits, shard: Shard::default() }
    }

    /// Restricts the router to a shard.
    pub fn of_shard(self, shard: Option<Shard>) -> Self {
        Self { shard: shard.unwrap_or_default(), ..self }
    }

    /// Returns the classes with their counts in the whole source, then the count of keys without a class.
    pub fn classes<'a>(&'a self, framed: &'a ClassCounts) -> impl Iterator<Item = (Option<&'a [u8]>, Count)> + 'a {
        let known = self.classes.iter().zip(&framed.0).map(|(class, count)| (Some(class.as_slice()), *count));
        known.chain(framed.0.last().map(|count| (None, *count)))
    }

    pub fn partitions(&self) -> u32 {
        self.classes.len() as u32 * self.per_class() + 1
    }

    fn per_class(&self) -> u32 {
        (1 << self.bits) + 1
    }

    /// All partitions, grouped into files of about `target` bytes. `framed` counts the whole source. A group has whole slices.
    pub fn groups(&self, framed: &ClassCounts, target: u64) -> Vec<PartitionGroup> {
        let counts = framed.0.get(..self.classes.len()).unwrap_or_default();
        let bits = |count: &Count| slice_bits(count.bytes, target);
        let least = counts.iter().map(bits).max().unwrap_or_default().min(SHARED_BITS);
        let mut groups = Vec::new();
        let mut start = 0;
        let mut group = |end: u32, borders: Borders| {
            groups.push(PartitionGroup { partitions: start..end, borders });
            start = end;
        };
        group(1, Borders::default());
        for ((class, count), first) in self.classes.iter().zip(counts).zip((1..).step_by(self.per_class() as usize)) {
            let bits = bits(count).max(least).saturating_sub(self.shard.bits());
            let together = 1 << self.bits.saturating_sub(bits);
            for part in (0..1 << self.bits).step_by(together) {
                group(first + part + together as u32, Borders::within(class, self.shard, (part, self.bits), bits));
            }
            // The gap after the class.
            group(first + (1 << self.bits) + 1, Borders::default());
        }
        groups
    }

    /// Returns the record of a section in `buffer`, and its route.
    pub fn route_section<'a>(&self, buffer: &'a [u8], section: &Section, layout: KeyLayout) -> (Record<'a>, Route) {
        let record = Record::new(buffer, section, layout);
        (record, self.route(record.key(), layout.digest_in_key(&section.cid)))
    }

    /// Returns the route of a key whose digest begins at `digest_at`.
    pub fn route(&self, key: &[u8], digest_at: usize) -> Route {
        let (class, digest) = key.split_at(digest_at);
        let per_class = self.per_class();
        if let Some(index) = self.classes.iter().position(|known| known == class) {
            let prefix = leading(digest);
            let (shard, place) = self.shard.place(prefix);
            let part = if self.bits == 0 { 0 } else { (place >> (64 - self.bits)) as u32 };
            let partition = index as u32 * per_class + 1 + part;
            return Route { partition, class: index as u32, is_own: shard == self.shard.number, prefix };
        }
        let gap = self.classes.partition_point(|known| known.as_slice() < key) as u32;
        let class = MAX_CLASSES as u32;
        Route { partition: gap * per_class, class, is_own: self.shard.number == 0, prefix: leading(key) }
    }
}

fn leading(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::car::read_cid;
    use proptest::prelude::*;

    /// CIDs as an adversary would choose them: few classes and many, short digests and long, equal beginnings.
    fn cids() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let digest = prop_oneof![
            prop::collection::vec(any::<u8>(), 32),
            prop::collection::vec(any::<u8>(), 0..12),
            prop::collection::vec(0u8..2, 0..40),
        ];
        let cid = (
            prop_oneof![Just(0x71u64), Just(0x55), any::<u64>()],
            prop_oneof![Just(0xb220u64), Just(0), any::<u64>()],
            digest,
            any::<bool>(),
        )
            .prop_map(|(codec, hash, digest, v0)| {
                if v0 && digest.len() == 32 {
                    return [&[0x12, 0x20][..], &digest].concat();
                }
                let multihash = cid::multihash::Multihash::<64>::wrap(hash, &digest).expect("at most 64 bytes");
                cid::Cid::new_v1(codec, multihash).to_bytes()
            });
        prop::collection::vec(cid, 1..200)
    }

    proptest! {
        #[test]
        fn partitions_keep_the_order_of_keys(
            cids in cids(), sample in 0usize..50, bits in 0u32..9, layout in 0..3, of in 1u32..40,
        ) {
            let layout = [KeyLayout::Cid, KeyLayout::Multihash, KeyLayout::Digest][layout as usize];
            let keys: Vec<(&[u8], usize)> = cids
                .iter()
                .map(|cid| {
                    let span = read_cid(cid).expect("valid").expect("whole");
                    let start = layout.key_start(&span);
                    (&cid[start..], span.digest as usize - start)
                })
                .collect();
            let router = Router::learn(keys.iter().take(sample).copied(), bits);
            let mut routed: Vec<_> = keys.iter().map(|&(key, at)| (router.route(key, at), key)).collect();
            routed.sort_unstable_by(|(a, x), (b, y)| (a.partition, a.prefix, x).cmp(&(b.partition, b.prefix, y)));
            prop_assert!(routed.is_sorted_by_key(|(_, key)| *key), "order broken: {:?}", routed);
            prop_assert!(routed.iter().all(|(route, _)| route.partition < router.partitions()));
            // Each key is in one shard, in which the same holds, and no key of another shard is inside of a range.
            let mut ranges: Vec<(&[u8], &[u8])> = Vec::new();
            let mut found = 0;
            for number in 0..of {
                let shard = router.clone().of_shard(Shard::new(number, of));
                let mut own: Vec<_> = keys.iter().map(|&(key, at)| (shard.route(key, at), key)).collect();
                own.retain(|(route, _)| route.is_own);
                own.sort_unstable_by(|(a, x), (b, y)| (a.partition, a.prefix, x).cmp(&(b.partition, b.prefix, y)));
                prop_assert!(own.is_sorted_by_key(|(_, key)| *key), "order broken in shard {number} of {of}: {own:?}");
                prop_assert!(own.iter().all(|(route, _)| route.partition < shard.partitions()));
                found += own.len();
                let groups = shard.groups(&ClassCounts::default(), 1);
                prop_assert_eq!(groups.last().map(|group| group.partitions.end), Some(shard.partitions()));
                let group = |route: &Route| groups.partition_point(|group| group.partitions.end <= route.partition);
                for range in own.chunk_by(|(a, _), (b, _)| group(a) == group(b)) {
                    ranges.extend(range.first().zip(range.last()).map(|((_, first), (_, last))| (*first, *last)));
                }
            }
            prop_assert_eq!(found, keys.len());
            ranges.sort_unstable();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "shards overlap: {ranges:?}");
        }
    }
}
