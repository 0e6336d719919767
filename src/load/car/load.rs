//! A CAR through SST files: read and sort, build, ingest.

use std::slice;

use crate::error::{Error, Result};
use crate::load::built::FamilyDone;
use crate::load::car::add::add;
use crate::load::car::build::{BuildContext, build};
use crate::load::car::f3;
use crate::load::car::held::Held;
use crate::load::car::read::ReadContext;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, Loaded, with_repeats};
use crate::load::ingest::ingest;
use crate::progress::Phase;
use crate::report::SortPlan;
use crate::rocks::{Level, SstOptions};
use crate::source::car::chunks::Chunks;

/// Loads a CAR from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, sort: &SortPlan, mut chunks: Chunks) -> Result<Loaded> {
    let Job { options, sources, plan, target, progress, journal, resumed, uploads, links, .. } = *job;
    let sst = SstOptions::new(job.loading, &target.sst)?;
    let reading =
        ReadContext { options, sources, plan, sort, progress, spill_dir: &target.spill, journal, resumed, links };
    let blocks = match reading.done_before(&mut chunks)? {
        Some(blocks) => blocks,
        None => reading.run(chunks)?,
    };

    let f3 = f3::report(job, &blocks.sources)?;
    progress.begin(Phase::Build, Some(blocks.checkpoint.payload));
    let done = resumed.tally.records + resumed.tally.duplicates;
    if done > 0 {
        let share = done as f64 / blocks.checkpoint.blocks.max(1) as f64;
        progress.take_up((blocks.checkpoint.payload as f64 * share) as u64, resumed.tally.records);
    }
    let spilled = matches!(blocks.held, Held::Spilled(_));
    let context =
        BuildContext { options, sources, plan, sort, sst: &sst, dir: &target.sst, progress, journal, uploads, resumed };
    let built = build(&blocks, &context)?;
    drop(blocks.held);
    // Each partition was compared when it was built, some by an earlier run; this is the whole.
    let (stored, verified) = (built.tally.verified(), blocks.checkpoint.content());
    if stored != verified {
        let what =
            format!("holds {} records, which are not the {} that were verified", stored.records, verified.records);
        return Err(Error::damaged_work(&target.partial, what));
    }
    if let Some(identity) = &resumed.identity {
        identity.still_holds(options)?;
    }
    let bytes = built.files.iter().map(|file| file.bytes).sum();
    let tally = built.tally;
    let sources = with_repeats(blocks.sources, &built.repeats);
    let (levels, existing) = into_database(job, built)?;
    Ok(Loaded {
        blocks: blocks.checkpoint.blocks,
        payload: blocks.checkpoint.payload,
        consumed: blocks.checkpoint.consumed,
        tail: blocks.tail,
        spilled,
        records: tally.records,
        duplicates: tally.duplicates,
        existing,
        digest: tally.digest,
        levels,
        rocksdb_written: (!options.into_existing).then_some(bytes),
        memtable: None,
        f3,
        log: None,
        sources,
        routed: Some((blocks.router, blocks.checkpoint.framed)),
    })
}

/// Ingests what was built into the database, a new or an existing one. Returns its levels, and how many of the records it
/// held before.
fn into_database(job: &Job<'_>, built: FamilyDone) -> Result<(Vec<Level>, u64)> {
    job.progress.begin(Phase::Ingest, None);
    if let Some(existing) = job.existing {
        return add(job, &built, existing);
    }
    let family = (job.options.column_family.as_str(), built);
    let reports = ingest(job, &ColumnFamilies::of_car(job), slice::from_ref(&family))?;
    Ok((reports.into_iter().next().map(|report| report.levels).unwrap_or_default(), 0))
}
