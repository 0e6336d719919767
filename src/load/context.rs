//! The context of a planned import, and the result of loading.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::hash::ContentDigest;
use crate::load::built::FamilyDone;
use crate::load::disk_space;
use crate::load::existing::Existing;
use crate::load::identity::Identity;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::load::links::LinkList;
use crate::load::options::ImportOptions;
use crate::load::planner::Planned;
use crate::load::sources::Sources;
use crate::load::target::Target;
use crate::load::uploads::Uploads;
use crate::os::files::sync_dir;
use crate::preset::Resolved;
use crate::progress::Progress;
use crate::report::{F3Report, FamilyReport, Head, LinkReport, LogReport, MemtableReport, Plan, SampleReport};
use crate::rocks::{DataFile, FamilyFacts, FamilyScan, Level, OptionMap, Reader};
use crate::sort::{ClassCounts, Router};
use crate::source::car::{SourceRead, Tail};

/// Records between two checks for a cancellation.
const STEP: u64 = 256;

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
    pub resumed: &'a ResumedState,
    pub progress: &'a Progress<'a>,
    /// The options of the database while it is loaded.
    pub loading: &'a OptionMap,
    /// Publishes files as they are built.
    pub uploads: Option<&'a Uploads<'a>>,
    /// The keys and links, if these are to be compared.
    pub links: Option<&'a LinkList>,
}

/// The decisions before an import writes anything.
pub(super) struct Prepared {
    pub sources: Arc<Sources>,
    pub preset: Resolved,
    pub planned: Planned,
    pub identity: Identity,
    /// True if all sources are files that need no decompression.
    pub is_plain: bool,
}

impl Prepared {
    /// Adds the missing space to a disk-full error.
    pub fn explain(&self, error: Error, target: &Target) -> Error {
        // A disk may damage files of this run too.
        if let Error::Rocks { path, message, .. } = &error
            && error.is_corruption()
            && (path.starts_with(&target.partial) || message.contains(&*target.sst.to_string_lossy()))
        {
            return damaged_by(error);
        }
        if let Error::Usage { reason, .. } = &error
            && reason.contains(&*target.staging.to_string_lossy())
        {
            return Error::damaged_work(&target.staging, format!("is damaged: {reason}"));
        }
        let space = || disk_space::of(&self.planned.plan, self.is_plain, self.planned.least_bytes, target);
        disk_space::explain(error, space)
    }
}

#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Blocks read, duplicates included.
    pub blocks: u64,
    pub payload: u64,
    /// Bytes of the compressed source taken.
    pub consumed: u64,
    pub tail: Tail,
    pub spilled: bool,
    /// Records in the database that came from this source.
    pub records: u64,
    pub duplicates: u64,
    /// The number of these records that an existing database had before.
    pub existing: u64,
    pub digest: ContentDigest,
    pub levels: Vec<Level>,
    /// Bytes of SST files and WAL that were written; `None` if other programs may have written too.
    pub rocksdb_written: Option<u64>,
    pub memtable: Option<MemtableReport>,
    /// The F3 data that were not stored.
    pub f3: Vec<F3Report>,
    pub log: Option<LogReport>,
    /// The column families of a copied database, and the facts of the old ones.
    pub families: Vec<FamilyReport>,
    pub before: Vec<FamilyFacts>,
    /// The estimate from a sample of a database.
    pub sample: Option<SampleReport>,
    /// The presets of column families that have their own.
    pub presets: Vec<(String, Resolved)>,
    /// The sources of CARs, and the duplicates by the number of the source.
    pub sources: Vec<SourceRead>,
    pub repeats: BTreeMap<u32, u64>,
    /// The router of keys and the counts of the whole source, if blocks were sorted.
    pub routed: Option<(Router, ClassCounts)>,
}

impl Loaded {
    /// The result of loading column families whose values have `payload` bytes.
    pub fn of_families(families: Vec<FamilyReport>, presets: Vec<(String, Resolved)>, payload: u64) -> Self {
        let records = families.iter().map(|family| family.records).sum();
        let mut digest = ContentDigest::default();
        families.iter().for_each(|family| digest.merge(family.digest));
        let levels = families.first().map(|family| family.levels.clone()).unwrap_or_default();
        let written = families.iter().flat_map(|family| &family.levels).map(|level| level.bytes).sum();
        Self {
            blocks: records,
            payload,
            records,
            digest,
            levels,
            rocksdb_written: Some(written),
            families,
            presets,
            ..Self::default()
        }
    }
}

/// The completeness of a snapshot, checked when all its blocks are in the database.
#[derive(Debug, Default)]
pub(super) struct Completeness {
    pub missing_roots: u64,
    pub first_missing_roots: Vec<String>,
    pub links: Option<LinkReport>,
    pub head: Option<Head>,
    /// The network of a shard by its genesis; the head may be in another shard.
    pub network: Option<String>,
}

impl Job<'_> {
    /// A scan of a column family of a database that this import has made, or adds to.
    pub fn scan<'b>(&'b self, reader: &'b Reader, files: &'b [DataFile], family: &'b str) -> FamilyScan<'b> {
        let Self { plan, progress, options, .. } = *self;
        FamilyScan { reader, files, family, threads: plan.threads, progress, stop: &options.stop }
    }

    /// Checks that no program wrote to the sources while they were read.
    pub fn check_sources(&self) -> Result<()> {
        self.resumed.identity.as_ref().map_or(Ok(()), |identity| identity.check_unchanged(self.options))
    }

    /// Counts a record of a range, and checks for a cancellation from time to time.
    pub fn step(&self, done: &mut (u64, u64), len: usize) -> Result<()> {
        *done = (done.0 + len as u64, done.1 + 1);
        if done.1 == STEP {
            self.options.check_cancelled()?;
            self.progress.add(done.0, done.1);
            *done = (0, 0);
        }
        Ok(())
    }

    /// Notes in the journal that the partitions are in finished, synced files of a family, and publishes these.
    pub fn note_built(&self, partitions: &Range<u32>, family: &str, built: &FamilyDone) -> Result<()> {
        failpoint::reach("built-synced");
        sync_dir(&self.target.sst)?;
        let &Range { start: first, end } = partitions;
        self.journal.append(&Entry::Built { first, end, built: built.clone() })?;
        failpoint::reach("built");
        self.uploads.map_or(Ok(()), |uploads| uploads.add(family, &built.files))
    }

    /// Reports an error of RocksDB as damage to the work of an earlier run, if there is any, unless the system failed.
    pub fn damaged(&self, error: Error) -> Error {
        if self.uses_earlier_work() { damaged_by(error) } else { error }
    }

    /// True if an earlier run did a part of the work.
    pub fn resumes(&self) -> bool {
        self.uses_earlier_work() || self.resumed.car.read.is_some()
    }

    /// True if files or records of an earlier run become part of the database.
    pub fn uses_earlier_work(&self) -> bool {
        let resumed = self.resumed;
        // Partitions are compared when they are built.
        resumed.files().next().is_some() || resumed.ingesting || !resumed.ranges.is_empty()
    }
}

/// Reports an error of RocksDB as damage to the work of an earlier run, unless the system failed.
pub(super) fn damaged_by(error: Error) -> Error {
    match error {
        Error::Rocks { message, path, .. } if errno_of(&message).is_none() => {
            Error::damaged_work(path, format!("is damaged: {message}"))
        }
        error => error,
    }
}
