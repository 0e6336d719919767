//! Is a database sound? Every block of every file against its checksum, every value against its key, the whole against
//! what the import recorded and, if wanted, record by record against the source.
//!
//! Threads share out ranges of keys. Each record is read once: RocksDB checks the blocks it lies in, then its value is
//! hashed and its part of the content digest computed, many records at a time. Damage does not end the search: what
//! cannot be read is stepped over.
//!
//! What it does not do: repair, or write anything at all.

mod against;
mod claims;
mod files;
mod log;
mod problems;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use self::against::{Source, SourceIndex};
use self::claims::KeyReader;
use self::problems::Collector;
use self::scan::{Totals, Worker};
use super::access::{Location, Resources};
use super::advice;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::parallel::for_each;
use crate::progress::{Observer, Phase, Progress};
use crate::report::record::ImportRecord;
use crate::report::{Against, ProblemKind, Recorded, VERIFY_SCHEMA, VerifyReport};
use crate::rocks::key_ranges::{KeyRange, Window, ranges};
use crate::rocks::{DataFile, Reader, ReaderOptions, TableCheck};
use crate::schema::RECORD_FILE;
use crate::sort::key::KeyLayout;
use crate::source::car::NullPadding;

/// The block cache, in bytes. Nothing is read twice, so it only serves RocksDB's own needs.
const CACHE: usize = 8 << 20;

/// SST files that are open at the same time; each holds its index and filter in memory.
const OPEN_FILES: i32 = 128;

/// Picked records that a thread takes at a time.
const PICKS: usize = 256;

/// What to verify, and how far.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The database.
    pub db: PathBuf,
    /// Only so many records, picked at random. Defaults to every record.
    pub sample: Option<u64>,
    /// A snapshot to compare with, record by record.
    pub against: Option<PathBuf>,
    /// What null padding in that snapshot means. Defaults to what the import took it for.
    pub null_padding: Option<NullPadding>,
    /// What the verification may use; memory is for the comparison.
    pub resources: Resources,
    /// Where the blocks are.
    pub location: Location,
}

impl VerifyOptions {
    /// Everything in `db`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            sample: None,
            against: None,
            null_padding: None,
            resources: Resources::default(),
            location: Location::default(),
        }
    }
}

/// What the threads share.
struct Job<'a> {
    options: &'a VerifyOptions,
    reader: &'a Reader,
    files: &'a [DataFile],
    family: &'a str,
    keys: KeyReader,
    problems: &'a Collector<'a>,
    progress: &'a Progress<'a>,
}

/// Looks for everything that is wrong with a database. That something is, is no error: the report says it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::generate::Spec::new(bedload::generate::Profile::Mainnet, 1 << 20);
/// # bedload::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::VerifyOptions;
/// use bedload::progress::Silent;
///
/// let mut options = VerifyOptions::new(&db);
/// options.against = Some(snapshot);
/// let report = bedload::verify_db(&options, &Silent)?;
/// assert_eq!(report.problems.total, 0);
/// assert_eq!(report.against.map(|against| against.same), Some(report.records));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// There is no database, the source cannot be read, or the system refuses something that is not the database's fault.
pub fn verify(options: &VerifyOptions, observer: &dyn Observer) -> Result<VerifyReport> {
    let progress = Progress::new(observer);
    let start = Instant::now();
    let report = progress.sampled(|| run(options, &progress));
    progress.end();
    report.map(|report| VerifyReport { seconds: start.elapsed().as_secs_f64(), ..report })
}

fn run(options: &VerifyOptions, progress: &Progress<'_>) -> Result<VerifyReport> {
    let (record, bad_record) = match ImportRecord::load_sealed(&options.db) {
        Ok(Some((record, false))) => {
            (Some(record), Some("was changed after the import: it does not match its checksum".to_owned()))
        }
        Ok(record) => (record.map(|(record, _)| record), None),
        Err(error @ Error::State { .. }) => (None, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    let (layout, key_from) = options.location.layout(record.as_ref());
    let mut report = VerifyReport {
        schema: VERIFY_SCHEMA.into(),
        db: options.db.display().to_string(),
        sound: false,
        column_family: options.location.family(record.as_ref()),
        key: layout,
        key_from,
        files: 0,
        file_bytes: 0,
        sample: options.sample,
        records: 0,
        payload_bytes: 0,
        digest: None,
        recorded: record.as_ref().map(|record| Recorded {
            source: record.source.path.clone(),
            whole: !record.into_existing,
            records: record.blocks.written,
            digest: record.digest,
        }),
        against: None,
        notes: Vec::new(),
        log: None,
        problems: crate::report::Problems::default(),
        warnings: Vec::new(),
        seconds: 0.0,
    };
    let opened = Reader::open(
        &options.db,
        &ReaderOptions { cache: CACHE, open_files: OPEN_FILES, lenient: true, in_order: false },
    )
    .and_then(|reader| Ok((reader.files()?, reader)));
    let check_import = |problems: &Collector<'_>, notes: &mut Vec<String>| {
        if let Some(words) = &bad_record {
            problems.add(ProblemKind::Record, Some(&options.db.join(RECORD_FILE)), words.clone());
        }
        if let Some(record) = &record {
            files::check(&options.db, record, problems, notes);
            files::check_tally(record, problems);
        }
    };
    let refused = match &opened {
        Err(Error::Rocks { message, path, .. }) => {
            let file = (*path != options.db).then(|| path.clone());
            Some((file, format!("RocksDB does not open it: {message}")))
        }
        // It has the record of an import: it was a database.
        Err(Error::State { .. }) if record.is_some() || bad_record.is_some() => {
            Some((None, "there is no file CURRENT: RocksDB finds no database here".to_owned()))
        }
        _ => None,
    };
    if let Some((file, words)) = refused {
        let problems = Collector::new(layout, &[]);
        problems.add(ProblemKind::Open, file.as_deref(), words);
        check_import(&problems, &mut report.notes);
        report.problems = problems.take();
        return Ok(report);
    }
    let (files, reader) = opened?;
    report.warnings = advice::on_database(&reader, &options.db)?;
    // A record that was changed may name any family.
    if bad_record.is_some() && !reader.families().contains(&report.column_family) {
        report.column_family = options.location.family(None);
    }
    report.files = files.len() as u64;
    report.file_bytes = files.iter().map(|file| file.size).sum();
    let problems = Collector::new(layout, &files);
    check_import(&problems, &mut report.notes);
    check_sizes(&files, &problems);
    let job = Job {
        options,
        reader: &reader,
        files: &files,
        family: &report.column_family,
        keys: KeyReader::new(layout, record.as_ref().and_then(|record| record.hash_functions.as_deref())),
        problems: &problems,
        progress,
    };
    let log = record.as_ref().filter(|record| record.key == KeyLayout::Number && options.location.key.is_none());
    let (totals, against) = match options.sample {
        _ if log.is_some() && (options.sample.is_some() || options.against.is_some()) => {
            return Err(Error::Usage {
                reason: "a database made from a block log is verified as a whole".into(),
                hint: "leave --sample and --against out".into(),
            });
        }
        Some(count) => (job.sample(&files, count)?, None),
        None => match log {
            Some(record) => {
                let (totals, found) = job.everything_of_log(&files, record)?;
                report.log = found;
                (totals, None)
            }
            None => job.everything(&files, record.as_ref())?,
        },
    };
    if options.sample.is_none() {
        report.digest = Some(totals.digest);
        compare_with_record(&totals, report.recorded.as_ref(), &problems);
    }
    report.records = totals.records;
    report.payload_bytes = totals.payload;
    report.against = against;
    report.problems = problems.take();
    report.sound = report.problems.total == 0;
    Ok(report)
}

fn ranges_of(files: &[DataFile], family: &str) -> Vec<KeyRange> {
    let files: Vec<&DataFile> = files.iter().filter(|file| file.family == family).collect();
    ranges(&files)
}

fn check_sizes(files: &[DataFile], problems: &Collector<'_>) {
    for DataFile { path, size, .. } in files {
        let message = match path.metadata() {
            Ok(metadata) if metadata.len() == *size => continue,
            Ok(metadata) => format!("the file has {} bytes, the database says {size}", metadata.len()),
            Err(error) => format!("the file cannot be used: {error}"),
        };
        problems.add(ProblemKind::File, Some(path), message);
    }
}

fn compare_with_record(totals: &Totals, recorded: Option<&Recorded>, problems: &Collector<'_>) {
    let Some(recorded) = recorded else { return };
    if !recorded.whole {
        // What others wrote there is not known, but the import's own records are among them.
        if totals.records < recorded.records {
            let message = format!("{} records can be read, the import added {}", totals.records, recorded.records);
            problems.add(ProblemKind::Count, None, message);
        }
        return;
    }
    compare("", (totals.records, totals.digest), (recorded.records, recorded.digest), problems);
}

/// Compares records and digest that a family has with those that were recorded.
fn compare(family: &str, found: (u64, ContentDigest), recorded: (u64, ContentDigest), problems: &Collector<'_>) {
    let of = if family.is_empty() { String::new() } else { format!(" of {family}") };
    if found.0 != recorded.0 {
        let message = format!("{} records{of} can be read, the import wrote {}", found.0, recorded.0);
        problems.add(ProblemKind::Count, None, message);
    }
    if found.1 != recorded.1 {
        let message = format!("the content digest{of} is {}, the import recorded {}", found.1, recorded.1);
        problems.add(ProblemKind::Digest, None, message);
    }
}

impl Job<'_> {
    /// The last key that lies in a file of `family`.
    fn largest_key(&self, family: &str) -> Option<Vec<u8>> {
        let files = self.files.iter().filter(|file| file.family == family);
        files.map(|file| file.largest.clone()).max()
    }

    /// Goes through all column families.
    fn everything(&self, files: &[DataFile], record: Option<&ImportRecord>) -> Result<(Totals, Option<Against>)> {
        let own = ranges_of(files, self.family);
        let index = match &self.options.against {
            Some(path) => Some(self.read_source(path, &own, record)?),
            None => None,
        };
        let payload = record.map(|record| record.payload_bytes);
        let total = payload.unwrap_or_else(|| files.iter().map(|file| file.size).sum());
        self.progress.begin(Phase::Verify, Some(total));
        let mut work: Vec<(&str, usize, KeyRange)> =
            own.into_iter().enumerate().map(|(number, range)| (self.family, number, range)).collect();
        work.extend(self.others(files, &[self.family]).into_iter().map(|(family, range)| (family, 0, range)));
        let totals = self.for_each(work.len() + 1, |worker, item| {
            let Some((family, number, range)) = item.checked_sub(1).and_then(|item| work.get(item)) else {
                return self.check_tables(files);
            };
            let index = index.as_ref().filter(|_| *family == self.family);
            let entries = index.map(|index| index.take_range(*number)).transpose()?;
            worker.go_through(family, range, entries)
        })?;
        let against = index.map(|index| Against {
            source: self.options.against.as_deref().unwrap_or(Path::new("")).display().to_string(),
            blocks: index.blocks.load(Ordering::Relaxed),
            distinct: totals.distinct,
            same: totals.same,
            unreadable: totals.unreadable,
        });
        Ok((totals, against))
    }

    /// The ranges of all column families but these: what is in them is read, whoever wrote it.
    fn others(&self, files: &[DataFile], known: &[&str]) -> Vec<(&str, KeyRange)> {
        let others = self.reader.families().iter().map(String::as_str).filter(|family| !known.contains(family));
        others.flat_map(|family| ranges_of(files, family).into_iter().map(move |range| (family, range))).collect()
    }

    /// Checks the blocks of all files that going through their records does not touch.
    fn check_tables(&self, files: &[DataFile]) -> Result<()> {
        let check = TableCheck::open(&self.options.db)?;
        if let Some((file, error)) = check.fault_at_open(files) {
            self.problems.add(ProblemKind::Checksum, file, error.to_string());
        }
        for file in files {
            if self.options.resources.stop.asked() {
                return Err(interrupted());
            }
            if let Some(message) = check.fault(file, files) {
                self.problems.add(ProblemKind::Checksum, Some(&file.path), message);
            }
        }
        Ok(())
    }

    fn read_source(&self, path: &Path, ranges: &[KeyRange], record: Option<&ImportRecord>) -> Result<SourceIndex> {
        let padded = record.is_some_and(|record| record.source.null_padding > 0);
        let resources = &self.options.resources;
        let source = Source {
            path,
            layout: self.keys.layout,
            null_padding: self.options.null_padding.unwrap_or(if padded {
                NullPadding::Eof
            } else {
                NullPadding::Error
            }),
            memory: resources.memory(),
            threads: resources.threads(),
            work_dir: resources.work_dir(),
            stop: &resources.stop,
        };
        SourceIndex::read(&source, ranges, self.progress)
    }

    /// Checks `count` records at random places, spread over the files by their size.
    fn sample(&self, files: &[DataFile], count: u64) -> Result<Totals> {
        let files: Vec<&DataFile> = files.iter().filter(|file| file.family == self.family).collect();
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        self.progress.begin(Phase::Verify, None);
        self.progress.expect_blocks(count);
        let mut keys = Vec::new();
        let mut before = 0;
        for file in files {
            // Rounded so that the shares of all files add up.
            let share = |bytes_before: u64| u128::from(count) * u128::from(bytes_before) / u128::from(bytes.max(1));
            let picks = share(before + file.size) - share(before);
            before += file.size;
            let window = Window::between(&file.smallest, &file.largest);
            keys.extend((0..picks).map(|_| match &window {
                Some(window) => window.key(window.part(random() >> 1, u64::MAX >> 1)),
                None => file.smallest.clone(),
            }));
        }
        keys.sort_unstable();
        let groups: Vec<&[Vec<u8>]> = keys.chunks(PICKS).collect();
        self.for_each(groups.len(), |worker, item| worker.pick(groups.get(item).copied().unwrap_or_default()))
    }

    /// Shares `items` pieces of work out among the threads and adds up what they found.
    fn for_each(&self, items: usize, work: impl Fn(&mut Worker<'_>, usize) -> Result<()> + Sync) -> Result<Totals> {
        let workers = for_each(self.options.resources.threads(), items, || Worker::new(self), work)?;
        Ok(workers.iter().fold(Totals::default(), |mut totals, worker| {
            totals.merge(&worker.totals);
            totals
        }))
    }
}

/// Any number, from the seed that the standard library takes for its maps.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

fn interrupted() -> Error {
    Error::Interrupted { hint: "nothing was changed; run it again".into() }
}
