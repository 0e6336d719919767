//! Batches: complete sections of a CAR, or blocks of a log, that are compressed together.
//!
//! ```text
//! section: varint length of the rest | CID | block
//! ```

use std::io;

use super::options::ExportFormat;
use crate::error::Result;
use crate::hash::content_digest::Content;
use crate::progress::Progress;
use crate::source::car::{RawCid, header_bytes, read_cid};
use crate::source::forest::{Frame, Index, slot_hash, stored_frame};

/// Size of a full batch, in bytes; each batch is compressed on its own.
const BATCH: usize = 1 << 20;

/// Complete sections and their compressed form.
#[derive(Debug, Default)]
pub(super) struct SectionBatch {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
    /// Index hash of each section's CID, if there is an index.
    pub hashes: Vec<u64>,
    pub packed: Vec<u8>,
    pub frames: Vec<Frame>,
}

impl SectionBatch {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.packed.clear();
        self.frames.clear();
    }

    /// Adds the frame of each block to the index of a file in which the batch begins at `position`.
    pub fn add_to(&self, index: &mut Index, position: u64) -> io::Result<()> {
        let mut hashes = self.hashes.iter();
        let (mut start, mut before) = (0, 0);
        for frame in &self.frames {
            for &hash in hashes.by_ref().take(frame.sections - before) {
                index.add_hash(hash, position + start)?;
            }
            (start, before) = (frame.end as u64, frame.sections);
        }
        Ok(())
    }
}

/// Records and bytes of an export.
#[derive(Debug, Default)]
pub(super) struct ExportSum {
    pub content: Content,
    pub payload: u64,
    /// Bytes before compression.
    pub unpacked: u64,
}

/// Returns the header of a CAR, compressed as `format` requires, and its length before compression.
pub(super) fn prelude(format: ExportFormat, roots: &[RawCid]) -> (Vec<u8>, u64) {
    let header = header_bytes(roots.iter().map(RawCid::as_bytes));
    let car_bytes = header.len() as u64;
    match format {
        ExportFormat::Car | ExportFormat::Log => (header, car_bytes),
        ExportFormat::CarZst | ExportFormat::LogZst => (stored_frame(&header, true), car_bytes),
        ExportFormat::ForestCarZst => (stored_frame(&header, false), car_bytes),
    }
}

pub(super) struct SectionLoader<'a> {
    pub sum: ExportSum,
    batch: SectionBatch,
    send: Box<dyn FnMut(SectionBatch) -> Result<SectionBatch> + 'a>,
    indexed: bool,
    progress: &'a Progress<'a>,
}

impl<'a> SectionLoader<'a> {
    /// `send` takes a full batch and returns an empty one.
    pub fn new(
        format: ExportFormat,
        progress: &'a Progress<'a>,
        send: impl FnMut(SectionBatch) -> Result<SectionBatch> + 'a,
    ) -> Self {
        let (sum, batch) = (ExportSum::default(), SectionBatch::default());
        Self { sum, batch, send: Box::new(send), indexed: format == ExportFormat::ForestCarZst, progress }
    }

    /// Adds the section of a block, whose key begins at `key_start` of the CID.
    pub fn add_section(&mut self, cid: &[u8], key_start: usize, value: &[u8]) -> Result<()> {
        let mut buffer = unsigned_varint::encode::usize_buffer();
        let length = unsigned_varint::encode::usize(cid.len() + value.len(), &mut buffer);
        self.batch.ends.push(self.batch.bytes.len() + length.len() + cid.len() + value.len());
        if self.indexed
            && let Ok(Some(span)) = read_cid(cid)
        {
            let digest = cid.get(span.digest as usize..).unwrap_or_default();
            self.batch.hashes.push(slot_hash(span.codec, span.hash, digest));
        }
        self.add_record(cid.get(key_start..).unwrap_or_default(), value, &[length, cid, value])
    }

    /// Adds a record, which is exported as `pieces`.
    pub fn add_record(&mut self, key: &[u8], value: &[u8], pieces: &[&[u8]]) -> Result<()> {
        self.sum.payload += value.len() as u64;
        self.sum.content.add_record(key, value);
        self.progress.add(value.len() as u64, 1);
        self.add_bytes(pieces)
    }

    pub fn add_bytes(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let before = self.batch.bytes.len();
        pieces.iter().for_each(|piece| self.batch.bytes.extend_from_slice(piece));
        self.sum.unpacked += (self.batch.bytes.len() - before) as u64;
        if self.batch.bytes.len() >= BATCH {
            self.batch = (self.send)(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<ExportSum> {
        if !self.batch.bytes.is_empty() {
            (self.send)(self.batch)?;
        }
        Ok(self.sum)
    }
}
