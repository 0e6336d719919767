//! The index of a `.forest.car.zst`: from the hash of a CID to the frame its block is in.
//!
//! ```text
//! u64 deadbef0 | u64 longest probe | u64 slots whose hash occurred before | u64 buckets
//! slot: u64 hash | u64 offset of the frame            empty: ff .. ff, both
//! ```
//!
//! An open-addressed table, sorted by hash. A hash belongs at slot `hash * buckets >> 64` and is stored there or in the
//! next free slot behind it; there are `entries / 0.8` buckets, a tail of slots that were pushed beyond them, and one
//! empty slot at the end, so a lookup always stops.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::external_sort::{Sorted, Sorter};

const VERSION_1: u64 = 0xdead_bef0;
const HEAD_LEN: usize = 32;
const SLOT_LEN: usize = 16;
const SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
const SKIPPABLE_HEAD_LEN: u64 = 8;
/// The most that one skippable frame holds, in whole slots.
const PAYLOAD_MAX: u64 = (u32::MAX as u64) & !(SLOT_LEN as u64 - 1);
/// Slots are written in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// The hash of a block's CID (see [`slot_hash`]), and where its frame begins, in bytes from the start of the file.
type Slot = [u64; 2];

/// Collects entries, then writes them. Takes 16 bytes of memory per entry, up to a limit if there is one.
#[derive(Debug)]
pub struct Index(Sorter<Slot>);

/// The hash under which the index knows a CID: its codec, its hash function's code and the 8-byte words of its digest,
/// all exclusive-ored. One less, except for 0, because all ones mark an empty slot.
pub fn slot_hash(codec: u64, code: u64, digest: &[u8]) -> u64 {
    let (words, _) = digest.as_chunks::<8>();
    words.iter().fold(codec ^ code, |hash, word| hash ^ u64::from_le_bytes(*word)).saturating_sub(1)
}

impl Index {
    /// An index of any size in memory.
    pub fn in_memory() -> Self {
        Self(Sorter::new("", usize::MAX, 0))
    }

    /// An index that takes about `budget` bytes of memory, 16 KiB at least, and puts the rest into files in `dir`.
    pub fn within(budget: u64, dir: PathBuf) -> Self {
        Self(Sorter::new(dir, usize::try_from(budget).unwrap_or(usize::MAX), usize::MAX))
    }

    /// Notes a block by its [`slot_hash`].
    pub fn add_hash(&mut self, hash: u64, offset: u64) -> io::Result<()> {
        self.0.push([hash, offset])
    }

    /// Writes index and footer, as the end of an archive that is `position` bytes long so far. Returns their length.
    /// The same hash in the same frame is one entry.
    pub fn write(self, out: &mut impl Write, position: u64) -> io::Result<u64> {
        self.write_in_frames(out, position, PAYLOAD_MAX)
    }

    fn write_in_frames(self, out: &mut impl Write, position: u64, payload_max: u64) -> io::Result<u64> {
        let slots = self.0.sorted()?.distinct()?;
        let table = Table::new(&slots)?;
        let mut frames = SkippableFrames { out, left: table.len(), in_frame: 0, payload_max, written: 0 };
        let mut piece = Vec::with_capacity(PIECE + SLOT_LEN);
        piece.extend(table.head());
        table.for_each(|slot| {
            slot.iter().for_each(|word| piece.extend_from_slice(&word.to_le_bytes()));
            if piece.len() < PIECE {
                return Ok(());
            }
            frames.write(&piece)?;
            piece.clear();
            Ok(())
        })?;
        frames.write(&piece)?;

        let written = frames.written;
        let mut footer = [0; 16];
        footer[..4].copy_from_slice(&SKIPPABLE_MAGIC);
        footer[4..8].copy_from_slice(&8u32.to_le_bytes());
        footer[8..].copy_from_slice(&(position + SKIPPABLE_HEAD_LEN).to_le_bytes());
        out.write_all(&footer)?;
        Ok(written + footer.len() as u64)
    }
}

/// The layout of the sorted slots.
struct Table<'a> {
    slots: &'a Sorted<Slot>,
    buckets: u64,
    longest_probe: u64,
    collisions: u64,
    /// Occupied slots and the empty ones between them.
    extent: u64,
}

impl<'a> Table<'a> {
    const EMPTY: Slot = [u64::MAX; 2];

    fn new(slots: &'a Sorted<Slot>) -> io::Result<Self> {
        let count = slots.len();
        let buckets = count + count / 4;
        let mut table = Self { slots, buckets, longest_probe: 0, collisions: 0, extent: 0 };
        let mut before = None;
        for slot in slots.iter()? {
            let [hash, _] = slot?;
            let ideal = table.ideal(hash);
            let place = table.extent.max(ideal);
            table.longest_probe = table.longest_probe.max(place - ideal);
            table.extent = place + 1;
            table.collisions += u64::from(before == Some(hash));
            before = Some(hash);
        }
        Ok(table)
    }

    fn ideal(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as u64
    }

    fn head(&self) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        let fields = [VERSION_1, self.longest_probe, self.collisions, self.buckets];
        for (place, field) in head.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        head
    }

    fn slot_count(&self) -> u64 {
        self.extent.max(self.buckets) + 1
    }

    fn len(&self) -> u64 {
        HEAD_LEN as u64 + self.slot_count() * SLOT_LEN as u64
    }

    fn for_each(&self, mut visit: impl FnMut(Slot) -> io::Result<()>) -> io::Result<()> {
        let mut place = 0;
        for slot in self.slots.iter()? {
            let slot = slot?;
            while place < self.ideal(slot[0]) {
                visit(Self::EMPTY)?;
                place += 1;
            }
            visit(slot)?;
            place += 1;
        }
        (place..self.slot_count()).try_for_each(|_| visit(Self::EMPTY))
    }
}

/// Cuts a payload of known length into skippable frames.
struct SkippableFrames<'a, W> {
    out: &'a mut W,
    /// Payload that is still to come.
    left: u64,
    /// Room in the frame that is open.
    in_frame: u64,
    payload_max: u64,
    written: u64,
}

impl<W: Write> SkippableFrames<'_, W> {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.in_frame == 0 {
                self.in_frame = self.left.min(self.payload_max);
                self.out.write_all(&SKIPPABLE_MAGIC)?;
                self.out.write_all(&(self.in_frame as u32).to_le_bytes())?;
                self.written += SKIPPABLE_HEAD_LEN;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.in_frame as usize));
            self.out.write_all(now)?;
            self.in_frame -= now.len() as u64;
            self.left -= now.len() as u64;
            self.written += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Looks up a hash as the format says, without the code above.
    fn lookup(index: &[u8], hash: u64) -> Vec<u64> {
        let word = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().expect("8 bytes"));
        let mut found = Vec::new();
        let mut at = 32 + 16 * ((u128::from(hash) * u128::from(word(24))) >> 64) as usize;
        while word(at) != u64::MAX {
            if word(at) == hash {
                found.push(word(at + 8));
            }
            at += 16;
        }
        found
    }

    /// The index between its frames' heads.
    fn payload(mut archive: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        while archive.len() > 16 {
            assert_eq!(archive[..4], SKIPPABLE_MAGIC);
            let len = u32::from_le_bytes(archive[4..8].try_into().expect("4 bytes")) as usize;
            payload.extend_from_slice(&archive[8..8 + len]);
            archive = &archive[8 + len..];
        }
        payload
    }

    /// All over the table, crowded at its start, and beyond its end.
    fn hashes() -> impl Strategy<Value = u64> {
        prop_oneof![0..u64::MAX, 0u64..20, u64::MAX - 20..u64::MAX]
    }

    proptest! {
        #[test]
        fn a_lookup_finds_what_a_map_finds(
            entries in proptest::collection::vec((hashes(), 0u64..4), 0..3000),
            payload_max in 1u64..2000,
            spills in any::<bool>(),
        ) {
            let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
            let mut index = if spills { Index::within(0, std::env::temp_dir()) } else { Index::in_memory() };
            for &(hash, offset) in &entries {
                let offsets = model.entry(hash).or_default();
                if !offsets.contains(&offset) {
                    offsets.push(offset);
                }
                index.add_hash(hash, offset).expect("room");
            }
            let mut archive = Vec::new();
            let written = index.write_in_frames(&mut archive, 1000, payload_max).expect("write to memory");
            prop_assert_eq!(written, archive.len() as u64);
            prop_assert_eq!(&archive[archive.len() - 8..], &1008u64.to_le_bytes());
            prop_assert_eq!(zstd::decode_all(archive.as_slice()).expect("skip all frames"), Vec::<u8>::new());
            let index = payload(&archive);
            for (hash, mut offsets) in model {
                offsets.sort_unstable();
                prop_assert_eq!(lookup(&index, hash), offsets);
            }
        }
    }

    #[test]
    fn hashes_are_those_of_forest() {
        // From the published stability test of Forest's hash function.
        assert_eq!(slot_hash(0xab, 0, &[]), 170);
        assert_eq!(slot_hash(0xac, 0, &[1, 2, 3, 4]), 171);
        assert_eq!(slot_hash(0xad, 0, &[1, 2, 3, 4, 5, 6, 7, 8]), 578_437_695_752_307_371);
    }
}
