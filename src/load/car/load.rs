//! A CAR through SST files: read and sort, build, ingest.

use crate::error::{Error, Result};
use crate::load::car::build::build;
use crate::load::car::completeness::report_f3;
use crate::load::car::ingest_into_existing::ingest_into_existing;
use crate::load::car::read::{read, resume_read};
use crate::load::car::stored_blocks::StoredBlocks;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, Loaded, with_repeats};
use crate::load::ingest::ingest;
use crate::progress::Phase;
use crate::report::SortPlan;
use crate::rocks::SstOptions;
use crate::source::car::chunks::Chunks;

/// Loads a CAR from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, sort: &SortPlan, mut chunks: Chunks) -> Result<Loaded> {
    let Job { options, target, progress, resumed, .. } = *job;
    // Before reading: it may refuse an option.
    let sst = SstOptions::new(job.loading, &target.sst)?;
    let blocks = match resume_read(job, sort, &mut chunks)? {
        Some(blocks) => blocks,
        None => read(job, sort, chunks)?,
    };
    let checkpoint = blocks.checkpoint;
    let f3 = report_f3(job, &blocks.sources)?;
    progress.begin(Phase::Build, Some(checkpoint.payload));
    let done = resumed.built.tally.verified().records;
    if done > 0 {
        let share = done as f64 / checkpoint.blocks.max(1) as f64;
        progress.take_up((checkpoint.payload as f64 * share) as u64, resumed.built.tally.written.records);
    }
    let spilled = matches!(blocks.stored, StoredBlocks::Spilled(_));
    let built = build(job, sort, &sst, &blocks)?;
    drop(blocks.stored);
    // Each partition was compared when it was built, some by an earlier run. This compares all together.
    let (tally, verified) = (built.tally, checkpoint.content());
    if tally.verified() != verified {
        let stored = tally.verified().records;
        let what = format!("holds {stored} records, which are not the {} that were verified", verified.records);
        return Err(Error::damaged_work(&target.partial, what));
    }
    job.check_sources()?;
    let bytes = built.files.iter().map(|file| file.bytes).sum();
    let sources = with_repeats(blocks.sources, built.repeats.iter().copied());
    progress.begin(Phase::Ingest, None);
    let (levels, existing) = match job.existing {
        Some(existing) => ingest_into_existing(job, &built, existing)?,
        None => {
            let family = (options.column_family.as_str(), built);
            let reports = ingest(job, &ColumnFamilies::of_car(job), &[family])?;
            (reports.into_iter().next().map(|report| report.levels).unwrap_or_default(), 0)
        }
    };
    Ok(Loaded {
        blocks: checkpoint.blocks,
        payload: checkpoint.payload,
        consumed: checkpoint.consumed,
        tail: blocks.tail,
        spilled,
        records: tally.written.records,
        duplicates: tally.duplicates.records,
        existing,
        digest: tally.written.digest,
        levels,
        rocksdb_written: (!options.into_existing).then_some(bytes),
        f3,
        sources,
        routed: Some((blocks.router, checkpoint.framed)),
        ..Loaded::default()
    })
}
