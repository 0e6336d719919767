//! Sorting a partition that exceeds the memory for it: sorted runs on disk are merged.
//!
//! Hashes never need this. Keys chosen by an adversary, thousands of long identity CIDs, or a pipe of unknown size do. A run is
//! a file of sections in key order. At most [`FAN_IN`] runs are merged at once.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::entries::{BlockArena, SortEntry};
use super::key::{KeyLayout, Record};
use super::spill::{Spill, source_at};
use crate::error::{Error, Result};
use crate::external_sort::{Cursor, FAN_IN, Merge};
use crate::hash::{Content, DigestKey};
use crate::os::buffer::Buffer;
use crate::os::{direct, private};
use crate::source::car::{ChunkBytes, Section, Step, next_section, read_cid, varint};

/// The least a run's reader buffers, in bytes. Half of it has room for every length and CID.
const MIN_READ: usize = 16 << 10;
/// The most bytes of a partition in one run: an entry has 32 bits for the place of a section.
const MAX_WINDOW: usize = u32::MAX as usize;

/// A partition to be sorted outside of memory.
pub(crate) struct Runs<'a> {
    pub spill: &'a Spill,
    pub partition: u32,
    pub layout: KeyLayout,
    /// The key of the partition's digest.
    pub key: Option<&'a DigestKey>,
    /// Memory for all of this, in bytes.
    pub memory: usize,
    /// The longest section that was accepted when the partition was written, in bytes.
    pub max_section: u64,
}

impl Runs<'_> {
    /// Sorts the partition and passes its records to `take` in key order, duplicates included, each with its source.
    pub fn sorted(&self, mut take: impl FnMut(Record<'_>, u32) -> Result<()>) -> Result<()> {
        let mut runs = self.write_runs()?;
        let mut number = runs.len();
        while runs.len() > FAN_IN {
            let group: Vec<_> = runs.drain(..FAN_IN).collect();
            runs.push(self.write_run(number, |write| self.merge(&group, |section, _, source| write(section, source)))?);
            number += 1;
            delete(&group)?;
        }
        self.merge(&runs, |_, record, source| take(record, source))?;
        delete(&runs)
    }

    /// Creates a run of the sections and sources that `fill` passes on.
    fn write_run(
        &self,
        number: usize,
        fill: impl FnOnce(&mut dyn FnMut(&[u8], u32) -> Result<()>) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.spill.dir.join(format!("{:05}.run{number:05}", self.partition));
        private::remove(&path)?;
        let mut file = BufWriter::with_capacity(MIN_READ * 4, private::open_file(&path, true)?);
        fill(&mut |section, source| {
            let head = [source, section.len() as u32].map(u32::to_le_bytes);
            let written = file.write_all(head.as_flattened()).and_then(|()| file.write_all(section));
            written.map_err(Error::io("write", &path))
        })?;
        file.flush().map_err(Error::io("write", &path))?;
        Ok(path)
    }

    /// Cuts the partition into runs that fit the memory, each sorted.
    fn write_runs(&self) -> Result<Vec<PathBuf>> {
        let extent = self.spill.extent(self.partition);
        let (total, marks) = (extent.bytes, self.spill.marks(self.partition));
        let mut content = Content::default();
        let mut paths = Vec::new();
        let mut at = 0;
        // Half for the sections, half for their entries: a section has at least 5 bytes, an entry 16.
        let mut window = (self.memory / 2).clamp(MIN_READ, MAX_WINDOW);
        let max_entries = (self.memory / 2 / size_of::<SortEntry>()).max(1);
        while at < total {
            let len = usize::try_from(total - at).unwrap_or(usize::MAX).min(window);
            let mut buffer = Buffer::new(len)?;
            self.spill.read(self.partition, at, &mut buffer[..len])?;
            let mut entries = Vec::new();
            let mut used = 0;
            while entries.len() < max_entries {
                match self.next_section(&buffer[..len], used)? {
                    Step::Section(section) => {
                        let record = Record::new(&buffer, &section, self.layout);
                        content.add(record.checked_digest(self.key));
                        let mut prefix = [0; 8];
                        prefix.iter_mut().zip(record.key()).for_each(|(to, from)| *to = *from);
                        entries.push(SortEntry::new(u64::from_be_bytes(prefix), 0, used as u32));
                        used = section.end;
                    }
                    // No section ends after the partition.
                    Step::Cut { missing, .. } if missing > total - at - len as u64 => {
                        return Err(self.spill.damaged_error(self.partition, content));
                    }
                    Step::Cut { missing, .. } => {
                        if entries.is_empty() {
                            // The section is longer than the window. It was accepted when it was read.
                            window = len - used + missing as usize;
                        }
                        break;
                    }
                    // The rest of a block.
                    Step::Padding => used = len.min((direct::next_block(at + used as u64) - at) as usize),
                    Step::End => break,
                }
            }
            let began = at;
            at += used as u64;
            if entries.is_empty() {
                continue;
            }
            let mut arena = BlockArena::new(self.layout);
            arena.insert(0, ChunkBytes::Read { buffer, len }, Vec::new());
            arena.sort(&mut entries);
            paths.push(self.write_run(paths.len(), |write| {
                entries.iter().try_for_each(|entry| {
                    let source = source_at(&marks, began + u64::from(entry.start()));
                    write(arena.section(*entry).unwrap_or_default(), source)
                })
            })?);
        }
        if content != extent.content() {
            return Err(self.spill.damaged_error(self.partition, content));
        }
        Ok(paths)
    }

    /// Finds a section of the partition. The file is damaged if there is none of an accepted length.
    fn next_section(&self, bytes: &[u8], at: usize) -> Result<Step> {
        let step = next_section(bytes, at, self.max_section).map_err(|_| self.damaged())?;
        let len = match step {
            Step::Section(section) => (section.end - section.start) as u64,
            Step::Cut { missing, .. } => (bytes.len() - at) as u64 + missing,
            Step::Padding | Step::End => 0,
        };
        self.spill.check_room(len)?;
        Ok(step)
    }

    fn damaged(&self) -> Error {
        self.spill.damaged_error(self.partition, Content::default())
    }

    fn merge(&self, runs: &[PathBuf], mut take: impl FnMut(&[u8], Record<'_>, u32) -> Result<()>) -> Result<()> {
        let read = (self.memory / 2 / runs.len().max(1)).max(MIN_READ);
        let readers = runs.iter().map(|path| RunReader::open(self, path, read)).collect::<Result<_>>()?;
        let mut merge = Merge::new(readers)?;
        while let Some((_, reader)) = merge.next()? {
            reader.with_current(&mut take)?;
        }
        Ok(())
    }
}

fn delete(paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| std::fs::remove_file(path).map_err(Error::io("delete", path)))
}

/// Reads a run: for each section its source and its length, little-endian with 32 bits, and its bytes.
struct RunReader<'a> {
    runs: &'a Runs<'a>,
    path: &'a Path,
    file: BufReader<File>,
    /// The place in the file after the current section.
    at: u64,
    /// The longest section that is read before it is merged: many runs may be at a large section at the same time.
    short: usize,
    /// Source and length of the current section, and the section or the front of a long one.
    source: u32,
    len: usize,
    front: Vec<u8>,
}

impl<'a> RunReader<'a> {
    /// Opens a run, to be read with `read` bytes of memory.
    fn open(runs: &'a Runs<'a>, path: &'a Path, read: usize) -> Result<Self> {
        let (file, short) = (BufReader::with_capacity(read / 2, private::read_file(path)?), read / 2);
        Ok(Self { runs, path, file, at: 0, short, source: 0, len: 0, front: Vec::new() })
    }

    /// Steps to the next section. False at the end.
    fn read_front(&mut self) -> std::io::Result<bool> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let mut head = [[0; 4]; 2];
        self.file.read_exact(head.as_flattened_mut())?;
        let [source, len] = head.map(u32::from_le_bytes);
        (self.source, self.len) = (source, len as usize);
        self.front.resize(self.len.min(self.short), 0);
        self.file.read_exact(&mut self.front)?;
        self.file.seek_relative((self.len - self.front.len()) as i64)?;
        self.at += head.as_flattened().len() as u64 + u64::from(len);
        Ok(true)
    }

    /// Parses the current section, which ends with `front` if it is long.
    fn parse_front(&self) -> Option<Section> {
        match next_section(&self.front, 0, self.runs.max_section).ok()? {
            Step::Section(section) => (section.end == self.len).then_some(section),
            Step::Cut { missing, .. } if self.front.len() as u64 + missing == self.len as u64 => {
                let (_, cid_start) = varint::read(&self.front, "a section's length").ok()??;
                let cid = read_cid(self.front.get(cid_start..)?).ok()??;
                Some(Section { start: 0, cid_start, end: self.front.len(), cid })
            }
            _ => None,
        }
    }

    /// Passes the current section, its record and its source to `take`.
    fn with_current(&self, take: impl FnOnce(&[u8], Record<'_>, u32) -> Result<()>) -> Result<()> {
        let mut long = None;
        if self.len > self.front.len() {
            let whole = long.insert(Buffer::new(self.len)?);
            let read = self.file.get_ref().read_exact_at(whole, self.at - self.len as u64);
            read.map_err(Error::io("read", self.path))?;
        }
        let bytes = long.as_deref().unwrap_or(&self.front);
        let Ok(Step::Section(section)) = next_section(bytes, 0, self.runs.max_section) else {
            return Err(self.runs.damaged());
        };
        take(section.whole(bytes), Record::new(bytes, &section, self.runs.layout), self.source)
    }
}

impl Cursor for RunReader<'_> {
    type Key = Vec<u8>;
    type Error = Error;

    fn advance(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.read_front().map_err(Error::io("read", self.path))? {
            return Ok(None);
        }
        let section = self.parse_front().ok_or_else(|| self.runs.damaged())?;
        Ok(Some(Record::new(&self.front, &section, self.runs.layout).key().to_vec()))
    }
}

#[cfg(test)]
mod tests;
