//! Exports a database as a snapshot: a CARv1, plain, in zstd, or as Forest packs it; or a block log (`log`).
//!
//! ```text
//! order: which blocks, in which order  ->  car: whole sections in batches  ->  writer_pool: packed by all threads,
//! depth first, all records, a list                                             written in order
//! ```
//!
//! Blocks are not hashed again; `verify` does that. The content digest is computed during the export, so a complete export says
//! if it matches the import.

mod batch;
mod car;
mod depth_first;
mod forest;
mod log;
mod open;
mod options;
mod order;
mod selected;
mod stack;
mod writer_pool;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use self::log::LogExport;
use self::open::Export;
pub use self::options::{ExportOptions, Format, Selection};
use self::order::BlockOrder;
use self::selected::Selected;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::os::files::Output;
use crate::os::watched_dir::WatchedDir;
use crate::progress::{Observer, Phase, Progress};
use crate::report::{EXPORT_SCHEMA, ExportReport, ImportReport};

/// Exports to a file, which gets its name when it is complete. Missing blocks are no error: the report counts them and says if
/// the file was committed.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::testing::generate::Spec::new(bedload::testing::generate::Profile::Mainnet, 1 << 20);
/// # bedload::testing::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::progress::Silent;
/// use bedload::{ExportOptions, export};
///
/// let report = export(&ExportOptions::new(&db), &dir.path().join("back.forest.car.zst"), &Silent)?;
/// assert_eq!(report.format, "forest.car.zst");
/// assert_eq!(report.all_records, Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::State`]: there is no database, it holds another format, a key is no CID, or the file exists;
/// [`Error::Usage`]: no root is known, the file's name ends in no format, or the options do not fit the database; [`Error::Rocks`]: a block cannot be
/// read; [`Error::VerificationFailed`]: the blocks are not those that the import of a log wrote; [`Error::Io`]: the
/// disk is full or fails; [`Error::Replaced`]; [`Error::Interrupted`].
pub fn export(options: &ExportOptions, file: &Path, observer: &dyn Observer) -> Result<ExportReport> {
    let dir = WatchedDir::open(&options.db);
    dir.guard(|| {
        let record = ImportReport::load(&options.db)?;
        let work = Work::open(options, record.as_ref(), &dir)?;
        let format = options.format.map_or_else(|| Format::of_name(file, work.is_log()), Ok)?;
        let mut output = Output::create(file, options.replace)?;
        let mut report = work.run(format, file, output.file(), observer)?;
        if !report.complete {
            dir.check()?;
        }
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
/// Those of [`export`], and [`Error::Io`] if `out` cannot be written.
pub fn export_to<W: Write + Send>(
    options: &ExportOptions,
    out: &mut W,
    observer: &dyn Observer,
) -> Result<ExportReport> {
    let dir = WatchedDir::open(&options.db);
    dir.guard(|| {
        let record = ImportReport::load(&options.db)?;
        let work = Work::open(options, record.as_ref(), &dir)?;
        let format = options.format.unwrap_or_else(|| Format::of_stream(work.is_log()));
        let mut report = work.run(format, Path::new("-"), out, observer)?;
        if !report.complete {
            dir.check()?;
        }
        report.committed = true;
        Ok(report)
    })
}

/// The blocks to export.
enum Work<'a> {
    Car(Box<Export<'a>>),
    Log(Box<LogExport<'a>>),
}

impl<'a> Work<'a> {
    /// Validates the options and opens the database, before anything is written.
    fn open(options: &'a ExportOptions, record: Option<&'a ImportReport>, dir: &WatchedDir) -> Result<Self> {
        if let Some((record, log)) = record.and_then(|record| Some((record, record.log.as_ref()?))) {
            let log = LogExport::open(options, record, log)?;
            dir.check()?;
            return Ok(Self::Log(Box::new(log)));
        }
        let of_logs = [
            (options.from.is_some(), "--from"),
            (options.to.is_some(), "--to"),
            (options.format.is_some_and(Format::is_log), "--format of a block log"),
        ];
        if let Some((_, option)) = of_logs.into_iter().find(|(given, _)| *given) {
            return Err(Error::Usage {
                reason: format!("{option} has no effect on the export of a CAR"),
                hint: "leave it out; --root, --all and --cids choose blocks of a CAR".into(),
            });
        }
        let car = Export::open(options, record)?;
        // The record and the files belong to the same database.
        dir.check()?;
        Ok(Self::Car(Box::new(car)))
    }

    fn is_log(&self) -> bool {
        matches!(self, Self::Log(_))
    }

    fn run<W: Write + Send>(
        self,
        format: Format,
        file: &Path,
        out: &mut W,
        observer: &dyn Observer,
    ) -> Result<ExportReport> {
        let (report, seconds) = Progress::timed(observer, |progress| match self {
            Self::Car(mut export) => write_car(&mut export, format, file, out, progress),
            Self::Log(export) => export.write(format, file, out, progress),
        })?;
        Ok(ExportReport { seconds, ..report })
    }
}

/// Writes the blocks of a CAR.
fn write_car<W: Write + Send>(
    export: &mut Export<'_>,
    format: Format,
    file: &Path,
    out: &mut W,
    progress: &Progress<'_>,
) -> Result<ExportReport> {
    let options = export.options;
    let order = BlockOrder::new(&options.selection)?;
    if export.roots.is_empty() {
        export.roots.extend(order.first_listed());
    }
    let this = &*export;
    let whole = this.record.filter(|record| !record.into_existing);
    let list_len = match options.selection {
        Selection::Listed(_) => None,
        _ => whole.map(|record| (record.payload_bytes, record.blocks.written)),
    };
    progress.begin(Phase::Export, list_len.map(|(bytes, _)| bytes));
    if let Some((_, blocks)) = list_len {
        progress.expect_blocks(blocks);
    }
    let failed = || Error::io("write", file);
    let prelude = car::prelude(format, &this.roots);
    out.write_all(&prelude.bytes).map_err(failed())?;
    let pool = writer_pool::WriterPool {
        format,
        threads: options.resources.thread_count(),
        index_memory: this.memory / 4,
        dir: options.resources.scratch_parent(),
        path: file,
    };
    let (sum, shipped) = pool.run(prelude.bytes.len() as u64, out, |loader| {
        let mut sum = Sum { car_bytes: prelude.car_bytes, ..Sum::default() };
        let selected = order.each(this, &mut |cid, key_start, value| {
            let key = cid.get(key_start..).unwrap_or_default();
            sum.blocks += 1;
            sum.payload += value.len() as u64;
            sum.digest.add_record(key, value);
            sum.car_bytes += loader.add(cid, value)?;
            progress.add(value.len() as u64, 1);
            Ok(())
        })?;
        Ok(Sum { selected, ..sum })
    })?;
    let Sum { blocks, payload, car_bytes, digest, selected } = sum;
    let all_records = whole.map(|record| record.blocks.written == blocks && record.digest == digest);
    let left_out = match (&options.selection, whole) {
        (Selection::Linked, Some(record)) => Some(record.blocks.written.saturating_sub(blocks)),
        (Selection::Linked, None) => Some(this.reader.entries(&this.family)?.saturating_sub(blocks)),
        _ => None,
    };
    let Selected { missing, malformed } = selected;
    Ok(ExportReport {
        schema: EXPORT_SCHEMA.into(),
        db: options.db.display().to_string(),
        file: file.display().to_string(),
        format: format.name().into(),
        selection: options.selection.name().into(),
        roots: this.roots.iter().map(ToString::to_string).collect(),
        blocks,
        payload_bytes: payload,
        car_bytes,
        bytes: shipped,
        digest,
        all_records,
        left_out,
        missing: missing.total,
        missing_allowed: missing.allowed,
        first_missing: missing.first,
        malformed,
        complete: missing.total == missing.allowed || all_records == Some(true),
        committed: false,
        log: None,
        seconds: 0.0,
    })
}

/// Content of the exported file.
#[derive(Default)]
struct Sum {
    blocks: u64,
    payload: u64,
    car_bytes: u64,
    digest: ContentDigest,
    selected: Selected,
}
