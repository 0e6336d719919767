//! The state of an import after all entries of its journal.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::DigestKey;
use crate::load::built::{FamilyDone, RangeDone, SstFile};
use crate::load::identity::Identity;
use crate::load::journal::{Checkpoint, DatabaseState, Entry, PartitionCheckpoint, RunDone, SourceDelta};
use crate::load::source_identity::Inode;
use crate::sort::record_set::RecordRange;
use crate::sort::{PartitionExtent, Router, SourceMark};
use crate::source::car::SourceRead;
use crate::text::size::{counted, grouped, human};

/// The work of earlier runs, as the journal lists it.
#[derive(Debug, Default)]
pub(in crate::load) struct ResumedState {
    pub identity: Option<Identity>,
    /// The key by which the stored records of a CAR are compared with the verified ones. Without a key nothing is read twice,
    /// and the content digest suffices.
    pub digest_key: Option<DigestKey>,
    /// For each source, true if its inode or ctime changed or is unknown: then what was taken is compared with its content.
    pub touched: Vec<bool>,
    /// True if the run that began compared the source with the sum that this run compares it with.
    pub compared: bool,
    pub car: ResumedCar,
    /// Hash functions of keys that do not name theirs.
    pub functions: BTreeSet<u64>,
    /// The position in the source after a read into memory or through memtables, and its null padding.
    pub held: Option<(Checkpoint, u64)>,
    /// Ranges of partitions that are built, and what was built of them.
    pub built_partitions: Vec<(u32, u32)>,
    pub built: FamilyDone,
    /// Files of a bundle that are here, by number, with their inodes when they were verified.
    pub fetched: BTreeMap<u32, (SstFile, Inode)>,
    /// Files that are published, and where.
    pub published: Vec<(String, SstFile)>,
    /// Ranges of a log that are built.
    pub ranges: Vec<RangeDone>,
    /// Runs of records, and the ranges in which records are built.
    pub runs: Vec<RunDone>,
    pub cut: Option<Vec<RecordRange>>,
    pub ingesting: bool,
    pub ingested: bool,
    /// The state of an existing database as this import left it.
    pub opened: Option<DatabaseState>,
    /// True if an existing database may be partly restored from its backup.
    pub is_restoring: bool,
    pub is_complete: bool,
    /// The checksum of the complete database's `BEDLOAD.json`, once its name may have been exchanged.
    pub exchanging: Option<String>,
    /// True if a line of the journal is damaged.
    pub is_damaged: bool,
}

/// The work of earlier runs on the partitions of CARs.
#[derive(Debug, Default)]
pub(in crate::load) struct ResumedCar {
    pub router: Option<Router>,
    /// True if partitions refer to the source, as the run that made them decided.
    pub by_reference: Option<bool>,
    pub sources: Vec<SourceRead>,
    /// Marks of partitions, each where another source begins.
    pub marks: Vec<(u32, SourceMark)>,
    /// The last durable checkpoint, and the extents of the partitions at it.
    pub read: Option<(Checkpoint, Vec<(u32, PartitionExtent)>)>,
    /// Bytes of null padding, if the source was read to its end.
    pub read_done: Option<u64>,
}

impl ResumedState {
    /// Applies the next entry of the journal.
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Start { identity, digest_key, .. } => {
                (self.identity, self.digest_key) = (Some(*identity), digest_key);
            }
            Entry::Routed { router, by_reference } => {
                (self.car.router, self.car.by_reference) = (Some(router), Some(by_reference));
            }
            Entry::Hashed { functions } => self.functions.extend(functions),
            Entry::Held { checkpoint, padding, delta } => {
                self.held = Some((checkpoint, padding));
                self.car.add(delta);
            }
            Entry::Read(read) => self.car.add_read(read),
            Entry::ReadDone { read, padding } => {
                self.car.add_read(read);
                self.car.read_done = Some(padding);
            }
            Entry::Built { first, end, built } => {
                self.built_partitions.push((first, end));
                self.built.add(&built);
            }
            // A file that was found changed was fetched again.
            Entry::Fetched { number, file, inode } => drop(self.fetched.insert(number, (file, inode))),
            Entry::Published { place, file } => self.published.push((place, file)),
            Entry::Range(done) => self.ranges.push(*done),
            Entry::Run(mut run) => {
                self.car.read = Some((run.checkpoint, Vec::new()));
                self.car.add(SourceDelta { sources: std::mem::take(&mut run.sources), ..SourceDelta::default() });
                self.runs.push(*run);
            }
            Entry::Cut { ranges } => self.cut = Some(ranges),
            Entry::Ingesting => self.ingesting = true,
            Entry::Ingested => self.ingested = true,
            Entry::Opened { state } => self.opened = Some(state),
            Entry::Restoring => self.is_restoring = true,
            // The files of the import stay.
            Entry::Undone => {
                (self.is_restoring, self.opened, self.ingesting, self.ingested) = (false, None, false, false)
            }
            Entry::Complete => self.is_complete = true,
            Entry::Exchanging { record } => self.exchanging = Some(record),
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &SstFile> {
        let fetched = self.fetched.values().map(|(file, _)| file);
        let sorted = self.runs.iter().flat_map(|run| &run.files);
        self.built.files.iter().chain(fetched).chain(self.ranges.iter().flat_map(RangeDone::files)).chain(sorted)
    }

    /// The hint of an interrupted import: what of it is durable.
    pub fn hint(&self) -> String {
        let again = "run the same command again: it resumes";
        let files = match self.files().count() as u64 {
            0 => None,
            count => {
                let bytes = self.files().map(|file| file.bytes).sum();
                Some(format!("{}, {}", counted(count, "finished file", "finished files"), human(bytes)))
            }
        };
        let read = self.car.read.as_ref().map(|(checkpoint, _)| match self.car.read_done {
            Some(_) => "after the last byte of the source".to_owned(),
            None => format!("at byte {} of the source", grouped(checkpoint.consumed)),
        });
        match (read, files) {
            _ if self.ingesting || self.is_complete => format!("{again} with the complete database"),
            _ if self.has_piped_records() => "the same command reads the pipe from its beginning".into(),
            (Some(read), Some(files)) => format!("{again} {read}, with {files}"),
            (Some(read), None) => format!("{again} {read}"),
            (None, Some(files)) if self.held.is_some() => format!("{again} with {files}, and reads the source again"),
            (None, Some(files)) => format!("{again} with {files}"),
            (None, None) => "no checkpoint yet: the same command starts from the beginning".into(),
        }
    }

    fn has_piped_records(&self) -> bool {
        let are_records = !self.runs.is_empty() || self.cut.is_some();
        are_records && self.identity.as_ref().is_some_and(Identity::has_pipe)
    }

    pub fn is_touched(&self) -> bool {
        self.touched.is_empty() || self.touched.contains(&true)
    }

    /// True if the source with this number may have changed.
    pub fn is_source_touched(&self, source: u32) -> bool {
        self.touched.get(source as usize).is_none_or(|touched| *touched)
    }

    /// The last checkpoint of a CAR that was read to its end, and its null padding.
    pub fn whole(&self) -> Option<(Checkpoint, u64)> {
        let read = self.car.read.as_ref().zip(self.car.read_done);
        read.map(|((checkpoint, _), padding)| (*checkpoint, padding)).or(self.held)
    }

    pub fn is_whole_log(&self) -> bool {
        self.ingesting || self.held.is_some()
    }

    pub fn is_built(&self, partition: u32) -> bool {
        self.built_partitions.iter().any(|&(first, end)| (first..end).contains(&partition))
    }
}

impl ResumedCar {
    fn add_read(&mut self, PartitionCheckpoint { checkpoint, extents, delta }: PartitionCheckpoint) {
        self.read = Some((checkpoint, extents));
        self.add(delta);
    }

    fn add(&mut self, delta: SourceDelta) {
        for read in delta.sources {
            // Entries list the sources in their order.
            match self.sources.binary_search_by_key(&read.source, |known| known.source) {
                Ok(place) => self.sources[place].take(read),
                Err(place) => self.sources.insert(place, read),
            }
        }
        self.marks.extend(delta.marks);
    }
}
