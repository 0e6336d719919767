//! The ingest loader: sort, build the final SST files, hand them over at the last level.

use std::path::PathBuf;

use super::build::{self, Building, Built, show_key};
use super::existing::{Existing, Held};
use super::families::Families;
use super::import::Loaded;
use super::job::Job;
use super::journal::Entry;
use super::publish::sync_dir;
use super::read::{self as reading, Reading};
use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::preset::Loader;
use crate::progress::Phase;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{Level, Reader, ReaderOptions, SstOptions, Store, TableCheck, Visit};
use crate::source::car::CarProblem;
use crate::source::car::chunks::Chunks;

/// Records that are looked up at once in a database that is there, and their bytes.
const LOOKED_UP: usize = 256;
const LOOKED_UP_BYTES: usize = 1 << 20;

impl Job<'_> {
    /// From the first block to a database that is closed and ready, not yet under its name.
    pub fn build_and_ingest(&self, mut chunks: Chunks) -> Result<Loaded> {
        let Self { options, plan, target, progress, .. } = *self;
        let sst = SstOptions::new(&self.loading, &target.sst)?;
        let Self { journal, before, .. } = *self;
        let reading = Reading { options, plan, progress, spill_dir: &target.spill, journal, before };
        let blocks = match reading.done_before(&mut chunks)? {
            Some(blocks) => blocks,
            None => reading.run(chunks)?,
        };

        progress.begin(Phase::Build, Some(blocks.mark.payload));
        let done = before.tally.records + before.tally.duplicates;
        if done > 0 {
            let share = done as f64 / blocks.mark.blocks.max(1) as f64;
            progress.take_up((blocks.mark.payload as f64 * share) as u64, before.tally.records);
        }
        let spilled = matches!(blocks.held, reading::Held::Spilled(_));
        let building = Building { options, plan, sst: &sst, dir: &target.sst, progress, journal, before };
        let built = build::build(&blocks.held, &blocks.router, &building)?;
        drop(blocks.held);
        // Each partition was compared when it was built, some by an earlier run; this is the whole.
        if built.tally.read() != blocks.mark.content() {
            let what = format!("holds {}, {} were verified", built.tally.read(), blocks.mark.content());
            return Err(Error::damaged_work(&target.partial, what));
        }

        if let Some(identity) = &before.identity {
            identity.still_holds(options)?;
        }
        progress.begin(Phase::Ingest, None);
        let levels = match self.existing {
            Some(existing) => self.add(&built, existing)?,
            None => self.hand_over(&built)?,
        };
        let (mark, tally) = (blocks.mark, built.tally);
        Ok(Loaded {
            blocks: mark.blocks,
            payload: mark.payload,
            consumed: mark.consumed,
            tail: blocks.tail,
            spilled,
            records: tally.records,
            duplicates: tally.duplicates,
            digest: tally.digest,
            levels,
            rocksdb_written: (!options.into_existing).then(|| built.files.iter().map(|file| file.bytes).sum()),
            memtable: None,
            log: None,
        })
    }

    /// Says before it happens that files may leave.
    fn begin_ingest(&self) -> Result<()> {
        if !self.before.ingesting {
            self.journal.append(&Entry::Ingesting)?;
        }
        failpoint::reach("ingesting");
        Ok(())
    }

    fn lacks(&self, what: String) -> Error {
        Error::damaged_work(&self.target.partial, format!("lacks {what}"))
    }

    /// What RocksDB says of files that an earlier run has left, where it is not the system that fails.
    pub(in crate::load) fn damaged(&self, error: Error) -> Error {
        if self.takes_over() { damaged_by(error) } else { error }
    }

    /// Whether what an earlier run has built or written becomes part of the database.
    fn takes_over(&self) -> bool {
        let before = self.before;
        // What was read into partitions alone is compared when they are built.
        let is_written = before.read.is_some() && self.preset.loader == Loader::Memtable;
        !before.files.is_empty() || before.ingesting || is_written || !before.ranges.is_empty()
    }

    /// The error for a key that stands for two blocks.
    pub(super) fn conflict(&self, key: &[u8], at: Option<u64>) -> Error {
        Error::bad_input(&self.options.source, at, CarProblem::Conflict { key: show_key(key) })
    }

    /// Files that lay on the disk between two runs are read back before the database gets its name: each of the column
    /// families must have the content that went into its files.
    ///
    /// # Errors
    /// [`Error::State`] where it has another one, or a block does not match its checksum.
    pub(in crate::load) fn check_taken_over(&self, families: &[(&str, Content)]) -> Result<()> {
        if !self.takes_over() {
            return Ok(());
        }
        let staging = &self.target.staging;
        self.progress.begin(Phase::Check, None);
        let reader = Reader::open(staging, &ReaderOptions::once()).map_err(|error| self.damaged(error))?;
        let files = reader.files()?;
        // Filters, and what else going through the records does not touch.
        let check = TableCheck::open(staging).map_err(|error| self.damaged(error))?;
        if let Some((_, error)) = check.fault_at_open(&files) {
            return Err(damaged_by(error));
        }
        for file in &files {
            if let Some(fault) = check.fault(file, &files) {
                return Err(Error::damaged_work(&file.path, format!("is damaged: {fault}")));
            }
        }
        for &(family, written) in families {
            let (found, _) = self.scan(&reader, &files, family).content().map_err(|error| self.damaged(error))?;
            if found != written {
                let what = format!("is damaged: {family} has {found}, {written} were written");
                return Err(Error::damaged_work(staging, what));
            }
        }
        Ok(())
    }

    fn paths(&self, built: &Built) -> Vec<PathBuf> {
        built.files.iter().map(|file| self.target.sst.join(&file.name)).collect()
    }

    /// The database under its working name, before or while it takes files over.
    pub(super) fn open_to_ingest(&self, families: &Families<'_>) -> Result<Store> {
        if !self.before.ingesting {
            // An earlier run may have died while it made the database; no file has gone into it.
            self.target.remove_staging()?;
        }
        let staging = &self.target.staging;
        let store = Store::create_families(staging, &families.loading(), None);
        let store = store.map_err(|error| self.damaged(error))?;
        store.leave_sequence_zero()?;
        Ok(store)
    }

    /// A new database takes the files at its last level; then it is opened once as its node will open it.
    fn hand_over(&self, built: &Built) -> Result<Vec<Level>> {
        let staging = &self.target.staging;
        let family = self.options.column_family.as_str();
        let families = Families::of_car(self);
        let store = self.open_to_ingest(&families)?;
        // Taking over is one step for RocksDB: after a crash it has all files or none.
        let found = store.records()?;
        if found != built.tally.records {
            let paths = self.paths(built);
            if found != 0 || self.before.ingested || !paths.iter().all(|path| path.exists()) {
                return Err(self.lacks(format!("records: it has {found} of {}", built.tally.records)));
            }
            self.begin_ingest()?;
            store.ingest(paths, &self.preset.ingest()).map_err(|error| self.damaged(error))?;
            failpoint::reach("ingest");
        }
        drop(store);
        if !self.before.ingested {
            sync_dir(staging)?;
            sync_dir(&self.target.partial)?;
            self.journal.append(&Entry::Ingested)?;
            failpoint::reach("ingested");
        }
        self.progress.begin(Phase::Settle, None);
        let store = Store::reopen_families(staging, &families.node(), None).map_err(|error| self.damaged(error))?;
        let levels = store.levels()?;
        drop(store);
        self.check_taken_over(&[(family, built.tally.written())])?;
        if let Some(level) = levels.iter().find(|level| level.level == 0) {
            return Err(Error::Rocks {
                action: "settle",
                path: staging.clone(),
                message: format!("{} files are left at level 0", level.files),
            });
        }
        Ok(levels)
    }

    /// A database that is there takes the files over what it has, and is compacted.
    fn add(&self, built: &Built, existing: &Existing<'_>) -> Result<Vec<Level>> {
        existing.keep()?;
        let missing = self.compare(built, existing)?;
        self.progress.begin(Phase::Ingest, None);
        let store = existing.open(self, None)?;
        // Its keys may overlap the files: they go above, with a sequence number of their own. The files stay, so that the
        // database can go back to what it was and the import can go on from them.
        let settings = IngestSettings {
            move_files: false,
            link_files: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            fail_if_not_bottommost_level: false,
            ..self.preset.ingest()
        };
        if missing {
            failpoint::reach("ingesting");
            store.ingest(self.paths(built), &settings)?;
            failpoint::reach("ingest");
        }
        self.journal.append(&Entry::Ingested)?;
        failpoint::reach("ingested");
        self.progress.begin(Phase::Settle, None);
        if !self.options.no_compact {
            store.compact(&self.options.column_family, &self.preset.compaction())?;
        }
        let levels = store.levels()?;
        drop(store);
        existing.lock_again()?;
        Ok(levels)
    }

    /// Reads the files back, which must hold what was built, and compares each record with what the database held: whether
    /// there is a key that it did not hold.
    ///
    /// # Errors
    /// A key that stands for another block there; files that are damaged.
    fn compare(&self, built: &Built, existing: &Existing<'_>) -> Result<bool> {
        let Self { options, target, progress, .. } = *self;
        progress.begin(Phase::Check, None);
        let family = &options.column_family;
        let scratch = &target.scratch;
        target.remove_dir(scratch)?;
        let store = Store::create_families(scratch, &Families::of_car(self).loading(), None)?;
        let settings = IngestSettings { move_files: false, link_files: true, ..self.preset.ingest() };
        store.ingest(self.paths(built), &settings).map_err(|error| self.damaged(error))?;
        drop(store);
        let reader = Reader::open(scratch, &ReaderOptions::once()).map_err(|error| self.damaged(error))?;
        let files = reader.files()?;
        let held = existing.held(family)?;
        let new = || Comparison {
            job: self,
            held: &held,
            batch: Vec::new(),
            bytes: 0,
            content: Content::default(),
            missing: false,
        };
        let parts = self.scan(&reader, &files, family).visit(new).map_err(|error| self.damaged(error))?;
        let mut found = Content::default();
        parts.iter().for_each(|part| found.merge(part.content));
        if found != built.tally.written() {
            let what = format!("is damaged: its SST files have {found}, {} were written", built.tally.written());
            return Err(Error::damaged_work(&target.partial, what));
        }
        drop(reader);
        target.remove_dir(scratch)?;
        Ok(parts.iter().any(|part| part.missing))
    }
}

/// Records of finished files on their way to being looked up.
struct Comparison<'a> {
    job: &'a Job<'a>,
    held: &'a Held,
    batch: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    content: Content,
    /// Whether a key was not there.
    missing: bool,
}

impl Visit for Comparison<'_> {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.content.add_record(key, value);
        self.bytes += key.len() + value.len();
        self.batch.push((key.to_vec(), value.to_vec()));
        if self.batch.len() >= LOOKED_UP || self.bytes >= LOOKED_UP_BYTES { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        let keys: Vec<&[u8]> = self.batch.iter().map(|(key, _)| &key[..]).collect();
        let mut held = vec![false; keys.len()];
        self.held.look_up(&keys, true, |index, value| {
            held[index] = true;
            if self.batch[index].1 == value { Ok(()) } else { Err(self.job.conflict(keys[index], None)) }
        })?;
        self.missing |= held.contains(&false);
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// What RocksDB says of what an earlier run has left, where it is not the system that fails.
pub(super) fn damaged_by(error: Error) -> Error {
    match error {
        Error::Rocks { message, path, .. } if errno_of(&message).is_none() => {
            Error::damaged_work(path, format!("is damaged: {message}"))
        }
        error => error,
    }
}
