//! The ingest loader: sort, build the final SST files, hand them over at the last level.

use std::path::PathBuf;

use super::build::{self, Building, Built};
use super::families::Families;
use super::import::Loaded;
use super::job::Job;
use super::journal::Entry;
use super::points;
use super::publish::sync_dir;
use super::read::{Held, Reading};
use crate::digest::Content;
use crate::error::{Error, Result, errno_of};
use crate::progress::Phase;
use crate::read;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{Level, Reader, ReaderOptions, SstOptions, Store};
use crate::source::car::chunks::Chunks;

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
        let spilled = matches!(blocks.held, Held::Spilled(_));
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
        let levels = if options.into_existing { self.add(&built)? } else { self.hand_over(&built)? };
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
        points::reach("ingesting");
        Ok(())
    }

    fn lacks(&self, what: String) -> Error {
        Error::damaged_work(&self.target.partial, format!("lacks {what}"))
    }

    /// What RocksDB says of files that an earlier run has left, where it is not the system that fails.
    pub(super) fn damaged(&self, error: Error) -> Error {
        if self.takes_over() { damaged_by(error) } else { error }
    }

    /// Whether files that an earlier run has built become part of the database.
    fn takes_over(&self) -> bool {
        !self.before.files.is_empty() || self.before.ingesting
    }

    /// Files that lay on the disk between two runs are read back before the database gets its name: each of the column
    /// families must have the content that went into its files.
    ///
    /// # Errors
    /// [`Error::State`] where it has another one, or a block does not match its checksum.
    pub(super) fn check_taken_over(&self, families: &[(&str, Content)]) -> Result<()> {
        if !self.takes_over() {
            return Ok(());
        }
        let staging = &self.target.staging;
        self.progress.begin(Phase::Check, None);
        let reader = Reader::open(staging, &ReaderOptions::once()).map_err(|error| self.damaged(error))?;
        let files = reader.files()?;
        let pool = self.checkers()?;
        for &(family, written) in families {
            let found = pool.install(|| read::content(&reader, &files, family, self.progress, &self.options.stop));
            let found = found.map_err(|error| self.damaged(error))?;
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
        let mut store = store.map_err(|error| self.damaged(error))?;
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
            points::reach("ingest");
        }
        drop(store);
        if !self.before.ingested {
            sync_dir(staging)?;
            sync_dir(&self.target.partial)?;
            self.journal.append(&Entry::Ingested)?;
            points::reach("ingested");
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
    fn add(&self, built: &Built) -> Result<Vec<Level>> {
        let store = Store::open(&self.target.db, &self.loading, &self.options.column_family, None)?;
        // Its keys may overlap the files: they go above, with a sequence number of their own.
        let settings = IngestSettings {
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            fail_if_not_bottommost_level: false,
            ..self.preset.ingest()
        };
        if !self.before.ingested {
            let paths = self.paths(built);
            if paths.iter().all(|path| path.exists()) {
                self.begin_ingest()?;
                store.ingest(paths, &settings)?;
                points::reach("ingest");
            } else if !self.before.ingesting {
                return Err(self.lacks("some of its SST files".into()));
            }
            // Files leave one by one once RocksDB has all of them: a missing one says that it has.
            self.journal.append(&Entry::Ingested)?;
            points::reach("ingested");
        }
        self.progress.begin(Phase::Settle, None);
        if !self.options.no_compact {
            store.compact(&self.options.column_family, &self.preset.compaction())?;
        }
        store.levels()
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
