//! A block log into a database: read and build, then ingest files or compact memtables, and the report.

use crate::error::Result;
use crate::failpoint;
use crate::load::block_log::read::{LogDone, LogReader};
use crate::load::built::{FamilyDone, RangeDone};
use crate::load::column_families::ColumnFamilies;
use crate::load::compact::{check_content, compact, memtable_report, watched};
use crate::load::context::{Job, Loaded};
use crate::load::ingest::ingest;
use crate::load::journal::{Checkpoint, Entry, SourceDelta};
use crate::load::sink::Sinks;
use crate::progress::Phase;
use crate::report::{FamilyReport, LogReport, LogVerified, Packings, not_covered};
use crate::rocks::{Meter, Store};
use crate::schema::{BLOCK_IDS, DEFAULT, NUMBER, PLACE, TRANSACTIONS};
use crate::source::block_log::Log;

/// Checks that a log is the one that a finished import has read to its end. Files that no process has touched are.
pub(in crate::load) fn check_whole(job: &Job<'_>, input: &Log) -> Result<()> {
    if !job.resumed.is_touched() {
        return Ok(());
    }
    let sinks = Sinks::files(job, &ColumnFamilies::of_log(job))?;
    LogReader::new(job, input, &sinks).read().map(drop)
}

/// Loads a log through SST files into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, input: &Log) -> Result<Loaded> {
    let families = ColumnFamilies::of_log(job);
    let sinks = Sinks::files(job, &families)?;
    let done = LogReader::new(job, input, &sinks).run()?;
    job.check_sources()?;
    job.progress.begin(Phase::Ingest, None);
    let reports = ingest(job, &families, &done.families(&families))?;
    Ok(report(job, input, &done, reports))
}

/// Loads a log through memtables, in batches in the order of the log, then compacts each family.
pub(in crate::load) fn load_memtable(job: &Job<'_>, input: &Log) -> Result<Loaded> {
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
    // By these entries a run after the last step compares the source. There are too many ranges for an entry each.
    let groups = done.ranges.chunk_by(RangeDone::is_followed_by);
    let mut joined = groups.filter_map(|ranges| ranges.iter().cloned().reduce(RangeDone::join));
    joined.try_for_each(|range| job.journal.append(&Entry::Range(Box::new(range))))?;
    let (checkpoint, delta) = (Checkpoint::default(), SourceDelta::default());
    job.journal.append(&Entry::Held { checkpoint, padding: 0, delta })?;
    failpoint::reach("read-done");
    let compacted = compact(job, store, &families, &meter)?;
    let built = done.families(&families);
    let value = |name: &str| match name {
        BLOCK_IDS => NUMBER as u64,
        TRANSACTIONS => PLACE as u64,
        _ => 0,
    };
    let payload: u64 = done.ranges.iter().map(|range| range.payload).sum();
    let found_by: u64 = built.iter().map(|(name, done)| done.tally.written.records * value(name)).sum();
    job.progress.begin(Phase::Check, Some(payload + found_by));
    let check = |(name, done): (&str, FamilyDone)| {
        let (found, _) = job.scan(&compacted.reader, &compacted.files, name).content()?;
        check_content(job, found, done.tally.written)?;
        Ok(done.report(name, compacted.levels(name)))
    };
    let reports = built.into_iter().map(check).collect::<Result<_>>()?;
    let (memtable, rocksdb_written) = memtable_report(&meter, batches, compacted.level0_files);
    let loaded = report(job, input, &done, reports);
    Ok(Loaded { memtable: Some(memtable), rocksdb_written: Some(rocksdb_written), ..loaded })
}

fn report(job: &Job<'_>, input: &Log, done: &LogDone, families: Vec<FamilyReport>) -> Loaded {
    let options = job.options;
    let mut packings = Packings::default();
    done.ranges.iter().for_each(|range| packings.add(range.packings));
    let sum = |of: fn(&RangeDone) -> u64| done.ranges.iter().map(of).sum::<u64>();
    let family = input.family(packings.zstd + packings.zstd_dictionary > 0);
    let verified = match (options.verify, options.log.links_only) {
        (false, _) => LogVerified::None,
        (true, true) => LogVerified::Links,
        (true, false) => LogVerified::Hash,
    };
    let unknown = sum(|range| range.unknown_operations);
    let ends = done.ranges.first().zip(done.ranges.last());
    let log = ends.map(|(RangeDone { first, .. }, RangeDone { last, .. })| LogReport {
        family: family.name().into(),
        chain_id: input.chain_id(),
        parts: input.parts(),
        layout: Some(input.layout(first.number, last.number)),
        first: first.clone(),
        last: last.clone(),
        verified,
        not_covered: {
            let is_pinned = options.log.pins(last.number);
            not_covered((family, input.version()), verified, first.number, unknown, is_pinned)
        },
        packings,
        indexes: input.indexes(),
        trimmed_bytes: input.rest(),
        checkpoints: sum(|range| range.checkpoints),
        transactions: options.log.indexes.transactions.then(|| sum(|range| range.transactions.records)),
        unknown_operations: unknown,
        families: families.clone(),
    });
    // Files are ingested as they were built: the levels hold exactly what was written.
    let written = families.iter().flat_map(|family| &family.levels).map(|level| level.bytes).sum();
    let blocks = families.into_iter().find(|family| family.name == DEFAULT);
    let (records, digest, levels) =
        blocks.map(|family| (family.records, family.digest, family.levels)).unwrap_or_default();
    Loaded {
        blocks: records,
        payload: sum(|range| range.payload),
        consumed: done.consumed,
        records,
        digest,
        levels,
        rocksdb_written: (!options.into_existing).then_some(written),
        log,
        ..Loaded::default()
    }
}
