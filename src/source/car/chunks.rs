//! CARs as a sequence of chunks: buffers that hold whole sections, in the order of the file.
//!
//! One thread at a time does this, so it only reads bytes and section lengths. The worker that takes the chunk reads CIDs and
//! hashes blocks.
//!
//! The next source is opened at the clean end of the previous one. A chunk has sections of one source, and offsets are
//! offsets in it. If the caller accepts joined CARs, a source may hold several.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chunk::Chunk;
pub(crate) use super::framing::Limits;
use super::open_car::{Modes, NextRead, OpenCar};
use super::section::VisitSection;
use super::skipped_block::SkippedCount;
use super::sources::{Following, SourceRead};
use super::{Header, MAX_RECORDED_ROOTS, MAX_ROOTS, RawCid};
use crate::error::{Error, InputKind, Result};
use crate::os::buffer::Buffer;
use crate::source::StatedProblem;
use crate::source::input::{Input, Restart};
use crate::text::size::{grouped, human};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// Bytes of null padding after the blocks.
    pub padding: u64,
}

pub(crate) struct Chunks {
    car: OpenCar,
    next_index: u32,
    /// Bytes of sections handed out or skipped, of all sources.
    pub taken: u64,
    /// True after an error.
    is_broken: bool,
    /// The current source, all sources, and the progress in each.
    pub source: u32,
    following: Option<Following>,
    reads: Vec<SourceRead>,
    /// Bytes on disk of the sources before this one.
    before: u64,
    /// Bytes of all roots.
    roots_bytes: u64,
    /// The first source with bytes that its CARv2 header does not declare, and their offset.
    undeclared: Option<(Arc<Path>, u64)>,
}

impl Chunks {
    /// Reads the header of `input`; the first section comes next.
    pub fn open(input: Input, limits: Limits) -> Result<(Header, Self)> {
        let (maps, has_readers, concatenated, index_is_last, skip_f3) = Default::default();
        let car = OpenCar::empty(Modes { limits, maps, has_readers, concatenated, index_is_last, skip_f3 });
        let (next_index, taken, is_broken, source, following, before, roots_bytes, undeclared) = Default::default();
        let reads = vec![SourceRead::default()];
        let mut chunks =
            Self { car, next_index, taken, is_broken, source, following, reads, before, roots_bytes, undeclared };
        let header = chunks.begin(input)?;
        Ok((header, chunks))
    }

    /// Accepts several joined CARs in a source. With `index_is_last` an index ends the source. Otherwise, data after a CARv2
    /// that are no CAR are an error, because a CAR may follow them.
    pub fn accept_concatenated(&mut self, index_is_last: bool) {
        (self.car.modes.concatenated, self.car.modes.index_is_last) = (true, index_is_last);
    }

    /// Leaves the F3 data of snapshots of version 2 out of all chunks. They are counted, and hashed if `verify`.
    pub fn skip_f3_data(&mut self, roots: &[RawCid], verify: bool) -> Result<()> {
        self.car.modes.skip_f3 = Some(verify);
        self.car.find_f3_data(roots)
    }

    pub fn map(&mut self) {
        self.car.modes.maps = true;
        self.car.map();
    }

    pub fn is_mapped(&self) -> bool {
        self.car.is_mapped()
    }

    pub fn start_readers(&mut self) -> Result<()> {
        self.car.modes.has_readers = true;
        self.car.start_readers()
    }

    pub fn follow(&mut self, following: Following) {
        self.reads.resize_with(following.names.len().max(1), SourceRead::default);
        for (source, read) in (0..).zip(&mut self.reads) {
            read.source = source;
        }
        self.following = Some(following);
    }

    /// Opens `source` and reads its header, unless it is open.
    pub fn go_to(&mut self, source: u32) -> Result<()> {
        if source == self.source {
            return Ok(());
        }
        let Some(following) = &mut self.following else { return Ok(()) };
        // The last decompressor ends before the next source is opened.
        self.car.close();
        let input = (following.open)(source as usize)?;
        let known = following.bytes.iter().zip(&self.reads).take(source as usize);
        self.before = known.map(|(bytes, read)| bytes.unwrap_or(read.bytes)).sum();
        self.source = source;
        let undeclared = self.car.data.undeclared.map(|at| (Arc::clone(&self.car.name), at));
        self.undeclared = self.undeclared.take().or(undeclared);
        self.begin(input).map(drop)
    }

    fn begin(&mut self, input: Input) -> Result<Header> {
        let compression = input.compression;
        let header = self.car.begin(input)?;
        let read = &mut self.reads[self.source as usize];
        read.sum = self.car.sum.as_deref().cloned().map(Box::new);
        if read.version == 0 {
            (read.version, read.compression) = (header.version, compression.name().into());
            read.roots.clone_from(&header.roots);
            // A resumed import reads the header of the first source again.
            read.journaled_roots = if self.source == 0 { read.roots.len() } else { 0 };
            self.count_roots(&header)?;
        }
        Ok(header)
    }

    fn begin_part(&mut self) -> Result<()> {
        let part = self.car.position;
        let header = self.car.read_head()?;
        let read = &mut self.reads[self.source as usize];
        // A source that is read again is not counted again.
        if part > read.last_part {
            read.last_part = part;
            read.roots.extend_from_slice(&header.roots);
            self.count_roots(&header)?;
        }
        Ok(())
    }

    /// Checks the limit of the roots of all headers together.
    fn count_roots(&mut self, header: &Header) -> Result<()> {
        // Twice as text of at most two letters a byte, with quotes, indentation and line feed.
        let recorded = 2 * (2 * bytes_of(&header.roots) + 16 * header.roots.len() as u64);
        if self.car.modes.limits.records_roots && recorded > MAX_RECORDED_ROOTS {
            let roots = grouped(header.roots.len() as u64);
            let reason = format!("a header of {roots} roots is too long for the record of an import");
            let hint = "import a CAR with fewer roots; `bedload inspect {file}` lists them";
            let problem = StatedProblem::new(InputKind::Unsupported, reason, hint);
            return Err(Error::bad_input(&self.car.name, None, problem));
        }
        self.roots_bytes += bytes_of(&header.roots);
        if self.roots_bytes > MAX_ROOTS && (self.source > 0 || self.car.position > header.blocks_start) {
            let reason = format!("the roots of all sources have more than {} together", human(MAX_ROOTS));
            let hint = "import fewer sources at a time, the others with --into-existing";
            let problem = StatedProblem::new(InputKind::Unsupported, reason, hint);
            return Err(Error::bad_input(&self.car.name, self.car.position, problem));
        }
        Ok(())
    }

    /// Returns the next chunk, in `spare` if that is large enough, or `None` at the clean end of the last source.
    pub fn next(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            let next = self.next_here(spare.take())?;
            if next.is_some() || self.is_broken || self.source + 1 >= self.sources() {
                return Ok(next);
            }
            self.update_reads();
            // After an error nothing more is read.
            let next = self.go_to(self.source + 1);
            self.fail_on_error(next)?;
        }
    }

    pub fn next_here(&mut self, spare: Option<Buffer>) -> Result<Option<Chunk>> {
        if self.is_broken {
            return Ok(None);
        }
        let next = self.try_next(spare);
        self.fail_on_error(next)
    }

    fn try_next(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            match std::mem::replace(&mut self.car.next, NextRead::Sections) {
                NextRead::Sections => {}
                NextRead::SkippedBlock => self.taken += self.car.read_skipped_block()?,
                NextRead::Header => self.begin_part()?,
                NextRead::Fault(error) => return Err(error),
                NextRead::End => {
                    self.car.next = NextRead::End;
                    return Ok(None);
                }
            }
            if let Some(sections) = self.car.read_sections(spare.take())? {
                let index = self.next_index;
                self.next_index += 1;
                self.taken += sections.bytes.len() as u64;
                return Ok(Some(Chunk { index, source: self.source, ..sections }));
            }
            if let NextRead::Sections = self.car.next {
                self.car.next = NextRead::End;
            }
        }
    }

    fn fail_on_error<T>(&mut self, outcome: Result<T>) -> Result<T> {
        self.is_broken |= outcome.is_err();
        outcome
    }

    /// Restores the state of the sources from an earlier run.
    pub fn resume_sources(&mut self, known: &[SourceRead]) {
        for read in known {
            let Some(slot) = self.reads.get_mut(read.source as usize) else { continue };
            let mut roots = if read.source == 0 { std::mem::take(&mut slot.roots) } else { Vec::new() };
            roots.extend_from_slice(&read.roots);
            self.roots_bytes += bytes_of(&read.roots);
            *slot = SourceRead { journaled_roots: roots.len(), roots, ..read.clone() };
        }
    }

    /// Continues at `offset` of this source, in a CAR whose blocks end at `end`. A stream is read up to `offset`, if possible
    /// from `restart` on. Otherwise `each` receives the skipped sections, and [`Chunks::checksum`] proves that they are the
    /// same.
    pub fn skip_to(
        &mut self,
        offset: u64,
        end: Option<u64>,
        restart: Option<&Restart>,
        each: Option<VisitSection<'_>>,
    ) -> Result<()> {
        // An earlier run may have compared with a different sum.
        self.reads[self.source as usize].sum = self.car.sum.as_deref().cloned().map(Box::new);
        self.car.skip_to(offset, end, restart, each)
    }

    /// Restores the count of an earlier run, which read this source up to the position.
    pub fn resume_skipped_block(&mut self, known: Option<&SkippedCount>) {
        if let Some(block) = &mut self.car.skipped_block {
            let none = SkippedCount { cid: block.cid.to_string(), ..SkippedCount::default() };
            block.count = known.filter(|known| known.cid == none.cid).cloned().unwrap_or(none);
        }
    }

    /// The last place at or before [`Chunks::position`] where a later run may begin to decompress a stream.
    pub fn restart(&self) -> Option<Restart> {
        self.car.restart()
    }

    /// Returns a warning about a source that was read to its end.
    pub fn warning(&self) -> Option<String> {
        let here = self.car.data.undeclared.map(|at| (&self.car.name, at));
        let (name, at) = self.undeclared.as_ref().map(|(name, at)| (name, *at)).or(here)?;
        let place = format!("{} at byte {at}", name.display());
        Some(format!(
            "{place}: the file has trailing bytes that the CARv2 header does not declare; they are not imported"
        ))
    }

    /// The end of the sources, once [`Chunks::next`] has returned `None`.
    pub fn tail(&self) -> Tail {
        let earlier = self.reads.iter().take(self.source as usize).map(|read| read.padding).sum::<u64>();
        Tail { padding: earlier + self.car.padding }
    }

    pub fn consumed(&self) -> u64 {
        self.before + self.car.bytes.consumed()
    }

    pub fn file(&self) -> Option<&File> {
        self.car.file()
    }

    /// True if this source has ended at `offset` with `padding`.
    pub fn is_at(&self, offset: u64, padding: u64) -> bool {
        (self.car.position, self.car.padding) == (offset, padding)
    }

    /// Offset in the decompressed source of the next section to be handed out.
    pub fn position(&self) -> u64 {
        self.car.position
    }

    pub fn checksum(&self) -> Option<u64> {
        self.car.checksum()
    }

    pub fn name_of(&self, source: u32) -> &Path {
        let names = self.following.as_ref().map(|following| &following.names);
        names.and_then(|names| names.get(source as usize)).map_or(&*self.car.name, PathBuf::as_path)
    }

    pub fn sources(&self) -> u32 {
        self.reads.len() as u32
    }

    pub fn known(&self) -> Vec<SourceRead> {
        self.reads.clone()
    }

    /// Updates and returns the progress in all sources.
    pub fn update_reads(&mut self) -> &mut [SourceRead] {
        let car = &self.car;
        let bytes = self.following.as_ref().and_then(|it| it.bytes.get(self.source as usize).copied()).flatten();
        let read = &mut self.reads[self.source as usize];
        (read.offset, read.end, read.padding, read.checksum) =
            (car.position, car.data.end, car.padding, car.checksum());
        read.bytes = bytes.unwrap_or_else(|| car.bytes.consumed());
        read.f3 = car.skipped_block.as_ref().map(|block| Box::new(block.count.clone()));
        &mut self.reads
    }
}

fn bytes_of(roots: &[RawCid]) -> u64 {
    roots.iter().map(|root| root.as_bytes().len() as u64).sum()
}

#[cfg(test)]
mod tests;
