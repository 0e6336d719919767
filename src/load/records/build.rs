//! Builds the files of the database from records in memory, or from runs, which a database of its own merges.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::load::built::FamilyDone;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::journal::{Entry, RunDone};
use crate::load::planner::share_memory;
use crate::load::records::distinct::{Distinct, HeldRecord};
use crate::load::records::read::{merge_memory, writers};
use crate::load::sink::Sinks;
use crate::progress::Phase;
use crate::report::{RecordsPlan, sst_target};
use crate::rocks::{IngestSettings, Reader, ReaderOptions, Store, declared_facts};
use crate::sort::Borders;
use crate::sort::placed_key::{first_placed_key, take_placed_key};
use crate::sort::record_set::{RecordRange, RecordSet, Sample, cut};

/// The share of the budget for the cache with the indexes of the runs.
const CACHE_SHARE: u64 = 16;

/// The job, the sinks and the ranges of a build.
struct Build<'a> {
    job: &'a Job<'a>,
    plan: &'a RecordsPlan,
    sinks: Sinks<'a>,
    ranges: Vec<RecordRange>,
}

impl<'a> Build<'a> {
    /// Begins to build `bytes` of records. Cuts them into `ranges`, unless an earlier run has.
    fn new(
        job: &'a Job<'a>,
        plan: &'a RecordsPlan,
        families: &ColumnFamilies<'a>,
        bytes: u64,
        ranges: impl FnOnce(u64) -> Vec<RecordRange>,
    ) -> Result<Self> {
        job.progress.begin(Phase::Build, Some(bytes));
        let ranges = match &job.resumed.cut {
            Some(ranges) => ranges.clone(),
            None => {
                let ranges = ranges(sst_target(bytes, job.plan.sst_bytes));
                job.journal.append(&Entry::Cut { ranges: ranges.clone() })?;
                ranges
            }
        };
        Ok(Self { job, plan, sinks: Sinks::files(job, families)?, ranges })
    }

    fn name(&self, range: &RecordRange) -> &str {
        self.plan.families.get(usize::from(range.family)).map_or("", String::as_str)
    }

    fn distinct<R: HeldRecord>(&self, range: &RecordRange) -> Result<Distinct<'_, R>> {
        let sink = self.sinks.sink(self.name(range), Borders::default(), None)?;
        Ok(Distinct::new(self.job.options.duplicates, &self.job.sources.names, sink))
    }

    /// Builds the ranges that no earlier run has built. Returns the files of all.
    fn run(
        &self,
        threads: usize,
        build: impl Fn(&RecordRange, &mut Vec<u8>) -> Result<FamilyDone> + Sync,
    ) -> Result<FamilyDone> {
        self.sinks.build_ranges(self.job, threads, (0..self.ranges.len() as u32).collect(), |number, record| {
            let Some(range) = self.ranges.get(number as usize) else { return Ok(("", FamilyDone::default())) };
            Ok((self.name(range), build(range, record)?))
        })
    }
}

/// Builds the files of records in memory.
pub(super) fn build_set(
    job: &Job<'_>,
    plan: &RecordsPlan,
    families: &ColumnFamilies<'_>,
    set: &RecordSet,
) -> Result<FamilyDone> {
    let build = Build::new(job, plan, families, set.bytes(), |target| set.ranges(target.min(plan.range_bytes)))?;
    build.run(writers(job, set.largest), |range, _| {
        let mut distinct = build.distinct(range)?;
        let mut done = (0, 0);
        let entries = set.sorted(range);
        for (record, place) in set.records(&entries) {
            distinct.put(record, place)?;
            job.step(&mut done, record.0.len() + record.1.len())?;
        }
        job.progress.add(done.0, done.1);
        let built = distinct.finish()?;
        set.check().map(|()| built)
    })
}

/// Merges runs, and builds the files of their records.
pub(super) fn merge_runs(
    job: &Job<'_>,
    plan: &RecordsPlan,
    families: &ColumnFamilies<'_>,
    scratch: &ColumnFamilies<'_>,
    runs: &[RunDone],
) -> Result<FamilyDone> {
    let (dir, budget) = (&job.target.scratch, job.plan.budget_bytes);
    job.target.remove_dir(dir)?;
    let store = Store::create(dir, &scratch.loading(), None)?;
    let settings = IngestSettings {
        move_files: false,
        link_files: true,
        allow_global_seqno: true,
        fail_if_not_bottommost_level: false,
        ..job.preset.ingest()
    };
    for run in runs {
        for name in &plan.families {
            let own = run.files.iter().filter(|file| file.family == *name);
            let paths: Vec<PathBuf> = own.map(|file| job.target.sst.join(&file.name)).collect();
            if !paths.is_empty() {
                store.ingest(name, paths, &settings).map_err(|error| job.damaged(error))?;
            }
        }
    }
    drop(store);
    let cache = (budget / CACHE_SHARE) as usize;
    let how = ReaderOptions { cache, in_order: true, ..ReaderOptions::scans() };
    let mut reader = Reader::open(dir, &how).map_err(|error| job.damaged(error))?;
    let files = reader.files()?;
    let mut facts = declared_facts(dir)?;
    facts.iter_mut().try_for_each(|facts| facts.count(&reader, &files))?;
    let (threads, ahead) = share_memory(job.plan, &facts);
    let largest = runs.iter().map(|run| run.largest).max().unwrap_or_default();
    let all = merge_memory(job, largest) * runs.len() as u64;
    let threads = threads.min((job.plan.memory / all.max(1)) as usize).clamp(1, writers(job, largest));
    reader.ahead = ahead;
    let bytes = files.iter().map(|file| file.size).sum();
    let mut samples: Vec<Sample> = runs.iter().flat_map(|run| run.samples.iter().cloned()).collect();
    let build = Build::new(job, plan, families, bytes, |target| cut(&mut samples, target))?;
    let built = build.run(threads, |range, spare| {
        let unreadable = |error| job.damaged(error);
        let [from, to] = [&range.from, &range.to].map(|key| key.as_deref().map(first_placed_key));
        let mut scan = reader.scan(build.name(range), from.as_deref(), to.as_deref()).map_err(unreadable)?;
        let (mut distinct, mut done) = (build.distinct(range)?, (0, 0));
        while let Some((placed, value)) = scan.item() {
            let mut record = std::mem::take(spare);
            record.clear();
            let place = take_placed_key(placed, &mut record);
            let place = place.ok_or_else(|| Error::damaged_work(dir, "has a key without a place"))?;
            let key_len = record.len();
            record.extend_from_slice(value);
            job.step(&mut done, record.len())?;
            *spare = distinct.put((record, key_len), place)?.unwrap_or_default().0;
            scan.next();
        }
        scan.status().map_err(unreadable)?;
        job.progress.add(done.0, done.1);
        distinct.finish()
    })?;
    drop(reader);
    job.target.remove_dir(dir)?;
    Ok(built)
}
