//! The index of a `.forest.car.zst`, from the hash of a CID to the frame of its block.
//!
//! ```text
//! u64 deadbef0 | u64 longest probe | u64 slots whose hash occurred before | u64 buckets
//! slot: u64 hash | u64 offset of the frame            empty: ff .. ff, both
//! ```
//!
//! An open-addressed table, sorted by hash. A hash belongs at slot `hash * buckets >> 64` and is stored in the first
//! free slot from there. There are `entries / 0.8` buckets, then slots that were pushed beyond them, then an empty
//! slot, which ends every lookup.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::external_sort::{Sorted, Sorter};

/// First word of an index of version 1.
pub(super) const VERSION_1: u64 = 0xdead_bef0;
pub(super) const HEAD_LEN: usize = 32;
pub(super) const SLOT_LEN: usize = 16;
const SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
pub(super) const SKIPPABLE_HEAD_LEN: u64 = 8;
/// Most bytes of whole slots in one skippable frame.
const PAYLOAD_MAX: u64 = (u32::MAX as u64) & !(SLOT_LEN as u64 - 1);
const PIECE: usize = 1 << 20;

/// The hash of a block's CID (see [`slot_hash`]) and the offset of its frame in the file.
type Slot = [u64; 2];

/// Collects entries of 16 bytes each, then writes them.
#[derive(Debug)]
pub struct Index(Sorter<Slot>);

/// Returns the hash of a CID in the index: the exclusive or of its codec, the code of its hash function and the 8-byte
/// words of its digest, less one (unless 0) because all ones mark an empty slot.
pub fn slot_hash(codec: u64, code: u64, digest: &[u8]) -> u64 {
    let (words, _) = digest.as_chunks::<8>();
    words.iter().fold(codec ^ code, |hash, word| hash ^ u64::from_le_bytes(*word)).saturating_sub(1)
}

impl Index {
    /// Creates an index that stays in memory.
    pub fn in_memory() -> Self {
        Self(Sorter::new("", usize::MAX, 0))
    }

    /// Creates an index that keeps about `budget` bytes (at least 16 KiB) in memory and the rest in files in `dir`.
    pub fn within(budget: u64, dir: PathBuf) -> Self {
        Self(Sorter::new(dir, usize::try_from(budget).unwrap_or(usize::MAX), usize::MAX))
    }

    /// Adds a block by its [`slot_hash`].
    pub fn add_hash(&mut self, hash: u64, offset: u64) -> io::Result<()> {
        self.0.push([hash, offset])
    }

    /// Writes index and footer at the end of an archive of `position` bytes and returns their length. Equal hashes in
    /// one frame are one entry.
    pub fn write(self, out: &mut impl Write, position: u64) -> io::Result<u64> {
        self.write_in_frames(out, position, PAYLOAD_MAX)
    }

    fn write_in_frames(self, out: &mut impl Write, position: u64, payload_max: u64) -> io::Result<u64> {
        let slots = self.0.sorted()?.distinct()?;
        let table = Table::new(&slots)?;
        let frames = SkippableFrames { out: &mut *out, left: table.len(), in_frame: 0, payload_max, written: 0 };
        let mut frames = BufWriter::with_capacity(PIECE, frames);
        frames.write_all(&table.head())?;
        table.for_each(|slot| frames.write_all(slot.map(u64::to_le_bytes).as_flattened()))?;
        let written = frames.into_inner().map_err(io::IntoInnerError::into_error)?.written;
        let content = position + SKIPPABLE_HEAD_LEN;
        let footer = [&SKIPPABLE_MAGIC[..], &8u32.to_le_bytes(), &content.to_le_bytes()].concat();
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
    /// Payload that is not yet written.
    left: u64,
    /// Room in the open frame.
    in_frame: u64,
    payload_max: u64,
    written: u64,
}

impl<W: Write> Write for SkippableFrames<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.in_frame == 0 {
            self.in_frame = self.left.min(self.payload_max);
            self.out.write_all(&SKIPPABLE_MAGIC)?;
            self.out.write_all(&(self.in_frame as u32).to_le_bytes())?;
            self.written += SKIPPABLE_HEAD_LEN;
        }
        let len = bytes.len().min(self.in_frame as usize);
        self.out.write_all(&bytes[..len])?;
        self.in_frame -= len as u64;
        self.left -= len as u64;
        self.written += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Looks up a hash independently of the code under test.
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

    /// Removes the headers of the frames.
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

    /// Hashes all over the table, and many at both of its ends.
    fn hashes() -> impl Strategy<Value = u64> {
        prop_oneof![0..u64::MAX, 0u64..20, u64::MAX - 20..u64::MAX]
    }

    proptest! {
        #[test]
        fn lookups_match_a_map(
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
    fn hashes_match_forest() {
        // From the published stability test of Forest's hash function.
        assert_eq!(slot_hash(0xab, 0, &[]), 170);
        assert_eq!(slot_hash(0xac, 0, &[1, 2, 3, 4]), 171);
        assert_eq!(slot_hash(0xad, 0, &[1, 2, 3, 4, 5, 6, 7, 8]), 578_437_695_752_307_371);
    }
}
