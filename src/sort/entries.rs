//! Sorting what is in memory: 16 bytes an entry, never the blocks themselves.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use super::key::{KeyLayout, Record};
use crate::error::Result;
use crate::source::car::chunks::ChunkBytes;
use crate::source::car::{Step, next_section};

/// One block: the first eight bytes it is sorted by, and where its section lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub prefix: u64,
    /// Piece of the heap in the upper half, position in it in the lower.
    place: u64,
}

impl Entry {
    pub fn new(prefix: u64, piece: u32, start: u32) -> Self {
        Self { prefix, place: u64::from(piece) << 32 | u64::from(start) }
    }
}

/// The entries of one partition as the workers found them, until somebody takes them to sort.
#[derive(Default)]
pub(crate) struct Unsorted(Mutex<Vec<Vec<Entry>>>);

impl Unsorted {
    /// Adds what one worker found.
    pub fn add(&mut self, found: Vec<Entry>) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).push(found);
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|found| found.len() as u64).sum()
    }

    /// Takes all of them, in one piece.
    pub fn take(&self) -> Vec<Entry> {
        let mut found = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if found.len() == 1 { found.pop().unwrap_or_default() } else { found.concat() }
    }
}

/// Sections in memory, in pieces.
pub(crate) struct Heap {
    pieces: Vec<Option<ChunkBytes>>,
    layout: KeyLayout,
}

/// How many entries ahead of the one in hand the memory is asked for its block.
const AHEAD: usize = 6;

/// How many bytes of a block are asked for ahead; the processor follows on its own from there.
const AHEAD_BYTES: usize = 512;

impl Heap {
    pub fn new(layout: KeyLayout) -> Self {
        Self { pieces: Vec::new(), layout }
    }

    pub fn insert(&mut self, piece: u32, bytes: ChunkBytes) {
        let index = piece as usize;
        if self.pieces.len() <= index {
            self.pieces.resize_with(index + 1, || None);
        }
        self.pieces[index] = Some(bytes);
    }

    fn at(&self, entry: Entry) -> Option<&[u8]> {
        self.pieces.get((entry.place >> 32) as usize)?.as_ref()?.get((entry.place as u32) as usize..)
    }

    /// The record of an entry. Entries are made from sections that were read, so there always is one.
    pub fn record(&self, entry: Entry) -> Option<Record<'_>> {
        let rest = self.at(entry)?;
        let Ok(Step::Section(section)) = next_section(rest, 0, u64::MAX) else { return None };
        Record::new(&rest[section.cid_start..section.end], &section.cid, self.layout)
    }

    /// The whole section of an entry, its length included.
    pub fn section(&self, entry: Entry) -> Option<&[u8]> {
        let rest = self.at(entry)?;
        let Ok(Step::Section(section)) = next_section(rest, 0, u64::MAX) else { return None };
        rest.get(..section.end)
    }

    fn prefetch(&self, entry: Entry) {
        let Some(rest) = self.at(entry) else { return };
        for offset in (0..AHEAD_BYTES.min(rest.len())).step_by(64) {
            prefetch(&rest[offset]);
        }
    }

    /// Whether all that was looked at was really there.
    ///
    /// # Errors
    /// A mapped file was cut, or its disk failed, meanwhile.
    pub fn check(&self) -> Result<()> {
        self.pieces.iter().flatten().try_for_each(ChunkBytes::check)
    }

    /// Sorts entries of one partition by their full keys.
    pub fn sort(&self, entries: &mut [Entry]) {
        entries.sort_unstable_by_key(|entry| entry.prefix);
        // Equal prefixes are rare among hashes and the rule among adversaries; both end up in order.
        for same in entries.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if same.len() > 1 {
                same.sort_unstable_by(|a, b| self.compare(*a, *b));
            }
        }
    }

    fn compare(&self, a: Entry, b: Entry) -> Ordering {
        let key = |entry| self.record(entry).map_or(&[][..], |record| record.key());
        key(a).cmp(key(b)).then(a.place.cmp(&b.place))
    }

    /// Walks sorted entries in order, asking the memory ahead.
    pub fn walk<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = Record<'a>> + 'a {
        entries.iter().enumerate().filter_map(move |(index, entry)| {
            if let Some(&ahead) = entries.get(index + AHEAD) {
                self.prefetch(ahead);
            }
            self.record(*entry)
        })
    }
}

#[inline]
fn prefetch(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing; the address is that of a live reference.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
