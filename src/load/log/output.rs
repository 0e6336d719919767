//! Where records of a range go, and what is noted about it when they are there.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::super::journal::{BuiltFile, Tally};
use super::super::memtable::Gatherer;
use crate::chain::Header;
use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::report::{BlockRef, FamilyReport, Packings};
use crate::rocks::{Batch, Level, SstOptions, SstWriter, Writer};
use crate::sort::spill::Extent;
use crate::source::block_log::Range;

/// Bytes of records that are written again at once.
const AGAIN: u64 = 1 << 20;

/// Consecutive blocks that are in finished files, or were written and flushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct RangeDone {
    /// The file of the log, counted from 0, and the bytes in it.
    pub part: usize,
    pub start: u64,
    pub end: u64,
    /// The block before the first one, as that names it.
    pub before: String,
    pub first: EndBlock,
    pub last: EndBlock,
    pub blocks: FamilyDone,
    pub ids: FamilyDone,
    /// Bytes of the blocks, unpacked.
    pub payload: u64,
    pub packings: PackingCounts,
    pub checkpoints: u64,
    pub transactions: u64,
    /// Content digest of their records, where they are indexed.
    #[serde(default)]
    pub transaction_digest: ContentDigest,
    pub unknown_operations: u64,
    /// How long the partitions of transactions were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u32, Extent)>,
}

/// The first or the last block of a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct EndBlock {
    pub number: u32,
    pub id: String,
    pub timestamp_ms: i64,
}

impl From<&Header> for EndBlock {
    fn from(header: &Header) -> Self {
        Self { number: header.number, id: header.id.to_string(), timestamp_ms: header.timestamp_ms }
    }
}

impl From<&EndBlock> for BlockRef {
    fn from(block: &EndBlock) -> Self {
        let EndBlock { number, id, timestamp_ms } = block.clone();
        Self { number, id, timestamp_ms }
    }
}

/// How the blocks of a range are stored in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct PackingCounts {
    raw: u64,
    zstd: u64,
    zstd_dictionary: u64,
    stored_bytes: u64,
}

impl From<Packings> for PackingCounts {
    fn from(Packings { raw, zstd, zstd_dictionary, stored_bytes }: Packings) -> Self {
        Self { raw, zstd, zstd_dictionary, stored_bytes }
    }
}

impl From<PackingCounts> for Packings {
    fn from(PackingCounts { raw, zstd, zstd_dictionary, stored_bytes }: PackingCounts) -> Self {
        Self { raw, zstd, zstd_dictionary, stored_bytes }
    }
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

    /// The records of its transactions.
    pub fn transaction_content(&self) -> Content {
        Content { records: self.transactions, digest: self.transaction_digest }
    }

    /// All files, of whatever family.
    pub fn files(&self) -> impl Iterator<Item = &BuiltFile> {
        self.blocks.files.iter().chain(&self.ids.files)
    }

    /// Takes the range behind this one in, if that follows without a gap; otherwise gives it back.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        let follows = self.part == next.part && self.end == next.start && self.last.id == next.before;
        if !follows {
            return Some(next);
        }
        self.end = next.end;
        self.last = next.last;
        self.blocks.add(&next.blocks);
        self.ids.add(&next.ids);
        self.payload += next.payload;
        let mut packings = Packings::from(self.packings);
        packings.add(next.packings.into());
        self.packings = packings.into();
        self.checkpoints += next.checkpoints;
        self.transactions += next.transactions;
        self.transaction_digest.merge(next.transaction_digest);
        self.unknown_operations += next.unknown_operations;
        self.extents = next.extents;
        None
    }
}

impl FamilyDone {
    /// What the report says about family `name`, which has `levels`.
    pub fn report(&self, name: &str, levels: Vec<Level>) -> FamilyReport {
        let Tally { records, duplicates, digest, duplicate_digest } = self.tally;
        FamilyReport { name: name.to_owned(), records, duplicates, digest, duplicate_digest, levels }
    }

    pub fn add(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
        self.tally.add(other.tally);
    }
}

/// One family's part of a range in the making, records in ascending order.
pub(super) struct Output<'a> {
    to: To<'a>,
    done: FamilyDone,
}

/// Where records go.
enum To<'a> {
    /// The family is not made.
    Nowhere,
    /// They are there already, and are counted.
    There,
    Files(Files<'a>),
    Batches(Tray<'a>),
    Again(Again<'a>),
}

/// Files in `dir` with numbers of `numbers`, each closed at `limit` bytes of records.
pub(super) struct Files<'a> {
    pub sst: &'a SstOptions,
    pub dir: &'a Path,
    pub numbers: &'a AtomicU32,
    pub limit: u64,
    pub writer: Option<SstWriter<'a>>,
    pub written: u64,
}

/// One family's way into the batches that a thread gathers.
#[derive(Clone)]
pub(super) struct Tray<'a> {
    pub writer: Rc<Writer<'a>>,
    pub gatherer: Rc<RefCell<Gatherer>>,
}

/// Records that were written in any order: the first one of each key is written again where there are several, so that it
/// is the last one written.
struct Again<'a> {
    writer: Writer<'a>,
    batch: Batch,
}

impl Tray<'_> {
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.gatherer.borrow_mut().put(&self.writer, key, value);
    }
}

impl<'a> Output<'a> {
    /// Records go to files; nowhere without any, and nothing is counted then.
    pub fn to_files(files: Option<Files<'a>>) -> Self {
        Self { to: files.map_or(To::Nowhere, To::Files), done: FamilyDone::default() }
    }

    /// Records go into batches; nowhere without any, and nothing is counted then.
    pub fn to_batches(tray: Option<Tray<'a>>) -> Self {
        Self { to: tray.map_or(To::Nowhere, To::Batches), done: FamilyDone::default() }
    }

    /// Records were written in any order, and those that count are written again where that could matter.
    pub fn again(writer: Writer<'a>) -> Self {
        Self { to: To::Again(Again { writer, batch: Batch::default() }), done: FamilyDone::default() }
    }

    /// From now on records are counted and go nowhere.
    pub fn only_count(&mut self) {
        if !matches!(self.to, To::Nowhere) {
            self.to = To::There;
        }
    }

    /// Appends a record whose value lies right behind its key.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        if matches!(self.to, To::Nowhere) {
            return Ok(());
        }
        self.done.tally.digest.add_section(record, key_len);
        self.done.tally.records += 1;
        match &mut self.to {
            To::Nowhere | To::There | To::Again(_) => Ok(()),
            To::Files(files) => files.put(record, key_len, &mut self.done.files),
            To::Batches(tray) => {
                let (key, value) = record.split_at(key_len);
                tray.put(key, value);
                Ok(())
            }
        }
    }

    /// Counts `record`, whose key is there already, in `kept`, which stays.
    pub fn repeated(&mut self, record: &[u8], kept: &[u8], key_len: usize) -> Result<()> {
        self.done.tally.duplicates += 1;
        self.done.tally.duplicate_digest.add_section(record, key_len);
        match &mut self.to {
            To::Again(again) => again.put(kept, key_len),
            _ => Ok(()),
        }
    }

    /// What has become of the records so far; `None` where none are wanted.
    pub fn tally(&self) -> Option<Tally> {
        (!matches!(self.to, To::Nowhere)).then_some(self.done.tally)
    }

    /// Completes and syncs what is open; batches are handed over by who gathers them.
    pub fn finish(mut self) -> Result<FamilyDone> {
        match &mut self.to {
            To::Files(files) => files.close(&mut self.done.files)?,
            To::Again(again) => again.write()?,
            To::Nowhere | To::There | To::Batches(_) => {}
        }
        Ok(self.done)
    }
}

impl Files<'_> {
    fn put(&mut self, record: &[u8], key_len: usize, done: &mut Vec<BuiltFile>) -> Result<()> {
        if self.written > 0 && self.written + record.len() as u64 > self.limit {
            self.close(done)?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed);
                let path = self.dir.join(format!("{number:06}.sst"));
                self.writer.insert(SstWriter::create(self.sst, path)?)
            }
        };
        let (key, value) = record.split_at(key_len);
        writer.put(key, value)?;
        self.written += record.len() as u64;
        Ok(())
    }

    fn close(&mut self, done: &mut Vec<BuiltFile>) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let path = writer.finish()?;
            let bytes = path.metadata().map_err(Error::io("look at", &path))?.len();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            done.push(BuiltFile { name, bytes });
        }
        self.written = 0;
        Ok(())
    }
}

impl Again<'_> {
    fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        let (key, value) = record.split_at(key_len);
        self.writer.put(&mut self.batch, key, value);
        if self.batch.bytes() >= AGAIN { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.records() > 0 {
            self.writer.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }
}
