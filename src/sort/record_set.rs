//! Records of arbitrary keys in memory. Each chunk is sorted by the thread that takes it; ranges of keys are then gathered from all
//! chunks. An entry has 16 bytes: eight bytes of the key, after the bytes that all keys of its column family share, and the place
//! of the record.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::placed_key::Place;
use super::prefixes::{RecordEntry, prefix, shared, sort_by_keys, take_prefixes};
use crate::error::Result;
use crate::hash::Content;
use crate::os::buffer::Buffer;
use crate::source::records::RecordChunk;

/// The most chunks of a set: an entry has 16 bits for the number of its chunk.
pub(crate) const MAX_CHUNKS: usize = 1 << 16;

/// Entries whose first bytes are prefetched together: a processor finds the pages of several records at a time, but only if the requests
/// are close together. The rest of a record is prefetched once as many entries precede it.
const GROUP: usize = 16;
const NEAR: usize = 8;

/// Spreads numbers of chunks over the entries of a chunk: 2^32 divided by the golden ratio.
const SPREAD: usize = 0x9E37_79B1;

/// The least bytes that a record counts in a range: its entry, and its hash in the filter that RocksDB builds, take memory, too.
const LEAST_RECORD: u64 = 32;

/// Samples for each range that is cut, and the most bytes of a key in a sample: keys may be as long as a range.
const SAMPLES: u64 = 64;
const SAMPLED: usize = 1024;

/// The key and the value of a record.
pub(crate) type RecordParts<'a> = (&'a [u8], &'a [u8]);

/// A chunk and its records in the order of families, keys and places.
pub(crate) struct SortedChunk {
    /// Its place among all chunks.
    index: u32,
    source: u16,
    chunk: RecordChunk,
    entries: Vec<RecordEntry>,
    /// True if its records came in this order, each key once.
    is_ascending: bool,
}

/// Sorted chunks, in the order of the sources.
#[derive(Default)]
pub(crate) struct RecordSet {
    chunks: Vec<SortedChunk>,
    memory: u64,
    /// Bytes of the largest record.
    pub largest: u64,
}

/// A column family, a key of it, and the bytes of the records that it represents.
pub(crate) type Sample = (u16, Vec<u8>, u64);

/// The keys of a column family from `from`, or the first, up to `to`, or the last, without `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordRange {
    pub family: u16,
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
}

impl SortedChunk {
    /// Sorts the records of a decoded chunk. `families` has the number of each column family of its stream.
    pub fn new(mut chunk: RecordChunk, index: u32, source: u16, families: &[u16]) -> Self {
        let number = |family: u16| families.get(usize::from(family)).copied().unwrap_or_default();
        let entry = |(at, family)| RecordEntry { prefix: 0, at, family: number(family), chunk: 0 };
        let mut entries: Vec<RecordEntry> = chunk.records().map(entry).collect();
        let key = |entry: &RecordEntry| chunk.key(entry.at);
        let is_ascending = entries.is_sorted_by(|a, b| (a.family, key(a)) < (b.family, key(b)));
        if !is_ascending {
            entries.sort_by_key(|entry| entry.family);
            for own in entries.chunk_by_mut(|a, b| a.family == b.family) {
                let skip = take_prefixes(own, 0, key);
                sort_by_keys(own, skip, key);
            }
        }
        chunk.forget_records();
        Self { index, source, chunk, entries, is_ascending }
    }

    fn memory(&self) -> u64 {
        self.chunk.memory() + (self.entries.capacity() * size_of::<RecordEntry>()) as u64
    }

    /// Bytes of its records, each of which counts at least `LEAST_RECORD`.
    fn bytes(&self) -> u64 {
        self.chunk.bytes().max(self.entries.len() as u64 * LEAST_RECORD)
    }

    /// Its entries in a range.
    fn within(&self, range: &RecordRange) -> &[RecordEntry] {
        let before = |key: &Option<Vec<u8>>, is_end: bool| {
            self.entries.partition_point(|entry| match entry.family.cmp(&range.family) {
                Ordering::Equal => match key {
                    Some(key) => self.chunk.key(entry.at) < key.as_slice(),
                    None => is_end,
                },
                other => other == Ordering::Less,
            })
        };
        self.entries.get(before(&range.from, false)..before(&range.to, true)).unwrap_or_default()
    }
}

/// Cuts records into ranges of about `target` bytes, each of one column family. `samples` are keys of all of them.
pub(crate) fn cut(samples: &mut [Sample], target: u64) -> Vec<RecordRange> {
    samples.sort_unstable();
    let mut ranges = Vec::new();
    for samples in samples.chunk_by(|a, b| a.0 == b.0) {
        let (mut from, mut bytes, mut family): (Option<Vec<u8>>, _, _) = (None, 0, 0);
        for (of, key, weight) in samples {
            family = *of;
            if bytes >= target && from.as_ref().is_none_or(|from| from < key) {
                let to = Some(key.clone());
                ranges.push(RecordRange { family, from: from.take(), to: to.clone() });
                (from, bytes) = (to, 0);
            }
            bytes += weight;
        }
        ranges.push(RecordRange { family, from, to: None });
    }
    ranges
}

impl RecordSet {
    /// Adds a chunk whose largest record has as many bytes.
    pub fn push(&mut self, chunk: SortedChunk, largest: u64) {
        self.memory += chunk.memory();
        self.largest = self.largest.max(largest);
        self.chunks.push(chunk);
    }

    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(SortedChunk::bytes).sum()
    }

    pub fn is_full(&self, limit: u64) -> bool {
        self.memory >= limit || self.chunks.len() >= MAX_CHUNKS - MAX_CHUNKS / 8
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Puts the chunks in the order of the sources: threads finish them in any order.
    pub fn order(&mut self) {
        self.chunks.sort_unstable_by_key(|chunk| chunk.index);
        for (number, chunk) in (0..).zip(&mut self.chunks) {
            chunk.entries.iter_mut().for_each(|entry| entry.chunk = number);
        }
    }

    /// Returns the source, the offset and the key of the first record that is not after the record before it, in the order of column
    /// families and keys. `last` is the last record of the set before, and becomes that of this set.
    pub fn find_unsorted(&self, last: &mut Option<(u16, Vec<u8>)>) -> Option<(u16, u64, &[u8])> {
        for SortedChunk { chunk, entries, source, is_ascending, .. } in &self.chunks {
            let mut before = last.as_ref().map(|(family, key)| (*family, key.as_slice()));
            let mut entries = Cow::Borrowed(entries);
            // Of ascending records, the first is compared with the one before it.
            let skipped = if *is_ascending { entries.len().saturating_sub(2) } else { 0 };
            if !is_ascending {
                entries.to_mut().sort_unstable_by_key(|entry| entry.at);
            }
            for entry in entries.iter().take(1).chain(entries.iter().skip(1 + skipped)) {
                let now = (entry.family, chunk.key(entry.at));
                if before.is_some_and(|before| before >= now) {
                    return Some((*source, chunk.offset_of(entry.at), now.1));
                }
                before = Some(now);
            }
            *last = before.map(|(family, key)| (family, key.to_vec()));
        }
        None
    }

    /// Cuts the records into ranges of about `target` bytes, each of one column family. One key is always in one range.
    pub fn ranges(&self, target: u64) -> Vec<RecordRange> {
        cut(&mut self.samples(target.div_ceil(SAMPLES)), target)
    }

    /// Returns a sample for about each `bytes` of records, and at least one of each column family: the first bytes of its key.
    pub fn samples(&self, bytes: u64) -> Vec<Sample> {
        let mut samples = Vec::new();
        for own @ SortedChunk { chunk, entries, index, .. } in &self.chunks {
            let count = own.bytes().div_ceil(bytes.max(1)).clamp(1, entries.len().max(1) as u64) as usize;
            let step = entries.len().div_ceil(count).max(1);
            let weight = own.bytes() * step as u64 / entries.len().max(1) as u64;
            let families = entries.chunk_by(|a, b| a.family == b.family);
            // Not the first entry of each chunk: these have the least keys.
            let first = (*index as usize).wrapping_mul(SPREAD) % step;
            let sampled = families.flat_map(|all| all.iter().skip(first.min(all.len() - 1)).step_by(step));
            let first_bytes = |key: &[u8]| key[..key.len().min(SAMPLED)].to_vec();
            samples.extend(sampled.map(|entry| (entry.family, first_bytes(chunk.key(entry.at)), weight)));
        }
        samples
    }

    /// Returns the records of a range in the order of keys; those with one key in the order of the sources.
    pub fn sorted(&self, range: &RecordRange) -> Vec<RecordEntry> {
        let parts: Vec<&[RecordEntry]> =
            self.chunks.iter().map(|chunk| chunk.within(range)).filter(|part| !part.is_empty()).collect();
        let ends = || parts.iter().flat_map(|part| part.first().into_iter().chain(part.last()));
        let least = ends().map(|entry| self.key(*entry)).min().unwrap_or_default();
        let skip = ends().map(|entry| self.key(*entry)).max().map_or(0, |most| shared(least, most));
        let mut entries = parts.concat();
        let is_before = |a: &[RecordEntry], b: &[RecordEntry]| Some(self.key(*a.last()?) < self.key(*b.first()?));
        let are_in_order = parts.windows(2).all(|pair| is_before(pair[0], pair[1]) == Some(true));
        if !are_in_order {
            for at in 0..entries.len() {
                self.prefetch_group(&entries, at);
                entries[at].prefix = prefix(self.key(entries[at]), skip);
            }
            sort_by_keys(&mut entries, skip, |entry| self.key(*entry));
        }
        entries
    }

    fn key(&self, entry: RecordEntry) -> &[u8] {
        self.chunks.get(usize::from(entry.chunk)).map_or(&[], |chunk| chunk.chunk.key(entry.at))
    }

    /// Returns the keys and values of entries, and their places. They are at random places in memory, so those ahead are prefetched.
    pub fn records<'a>(&'a self, entries: &'a [RecordEntry]) -> impl Iterator<Item = (RecordParts<'a>, Place)> {
        entries.iter().enumerate().map(move |(at, entry)| {
            self.prefetch_group(entries, at);
            self.prefetch(entries, at + NEAR, true);
            self.record(*entry)
        })
    }

    /// Prefetches the first bytes of the group after the next one, once for each group.
    fn prefetch_group(&self, entries: &[RecordEntry], at: usize) {
        if at.is_multiple_of(GROUP) {
            (at + 2 * GROUP..at + 3 * GROUP).for_each(|at| self.prefetch(entries, at, false));
        }
    }

    fn prefetch(&self, entries: &[RecordEntry], at: usize, is_begun: bool) {
        let Some(entry) = entries.get(at) else { return };
        if let Some(SortedChunk { chunk, .. }) = self.chunks.get(usize::from(entry.chunk)) {
            chunk.prefetch(entry.at, is_begun);
        }
    }

    fn record(&self, entry: RecordEntry) -> (RecordParts<'_>, Place) {
        let Some(SortedChunk { chunk, source, .. }) = self.chunks.get(usize::from(entry.chunk)) else {
            return Default::default();
        };
        (chunk.record(entry.at), Place { source: *source, offset: chunk.offset_of(entry.at) })
    }

    pub fn content(&self) -> Content {
        let mut content = Content::default();
        let entries =
            self.chunks.iter().flat_map(|chunk| chunk.entries.iter().map(|entry| chunk.chunk.record(entry.at)));
        entries.for_each(|(key, value)| content.add_record(key, value));
        content
    }

    /// Checks that everything read so far came from the sources.
    pub fn check(&self) -> Result<()> {
        self.chunks.iter().try_for_each(|chunk| chunk.chunk.check())
    }

    /// Releases the memory of all chunks, and returns their buffers.
    pub fn release(self) -> impl Iterator<Item = Buffer> {
        self.chunks.into_iter().filter_map(|chunk| chunk.chunk.release())
    }
}
