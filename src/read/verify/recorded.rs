//! Compares the result with the record of the import. Count and digest are sums over all records. A node's own records change
//! count and digest, so an added record could hide a missing one. Then only the comparison with the snapshot decides, or the
//! import's files as long as no compaction has replaced one.

use std::path::Path;

use super::problems::Collector;
use super::scan::Totals;
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::report::{Against, ImportReport, ProblemKind, Recorded, VerifyReport, VerifyVerdict};
use crate::rocks::options_file::OptionsFile;
use crate::rocks::{DataFile, Reader};
use crate::sort::key::KeyLayout;
use crate::text::size::{counted, grouped};

/// Kinds of differences from a source.
const DIFFERENCES: [ProblemKind; 4] =
    [ProblemKind::Source, ProblemKind::Missing, ProblemKind::Extra, ProblemKind::Differs];

/// Compares the totals of all records with the record of the import. `opened_since`: a node may have written to the database.
/// `by_family`: each column family was compared before.
/// `untouched`: everything that the import wrote is still in its files and visible.
pub(super) fn compare(
    report: &mut VerifyReport,
    totals: &Totals,
    opened_since: bool,
    by_family: bool,
    untouched: impl FnOnce() -> Result<bool>,
    problems: &Collector<'_>,
) -> Result<()> {
    let Some(recorded) = &mut report.recorded else { return Ok(()) };
    let against = report.against.as_ref();
    if let Some(against) = against {
        name_the_source(against, recorded, problems, &mut report.notes);
    }
    recorded.confirmed |= against.is_some_and(|it| it.imported == Some(true) && it.same == it.distinct);
    if !recorded.whole {
        // Records of other writers are unknown, but the import's records are among them.
        let found = totals.content.records;
        if found < recorded.records {
            let message = format!("{} can be read, but the import added {}", records(found), grouped(recorded.records));
            problems.add(ProblemKind::Count, None, message);
        }
        return Ok(());
    }
    let written = Content { records: recorded.records, digest: recorded.digest };
    let more = totals.content.records.saturating_sub(written.records);
    // Damage may have removed as many records as were added. Differences from a source that was not imported are no damage.
    let is_foreign = against.is_some_and(|against| against.imported == Some(false));
    let is_damage = |kind: &ProblemKind| *kind != ProblemKind::Extra && !(is_foreign && DIFFERENCES.contains(kind));
    let damaged = problems.kinds().iter().any(is_damage);
    let compare = |of: &str, found| (!by_family).then(|| compare_content(of, found, written, problems));
    // Blocks of a log have numbers, and records have families: those of the import are compared without the others.
    let known = totals.since.records > 0;
    if !opened_since || (!known && (more == 0 || damaged)) {
        compare("", totals.content);
        recorded.confirmed |= totals.content == written;
        return Ok(());
    }
    recorded.more_than_recorded = if damaged { 0 } else { more };
    if report.log.is_none() && !recorded.confirmed {
        recorded.confirmed = untouched()?;
    }
    if known {
        let own = totals.content.without(totals.since);
        compare(" of the import", own);
        recorded.confirmed |= own == written;
    }
    Ok(())
}

/// Compares a content, which messages call `of`, with the record of the import.
pub(super) fn compare_content(of: &str, found: Content, recorded: Content, problems: &Collector<'_>) {
    if found.records != recorded.records {
        let message =
            format!("{}{of} can be read, but the import wrote {}", records(found.records), grouped(recorded.records));
        problems.add(ProblemKind::Count, None, message);
    }
    if found.digest != recorded.digest {
        let message =
            format!("the content digest{of} is {}, but the import recorded {}", found.digest, recorded.digest);
        problems.add(ProblemKind::Digest, None, message);
    }
}

/// Sets the result of an otherwise complete report.
pub(super) fn conclude(report: &mut VerifyReport) {
    let kinds = &report.problems.kinds;
    let only_differs = kinds.keys().all(|kind| DIFFERENCES.contains(kind));
    let only_extra = kinds.keys().all(|kind| *kind == ProblemKind::Extra);
    let is_compared = report.against.as_ref().is_some_and(|against| against.same == against.distinct);
    let reason = match &report.recorded {
        _ if only_differs && kinds.contains_key(&ProblemKind::Source) => {
            "it was compared with a source other than the imported one".into()
        }
        None if only_differs && !only_extra => {
            "records are missing or have other values; without BEDLOAD.json, the imported source is unknown".into()
        }
        _ if !only_extra => {
            report.verdict = VerifyVerdict::Damaged;
            return;
        }
        _ if !report.valid => {
            let extra = counted(report.problems.total, "record is", "records are");
            format!("{extra} not in the source")
        }
        _ if let Some(sample) = report.sample => format!("only {} were checked", records(sample)),
        Some(recorded) if recorded.confirmed => return report.verdict = VerifyVerdict::Confirmed,
        Some(recorded) if recorded.whole => {
            let more = records(recorded.more_than_recorded);
            format!(
                "it has been written to since the import, {more} more than recorded; records of the import may be missing"
            )
        }
        // The source of earlier records does not have those of the import.
        None if is_compared => return report.verdict = VerifyVerdict::Confirmed,
        Some(_) => "it had records before the import, so neither count nor digest shows if some are missing".into(),
        None => "without BEDLOAD.json the expected records are unknown".into(),
    };
    report.verdict = if report.valid { VerifyVerdict::Intact } else { VerifyVerdict::Differs };
    report.not_confirmed = Some(reason);
}

fn records(count: u64) -> String {
    counted(count, "record", "records")
}

/// The number of the OPTIONS file, which is the last file that the import wrote. No number is given twice.
fn last_number(record: &ImportReport) -> Option<u64> {
    record.small_files.iter().find_map(|file| OptionsFile::number(Path::new(&file.name)))
}

/// True if all files of the import are in use and no entry hides one of their records: each entry is one of the `records` that
/// can be read, or no entry is a deletion and the values match their keys, so that an overwritten value is no loss.
/// An entry that hides a record is an entry itself: `n` more entries are at most `n` more records, and fewer if one is hidden.
pub(super) fn files_are_untouched(
    reader: &Reader,
    files: &[DataFile],
    record: &ImportReport,
    records: u64,
) -> Result<bool> {
    let imported =
        record.levels.iter().fold((0, 0), |(files, bytes), level| (files + level.files, bytes + level.bytes));
    let Some(last) = last_number(record) else { return Ok(false) };
    let own = files.iter().filter(|file| file.family == record.column_family && file.number() < Some(last));
    let found = own.fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.size));
    if found != imported {
        return Ok(false);
    }
    // Without deletions every verified key is still there. RocksDB does not count deletions of ranges in memtables.
    let family = &record.column_family;
    let has_no_deletions = || Ok::<_, Error>(reader.unflushed(family)? == 0 && reader.totals(family)?.deletions == 0);
    Ok(reader.entries(family)? == records || (record.key != KeyLayout::Any && has_no_deletions()?))
}

/// Reports a source other than that of the import: as a problem if it explains others.
fn name_the_source(against: &Against, recorded: &Recorded, problems: &Collector<'_>, notes: &mut Vec<String>) {
    if against.imported != Some(false) {
        return;
    }
    let message = format!(
        "the database was imported from {}, digest {}, not from {}, digest {}",
        recorded.source, recorded.digest, against.source, against.digest
    );
    let differ = [ProblemKind::Missing, ProblemKind::Extra, ProblemKind::Differs];
    if problems.kinds().iter().any(|kind| differ.contains(kind)) {
        problems.add(ProblemKind::Source, None, message);
    } else {
        notes.push(message);
    }
}
