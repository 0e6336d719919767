//! Several sources as one sequence, and several CARs in one source.

use std::path::{Path, PathBuf};

use super::Chunks;
use crate::error::{Error, Result};
use crate::source::car::bytes::Bytes;
use crate::source::car::sources::{Following, SourceRead};
use crate::source::car::{CarProblem, Header, MAX_ROOTS};
use crate::source::input::Prefixed;

impl Chunks {
    /// Goes on with these sources when the first one ends.
    pub fn follow(&mut self, following: Following) {
        self.reads.resize_with(following.names.len().max(1), SourceRead::default);
        for (source, read) in (0..).zip(&mut self.reads) {
            read.source = source;
        }
        self.following = Some(following);
    }

    /// Opens `source`, and reads its header, unless it is the one that is read now.
    ///
    /// # Errors
    /// As [`Chunks::open`].
    pub fn go_to(&mut self, source: u32) -> Result<()> {
        if source == self.source {
            return Ok(());
        }
        let Some(following) = &mut self.following else { return Ok(()) };
        // The last decompressor ends before the next source is opened.
        (self.bytes, self.carry, self.remote) = (Bytes::Stream(Box::new(Prefixed::default())), Vec::new(), None);
        let input = (following.open)(source as usize)?;
        let known = following.bytes.iter().zip(&self.reads).take(source as usize);
        self.before = known.map(|(bytes, read)| bytes.unwrap_or(read.bytes)).sum();
        self.source = source;
        self.begin(input).map(drop)
    }

    /// One more CAR in the same source.
    pub(super) fn begin_part(&mut self) -> Result<()> {
        self.part_follows = false;
        let part = self.position;
        let header = self.read_head()?;
        let read = &mut self.reads[self.source as usize];
        // A source that is read again is not counted again.
        if part > read.last_part {
            read.last_part = part;
            read.roots.extend_from_slice(&header.roots);
            self.count_roots(&header)?;
        }
        Ok(())
    }

    /// Checks the limit of what all headers keep.
    pub(super) fn count_roots(&mut self, header: &Header) -> Result<()> {
        self.roots_bytes += header.roots.iter().map(|root| root.as_bytes().len() as u64).sum::<u64>();
        if self.roots_bytes > MAX_ROOTS && (self.source > 0 || self.position > header.blocks_start) {
            return Err(Error::bad_input(&self.name, self.position, CarProblem::TooManyRoots));
        }
        Ok(())
    }

    /// The source that is read now.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The names of all sources.
    pub fn name_of(&self, source: u32) -> &Path {
        let names = self.following.as_ref().map(|following| &following.names);
        names.and_then(|names| names.get(source as usize)).map_or(&*self.name, PathBuf::as_path)
    }

    /// How many sources there are.
    pub fn sources(&self) -> u32 {
        self.reads.len() as u32
    }

    /// The findings of an earlier run.
    pub fn known(&self) -> Vec<SourceRead> {
        self.reads.clone()
    }

    /// Takes the sources at the end.
    pub fn take_reads(&mut self) -> Vec<SourceRead> {
        std::mem::take(&mut self.reads)
    }

    /// All sources, as far as they were read.
    pub fn reads(&mut self) -> &mut [SourceRead] {
        let (position, end, padding, consumed) = (self.position, self.end, self.padding, self.bytes.consumed());
        let checksum = self.checksum();
        let bytes = self.following.as_ref().and_then(|it| it.bytes.get(self.source as usize).copied()).flatten();
        let read = &mut self.reads[self.source as usize];
        (read.offset, read.end, read.padding, read.checksum) = (position, end, padding, checksum);
        read.bytes = bytes.unwrap_or(consumed);
        read.f3 = self.skipped_block.as_ref().map(|block| Box::new(block.count.clone()));
        &mut self.reads
    }
}
