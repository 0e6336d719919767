//! Verifies a database: every block of every file against its checksum, every value against its key, the total against the record
//! of the import and, if requested, each record against the source. Unreadable records are skipped; nothing is written.
//!
//! Threads share ranges of keys. Each record is read once, hashed in batches, and added to the content digest.

mod against;
mod claims;
mod copy;
mod files;
mod job;
mod log;
mod log_transactions;
mod options;
mod problems;
mod recorded;
mod records;
mod scan;

use self::claims::KeyReader;
use self::job::VerifyJob;
pub use self::options::VerifyOptions;
use self::problems::Collector;
use super::access::BlockLocation;
use super::advice;
use crate::error::{Error, Result};
use crate::os::watched_dir::WatchedDir;
use crate::progress::{Observer, Progress};
use crate::report::{ImportReport, ProblemKind, Recorded, VERIFY_SCHEMA, VerifyReport};
use crate::rocks::{DataFile, Reader, ReaderOptions, ScanMemory, check_logs, is_database};
use crate::sort::key::KeyLayout;
use crate::source::remote::take_secrets;

/// Verifies a database. Problems are no error: the report lists them.
///
/// # Errors
/// [`Error::State`]: there is no database; [`Error::BadInput`]: the source cannot be read; [`Error::Usage`]: the
/// options do not fit a block log; [`Error::Io`]: the system fails; [`Error::Replaced`]; [`Error::Interrupted`].
pub fn verify(options: &VerifyOptions, observer: &dyn Observer) -> Result<VerifyReport> {
    let mut options = options.clone();
    for against in &mut options.against {
        take_secrets(against, &mut options.network);
    }
    let options = &options;
    let dir = WatchedDir::open(&options.db);
    let (report, seconds) = Progress::timed(observer, |progress| dir.guard(|| run(options, progress)))?;
    // A verdict on a replaced database is of no use.
    dir.check()?;
    Ok(VerifyReport { seconds, ..report })
}

fn run(options: &VerifyOptions, progress: &Progress<'_>) -> Result<VerifyReport> {
    let (record, bad_record) = match ImportReport::load_with_checksum(&options.db) {
        Ok(Some((record, false))) => {
            (Some(record), Some("was changed after the import: it does not match its checksum".to_owned()))
        }
        Ok(record) => (record.map(|(record, _)| record), None),
        // A problem of the record names the record's path.
        Err(error) if matches!(&error, Error::State { path, .. } if *path == options.db) => return Err(error),
        Err(error @ Error::State { .. }) => (None, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let sources = record.as_ref().map_or(0, |record| record.sources.len());
    if options.against.len() > 1
        || (sources > 1 && options.against.first().is_some_and(|path| !options.allow_extra && !is_database(path)))
    {
        let reason = format!("a comparison takes one snapshot, but the database was imported from {sources}");
        return Err(Error::usage(reason, "pass --allow-extra to check only that the blocks of this snapshot exist"));
    }
    let BlockLocation { family, layout, known_from } = match options.location.find(&options.db, record.as_ref(), None) {
        // A changed record may contain anything.
        Err(_) if bad_record.is_some() => options.location.find(&options.db, None, None)?,
        place => place?,
    };
    let mut report = VerifyReport {
        schema: VERIFY_SCHEMA.into(),
        db: options.db.display().to_string(),
        column_family: family,
        key: layout,
        key_from: known_from,
        sample: options.sample,
        recorded: record.as_ref().map(|record| Recorded {
            source: record.source.path.clone(),
            whole: !record.into_existing,
            records: record.blocks.written,
            digest: record.digest,
            more_than_recorded: 0,
            confirmed: false,
        }),
        ..VerifyReport::default()
    };
    if let Some(part) = record.as_ref().and_then(|record| record.part.as_ref()) {
        report
            .notes
            .push(format!("the database is a part of a bundle and is compared with that part: {}", part.describe()));
    }
    let how = ReaderOptions { lenient: true, ..ReaderOptions::scans() };
    let opened = Reader::open(&options.db, &how).and_then(|reader| Ok((reader.files()?, reader)));
    let (files, reader) = match opened {
        Ok((files, reader)) => (files, Ok(reader)),
        Err(Error::Rocks { message, path, .. }) => {
            let file = (path != options.db).then_some(path);
            (Vec::new(), Err((file, format!("RocksDB cannot open it: {message}"))))
        }
        // A record of an import shows that this was a database.
        Err(Error::State { .. }) if record.is_some() || bad_record.is_some() => {
            (Vec::new(), Err((None, "the file CURRENT is missing, so RocksDB finds no database".to_owned())))
        }
        Err(error) => return Err(error),
    };
    if let (Ok(reader), None) = (&reader, &record) {
        report.key = options.location.find(&options.db, None, Some(reader))?.layout;
    }
    let layout = report.key;
    let problems = Collector::new(layout, &files);
    let known = (record.as_ref(), bad_record.as_deref());
    let is_foreign = record.is_none() && layout == KeyLayout::Any;
    if is_foreign && let Err(error) = check_logs(&options.db) {
        problems.add(ProblemKind::Open, None, error.to_string());
    }
    let opened_since = files::check(&options.db, known, &problems, &mut report.notes);
    let reader = match reader {
        Ok(reader) => reader,
        Err((file, words)) => {
            problems.add(ProblemKind::Open, file.as_deref(), words);
            report.problems = problems.take();
            return Ok(report);
        }
    };
    report.warnings = advice::on_database(&reader, &options.db)?;
    // A changed record may name any family.
    if bad_record.is_some() && !reader.families.contains(&report.column_family) {
        report.column_family = options.location.find(&options.db, None, None)?.family;
    }
    report.files = files.len() as u64;
    report.file_bytes = files.iter().map(|file| file.size).sum();
    check_sizes(&files, &problems);
    // A sample as large as the database reads the records in order.
    let has_all = |count: u64| reader.entries(&report.column_family).is_ok_and(|all| all > 0 && count >= all);
    report.sample = options.sample.filter(|count| !has_all(*count));
    let job = VerifyJob {
        // --memory is for a comparison.
        scan_memory: match options.against.is_empty() {
            true => ScanMemory::default(),
            false => copy::scan_memory_of(&options.db),
        },
        options,
        reader: &reader,
        files: &files,
        family: &report.column_family,
        keys: KeyReader::new(layout, record.as_ref().and_then(|record| record.hash_functions.as_deref())),
        problems: &problems,
        progress,
    };
    let log = record.as_ref().filter(|record| record.key == KeyLayout::Number);
    let is_copy = layout == KeyLayout::Any || options.against.first().is_some_and(|path| is_database(path));
    let (totals, against) = match (log, report.sample) {
        (Some(_), _) if options.sample.is_some() || !options.against.is_empty() => {
            let reason = "a database made from a block log is verified as a whole";
            return Err(Error::usage(reason, "omit --sample and --against"));
        }
        (Some(record), _) => {
            let (totals, found) = log::everything(&job, record)?;
            report.log = found;
            (totals, None)
        }
        (None, sample) if is_copy && (sample.is_some() || options.location.column_family.is_some()) => {
            let reason = "a database of records is verified as a whole";
            return Err(Error::usage(reason, "omit --sample and --column-family"));
        }
        (None, _) if is_copy => copy::everything(&job, record.as_ref(), opened_since)?,
        (None, Some(count)) => (records::sample(&job, count)?, None),
        (None, None) => records::everything(&job, record.as_ref())?,
    };
    report.records = totals.content.records;
    report.payload_bytes = totals.payload;
    report.against = against;
    if report.sample.is_none() {
        report.digest = Some(totals.content.digest);
        let untouched = || match &record {
            Some(record) if record.families.len() < 2 => {
                recorded::files_are_untouched(&reader, &files, record, totals.content.records - totals.since.records)
            }
            _ => Ok(false),
        };
        recorded::compare(&mut report, &totals, opened_since, is_copy, untouched, &problems)?;
    }
    report.problems = problems.take();
    report.valid = report.problems.total == 0;
    recorded::conclude(&mut report);
    Ok(report)
}

fn check_sizes(files: &[DataFile], problems: &Collector<'_>) {
    for DataFile { path, size, .. } in files {
        let message = match path.metadata() {
            Ok(metadata) if metadata.len() == *size => continue,
            Ok(metadata) => format!("the file is {} bytes long, but the database declares {size}", metadata.len()),
            Err(error) => format!("the file cannot be read: {error}"),
        };
        problems.add(ProblemKind::File, Some(path), message);
    }
}
