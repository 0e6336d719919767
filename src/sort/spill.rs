//! Partition files of the sections that exceed the memory budget.
//!
//! A partition file holds sections exactly as the CAR has them (length, CID, block), in no order, so the same code
//! reads them. Every worker collects pieces and appends them whole; the workers share only the length of the file.
//!
//! If memory is scarce, pieces bypass the page cache ([`direct`]). Such a piece begins at a multiple of
//! [`direct::BLOCK`], and zeros fill its last block: a section of length zero, which a CAR has only at its end.
//!
//! If the page cache can hold plain sources beside the budget, a partition file holds a
//! [`Reference`](crate::sort::references::Reference) for each section instead.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StateKind};
use crate::hash::{Content, ContentDigest};
use crate::os::{direct, private};
use crate::parallel::IoThreads;
use crate::sort::ReferencedSources;
use crate::text::size::human;

/// Smallest section, in bytes, whose memory is planned for separately. It exceeds a chunk, so such a section has a
/// chunk of its own, and no other section costs a comparison.
pub(crate) const LARGE: u64 = 1 << 20;

/// Longest length prefix of a section, in bytes.
const MAX_LENGTH: u64 = 10;

/// Smallest piece that bypasses the page cache, in bytes. The system gathers smaller writes better.
pub(super) const LEAST_DIRECT: u64 = 128 << 10;

/// Concurrent writes of each worker, and the most threads for them: a disk is fast with many requests.
pub(crate) const IN_FLIGHT: usize = 4;
const MOST_IN_FLIGHT: usize = 16;

#[derive(Default)]
struct Partition {
    file: OnceLock<Arc<File>>,
    state: Mutex<PartitionState>,
}

#[derive(Default)]
struct PartitionState {
    extent: PartitionExtent,
    /// Bytes that are synced.
    synced: u64,
    marks: Vec<SourceMark>,
    /// Number of marks in the journal.
    noted: usize,
}

/// The reserved range of a partition file for one piece.
pub(super) struct PieceSlot {
    file: Arc<File>,
    path: PathBuf,
    at: u64,
    is_direct: bool,
}

impl PieceSlot {
    pub fn write(&self, piece: &[u8]) -> Result<()> {
        let Self { file, path, at, is_direct } = self;
        let written = if *is_direct { direct::write_all_at(file, piece, *at) } else { file.write_all_at(piece, *at) };
        written.map_err(Error::io("write", path))
    }
}

pub(crate) struct Spill {
    pub dir: PathBuf,
    partitions: Vec<Partition>,
    /// The sources that partition files refer to.
    pub referenced: Option<ReferencedSources>,
    /// The threads that write pieces past the page cache.
    pub(super) direct: Option<IoThreads>,
    /// The memory of this run in bytes, and its share, as its reciprocal, that is the limit of a section.
    pub budget: Option<(u64, u64)>,
}

/// The size and contents of one partition file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionExtent {
    pub bytes: u64,
    pub blocks: u64,
    /// Content digest of the records, summed before they were written and compared when they are read.
    pub digest: ContentDigest,
    /// Length of the longest section of at least [`LARGE`] bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub largest: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PartitionExtent {
    pub fn content(&self) -> Content {
        Content { records: self.blocks, digest: self.digest }
    }
}

/// True if the name is that of a partition file or of a sorted run.
pub(crate) fn is_partition(name: &str) -> bool {
    let parts = name.split_once('.').map(|(stem, kind)| (stem, kind.strip_prefix("run").unwrap_or(kind)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.is_some_and(|(stem, kind)| is_number(stem) && (kind == "part" || kind == "refs" || is_number(kind)))
}

impl Spill {
    /// Prepares `partitions` files in `dir`. The first piece of a partition creates its file.
    pub fn new(dir: PathBuf, partitions: u32) -> Self {
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        Self { dir, partitions, referenced: None, direct: None, budget: None }
    }

    /// Checks that a section fits this run's memory. An earlier run may have had more.
    pub fn check_room(&self, section: u64) -> Result<()> {
        let limit = |(memory, share): &(u64, u64)| (memory / share).saturating_add(MAX_LENGTH);
        let Some((memory, share)) = self.budget.filter(|budget| section > limit(budget)) else { return Ok(()) };
        let (block, memory) = (human(section), human(memory));
        let needed = human(section.saturating_mul(share).next_multiple_of(64 << 20)).replace(' ', "");
        let reason = format!("the unfinished import has a block of {block}, too large for a memory budget of {memory}");
        let hint = format!("run it again with --memory {needed} or more, or start over with --restart");
        Err(Error::state(&self.dir, StateKind::Unfinished, reason, hint))
    }

    /// Writes pieces of `piece` bytes of `workers` with O_DIRECT, unless `cached`.
    pub fn with_page_cache(self, cached: bool, piece: u64, workers: usize) -> Result<Self> {
        let is_direct = !cached && piece >= LEAST_DIRECT && self.referenced.is_none();
        let direct = is_direct.then(|| IoThreads::start((workers * IN_FLIGHT).min(MOST_IN_FLIGHT))).transpose()?;
        Ok(Self { direct, ..self })
    }

    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Reopens the partition files of an earlier run, cuts off the bytes beyond `extents` and removes files without an
    /// extent.
    pub fn resume(self, extents: &[(u32, PartitionExtent)], marks: &[(u32, SourceMark)]) -> Result<Self> {
        for (partition, mark) in marks {
            let mut state = self.slot(*partition)?.state.lock();
            state.marks.push(*mark);
            state.noted += 1;
        }
        for entry in self.dir.read_dir().map_err(Error::io("list", &self.dir))? {
            let path = entry.map_err(Error::io("list", &self.dir))?.path();
            let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_partition);
            if is_ours && extents.iter().all(|(partition, _)| self.path(*partition) != path) {
                private::remove(&path)?;
            }
        }
        for &(partition, extent) in extents {
            let path = self.path(partition);
            let slot = self.slot(partition)?;
            let incomplete = |what: String| Error::incomplete_work(&path, what);
            let file = match private::open_file(&path, false) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Err(incomplete("this file".into()));
                }
                opened => opened?,
            };
            let len = file.metadata().map_err(Error::io("read metadata of", &path))?.len();
            if len < extent.bytes {
                return Err(incomplete(format!("a part of this file: it had {} bytes and has {len}", extent.bytes)));
            }
            // An earlier run may have had more memory and pieces of any length: zeros fill the last block.
            let whole = if self.is_direct() { direct::whole_blocks(extent.bytes) } else { extent.bytes };
            file.set_len(extent.bytes).and_then(|()| file.set_len(whole)).map_err(Error::io("truncate", &path))?;
            let mut state = slot.state.lock();
            (state.extent, state.synced) = (PartitionExtent { bytes: whole, ..extent }, extent.bytes);
            direct::set(&file, self.is_direct());
            let _ = slot.file.set(Arc::new(file));
        }
        Ok(self)
    }

    /// Syncs the partition files up to `extents`.
    pub fn sync(&self, extents: &[(u32, PartitionExtent)]) -> Result<()> {
        let mut new_files = false;
        for &(partition, extent) in extents {
            let slot = self.slot(partition)?;
            let synced = slot.state.lock().synced;
            if synced >= extent.bytes {
                continue;
            }
            new_files |= synced == 0;
            if let Some(file) = slot.file.get() {
                file.sync_data().map_err(Error::io("sync", self.path(partition)))?;
            }
            let synced = &mut slot.state.lock().synced;
            *synced = extent.bytes.max(*synced);
        }
        if new_files {
            File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", &self.dir))?;
        }
        Ok(())
    }

    /// The extents of the partitions that are not empty.
    pub fn extents(&self) -> Vec<(u32, PartitionExtent)> {
        let all = (0..self.partitions()).map(|partition| (partition, self.extent(partition)));
        all.filter(|(_, extent)| extent.bytes > 0).collect()
    }

    /// Returns the marks added since the last call.
    pub fn take_new_marks(&self) -> Vec<(u32, SourceMark)> {
        let mut new = Vec::new();
        for (partition, slot) in (0..).zip(&self.partitions) {
            let mut state = slot.state.lock();
            new.extend(state.marks.iter().skip(state.noted).map(|mark| (partition, *mark)));
            state.noted = state.marks.len();
        }
        new
    }

    pub fn marks(&self, partition: u32) -> Vec<SourceMark> {
        self.partitions.get(partition as usize).map(|slot| slot.state.lock().marks.clone()).unwrap_or_default()
    }

    fn slot(&self, partition: u32) -> Result<&Partition> {
        self.partitions.get(partition as usize).ok_or_else(|| no_partition(partition))
    }

    pub(super) fn file(&self, partition: u32) -> Option<&File> {
        self.partitions.get(partition as usize)?.file.get().map(Arc::as_ref)
    }

    #[cfg(test)]
    pub(super) fn set_file(&self, partition: u32, file: File) {
        let _ = self.partitions[partition as usize].file.set(Arc::new(file));
    }

    pub(super) fn set_content(&self, partition: u32, content: Content) -> Result<()> {
        let mut state = self.slot(partition)?.state.lock();
        (state.extent.blocks, state.extent.digest) = (content.records, content.digest);
        Ok(())
    }

    pub(super) fn path(&self, partition: u32) -> PathBuf {
        self.dir.join(format!("{partition:05}.{}", if self.referenced.is_some() { "refs" } else { "part" }))
    }

    pub fn content(&self) -> Content {
        self.partitions.iter().map(|slot| slot.state.lock().extent.content()).sum()
    }

    /// Returns the error for a partition whose records do not match those that were written.
    pub fn damaged_error(&self, partition: u32, found: Content) -> Error {
        let written = self.extent(partition).content();
        Error::damaged_work(
            self.path(partition),
            format!(
                "is damaged: partition {partition} has {} records, which are not the {} that were verified",
                found.records, written.records
            ),
        )
    }

    /// Appends `piece`: complete sections with the records of `content`, of the sources in `from`.
    pub fn append(&self, partition: u32, piece: &[u8], content: Content, from: &[SourceMark]) -> Result<()> {
        self.reserve(partition, piece.len() as u64, content, from)?.write(piece)
    }

    /// Reserves a range for a piece of `len` bytes, which counts as appended from now on.
    pub(super) fn reserve(&self, partition: u32, len: u64, content: Content, from: &[SourceMark]) -> Result<PieceSlot> {
        let slot = self.slot(partition)?;
        let path = self.path(partition);
        let file = match slot.file.get() {
            Some(file) => file,
            None => {
                let made = private::open_file(&path, true)?;
                direct::set(&made, self.is_direct());
                // Two workers may open the file at once; either handle will do.
                slot.file.get_or_init(|| Arc::new(made))
            }
        };
        let len = if self.is_direct() { direct::whole_blocks(len) } else { len };
        let PartitionState { extent, marks, .. } = &mut *slot.state.lock();
        let at = extent.bytes;
        extent.bytes += len;
        extent.blocks += content.records;
        extent.digest.merge(content.digest);
        if from.first().is_none_or(|first| first.at > 0) {
            add_mark(marks, at, 0);
        }
        from.iter().for_each(|next| add_mark(marks, at + next.at, next.source));
        Ok(PieceSlot { file: Arc::clone(file), path, at, is_direct: self.is_direct() })
    }

    pub fn partitions(&self) -> u32 {
        self.partitions.len() as u32
    }

    pub fn extent(&self, partition: u32) -> PartitionExtent {
        self.partitions.get(partition as usize).map(|slot| slot.state.lock().extent).unwrap_or_default()
    }

    /// Notes the length of a section of at least [`LARGE`] bytes, spilled or in memory.
    pub fn note_large(&self, partition: u32, len: u64) {
        if let Some(slot) = self.partitions.get(partition as usize) {
            let mut state = slot.state.lock();
            state.extent.largest = state.extent.largest.max(len);
        }
    }

    /// Returns the length of the longest large section of each partition.
    pub fn largest(&self) -> Vec<u64> {
        self.partitions.iter().map(|slot| slot.state.lock().extent.largest).collect()
    }

    /// Reads bytes of a partition within its [`Spill::extent`].
    pub fn read(&self, partition: u32, at: u64, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let slot = self.slot(partition)?;
        let Some(file) = slot.file.get() else { return Err(self.damaged_error(partition, Content::default())) };
        if self.is_direct() {
            // O_DIRECT reads only whole blocks.
            direct::set(file, false);
        }
        file.read_exact_at(into, at).map_err(Error::io("read", self.path(partition)))
    }

    /// Deletes a partition file whose blocks are durable elsewhere.
    pub fn delete(&self, partition: u32) -> Result<()> {
        let slot = self.slot(partition)?;
        if slot.file.get().is_some() {
            // The handle stays open until the spill is dropped; the space is freed now.
            let _ = slot.file.get().map(|file| file.set_len(0));
            std::fs::remove_file(self.path(partition)).map_err(Error::io("delete", self.path(partition)))?;
        }
        Ok(())
    }
}

/// Returns the error for a partition number that no router gives out.
pub(crate) fn no_partition(partition: u32) -> Error {
    Error::broken_invariant(format_args!("partition {partition} does not exist"))
}

/// From byte `at` of a partition or buffer on, sections are of `source`. Those before the first mark are of source 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceMark {
    pub at: u64,
    pub source: u32,
}

pub(crate) fn source_at(marks: &[SourceMark], at: u64) -> u32 {
    let after = marks.partition_point(|mark| mark.at <= at);
    after.checked_sub(1).and_then(|last| marks.get(last)).map_or(0, |mark| mark.source)
}

/// Marks sections from `at` on as those of `source`.
pub(crate) fn add_mark(marks: &mut Vec<SourceMark>, at: u64, source: u32) {
    if marks.last().map_or(0, |mark| mark.source) != source {
        marks.push(SourceMark { at, source });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_partition_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let extent = PartitionExtent { bytes: 1, ..PartitionExtent::default() };
        let new = || Spill::new(dir.path().to_owned(), 1);
        let errors = [
            new().append(1, b"section", Content::default(), &[]).err(),
            new().read(1, 0, &mut [0]).err(),
            new().sync(&[(1, extent)]).err(),
            new().delete(1).err(),
            new().resume(&[(1, extent)], &[]).err(),
            new().resume(&[], &[(1, SourceMark { at: 0, source: 1 })]).err(),
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
    fn deleted_partition_takes_no_space() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 2);
        spill.append(0, b"something", Content::default(), &[]).expect("room");
        for partition in 0..2 {
            spill.delete(partition).expect("it is ours");
        }
        assert_eq!(dir.path().read_dir().expect("a folder").count(), 0);
    }

    #[test]
    fn failed_delete_names_the_partition() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 1);
        spill.append(0, b"something", Content::default(), &[]).expect("room");
        let path = dir.path().join("00000.part");
        std::fs::remove_file(&path).expect("it is there");
        let error = spill.delete(0).expect_err("it is gone");
        assert_eq!(error.to_string(), format!("cannot delete {}", path.display()));
    }

    #[test]
    fn failed_write_names_the_partition() {
        let spill = Spill::new("/nonexistent/place".into(), 1);
        let error = spill.append(0, b"something", Content::default(), &[]).expect_err("there is no such folder");
        assert_eq!(error.to_string(), "cannot open /nonexistent/place/00000.part");
    }
}
