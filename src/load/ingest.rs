//! Ingesting finished files into a new database, which is then opened once with the options of its node.

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::built::{FamilyDone, SstFile};
use crate::load::column_families::ColumnFamilies;
use crate::load::context::{Job, damaged_by};
use crate::load::journal::Entry;
use crate::load::uploads::Uploads;
use crate::os::files::sync_dir;
use crate::progress::Phase;
use crate::report::FamilyReport;
use crate::rocks::{IngestSettings, Level, Reader, ReaderOptions, Store, TableCheck};

/// Ingests the files of each family. Returns the reports of the families; the database is closed then.
pub(super) fn ingest(
    job: &Job<'_>,
    families: &ColumnFamilies<'_>,
    built: &[(&str, FamilyDone)],
) -> Result<Vec<FamilyReport>> {
    job.uploads.map_or(Ok(()), Uploads::drain)?;
    let staging = &job.target.staging;
    if !job.resumed.ingesting {
        // An earlier run may have died while it created the database, which has no file yet.
        job.target.remove_dir(staging)?;
    }
    let open = || Store::create(staging, &families.loading(), None);
    let is_there = |file: &SstFile| job.target.sst.join(&file.name).exists();
    let opened = match open() {
        // A disk that failed while RocksDB noted files may leave a database that names files which RocksDB has removed again. If
        // all of ours are still here, it is created again.
        Err(Error::Rocks { .. })
            if job.resumed.ingesting
                && !job.resumed.ingested
                && built.iter().flat_map(|(_, family)| &family.files).all(is_there) =>
        {
            job.target.remove_dir(staging)?;
            open()
        }
        opened => opened,
    };
    let store = opened.map_err(|error| job.damaged(error))?;
    store.leave_sequence_zero()?;
    let mut settings = job.preset.ingest();
    // If a disk fails while RocksDB notes the files of one family, those of the families before must be here still.
    settings.link_files = settings.move_files && built.len() > 1;
    settings.move_files &= !settings.link_files;
    built.iter().try_for_each(|(name, family)| ingest_family(job, &store, &settings, name, family))?;
    drop(store);
    if !job.resumed.ingested {
        sync_dir(staging)?;
        sync_dir(&job.target.partial)?;
        job.journal.append(&Entry::Ingested)?;
        failpoint::reach("ingested");
    }
    job.progress.begin(Phase::Compact, None);
    let count = |store: &Store| {
        built.iter().map(|(name, _)| Ok((store.levels(name)?, store.records(name)?))).collect::<Result<Vec<_>>>()
    };
    let found = Store::inspect_for_node(staging, &families.node(), count).map_err(|error| job.damaged(error))?;
    check_earlier_work(job, built)?;
    let report = |((name, family), (levels, found)): (&(&str, FamilyDone), (Vec<Level>, u64))| {
        check_ingested(job, name, &levels, found, family.tally.written.records)?;
        Ok(family.report(name, levels))
    };
    built.iter().zip(found).map(report).collect()
}

/// Ingests the files of one family, unless RocksDB has them.
fn ingest_family(
    job: &Job<'_>,
    store: &Store,
    settings: &IngestSettings,
    name: &str,
    family: &FamilyDone,
) -> Result<()> {
    // Ingesting is one step for RocksDB: after a crash a family has all files or none.
    let (found, records) = (store.records(name)?, family.tally.written.records);
    if found == records {
        return Ok(());
    }
    let paths = family.paths(&job.target.sst);
    if found != 0 || job.resumed.ingested || !paths.iter().all(|path| path.exists()) {
        let what = format!("records in {name}: it has {found} of {records}");
        return Err(Error::incomplete_work(&job.target.partial, what));
    }
    // Noted before any file moves.
    if !job.resumed.ingesting {
        job.journal.append(&Entry::Ingesting)?;
    }
    failpoint::reach("ingesting");
    store.ingest(name, paths, settings).map_err(|error| job.damaged(error))?;
    failpoint::reach("ingest");
    Ok(())
}

/// Checks that all `records` of a family are in the database, and none at level 0.
fn check_ingested(job: &Job<'_>, name: &str, levels: &[Level], found: u64, records: u64) -> Result<()> {
    let staging = &job.target.staging;
    if let Some(level) = levels.iter().find(|level| level.level == 0) {
        let message = format!("{} files of {name} are left at level 0", level.files);
        return Err(Error::Rocks { action: "compact", path: staging.clone(), message });
    }
    if found != records {
        let what = format!("is damaged: {name} has {found} records, {records} were written");
        return Err(Error::damaged_work(staging, what));
    }
    Ok(())
}

/// Reads back files that were on the disk between two runs: each column family must have the content that went into its
/// files.
fn check_earlier_work(job: &Job<'_>, built: &[(&str, FamilyDone)]) -> Result<()> {
    // Files of a bundle were compared with their inodes, or read again, before they were ingested.
    if !job.uses_earlier_work() || (job.options.is_seed && !job.resumed.ingesting) {
        return Ok(());
    }
    let staging = &job.target.staging;
    job.progress.begin(Phase::Check, None);
    let reader = Reader::open(staging, &ReaderOptions::scans()).map_err(|error| job.damaged(error))?;
    let files = reader.files()?;
    // Checks filters, and other blocks that a scan of the records does not read.
    let check = TableCheck::open(staging).map_err(|error| job.damaged(error))?;
    if let Some((_, error)) = check.fault_at_open(&files) {
        return Err(damaged_by(error));
    }
    if let Some((file, fault)) = check.faults(&files).find_map(|(file, fault)| Some((file, fault?))) {
        return Err(Error::damaged_work(&file.path, format!("is damaged: {fault}")));
    }
    drop(check);
    for (name, family) in built {
        let written = family.tally.written;
        let (found, _) = job.scan(&reader, &files, name).content().map_err(|error| job.damaged(error))?;
        if found != written {
            let what = format!("is damaged: {name} has {found}, {written} were written");
            return Err(Error::damaged_work(staging, what));
        }
    }
    Ok(())
}
