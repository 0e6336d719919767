//! Resumes, deletes or finishes the work of an earlier run.

use crate::error::{Error, Result, StateKind};
use crate::failpoint;
use crate::hash::DigestKey;
use crate::load::commit::remove_old;
use crate::load::context::{Job, Prepared};
use crate::load::existing::{Existing, opens};
use crate::load::identity::Identity;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::load::options::{ImportOptions, Unfinished};
use crate::load::planner::Planned;
use crate::load::target::Target;
use crate::os::random_bytes;
use crate::progress::{Event, Progress};
use crate::report::ImportReport;

/// The most differences between two imports that an error lists.
const SHOWN: usize = 8;

/// Resumes what an earlier run has left, or starts a journal, with a key of digests if the import reads its source twice. An
/// import through memtables deletes what an earlier run has left.
pub(super) fn resume(
    options: &ImportOptions,
    progress: &Progress<'_>,
    target: &mut Target,
    existing: Option<&Existing<'_>>,
    prepared: &Prepared,
) -> Result<(Journal, ResumedState)> {
    let Prepared { identity, planned: Planned { plan, .. }, is_plain, .. } = prepared;
    target.undo_swap()?;
    if options.unfinished != Unfinished::Restart {
        match resume_earlier(progress, target, existing, prepared) {
            Err(error) if options.unfinished == Unfinished::ResumeOrRestart && error.needs_restart() => {
                let message = format!("{error}: it is deleted, and the import starts over");
                progress.report(&Event::Warning { message });
            }
            Ok(None) => {}
            Ok(Some(resumed)) => return Ok(resumed),
            Err(error) => return Err(error),
        }
    }
    existing.map_or(Ok(()), Existing::restore_before_restart)?;
    target.clear()?;
    let (journal, mut resumed) = Journal::open(&target.partial)?;
    let new_key = || random_bytes().map(DigestKey::new).map_err(Error::io("make a random key for", &target.partial));
    // A plain CAR is read again while its records are stored.
    let reads_twice = *is_plain && plan.sort().is_some_and(|sort| !sort.spill || sort.by_reference);
    let digest_key = reads_twice.then(new_key).transpose()?;
    journal.append(&Entry::start(identity.clone(), digest_key.clone()))?;
    if let Err(error) = target.create(identity) {
        // Otherwise an import with another work directory would be refused.
        target.clear()?;
        return Err(error);
    }
    (resumed.identity, resumed.digest_key) = (Some(identity.clone()), digest_key);
    failpoint::reach("start");
    Ok((journal, resumed))
}

/// Resumes what an earlier run has left. `None` if there is nothing, or the import starts over.
fn resume_earlier(
    progress: &Progress<'_>,
    target: &mut Target,
    existing: Option<&Existing<'_>>,
    prepared: &Prepared,
) -> Result<Option<(Journal, ResumedState)>> {
    let Prepared { identity, planned, .. } = prepared;
    let warn = |message: String| progress.report(&Event::Warning { message });
    Journal::check_version(&target.partial)?;
    // Opening the journal drops what is damaged in it.
    existing.map_or(Ok(()), Existing::check_last_writer)?;
    let (journal, mut resumed) = Journal::open(&target.partial)?;
    let Some(known) = &resumed.identity else { return Ok(None) };
    check_same(target, identity, known)?;
    // A pipe may deliver the same records in another order.
    let is_piped = planned.plan.records().is_some() && identity.has_pipe();
    let starts_over = planned.plan.memtable().is_some() || is_piped;
    if !starts_over {
        create(target, identity, &mut resumed)?;
    }
    existing.map(|it| it.resume(&journal, &mut resumed)).transpose()?.flatten().into_iter().for_each(warn);
    if starts_over {
        let cause = if is_piped { "of records from a pipe" } else { "through memtables" };
        warn(format!("{}: deleted, because an import {cause} starts over", target.partial.display()));
        return Ok(None);
    }
    target.reconcile(&resumed)?;
    progress.report(&Event::Resumed {
        source_bytes: resumed.car.read.as_ref().map_or(0, |(checkpoint, _)| checkpoint.consumed)
            + resumed.ranges.iter().map(|range| range.end - range.start).sum::<u64>(),
        built_files: resumed.files().count() as u64,
    });
    Ok(Some((journal, resumed)))
}

/// Creates the directories that an earlier run has not created, and completes the identity in its journal, which lacks paths.
fn create(target: &mut Target, identity: &Identity, resumed: &mut ResumedState) -> Result<()> {
    let Some(known) = &resumed.identity else { return Ok(()) };
    resumed.touched = identity.touched_since(known);
    resumed.compared = known.source.sum == identity.source.sum;
    let identity = identity.resuming(known);
    target.create(&identity)?;
    resumed.identity = Some(identity);
    Ok(())
}

fn check_same(target: &Target, identity: &Identity, known: &Identity) -> Result<()> {
    let differences = identity.differences(known);
    if differences.is_empty() {
        return Ok(());
    }
    let shown = differences.iter().take(SHOWN).map(|(name, there, here)| format!("{name} was {there}, is now {here}"));
    let more = differences.len().checked_sub(SHOWN + 1).map(|more| format!("and {} more", more + 1));
    let all: Vec<String> = shown.chain(more).collect();
    let reason = format!("contains a different unfinished import: {}", all.join("; "));
    let hint = "repeat the command of that import with the same source to resume it, or discard it with --restart";
    Err(Error::state(&target.partial, StateKind::Unfinished, reason, hint))
}

/// Cleans up after an earlier run that had given the database its name and died. Returns its report if it was this import
/// of the same source, which `compare` checks; `None` if it was another import, whose database stays as it is.
pub(super) fn finish_earlier(
    job: &Job<'_>,
    identity: &Identity,
    compare: impl FnOnce() -> Result<()>,
) -> Result<Option<ImportReport>> {
    let Job { options, target, resumed, .. } = *job;
    let known = resumed.identity.as_ref();
    let same =
        options.unfinished != Unfinished::Restart && known.is_some_and(|known| identity.differences(known).is_empty());
    let has_it = match if same { compare() } else { Ok(()) } {
        Ok(()) => true,
        Err(Error::State { .. } | Error::BadInput { .. }) => false,
        Err(error) => return Err(error),
    };
    // The backup is kept until the database is known to open.
    if !opens(&target.db)? {
        return Err(does_not_open(target));
    }
    let report = ImportReport::load(&target.db)?;
    remove_old(job)?;
    target.remove_leftovers()?;
    if !has_it {
        let hint = "choose another --db, or add this source too with --into-existing";
        let reason = "the source is not the one that the finished import has read";
        return Err(Error::state(&target.db, StateKind::Exists, reason, hint));
    }
    Ok(report.filter(|_| same))
}

/// The error for a database that was complete and has been damaged since.
fn does_not_open(target: &Target) -> Error {
    let hint = match target.into_existing {
        true => format!(
            "to restore the state before the import, replace the files of the database with those of {}",
            target.backup.display()
        ),
        false if target.swap.exists() => format!(
            "check the disk; the database that it replaced is whole in {}: move it away first, then remove the rest \
                 and import again",
            target.swap.display()
        ),
        false => format!("check the disk; then remove it and {}, and import again", target.partial.display()),
    };
    let reason = "does not open any more: it was damaged after the import was complete";
    Error::state(&target.db, StateKind::Other, reason, hint)
}
