//! A block log through SST files: read and build, ingest.

use crate::error::Result;
use crate::load::block_log::read::LogReader;
use crate::load::block_log::report::report;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, Loaded};
use crate::load::ingest::ingest;
use crate::load::sink::Sinks;
use crate::progress::Phase;
use crate::source::block_log::Log;

/// Checks that a log is the one that a finished import has read to its end. Files that no process has touched are.
pub(in crate::load) fn check_whole(job: &Job<'_>, input: &Log) -> Result<()> {
    if !job.resumed.is_touched() {
        return Ok(());
    }
    let sinks = Sinks::files(job, &ColumnFamilies::of_log(job))?;
    LogReader::new(job, input, &sinks).read().map(drop)
}

/// Loads a log from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, input: &Log) -> Result<Loaded> {
    let families = ColumnFamilies::of_log(job);
    let sinks = Sinks::files(job, &families)?;
    let done = LogReader::new(job, input, &sinks).run()?;
    job.check_sources()?;
    job.progress.begin(Phase::Ingest, None);
    let reports = ingest(job, &families, &done.families(&families))?;
    Ok(report(job, input, &done, reports))
}
