//! The last step: writes the record, syncs everything, and gives the database its name.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, Result, StateKind};
use crate::failpoint;
use crate::load::context::{Completeness, Job, Loaded};
use crate::load::existing::Existing;
use crate::load::journal::Entry;
use crate::load::sources::Sources;
use crate::load::target::parent;
use crate::os::files::{read_regular, sync_dir, write_synced};
use crate::os::resources;
use crate::progress::{Phase, Progress};
use crate::report::record::{append_checksum, checksum};
use crate::report::{
    BlockCounts, ChecksumInfo, FamilyReport, Head, ImportReport, Method, RecordedFile, SCHEMA, ShardReport, SourceInfo,
    Versions, rfc3339,
};
use crate::rocks::releases::loadable_by_old;
use crate::rocks::{self, MAX_FILE, OptionsFile, options, options_of};
use crate::schema::RECORD_FILE;
use crate::sort::KeyLayout;
use crate::source::car::SourceRead;

/// Rewrites the options, writes the record that `report` makes, makes the database durable and gives it its name.
pub(super) fn commit_database(job: &Job<'_>, report: impl FnOnce() -> Result<ImportReport>) -> Result<ImportReport> {
    let Job { target, progress, .. } = *job;
    progress.begin(Phase::Commit, None);
    if !target.into_existing && job.preset.oldest_rocksdb().is_old() {
        // Replaces the OPTIONS file atomically. This RocksDB reads both.
        let (dir, path) = (target.working(), OptionsFile::latest_path(target.working())?);
        let bytes = read_regular(&path, MAX_FILE).map_err(Error::io("read", &path))?;
        let text = loadable_by_old(&String::from_utf8_lossy(&bytes), options::defaults());
        write_synced(dir, &path.file_name().unwrap_or_default().to_string_lossy(), text.as_bytes())?;
        failpoint::reach("options-rewritten");
    }
    let mut report = report()?;
    measure(progress, &mut report);
    let record = append_checksum(&report, &target.working().join(RECORD_FILE))?;
    write_synced(target.working(), RECORD_FILE, &record)?;
    failpoint::reach("recorded");
    if !target.into_existing {
        target.has_only_the_database()?;
        remove_leftovers(&target.staging)?;
    }
    sync_dir(target.working())?;
    let bundle = job.uploads.map(|uploads| uploads.finish(&report, target.working())).transpose()?;
    job.journal.append(&Entry::Complete)?;
    failpoint::reach("complete");
    rename(job, &record)?;
    progress.end();
    measure(progress, &mut report);
    report.bundle = bundle.map(Box::new);
    if job.options.discard {
        report.db.clear();
    }
    Ok(report)
}

/// The report of a loaded source, without measurements.
pub(super) fn report(
    job: &Job<'_>,
    source: SourceInfo,
    loaded: Loaded,
    complete: Completeness,
) -> Result<ImportReport> {
    let Job { options, preset, plan, target, .. } = *job;
    // Of a copied database, the largest column family.
    let largest = loaded.families.iter().max_by_key(|family| family.records).map(|family| family.name.clone());
    let family = largest.as_deref().unwrap_or(&options.column_family);
    let effective = options_of(target.working(), family)?.unwrap_or_default();
    let preset = loaded.presets.iter().find(|(name, _)| name == family).map_or(preset, |(_, own)| own);
    let mut plan = plan.clone();
    // The report says what happened, not what was expected.
    match &mut plan.method {
        Method::CarSst { sort } => (sort.spill, sort.may_spill) = (loaded.spilled, sort.may_spill && loaded.spilled),
        Method::RecordsSst { records } => records.spill = loaded.spilled,
        _ => {}
    }
    let head = complete.head.or_else(|| loaded.log.as_ref().map(Head::of_log));
    let before = if options.into_existing { ImportReport::load(target.working())? } else { None };
    let newest = before.as_ref().and_then(|record| record.newest_after(&source.roots, head.as_ref()));
    // The functions of older records are not known.
    let records_functions = options.key == KeyLayout::Digest && !options.into_existing;
    Ok(ImportReport {
        schema: SCHEMA.into(),
        imported_at: rfc3339(now()).unwrap_or_default(),
        resumed: job.resumes(),
        sources: source_rows(job.sources, &source, &loaded),
        source: SourceInfo { checksum: None, ..source },
        head: if newest.is_some() { before.and_then(|record| record.head) } else { head },
        newest,
        missing_roots: complete.missing_roots,
        first_missing_roots: complete.first_missing_roots,
        links: complete.links,
        part: None,
        db: options.db.display().to_string(),
        column_family: family.to_owned(),
        into_existing: options.into_existing,
        replaced: job.replaced.is_some(),
        key: match () {
            () if loaded.log.is_some() => KeyLayout::Number,
            () if loaded.families.is_empty() => options.key,
            () => KeyLayout::Any,
        },
        verified: options.verify,
        blocks: BlockCounts {
            read: loaded.blocks,
            written: loaded.records,
            duplicate: loaded.duplicates,
            omitted: options.filter.as_ref().map(|_| loaded.sources.iter().map(|source| source.omitted).sum()),
            existing: options.into_existing.then_some(loaded.existing),
        },
        payload_bytes: loaded.payload,
        digest: loaded.digest,
        f3: loaded.f3,
        shard: loaded
            .routed
            .filter(|_| options.shard.is_some())
            .zip(options.shard)
            .map(|((router, framed), shard)| ShardReport::of(shard, &router, &framed, complete.network)),
        hash_functions: records_functions.then(|| job.journal.functions()),
        preset: preset.preset.clone(),
        preset_from: Some(preset.choice.to_string()),
        loader: preset.loader.to_string(),
        plan,
        seconds: BTreeMap::new(),
        cpu_seconds: None,
        peak_rss_bytes: None,
        bytes_read: None,
        bytes_written: None,
        rocksdb_bytes_written: loaded.rocksdb_written,
        compacted: preset.final_compaction(),
        levels: loaded.levels,
        log: loaded.log,
        families: loaded.families,
        rebuilt: loaded.before,
        sample: loaded.sample,
        memtable: loaded.memtable,
        options: preset.effective_node(&effective),
        small_files: small_files(target.working())?,
        samples: Vec::new(),
        bundle: None,
        versions: Versions { bedload: env!("CARGO_PKG_VERSION").into(), rocksdb: rocks::VERSION.into() },
    })
}

/// The report of a seeded database: the report of the import, with the properties of this machine and database.
pub(super) fn report_of_seed(
    job: &Job<'_>,
    record: &ImportReport,
    families: Vec<FamilyReport>,
) -> Result<ImportReport> {
    let Job { options, preset, target, .. } = *job;
    let effective = options_of(target.working(), &options.column_family)?.unwrap_or_default();
    let mut log = record.log.clone();
    let levels = families.first().map(|family| family.levels.clone()).unwrap_or_default();
    for family in log.iter_mut().flat_map(|log| &mut log.families) {
        let found = families.iter().find(|found| found.name == family.name);
        family.levels = found.map(|found| found.levels.clone()).unwrap_or_default();
    }
    Ok(ImportReport {
        schema: SCHEMA.into(),
        imported_at: rfc3339(now()).unwrap_or_default(),
        resumed: job.resumes(),
        db: options.db.display().to_string(),
        replaced: job.replaced.is_some(),
        preset: preset.preset.clone(),
        preset_from: Some(preset.choice.to_string()),
        loader: preset.loader.to_string(),
        levels,
        log,
        options: preset.effective_node(&effective),
        small_files: small_files(target.working())?,
        versions: Versions { bedload: env!("CARGO_PKG_VERSION").into(), rocksdb: rocks::VERSION.into() },
        ..record.clone()
    })
}

/// The report of all sources together. `info` has the first header.
pub(super) fn merge_source_infos(info: SourceInfo, sources: &[SourceRead]) -> SourceInfo {
    let Some((first, others)) = sources.split_first() else { return info };
    let is_mixed = others.iter().any(|source| source.compression != first.compression);
    // One header may name a root twice.
    let is_one_header = others.is_empty() && first.last_part == 0;
    let mut seen = HashSet::new();
    let all = sources.iter().flat_map(|source| &source.roots);
    let roots = all.filter(|root| is_one_header || seen.insert(*root)).map(ToString::to_string).collect();
    SourceInfo {
        compression: if is_mixed { "mixed".into() } else { info.compression },
        version: sources.iter().map(|source| source.version).fold(info.version, u64::max),
        roots,
        ..info
    }
}

/// The report of each source. `whole` is that of all, with the checksum of a single one.
fn source_rows(all: &Sources, whole: &SourceInfo, loaded: &Loaded) -> Vec<SourceInfo> {
    let blocks = |read: u64, duplicate: u64| {
        let written = read.saturating_sub(duplicate);
        Some(BlockCounts { read, written, duplicate, omitted: None, existing: None })
    };
    if loaded.log.is_some() || loaded.sources.is_empty() {
        let blocks = blocks(loaded.blocks, loaded.duplicates);
        return vec![SourceInfo { blocks, remote: all.remote_info(0), ..whole.clone() }];
    }
    let row = |(number, (name, source)): (u32, (&PathBuf, &SourceRead))| SourceInfo {
        path: name.display().to_string(),
        format: whole.format.clone(),
        compression: source.compression.clone().into(),
        version: source.version,
        bytes: source.bytes,
        roots: source.roots.iter().map(ToString::to_string).collect(),
        null_padding: source.padding,
        blocks: blocks(source.blocks, loaded.repeats.get(&number).copied().unwrap_or_default()),
        remote: all.remote_info(number as usize),
        checksum: whole.checksum.clone().or_else(|| source.sum.as_deref().map(ChecksumInfo::of)),
    };
    (0..).zip(all.names.iter().zip(&loaded.sources)).map(row).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn measure(progress: &Progress<'_>, report: &mut ImportReport) {
    report.seconds = BTreeMap::from([("total".into(), progress.now().seconds)]);
    for (phase, time) in progress.phase_seconds() {
        // A phase may be repeated.
        *report.seconds.entry(phase.name().into()).or_default() += time;
    }
    report.cpu_seconds = resources::cpu_seconds();
    report.peak_rss_bytes = resources::peak_rss();
    let io = resources::io_bytes();
    report.bytes_read = io.map(|(read, _)| read);
    report.bytes_written = io.map(|(_, written)| written);
    report.samples = progress.samples();
}

/// The files with the identity and the options of the database in `dir`, for its record.
fn small_files(dir: &Path) -> Result<Vec<RecordedFile>> {
    // With some options RocksDB writes no IDENTITY.
    let identity = Some(dir.join("IDENTITY")).filter(|path| path.exists());
    let record = |path: PathBuf| {
        let bytes = read_regular(&path, MAX_FILE).map_err(Error::io("read", &path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(RecordedFile { name, checksum: checksum(&bytes) })
    };
    identity.into_iter().chain([OptionsFile::latest_path(dir)?]).map(record).collect()
}

/// Gives the synced database its name. An existing database has it already.
fn rename(job: &Job<'_>, record: &[u8]) -> Result<()> {
    let Job { target, options, .. } = *job;
    if options.discard {
        return target.remove();
    }
    if target.into_existing {
        return target.remove_leftovers();
    }
    if let Some(old) = job.replaced.filter(|_| target.has_old()) {
        return exchange(job, old, record);
    }
    // An empty directory under the final name may be replaced; anything else makes the rename fail.
    std::fs::rename(&target.staging, &target.db).map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            let hint = "move it away and run the same command again, which resumes, or choose another --db";
            Error::state(&target.db, StateKind::Exists, "appeared during the import", hint)
        }
        _ => Error::io("rename to", &target.db)(error),
    })?;
    failpoint::reach("renamed");
    sync_dir(parent(&target.db))?;
    target.remove_leftovers()
}

/// Exchanges the names of the synced database and of the locked `old` one, which is removed. Before that the journal gets the
/// checksum of the new one's `record`, by which the next run distinguishes them.
fn exchange(job: &Job<'_>, old: &Existing<'_>, record: &[u8]) -> Result<()> {
    let Job { target, journal, .. } = *job;
    // The target may have changed since the import began.
    target.check()?;
    if !old.is_in_place()? {
        let hint = "look at what it is; the same command resumes and replaces it";
        let reason = "is another database than when the import began";
        return Err(Error::state(&target.db, StateKind::Modified, reason, hint));
    }
    old.check_not_open_here()?;
    journal.append(&Entry::Exchanging { record: checksum(record) })?;
    failpoint::reach("exchanging");
    std::fs::rename(&target.staging, &target.swap).map_err(Error::io("rename", &target.staging))?;
    sync_dir(&target.partial)?;
    failpoint::reach("set-aside");
    target.exchange()?;
    failpoint::reach("exchanged");
    sync_dir(parent(&target.db))?;
    sync_dir(&target.partial)?;
    failpoint::reach("renamed");
    remove_old(job)?;
    failpoint::reach("old-removed");
    target.remove_leftovers()
}

/// Removes the replaced database, or moves it to the place where it is kept.
pub(super) fn remove_old(job: &Job<'_>) -> Result<()> {
    let Job { target, options, resumed, .. } = *job;
    let first = || resumed.identity.as_ref()?.keep_old.as_ref();
    match options.keep_old.as_ref().or_else(first) {
        Some(place) if target.swap.exists() => {
            std::fs::rename(&target.swap, place).map_err(Error::io("rename to", place))?;
            sync_dir(parent(place))
        }
        _ => target.remove_dir(&target.swap),
    }
}

/// Removes RocksDB's own log files, which name the working directory, and the OPTIONS file of loading.
fn remove_leftovers(dir: &Path) -> Result<()> {
    let newest = OptionsFile::latest_path(dir)?;
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_log = name == "LOG" || name.starts_with("LOG.old");
        if is_log || (name.starts_with("OPTIONS-") && path != newest) {
            std::fs::remove_file(&path).map_err(Error::io("delete", &path))?;
        }
    }
    Ok(())
}
