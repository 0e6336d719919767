//! Adding finished files to an existing database: they are compared with its records, ingested above them, and compacted.

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::load::built::FamilyDone;
use crate::load::car::blocks::conflict;
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::existing::{Existing, ExistingRecords};
use crate::load::journal::Entry;
use crate::progress::Phase;
use crate::rocks::settings::IngestSettings;
use crate::rocks::{Level, Reader, ReaderOptions, Store, Visit};

/// Records that are looked up at once in an existing database, and their bytes.
const LOOKED_UP: usize = 256;
const LOOKED_UP_BYTES: usize = 1 << 20;

/// Ingests the files into an existing database, above its own, and compacts it. Returns its levels, and how many of the
/// records it had before.
pub(super) fn ingest_into_existing(
    job: &Job<'_>,
    built: &FamilyDone,
    existing: &Existing<'_>,
) -> Result<(Vec<Level>, u64)> {
    existing.make_checkpoint()?;
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
