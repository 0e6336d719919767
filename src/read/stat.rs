//! Levels, sizes and options of a database, without reading its records.

use std::path::PathBuf;

use derive_setters::Setters;

use super::access::{Resources, open_lenient};
use super::advice;
use crate::error::Result;
use crate::os::watched_dir::WatchedDir;
use crate::progress::{Observer, Phase, Progress};
use crate::report::{FamilyStat, ImportReport, OptionStat, STAT_SCHEMA, StatReport};
use crate::rocks::option_map::says_default;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::{DataFile, FileTotals, levels_of, options};

/// Options of [`stat`](fn@crate::stat).
#[derive(Debug, Clone, Default, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct StatOptions {
    /// The database.
    #[setters(into)]
    pub(crate) db: PathBuf,
    /// Reads all records, to count them and to compute the content digest. Defaults to `false`.
    pub(crate) digest: bool,
    /// Resources of the command.
    pub(crate) resources: Resources,
}

impl StatOptions {
    /// Creates options for the database `db`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self { db: db.into(), ..Self::default() }
    }
}

/// Collects the statistics of a database.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no database; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): it cannot be read.
pub fn stat(options: &StatOptions, observer: &dyn Observer) -> Result<StatReport> {
    let dir = WatchedDir::open(&options.db);
    Progress::timed(observer, |progress| dir.guard(|| run(options, progress))).map(|(report, _)| report)
}

fn run(options: &StatOptions, progress: &Progress<'_>) -> Result<StatReport> {
    let reader = open_lenient(&options.db)?;
    let files = reader.files()?;
    // A valid database may lack its OPTIONS file.
    let written = OptionsFile::latest(&options.db).ok();
    let mut column_families = Vec::new();
    if options.digest {
        // One phase for all column families.
        let totals = reader.families.iter().map(|name| reader.totals(name)).collect::<Result<Vec<_>>>()?;
        progress.begin(Phase::Verify, Some(totals.iter().map(|totals| totals.value_bytes).sum()));
    }
    for name in &reader.families {
        let own: Vec<&DataFile> = files.iter().filter(|file| file.family == *name).collect();
        let FileTotals { entries, filter_bytes, index_bytes, .. } = reader.totals(name)?;
        let scan = || options.resources.scan(&reader, &files, name, progress).content();
        let (content, payload_bytes) = options.digest.then(scan).transpose()?.unzip();
        column_families.push(FamilyStat {
            name: name.clone(),
            levels: levels_of(own.iter().map(|file| (file.level, file.size))),
            files: own.len() as u64,
            bytes: own.iter().map(|file| file.size).sum(),
            entries,
            filter_bytes,
            index_bytes,
            options: written.as_ref().map(|written| differing(written, name)).transpose()?.unwrap_or_default(),
            records: content.map(|content| content.records),
            payload_bytes,
            digest: content.map(|content| content.digest),
        });
    }
    let mut warnings = advice::on_database(&reader, &options.db)?;
    let unreadable = column_families.iter().filter(|family| family.files > 0 && family.entries == 0);
    warnings.extend(unreadable.map(|family| advice::on_unreadable_files(&options.db, &family.name)));
    let import = ImportReport::load(&options.db)?;
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

/// Returns the options of a column family and of the database that differ from RocksDB's defaults.
fn differing(written: &OptionsFile, family: &str) -> Result<Vec<OptionStat>> {
    let Some(family) = written.family(family) else { return Ok(Vec::new()) };
    let defaults = options::defaults();
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
