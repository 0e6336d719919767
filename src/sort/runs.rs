//! Sorting a partition that exceeds the memory for it: sorted runs on disk are merged.
//!
//! Hashes never need this. Keys chosen by an adversary, thousands of long identity CIDs, or a pipe of unknown size do. A run is
//! a file of sections in key order, each after the number of its source. At most [`FAN_IN`] runs are merged at once.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::entries::{BlockArena, SortEntry};
use super::key::{KeyLayout, Record};
use super::marks::source_at;
use super::spill::Spill;
use crate::error::{Error, Result};
use crate::external_sort::{Cursor, FAN_IN, Merge};
use crate::hash::content_digest::Content;
use crate::hash::digest_key::DigestKey;
use crate::os::buffer::Buffer;
use crate::os::direct;
use crate::os::private;
use crate::source::car::chunk::ChunkBytes;
use crate::source::car::{Section, Step, next_section, read_cid, varint};

/// The least a run's reader buffers, in bytes.
const MIN_READ: usize = 16 << 10;
/// Bytes of the number of a source before each section of a run, little-endian.
const SOURCE: usize = size_of::<u32>();
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
        let mut name = runs.len();
        while runs.len() > FAN_IN {
            let group: Vec<_> = runs.drain(..FAN_IN).collect();
            let path = self.run_path(name);
            name += 1;
            let mut file = BufWriter::with_capacity(MIN_READ * 4, create(&path)?);
            self.merge(&group, |section, _, source| {
                write(&mut file, section, source).map_err(Error::io("write", &path))
            })?;
            file.flush().map_err(Error::io("write", &path))?;
            delete(&group)?;
            runs.push(path);
        }
        self.merge(&runs, |_, record, source| take(record, source))?;
        delete(&runs)
    }

    fn run_path(&self, run: usize) -> PathBuf {
        self.spill.dir.join(format!("{:05}.run{run:05}", self.partition))
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
                match self.section(&buffer[..len], used)? {
                    Found::Section(section) => {
                        let record = Record::new(&buffer, &section, self.layout);
                        content.add(record.checked_digest(self.key));
                        let mut prefix = [0; 8];
                        prefix.iter_mut().zip(record.key()).for_each(|(to, from)| *to = *from);
                        entries.push(SortEntry::new(u64::from_be_bytes(prefix), 0, used as u32));
                        used = section.end;
                    }
                    // No section ends after the partition.
                    Found::Cut { needed } if needed as u64 > total - at - used as u64 => {
                        return Err(self.spill.damaged(self.partition, content));
                    }
                    Found::Cut { needed } => {
                        if entries.is_empty() {
                            // The section is longer than the window. It was accepted when it was read.
                            window = needed;
                        }
                        break;
                    }
                    Found::Padding => used = len.min((direct::next_block(at + used as u64) - at) as usize),
                    Found::End => break,
                }
            }
            if entries.is_empty() {
                at += used as u64;
                continue;
            }
            let began = at;
            at += used as u64;
            let mut arena = BlockArena::new(self.layout);
            arena.insert(0, ChunkBytes::Read { buffer, len }, Vec::new());
            arena.sort(&mut entries);
            let path = self.run_path(paths.len());
            let mut file = BufWriter::with_capacity(MIN_READ * 4, create(&path)?);
            for entry in &entries {
                let source = source_at(&marks, began + u64::from(entry.start()));
                write(&mut file, arena.section(*entry).unwrap_or_default(), source)
                    .map_err(Error::io("write", &path))?;
            }
            file.flush().map_err(Error::io("write", &path))?;
            paths.push(path);
        }
        if content != extent.content() {
            return Err(self.spill.damaged(self.partition, content));
        }
        Ok(paths)
    }

    fn section(&self, bytes: &[u8], at: usize) -> Result<Found> {
        match next_section(bytes, at, self.max_section) {
            Ok(Step::Section(section)) => {
                self.spill.check_room((section.end - section.start) as u64)?;
                Ok(Found::Section(section))
            }
            Ok(Step::Cut { missing, .. }) => {
                let needed = bytes.len() - at + missing as usize;
                self.spill.check_room(needed as u64)?;
                Ok(Found::Cut { needed })
            }
            Ok(Step::End) => Ok(Found::End),
            Ok(Step::Padding) => Ok(Found::Padding),
            // The file is not what was written.
            Err(_) => Err(self.damaged()),
        }
    }

    fn damaged(&self) -> Error {
        self.spill.damaged(self.partition, Content::default())
    }

    fn merge(&self, runs: &[PathBuf], mut take: impl FnMut(&[u8], Record<'_>, u32) -> Result<()>) -> Result<()> {
        let read = (self.memory / 2 / runs.len().max(1)).max(MIN_READ);
        let readers = runs.iter().map(|path| Reader::open(self, path.clone(), read)).collect::<Result<_>>()?;
        let mut merge = Merge::new(readers)?;
        while let Some((_, reader)) = merge.next()? {
            let source = reader.source;
            reader.with_current(|section, record| take(section, record, source))?;
        }
        Ok(())
    }
}

enum Found {
    Section(Section),
    Cut {
        needed: usize,
    },
    /// The rest of a block, in a partition.
    Padding,
    End,
}

/// Writes a section of a run.
fn write(file: &mut impl Write, section: &[u8], source: u32) -> std::io::Result<()> {
    file.write_all(&source.to_le_bytes())?;
    file.write_all(section)
}

fn create(path: &Path) -> Result<File> {
    private::remove(path)?;
    private::open_file(path, true)
}

fn delete(paths: &[PathBuf]) -> Result<()> {
    paths.iter().try_for_each(|path| std::fs::remove_file(path).map_err(Error::io("delete", path)))
}

/// Reads a run.
struct Reader<'a> {
    runs: &'a Runs<'a>,
    file: File,
    path: PathBuf,
    len: u64,
    /// The place in the file of the bytes after `buffer`.
    at: u64,
    buffer: Vec<u8>,
    /// The place of the next section in `buffer`.
    next: usize,
    read: usize,
    current: Option<Section>,
    /// Place and length of the current section, if it is longer than `read`. It is read when it is merged: many runs may be at a
    /// large section at the same time.
    long: Option<(u64, usize)>,
    source: u32,
}

impl<'a> Reader<'a> {
    fn open(runs: &'a Runs<'a>, path: PathBuf, read: usize) -> Result<Self> {
        let file = private::read_file(&path)?;
        let len = file.metadata().map_err(Error::io("look at", &path))?.len();
        Ok(Self {
            runs,
            file,
            path,
            len,
            at: 0,
            buffer: Vec::new(),
            next: 0,
            read,
            current: None,
            long: None,
            source: 0,
        })
    }

    /// Drops the sections that were read, and fills the buffer up to `len` bytes.
    fn fill(&mut self, len: usize) -> Result<()> {
        self.buffer.drain(..self.next);
        self.next = 0;
        let held = self.buffer.len();
        let want = len.saturating_sub(held).min(usize::try_from(self.len - self.at).unwrap_or(usize::MAX));
        if want == 0 {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            return Err(Error::Io { action: "read", path: self.path.clone(), source });
        }
        self.buffer.resize(held + want, 0);
        self.file.read_exact_at(&mut self.buffer[held..], self.at).map_err(Error::io("read", &self.path))?;
        self.at += want as u64;
        Ok(())
    }

    fn key(&self, section: &Section) -> Vec<u8> {
        Record::new(&self.buffer, section, self.runs.layout).key().to_vec()
    }

    /// Calls `take` with the current section.
    fn with_current(&mut self, take: impl FnOnce(&[u8], Record<'_>) -> Result<()>) -> Result<()> {
        let loaded;
        let (buffer, section) = match self.long.take() {
            Some((at, len)) => {
                let mut whole = Buffer::new(len)?;
                self.file.read_exact_at(&mut whole, at).map_err(Error::io("read", &self.path))?;
                loaded = whole;
                let Found::Section(section) = self.runs.section(&loaded, 0)? else { return Err(self.runs.damaged()) };
                (&loaded[..], section)
            }
            None => (&self.buffer[..], self.current.ok_or_else(|| self.runs.damaged())?),
        };
        take(section.whole(buffer), Record::new(buffer, &section, self.runs.layout))
    }

    /// Skips a section of `len` bytes that is longer than `read`, and returns its key. `None` if the buffer ends inside the CID.
    fn pass_long(&mut self, len: usize) -> Option<Vec<u8>> {
        let start = self.next + SOURCE;
        let rest = self.buffer.get(start..)?;
        let (_, len_bytes) = varint::read(rest, "a section's length").ok()??;
        let cid = read_cid(rest.get(len_bytes..)?).ok()??;
        let head = Section { start, cid_start: start + len_bytes, end: self.buffer.len(), cid };
        if head.body(&self.buffer).len() < cid.len as usize {
            return None;
        }
        let key = self.key(&head);
        let at = self.at - (self.buffer.len() - start) as u64;
        self.long = Some((at, len));
        (self.at, self.next) = ((at + len as u64).min(self.len), 0);
        self.buffer.clear();
        Some(key)
    }
}

impl Cursor for Reader<'_> {
    type Key = Vec<u8>;
    type Error = Error;

    fn advance(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let rest = self.buffer.get(self.next..).unwrap_or_default();
            let Some((source, _)) = rest.split_first_chunk::<SOURCE>().filter(|(_, rest)| !rest.is_empty()) else {
                if rest.is_empty() && self.at == self.len {
                    return Ok(None);
                }
                self.fill(self.read.max(SOURCE + 1))?;
                continue;
            };
            self.source = u32::from_le_bytes(*source);
            match self.runs.section(&self.buffer, self.next + SOURCE)? {
                Found::Section(section) => {
                    self.next = section.end;
                    self.current = Some(section);
                    return Ok(Some(self.key(&section)));
                }
                Found::Padding => return Err(self.runs.damaged()),
                Found::End => self.fill(self.read)?,
                Found::Cut { needed } if needed <= self.read => self.fill((needed + SOURCE).max(self.read))?,
                Found::Cut { needed } => {
                    if let Some(key) = self.pass_long(needed) {
                        return Ok(Some(key));
                    }
                    // A CID that is longer than `read` itself is rare: the whole section is read for it.
                    let held = self.buffer.len() - self.next;
                    self.fill(if held < self.read { self.read } else { needed + SOURCE })?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
