//! The ingest loader: sort, build the final SST files, hand them over at the last level.

use std::path::PathBuf;

use super::build::{self, Building, Built};
use super::import::Loaded;
use super::job::Job;
use super::journal::Entry;
use super::points;
use super::publish::sync_dir;
use super::read::{Held, Reading};
use crate::error::{Error, Result};
use crate::progress::Phase;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{Level, SstOptions, Store};
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
        Error::State {
            path: self.target.partial.clone(),
            reason: format!("the unfinished import lacks {what}"),
            hint: "--restart throws the rest away and starts over".into(),
        }
    }

    fn paths(&self, built: &Built) -> Vec<PathBuf> {
        built.files.iter().map(|file| self.target.sst.join(&file.name)).collect()
    }

    /// A new database takes the files at its last level; then it is opened once as its node will open it.
    fn hand_over(&self, built: &Built) -> Result<Vec<Level>> {
        let family = &self.options.column_family;
        let staging = &self.target.staging;
        let store = Store::create(staging, &self.loading, family)?;
        // Taking over is one step for RocksDB: after a crash it has all files or none.
        let found = store.records()?;
        if found != built.tally.records {
            let paths = self.paths(built);
            if found != 0 || self.before.ingested || !paths.iter().all(|path| path.exists()) {
                return Err(self.lacks(format!("records: it has {found} of {}", built.tally.records)));
            }
            self.begin_ingest()?;
            store.ingest(paths, &self.preset.ingest())?;
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
        let store = Store::reopen(staging, &self.preset.node(), family)?;
        let levels = store.levels()?;
        drop(store);
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
