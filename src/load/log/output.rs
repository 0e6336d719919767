//! The SST files of a range, and what is noted about it when they are done.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::super::journal::{BuiltFile, Tally};
use crate::error::{Error, Result};
use crate::report::{BlockRef, Packings};
use crate::rocks::{SstOptions, SstWriter};
use crate::sort::spill::Extent;
use crate::source::block_log::Range;

/// Consecutive blocks that are in finished files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct RangeDone {
    /// The file of the log, counted from 0, and the bytes in it.
    pub part: usize,
    pub start: u64,
    pub end: u64,
    /// The block before the first one, as that names it.
    pub before: String,
    pub first: BlockRef,
    pub last: BlockRef,
    pub blocks: FamilyDone,
    pub ids: FamilyDone,
    /// Bytes of the blocks, unpacked.
    pub payload: u64,
    pub packings: Packings,
    pub checkpoints: u64,
    pub transactions: u64,
    pub unknown_operations: u64,
    /// How long the partitions of transactions were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u32, Extent)>,
}

/// What went into one family.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct FamilyDone {
    pub files: Vec<BuiltFile>,
    pub tally: Tally,
}

impl RangeDone {
    /// Where its blocks are in the log.
    pub fn range(&self) -> Range {
        let Self { part, start, end, first, last, before, .. } = self;
        Range {
            part: *part,
            start: *start,
            end: *end,
            first: first.number,
            last: last.number,
            before: before.parse().ok(),
            head: last.id.parse().ok(),
        }
    }

    /// All files, of whatever family.
    pub fn files(&self) -> impl Iterator<Item = &BuiltFile> {
        self.blocks.files.iter().chain(&self.ids.files)
    }
}

impl FamilyDone {
    pub fn add(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
        self.tally.add(other.tally);
    }
}

/// The files of one family in the making, records in ascending order.
pub(super) struct Output<'a> {
    sst: Option<&'a SstOptions>,
    dir: &'a std::path::Path,
    numbers: &'a AtomicU32,
    limit: u64,
    writer: Option<SstWriter<'a>>,
    written: u64,
    counts_only: bool,
    done: FamilyDone,
}

impl<'a> Output<'a> {
    /// Files in `dir` with numbers of `numbers`, each closed at `limit` bytes of records; none at all without `sst`.
    pub fn new(sst: Option<&'a SstOptions>, dir: &'a std::path::Path, numbers: &'a AtomicU32, limit: u64) -> Self {
        Self { sst, dir, numbers, limit, writer: None, written: 0, counts_only: false, done: FamilyDone::default() }
    }

    /// From now on records are counted and go nowhere.
    pub fn only_count(&mut self) {
        self.counts_only = true;
    }

    /// Appends a record whose value lies right behind its key.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        let Some(sst) = self.sst else { return Ok(()) };
        self.done.tally.digest.add_section(record, key_len);
        self.done.tally.records += 1;
        if self.counts_only {
            return Ok(());
        }
        if self.written > 0 && self.written + record.len() as u64 > self.limit {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed);
                let path = self.dir.join(format!("{number:06}.sst"));
                self.writer.insert(SstWriter::create(sst, path)?)
            }
        };
        let (key, value) = record.split_at(key_len);
        writer.put(key, value)?;
        self.written += record.len() as u64;
        Ok(())
    }

    /// Counts a record that is there already.
    pub fn repeated(&mut self) {
        self.done.tally.duplicates += 1;
    }

    fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let path = writer.finish()?;
            let bytes = path.metadata().map_err(Error::io("look at", &path))?.len();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.done.files.push(BuiltFile { name, bytes });
        }
        self.written = 0;
        Ok(())
    }

    /// Completes and syncs what is open.
    pub fn finish(mut self) -> Result<FamilyDone> {
        self.close()?;
        Ok(self.done)
    }
}
