//! Reading partitions: their sections, and their records of one size in order.

use std::ops::Range;
use std::sync::Arc;

use zerocopy::{FromZeros, IntoBytes};

use crate::error::{Error, Result};
use crate::external_sort::{Fixed, Sorter};
use crate::hash::{Content, ContentDigest};
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::os::mmap::Mapped;
use crate::sort::{PartitionBuffers, Reference, ReferencedSources, SourceMark, Spill, add_mark};
use crate::source::car::ChunkBytes;

/// Bytes that are read at once, and of sections that are written at once.
const PIECE: usize = 1 << 20;

impl Spill {
    /// Returns the sections of a partition and their sources. `None` if they and an entry of `entry` bytes for each
    /// exceed `memory` bytes or the range of an entry. `spare` is used memory, which is cheaper than new memory.
    pub fn load(
        &self,
        partition: u32,
        entry: usize,
        memory: u64,
        spare: Option<Buffer>,
    ) -> Result<Option<(ChunkBytes, Vec<SourceMark>)>> {
        let extent = self.extent(partition);
        let rest = memory.saturating_sub(extent.blocks.saturating_mul(entry as u64)).min(u64::from(u32::MAX));
        if extent.bytes > rest {
            return Ok(None);
        }
        let Some(sources) = &self.referenced else {
            return Ok(Some((self.read_all(partition, spare)?, self.marks(partition))));
        };
        let mut references = self.references(sources, partition, 0..extent.blocks)?;
        let len = references.iter().fold(0u64, |sum, reference| sum.saturating_add(reference.len.into()));
        if len > rest - extent.bytes {
            return Ok(None);
        }
        // The system reads ahead in the order of the sources.
        references.sort_unstable_by_key(|reference| (reference.source, reference.at));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut buffer = buffer_of(len, spare)?;
        let (mut filled, mut marks, mut open) = (0, Vec::new(), None);
        for reference in references {
            let end = filled + reference.len as usize;
            sources.read(reference, &mut buffer[filled..end], &mut open)?;
            add_mark(&mut marks, filled as u64, reference.source);
            filled = end;
        }
        Ok(Some((ChunkBytes::Read { buffer, len }, marks)))
    }

    /// Reads the references of a partition with the `wanted` numbers and checks their ranges.
    fn references(&self, sources: &ReferencedSources, partition: u32, wanted: Range<u64>) -> Result<Vec<Reference>> {
        let extent = self.extent(partition);
        let damaged = || self.damaged_error(partition, Content::default());
        if extent.blocks.checked_mul(size_of::<Reference>() as u64) != Some(extent.bytes) {
            return Err(damaged());
        }
        let mut references =
            vec![Reference::new_zeroed(); usize::try_from(wanted.end - wanted.start).unwrap_or(usize::MAX)];
        self.read(partition, wanted.start * size_of::<Reference>() as u64, references.as_mut_bytes())?;
        let exists = |Reference { at, len, source }: &Reference| {
            let source = sources.sources.get(*source as usize);
            source.is_some_and(|source| at.checked_add(u64::from(*len)).is_some_and(|end| end <= source.bytes))
        };
        if references.iter().all(exists) { Ok(references) } else { Err(damaged()) }
    }

    /// Copies the sections that a partition refers to, of at most `max_section` bytes each, to a file of their own.
    /// `None` if the partition file holds sections.
    pub fn with_sections(&self, partition: u32, max_section: u64) -> Result<Option<Self>> {
        let Some(sources) = &self.referenced else { return Ok(None) };
        let extent = self.extent(partition);
        let whole = Self::new(self.dir.clone(), self.partitions());
        let mut pieces = PartitionBuffers::new(self.partitions(), PIECE);
        let (mut section, mut open) = (Vec::new(), None);
        for first in (0..extent.blocks).step_by(PIECE / size_of::<Reference>()) {
            let end = extent.blocks.min(first + (PIECE / size_of::<Reference>()) as u64);
            for reference in self.references(sources, partition, first..end)? {
                if u64::from(reference.len) > max_section {
                    return Err(self.damaged_error(partition, Content::default()));
                }
                self.check_room(reference.len.into())?;
                section.resize(reference.len as usize, 0);
                sources.read(reference, &mut section, &mut open)?;
                pieces.set_source(reference.source);
                pieces.add(&whole, partition, &section, ContentDigest::default())?;
            }
        }
        pieces.flush(&whole)?;
        whole.set_content(partition, extent.content())?;
        Ok(Some(whole))
    }

    /// Returns a whole partition: mapped if the page cache may have it, else read into `spare` if that is large enough.
    pub fn read_all(&self, partition: u32, spare: Option<Buffer>) -> Result<ChunkBytes> {
        let len = usize::try_from(self.extent(partition).bytes).unwrap_or(usize::MAX);
        let file = self.file(partition);
        if let Some(file) = file.filter(|_| self.is_direct()) {
            let mut buffer = buffer_of(len.saturating_add(direct::BLOCK), spare)?;
            direct::read_exact(file, &mut buffer, len).map_err(Error::io("read", self.path(partition)))?;
            return Ok(ChunkBytes::Read { buffer, len });
        }
        if let Some(map) = file.and_then(|file| Mapped::new(file, len, &self.path(partition))) {
            map.advise(memmap2::Advice::PopulateRead);
            return Ok(ChunkBytes::Mapped { map: Arc::new(map), at: 0, len });
        }
        let mut buffer = buffer_of(len, spare)?;
        self.read(partition, 0, &mut buffer[..len])?;
        Ok(ChunkBytes::Read { buffer, len })
    }

    /// Passes the records of a partition to `take` in order, equal ones included, and sorts them within `memory` bytes.
    /// `numbers` turns stored bytes into numbers that sort. The first `key_len` bytes of a record are its key.
    pub fn for_each_sorted<T: Fixed>(
        &self,
        partition: u32,
        key_len: usize,
        memory: usize,
        numbers: impl Fn(T) -> T,
        mut take: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let extent = self.extent(partition);
        let failed = || Error::io("sort a partition in", &self.dir);
        let mut sorter = Sorter::new(&self.dir, memory, usize::try_from(extent.blocks).unwrap_or(usize::MAX));
        let mut content = Content::default();
        let mut piece = vec![T::new_zeroed(); PIECE / size_of::<T>()];
        let (mut at, records) = (0, extent.bytes / size_of::<T>() as u64);
        while at < records {
            piece.truncate(usize::try_from(records - at).unwrap_or(usize::MAX));
            self.read(partition, at * size_of::<T>() as u64, piece.as_mut_bytes())?;
            for record in &piece {
                content.add(ContentDigest::of_section(record.as_bytes(), key_len));
                sorter.push(numbers(*record)).map_err(failed())?;
            }
            at += piece.len() as u64;
        }
        if content != extent.content() {
            return Err(self.damaged_error(partition, content));
        }
        let sorted = sorter.sorted().map_err(failed())?;
        sorted.iter().map_err(failed())?.try_for_each(|record| take(record.map_err(failed())?))
    }
}

/// Returns `spare` if it has `len` bytes, else a new buffer.
fn buffer_of(len: usize, spare: Option<Buffer>) -> Result<Buffer> {
    match spare {
        Some(spare) if spare.len() >= len => Ok(spare),
        // Partitions differ by a few percent. Pages beyond the longest one are never touched.
        _ => Buffer::new(len.saturating_add(len / 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort::spill::LEAST_DIRECT;
    use std::path::Path;

    /// A spill whose pieces bypass the page cache, unless they are `cached`.
    fn spill(dir: &Path, cached: bool) -> Spill {
        Spill::new(dir.to_owned(), 1).with_page_cache(cached, LEAST_DIRECT, 1).expect("threads")
    }

    #[test]
    fn direct_pieces_read_back_like_cached_ones() {
        crate::handle_sigbus();
        for cached in [false, true] {
            let dir = tempfile::tempdir().expect("a temporary folder");
            let one = spill(dir.path(), cached);
            assert_eq!(one.is_direct(), !cached);
            let mut expected = Vec::new();
            for byte in 0..100u8 {
                let piece = vec![byte; 50_001 + usize::from(byte == 7) * (3 << 20)];
                one.append(0, &piece, Content::default(), &[]).expect("room");
                expected.extend_from_slice(&piece);
                if !cached {
                    expected.resize(expected.len().next_multiple_of(direct::BLOCK), 0);
                }
                if byte == 50 {
                    one.sync(&one.extents()).expect("a disk");
                }
            }
            assert_eq!(one.extent(0).bytes, expected.len() as u64);
            assert!(one.read_all(0, None).expect("readable")[..] == expected, "cached: {cached}");
            let mut found = vec![0; expected.len() - 5];
            one.read(0, 5, &mut found).expect("readable");
            assert!(found == expected[5..], "cached: {cached}");
        }
    }

    #[test]
    fn resume_switches_between_direct_and_cached() {
        crate::handle_sigbus();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut extents = Vec::new();
        let mut expected = Vec::new();
        for (byte, cached) in [(1u8, true), (2, false), (3, true)] {
            let one = spill(dir.path(), cached).resume(&extents, &[]).expect("as it was");
            one.append(0, &[byte; 5000], Content::default(), &[]).expect("room");
            one.sync(&one.extents()).expect("a disk");
            // Later appends are not synced.
            extents = one.extents();
            one.append(0, &[9; 5000], Content::default(), &[]).expect("room");
            let whole = |expected: &mut Vec<u8>| {
                let len = if cached { expected.len() } else { expected.len().next_multiple_of(direct::BLOCK) };
                expected.resize(len, 0);
            };
            whole(&mut expected);
            expected.extend_from_slice(&[byte; 5000]);
            whole(&mut expected);
        }
        // The noted extents also hold for the next run.
        for cached in [true, false, true, false] {
            let one = spill(dir.path(), cached).resume(&extents, &[]).expect("as it was");
            if !cached {
                expected.resize(expected.len().next_multiple_of(direct::BLOCK), 0);
            }
            one.sync(&one.extents()).expect("a disk");
            extents = one.extents();
            assert!(one.read_all(0, None).expect("readable")[..] == expected, "cached: {cached}");
        }
    }
}
