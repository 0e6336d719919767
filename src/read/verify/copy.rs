//! Verifies a database that was copied from another one: the content of its column families against the record of the import, or
//! each record against the other database.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;

use super::job::VerifyJob;
use super::recorded::compare_content;
use super::scan::{Seen, Totals, read_range};
use crate::error::{Error, Result, StateKind};
use crate::hash::content_digest::Content;
use crate::parallel;
use crate::progress::{Event, Phase};
use crate::report::{Against, FamilyReport, ImportReport, ProblemKind};
use crate::rocks::key_ranges::KeyRange;
use crate::rocks::{
    FamilyFacts, Reader, ReaderOptions, Scan, ScanMemory, check_logs, declared_facts, is_database, open_to_copy,
};

/// Opens the other database with its column families. Of a database that was copied, only those that were copied or have records here.
fn open_source(job: &VerifyJob<'_>, path: &Path, record: Option<&ImportReport>) -> Result<Reader> {
    if !is_database(path) {
        let reason = "is no database, and only the database's BEDLOAD.json says how a stream was imported";
        let hint = "import it into another --db, and give that to --against; blocks are compared with a snapshot without --key any";
        return Err(Error::state(path, StateKind::NoDatabase, reason, hint));
    }
    check_logs(path)?;
    let facts = declared_facts(path)?;
    let has = |family: &FamilyReport| facts.iter().any(|facts| facts.name == family.name);
    let copied = record.filter(|record| job.options.streams.is_none() && record.source.format == "rocksdb");
    // Another database may lack families of the copy.
    let copied = copied.filter(|record| record.families.iter().all(has));
    let is_compared = |name: &str| {
        copied.is_none_or(|record| record.families.iter().any(|family| family.name == name))
            || job.reader.scan(name, None, None).is_ok_and(|scan| scan.item().is_some())
    };
    let (compared, left_out): (Vec<_>, Vec<_>) = facts.iter().partition(|facts| is_compared(&facts.name));
    for FamilyFacts { name, .. } in left_out {
        let message = format!("the column family `{name}` was not copied, and is not compared");
        job.progress.report(&Event::Warning { message });
    }
    open_to_copy(path, &ReaderOptions::once(), &compared)
}

/// Returns the memory for scans of the database at `path`. The caches of this reader are small, so that it does not keep the indexes.
pub(super) fn scan_memory_of(path: &Path) -> ScanMemory {
    let how = ReaderOptions { lenient: true, ..ReaderOptions::once() };
    let opened = declared_facts(path).and_then(|facts| open_to_copy(path, &how, &facts.iter().collect::<Vec<_>>()));
    // One thread reads a database with a fault, which it reports.
    opened.and_then(|reader| reader.scan_memory()).unwrap_or(ScanMemory { each: u64::MAX, held: 0 })
}

/// Reads all records of all column families.
pub(super) fn everything(
    job: &VerifyJob<'_>,
    record: Option<&ImportReport>,
    opened_since: bool,
) -> Result<(Totals, Option<Against>)> {
    let source = job.options.against.first().map(|path| open_source(job, path, record)).transpose()?;
    let mut families = read_families(job, source.as_ref())?;
    let mut totals = Totals::default();
    families.values().for_each(|found| totals.merge(found));
    let of_family = |family: &FamilyReport| (family.name.clone(), family.records, family.digest);
    let mut imported: Vec<_> = record.iter().flat_map(|record| &record.families).map(of_family).collect();
    if imported.is_empty() {
        // The record of an import of blocks names no families.
        imported.extend(record.map(|it| (it.column_family.clone(), it.blocks.written, it.digest)));
    }
    let mut is_imported = true;
    for (name, records, digest) in &imported {
        let recorded = Content { records: *records, digest: *digest };
        let Totals { content, source, .. } = families.remove(name.as_str()).unwrap_or_default();
        is_imported &= source == recorded;
        // Records from before the import are not known, nor those that a program has added since.
        if record.is_some_and(|it| !it.into_existing) && (!opened_since || content.records <= *records) {
            compare_content(&format!(" in `{name}`"), content, recorded, job.problems);
        }
    }
    // Families that are not of the import.
    for new in families.values().filter(|_| record.is_some()) {
        is_imported &= new.source == Content::default();
        totals.since.merge(new.content);
    }
    let against = source.as_ref().map(|source| Against {
        source: job.options.streams.clone().unwrap_or_else(|| source.path.display().to_string()),
        blocks: totals.source.records,
        distinct: totals.source.records,
        digest: totals.source.digest,
        imported: record.map(|_| is_imported),
        same: totals.same,
        extra: totals.extra,
        unreadable: totals.unreadable,
    });
    Ok((totals, against))
}

/// Reads all column families, and those that only the source has.
fn read_families<'a>(job: &'a VerifyJob<'_>, source: Option<&'a Reader>) -> Result<BTreeMap<&'a str, Totals>> {
    job.progress.begin(Phase::Verify, Some(job.files.iter().map(|file| file.size).sum()));
    let own = &job.reader.families;
    let families = Mutex::new(BTreeMap::<&str, Totals>::new());
    if let Some(source) = source {
        for name in source.families.iter().filter(|name| !own.contains(name)) {
            let found = read_missing(job, source, name)?;
            if found.source.records > 0 {
                let message = format!("the column family `{name}` of the source is missing");
                job.problems.add(ProblemKind::Missing, None, message);
            }
            families.lock().insert(name, found);
        }
    }
    let of = |name| job.ranges_of(name).into_iter().map(move |range| (name, range));
    let parts: Vec<(&str, KeyRange)> = own.iter().flat_map(|name| of(name)).collect();
    let there = source.map_or(Ok(ScanMemory::default()), Reader::scan_memory)?;
    let threads = job.threads(there)?;
    let compare = |_: &mut (), item: usize| {
        let Some((family, range)) = item.checked_sub(1).and_then(|item| parts.get(item)) else {
            return job.check_tables();
        };
        let totals = read_part(job, source, family, range)?;
        families.lock().entry(family).or_default().merge(&totals);
        Ok(())
    };
    parallel::for_each(threads, 1 + parts.len(), || (), compare)?;
    Ok(families.into_inner())
}

/// Reads a column family that the database lacks.
fn read_missing(job: &VerifyJob<'_>, source: &Reader, family: &str) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut lost = source.scan(family, None, None)?;
    while let Some((key, value)) = lost.item() {
        job.options.resources.stop.check(Error::interrupted_reading)?;
        totals.source.add_record(key, value);
        lost.next();
    }
    lost.status().map(|()| totals)
}

/// Reads a range, and compares it with that of the source.
fn read_part(job: &VerifyJob<'_>, source: Option<&Reader>, family: &str, range: &KeyRange) -> Result<Totals> {
    let (from, to) = (range.from.as_deref(), range.to.as_deref());
    let is_reversed = job.reader.is_reversed(family);
    let has = |source: &&Reader| source.families.iter().any(|name| name == family);
    let mut theirs = source.filter(has).map(|source| source.scan(family, from, to)).transpose()?;
    let add = |kind, key: &[u8], message: &str| {
        job.problems.add_key(kind, family, key, || format!("{message} in the column family `{family}`"));
    };
    let add_missing = |key: &[u8]| add(ProblemKind::Missing, key, "the database lacks this record of the source");
    // Passes the records of the source before `next`, or all, and returns their content.
    let skip = |theirs: &mut Option<Scan<'_>>, next: Option<&[u8]>, passed: &dyn Fn(&[u8])| {
        let is_before = |key: &[u8]| next.is_none_or(|next| if is_reversed { key > next } else { key < next });
        let mut content = Content::default();
        while !job.options.resources.stop.is_cancelled()
            && let Some(scan) = theirs.as_mut()
            && let Some((key, value)) = scan.item().filter(|(key, _)| is_before(key))
        {
            content.add_record(key, value);
            passed(key);
            scan.next();
        }
        content
    };
    let mut totals = Totals::default();
    read_range(job, family, range, |seen| match seen {
        Seen::Record(key, value) => {
            totals.content.add_record(key, value);
            totals.payload += value.len() as u64;
            job.progress.add(value.len() as u64, 1);
            if source.is_none() {
                return;
            }
            totals.source.merge(skip(&mut theirs, Some(key), &add_missing));
            let scan = theirs.as_mut().filter(|scan| scan.item().is_some_and(|(theirs, _)| theirs == key));
            if let Some(scan) = scan {
                let is_same = scan.item().is_some_and(|(key, theirs)| {
                    totals.source.add_record(key, theirs);
                    theirs == value
                });
                totals.same += u64::from(is_same);
                if !is_same {
                    add(ProblemKind::Differs, key, "the source has another value under this key");
                }
                scan.next();
                return;
            }
            totals.extra += 1;
            if !job.options.allow_extra {
                add(ProblemKind::Extra, key, "the source does not have this record");
            }
        }
        Seen::Gap(next) => {
            let passed = skip(&mut theirs, next, &|_| ());
            totals.unreadable += passed.records;
            totals.source.merge(passed);
        }
    })?;
    totals.source.merge(skip(&mut theirs, None, &add_missing));
    job.options.resources.stop.check(Error::interrupted_reading)?;
    theirs.map_or(Ok(()), |scan| scan.status()).map(|()| totals)
}
