//! The context of an import once its plan is made, and the result of loading.

use std::sync::Arc;

use crate::error::{Error, errno_of};
use crate::hash::content_digest::ContentDigest;
use crate::load::existing::Existing;
use crate::load::journal::{Journal, ResumedState};
use crate::load::links::LinkList;
use crate::load::options::ImportOptions;
use crate::load::sources::Sources;
use crate::load::target::Target;
use crate::load::uploads::Uploads;
use crate::preset::Resolved;
use crate::progress::Progress;
use crate::report::{F3Report, Head, LinkReport, LogReport, MemtableReport, Plan};
use crate::rocks::option_map::OptionMap;
use crate::rocks::{DataFile, FamilyScan, Level, Reader};
use crate::sort::router::{ClassCounts, Router};
use crate::source::car::chunks::Tail;
use crate::source::car::sources::SourceRead;

/// One import, once its plan is made.
pub(super) struct Job<'a> {
    pub options: &'a ImportOptions,
    pub sources: &'a Arc<Sources>,
    pub plan: &'a Plan,
    pub preset: &'a Resolved,
    pub target: &'a Target,
    /// The existing database that is added to.
    pub existing: Option<&'a Existing<'a>>,
    /// The database that is replaced, locked.
    pub replaced: Option<&'a Existing<'a>>,
    pub journal: &'a Journal,
    /// What an earlier run has done.
    pub resumed: &'a ResumedState,
    pub progress: &'a Progress<'a>,
    /// The options of the database while it is loaded.
    pub loading: &'a OptionMap,
    /// Whether files of a bundle take the place of a snapshot.
    pub is_seed: bool,
    /// Files that are published as they are built.
    pub uploads: Option<&'a Uploads<'a>>,
    /// Where keys and links go, if these are to be compared.
    pub links: Option<&'a LinkList>,
}

/// The result of a loader.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Blocks read, duplicates included.
    pub blocks: u64,
    /// Bytes of their values.
    pub payload: u64,
    /// Bytes of the compressed source taken.
    pub consumed: u64,
    pub tail: Tail,
    /// Whether anything was spilled.
    pub spilled: bool,
    /// Records in the database that came from this source.
    pub records: u64,
    pub duplicates: u64,
    /// Of these records, how many an existing database held before.
    pub existing: u64,
    pub digest: ContentDigest,
    pub levels: Vec<Level>,
    /// Bytes of SST files and WAL that were written; `None` where others may have written too.
    pub rocksdb_written: Option<u64>,
    /// What only the memtable loader reports.
    pub memtable: Option<MemtableReport>,
    /// The F3 data that were not stored.
    pub f3: Vec<F3Report>,
    /// What only a block log reports.
    pub log: Option<LogReport>,
    /// What was read of each source of CARs, and its duplicates.
    pub sources: Vec<(SourceRead, u64)>,
    /// How its keys were routed, and what the whole source has; only where blocks were sorted.
    pub routed: Option<(Router, ClassCounts)>,
}

/// What is found out about a snapshot once all its blocks are in the database.
#[derive(Debug, Default)]
pub(super) struct Completeness {
    pub missing_roots: u64,
    pub first_missing_roots: Vec<String>,
    pub links: Option<LinkReport>,
    pub head: Option<Head>,
    /// The network by its genesis, of a shard alone: the head may be in another one.
    pub network: Option<String>,
}

/// The sources with the duplicates of each, of which there are `repeats`.
pub(super) fn with_repeats(sources: Vec<SourceRead>, repeats: &[(u32, u64)]) -> Vec<(SourceRead, u64)> {
    let mut all: Vec<_> = sources.into_iter().map(|source| (source, 0)).collect();
    for (source, count) in repeats {
        if let Some((_, repeats)) = all.get_mut(*source as usize) {
            *repeats += count;
        }
    }
    all
}

impl Job<'_> {
    /// A scan of a column family of a database that this import has made, or adds to.
    pub fn scan<'b>(&'b self, reader: &'b Reader, files: &'b [DataFile], family: &'b str) -> FamilyScan<'b> {
        let Self { plan, progress, options, .. } = *self;
        FamilyScan { reader, files, family, threads: plan.threads, progress, stop: &options.stop }
    }

    /// An error of RocksDB about files that an earlier run has left, as damage to these unless the system failed.
    pub fn damaged(&self, error: Error) -> Error {
        if self.uses_earlier_work() { damaged_by(error) } else { error }
    }

    /// Whether an earlier run has done a part of the work.
    pub fn resumes(&self) -> bool {
        self.uses_earlier_work() || self.resumed.read.is_some()
    }

    /// Whether what an earlier run has built or written becomes part of the database.
    pub fn uses_earlier_work(&self) -> bool {
        let resumed = self.resumed;
        // What was read into partitions alone is compared when they are built.
        !resumed.files.is_empty() || resumed.ingesting || !resumed.ranges.is_empty()
    }
}

/// An error of RocksDB about the work of an earlier run, as damage to that unless the system failed.
pub(super) fn damaged_by(error: Error) -> Error {
    match error {
        Error::Rocks { message, path, .. } if errno_of(&message).is_none() => {
            Error::damaged_work(path, format!("is damaged: {message}"))
        }
        error => error,
    }
}
