//! The index of a `.forest.car.zst`: from the hash of a CID to the frame its block is in.
//!
//! ```text
//! u64 deadbef0 | u64 longest probe | u64 slots whose hash occurred before | u64 buckets
//! slot: u64 hash | u64 offset of the frame            empty: ff .. ff, both
//! ```
//!
//! An open-addressed table, sorted by hash. A hash belongs at slot `hash * buckets >> 64` and stands there or behind,
//! where the next free slot is; there are `entries / 0.8` buckets, a tail of slots that were pushed beyond them, and
//! one empty slot at the end, so a lookup always stops.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::PathBuf;

const VERSION_1: u64 = 0xdead_bef0;
const HEAD_LEN: usize = 32;
const SLOT_LEN: usize = 16;
const SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
const SKIPPABLE_HEAD_LEN: u64 = 8;
/// The most that one skippable frame holds, in whole slots.
const PAYLOAD_MAX: u64 = (u32::MAX as u64) & !(SLOT_LEN as u64 - 1);
/// Slots are written in pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// Bytes that are read of a run at once.
const RUN_BUFFER: usize = 64 << 10;
/// The least memory for an index that may spill, in bytes.
const MIN_BUDGET: u64 = 16 << 10;

/// An entry of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// See [`slot_hash`].
    pub hash: u64,
    /// Where the frame begins, in bytes from the start of the file.
    pub offset: u64,
}

/// Collects entries, then writes them. Takes 16 bytes of memory per entry, up to a limit if there is one.
#[derive(Debug)]
pub struct Index {
    slots: Vec<Slot>,
    spill: Option<Spill>,
}

/// Where entries go beyond the limit.
#[derive(Debug)]
struct Spill {
    /// Slots that are held in memory.
    held: usize,
    dir: PathBuf,
    /// Sorted runs. The files have no names: they are gone when they are dropped.
    runs: Vec<(File, u64)>,
}

/// The hash under which the index knows a CID: its codec, its hash function's code and the 8-byte words of its digest,
/// all exclusive-ored. One less, except for 0, because all ones mark an empty slot.
pub fn slot_hash(codec: u64, code: u64, digest: &[u8]) -> u64 {
    let (words, _) = digest.as_chunks::<8>();
    words.iter().fold(codec ^ code, |hash, word| hash ^ u64::from_le_bytes(*word)).saturating_sub(1)
}

impl Index {
    /// An index of any size in memory.
    pub fn in_memory() -> Self {
        Self { slots: Vec::new(), spill: None }
    }

    /// An index that takes about `budget` bytes of memory, 16 KiB at least, and puts the rest into files in `dir`.
    pub fn within(budget: u64, dir: PathBuf) -> Self {
        let held = usize::try_from(budget.max(MIN_BUDGET)).unwrap_or(usize::MAX) / SLOT_LEN;
        // Vectors grow by doubling, so this one is made as large as it will be, which costs nothing until it is used.
        Self { slots: Vec::with_capacity(held), spill: Some(Spill { held, dir, runs: Vec::new() }) }
    }

    /// Notes a block by its [`slot_hash`].
    ///
    /// # Errors
    /// No room for what does not fit in memory.
    pub fn add_hash(&mut self, hash: u64, offset: u64) -> io::Result<()> {
        if let Some(spill) = &mut self.spill
            && self.slots.len() >= spill.held
        {
            spill.write(&mut self.slots)?;
        }
        self.slots.push(Slot { hash, offset });
        Ok(())
    }

    /// Writes index and footer, as the end of an archive that is `position` bytes long so far. Returns their length.
    /// The same hash in the same frame is one entry.
    ///
    /// # Errors
    /// What `out` says, or what the files say that hold what did not fit in memory.
    pub fn write(self, out: &mut impl Write, position: u64) -> io::Result<u64> {
        self.write_in_frames(out, position, PAYLOAD_MAX)
    }

    fn write_in_frames(self, out: &mut impl Write, position: u64, payload_max: u64) -> io::Result<u64> {
        let slots = self.sorted()?;
        let table = Table::new(&slots)?;
        let mut frames = SkippableFrames { out, left: table.len(), in_frame: 0, payload_max, written: 0 };
        let mut piece = Vec::with_capacity(PIECE + SLOT_LEN);
        piece.extend(table.head());
        table.for_each(|slot| {
            piece.extend_from_slice(&slot.bytes());
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

    /// All slots in their order, each once.
    fn sorted(mut self) -> io::Result<Sorted> {
        match self.spill {
            Some(mut spill) if !spill.runs.is_empty() => {
                spill.write(&mut self.slots)?;
                drop(self.slots);
                spill.merge()
            }
            _ => {
                self.slots.sort_unstable();
                self.slots.dedup();
                Ok(Sorted::Memory(self.slots))
            }
        }
    }
}

impl Slot {
    fn bytes(self) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut word = || {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        Ok(Self { hash: word()?, offset: word()? })
    }
}

impl Spill {
    /// Moves `slots` to a run.
    fn write(&mut self, slots: &mut Vec<Slot>) -> io::Result<()> {
        slots.sort_unstable();
        slots.dedup();
        let mut out = BufWriter::with_capacity(PIECE, tempfile::tempfile_in(&self.dir)?);
        slots.iter().try_for_each(|slot| out.write_all(&slot.bytes()))?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.runs.push((file, slots.len() as u64));
        slots.clear();
        Ok(())
    }

    /// All runs as one.
    fn merge(self) -> io::Result<Sorted> {
        let mut runs = Vec::new();
        let mut next = BinaryHeap::new();
        for (number, (mut file, count)) in self.runs.into_iter().enumerate() {
            file.rewind()?;
            let mut run = (BufReader::with_capacity(RUN_BUFFER, file), count);
            if let Some(slot) = take(&mut run)? {
                next.push(Reverse((slot, number)));
            }
            runs.push(run);
        }
        let mut out = BufWriter::with_capacity(PIECE, tempfile::tempfile_in(&self.dir)?);
        let (mut count, mut last) = (0, None);
        while let Some(Reverse((slot, number))) = next.pop() {
            if last != Some(slot) {
                out.write_all(&slot.bytes())?;
                (count, last) = (count + 1, Some(slot));
            }
            if let Some(run) = runs.get_mut(number)
                && let Some(slot) = take(run)?
            {
                next.push(Reverse((slot, number)));
            }
        }
        Ok(Sorted::File(out.into_inner().map_err(io::IntoInnerError::into_error)?, count))
    }
}

/// The next slot of a run.
fn take((reader, left): &mut (BufReader<File>, u64)) -> io::Result<Option<Slot>> {
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    Slot::read(reader).map(Some)
}

/// Slots in order, each once.
enum Sorted {
    Memory(Vec<Slot>),
    File(File, u64),
}

impl Sorted {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(slots) => slots.len() as u64,
            Self::File(_, count) => *count,
        }
    }

    fn for_each(&self, mut visit: impl FnMut(Slot) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Memory(slots) => slots.iter().try_for_each(|&slot| visit(slot)),
            Self::File(file, count) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                let mut reader = BufReader::with_capacity(PIECE, file);
                (0..*count).try_for_each(|_| visit(Slot::read(&mut reader)?))
            }
        }
    }
}

/// Where the sorted slots stand.
struct Table<'a> {
    slots: &'a Sorted,
    buckets: u64,
    longest_probe: u64,
    collisions: u64,
    /// Occupied slots and the empty ones between them.
    extent: u64,
}

impl<'a> Table<'a> {
    const EMPTY: Slot = Slot { hash: u64::MAX, offset: u64::MAX };

    fn new(slots: &'a Sorted) -> io::Result<Self> {
        let count = slots.len();
        let buckets = count + count / 4;
        let mut table = Self { slots, buckets, longest_probe: 0, collisions: 0, extent: 0 };
        let mut before = None;
        slots.for_each(|slot| {
            let ideal = table.ideal(slot.hash);
            let place = table.extent.max(ideal);
            table.longest_probe = table.longest_probe.max(place - ideal);
            table.extent = place + 1;
            table.collisions += u64::from(before == Some(slot.hash));
            before = Some(slot.hash);
            Ok(())
        })?;
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
        self.slots.for_each(|slot| {
            while place < self.ideal(slot.hash) {
                visit(Self::EMPTY)?;
                place += 1;
            }
            visit(slot)?;
            place += 1;
            Ok(())
        })?;
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

    /// Looks a hash up as the format says, without the code above.
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
            entries in proptest::collection::vec((hashes(), 0u64..4), 0..300),
            payload_max in 1u64..2000,
            held in proptest::option::of(1usize..100),
        ) {
            let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
            let mut index = Index::in_memory();
            if let Some(held) = held {
                index.spill = Some(Spill { held, dir: std::env::temp_dir(), runs: Vec::new() });
            }
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
