//! Back from a database to a snapshot: a CARv1, plain, in zstd, or as Forest packs it; or a block log (`log`).
//!
//! ```text
//! order: which blocks, in which order  ->  car: whole sections in batches  ->  ship: packed by all threads,
//! depth first, all records, a list                                             written in order
//! ```
//!
//! Only what the database holds is written; nothing is hashed again, that is what `verify` is for. The blocks' content
//! digest is computed on the way, so an export of everything says whether it is what the import wrote.

mod car;
mod depth_first;
mod forest;
mod log;
mod order;
mod ship;
mod stack;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::car::Loader;
use self::log::LogExport;
use self::order::{Order, Selected};
use super::access::{Location, Resources};
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::os::files::Output;
use crate::progress::{Observer, Phase, Progress};
use crate::report::record::{ImportRecord, roots};
use crate::report::{EXPORT_SCHEMA, ExportReport, KeyFrom};
use crate::rocks::{Reader, ReaderOptions};
use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

/// The least memory an export works with, in bytes.
const MIN_MEMORY: u64 = 32 << 20;

/// Which blocks are exported, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// What the roots lead to, depth first: headers tipset by tipset, below each its messages and its state, as nodes
    /// write their snapshots.
    #[default]
    Linked,
    /// Every record, in the order of keys. Only where these are CIDs.
    All,
    /// The blocks whose CIDs stand in a file, one a line; `-` is standard input.
    Listed(PathBuf),
}

impl Selection {
    fn name(&self) -> &'static str {
        match self {
            Self::Linked => "linked",
            Self::All => "all",
            Self::Listed(_) => "listed",
        }
    }
}

/// How a snapshot is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// A plain CARv1.
    #[default]
    Car,
    /// A CARv1 in zstd frames of about 1 MiB of content, with checksums.
    CarZst,
    /// A CARv1 in small zstd frames with an index behind them, as Forest reads it without unpacking.
    ForestCarZst,
    /// A block log: Antelope's with its head, others from their first block on.
    Log,
    /// A block log in zstd frames of about 1 MiB of content, with checksums.
    LogZst,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Car, Self::CarZst, Self::ForestCarZst, Self::Log, Self::LogZst];

    /// The name on the command line, which is also the usual ending of a file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::CarZst => "car.zst",
            Self::ForestCarZst => "forest.car.zst",
            Self::Log => "log",
            Self::LogZst => "log.zst",
        }
    }

    /// Whether a block log is written.
    pub fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::LogZst)
    }

    /// The format that a file's name ends in; a plain CAR if in none.
    pub fn of_name(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let wrapped = [Self::ForestCarZst, Self::CarZst];
        wrapped.into_iter().find(|format| name.ends_with(&format!(".{}", format.name()))).unwrap_or_default()
    }

    /// The same of a block log: in zstd when the name ends in `.zst`.
    pub fn of_log_name(path: &Path) -> Self {
        let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zst"));
        if is_packed { Self::LogZst } else { Self::Log }
    }
}

/// What to export, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The database.
    pub db: PathBuf,
    /// Which blocks. Defaults to what the roots lead to.
    pub selection: Selection,
    /// The roots: where to begin, and what the header names. Defaults to those that the import recorded; for a list, to
    /// the first of its CIDs.
    pub roots: Vec<RawCid>,
    /// The first block of a log. Defaults to the first in the database.
    pub from: Option<u32>,
    /// The last block of a log. Defaults to the last in the database.
    pub to: Option<u32>,
    /// How the CAR or log is wrapped. Defaults to what the file's name ends in.
    pub format: Option<Format>,
    /// Replace a file that exists. Defaults to `false`.
    pub replace: bool,
    /// Publish the file even when blocks are missing. Defaults to `false`.
    pub allow_missing: bool,
    /// Blocks named by headers below this epoch may be missing. Defaults to none.
    pub allow_missing_below: Option<u64>,
    /// What the export may use.
    pub resources: Resources,
    /// Where the blocks are.
    pub location: Location,
}

impl ExportOptions {
    /// What the roots of `db` lead to, or all blocks of a log.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            selection: Selection::default(),
            roots: Vec::new(),
            from: None,
            to: None,
            format: None,
            replace: false,
            allow_missing: false,
            allow_missing_below: None,
            resources: Resources::default(),
            location: Location::default(),
        }
    }
}

/// Exports into a file, which stands under its name only when it is whole. That blocks are missing is no error: the
/// report says it, and whether the file was published.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::generate::Spec::new(bedload::generate::Profile::Mainnet, 1 << 20);
/// # bedload::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::progress::Silent;
/// use bedload::read::export::{ExportOptions, export};
///
/// let report = export(&ExportOptions::new(&db), &dir.path().join("back.forest.car.zst"), &Silent)?;
/// assert_eq!(report.format, "forest.car.zst");
/// assert_eq!(report.all_records, Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// There is no database, no root is known, the keys do not say what is asked for, a block cannot be read, the file
/// exists, or the disk is full.
pub fn export(options: &ExportOptions, file: &Path, observer: &dyn Observer) -> Result<ExportReport> {
    let record = ImportRecord::load(&options.db)?;
    let work = Work::open(options, record.as_ref())?;
    let mut output = Output::create(file, options.replace)?;
    let mut report = work.run(file, output.file(), observer)?;
    let start = Instant::now();
    if report.complete || options.allow_missing {
        output.publish()?;
        report.published = true;
    }
    report.seconds += start.elapsed().as_secs_f64();
    Ok(report)
}

/// Exports into a stream, as a plain CAR or log unless the options name a format.
///
/// # Errors
/// As [`export`], and what `out` says.
pub fn export_to<W: Write + Send>(
    options: &ExportOptions,
    out: &mut W,
    observer: &dyn Observer,
) -> Result<ExportReport> {
    let record = ImportRecord::load(&options.db)?;
    let mut report = Work::open(options, record.as_ref())?.run(Path::new("-"), out, observer)?;
    report.published = true;
    Ok(report)
}

/// What is exported.
enum Work<'a> {
    Car(Box<Export<'a>>),
    Log(Box<LogExport<'a>>),
}

impl<'a> Work<'a> {
    /// Looks whether it can be done, before anything is written.
    fn open(options: &'a ExportOptions, record: Option<&'a ImportRecord>) -> Result<Self> {
        if let Some((record, log)) = record.and_then(|record| Some((record, record.log.as_ref()?))) {
            return LogExport::open(options, record, log).map(|log| Self::Log(Box::new(log)));
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
        Export::open(options, record).map(|car| Self::Car(Box::new(car)))
    }

    fn run<W: Write + Send>(self, file: &Path, out: &mut W, observer: &dyn Observer) -> Result<ExportReport> {
        let progress = Progress::new(observer);
        let start = Instant::now();
        let report = progress.sampled(|| match self {
            Self::Car(mut export) => {
                let format = export.options.format.unwrap_or_else(|| Format::of_name(file));
                export.write(format, file, out, &progress)
            }
            Self::Log(export) => export.write(file, out, &progress),
        });
        progress.end();
        report.map(|report| ExportReport { seconds: start.elapsed().as_secs_f64(), ..report })
    }
}

/// An export of a CAR about to run.
struct Export<'a> {
    options: &'a ExportOptions,
    record: Option<&'a ImportRecord>,
    reader: Reader,
    family: String,
    layout: KeyLayout,
    roots: Vec<RawCid>,
    memory: u64,
}

impl<'a> Export<'a> {
    /// Looks whether it can be done, before anything is written.
    fn open(options: &'a ExportOptions, record: Option<&'a ImportRecord>) -> Result<Self> {
        if let Some(record) = record
            && record.source.format != "car"
        {
            return Err(Error::State {
                path: options.db.clone(),
                reason: format!("holds a {}, which has no blocks of a CAR", record.source.format),
                hint: "give --db the database of a CAR".into(),
            });
        }
        let (layout, known_from) = options.location.layout(record);
        if options.selection == Selection::All && layout != KeyLayout::Cid {
            let source = if known_from == KeyFrom::Caller { "--key says" } else { "its record says" };
            return Err(Error::Usage {
                reason: format!(
                    "not every record can be exported: blocks are stored by {} ({source}), which does not name their codecs",
                    layout.name()
                ),
                hint: "leave --all out to follow links from the roots, or name the CIDs with --cids".into(),
            });
        }
        let hint = "name one with --root, or export every record with --all";
        let roots = match &options.selection {
            Selection::Linked => roots(&options.roots, record, "export", hint)?,
            Selection::All => roots(&options.roots, record, "export", hint).unwrap_or_default(),
            Selection::Listed(_) if options.roots.is_empty() => Vec::new(),
            Selection::Listed(_) => options.roots.clone(),
        };
        let memory = options.resources.memory().max(MIN_MEMORY);
        let cache = usize::try_from(memory / 8).unwrap_or(usize::MAX);
        let reader =
            Reader::open(&options.db, &ReaderOptions { cache, open_files: -1, lenient: false, in_order: false })?;
        let family = options.location.family(record);
        Ok(Self { options, record, reader, family, layout, roots, memory })
    }

    fn write<W: Write + Send>(
        &mut self,
        format: Format,
        file: &Path,
        out: &mut W,
        progress: &Progress<'_>,
    ) -> Result<ExportReport> {
        let options = self.options;
        let order = Order::new(&options.selection)?;
        if self.roots.is_empty() {
            self.roots.extend(order.first_listed());
        }
        let this = &*self;
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
        let shipping = ship::Shipping {
            format,
            threads: options.resources.threads(),
            index_memory: this.memory / 4,
            dir: options.resources.work_dir(),
            path: file,
        };
        let (sum, shipped) = shipping.run(prelude.bytes.len() as u64, out, |loader| {
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
            missing: missing.total,
            missing_allowed: missing.allowed,
            first_missing: missing.first,
            malformed,
            complete: missing.total == missing.allowed || all_records == Some(true),
            published: false,
            log: None,
            seconds: 0.0,
        })
    }
}

/// What went into the file.
#[derive(Default)]
struct Sum {
    blocks: u64,
    payload: u64,
    car_bytes: u64,
    digest: ContentDigest,
    selected: Selected,
}

fn interrupted() -> Error {
    Error::Interrupted { hint: "nothing stands under the file's name; run it again".into() }
}

/// Takes a block: its CID, where in it the key begins, and its value.
type Take<'t> = dyn FnMut(&[u8], usize, &[u8]) -> Result<()> + 't;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_names_the_format() {
        for (name, format) in [
            ("a.car", Format::Car),
            ("a.forest.car.zst", Format::ForestCarZst),
            ("dir/A.CAR.ZST", Format::CarZst),
            ("forest.car.zst", Format::CarZst),
            ("anything", Format::Car),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
        }
    }
}
