//! RocksDB takes the files of all families over; then the database is opened once as its node will open it.

use std::path::PathBuf;

use super::super::families::Families;
use super::super::job::Job;
use super::super::journal::Entry;
use super::super::publish::sync_dir;
use super::output::FamilyDone;
use super::reading::LogDone;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::progress::Phase;
use crate::report::FamilyReport;
use crate::rocks::Store;
use crate::schema::{BLOCK_IDS, TRANSACTIONS};

/// What each family was handed.
pub(super) fn handed<'a>(done: &LogDone, families: &Families<'a>) -> Vec<(&'a str, FamilyDone)> {
    let of = |name: &'a str| {
        let mut all = FamilyDone::default();
        match name {
            TRANSACTIONS => all.add(&done.transactions),
            BLOCK_IDS => done.ranges.iter().for_each(|range| all.add(&range.ids)),
            _ => done.ranges.iter().for_each(|range| all.add(&range.blocks)),
        }
        (name, all)
    };
    families.names().map(of).collect()
}

/// From finished files to a closed database, and what is in it.
pub(super) fn hand_over(job: &Job<'_>, families: &Families<'_>, done: &LogDone) -> Result<Vec<FamilyReport>> {
    let staging = &job.target.staging;
    let handed = handed(done, families);
    let store = job.open_to_ingest(families)?;
    for (name, family) in &handed {
        // Taking over is one step for RocksDB: after a crash a family has all files or none.
        let (found, records) = (store.records_in(name)?, family.tally.records);
        if found == records {
            continue;
        }
        let paths: Vec<PathBuf> = family.files.iter().map(|file| job.target.sst.join(&file.name)).collect();
        if found != 0 || job.before.ingested || !paths.iter().all(|path| path.exists()) {
            let what = format!("lacks records: {name} has {found} of {records}");
            return Err(Error::damaged_work(&job.target.partial, what));
        }
        if !job.before.ingesting {
            job.journal.append(&Entry::Ingesting)?;
        }
        failpoint::reach("ingesting");
        store.ingest_into(name, paths, &job.preset.ingest()).map_err(|error| job.damaged(error))?;
        failpoint::reach("ingest");
    }
    drop(store);
    if !job.before.ingested {
        sync_dir(staging)?;
        sync_dir(&job.target.partial)?;
        job.journal.append(&Entry::Ingested)?;
        failpoint::reach("ingested");
    }
    job.progress.begin(Phase::Settle, None);
    let store = Store::reopen_families(staging, &families.node(), None).map_err(|error| job.damaged(error))?;
    let mut reports = Vec::new();
    let mut written = Vec::new();
    for (name, done) in &handed {
        let levels = store.levels_in(name)?;
        if let Some(level) = levels.iter().find(|level| level.level == 0) {
            return Err(Error::Rocks {
                action: "settle",
                path: staging.clone(),
                message: format!("{} files of {name} are left at level 0", level.files),
            });
        }
        let found = store.records_in(name)?;
        if found != done.tally.records {
            let what = format!("is damaged: {name} has {found} records, {} were written", done.tally.records);
            return Err(Error::damaged_work(staging, what));
        }
        written.push((*name, done.tally.written()));
        reports.push(done.report(name, levels));
    }
    drop(store);
    job.check_taken_over(&written)?;
    Ok(reports)
}
