//! Copies the records of a RocksDB database into a new one. The old database is sorted, so each range of its keys is read in
//! order and becomes finished SST files; nothing is sorted or spilled. The old database is never written to.

use std::path::Path;

use parking_lot::Mutex;

use crate::error::{Error, Result, StateKind};
use crate::hash::{Content, ContentDigest};
use crate::load::built::{FamilyDone, SstFile, by_family};
use crate::load::column_families::{ColumnFamilies, CopiedFamily, presets_of};
use crate::load::commit::{commit_database, report};
use crate::load::context::{Completeness, Job, Loaded, Prepared};
use crate::load::identity::Identity;
use crate::load::import::Import;
use crate::load::ingest::ingest;
use crate::load::journal::Journal;
use crate::load::old_database::{OldDatabase, changing_files, damaged, refuse};
use crate::load::options::ImportOptions;
use crate::load::planner::{self, Planned, share_memory};
use crate::load::sink::Sinks;
use crate::load::source_identity::{KnownSource, SourceIdentity, digest};
use crate::load::sources::Sources;
use crate::load::target::{COMPANIONS, Target};
use crate::load::{disk_space, validate};
use crate::os::files::{is_same, read_regular, write_synced};
use crate::progress::{Event, Phase};
use crate::report::{ImportReport, LogPlan, Method, Plan, SampleReport, SourceInfo, sst_target};
use crate::rocks::key_ranges::{KeyRange, sized_ranges};
use crate::rocks::{
    DataFile, FamilyFacts, MAX_FILE, Reader, ReaderOptions, check_newest, declared_facts, family_facts, is_database,
};
use crate::sort::Borders;

/// The least bytes of a range, unless the preset has smaller files.
const LEAST_RANGE: u64 = 16 << 20;

/// A range of keys of a column family, and the bytes of the old files in it.
struct Part<'a> {
    family: &'a str,
    range: KeyRange,
    bytes: u64,
}

/// Returns the database among the sources. It is an error if there are other sources.
pub(super) fn source(options: &ImportOptions) -> Result<Option<&Path>> {
    let Some(database) = options.sources.iter().find(|source| is_database(source)) else { return Ok(None) };
    if options.sources.len() > 1 {
        let reason = format!("{} is a RocksDB database, which must be imported alone", database.display());
        return Err(Error::usage(reason, "name only the database"));
    }
    Ok(Some(database))
}

/// Plans the copy of a database.
pub(super) fn plan(import: &Import<'_>, source: &Path) -> Result<Plan> {
    let (target, is_finished) = import.begin()?;
    let (prepared, old) = prepare(import, source, &target, is_finished)?;
    // A copy sees the files and the WAL as well.
    let all = family_facts(source).map_err(|error| damaged(source, error))?;
    let is_copied = |facts: &&FamilyFacts| old.families.iter().any(|family| family.facts.name == facts.name);
    all.iter().filter(is_copied).try_for_each(|facts| refuse(source, facts))?;
    Ok(prepared.planned.plan)
}

/// Copies a database, or resumes an earlier run.
pub(super) fn run(import: &Import<'_>, source: &Path) -> Result<ImportReport> {
    let (target, is_finished) = import.begin()?;
    let (mut prepared, old) = prepare(import, source, &target, is_finished)?;
    let plan = &mut prepared.planned.plan;
    import.progress.report(&Event::Planned { plan: Box::new(plan.clone()) });
    [&mut plan.source, &mut plan.preset, &mut plan.preset_from].into_iter().for_each(|name| name.clear());
    if !is_finished {
        plan.check_space()?;
    }
    let is_new = !target.partial.exists();
    let copied = import.locked((target, is_finished), &prepared, old, |_, _| Ok(()), |job, old| load(job, &old));
    // The WAL may have what cannot be copied.
    if is_new && matches!(copied, Err(Error::State { kind: StateKind::Mismatch, .. })) {
        import.discard()?;
    }
    copied
}

fn prepare(import: &Import<'_>, source: &Path, target: &Target, is_finished: bool) -> Result<(Prepared, OldDatabase)> {
    let options = import.options;
    validate::check_database(options)?;
    let is_replaced = is_same(source, &target.db);
    let old = OldDatabase::find(import, source, is_replaced)?;
    let (families, bytes) = (&old.families, old.bytes);
    let first = families.first().map(|family| family.preset.clone());
    let preset = first.ok_or_else(|| Error::usage("no column family is left to copy", "skip fewer families"))?;
    let maps = families.iter().map(|family| family.preset.loading());
    let budget = options.memory_budget();
    let (memory, threads) = planner::beside_dictionaries(maps, budget, planner::threads(options, &preset));
    let mut plan = Plan {
        budget_bytes: budget,
        memory,
        threads,
        // A file that is built keeps 8 bytes for each key in memory.
        sst_bytes: preset.sst_size().min(budget * 2),
        expected_bytes: Some(bytes),
        ..Plan::default()
    };
    let names = families.iter().map(|family| family.facts.name.clone()).collect();
    // A later run with another budget must find the same ranges, so the budget limits only the files in them.
    let range_bytes = sst_target(bytes, preset.sst_size()).max(preset.sst_size().min(LEAST_RANGE));
    plan.method = Method::DatabaseSst { ranges: LogPlan { families: names, range_bytes, transactions: None } };
    plan.space = disk_space::of(&plan, true, 0, target)?;
    if !old.keeps_options() || options.overrides.set.iter().any(|set| set.contains("compression")) {
        // The old files may be compressed, and the new ones not.
        plan.space.iter_mut().for_each(|space| space.needed_bytes = None);
    }
    plan.source = source.display().to_string();
    (plan.preset, plan.preset_from) = (preset.preset.clone(), preset.choice.to_string());
    if !is_finished {
        import.warn(disk_space::warnings(&plan.space));
    }
    let known = KnownSource { files: changing_files(source)?, ..KnownSource::named(source) };
    let identity =
        SourceIdentity { header: digest(old.listing.as_bytes()), sources: [known].into(), ..SourceIdentity::default() };
    let mut identity = Identity::of(options, &preset, &plan, identity)?;
    families.iter().for_each(|family| identity.add_family(&family.facts.name, &family.preset));
    // The source has been exchanged with its copy.
    if is_finished
        && is_replaced
        && let Some(known) = Journal::peek(&target.partial).identity
    {
        identity = known;
    }
    let loading = preset.loading();
    let planned = Planned { plan, loading, least_bytes: 0, warnings: Vec::new() };
    let prepared = Prepared { sources: Sources::none(source), preset, planned, identity, is_plain: true };
    Ok((prepared, old))
}

/// Copies what an earlier run has not copied, ingests all, and commits.
fn load(job: &Job<'_>, old: &OldDatabase) -> Result<ImportReport> {
    let Job { target, progress, plan, .. } = *job;
    let families = ColumnFamilies::of_database(&old.families, plan);
    let mut before: Vec<FamilyFacts> = old.families.iter().map(|family| family.facts.clone()).collect();
    let (files, sample) = if job.resumed.ingesting {
        (job.resumed.built.files.clone(), None)
    } else {
        let mut reader = old.open(job)?;
        let files = reader.files()?;
        // RocksDB lists only the files of the column families that are open.
        if declared_facts(&old.path)?.iter().all(|facts| facts.refused.is_none()) {
            check_newest(&old.path, &files)?;
        }
        for facts in &mut before {
            facts.count(&reader, &files).map_err(|error| damaged(&old.path, error))?;
            refuse(&old.path, facts)?;
            let notes = facts.notes.iter().map(|note| format!("{}: {note}", facts.name));
            notes.for_each(|message| progress.report(&Event::Warning { message }));
        }
        let (threads, ahead) = share_memory(plan, &before);
        reader.ahead = ahead;
        let raw = before.iter().map(|facts| facts.raw_bytes).sum::<u64>();
        let copied = copy((job, threads, raw), old, &families, &reader, files)?;
        drop(reader);
        target.remove_dir(&target.scratch)?;
        copied
    };
    let facts = before.clone();
    let built = by_family(&facts, files);
    job.check_sources()?;
    progress.begin(Phase::Ingest, None);
    let reports = ingest(job, &families, &built)?;
    for name in COMPANIONS {
        if let Ok(bytes) = read_regular(&old.path.join(name), MAX_FILE) {
            write_synced(target.working(), name, &bytes)?;
        }
    }
    let reader = Reader::open(target.working(), &ReaderOptions::once())?;
    let values = built.iter().map(|(name, _)| reader.totals(name).map(|totals| totals.value_bytes));
    let payload = values.sum::<Result<u64>>()?;
    drop(reader);
    let info = SourceInfo {
        path: job.sources.shown().display().to_string(),
        format: "rocksdb".into(),
        compression: "none".into(),
        bytes: old.bytes,
        ..SourceInfo::default()
    };
    let consumed = plan.expected_bytes.unwrap_or_default();
    let loaded =
        Loaded { sample, before, consumed, ..Loaded::of_families(reports, presets_of(&old.families), payload) };
    commit_database(job, || report(job, info, loaded, Completeness::default()))
}

/// Copies all ranges, or those of a sample, that an earlier run has not copied. Returns the files of both runs. `raw` are the bytes of
/// all entries.
fn copy(
    (job, threads, raw): (&Job<'_>, usize, u64),
    old: &OldDatabase,
    families: &ColumnFamilies<'_>,
    reader: &Reader,
    mut files: Vec<DataFile>,
) -> Result<(Vec<SstFile>, Option<SampleReport>)> {
    let sinks = Sinks::files(job, families)?;
    // Files of a flushed WAL differ from run to run, but ranges must not.
    files.retain(|file| file.path.file_name().is_some_and(|name| old.path.join(name).exists()));
    let size = job.plan.ranges().map_or(u64::MAX, |ranges| ranges.range_bytes);
    let mut parts = Vec::new();
    for CopiedFamily { facts, .. } in &old.families {
        let own: Vec<&DataFile> = files.iter().filter(|file| file.family == facts.name).collect();
        let ranges = sized_ranges(&own, size, facts.is_reversed()).into_iter();
        parts.extend(ranges.map(|(range, bytes)| Part { family: &facts.name, range, bytes }));
    }
    let wanted = job.options.sample.map_or(parts.len(), |bytes| bytes.div_ceil(size.max(1)).max(1) as usize);
    let wanted: Vec<u32> = spread(parts.len(), wanted).collect();
    // Old files may be compressed.
    let whole = old.bytes.max(raw) as f64;
    let bytes: u64 = wanted.iter().filter_map(|part| parts.get(*part as usize)).map(|part| part.bytes).sum();
    let share = if wanted.len() < parts.len() { bytes as f64 / old.bytes.max(1) as f64 } else { 1.0 };
    job.progress.begin(Phase::Read, Some((whole * share) as u64));
    let sizes = Mutex::new(Vec::new());
    // A resumed run knows only a part of the sizes.
    let is_whole_sample = job.options.sample.is_some() && wanted.iter().all(|part| !job.resumed.is_built(*part));
    let built = sinks.build_ranges(job, threads, wanted, |number, record| {
        let Some(part) = parts.get(number as usize) else { return Ok(("", FamilyDone::default())) };
        let built = copy_range((job, old), &sinks, reader, part, record)?;
        sizes.lock().push((part.bytes as f64, built.files.iter().map(|file| file.bytes).sum::<u64>() as f64));
        Ok((part.family, built))
    })?;
    let sample = is_whole_sample.then(|| {
        let all = parts.iter().map(|part| part.bytes).sum::<u64>();
        SampleReport::estimate(&sizes.into_inner(), parts.len(), all)
    });
    Ok((built.files, sample))
}

/// Returns `count` of the numbers below `of`, one in each of as many equal intervals, always the same ones.
fn spread(of: usize, count: usize) -> impl Iterator<Item = u32> {
    let count = count.min(of);
    (0..count).map(move |number| {
        let (start, end) = (number * of / count, (number + 1) * of / count);
        let place = twox_hash::XxHash3_64::oneshot(&number.to_le_bytes()) as usize % (end - start).max(1);
        (start + place) as u32
    })
}

/// Copies the records of a range. `record` is memory for one record.
fn copy_range(
    (job, old): (&Job<'_>, &OldDatabase),
    sinks: &Sinks<'_>,
    reader: &Reader,
    Part { family, range, .. }: &Part<'_>,
    record: &mut Vec<u8>,
) -> Result<FamilyDone> {
    let mut sink = sinks.sink(family, Borders::default(), None)?;
    let unreadable = |error| damaged(&old.path, error);
    let mut scan = reader.scan(family, range.from.as_deref(), range.to.as_deref()).map_err(unreadable)?;
    let (mut read, mut done) = (Content::default(), (0, 0));
    while let Some((key, value)) = scan.item() {
        record.clear();
        record.extend_from_slice(key);
        record.extend_from_slice(value);
        let digest = ContentDigest::of_section(record, key.len());
        read.add(digest);
        sink.put_with_digest(record.split_at(key.len()), || digest)?;
        job.step(&mut done, record.len())?;
        scan.next();
    }
    scan.status().map_err(unreadable)?;
    job.progress.add(done.0, done.1);
    sink.finish_verified(read, &job.target.partial)
}
