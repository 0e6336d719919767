//! Verifies a database that was copied from another one: the content of its column families against the record of the import, or
//! each record against the other database.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::job::VerifyJob;
use super::recorded::compare_content;
use super::scan::{Seen, Totals, for_each, read_range};
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::progress::{Event, Phase};
use crate::report::{Against, FamilyReport, ImportReport, ProblemKind};
use crate::rocks::key_ranges::KeyRange;
use crate::rocks::{
    FamilyFacts, Reader, ReaderOptions, check_logs, declared_facts, is_database, no_database, open_to_copy,
};

/// Reads all records of all column families.
pub(super) fn everything(
    job: &VerifyJob<'_>,
    record: Option<&ImportReport>,
    opened_since: bool,
) -> Result<(Totals, Option<Against>)> {
    let has = |name: &str| job.reader.families.iter().any(|family| family == name);
    let other = job.options.against.first();
    if let Some(path) = other.filter(|path| !is_database(path)) {
        return Err(no_database(path));
    }
    // The record of a copy names the families that were copied; without one, and of streams, all of the source are compared.
    let recorded = |name: &str| record.and_then(|record| record.families.iter().find(|family| family.name == name));
    let is_expected = |name: &str| record.is_none() || job.options.streams.is_some() || recorded(name).is_some();
    let facts = other.map_or(Ok(Vec::new()), |path| check_logs(path).and_then(|()| declared_facts(path)))?;
    let (expected, left_out): (Vec<_>, Vec<_>) = facts.iter().partition(|facts| is_expected(&facts.name));
    for FamilyFacts { name, .. } in left_out {
        let message = format!("the column family `{name}` was not copied, and is not compared");
        job.progress.report(&Event::Warning { message });
    }
    let missing: Vec<&str> = expected.iter().map(|facts| facts.name.as_str()).filter(|name| !has(name)).collect();
    for name in &missing {
        let message = format!("the column family `{name}` of the source is missing");
        job.problems.add(ProblemKind::Missing, None, message);
    }
    let reader = other.map(|path| open_to_copy(path, &ReaderOptions::once(), &expected)).transpose()?;
    let other = other.zip(reader);
    job.progress.begin(Phase::Verify, Some(job.files.iter().map(|file| file.size).sum()));
    let of = |family: &str| job.ranges_of(family).into_iter();
    let own = job.reader.families.iter().flat_map(|family| of(family).map(move |range| (family.as_str(), range)));
    let parts: Vec<(&str, KeyRange)> =
        own.chain(missing.iter().map(|name| (*name, KeyRange { from: None, to: None }))).collect();
    let families: BTreeMap<&str, Mutex<Totals>> = parts.iter().map(|(name, _)| (*name, Mutex::default())).collect();
    for_each(job, 1 + parts.len(), |_, item| {
        let Some((family, range)) = item.checked_sub(1).and_then(|item| parts.get(item)) else {
            return job.check_tables();
        };
        let mut totals = Totals::default();
        let is_extra = other.is_some() && expected.iter().all(|facts| facts.name != *family);
        if let Some((_, other)) = other.as_ref().filter(|_| !has(family)) {
            let mut lost = other.scan(family, None, None)?;
            while let Some((key, value)) = lost.item() {
                job.options.resources.stop.check(Error::interrupted_reading)?;
                totals.source.add_record(key, value);
                lost.next();
            }
            lost.status()?;
        } else {
            read_range(job, family, range, |seen| match seen {
                Seen::Record(key, value) => {
                    totals.content.add_record(key, value);
                    totals.payload += value.len() as u64;
                    job.progress.add(value.len() as u64, 1);
                    if is_extra {
                        add_extra(job, family, key, &mut totals);
                    }
                }
                Seen::Gap(_) => totals.unreadable += 1,
            })?;
            if let Some((_, other)) = other.as_ref().filter(|_| !is_extra) {
                compare_range(job, other, family, range, &mut totals)?;
            }
        }
        families.get(family).into_iter().for_each(|all| all.lock().merge(&totals));
        Ok(())
    })?;
    let mut totals = Totals::default();
    families.values().for_each(|family| totals.merge(&family.lock()));
    let found = |name: &str| families.get(name).map(|found| found.lock());
    for family in record.iter().flat_map(|record| &record.families) {
        let content = found(&family.name).map(|found| found.content).unwrap_or_default();
        // The records that a program has added since are not known.
        if !opened_since || content.records <= family.records {
            compare_content(&format!(" in `{}`", family.name), content, content_of(family), job.problems);
        }
    }
    let new = || families.iter().filter(|(name, _)| recorded(name).is_none()).map(|(_, found)| found.lock());
    let of_source = |family: &FamilyReport| found(&family.name).map(|found| found.source).unwrap_or_default();
    let is_imported = record.iter().flat_map(|record| &record.families).all(|it| of_source(it) == content_of(it))
        && new().all(|found| found.source == Content::default());
    // The record of an import of blocks names no families.
    if record.is_some_and(|record| !record.families.is_empty()) {
        new().for_each(|found| totals.since.merge(found.content));
    }
    let against = other.map(|(path, _)| Against {
        source: job.options.streams.clone().unwrap_or_else(|| path.display().to_string()),
        blocks: totals.source.records,
        distinct: totals.source.records,
        digest: totals.source.digest,
        imported: record.filter(|record| !record.families.is_empty()).map(|_| is_imported),
        same: totals.same,
        extra: totals.extra,
        unreadable: totals.unreadable,
    });
    Ok((totals, against))
}

fn content_of(family: &FamilyReport) -> Content {
    Content { records: family.records, digest: family.digest }
}

fn add_extra(job: &VerifyJob<'_>, family: &str, key: &[u8], totals: &mut Totals) {
    totals.extra += 1;
    if !job.options.allow_extra {
        let message = || format!("the source does not have this record in the column family `{family}`");
        job.problems.add_key(ProblemKind::Extra, family, key, message);
    }
}

/// Compares the records of a range with those of another database.
fn compare_range(
    job: &VerifyJob<'_>,
    other: &Reader,
    family: &str,
    range: &KeyRange,
    totals: &mut Totals,
) -> Result<()> {
    let (from, to) = (range.from.as_deref(), range.to.as_deref());
    let is_reversed = job.reader.is_reversed(family);
    let (mut here, mut there) = (job.reader.scan(family, from, to)?, other.scan(family, from, to)?);
    let add = |kind, key: &[u8], message: &str| {
        job.problems.add_key(kind, family, key, || format!("{message} in the column family `{family}`"));
    };
    loop {
        job.options.resources.stop.check(Error::interrupted_reading)?;
        let order = match (here.item(), there.item()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((mine, _)), Some((theirs, _))) if is_reversed => theirs.cmp(mine),
            (Some((mine, _)), Some((theirs, _))) => mine.cmp(theirs),
        };
        match (order, here.item(), there.item()) {
            (Ordering::Equal, Some((key, mine)), Some((_, theirs))) => {
                totals.source.add_record(key, theirs);
                if mine == theirs {
                    totals.same += 1;
                } else {
                    add(ProblemKind::Differs, key, "the source has another value under this key");
                }
            }
            (Ordering::Less, Some((key, _)), _) => add_extra(job, family, key, totals),
            (_, _, Some((key, value))) => {
                totals.source.add_record(key, value);
                add(ProblemKind::Missing, key, "the database lacks this record of the source");
            }
            _ => break,
        }
        if order != Ordering::Greater {
            here.next();
        }
        if order != Ordering::Less {
            there.next();
        }
    }
    // Unreadable records of this database were reported before.
    there.status()
}
