//! Sorting a partition that is larger than the memory for it: sorted runs on disk, merged.
//!
//! Hashes never need this. Keys chosen by an adversary, thousands of long identity CIDs, or a pipe of unknown size
//! do. A run is a file of sections like a partition, each behind the number of its source, in key order; at most
//! [`FAN_IN`] runs are merged at once, in several rounds if there are more.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::entries::{BlockArena, Entry};
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
/// The most bytes of a partition in one run: entries have 32 bits for the place of a section.
const MAX_WINDOW: usize = u32::MAX as usize;

/// A partition to be sorted outside of memory.
pub(crate) struct Runs<'a> {
    pub spill: &'a Spill,
    pub partition: u32,
    pub layout: KeyLayout,
    /// The key of the partition's digest.
    pub key: Option<&'a DigestKey>,
    /// Memory for everything here, in bytes.
    pub memory: usize,
    /// The longest section that was accepted when the partition was written, in bytes.
    pub max_section: u64,
}

impl Runs<'_> {
    /// Sorts the partition and hands its records to `take` in key order, duplicates included, each with its source.
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
        self.spill.dir().join(format!("{:05}.run{run:05}", self.partition))
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
        let max_entries = (self.memory / 2 / size_of::<Entry>()).max(1);
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
                        entries.push(Entry::new(u64::from_be_bytes(prefix), 0, used as u32));
                        used = section.end;
                    }
                    // No section ends behind the partition.
                    Found::Cut { needed } if needed as u64 > total - at - used as u64 => {
                        return Err(self.spill.damaged(self.partition, content));
                    }
                    Found::Cut { needed } => {
                        if entries.is_empty() {
                            // One section is longer than the window: it was accepted when it was read.
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
            // The file does not hold what was written.
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

/// Reads a run front to back.
struct Reader<'a> {
    runs: &'a Runs<'a>,
    file: File,
    path: PathBuf,
    len: u64,
    /// Where the bytes behind `buffer` begin in the file.
    at: u64,
    buffer: Vec<u8>,
    /// Where the next section begins in `buffer`.
    next: usize,
    read: usize,
    current: Option<Section>,
    /// Place and length of the current section, if it is longer than `read`. It is read when the merge comes to it: many runs
    /// may stand at a large section at the same time.
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

    /// Drops what was read and reads on, so that the buffer holds up to `len` bytes.
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

    /// Passes over a section of `len` bytes that is longer than `read`, and returns its key. `None` if the buffer ends inside
    /// its CID.
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
mod tests {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn section(digest: &[u8], data: &[u8]) -> Vec<u8> {
        let mut cid = vec![1, 0x55, 0x00];
        cid.extend(unsigned_varint::encode::usize(digest.len(), &mut unsigned_varint::encode::usize_buffer()));
        cid.extend(digest);
        let mut buffer = unsigned_varint::encode::usize_buffer();
        let len = unsigned_varint::encode::usize(cid.len() + data.len(), &mut buffer);
        [len, &cid, data].concat()
    }

    /// A digest and a block's bytes.
    type Pair = (Vec<u8>, Vec<u8>);

    /// A partition of `blocks`, in which zeros follow each section unless it is `cached`.
    fn spill_of(dir: &std::path::Path, blocks: &[Pair], cached: bool) -> Spill {
        let spill = Spill::new(dir.to_owned(), 1).cached(cached, 1 << 20, 1).expect("threads");
        for (digest, data) in blocks {
            let whole = [&digest[..], data].concat();
            let content = Content { records: 1, digest: KEY.of_section(&whole, digest.len()) };
            spill.append(0, &section(digest, data), content, &[]).expect("room");
        }
        spill
    }

    static KEY: LazyLock<DigestKey> = LazyLock::new(|| DigestKey::new([7; 32]));

    fn runs(spill: &Spill, memory: usize, max_section: u64) -> Runs<'_> {
        Runs { spill, partition: 0, layout: KeyLayout::Digest, key: Some(&KEY), memory, max_section }
    }

    /// Sorts `blocks` outside of memory: the records in the order they come, and how many runs there were at first.
    fn sorted(blocks: &[Pair], memory: usize) -> (Vec<Pair>, usize) {
        let (direct, _) = sorted_of(blocks, memory, false);
        assert!(direct.is_sorted_by_key(|(key, _)| key), "out of order where they bypass the page cache");
        let (cached, runs) = sorted_of(blocks, memory, true);
        // Blocks of one key come in any order.
        let ordered = |mut records: Vec<Pair>| {
            records.sort();
            records
        };
        assert!(ordered(direct) == ordered(cached.clone()), "other records where they bypass the page cache");
        (cached, runs)
    }

    fn sorted_of(blocks: &[Pair], memory: usize, cached: bool) -> (Vec<Pair>, usize) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = spill_of(dir.path(), blocks, cached);
        let runs = runs(&spill, memory, u64::MAX);
        let first_runs = runs.write_runs().expect("room");
        let count = first_runs.len();
        delete(&first_runs).expect("they are there");
        let mut found = Vec::new();
        let take = |record: Record<'_>, source| {
            assert_eq!(source, 0);
            found.push((record.key().to_vec(), record.value().to_vec()));
            Ok(())
        };
        runs.sorted(take).expect("valid data");
        let left: Vec<_> = dir.path().read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert!(left.is_empty() || left == ["00000.part"], "runs are left: {left:?}");
        (found, count)
    }

    #[test]
    fn more_runs_than_are_merged_at_once_come_out_in_order() {
        let block = |i: u64| {
            let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            (key.to_vec(), vec![i as u8; 1000])
        };
        // Runs of 16 KiB: a MiB and a half makes about a hundred of them.
        let mut blocks: Vec<_> = (0..1500).map(block).collect();
        blocks.extend((0..1500).step_by(7).map(block));
        let (found, runs) = sorted(&blocks, 16 << 10);
        assert!(runs > 2 * FAN_IN, "only {runs} runs");
        blocks.sort();
        assert!(found == blocks, "not the blocks in order, duplicates included");
    }

    #[test]
    fn a_section_longer_than_the_memory_makes_a_run_of_its_own() {
        let blocks = vec![(vec![9], vec![1; 300_000]), (vec![2], vec![2; 10]), (vec![1], vec![3; 200_000])];
        let (found, _) = sorted(&blocks, 16 << 10);
        assert_eq!(found.iter().map(|(key, _)| key[0]).collect::<Vec<_>>(), [1, 2, 9]);
        assert_eq!(found.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [200_000, 10, 300_000]);
    }

    /// The bug: each reader of a merge held its large section, up to as many as runs are merged.
    #[test]
    fn readers_of_runs_hold_no_large_section() {
        let blocks: Vec<Pair> = (0..10u8).map(|i| (vec![i; 12], vec![i; 300_000])).collect();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = spill_of(dir.path(), &blocks, true);
        let runs = runs(&spill, 64 << 10, u64::MAX);
        let paths = runs.write_runs().expect("room");
        assert_eq!(paths.len(), blocks.len());
        for (path, (key, value)) in paths.into_iter().zip(&blocks) {
            let mut reader = Reader::open(&runs, path, MIN_READ).expect("a run");
            assert_eq!(reader.advance().expect("a section").as_ref(), Some(key));
            assert!(reader.buffer.capacity() <= 2 * MIN_READ, "{} bytes", reader.buffer.capacity());
            let taken = reader.with_current(|_, record| {
                assert!(record.key() == key && record.value() == value);
                Ok(())
            });
            taken.expect("it is read when it is taken");
            assert_eq!(reader.advance().expect("the end"), None);
        }
    }

    #[test]
    fn a_partition_with_a_flipped_bit_is_refused_and_never_read_for_ever() {
        let blocks: Vec<Pair> = (0..40u8).map(|i| (vec![i; 12], vec![i; 300 + usize::from(i) * 9])).collect();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = spill_of(dir.path(), &blocks, true);
        let path = dir.path().join("00000.part");
        let bytes = std::fs::read(&path).expect("written");
        // The heads of sections in full, of the rest a part.
        for at in (0..bytes.len()).filter(|at| at % 7 == 0 || at % 300 < 40) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at * 3 % 8);
            std::fs::write(&path, &damaged).expect("damaged");
            let runs = runs(&spill, 4 << 10, 4096);
            let mut records = 0;
            let outcome = runs.sorted(|_, _| {
                records += 1;
                Ok(())
            });
            // Version, codec and hash function of a CID are no part of a bare digest's record.
            if let Err(error) = outcome {
                assert!(error.to_string().contains("is damaged: partition 0"), "{at}: {error}");
            } else {
                assert!(records == blocks.len() && [1, 2, 3].iter().any(|of| is_byte_of_cid(&bytes, at, *of)), "{at}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_the_zeros_behind_a_section_changes_no_record() {
        let blocks: Vec<Pair> = (0..4u8).map(|i| (vec![i; 12], vec![i; 300])).collect();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = spill_of(dir.path(), &blocks, false);
        let path = dir.path().join("00000.part");
        let bytes = std::fs::read(&path).expect("written");
        assert_eq!(bytes.len(), 4 * direct::BLOCK);
        let len = section(&blocks[0].0, &blocks[0].1).len();
        let mut refused = 0;
        for at in
            (0..bytes.len()).filter(|at| at % direct::BLOCK >= len && (at % direct::BLOCK == len || at % 501 == 0))
        {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at * 3 % 8);
            std::fs::write(&path, &damaged).expect("damaged");
            let mut found = Vec::new();
            let outcome = runs(&spill, 64 << 10, 4096).sorted(|record, _| {
                found.push((record.key().to_vec(), record.value().to_vec()));
                Ok(())
            });
            match outcome {
                Ok(()) => assert!(found == blocks, "{at}"),
                Err(error) => {
                    assert!(error.to_string().contains("is damaged: partition 0"), "{at}: {error}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 4, "of the first zero behind each section");
    }

    /// Whether byte `at` is the `of`-th byte of the CID, counted from 1, of a section of `bytes`.
    fn is_byte_of_cid(bytes: &[u8], at: usize, of: usize) -> bool {
        let mut start = 0;
        while let Ok(Step::Section(section)) = next_section(bytes, start, u64::MAX) {
            if section.cid_start + of - 1 == at {
                return true;
            }
            start = section.end;
        }
        false
    }

    #[test]
    fn a_partition_without_blocks_has_no_records() {
        assert_eq!(sorted(&[], 1 << 20), (Vec::new(), 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_come_in_key_order_whatever_the_memory(
            keys in prop::collection::vec(prop_oneof![
                prop::collection::vec(0u8..2, 0..12),
                prop::collection::vec(any::<u8>(), 0..40),
            ], 0..200),
            lengths in prop::collection::vec(prop_oneof![0usize..50, 0usize..5000], 200),
            memory in 2_000usize..200_000,
        ) {
            let data = |(index, key): (usize, Vec<u8>)| (key, vec![index as u8; lengths[index]]);
            let blocks: Vec<_> = keys.into_iter().enumerate().map(data).collect();
            let (found, _) = sorted(&blocks, memory);
            prop_assert!(found.is_sorted_by_key(|(key, _)| key));
            let count = |records: &[Pair]| {
                let mut counts = BTreeMap::new();
                for record in records {
                    *counts.entry(record.clone()).or_insert(0) += 1;
                }
                counts
            };
            prop_assert!(count(&found) == count(&blocks), "other records than went in");
        }
    }
}
