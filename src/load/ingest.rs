//! The ingest loader: sort, build the final SST files, hand them over at the last level.

use std::path::PathBuf;

use super::build;
use super::import::Loaded;
use super::job::Job;
use super::read::{self, Held};
use crate::error::{Error, Result};
use crate::progress::Phase;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{Level, SstOptions, Store};
use crate::source::car::chunks::Chunks;

impl Job<'_> {
    /// From the first block to a database that is closed and ready, not yet under its name.
    pub fn build_and_ingest(&self, chunks: Chunks) -> Result<Loaded> {
        let Self { options, plan, target, progress, .. } = *self;
        let sst = SstOptions::new(&self.loading, &target.sst)?;
        let blocks = read::read(chunks, options, plan, &target.spill, progress)?;

        progress.begin(Phase::Build, Some(blocks.payload));
        let spilled = matches!(blocks.held, Held::Spilled(_));
        let built = build::build(&blocks.held, &blocks.router, options, plan, &sst, &target.sst, progress)?;
        drop(blocks.held);

        progress.begin(Phase::Ingest, None);
        let levels = if options.into_existing {
            self.add(built.files)?
        } else {
            self.hand_over(built.files)?
        };
        Ok(Loaded {
            blocks: blocks.blocks,
            payload: blocks.payload,
            consumed: blocks.consumed,
            tail: blocks.tail,
            spilled,
            records: built.records,
            duplicates: built.duplicates,
            digest: built.digest,
            levels,
            memtable: None,
        })
    }

    /// A new database takes the files at its last level; then it is opened once as its node will open it.
    fn hand_over(&self, files: Vec<PathBuf>) -> Result<Vec<Level>> {
        let family = &self.options.column_family;
        let staging = &self.target.staging;
        let store = Store::create(staging, &self.loading, family, None)?;
        store.ingest(files, &self.preset.ingest())?;
        drop(store);
        self.progress.begin(Phase::Settle, None);
        let store = Store::reopen(staging, &self.preset.node(), family, None)?;
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
    fn add(&self, files: Vec<PathBuf>) -> Result<Vec<Level>> {
        let store = Store::open(&self.target.db, &self.loading, &self.options.column_family, None)?;
        // Its keys may overlap the files: they go above, with a sequence number of their own.
        let settings = IngestSettings {
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            fail_if_not_bottommost_level: false,
            ..self.preset.ingest()
        };
        store.ingest(files, &settings)?;
        self.progress.begin(Phase::Settle, None);
        if !self.options.no_compact {
            store.compact(&self.preset.compaction())?;
        }
        store.levels()
    }
}
