//! Imports streams of records: reads and sorts them, builds SST files, and lets RocksDB ingest these.

mod build;
mod distinct;
mod read;

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::load::built::{FamilyDone, by_family};
use crate::load::column_families::{ColumnFamilies, CopiedFamily, presets_of};
use crate::load::context::{Job, Loaded};
use crate::load::ingest::ingest;
use crate::load::journal::RunDone;
use crate::load::record_streams::RecordStreams;
use crate::load::records::build::{build_set, merge_runs};
use crate::load::records::read::{ReadRecords, check_long_keys, find_cause, read};
use crate::progress::Phase;
use crate::rocks::FamilyFacts;

/// Loads all streams into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, mut streams: RecordStreams) -> Result<Loaded> {
    let Job { progress, resumed, .. } = *job;
    let plan = job.plan.records().ok_or_else(|| Error::broken_invariant("the plan is of another source"))?;
    let presets = plan.families.iter().zip(std::mem::take(&mut streams.presets));
    let families: Vec<CopiedFamily> =
        presets.map(|(name, preset)| CopiedFamily { facts: FamilyFacts::new(name.clone()), preset }).collect();
    let own = ColumnFamilies::of_database(&families, job.plan);
    let scratch = ColumnFamilies::of_runs(&plan.families, job.plan.memory);
    let files_of =
        |runs: &[RunDone]| FamilyDone::of_files(runs.iter().flat_map(|run| run.files.iter().cloned()).collect());
    let of_runs = if plan.is_sorted { &own } else { &scratch };
    let make = || {
        let ReadRecords { set, runs, checkpoint, sources } = read(job, streams, of_runs)?;
        let read = checkpoint.content();
        let built = match () {
            () if plan.is_sorted => files_of(&runs),
            () if runs.is_empty() => {
                build_set(job, plan, &own, &set).map_err(|error| find_cause(job, &set, read, error))?
            }
            () => merge_runs(job, plan, &own, &scratch, &runs)?,
        };
        let found = built.tally.read();
        if found != read {
            let error = Error::damaged_work(&job.target.partial, format!("has {found}, and {read} were read"));
            return Err(find_cause(job, &set, read, error));
        }
        Ok((built, checkpoint, sources, !runs.is_empty()))
    };
    let (built, checkpoint, sources, spilled) = if resumed.ingesting {
        let (checkpoint, _) = resumed.held.ok_or_else(|| Error::incomplete_work(&job.target.partial, "its counts"))?;
        let built = if plan.is_sorted { files_of(&resumed.runs) } else { resumed.built.clone() };
        (built, checkpoint, resumed.car.sources.clone(), !resumed.runs.is_empty())
    } else {
        // A mapped file that changed may look like other faults, which must not hide the cause.
        make().map_err(|error| job.check_sources().err().unwrap_or(error))?
    };
    job.check_sources()?;
    check_long_keys(job, built.files.iter(), checkpoint.consumed)?;
    progress.begin(Phase::Ingest, None);
    let facts: Vec<FamilyFacts> = families.iter().map(|family| family.facts.clone()).collect();
    let reports = ingest(job, &own, &by_family(&facts, built.files))?;
    let mut of_sources = BTreeMap::new();
    built.repeats.iter().for_each(|(source, count)| *of_sources.entry(*source).or_default() += count);
    let loaded = Loaded::of_families(reports, presets_of(&families), checkpoint.payload);
    Ok(Loaded {
        blocks: checkpoint.blocks,
        duplicates: checkpoint.blocks - loaded.records,
        consumed: checkpoint.consumed,
        spilled,
        sources,
        repeats: of_sources,
        ..loaded
    })
}
