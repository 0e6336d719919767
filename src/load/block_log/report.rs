//! The report of a loaded block log.

use crate::load::block_log::read::LogDone;
use crate::load::built::RangeDone;
use crate::load::context::{Job, Loaded};
use crate::report::{FamilyReport, LogReport, LogVerified, Packings, not_covered};
use crate::source::block_log::Log;

pub(super) fn report(job: &Job<'_>, input: &Log, done: &LogDone, families: Vec<FamilyReport>) -> Loaded {
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
    let log = ends.map(|(first, last)| LogReport {
        family: family.name().into(),
        chain_id: input.chain_id(),
        parts: input.parts(),
        layout: Some(input.layout(first.first.number, last.last.number)),
        first: first.first.clone(),
        last: last.last.clone(),
        verified,
        not_covered: not_covered(
            (family, input.version()),
            verified,
            first.first.number,
            unknown,
            options.log.pins(last.last.number),
        ),
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
    let blocks = families.into_iter().find(|family| family.name == "default");
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
