//! A block log through memtables: batches in the order of the log, then the final compaction of each family.
//!
//! Only the sinks differ from those of the ingest loader.

use crate::error::Result;
use crate::failpoint;
use crate::load::block_log::read::LogReader;
use crate::load::block_log::report::report;
use crate::load::built::{FamilyDone, RangeDone};
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{Compacted, check_content, compact, memtable_report, watched};
use crate::load::context::{Job, Loaded};
use crate::load::journal::{Checkpoint, Entry, SourceDelta};
use crate::load::sink::Sinks;
use crate::progress::Phase;
use crate::report::FamilyReport;
use crate::rocks::{Meter, Store};
use crate::schema::{BLOCK_IDS, NUMBER, PLACE, TRANSACTIONS};
use crate::source::block_log::Log;

/// Loads a log from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, input: &Log) -> Result<Loaded> {
    let families = ColumnFamilies::of_log(job).written_to();
    let meter = Meter::default();
    let store = Store::create(&job.target.staging, &families.loading(), Some(&meter))?;
    let sinks = Sinks::batches(job, &store, &families);
    let done = watched(job, &store, None, || {
        let done = LogReader::new(job, input, &sinks).run()?;
        sinks.flush().map(|()| done)
    })?;
    let batches = sinks.written_batches();
    drop(sinks);
    job.check_sources()?;
    note_source(job, &done.ranges)?;
    failpoint::reach("read-done");
    let compacted = compact(job, store, &families, &meter)?;
    let payload = done.ranges.iter().map(|range| range.payload).sum();
    let reports = check_families(job, &compacted, done.families(&families), payload)?;
    let (memtable, rocksdb_written) = memtable_report(&meter, batches, compacted.level0_files);
    let loaded = report(job, input, &done, reports);
    Ok(Loaded { memtable: Some(memtable), rocksdb_written: Some(rocksdb_written), ..loaded })
}

/// Appends the joined ranges to the journal. By these a run after the last step compares the source.
fn note_source(job: &Job<'_>, ranges: &[RangeDone]) -> Result<()> {
    let mut joined: Vec<RangeDone> = Vec::new();
    for range in ranges {
        let rest = match joined.last_mut() {
            Some(last) => last.join(range.clone()),
            None => Some(range.clone()),
        };
        joined.extend(rest);
    }
    joined.into_iter().try_for_each(|range| job.journal.append(&Entry::Range(Box::new(range))))?;
    job.journal.append(&Entry::Held { checkpoint: Checkpoint::default(), padding: 0, delta: SourceDelta::default() })
}

/// Counts and digests the records in each family, and compares them with those that were written.
fn check_families(
    job: &Job<'_>,
    compacted: &Compacted,
    built: Vec<(&str, FamilyDone)>,
    payload: u64,
) -> Result<Vec<FamilyReport>> {
    let Compacted { reader, files, .. } = compacted;
    let value = |name: &str| match name {
        BLOCK_IDS => NUMBER as u64,
        TRANSACTIONS => PLACE as u64,
        _ => 0,
    };
    let found_by: u64 = built.iter().map(|(name, done)| done.tally.written.records * value(name)).sum();
    job.progress.begin(Phase::Check, Some(payload + found_by));
    let check = |(name, done): (&str, FamilyDone)| {
        let (found, _) = job.scan(reader, files, name).content()?;
        check_content(job, found, done.tally.written)?;
        Ok(done.report(name, compacted.levels(name)))
    };
    built.into_iter().map(check).collect()
}
