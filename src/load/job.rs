//! What both loaders work on.

use super::existing::Existing;
use super::journal::{Journal, Progressed};
use super::options::ImportOptions;
use super::target::Target;
use crate::error::Result;
use crate::preset::Resolved;
use crate::progress::Progress;
use crate::report::Plan;
use crate::rocks::option_map::OptionMap;
use crate::rocks::{DataFile, FamilyScan, Reader, options_of};

/// One import, once its plan is made.
pub(super) struct Job<'a> {
    pub options: &'a ImportOptions,
    pub plan: &'a Plan,
    pub preset: &'a Resolved,
    pub target: &'a Target,
    /// The database that is added to, where it was there before.
    pub existing: Option<&'a Existing<'a>>,
    pub journal: &'a Journal,
    /// What an earlier run has done.
    pub before: &'a Progressed,
    pub progress: &'a Progress<'a>,
    /// What the database has while it is loaded: [`loading`].
    pub loading: OptionMap,
}

impl Job<'_> {
    /// A scan of a column family of a database that this import has made, or adds to.
    pub fn scan<'b>(&'b self, reader: &'b Reader, files: &'b [DataFile], family: &'b str) -> FamilyScan<'b> {
        let Self { plan, progress, options, .. } = *self;
        FamilyScan { reader, files, family, threads: plan.threads, progress, stop: &options.stop }
    }
}

/// The options while importing: the preset's, or those of the database that is already there.
pub(super) fn loading(options: &ImportOptions, preset: &Resolved) -> Result<OptionMap> {
    if options.into_existing
        && let Some(own) = options_of(&options.db, &options.column_family)?
    {
        return Ok(own);
    }
    Ok(preset.loading())
}
