//! What is built and durable: finished files, what went into them, and the ranges of a log that they hold.

use serde::{Deserialize, Serialize};

use crate::hash::content_digest::{Content, ContentDigest};
use crate::report::{BlockRef, FamilyReport, Packings};
use crate::rocks::Level;
use crate::sort::spill::Extent;
use crate::source::block_log::Range;

/// A finished SST file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SstFile {
    /// Its name in the `sst` folder.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The first key in it, as hex.
    pub first: String,
    /// The last key in it, as hex.
    pub last: String,
    /// Records in it.
    pub records: u64,
    /// Their content digest.
    pub digest: ContentDigest,
}

/// A finished file, and what is known of its bytes where they are published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadFile {
    pub family: String,
    pub file: SstFile,
    /// The size and the BLAKE3, as hex, of what stands for it where it is published.
    pub bytes: u64,
    pub blake3: String,
}

/// What went into files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct Tally {
    /// Records.
    pub records: u64,
    /// Blocks that came more than once.
    pub duplicates: u64,
    /// Content digest of the records.
    pub digest: ContentDigest,
    /// Content digest of the duplicates, each as often as it came.
    pub duplicate_digest: ContentDigest,
    /// Digest of the records of a CAR, duplicates included, by the key of the import if it has one.
    #[serde(default)]
    pub checked_digest: ContentDigest,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.duplicates += other.duplicates;
        self.digest.merge(other.digest);
        self.duplicate_digest.merge(other.duplicate_digest);
        self.checked_digest.merge(other.checked_digest);
    }

    /// What is in the files.
    pub fn written(&self) -> Content {
        Content { records: self.records, digest: self.digest }
    }

    /// The records of a CAR that must have been verified for this.
    pub fn verified(&self) -> Content {
        Content { records: self.records + self.duplicates, digest: self.checked_digest }
    }

    /// What must have been read for this: records and duplicates together.
    pub fn read(&self) -> Content {
        let mut content = self.written();
        content.merge(Content { records: self.duplicates, digest: self.duplicate_digest });
        content
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
    pub transactions: u64,
    /// Content digest of their records, where they are indexed.
    #[serde(default)]
    pub transaction_digest: ContentDigest,
    pub unknown_operations: u64,
    /// How long the partitions of transactions were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extents: Vec<(u32, Extent)>,
}

/// What went into one family.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct FamilyDone {
    pub files: Vec<SstFile>,
    pub tally: Tally,
    /// Duplicates by the source that has them, counted from 0: where a block comes more than once, all but the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<(u32, u64)>,
}

impl RangeDone {
    /// Where its blocks are in the log.
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

    /// The records of its transactions.
    pub fn transaction_content(&self) -> Content {
        Content { records: self.transactions, digest: self.transaction_digest }
    }

    /// All files, of whatever family.
    pub fn files(&self) -> impl Iterator<Item = &SstFile> {
        self.blocks.files.iter().chain(&self.ids.files)
    }

    /// Appends the range `next`, if it follows without a gap; otherwise returns it.
    pub fn join(&mut self, next: Self) -> Option<Self> {
        let follows = self.part == next.part && self.end == next.start && self.last.id == next.before;
        if !follows {
            return Some(next);
        }
        self.end = next.end;
        self.last = next.last;
        self.blocks.add(&next.blocks);
        self.ids.add(&next.ids);
        self.payload += next.payload;
        self.packings.add(next.packings);
        self.checkpoints += next.checkpoints;
        self.transactions += next.transactions;
        self.transaction_digest.merge(next.transaction_digest);
        self.unknown_operations += next.unknown_operations;
        self.extents = next.extents;
        None
    }
}

impl FamilyDone {
    /// What the report says about family `name`, which has `levels`.
    pub fn report(&self, name: &str, levels: Vec<Level>) -> FamilyReport {
        let Tally { records, duplicates, digest, duplicate_digest, .. } = self.tally;
        FamilyReport { name: name.to_owned(), records, duplicates, digest, duplicate_digest, levels }
    }

    pub fn add(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
        self.tally.add(other.tally);
        self.repeats.extend_from_slice(&other.repeats);
    }
}
