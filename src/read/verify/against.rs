//! Compares the source's records with the database's, in both directions and within bounded memory: the keys and hashes of all
//! blocks are partitioned by the key ranges of the later scan, in memory or spilled to a file per range, then sorted and compared.
//!
//! ```text
//! entry: u32 length of the key | key | u128 XXH3-128 of key and value, seed = bytes in key          little-endian
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::job::VerifyJob;
use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::read::snapshot::{CHUNK, SnapshotReader};
use crate::report::ImportReport;
use crate::rocks::key_ranges::{KeyRange, range_of};
use crate::sort::key::Record;
use crate::source::car::chunk::Chunk;
use crate::source::car::{CarProblem, NullPadding};
use crate::source::input::{self, Extent, InputOptions};

const HASH: usize = 16;

/// Records of a source, by key range.
pub(super) struct SourceIndex {
    parts: Vec<Mutex<IndexPart>>,
    dir: Mutex<Option<tempfile::TempDir>>,
    work_dir: PathBuf,
    budget: u64,
    held: AtomicU64,
    /// Blocks of the source, including duplicates.
    pub blocks: AtomicU64,
}

#[derive(Default)]
struct IndexPart {
    entries: Vec<u8>,
    file: Option<PathBuf>,
}

/// Replaces the hint for a block log, which is about an option of `import`.
fn with_hint_for_block_log(error: Error) -> Error {
    match error {
        Error::BadInput { path, offset, problem, .. }
            if matches!(problem.downcast_ref(), Some(CarProblem::Foreign { what: "a block log", .. })) =>
        {
            let hint = "pass the CAR that the database was imported from";
            Error::bad_input(&path, offset, CarProblem::Foreign { what: "a block log", hint })
        }
        other => other,
    }
}

impl SourceIndex {
    /// Reads the snapshot at `path`.
    pub fn read(job: &VerifyJob<'_>, path: &Path, ranges: &[KeyRange], record: Option<&ImportReport>) -> Result<Self> {
        let VerifyJob { options, progress, .. } = job;
        let (threads, memory) = (options.resources.thread_count(), options.resources.memory_budget()?);
        let padded = record.is_some_and(|record| record.source.null_padding > 0);
        let padding = options.null_padding.unwrap_or(if padded { NullPadding::Eof } else { NullPadding::Error });
        let network = options.network.clone();
        let how = InputOptions { network, extent: Extent::All, ..InputOptions::of_share(threads, memory / 4) };
        let mut snapshot =
            SnapshotReader::open(path, input::open(path, &how)?, padding, CHUNK, (memory, threads), progress)
                .map_err(with_hint_for_block_log)?;
        // Blocks after the index of a CARv2 are not found, so they are reported as missing.
        snapshot.chunks.accept_concatenated(true);
        let index = Self {
            parts: ranges.iter().map(|_| Mutex::default()).collect(),
            dir: Mutex::default(),
            work_dir: options.resources.scratch_parent(),
            budget: memory / 2,
            held: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
        };
        // CIDs of the blocks that the import omitted.
        let left_out = record.map(ImportReport::left_out).unwrap_or_default();
        let add = |(): &mut (), chunk: &Chunk| index.add_chunk(path, chunk, job, &left_out, ranges);
        snapshot.read_rest(&mut vec![(); threads], &options.resources.stop, progress, add)?;
        Ok(index)
    }

    fn add_chunk(
        &self,
        path: &Path,
        chunk: &Chunk,
        job: &VerifyJob<'_>,
        left_out: &HashSet<Vec<u8>>,
        ranges: &[KeyRange],
    ) -> Result<()> {
        let mut kept = 0;
        let blocks = SnapshotReader::sections(path, chunk, |section, _, body| {
            if body.get(..section.cid.len as usize).is_some_and(|cid| left_out.contains(cid)) {
                return Ok(());
            }
            let record = Record::new(&chunk.bytes, section, job.keys.layout);
            let (key_and_value, key_len) = record.parts();
            let hash = ContentDigest::of_section(key_and_value, key_len).value();
            if let Some(part) = self.parts.get(range_of(ranges, record.key())) {
                let mut part = part.lock();
                part.entries.extend_from_slice(&(key_len as u32).to_le_bytes());
                part.entries.extend_from_slice(record.key());
                part.entries.extend_from_slice(&hash.to_le_bytes());
            }
            kept += (4 + key_len + HASH) as u64;
            Ok(())
        })?;
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
        job.progress.add(0, blocks);
        // Vectors double when they grow, so half of the budget is for their spare capacity.
        if self.held.fetch_add(kept, Ordering::Relaxed) + kept > self.budget / 2 {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&self) -> Result<()> {
        let mut dir = self.dir.lock();
        if self.held.load(Ordering::Relaxed) <= self.budget / 2 {
            // Another thread spilled first.
            return Ok(());
        }
        if dir.is_none() {
            let mut builder = tempfile::Builder::new();
            builder.prefix("bedload-verify-").permissions(std::fs::Permissions::from_mode(0o700));
            let made = builder.tempdir_in(&self.work_dir);
            *dir = Some(made.map_err(Error::io("create a directory in", &self.work_dir))?);
        }
        let Some(dir) = dir.as_ref() else { return Ok(()) };
        self.held.store(0, Ordering::Relaxed);
        for (number, part) in self.parts.iter().enumerate() {
            let mut part = part.lock();
            if part.entries.is_empty() {
                continue;
            }
            let path = part.file.clone().unwrap_or_else(|| dir.path().join(number.to_string()));
            let append = || File::options().create(true).append(true).open(&path)?.write_all(&part.entries);
            append().map_err(Error::io("write", &path))?;
            *part = IndexPart { entries: Vec::new(), file: Some(path) };
        }
        Ok(())
    }

    /// Takes the entries of a range, sorted by key, without duplicates.
    pub fn take_range(&self, range: usize) -> Result<SourceEntries> {
        let Some(part) = self.parts.get(range) else { return Ok(SourceEntries::default()) };
        let IndexPart { entries: held, file } = std::mem::take(&mut *part.lock());
        let mut bytes = Vec::new();
        if let Some(path) = file {
            let mut read = || File::open(&path)?.read_to_end(&mut bytes);
            read().map_err(Error::io("read", &path))?;
            std::fs::remove_file(&path).map_err(Error::io("delete", &path))?;
        }
        bytes.extend_from_slice(&held);
        Ok(SourceEntries::sort(bytes))
    }
}

/// Entries of one range in key order.
#[derive(Default)]
pub(super) struct SourceEntries {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    /// Keys with two different blocks in the source.
    pub conflicts: Vec<Vec<u8>>,
    /// Content of the distinct records.
    pub content: Content,
    at: usize,
}

impl SourceEntries {
    fn sort(bytes: Vec<u8>) -> Self {
        let mut starts = Vec::new();
        let mut at = 0;
        while let Some((_, _, end)) = entry(&bytes, at) {
            starts.push(at);
            at = end;
        }
        let part = |start: usize| entry(&bytes, start).map(|(key, hash, _)| (key, hash));
        starts.sort_unstable_by(|&one, &other| part(one).cmp(&part(other)));
        starts.dedup_by(|one, other| part(*one) == part(*other));
        let mut conflicts: Vec<Vec<u8>> = Vec::new();
        starts.dedup_by(|one, other| {
            let same = part(*one).map(|(key, _)| key) == part(*other).map(|(key, _)| key);
            if same {
                conflicts.extend(part(*one).map(|(key, _)| key.to_vec()));
            }
            same
        });
        conflicts.dedup();
        let mut content = Content::default();
        let hashes = starts.iter().filter_map(|&start| part(start));
        hashes.for_each(|(_, hash)| content.add(ContentDigest::from_value(hash)));
        Self { bytes, starts, conflicts, content, at: 0 }
    }

    /// Skips the entries before the key `next`, or all, and passes their keys to `passed`.
    pub fn skip_before(&mut self, next: Option<&[u8]>, mut passed: impl FnMut(&[u8])) {
        while let Some((key, _)) = self.peek().filter(|(key, _)| next.is_none_or(|next| *key < next)) {
            passed(key);
            self.at += 1;
        }
    }

    /// Takes the entry of `key`, if it is the current one, and returns its hash.
    pub fn take(&mut self, key: &[u8]) -> Option<u128> {
        let (_, hash) = self.peek().filter(|(known, _)| *known == key)?;
        self.at += 1;
        Some(hash)
    }

    fn peek(&self) -> Option<(&[u8], u128)> {
        let (key, hash, _) = entry(&self.bytes, *self.starts.get(self.at)?)?;
        Some((key, hash))
    }
}

/// Returns key, hash and end of the entry at `at`.
fn entry(bytes: &[u8], at: usize) -> Option<(&[u8], u128, usize)> {
    let (len, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let key = rest.get(..len)?;
    let hash = rest.get(len..)?.first_chunk::<HASH>()?;
    Some((key, u128::from_le_bytes(*hash), at + 4 + len + HASH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(entries: &[(&[u8], u128)]) -> Vec<u8> {
        let encode = |(key, hash): &(&[u8], u128)| {
            [&(key.len() as u32).to_le_bytes()[..], key, &hash.to_le_bytes()[..]].concat()
        };
        entries.iter().flat_map(encode).collect()
    }

    #[test]
    fn entries_are_sorted_and_conflicts_reported() {
        let mut entries =
            SourceEntries::sort(encode(&[(b"b", 2), (b"a", 1), (b"ab", 7), (b"a", 1), (b"b", 3), (b"", 0)]));
        assert_eq!(entries.conflicts, [b"b"]);
        assert_eq!(entries.content.records, 4);
        for (key, hash) in [(&b""[..], 0), (b"a", 1)] {
            assert_eq!(entries.take(key), Some(hash));
        }
        assert_eq!(entries.take(b"b"), None, "ab is first");
        let mut passed = Vec::new();
        entries.skip_before(Some(b"b"), |key| passed.push(key.to_vec()));
        assert_eq!((entries.take(b"b"), passed), (Some(2), vec![b"ab".to_vec()]));
    }
}
