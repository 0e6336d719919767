//! The ingest loader: sort, build the final SST files, hand them over at the last level.

use super::build;
use super::import::Loaded;
use super::options::ImportOptions;
use super::plan::Plan;
use super::read::{self, Held};
use super::target::Target;
use crate::error::{Error, Result};
use crate::preset::Resolved;
use crate::progress::{Phase, Progress};
use crate::rocks::option_map::OptionMap;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{SstOptions, Store, options_of};
use crate::source::car::chunks::Chunks;

/// One import through the ingest loader.
pub(super) struct Job<'a> {
    pub options: &'a ImportOptions,
    pub plan: &'a Plan,
    pub preset: &'a Resolved,
    pub target: &'a Target,
    pub progress: &'a Progress<'a>,
}

impl Job<'_> {
    /// From the first block to a database that is closed and ready, not yet under its name.
    pub fn run(&self, chunks: Chunks) -> Result<Loaded> {
        let Self { options, plan, target, progress, .. } = *self;
        let loading = self.loading()?;
        let sst = SstOptions::new(&loading, &target.sst)?;
        let blocks = read::read(chunks, options, plan, &target.spill, progress)?;

        progress.begin(Phase::Build, Some(blocks.payload));
        let spilled = matches!(blocks.held, Held::Spilled(_));
        let built = build::build(&blocks.held, &blocks.router, options, plan, &sst, &target.sst, progress)?;
        drop(blocks.held);

        progress.begin(Phase::Ingest, None);
        let levels = if options.into_existing {
            self.add(&loading, built.files)?
        } else {
            self.hand_over(&loading, built.files)?
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
        })
    }

    /// What SSTs are built with: the preset's options, or those of the database that is already there.
    fn loading(&self) -> Result<OptionMap> {
        if self.options.into_existing
            && let Some(own) = options_of(&self.target.db, &self.options.column_family)?
        {
            return Ok(own);
        }
        Ok(self.preset.loading())
    }

    /// A new database takes the files at its last level; then it is opened once as its node will open it.
    fn hand_over(&self, loading: &OptionMap, files: Vec<std::path::PathBuf>) -> Result<Vec<crate::rocks::Level>> {
        let family = &self.options.column_family;
        let staging = &self.target.staging;
        let store = Store::create(staging, loading, family)?;
        store.ingest(files, &self.preset.ingest())?;
        drop(store);
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
    fn add(&self, loading: &OptionMap, files: Vec<std::path::PathBuf>) -> Result<Vec<crate::rocks::Level>> {
        let store = Store::open(&self.target.db, loading, &self.options.column_family)?;
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
        store.compact(&self.preset.compaction())?;
        store.levels()
    }
}
