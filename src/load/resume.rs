//! Resumes, deletes or finishes the work of an earlier run.

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::digest_key::DigestKey;
use crate::load::context::Job;
use crate::load::existing::{Existing, opens};
use crate::load::identity::Identity;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::load::options::ImportOptions;
use crate::load::target::Target;
use crate::os::random_bytes;
use crate::progress::{Event, Progress};
use crate::report::ImportReport;

/// Resumes what an earlier run has left, or starts a journal, with a key of digests if the import reads its source twice.
/// An import that `starts_over` deletes what an earlier run has left.
pub(super) fn resume(
    options: &ImportOptions,
    progress: &Progress<'_>,
    target: &mut Target,
    existing: Option<&Existing<'_>>,
    identity: &Identity,
    reads_twice: bool,
    starts_over: bool,
) -> Result<(Journal, ResumedState)> {
    target.undo_swap()?;
    if options.restart {
        existing.map_or(Ok(()), Existing::restore_before_restart)?;
        target.clear()?;
    }
    Journal::check_version(&target.partial)?;
    // Opening the journal drops what is damaged in it.
    existing.map_or(Ok(()), Existing::check_last_writer)?;
    let (journal, mut resumed) = Journal::open(&target.partial)?;
    if let Some(known) = &resumed.identity {
        check_same(target, identity, known)?;
        if !starts_over {
            return continue_with(progress, target, existing, identity, journal, resumed);
        }
        let restored = existing.map(|it| it.resume(&journal, &mut resumed)).transpose()?.flatten();
        let deleted = format!("{}: deleted, because an import through memtables starts over", target.partial.display());
        restored.into_iter().chain([deleted]).for_each(|message| progress.report(&Event::Warning { message }));
    }
    drop(journal);
    start(target, existing, identity, reads_twice)
}

/// Refuses the work of another import.
fn check_same(target: &Target, identity: &Identity, known: &Identity) -> Result<()> {
    let differences = identity.differences(known);
    if differences.is_empty() {
        return Ok(());
    }
    let all: Vec<String> =
        differences.iter().map(|(name, there, here)| format!("{name} was {there}, is {here}")).collect();
    Err(Error::State {
        path: target.partial.clone(),
        reason: format!("holds an unfinished import of something else: {}", all.join("; ")),
        hint: "give the same source and options again to resume, or discard it with --restart".into(),
    })
}

fn continue_with(
    progress: &Progress<'_>,
    target: &mut Target,
    existing: Option<&Existing<'_>>,
    identity: &Identity,
    journal: Journal,
    mut resumed: ResumedState,
) -> Result<(Journal, ResumedState)> {
    // The identity in the journal lacks paths.
    resumed.touched = resumed.identity.as_ref().map_or_else(Vec::new, |known| identity.touched_since(known));
    resumed.compared = resumed.identity.as_ref().is_some_and(|known| known.sum() == identity.sum());
    let identity = resumed.identity.as_ref().map_or_else(|| identity.clone(), |first| identity.resuming(first));
    target.create(&identity)?;
    resumed.identity = Some(identity);
    if let Some(message) = existing.map(|it| it.resume(&journal, &mut resumed)).transpose()?.flatten() {
        progress.report(&Event::Warning { message });
    }
    target.reconcile(&resumed)?;
    progress.report(&Event::Resumed {
        source_bytes: resumed.car.read.as_ref().map_or(0, |(checkpoint, _)| checkpoint.consumed)
            + resumed.ranges.iter().map(|range| range.end - range.start).sum::<u64>(),
        built_files: resumed.files().count() as u64,
    });
    Ok((journal, resumed))
}

fn start(
    target: &mut Target,
    existing: Option<&Existing<'_>>,
    identity: &Identity,
    reads_twice: bool,
) -> Result<(Journal, ResumedState)> {
    existing.map_or(Ok(()), Existing::restore_before_restart)?;
    target.clear()?;
    let (journal, mut resumed) = Journal::open(&target.partial)?;
    let new_key = || random_bytes().map(DigestKey::new).map_err(Error::io("make a random key for", &target.partial));
    let digest_key = reads_twice.then(new_key).transpose()?;
    journal.append(&Entry::start(identity.clone(), digest_key.clone()))?;
    target.create(identity)?;
    (resumed.identity, resumed.digest_key) = (Some(identity.clone()), digest_key);
    failpoint::reach("start");
    Ok((journal, resumed))
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
    let same = !options.restart && known.is_some_and(|known| identity.differences(known).is_empty());
    let has_it = match if same { compare() } else { Ok(()) } {
        Ok(()) => true,
        Err(Error::State { .. } | Error::BadInput { .. }) => false,
        Err(error) => return Err(error),
    };
    // The checkpoint is kept until the database is known to open.
    if !opens(&target.db)? {
        return Err(does_not_open(target));
    }
    let report = ImportReport::load(&target.db)?;
    target.remove_leftovers()?;
    if !has_it {
        return Err(Error::State {
            path: target.db.clone(),
            reason: "the source is not the one that the finished import has read".into(),
            hint: "choose another --db, or add this source too with --into-existing".into(),
        });
    }
    Ok(report.filter(|_| same))
}

/// The error for a database that was complete and has been damaged since.
fn does_not_open(target: &Target) -> Error {
    Error::State {
        path: target.db.clone(),
        reason: "does not open any more: it was damaged after the import was complete".into(),
        hint: match target.into_existing {
            true => format!(
                "to go back to what it was before, put the files of {} in place of its own",
                target.checkpoint.display()
            ),
            false if target.swap.exists() => format!(
                "look at the disk; the database that it replaced is whole in {}: move it away first, then remove the rest \
                 and import again",
                target.swap.display()
            ),
            false => format!("look at the disk; then remove it and {}, and import again", target.partial.display()),
        },
    }
}
