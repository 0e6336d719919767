//! Partitions on disk: what does not fit the memory budget, written in large pieces and read back one partition at a
//! time.
//!
//! A partition's file holds sections exactly as the CAR has them (length, CID, block), in no order, so the same code
//! reads them back. Every worker collects pieces of its own and appends them whole; the file's length is the only
//! thing they share.
//!
//! Where memory is scarce, pieces bypass the page cache ([`direct`]). Such a piece begins at a multiple of
//! [`direct::BLOCK`], and zeros fill the rest of its last block: a section with a length of zero, which no CAR has before
//! its end.
//!
//! Where the machine has memory beyond the budget for plain sources, their sections are in the page cache already, and a
//! partition's file holds [`Reference`]s to them instead.
//!
//! Of which source a section is follows from its place: where the pieces that are appended pass from one source to another,
//! a partition has a [`Mark`]. A reference names its source itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use zerocopy::{FromZeros, IntoBytes};

use crate::error::{Error, Result};
use crate::external_sort::{Fixed, Sorter};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::os::mmap::Mapped;
use crate::os::private;
use crate::parallel::IoThreads;
use crate::sort::pieces::PartitionBuffers;
use crate::sort::referred::{Reference, Referred};
use crate::source::car::chunk::ChunkBytes;
use crate::text::size::human;

/// Bytes of a partition of fixed-size records that are read at once.
const READ: usize = 1 << 20;

/// The least length of a section that memory is planned for by itself, in bytes. It is longer than a chunk, so such a section has
/// a chunk of its own, and no other section costs a comparison.
pub(crate) const LARGE: u64 = 1 << 20;

/// The most bytes of the length before a section.
const MAX_LENGTH: u64 = 10;

/// The least limit of a piece that bypasses the page cache, in bytes: smaller ones are better gathered by the system.
const LEAST_DIRECT: u64 = 128 << 10;

/// Pieces of each worker that are being written at once: a disk is fast when it has many requests; and threads that wait for
/// it, at the most.
pub(crate) const IN_FLIGHT: usize = 4;
const MOST_IN_FLIGHT: usize = 16;

/// From byte `at` of a partition on, or of what was loaded of it, sections are of this source; those before the first mark
/// are of the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub at: u64,
    pub source: u32,
}

/// The source of the section at `at`.
pub(crate) fn source_at(marks: &[Mark], at: u64) -> u32 {
    let behind = marks.partition_point(|mark| mark.at <= at);
    behind.checked_sub(1).and_then(|last| marks.get(last)).map_or(0, |mark| mark.source)
}

/// Notes that sections from `at` on are of `source`.
pub(crate) fn mark(marks: &mut Vec<Mark>, at: u64, source: u32) {
    if marks.last().map_or(0, |mark| mark.source) != source {
        marks.push(Mark { at, source });
    }
}

/// One partition's file.
#[derive(Default)]
struct Partition {
    file: OnceLock<Arc<File>>,
    bytes: AtomicU64,
    content: Mutex<Content>,
    /// Where it passes from one source to another, and how many of these marks are in the journal.
    marks: Mutex<(Vec<Mark>, usize)>,
    /// Bytes that are known to be on the disk.
    synced: AtomicU64,
    /// Length of the longest section of [`LARGE`] bytes or more.
    largest: AtomicU64,
}

impl Partition {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock()
    }
}

/// Where a piece is to be written.
pub(super) struct Place {
    file: Arc<File>,
    path: PathBuf,
    at: u64,
    is_direct: bool,
}

impl Place {
    /// Writes the piece there.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn write(&self, piece: &[u8]) -> Result<()> {
        let Self { file, path, at, is_direct } = self;
        let written = if *is_direct { direct::write_all_at(file, piece, *at) } else { file.write_all_at(piece, *at) };
        written.map_err(Error::io("write", path))
    }
}

/// All partitions of an import.
pub(crate) struct Spill {
    dir: PathBuf,
    partitions: Vec<Partition>,
    /// The source, where partitions refer to it.
    referred: Option<Referred>,
    /// Where pieces bypass the page cache: what writes them.
    direct: Option<IoThreads>,
    /// The memory of this run in bytes, and the share of it, as its reciprocal, that one section may take.
    budget: Option<(u64, u64)>,
}

/// What one partition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub bytes: u64,
    pub blocks: u64,
    /// Content digest of the records, each summed before it was written: what is read back must come to the same.
    pub digest: ContentDigest,
    /// Length of the longest section of [`LARGE`] bytes or more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub largest: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Extent {
    /// The records that went in.
    pub fn content(&self) -> Content {
        Content { records: self.blocks, digest: self.digest }
    }
}

/// Whether a file of that name is a partition, or a sorted run of one.
pub(crate) fn is_partition(name: &str) -> bool {
    let parts = name.split_once('.').map(|(stem, kind)| (stem, kind.strip_prefix("run").unwrap_or(kind)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.is_some_and(|(stem, kind)| is_number(stem) && (kind == "part" || kind == "refs" || is_number(kind)))
}

impl Spill {
    /// Prepares `partitions` files in `dir`; a file is made when its first piece comes.
    pub fn new(dir: PathBuf, partitions: u32) -> Self {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Self { dir, partitions, referred: None, direct: None, budget: None }
    }

    /// The same with partitions that refer to a source, if one is given.
    pub fn refer_to(self, referred: Option<Referred>) -> Self {
        Self { referred, ..self }
    }

    /// The same where a section may take a `share`-th of `memory` bytes.
    pub fn within(self, memory: u64, share: u64) -> Self {
        Self { budget: Some((memory, share)), ..self }
    }

    /// Checks that the memory of this run has room for a section, which a run with more memory has accepted.
    ///
    /// # Errors
    /// [`Error::State`]: it has not.
    pub fn check_room(&self, section: u64) -> Result<()> {
        match self.budget {
            // The length before the section was not counted when it was accepted.
            Some((memory, share)) if section > (memory / share).saturating_add(MAX_LENGTH) => Err(Error::State {
                path: self.dir.clone(),
                reason: format!(
                    "the unfinished import has a block of {}, too large for --memory {}",
                    human(section),
                    human(memory).replace(' ', "")
                ),
                hint: format!(
                    "run it again with --memory {} or more, or start over with --restart",
                    human(section.saturating_mul(share).next_multiple_of(64 << 20)).replace(' ', "")
                ),
            }),
            _ => Ok(()),
        }
    }

    /// The same for `workers` with pieces of `piece` bytes, which bypass the page cache where they are not to be `cached`.
    ///
    /// # Errors
    /// [`Error::Io`]: the system refuses a thread.
    pub fn cached(self, cached: bool, piece: u64, workers: usize) -> Result<Self> {
        let is_direct = !cached && piece >= LEAST_DIRECT && self.referred.is_none();
        let direct = is_direct.then(|| IoThreads::start((workers * IN_FLIGHT).min(MOST_IN_FLIGHT))).transpose()?;
        Ok(Self { direct, ..self })
    }

    /// Where pieces bypass the page cache: what writes them beside the workers.
    pub(super) fn direct(&self) -> Option<&IoThreads> {
        self.direct.as_ref()
    }

    /// Whether pieces bypass the page cache: they are on the disk when they are written.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The source that partitions refer to.
    pub fn referred(&self) -> Option<&Referred> {
        self.referred.as_ref()
    }

    /// Reopens the partitions of an earlier run: bytes beyond `extents` are cut off, files without an extent are removed.
    ///
    /// # Errors
    /// [`Error::State`]: a file is missing or shorter than it was: another program changed it; [`Error::Io`]: the system
    /// refuses it.
    pub fn resume(self, extents: &[(u32, Extent)], marks: &[(u32, Mark)]) -> Result<Self> {
        let spill = self;
        for (partition, mark) in marks {
            let Some(slot) = spill.partitions.get(*partition as usize) else { return Err(no_partition(*partition)) };
            let (all, noted) = &mut *slot.marks.lock();
            all.push(*mark);
            *noted = all.len();
        }
        for entry in spill.dir.read_dir().map_err(Error::io("list", &spill.dir))? {
            let path = entry.map_err(Error::io("list", &spill.dir))?.path();
            let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_partition);
            if is_ours && extents.iter().all(|(partition, _)| spill.path(*partition) != path) {
                private::remove(&path)?;
            }
        }
        for &(partition, extent) in extents {
            let path = spill.path(partition);
            let Some(slot) = spill.partitions.get(partition as usize) else { return Err(no_partition(partition)) };
            let lacks = |what: String| Error::work_lacks(&path, what);
            let file = match private::open_file(&path, false) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Err(lacks("this file".into()));
                }
                opened => opened?,
            };
            let len = file.metadata().map_err(Error::io("look at", &path))?.len();
            if len < extent.bytes {
                return Err(lacks(format!("a part of this file: it had {} bytes and has {len}", extent.bytes)));
            }
            // The run before may have had more memory, and pieces of any length: zeros fill up the last block.
            let whole = if spill.is_direct() { direct::whole_blocks(extent.bytes) } else { extent.bytes };
            file.set_len(extent.bytes).and_then(|()| file.set_len(whole)).map_err(Error::io("cut", &path))?;
            slot.bytes.store(whole, Ordering::Relaxed);
            slot.synced.store(extent.bytes, Ordering::Relaxed);
            slot.largest.store(extent.largest, Ordering::Relaxed);
            *slot.content() = extent.content();
            direct::set(&file, spill.is_direct());
            let _ = slot.file.set(Arc::new(file));
        }
        Ok(spill)
    }

    /// Waits until all that `extents` name is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn sync(&self, extents: &[(u32, Extent)]) -> Result<()> {
        let mut new_files = false;
        for &(partition, extent) in extents {
            let Some(slot) = self.partitions.get(partition as usize) else { return Err(no_partition(partition)) };
            let synced = slot.synced.load(Ordering::Relaxed);
            if synced >= extent.bytes {
                continue;
            }
            new_files |= synced == 0;
            if let Some(file) = slot.file.get() {
                file.sync_data().map_err(Error::io("sync", self.path(partition)))?;
            }
            slot.synced.fetch_max(extent.bytes, Ordering::Relaxed);
        }
        if new_files {
            File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", &self.dir))?;
        }
        Ok(())
    }

    /// What every partition that has anything holds now.
    pub fn extents(&self) -> Vec<(u32, Extent)> {
        let all = (0..self.partitions()).map(|partition| (partition, self.extent(partition)));
        all.filter(|(_, extent)| extent.bytes > 0).collect()
    }

    /// The marks that were not asked for before.
    pub fn new_marks(&self) -> Vec<(u32, Mark)> {
        let mut new = Vec::new();
        for (partition, slot) in (0..).zip(&self.partitions) {
            let (all, noted) = &mut *slot.marks.lock();
            new.extend(all.iter().skip(*noted).map(|mark| (partition, *mark)));
            *noted = all.len();
        }
        new
    }

    /// Where a partition passes from one source to another.
    pub fn marks(&self, partition: u32) -> Vec<Mark> {
        self.partitions.get(partition as usize).map(|slot| slot.marks.lock().0.clone()).unwrap_or_default()
    }

    fn path(&self, partition: u32) -> PathBuf {
        self.dir.join(format!("{partition:05}.{}", if self.referred.is_some() { "refs" } else { "part" }))
    }

    /// The directory of the partitions.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What all partitions hold together.
    pub fn content(&self) -> Content {
        self.partitions.iter().fold(Content::default(), |mut all, slot| {
            all.merge(*slot.content());
            all
        })
    }

    /// The error for a partition whose records are not those that went in.
    pub fn damaged(&self, partition: u32, found: Content) -> Error {
        let written = self.extent(partition).content();
        Error::damaged_work(
            self.path(partition),
            format!(
                "is damaged: partition {partition} has {} records, which are not the {} that were verified",
                found.records, written.records
            ),
        )
    }

    /// Appends `piece`, which holds whole sections with the records of `content`, of the sources that `from` says.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn append(&self, partition: u32, piece: &[u8], content: Content, from: &[Mark]) -> Result<()> {
        self.place(partition, piece.len() as u64, content, from)?.write(piece)
    }

    /// Where a piece of `len` bytes is to be written, which counts as appended from now on.
    pub(super) fn place(&self, partition: u32, len: u64, content: Content, from: &[Mark]) -> Result<Place> {
        let Some(slot) = self.partitions.get(partition as usize) else { return Err(no_partition(partition)) };
        let path = self.path(partition);
        let file = match slot.file.get() {
            Some(file) => file,
            None => {
                let made = private::open_file(&path, true)?;
                direct::set(&made, self.is_direct());
                // Two workers may open the same file at once; either handle will do.
                slot.file.get_or_init(|| Arc::new(made))
            }
        };
        let len = if self.is_direct() { direct::whole_blocks(len) } else { len };
        let at = {
            let (marks, _) = &mut *slot.marks.lock();
            let at = slot.bytes.fetch_add(len, Ordering::Relaxed);
            if from.first().is_none_or(|first| first.at > 0) {
                mark(marks, at, 0);
            }
            from.iter().for_each(|next| mark(marks, at + next.at, next.source));
            at
        };
        slot.content().merge(content);
        Ok(Place { file: Arc::clone(file), path, at, is_direct: self.is_direct() })
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// How much a partition holds.
    pub fn extent(&self, partition: u32) -> Extent {
        self.partitions.get(partition as usize).map_or_else(Extent::default, |slot| {
            let Content { records, digest } = *slot.content();
            let largest = slot.largest.load(Ordering::Relaxed);
            Extent { bytes: slot.bytes.load(Ordering::Relaxed), blocks: records, digest, largest }
        })
    }

    /// Notes the length of a section of [`LARGE`] bytes or more, which is in this partition or stays in memory.
    pub fn note_large(&self, partition: u32, len: u64) {
        if let Some(slot) = self.partitions.get(partition as usize) {
            slot.largest.fetch_max(len, Ordering::Relaxed);
        }
    }

    /// Returns the length of the longest large section of each partition.
    pub fn largest(&self) -> Vec<u64> {
        self.partitions.iter().map(|slot| slot.largest.load(Ordering::Relaxed)).collect()
    }

    /// Reads bytes of a partition, which must be within its [`Spill::extent`].
    pub fn read(&self, partition: u32, at: u64, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let slot = self.partitions.get(partition as usize).ok_or_else(|| no_partition(partition))?;
        let Some(file) = slot.file.get() else { return Err(self.damaged(partition, Content::default())) };
        if self.is_direct() {
            // Bytes of any place and length.
            direct::set(file, false);
        }
        file.read_exact_at(into, at).map_err(Error::io("read", self.path(partition)))
    }

    /// The sections of a partition, and of which sources they are; `None` where these, and an entry of `entry` bytes for each, exceed `memory` bytes, or
    /// what an entry can point to. `spare` is memory that was used before, which is cheaper than new.
    ///
    /// # Errors
    /// [`Error::State`]: a reference is not one that was written; [`Error::Io`]: the system refuses it.
    pub fn load(
        &self,
        partition: u32,
        entry: usize,
        memory: u64,
        spare: Option<Buffer>,
    ) -> Result<Option<(ChunkBytes, Vec<Mark>)>> {
        let extent = self.extent(partition);
        let rest = memory.saturating_sub(extent.blocks.saturating_mul(entry as u64)).min(u64::from(u32::MAX));
        if extent.bytes > rest {
            return Ok(None);
        }
        let Some(referred) = &self.referred else {
            return Ok(Some((self.read_all(partition, spare)?, self.marks(partition))));
        };
        let mut references = self.references(referred, partition, 0, extent.blocks)?;
        let len = references.iter().fold(0u64, |sum, reference| sum.saturating_add(reference.len.into()));
        if len > rest - extent.bytes {
            return Ok(None);
        }
        // In the order of the sources, which is the way that the system reads ahead.
        references.sort_unstable_by_key(|reference| (reference.source, reference.at));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut buffer = room(len, spare)?;
        let (mut filled, mut marks, mut open) = (0, Vec::new(), None);
        for reference in references {
            let end = filled + reference.len as usize;
            referred.read(reference, &mut buffer[filled..end], &mut open)?;
            mark(&mut marks, filled as u64, reference.source);
            filled = end;
        }
        Ok(Some((ChunkBytes::Read { buffer, len }, marks)))
    }

    /// `count` references of a partition from number `first`, each to bytes that the source has.
    fn references(&self, referred: &Referred, partition: u32, first: u64, count: u64) -> Result<Vec<Reference>> {
        let extent = self.extent(partition);
        let damaged = || self.damaged(partition, Content::default());
        if extent.blocks.checked_mul(size_of::<Reference>() as u64) != Some(extent.bytes) {
            return Err(damaged());
        }
        let mut references = vec![Reference::new_zeroed(); usize::try_from(count).unwrap_or(usize::MAX)];
        self.read(partition, first * size_of::<Reference>() as u64, references.as_mut_bytes())?;
        let exists = |Reference { at, len, source }: &Reference| {
            let source = referred.sources.get(*source as usize);
            source.is_some_and(|source| at.checked_add(u64::from(*len)).is_some_and(|end| end <= source.bytes))
        };
        if references.iter().all(exists) { Ok(references) } else { Err(damaged()) }
    }

    /// A partition that refers to its source, with its sections, of `max_section` bytes at the most, in a file of its own;
    /// `None` where they are in one.
    ///
    /// # Errors
    /// [`Error::State`]: the references are not those that were written; [`Error::Io`]: the disk is full, or the system
    /// refuses it.
    pub fn with_sections(&self, partition: u32, max_section: u64) -> Result<Option<Self>> {
        let Some(referred) = &self.referred else { return Ok(None) };
        let extent = self.extent(partition);
        let whole = Self::new(self.dir.clone(), self.partitions());
        let mut pieces = PartitionBuffers::new(self.partitions(), READ);
        let (mut section, mut open) = (Vec::new(), None);
        for first in (0..extent.blocks).step_by(READ / size_of::<Reference>()) {
            let count = (extent.blocks - first).min((READ / size_of::<Reference>()) as u64);
            for reference in self.references(referred, partition, first, count)? {
                if u64::from(reference.len) > max_section {
                    return Err(self.damaged(partition, Content::default()));
                }
                self.check_room(reference.len.into())?;
                section.resize(reference.len as usize, 0);
                referred.read(reference, &mut section, &mut open)?;
                pieces.are_of(reference.source);
                pieces.add(&whole, partition, &section, ContentDigest::default())?;
            }
        }
        pieces.flush(&whole)?;
        *whole.partitions.get(partition as usize).ok_or_else(|| no_partition(partition))?.content() = extent.content();
        Ok(Some(whole))
    }

    /// A whole partition: mapped where the page cache may have it, or else read into `spare` if that is large enough.
    pub fn read_all(&self, partition: u32, spare: Option<Buffer>) -> Result<ChunkBytes> {
        let len = usize::try_from(self.extent(partition).bytes).unwrap_or(usize::MAX);
        let file = self.partitions.get(partition as usize).and_then(|slot| slot.file.get());
        if let Some(file) = file.filter(|_| self.is_direct()) {
            let mut buffer = room(len.saturating_add(direct::BLOCK), spare)?;
            direct::read_exact(file, &mut buffer, len).map_err(Error::io("read", self.path(partition)))?;
            return Ok(ChunkBytes::Read { buffer, len });
        }
        if let Some(map) = file.and_then(|file| Mapped::new(file, len, &self.path(partition))) {
            map.advise(memmap2::Advice::PopulateRead);
            return Ok(ChunkBytes::Mapped { map: Arc::new(map), at: 0, len });
        }
        let mut buffer = room(len, spare)?;
        self.read(partition, 0, &mut buffer[..len])?;
        Ok(ChunkBytes::Read { buffer, len })
    }

    /// Hands the records of a partition whose records have one size to `take` in order, equal ones included. They sort
    /// as `numbers` makes them of their bytes, within `memory` bytes; the first `key_len` bytes of a record are its key.
    ///
    /// # Errors
    /// [`Error::State`]: what is read is not what was written; [`Error::Io`]: the system refuses it; and what `take`
    /// returns.
    pub fn sorted<T: Fixed>(
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
        let mut piece = vec![T::new_zeroed(); READ / size_of::<T>()];
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
            return Err(self.damaged(partition, content));
        }
        let sorted = sorter.sorted().map_err(failed())?;
        sorted.iter().map_err(failed())?.try_for_each(|record| take(record.map_err(failed())?))
    }

    /// Deletes a partition's file, whose blocks are durable elsewhere.
    pub fn delete(&self, partition: u32) -> Result<()> {
        let Some(slot) = self.partitions.get(partition as usize) else { return Err(no_partition(partition)) };
        if slot.file.get().is_some() {
            // The handle stays open until the spill is dropped; the space is freed now.
            let _ = slot.file.get().map(|file| file.set_len(0));
            std::fs::remove_file(self.path(partition)).map_err(Error::io("delete", self.path(partition)))?;
        }
        Ok(())
    }
}

/// The error for a partition number that no router gives out.
pub(crate) fn no_partition(partition: u32) -> Error {
    Error::broken_invariant(format_args!("partition {partition} does not exist"))
}

/// A buffer of `len` bytes at least: `spare`, if that is large enough.
fn room(len: usize, spare: Option<Buffer>) -> Result<Buffer> {
    match spare {
        Some(spare) if spare.len() >= len => Ok(spare),
        // Partitions differ by a few percent; pages beyond the longest are never touched.
        _ => Buffer::new(len.saturating_add(len / 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_partition_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let extent = Extent { bytes: 1, ..Extent::default() };
        let new = || Spill::new(dir.path().to_owned(), 1);
        let errors = [
            new().append(1, b"section", Content::default(), &[]).err(),
            new().read(1, 0, &mut [0]).err(),
            new().sync(&[(1, extent)]).err(),
            new().delete(1).err(),
            new().resume(&[(1, extent)], &[]).err(),
            new().resume(&[], &[(1, Mark { at: 0, source: 1 })]).err(),
        ];
        for error in errors {
            let error = error.expect("there is one partition");
            assert!(error.to_string().contains("partition 1 does not exist"), "{error}");
        }
        // A partition that has bytes and no file cannot be read as zeros.
        let error = new().read(0, 0, &mut [0]).expect_err("it has no file");
        assert!(error.to_string().contains("is damaged: partition 0"), "{error}");
    }

    #[test]
    fn a_deleted_partition_takes_no_space() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 2);
        spill.append(0, b"something", Content::default(), &[]).expect("room");
        for partition in 0..2 {
            spill.delete(partition).expect("it is ours");
        }
        assert_eq!(dir.path().read_dir().expect("a folder").count(), 0);
    }

    #[test]
    fn a_partition_that_cannot_be_deleted_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 1);
        spill.append(0, b"something", Content::default(), &[]).expect("room");
        let path = dir.path().join("00000.part");
        std::fs::remove_file(&path).expect("it is there");
        let error = spill.delete(0).expect_err("it is gone");
        assert_eq!(error.to_string(), format!("delete {}", path.display()));
    }

    /// A spill whose pieces bypass the page cache, unless they are `cached`.
    fn spill(dir: &Path, cached: bool) -> Spill {
        Spill::new(dir.to_owned(), 1).cached(cached, LEAST_DIRECT, 1).expect("threads")
    }

    #[test]
    fn pieces_that_pass_the_page_cache_by_come_back_as_the_others_do() {
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
    fn a_run_that_passes_the_page_cache_by_goes_on_after_one_that_did_not_and_the_other_way_round() {
        crate::handle_sigbus();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut extents = Vec::new();
        let mut expected = Vec::new();
        for (byte, cached) in [(1u8, true), (2, false), (3, true)] {
            let one = spill(dir.path(), cached).resume(&extents, &[]).expect("as it was");
            one.append(0, &[byte; 5000], Content::default(), &[]).expect("room");
            one.sync(&one.extents()).expect("a disk");
            // What came behind it was not synced.
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
        // Nothing comes behind what the last of them had read; and what is noted of it holds for the next one as well.
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

    #[test]
    fn a_piece_that_others_cannot_write_is_an_error_that_names_its_partition() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let one = spill(dir.path(), false);
        let path = dir.path().join("00000.part");
        std::fs::write(&path, b"").expect("made");
        let _ = one.partitions[0].file.set(Arc::new(File::open(&path).expect("it is there")));
        let mut pieces = PartitionBuffers::new(1, 1000);
        pieces.add(&one, 0, b"something", ContentDigest::default()).expect("memory");
        let error = pieces.flush(&one).expect_err("it is open for reading only");
        assert_eq!(error.to_string(), format!("write {}", path.display()));
    }

    #[test]
    fn a_partition_that_cannot_be_written_is_an_error_that_names_it() {
        let spill = Spill::new("/nonexistent/place".into(), 1);
        let error = spill.append(0, b"something", Content::default(), &[]).expect_err("there is no such folder");
        assert_eq!(error.to_string(), "open /nonexistent/place/00000.part");
    }
}
