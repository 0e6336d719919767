//! Exports a database as a snapshot: a CARv1, plain, in zstd, or as Forest packs it; or a block log (`log`).
//!
//! ```text
//! order: which blocks, in which order  ->  batch: complete sections       ->  writer_pool: packed by all threads,
//! depth first, all records, a list                                             written in order
//! ```
//!
//! Blocks are not hashed again. The content digest is computed, so a complete export says if it matches the import.

mod batch;
mod depth_first;
mod log;
mod open;
mod options;
mod order;
mod writer_pool;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use self::log::LogExport;
use self::open::Export;
pub use self::options::{ExportFormat, ExportOptions, Selection};
use self::order::{CidList, each_block, open_list};
use self::writer_pool::WriterPool;
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::os::caller_code::Checked;
use crate::os::files::{Output, check_path};
use crate::os::watched_dir::WatchedDir;
use crate::progress::{Observer, Phase, Progress};
use crate::report::{ExportReport, ImportReport};

/// Exports to a file, which gets its name when it is complete. Missing blocks are no error: the report counts them.
///
/// # Errors
/// [`Error::State`]: there is no database, it has another format, a key is not a CID, or the file exists;
/// [`Error::Usage`]: no root is known, the file has an unknown suffix, or the options do not fit the database;
/// [`Error::Rocks`]: a block cannot be read; [`Error::VerificationFailed`]: the blocks are not those that the import of
/// a log wrote; [`Error::Io`]: the disk is full or fails; [`Error::Replaced`]; [`Error::Interrupted`].
pub fn export(options: &ExportOptions, file: &Path, observer: &dyn Observer) -> Result<ExportReport> {
    check_path("the file", file)?;
    with_work(options, |work| {
        let format = options.format.map_or_else(|| ExportFormat::of_name(file, work.is_log()), Ok)?;
        let mut output = Output::create(file, options.replace)?;
        let mut report = work.run(format, file, output.file(), observer)?;
        let start = Instant::now();
        if report.complete || options.allow_missing {
            output.commit()?;
            report.committed = true;
        }
        report.seconds += start.elapsed().as_secs_f64();
        Ok(report)
    })
}

/// Exports into a stream, as a plain CAR or log unless the options name a format.
///
/// # Errors
/// Those of [`export`], and [`Error::Io`] if `out` cannot be written or panics.
pub fn export_to<W: Write + Send>(
    options: &ExportOptions,
    out: &mut W,
    observer: &dyn Observer,
) -> Result<ExportReport> {
    with_work(options, |work| {
        let format = options.format.unwrap_or_else(|| ExportFormat::of_stream(work.is_log()));
        let report = work.run(format, Path::new("-"), &mut Checked(out), observer)?;
        Ok(ExportReport { committed: true, ..report })
    })
}

struct Work<'a> {
    dir: &'a WatchedDir,
    options: &'a ExportOptions,
    kind: ExportKind<'a>,
}

enum ExportKind<'a> {
    Car(Box<Export<'a>>),
    Log(Box<LogExport<'a>>),
}

/// Validates the options and opens the database, before anything is written.
fn with_work(options: &ExportOptions, run: impl FnOnce(Work<'_>) -> Result<ExportReport>) -> Result<ExportReport> {
    let dir = &WatchedDir::open(&options.db);
    dir.guard(|| {
        let record = ImportReport::load(&options.db)?;
        let log = record.as_ref().and_then(|record| Some((record, record.log.as_ref()?)));
        options.check(log.is_some())?;
        let kind = match log {
            Some((record, log)) => ExportKind::Log(Box::new(LogExport::open(options, record, log)?)),
            None => ExportKind::Car(Box::new(Export::open(options, record.as_ref())?)),
        };
        // The record and the files belong to the same database.
        dir.check()?;
        run(Work { dir, options, kind })
    })
}

impl Work<'_> {
    fn is_log(&self) -> bool {
        matches!(self.kind, ExportKind::Log(_))
    }

    fn run<W: Write + Send>(
        self,
        format: ExportFormat,
        file: &Path,
        out: &mut W,
        observer: &dyn Observer,
    ) -> Result<ExportReport> {
        let Self { dir, options, kind } = self;
        let (report, seconds) = Progress::timed(observer, |progress| {
            let pool = WriterPool { format, options, path: file, progress };
            match kind {
                ExportKind::Car(mut export) => write_car(&mut export, &pool, out),
                ExportKind::Log(export) => export.write(&pool, out),
            }
        })?;
        if !report.complete {
            dir.check()?;
        }
        Ok(ExportReport { seconds, ..report })
    }
}

fn write_car<W: Write + Send>(export: &mut Export<'_>, pool: &WriterPool<'_>, out: &mut W) -> Result<ExportReport> {
    let WriterPool { options, progress, .. } = *pool;
    let mut list = match &options.selection {
        Selection::Listed(path) => Some(open_list(path)?),
        _ => None,
    };
    if let Some(Ok(first)) = list.as_mut().filter(|_| export.roots.is_empty()).and_then(CidList::peek) {
        export.roots.push(first.clone());
    }
    let this = &*export;
    let whole = this.record.filter(|record| !record.into_existing);
    let expected = whole.filter(|_| list.is_none());
    progress.begin(Phase::Export, expected.map(|record| record.payload_bytes));
    if let Some(record) = expected {
        progress.expect_blocks(record.blocks.written);
    }
    let (prelude, header_bytes) = batch::prelude(pool.format, &this.roots);
    out.write_all(&prelude).map_err(Error::io("write", pool.path))?;
    let (missing, sum, bytes) = pool.run(prelude.len() as u64, out, |loader| each_block(this, list, loader))?;
    let Content { records: blocks, digest } = sum.content;
    let all_records = whole.map(|record| record.blocks.written == blocks && record.digest == digest);
    let left_out = match (&options.selection, whole) {
        (Selection::Linked, Some(record)) => Some(record.blocks.written.saturating_sub(blocks)),
        (Selection::Linked, None) => Some(this.reader.entries(&this.family)?.saturating_sub(blocks)),
        _ => None,
    };
    Ok(ExportReport {
        selection: options.selection.name().into(),
        roots: this.roots.iter().map(ToString::to_string).collect(),
        blocks,
        payload_bytes: sum.payload,
        car_bytes: header_bytes + sum.unpacked,
        bytes,
        digest,
        all_records,
        left_out,
        missing: missing.total,
        missing_allowed: missing.allowed,
        first_missing: missing.first,
        malformed: missing.malformed,
        complete: missing.total == missing.allowed || all_records == Some(true),
        ..options.report(pool.format, pool.path)
    })
}
