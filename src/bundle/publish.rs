//! Publishing a finished database, file by file.

use std::path::{Path, PathBuf};

use derive_setters::Setters;
use rayon::prelude::*;

use super::description::write_description;
use super::document::{BundleFile, families, file_name};
use super::hashing;
use super::problem::BundleProblem;
use super::signature::Signer;
use super::target::BundleTarget;
use super::uploader::Uploader;
use crate::error::{Error, Result, StateKind};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::os::files::open_regular;
use crate::os::watched_dir::WatchedDir;
use crate::parallel;
use crate::preset::Loader;
use crate::progress::{CancellationToken, Observer, Phase, Progress};
use crate::report::{BundleReport, ImportReport, Plan};
use crate::rocks::options_file::OptionsFile;
use crate::rocks::{DataFile, Level, Reader, ReaderOptions, TableCheck, levels_of, no_database};
use crate::source::remote::{NetworkOptions, is_remote};

/// The options of [`bundle`](fn@crate::bundle).
#[derive(Debug, Clone, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct BundleOptions {
    #[setters(skip)]
    pub(crate) db: PathBuf,
    /// A directory, or a URL of an object store.
    #[setters(skip)]
    pub(crate) to: PathBuf,
    /// Number of threads that verify. Defaults to the number of cores.
    pub(crate) threads: Option<usize>,
    /// Options for a place on the network.
    pub(crate) network: NetworkOptions,
    /// The key that signs the bundle. Defaults to no signature.
    pub(crate) signer: Option<Signer>,
    /// The token that cancels the call.
    pub(crate) stop: CancellationToken,
}

impl BundleOptions {
    /// Creates options for a bundle of `db` at `place`: a directory, or a URL of an object store (s3, gs, az).
    pub fn new(db: impl Into<PathBuf>, place: impl Into<PathBuf>) -> Self {
        let (network, stop) = Default::default();
        Self { db: db.into(), to: place.into(), threads: None, network, signer: None, stop }
    }
}

/// A file of the database, with its path and BLAKE3.
type VerifiedFile = (BundleFile, PathBuf, blake3::Hash);

/// Publishes an imported database as a bundle, from which [`seed`](fn@crate::seed) makes databases.
///
/// Verifies every record against the import's report. Uploads the files that the place does not have, then the
/// description `bundle.json`, and last the pointer `latest`, the only file that ever changes. After a crash the same
/// call skips published files.
///
/// # Errors
/// [`Error::State`]: a node has written to the database, or no import made it; [`Error::BadInput`]: the database is
/// damaged; [`Error::Usage`]: the place cannot have a bundle; [`Error::Interrupted`].
pub fn bundle(options: &BundleOptions, observer: &dyn Observer) -> Result<BundleReport> {
    let dir = WatchedDir::open(&options.db);
    let (report, seconds) = Progress::timed(observer, |progress| dir.guard(|| run(options, progress)))?;
    Ok(BundleReport { seconds, ..report })
}

fn run(options: &BundleOptions, progress: &Progress<'_>) -> Result<BundleReport> {
    let BundleOptions { db, stop, .. } = options;
    let target = &BundleTarget::open(&options.to, &options.network, Some(db))?;
    let record = record(db)?;
    let files = verify(options, &record, progress)?;
    let record = strip_machine_data(record);
    let signer = options.signer.as_ref();
    let uploader = Uploader::new(target, signer, progress, stop);
    uploader.read_newest(&record.options)?;
    progress.begin(Phase::Export, Some(files.iter().map(|(file, ..)| file.bytes).sum()));
    let at_once = target.at_once(files.iter().map(|(file, ..)| file.bytes).max());
    let files = map_all(at_once, &files, |(own, path, blake3)| {
        stop.check(Error::interrupted)?;
        let published = uploader.upload(own.clone(), path, *blake3)?;
        progress.add(own.bytes, own.records);
        Ok(published)
    })?;
    failpoint::reach("bundle-files");
    progress.begin(Phase::Commit, None);
    let report = uploader.complete(write_description(target, record, files, db, signer)?);
    Ok(BundleReport { db: db.display().to_string(), ..report })
}

/// Calls `work` for all items on `threads` threads and returns the results in order.
fn map_all<I: Sync, T: Send, W: Fn(&I) -> Result<T> + Send + Sync>(
    threads: usize,
    items: &[I],
    work: W,
) -> Result<Vec<T>> {
    parallel::pool(threads)?.install(|| items.par_iter().map(work).collect())
}

/// Reads the import's report and checks that the database can be published.
fn record(db: &Path) -> Result<ImportReport> {
    let refused = |reason: &str, hint: &str| Err(Error::state(db, StateKind::Other, reason, hint));
    let Some((report, is_valid)) = ImportReport::load_with_checksum(db)? else {
        if !db.join("CURRENT").exists() {
            return Err(no_database(db));
        }
        return refused("has no BEDLOAD.json, so no import made it", "bundle a database that `bedload import` made");
    };
    if !is_valid {
        let what = "BEDLOAD.json does not match its checksum".into();
        return Err(Error::bad_input(db, None, BundleProblem::NotAsImported(what)));
    }
    let again = "import the snapshot into a new database with a preset of the ingest loader, and bundle that one";
    if report.into_existing {
        return refused("also contains records from before its import", again);
    }
    if !report.families.is_empty() {
        return refused("has records without hashes, and a bundle has blocks", "copy the directory of the database");
    }
    if report.part.is_some() {
        return refused("is only a part of a bundle", "bundle a whole database");
    }
    if report.loader != Loader::Ingest.to_string() {
        return refused("was written through memtables: its files cannot be ingested", again);
    }
    Ok(report)
}

/// Checks that the database contains the recorded content in the files of the import, and nothing else.
fn verify(options: &BundleOptions, record: &ImportReport, progress: &Progress<'_>) -> Result<Vec<VerifiedFile>> {
    let db = &options.db;
    let bad = |what: String| Error::bad_input(db, None, BundleProblem::NotAsImported(what));
    let damaged = |error: Error| match error {
        Error::Rocks { message, path, .. } if crate::error::errno_of(&message).is_none() => {
            bad(if path == *db { message } else { format!("{}: {message}", path.display()) })
        }
        error => error,
    };
    let reader = Reader::open(db, &ReaderOptions::once()).map_err(damaged)?;
    let mut files = reader.files()?;
    files.sort_by(|one, other| one.smallest.cmp(&other.smallest));
    let hint = "bundle a database before a node uses it: import the snapshot again, or seed another one";
    check_untouched(db, record, &files, hint)?;
    progress.begin(Phase::Verify, Some(files.iter().map(|file| file.size).sum()));
    let threads = parallel::count(options.threads);
    let mut verified = Vec::new();
    for (family, recorded) in families(record) {
        let own: Vec<&DataFile> = files.iter().filter(|file| file.family == family).collect();
        // Deletions and records in the WAL count as entries.
        let entries = reader.entries(&family)?;
        if entries != recorded.records {
            return Err(bad(format!("{family} has {entries} entries, but its import wrote {}", recorded.records)));
        }
        let found = map_all(threads, &own, |file| read_file(options, &reader, file, progress).map_err(damaged))?;
        let mut content = Content::default();
        found.iter().for_each(|(file, ..)| content.merge(file.content()));
        if content != recorded {
            return Err(bad(format!("{family} has {content}, but its import wrote {recorded}")));
        }
        verified.extend(found);
    }
    TableCheck::check_all(db, &files).map_err(damaged)?;
    Ok(verified)
}

/// Checks that the database has exactly the files of its import.
pub(super) fn check_untouched(db: &Path, record: &ImportReport, files: &[DataFile], hint: &str) -> Result<()> {
    let changed = |reason: String| Err(Error::state(db, StateKind::Modified, reason, hint));
    let families: Vec<(&str, &[Level])> = match &record.log {
        None => vec![(record.column_family.as_str(), record.levels.as_slice())],
        Some(log) => log.families.iter().map(|family| (family.name.as_str(), family.levels.as_slice())).collect(),
    };
    // The import wrote the OPTIONS file last, and file numbers are unique.
    let last = record.small_files.iter().find_map(|file| OptionsFile::number(Path::new(&file.name)));
    for file in files {
        let is_own = families.iter().any(|(family, _)| *family == file.family) && file.number() < last;
        if !is_own {
            return changed(format!("a node has written to it since its import: {} is new", file.path.display()));
        }
    }
    for (family, recorded) in families {
        let own = files.iter().filter(|file| file.family == family);
        let found = levels_of(own.map(|file| (file.level, file.size)));
        if found != recorded || found.len() > 1 {
            return changed(format!("a node has written to it since its import: the files of {family} differ"));
        }
    }
    Ok(())
}

fn read_file(
    options: &BundleOptions,
    reader: &Reader,
    file: &DataFile,
    progress: &Progress<'_>,
) -> Result<VerifiedFile> {
    let DataFile { family, path, size, smallest, largest, .. } = file;
    let opened = open_regular(path).map_err(Error::io("read", path))?;
    let (bytes, blake3) = hashing::hash(&opened, path, *size, &options.stop)?;
    if bytes != *size {
        let what = format!("{} is {bytes} bytes long, but the database declares {size}", path.display());
        return Err(Error::bad_input(&options.db, None, BundleProblem::NotAsImported(what)));
    }
    // The smallest key after the last one.
    let end = [largest.as_slice(), &[0]].concat();
    let (mut content, mut scan) = (Content::default(), reader.scan(family, Some(smallest), Some(&end))?);
    while let Some((key, value)) = scan.item() {
        content.add_record(key, value);
        if content.records % 1024 == 0 {
            options.stop.check(Error::interrupted)?;
        }
        scan.next();
    }
    scan.status()?;
    progress.add(bytes, content.records);
    let sum = blake3.to_hex().to_string();
    let file = BundleFile {
        name: file_name(&sum),
        bytes,
        blake3: sum,
        column_family: family.clone(),
        first: data_encoding::HEXLOWER.encode(smallest),
        last: data_encoding::HEXLOWER.encode(largest),
        records: content.records,
        digest: content.digest,
    };
    Ok((file, path.clone(), blake3))
}

/// Removes local paths, and measurements, which would change the id with each run.
pub(super) fn strip_machine_data(mut report: ImportReport) -> ImportReport {
    let shortened = |path: &str| match is_remote(Path::new(path)) {
        true => path.to_owned(),
        false => Path::new(path).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
    };
    for source in std::iter::once(&mut report.source).chain(&mut report.sources) {
        source.path = shortened(&source.path);
        if let Some(sum) = &mut source.checksum {
            sum.from = shortened(&sum.from);
        }
        if let Some(remote) = &mut source.remote {
            (remote.requests, remote.received_bytes, remote.connections) = (0, 0, 0);
            remote.waited_seconds = 0.0;
        }
    }
    report.options.iter_mut().for_each(|row| row.from = None);
    report.log.iter_mut().flat_map(|log| &mut log.families).for_each(|family| family.levels.clear());
    if let Some(log) = &mut report.log {
        log.indexes.iter_mut().for_each(|index| index.path = shortened(&index.path));
    }
    // The plan depends on the machine. The options determine the files.
    report.plan = Plan { sst_bytes: report.plan.sst_bytes, ..Plan::published(report.log.is_some()) };
    report.options.retain(|row| !row.option.starts_with("db."));
    report.rocksdb_bytes_written = None;
    (report.db, report.imported_at) = (String::new(), String::new());
    (report.resumed, report.replaced, report.preset_from) = (false, false, None);
    (report.seconds, report.samples) = Default::default();
    (report.cpu_seconds, report.peak_rss_bytes, report.bytes_read, report.bytes_written) = Default::default();
    (report.small_files, report.levels) = Default::default();
    report
}
