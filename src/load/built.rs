//! Finished files, the records in them, and the ranges of a log that they have.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::hash::{Content, ContentDigest};
use crate::report::{BlockRef, FamilyReport, Packings};
use crate::rocks::{FamilyFacts, Level};
use crate::sort::PartitionExtent;
use crate::source::block_log::Range;

/// A finished SST file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SstFile {
    /// Its name in the `sst` folder.
    pub name: String,
    /// Its size in bytes; of a published file, the size at its place.
    pub bytes: u64,
    /// The first and the last key in it, as hex.
    pub first: String,
    pub last: String,
    /// The number of records in it, and their content digest.
    pub records: u64,
    pub digest: ContentDigest,
    /// Its column family, if the file is published or comes from a bundle.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
    /// The BLAKE3 of the published file, as hex. That may be another file with the same records.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub blake3: String,
}

impl SstFile {
    pub fn content(&self) -> Content {
        Content { records: self.records, digest: self.digest }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct Tally {
    pub written: Content,
    /// Further occurrences of their blocks. Of a CAR only the number is counted.
    pub duplicates: Content,
    /// Digest of the records and duplicates of a CAR, by the key of the import if it has one.
    pub checked: ContentDigest,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.written.merge(other.written);
        self.duplicates.merge(other.duplicates);
        self.checked.merge(other.checked);
    }

    /// The records and duplicates of a CAR, to be compared with those that were verified.
    pub fn verified(&self) -> Content {
        Content { records: self.written.records + self.duplicates.records, digest: self.checked }
    }

    /// The records and duplicates, to be compared with those that were read.
    pub fn read(&self) -> Content {
        self.written.and(self.duplicates)
    }
}

/// Consecutive blocks of a log that are in finished files, or were written through memtables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct RangeDone {
    /// The file of the log, counted from 0, and the bytes in it.
    pub part: usize,
    pub start: u64,
    pub end: u64,
    /// The block before the first one, as that names it.
    pub before: String,
    pub first: BlockRef,
    pub last: BlockRef,
    pub blocks: FamilyDone,
    pub ids: FamilyDone,
    /// Bytes of the blocks, unpacked.
    pub payload: u64,
    pub packings: Packings,
    pub checkpoints: u64,
    /// The records of its transactions, if they are indexed.
    pub transactions: Content,
    pub unknown_operations: u64,
    /// The extents of the partitions of transactions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u32, PartitionExtent)>,
}

/// The files of one family, and what went into them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct FamilyDone {
    pub files: Vec<SstFile>,
    pub tally: Tally,
    /// Duplicates by the number of the source that has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<(u32, u64)>,
}

impl RangeDone {
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

    pub fn files(&self) -> impl Iterator<Item = &SstFile> {
        self.blocks.files.iter().chain(&self.ids.files)
    }

    /// True if the range `next` follows without a gap.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        self.part == next.part && self.end == next.start && self.last.id == next.before
    }

    pub fn join(mut self, next: Self) -> Self {
        self.end = next.end;
        self.last = next.last;
        self.blocks.add(&next.blocks);
        self.ids.add(&next.ids);
        self.payload += next.payload;
        self.packings.add(next.packings);
        self.checkpoints += next.checkpoints;
        self.transactions.merge(next.transactions);
        self.unknown_operations += next.unknown_operations;
        self.extents = next.extents;
        self
    }
}

impl FamilyDone {
    pub fn of_files(files: Vec<SstFile>) -> Self {
        let written = files.iter().map(SstFile::content).sum();
        Self { files, tally: Tally { written, ..Tally::default() }, repeats: Vec::new() }
    }

    pub fn report(&self, name: &str, levels: Vec<Level>) -> FamilyReport {
        let Content { records, digest } = self.tally.written;
        let Content { records: duplicates, digest: duplicate_digest } = self.tally.duplicates;
        FamilyReport { name: name.to_owned(), records, duplicates, digest, duplicate_digest, levels }
    }

    pub fn paths(&self, dir: &Path) -> Vec<PathBuf> {
        self.files.iter().map(|file| dir.join(&file.name)).collect()
    }

    pub fn add(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
        self.tally.add(other.tally);
        self.repeats.extend_from_slice(&other.repeats);
    }
}

/// Groups files by column family.
pub(in crate::load) fn by_family<'a>(families: &'a [FamilyFacts], mut all: Vec<SstFile>) -> Vec<(&'a str, FamilyDone)> {
    let of = |facts: &'a FamilyFacts| {
        let mut files: Vec<SstFile> = all.extract_if(.., |file| file.family == facts.name).collect();
        files.sort_by(|a, b| if facts.is_reversed() { b.first.cmp(&a.first) } else { a.first.cmp(&b.first) });
        (facts.name.as_str(), FamilyDone::of_files(files))
    };
    families.iter().map(of).collect()
}
