//! Builds sections of a CAR from blocks, and batches from sections.
//!
//! ```text
//! section: varint length of the rest | CID | block
//! ```

use super::batch::{Gone, SectionBatch};
use super::forest;
use super::options::Format;
use crate::error::Result;
use crate::source::car::{RawCid, header_bytes, read_cid};
use crate::source::forest::stored_frame;

/// Size of a full batch, in bytes; each batch is compressed on its own.
const BATCH: usize = 1 << 20;

/// The bytes before the first section.
pub(super) struct Prelude {
    /// The bytes to write.
    pub bytes: Vec<u8>,
    /// Length before compression.
    pub car_bytes: u64,
}

/// Returns the header, compressed as `format` requires.
pub(super) fn prelude(format: Format, roots: &[RawCid]) -> Prelude {
    let header = header_bytes(roots.iter().map(RawCid::as_bytes));
    let car_bytes = header.len() as u64;
    let bytes = match format {
        Format::Car | Format::Log => header,
        Format::CarZst | Format::LogZst => stored_frame(&header, true),
        Format::ForestCarZst => stored_frame(&header, false),
    };
    Prelude { bytes, car_bytes }
}

/// Fills batches with sections and sends them to the packers.
pub(super) struct SectionLoader<'a> {
    batch: SectionBatch,
    send: Box<dyn FnMut(SectionBatch) -> Result<SectionBatch, Gone> + 'a>,
    indexed: bool,
}

impl<'a> SectionLoader<'a> {
    /// Creates a loader; `send` takes a full batch and returns an empty one.
    pub fn new(format: Format, send: impl FnMut(SectionBatch) -> Result<SectionBatch, Gone> + 'a) -> Self {
        Self { batch: SectionBatch::default(), send: Box::new(send), indexed: format == Format::ForestCarZst }
    }

    /// Adds a section and returns its length.
    pub fn add(&mut self, cid: &[u8], value: &[u8]) -> Result<u64> {
        let SectionBatch { bytes, ends, hashes, .. } = &mut self.batch;
        let before = bytes.len();
        let mut buffer = unsigned_varint::encode::usize_buffer();
        bytes.extend_from_slice(unsigned_varint::encode::usize(cid.len() + value.len(), &mut buffer));
        bytes.extend_from_slice(cid);
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        if self.indexed
            && let Ok(Some(span)) = read_cid(cid)
        {
            hashes.push(forest::slot(&span, cid));
        }
        let len = (bytes.len() - before) as u64;
        if bytes.len() >= BATCH {
            self.batch = (self.send)(std::mem::take(&mut self.batch))?;
        }
        Ok(len)
    }

    /// Adds bytes unchanged.
    pub fn add_bytes(&mut self, pieces: &[&[u8]]) -> Result<()> {
        pieces.iter().for_each(|piece| self.batch.bytes.extend_from_slice(piece));
        if self.batch.bytes.len() >= BATCH {
            self.batch = (self.send)(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Sends the last batch.
    pub fn finish(mut self) -> Result<()> {
        if !self.batch.bytes.is_empty() {
            (self.send)(self.batch)?;
        }
        Ok(())
    }
}
