//! A CAR as a sequence of chunks: buffers that hold whole sections, in the order of the file.
//!
//! One thread at a time does this part of reading, so it does the least: it reads bytes and hops from length to length.
//! The worker that takes the chunk reads CIDs and hashes blocks.
//!
//! Several sources are one sequence: the next source is opened at the clean end of the previous one. A chunk has sections
//! of one source and names it; offsets are offsets in that source. If the caller accepts joined CARs, a source may hold
//! several, and the header of each begins a new part.

mod end;
mod head;
mod read;
mod resume;
mod sequence;
mod skip;

use std::fs::File;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::Header;
use super::bytes::Bytes;
use super::chunk::Chunk;
pub(crate) use super::framing::Limits;
use super::skipped_block::SkippedBlock;
use super::sources::{Following, SourceRead};
use crate::error::{Error, Result};
use crate::os::buffer::Buffer;
use crate::source::input::{Expected, Input, Prefixed, Remote};

/// The end of a CAR.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// Bytes of null padding after the blocks.
    pub padding: u64,
}

/// Reads a CAR front to back, in chunks; or several.
pub(crate) struct Chunks {
    name: Arc<Path>,
    bytes: Bytes,
    /// Bytes of the file that were read but belong to no chunk yet.
    carry: Vec<u8>,
    /// Bytes that were read after the data of a CARv2.
    after_data: Vec<u8>,
    /// Offset of `carry` in the decompressed file.
    position: u64,
    /// The end of the blocks according to the header.
    end: Option<u64>,
    /// Size of the data, if known.
    size: Option<u64>,
    limits: Limits,
    next_index: u32,
    done: bool,
    /// True after an error.
    broken: bool,
    /// True if the header of one more CAR is next.
    part_follows: bool,
    /// The fault after the last chunk: the blocks before it are read first, so that the first fault of the file is reported,
    /// whatever the size of a chunk.
    fault: Option<Error>,
    /// Null padding of this source.
    padding: u64,
    /// Of everything handed out or skipped, for sources without random access; `None` if reading began in the middle.
    checksum: Option<XxHash3_64>,
    /// The file on the network, if reading can begin in its middle; and the expected sum of all bytes.
    remote: Option<Arc<Remote>>,
    sum: Option<Arc<Expected>>,
    /// Bytes of sections handed out or skipped, of all sources.
    taken: u64,
    /// The current source, the others, and the progress in each.
    source: u32,
    following: Option<Following>,
    reads: Vec<SourceRead>,
    /// Bytes on disk of the sources before this one.
    before: u64,
    /// Bytes of all roots.
    roots_bytes: u64,
    /// True if plain files are mapped.
    maps: bool,
    /// True if threads read plain files ahead.
    has_readers: bool,
    /// True if a file may hold several CARs.
    concatenated: bool,
    /// True if the index of a CARv2 ends the file: no blocks after it are lost.
    index_is_last: bool,
    /// Offset of the index of a CARv2 in its file; `u64::MAX` without one.
    index_at: u64,
    /// The first source with bytes that its CARv2 header does not declare, and their offset.
    undeclared_trailer: Option<(Arc<Path>, u64)>,
    /// `Some` if F3 data are skipped: true if they are hashed.
    skip_f3: Option<bool>,
    /// The block of this source that is in no chunk.
    skipped_block: Option<SkippedBlock>,
    /// True if it is next, at the front of `carry`.
    skipped_block_is_next: bool,
}

impl Chunks {
    /// Reads the header of `input`; the first section comes next.
    pub fn open(input: Input, limits: Limits) -> Result<(Header, Self)> {
        let mut chunks = Self {
            name: Path::new("").into(),
            bytes: Bytes::Stream(Box::new(Prefixed::default())),
            carry: Vec::new(),
            after_data: Vec::new(),
            position: 0,
            end: None,
            size: None,
            limits,
            next_index: 0,
            done: false,
            broken: false,
            part_follows: false,
            fault: None,
            padding: 0,
            checksum: None,
            remote: None,
            sum: None,
            taken: 0,
            source: 0,
            following: None,
            reads: vec![SourceRead::default()],
            before: 0,
            roots_bytes: 0,
            maps: false,
            has_readers: false,
            concatenated: false,
            index_is_last: false,
            index_at: u64::MAX,
            undeclared_trailer: None,
            skip_f3: None,
            skipped_block: None,
            skipped_block_is_next: false,
        };
        let header = chunks.begin(input)?;
        Ok((header, chunks))
    }

    /// Accepts several joined CARs in a source. With `index_is_last` an index ends the source. Otherwise, data after a CARv2
    /// that are no CAR are an error, because a CAR may follow them.
    pub fn accept_concatenated(&mut self, index_is_last: bool) {
        (self.concatenated, self.index_is_last) = (true, index_is_last);
    }

    /// Begins a source and reads its header.
    fn begin(&mut self, input: Input) -> Result<Header> {
        let Input { name, size, body, compression, remote, expected, .. } = input;
        self.name = name.into();
        (self.remote, self.sum) = (remote, expected);
        self.bytes = Bytes::new(body);
        self.size = size.filter(|_| matches!(self.bytes, Bytes::File(_)));
        (self.carry, self.after_data, self.position, self.end) = (Vec::new(), Vec::new(), 0, None);
        (self.done, self.part_follows, self.fault, self.padding) = (false, false, None, 0);
        (self.skipped_block, self.skipped_block_is_next) = (None, false);
        self.checksum = matches!(self.bytes, Bytes::Stream(_)).then(XxHash3_64::new);
        let header = self.read_head()?;
        if let Some(verify) = self.skip_f3 {
            self.skip_f3_data(&header.roots, verify)?;
        }
        if self.maps {
            self.map();
        }
        if self.has_readers {
            self.start_readers()?;
        }
        let read = &mut self.reads[self.source as usize];
        read.sum = self.sum.as_deref().cloned().map(Box::new);
        if read.version == 0 {
            (read.version, read.compression) = (header.version, compression.name().into());
            read.roots.clone_from(&header.roots);
            // A resumed import reads the header of the first source again.
            read.journaled_roots = if self.source == 0 { read.roots.len() } else { 0 };
            self.count_roots(&header)?;
        }
        Ok(header)
    }

    /// Returns the next chunk, in `spare` if that is large enough, or `None` at the clean end of the last source.
    pub fn next(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            let next = self.next_here(spare.take())?;
            if next.is_some() || self.broken || self.source + 1 >= self.sources() {
                return Ok(next);
            }
            self.reads();
            // After an error nothing more is read.
            let next = self.go_to(self.source + 1);
            self.fail_on_error(next)?;
        }
    }

    /// Returns the next chunk of this source, or `None` at its clean end.
    pub fn next_here(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            if let Some(fault) = self.fault.take() {
                return self.fail_on_error(Err(fault));
            }
            if self.done || self.broken {
                return Ok(None);
            }
            if self.part_follows {
                let begun = self.begin_part();
                self.fail_on_error(begun)?;
            }
            let outcome = self.read_chunk(spare.take());
            let outcome = self.fail_on_error(outcome)?;
            if outcome.is_none() && std::mem::take(&mut self.skipped_block_is_next) {
                let passed = self.read_skipped_block();
                self.fail_on_error(passed)?;
                continue;
            }
            if outcome.is_none() && self.part_follows {
                continue;
            }
            self.done |= outcome.is_none();
            return Ok(outcome);
        }
    }

    fn fail_on_error<T>(&mut self, outcome: Result<T>) -> Result<T> {
        self.broken |= outcome.is_err();
        outcome
    }

    /// A warning about a source that was read to its end.
    pub fn warning(&self) -> Option<String> {
        let (name, at) = self.undeclared_trailer.as_ref()?;
        let place = format!("{} at byte {at}", name.display());
        Some(format!(
            "{place}: the file has trailing bytes that the CARv2 header does not declare; they are not imported"
        ))
    }

    /// The end of the sources, once [`Chunks::next`] has returned `None`.
    pub fn tail(&self) -> Tail {
        let earlier = self.reads.iter().take(self.source as usize).map(|read| read.padding).sum::<u64>();
        Tail { padding: earlier + self.padding }
    }

    /// Bytes of the compressed sources consumed so far.
    pub fn consumed(&self) -> u64 {
        self.before + self.bytes.consumed()
    }

    /// The file, if the source is a plain one.
    pub fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(reader) => Some(&reader.file),
            Bytes::Stream(_) => None,
        }
    }

    /// True if this source has ended at `offset`, with this much padding.
    pub fn is_at(&self, offset: u64, padding: u64) -> bool {
        (self.position, self.padding) == (offset, padding)
    }

    /// Bytes of sections handed out or skipped, of all sources.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Offset in the decompressed source of the next section to be handed out.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// XXH3-64 of everything handed out so far, for a source without random access.
    pub fn checksum(&self) -> Option<u64> {
        self.checksum.as_ref().map(Hasher::finish)
    }
}

#[cfg(test)]
mod tests;
