//! A CAR through SST files: read and sort, build, ingest. Files that are added to an existing database are compared with its
//! records, ingested above them, and compacted.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::Content;
use crate::load::built::FamilyDone;
use crate::load::car::blocks::conflict;
use crate::load::car::build::build;
use crate::load::car::completeness::report_f3;
use crate::load::car::read::{read, resume_read};
use crate::load::car::stored_blocks::StoredBlocks;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, Loaded};
use crate::load::existing::{Existing, ExistingRecords};
use crate::load::ingest::ingest;
use crate::load::journal::Entry;
use crate::load::planner::dictionary_bytes;
use crate::progress::Phase;
use crate::report::SortPlan;
use crate::rocks::{IngestSettings, Level, Reader, ReaderOptions, SstOptions, Store, Visit};
use crate::source::car::Chunks;

/// Records that are looked up at once in an existing database, and their bytes.
const LOOKED_UP: usize = 256;
const LOOKED_UP_BYTES: usize = 1 << 20;

/// Loads a CAR from its first block into a database, which is then closed and not yet under its name.
pub(in crate::load) fn load(job: &Job<'_>, sort: &SortPlan, mut chunks: Chunks) -> Result<Loaded> {
    let Job { options, target, progress, resumed, .. } = *job;
    // Before reading: it may refuse an option.
    let mut loading = job.loading.clone();
    loading.bound_dictionaries(dictionary_bytes(job.plan));
    let sst = SstOptions::new(&loading, &target.sst)?;
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
        progress.add_earlier((checkpoint.payload as f64 * share) as u64, resumed.built.tally.written.records);
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
    let mut repeats = BTreeMap::new();
    built.repeats.iter().for_each(|(source, count)| *repeats.entry(*source).or_default() += count);
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
        sources: blocks.sources,
        repeats,
        routed: Some((blocks.router, checkpoint.framed)),
        ..Loaded::default()
    })
}

/// Ingests the files into an existing database, above its own, and compacts it. Returns its levels, and how many of the
/// records it had before.
fn ingest_into_existing(job: &Job<'_>, built: &FamilyDone, existing: &Existing<'_>) -> Result<(Vec<Level>, u64)> {
    existing.make_backup()?;
    let before = compare(job, built, existing)?;
    job.progress.begin(Phase::Ingest, None);
    let store = existing.open(job.loading, &job.options.column_family, job.journal, None)?;
    // The keys may overlap, so the files go above with a sequence number of their own. The files stay in the `sst` folder, so
    // that the import can be resumed after the database was restored.
    let settings = IngestSettings {
        move_files: false,
        link_files: true,
        snapshot_consistency: true,
        allow_global_seqno: true,
        allow_blocking_flush: true,
        fail_if_not_bottommost_level: false,
        ..job.preset.ingest()
    };
    if before < built.tally.written.records {
        failpoint::reach("ingesting");
        store.ingest(&job.options.column_family, built.paths(&job.target.sst), &settings)?;
        failpoint::reach("ingest");
    }
    job.journal.append(&Entry::Ingested)?;
    failpoint::reach("ingested");
    job.progress.begin(Phase::Compact, None);
    if job.preset.final_compaction() {
        store.compact(&job.options.column_family, &job.preset.compaction())?;
    }
    let levels = store.levels(&job.options.column_family)?;
    drop(store);
    existing.lock_again()?;
    Ok((levels, before))
}

/// Reads the files back, which must have the records that were built, and compares each record with those of the database.
/// Returns how many the database had.
fn compare(job: &Job<'_>, built: &FamilyDone, existing: &Existing<'_>) -> Result<u64> {
    let Job { options, target, progress, .. } = *job;
    progress.begin(Phase::Check, None);
    let family = &options.column_family;
    let scratch = &target.scratch;
    target.remove_dir(scratch)?;
    let store = Store::create(scratch, &ColumnFamilies::of_car(job).loading(), None)?;
    let settings = IngestSettings { move_files: false, link_files: true, ..job.preset.ingest() };
    store.ingest(family, built.paths(&target.sst), &settings).map_err(|error| job.damaged(error))?;
    drop(store);
    let reader = Reader::open(scratch, &ReaderOptions::once()).map_err(|error| job.damaged(error))?;
    let files = reader.files()?;
    let known = existing.records(family)?;
    let new =
        || Comparison { job, known: &known, batch: Vec::new(), bytes: 0, content: Content::default(), existing: 0 };
    let parts = job.scan(&reader, &files, family).visit(new).map_err(|error| job.damaged(error))?;
    let found: Content = parts.iter().map(|part| part.content).sum();
    if found != built.tally.written {
        let what = format!("is damaged: its SST files have {found}, {} were written", built.tally.written);
        return Err(Error::damaged_work(&target.partial, what));
    }
    drop(reader);
    target.remove_dir(scratch)?;
    Ok(parts.iter().map(|part| part.existing).sum())
}

/// Records of finished files that are to be looked up.
struct Comparison<'a> {
    job: &'a Job<'a>,
    known: &'a ExistingRecords,
    batch: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    content: Content,
    /// Records that the database had before.
    existing: u64,
}

impl Visit for Comparison<'_> {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.content.add_record(key, value);
        self.bytes += key.len() + value.len();
        self.batch.push((key.to_vec(), value.to_vec()));
        if self.batch.len() >= LOOKED_UP || self.bytes >= LOOKED_UP_BYTES { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        let keys: Vec<&[u8]> = self.batch.iter().map(|(key, _)| &key[..]).collect();
        let mut existing = 0;
        self.known.look_up(&keys, true, |index, value| {
            existing += 1;
            if self.batch[index].1 == value {
                Ok(())
            } else {
                Err(conflict(&self.job.sources.shown(), keys[index], None))
            }
        })?;
        self.existing += existing;
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }
}
