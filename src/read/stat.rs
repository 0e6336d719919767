//! Levels, sizes and options of a database, without reading its records.

use std::path::PathBuf;

use super::access::Resources;
use super::advice;
use derive_setters::Setters;

use crate::error::Result;
use crate::os::watched_dir::WatchedDir;
use crate::progress::{Observer, Phase, Progress};
use crate::report::{FamilyStat, ImportReport, OptionStat, STAT_SCHEMA, StatReport};
use crate::rocks::option_map::says_default;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::{DataFile, FamilyScan, FileTotals, Level, Reader, ReaderOptions, options};

/// Block cache, in bytes.
const CACHE: usize = 8 << 20;

/// Options of `stat`.
#[derive(Debug, Clone, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct StatOptions {
    /// The database.
    pub(crate) db: PathBuf,
    /// Reads all records, to count them and to compute the content digest. Defaults to `false`.
    pub(crate) digest: bool,
    /// Resources of the command.
    pub(crate) resources: Resources,
}

impl StatOptions {
    /// Creates options for levels, sizes and options of `db`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self { db: db.into(), digest: false, resources: Resources::default() }
    }
}

/// Collects the statistics of a database.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::testing::generate::Spec::new(bedload::testing::generate::Profile::Mainnet, 1 << 20);
/// # bedload::testing::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::progress::Silent;
/// use bedload::{StatOptions, stat};
///
/// let report = stat(&StatOptions::new(&db), &Silent)?;
/// let family = &report.column_families[0];
/// assert!(family.levels.iter().all(|level| level.level > 0), "nothing is left to compact");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no database, or its record is damaged;
/// [`Error::Rocks`](crate::Error::Rocks) or [`Error::Io`](crate::Error::Io): it cannot be read;
/// [`Error::Replaced`](crate::Error::Replaced); [`Error::Interrupted`](crate::Error::Interrupted).
pub fn stat(options: &StatOptions, observer: &dyn Observer) -> Result<StatReport> {
    let dir = WatchedDir::open(&options.db);
    Progress::timed(observer, |progress| dir.guard(|| run(options, progress))).map(|(report, _)| report)
}

fn run(options: &StatOptions, progress: &Progress<'_>) -> Result<StatReport> {
    let reader =
        Reader::open(&options.db, &ReaderOptions { cache: CACHE, open_files: 64, lenient: true, in_order: false })?;
    let files = reader.files()?;
    // A valid database may lack its OPTIONS file.
    let written = OptionsFile::latest(&options.db).ok();
    let mut column_families = Vec::new();
    if options.digest {
        // One phase for all column families.
        let totals = reader.families().iter().map(|name| reader.totals(name)).collect::<Result<Vec<_>>>()?;
        progress.begin(Phase::Verify, Some(totals.iter().map(|totals| totals.value_bytes).sum()));
    }
    for name in reader.families() {
        let mut family = family_stat(&reader, name, &files)?;
        family.options = written.as_ref().map(|written| differing(written, name)).transpose()?.unwrap_or_default();
        if options.digest {
            let Resources { stop, .. } = &options.resources;
            let threads = options.resources.thread_count();
            let scan = FamilyScan { reader: &reader, files: &files, family: name, threads, progress, stop };
            let (content, payload) = scan.content()?;
            family.records = Some(content.records);
            family.payload_bytes = Some(payload);
            family.digest = Some(content.digest);
        }
        column_families.push(family);
    }
    let mut warnings = advice::on_database(&reader, &options.db)?;
    let unreadable = column_families.iter().filter(|family| family.files > 0 && family.entries == 0);
    warnings.extend(unreadable.map(|family| advice::on_unreadable_files(&options.db, &family.name)));
    let import = ImportReport::load_as(&options.db)?.map(|(record, _)| record);
    Ok(StatReport {
        schema: STAT_SCHEMA.into(),
        db: options.db.display().to_string(),
        rocksdb: written.and_then(|written| written.rocksdb_version),
        last_sequence: reader.last_sequence(),
        warnings,
        column_families,
        import,
    })
}

fn family_stat(reader: &Reader, name: &str, files: &[DataFile]) -> Result<FamilyStat> {
    let mut levels: Vec<Level> = Vec::new();
    let own: Vec<&DataFile> = files.iter().filter(|file| file.family == name).collect();
    for file in &own {
        match levels.iter_mut().find(|level| level.level == file.level) {
            Some(level) => {
                level.files += 1;
                level.bytes += file.size;
            }
            None => levels.push(Level { level: file.level, files: 1, bytes: file.size }),
        }
    }
    levels.sort_by_key(|level| level.level);
    let FileTotals { entries, filter_bytes, index_bytes, .. } = reader.totals(name)?;
    Ok(FamilyStat {
        name: name.to_owned(),
        files: own.len() as u64,
        bytes: own.iter().map(|file| file.size).sum(),
        entries,
        levels,
        filter_bytes,
        index_bytes,
        options: Vec::new(),
        records: None,
        payload_bytes: None,
        digest: None,
    })
}

/// Returns the options of a column family and of the database that differ from RocksDB's defaults.
fn differing(written: &OptionsFile, family: &str) -> Result<Vec<OptionStat>> {
    let Some(family) = written.family(family) else { return Ok(Vec::new()) };
    let defaults = options::defaults()?;
    let own = written.options(family);
    let differs = own.iter().filter_map(|(group, name, value)| {
        let default = defaults.get(group, name);
        (!says_default(value, default)).then(|| OptionStat {
            option: format!("{group}.{name}"),
            value: value.to_owned(),
            default: default.map(str::to_owned),
        })
    });
    Ok(differs.collect())
}
