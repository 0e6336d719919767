//! Sorting what is in memory: 16 bytes an entry, never the blocks themselves.

use std::cmp::Ordering;

use parking_lot::Mutex;

use super::key::{KeyLayout, Record};
use super::spill::{SourceMark, source_at};
use crate::error::Result;
use crate::os::resources::prefetch;
use crate::source::car::{ChunkBytes, Step, next_section, varint};

/// One block: the first eight bytes it is sorted by, and the position of its section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortEntry {
    pub prefix: u64,
    /// Piece of the arena in the upper half, position in it in the lower.
    place: u64,
}

impl SortEntry {
    pub fn new(prefix: u64, piece: u32, start: u32) -> Self {
        Self { prefix, place: u64::from(piece) << 32 | u64::from(start) }
    }

    pub fn start(self) -> u32 {
        self.place as u32
    }
}

/// The entries of one partition as the workers found them, until a worker takes them to sort.
#[derive(Default)]
pub(crate) struct Unsorted(Mutex<Vec<Vec<SortEntry>>>);

impl Unsorted {
    pub fn add(&mut self, found: Vec<SortEntry>) {
        self.0.get_mut().push(found);
    }

    pub fn len(&self) -> u64 {
        self.0.lock().iter().map(|found| found.len() as u64).sum()
    }

    pub fn take(&self) -> Vec<SortEntry> {
        let mut found = std::mem::take(&mut *self.0.lock());
        if found.len() == 1 { found.pop().unwrap_or_default() } else { found.concat() }
    }
}

pub(crate) struct BlockArena {
    pieces: Vec<Option<(ChunkBytes, Vec<SourceMark>)>>,
    layout: KeyLayout,
}

/// Entries that are prefetched at once. Blocks are spread over the snapshot, so each one means a walk through the page tables, which costs more than fetching
/// the bytes: on virtual machines half a microsecond. Processors do several walks at a time, but only if the requests are
/// close together; and a processor waits at a prefetch until the walk has found its page.
const GROUP: usize = 16;

/// Distance at which the bytes of a block are prefetched, in entries, once its page is known.
const AHEAD: usize = 6;

/// Bytes of a block that are prefetched; the processor itself prefetches from there.
const AHEAD_BYTES: usize = 2048;

impl BlockArena {
    pub fn new(layout: KeyLayout) -> Self {
        Self { pieces: Vec::new(), layout }
    }

    pub fn insert(&mut self, piece: u32, bytes: ChunkBytes, marks: Vec<SourceMark>) {
        let index = piece as usize;
        if self.pieces.len() <= index {
            self.pieces.resize_with(index + 1, || None);
        }
        self.pieces[index] = Some((bytes, marks));
    }

    pub fn take(&mut self, piece: u32) -> Option<ChunkBytes> {
        self.pieces.get_mut(piece as usize)?.take().map(|(bytes, _)| bytes)
    }

    pub fn source(&self, entry: SortEntry) -> u32 {
        let piece = self.pieces.get((entry.place >> 32) as usize).and_then(Option::as_ref);
        piece.map_or(0, |(_, marks)| source_at(marks, u64::from(entry.place as u32)))
    }

    fn at(&self, entry: SortEntry) -> Option<&[u8]> {
        self.pieces.get((entry.place >> 32) as usize)?.as_ref()?.0.get((entry.place as u32) as usize..)
    }

    /// Returns the record of an entry. Entries are made from sections that were read, so there always is one.
    pub fn record(&self, entry: SortEntry) -> Option<Record<'_>> {
        let rest = self.at(entry)?;
        let Ok(Step::Section(section)) = next_section(rest, 0, u64::MAX) else { return None };
        Some(Record::new(rest, &section, self.layout))
    }

    /// Returns the whole section of an entry, with its length.
    pub fn section(&self, entry: SortEntry) -> Option<&[u8]> {
        let rest = self.at(entry)?;
        let Ok(Step::Section(section)) = next_section(rest, 0, u64::MAX) else { return None };
        Some(section.whole(rest))
    }

    fn prefetch_first(&self, entries: &[SortEntry]) {
        for &entry in entries {
            if let Some(first) = self.at(entry).and_then(<[u8]>::first) {
                prefetch(first);
            }
        }
    }

    /// Prefetches the last byte of each entry, whose first ones are in the cache by now: it may be on another page.
    fn prefetch_last(&self, entries: &[SortEntry]) {
        for &entry in entries {
            if let Some(last) = self.head_of(entry).and_then(<[u8]>::last) {
                prefetch(last);
            }
        }
    }

    fn prefetch_all(&self, entry: SortEntry) {
        let Some(head) = self.head_of(entry) else { return };
        head.iter().step_by(64).for_each(prefetch);
    }

    /// The first [`AHEAD_BYTES`] of an entry's section, or all of a shorter one.
    fn head_of(&self, entry: SortEntry) -> Option<&[u8]> {
        let rest = self.at(entry)?;
        let (len, len_bytes) = varint::read(rest, "a section's length").ok()??;
        rest.get(..(len as usize).saturating_add(len_bytes).min(AHEAD_BYTES).min(rest.len()))
    }

    /// Checks that everything read so far came from the source.
    pub fn check(&self) -> Result<()> {
        self.pieces.iter().flatten().try_for_each(|(bytes, _)| bytes.check())
    }

    /// Sorts entries of one partition by their full keys.
    pub fn sort(&self, entries: &mut [SortEntry]) {
        entries.sort_unstable_by_key(|entry| entry.prefix);
        // Equal prefixes are rare among hashes, and the rule among keys of an adversary.
        for same in entries.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if same.len() > 1 {
                same.sort_unstable_by(|a, b| self.compare(*a, *b));
            }
        }
    }

    fn compare(&self, a: SortEntry, b: SortEntry) -> Ordering {
        let key = |entry| self.record(entry).map_or(&[][..], |record| record.key());
        key(a).cmp(key(b)).then(a.place.cmp(&b.place))
    }

    /// Walks sorted entries in order and prefetches what follows.
    pub fn walk<'a>(&'a self, entries: &'a [SortEntry]) -> impl Iterator<Item = (SortEntry, Record<'a>)> + 'a {
        let group = |number: usize| entries.chunks(GROUP).nth(number).unwrap_or_default();
        (0..3).for_each(|number| self.prefetch_first(group(number)));
        (0..2).for_each(|number| self.prefetch_last(group(number)));
        entries.iter().enumerate().filter_map(move |(index, entry)| {
            if index % GROUP == 0 {
                self.prefetch_first(group(index / GROUP + 3));
                self.prefetch_last(group(index / GROUP + 2));
            }
            if let Some(&ahead) = entries.get(index + AHEAD) {
                self.prefetch_all(ahead);
            }
            self.record(*entry).map(|record| (*entry, record))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::os::buffer::Buffer;

    /// An arena of identity CIDs, one piece for each group, and an entry for each.
    fn arena(groups: &[Vec<Vec<u8>>]) -> (BlockArena, Vec<SortEntry>) {
        let mut arena = BlockArena::new(KeyLayout::Digest);
        let mut entries = Vec::new();
        for (piece, group) in (0u32..).zip(groups) {
            let mut bytes = Vec::new();
            for digest in group {
                let mut prefix = [0; 8];
                prefix.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
                entries.push(SortEntry::new(u64::from_be_bytes(prefix), piece, bytes.len() as u32));
                // The value is its place.
                let value = bytes.len() as u32;
                bytes.extend([digest.len() as u8 + 8, 1, 0x55, 0, digest.len() as u8]);
                bytes.extend(digest);
                bytes.extend(value.to_le_bytes());
            }
            let mut buffer = Buffer::new(bytes.len()).expect("memory");
            buffer[..bytes.len()].copy_from_slice(&bytes);
            arena.insert(piece, ChunkBytes::Read { buffer, len: bytes.len() }, Vec::new());
        }
        (arena, entries)
    }

    #[test]
    fn entries_of_all_workers_are_taken_once() {
        let mut unsorted = Unsorted::default();
        for piece in 0..3 {
            unsorted.add((0..4).map(|start| SortEntry::new(0, piece, start)).collect());
        }
        assert_eq!(unsorted.len(), 12);
        let mut places: Vec<_> = unsorted.take().iter().map(|entry| entry.place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!((places.len(), unsorted.len(), unsorted.take().len()), (12, 0, 0));
    }

    #[test]
    fn an_entry_without_a_piece_is_no_record() {
        let (arena, _) = arena(&[vec![vec![1]]]);
        assert!(arena.record(SortEntry::new(0, 7, 0)).is_none());
        assert!(arena.record(SortEntry::new(0, 0, 5_000_000)).is_none());
    }

    proptest! {
        #[test]
        fn entries_are_sorted_by_the_whole_key(
            groups in prop::collection::vec(prop::collection::vec(prop_oneof![
                prop::collection::vec(0u8..2, 0..16),
                prop::collection::vec(any::<u8>(), 0..100),
            ], 0..50), 0..4)
        ) {
            let (arena, mut entries) = arena(&groups);
            arena.sort(&mut entries);
            let found: Vec<_> = arena.walk(&entries).map(|(_, record)| record.key().to_vec()).collect();
            let mut expected = groups.concat();
            expected.sort();
            prop_assert_eq!(found, expected);
            for entry in &entries {
                let record = arena.record(*entry).expect("a record");
                prop_assert_eq!(record.value(), (entry.place as u32).to_le_bytes());
                prop_assert!(arena.section(*entry).expect("a section").ends_with(record.parts().0));
            }
        }
    }
}
