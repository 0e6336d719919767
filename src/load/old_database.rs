//! The database that is copied: what of it is copied and with which options, what changes it, and how it is opened for reading.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, InputKind, Result, StateKind, errno_of};
use crate::load::column_families::CopiedFamily;
use crate::load::context::Job;
use crate::load::existing::ReadLock;
use crate::load::import::Import;
use crate::load::source_identity::SourceFile;
use crate::os::files::is_same;
use crate::preset::{self, Loader, Overrides, Resolved};
use crate::rocks::releases::Release;
use crate::rocks::{
    FamilyFacts, OPEN_ONCE, OptionsFile, Reader, ReaderOptions, check_logs, declared_facts, find_unkept, flush_in_copy,
    is_content_file, open_to_copy, wal_bytes,
};
use crate::source::StatedProblem;

/// The share of the budget for the cache with the indexes of the old files.
const CACHE_SHARE: u64 = 16;

/// The WAL may take the budget divided by this in memory.
const WAL_SHARE: u64 = 8;

/// The name of the options that are not those of a preset.
const OWN_OPTIONS: &str = "options of the old database";

/// The column family in which RocksDB keeps statistics about the old database.
const STATISTICS: &str = "___rocksdb_stats_history___";

/// A database whose records are copied.
pub(super) struct OldDatabase {
    pub path: PathBuf,
    /// The column families that are copied.
    pub families: Vec<CopiedFamily>,
    /// Bytes of its SST, blob and WAL files.
    pub bytes: u64,
    /// The names, sizes and times of its files.
    pub listing: String,
    /// Keeps other processes from opening it for writing; `None` if the import replaces it, which locks it too.
    _lock: Option<ReadLock>,
}

/// Returns the column families to copy, each with its options: those of the old database, unless the caller names a preset or an
/// OPTIONS file.
fn choose_families(import: &Import<'_>, source: &Path) -> Result<Vec<CopiedFamily>> {
    let options = import.options;
    let all = declared_facts(source)?;
    let names: Vec<&str> = all.iter().map(|family| family.name.as_str()).collect();
    let mut named = options.families.iter().chain(&options.skipped_families);
    if let Some(name) = named.find(|name| !names.contains(&name.as_str())) {
        let reason = format!("{} has no column family `{name}`", source.display());
        return Err(Error::usage(reason, format!("it has {}", names.join(", "))));
    }
    let is_chosen = |name: &String| {
        (options.families.is_empty() && name != STATISTICS || options.families.contains(name))
            && !options.skipped_families.contains(name)
    };
    let chosen: Vec<&str> =
        all.iter().map(|family| &family.name).filter(|name| is_chosen(name)).map(String::as_str).collect();
    options.overrides.check_families(&chosen)?;
    let (_, choice) = options.overrides.choose(options.preset.as_deref(), preset::DEFAULT)?;
    let has_preset = choice != "default";
    let own = OptionsFile::latest_path(source).ok().filter(|_| !has_preset);
    let named = options.overrides.options_file.as_ref().or(own.as_ref());
    let file = named.map(|path| OptionsFile::read(&OptionsFile::find(path)?)).transpose()?;
    let mut families = Vec::new();
    // Column families with the same options are resolved once.
    let mut resolved: Vec<(_, Resolved)> = Vec::new();
    for facts in all.iter().filter(|family| is_chosen(&family.name)) {
        refuse(source, facts)?;
        let mut overrides = Overrides { keeps_order: true, ..options.overrides.of_family(&facts.name, &chosen) };
        let is_own = overrides.options_file.is_none() && own.is_some();
        overrides.options_file = overrides.options_file.or_else(|| own.clone());
        if has_preset {
            // They belong to the keys and values, not to the preset.
            overrides.set.splice(0..0, facts.data_options());
        }
        let names_a_set = |text: &str| overrides.set.iter().any(|set| text.contains(set.as_str()));
        let of_file = file.as_ref().and_then(|file| Some(file.options(file.family(&facts.name)?)));
        let key = (of_file, overrides.set.clone());
        let known = resolved.iter().find(|(known, _)| *known == key).map(|(_, preset)| preset.clone());
        let resolve = || import.preset_of_family(&overrides, &facts.name, &chosen);
        let mut preset = known.map_or_else(resolve, Ok).map_err(|error| match error {
            Error::Preset(problem) if is_own && !names_a_set(&problem.to_string()) => Error::usage(
                format!("{} has options that a copy cannot have: {problem}", source.display()),
                "pass --preset ingest, or give another value with --set",
            ),
            error => error,
        })?;
        if resolved.iter().all(|(known, _)| *known != key) {
            resolved.push((key, preset.clone()));
        }
        if let Some((option, way_out)) = find_unkept(&preset.node()) {
            return Err(Error::usage(format!("a copy cannot keep `{option}` of `{}`", facts.name), way_out));
        }
        if preset.loader != Loader::Ingest {
            let reason = format!(
                "the preset `{}` writes through memtables, and a database is copied into SST files",
                preset.preset
            );
            return Err(Error::usage(reason, "give --preset one of those that ingest (`bedload presets`)"));
        }
        if is_own {
            preset.preset = OWN_OPTIONS.into();
        }
        families.push(CopiedFamily { facts: facts.clone(), preset });
    }
    import.warn_of_families(families.iter().map(|family| (family.facts.name.as_str(), &family.preset)));
    let mut left_out = names.clone();
    left_out.retain(|name| *name != STATISTICS && !chosen.contains(name));
    if options.replace && is_same(source, &options.db) && !left_out.is_empty() {
        let left_out = left_out.join(", ");
        import.warn([format!("not copied, and removed with the old database unless --keep-old keeps it: {left_out}")]);
    }
    let needed = families.iter().filter(|_| has_preset).map(|family| family.preset.oldest_rocksdb()).max();
    let old = Release::of_writer(&OptionsFile::latest(source).unwrap_or_default());
    if let Some((needed, old)) = needed.zip(old).filter(|(needed, old)| needed > old) {
        let advice = "`--preset ingest-compat` makes files for 7.8";
        import.warn([format!("RocksDB {old} wrote the old database, and the copy needs {needed} or newer: {advice}")]);
    }
    Ok(families)
}

/// Refuses a column family that cannot be copied.
pub(super) fn refuse(source: &Path, facts: &FamilyFacts) -> Result<()> {
    let (Some(reason), Some(hint)) = (&facts.refused, &facts.hint) else { return Ok(()) };
    let reason = format!("the column family `{}` cannot be copied: {reason}", facts.name);
    Err(Error::state(source, StateKind::Mismatch, reason, hint.clone()))
}

/// Returns the bytes of the SST, blob and WAL files of a database, and a text that names all its files with their sizes and times.
fn list_files(dir: &Path) -> Result<(u64, String)> {
    let (mut bytes, mut names) = (0, BTreeSet::new());
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_content_file(&name) {
            continue;
        }
        let there = path.metadata().map_err(Error::io("read metadata of", &path))?;
        let len = there.len();
        bytes += if [".sst", ".blob", ".log"].iter().any(|end| name.ends_with(end)) { len } else { 0 };
        names.insert(format!("{name} {len} {}.{:09}\n", there.mtime(), there.mtime_nsec()));
    }
    Ok((bytes, names.into_iter().collect()))
}

/// Returns the files that change when a program opens the database for writing.
pub(super) fn changing_files(dir: &Path) -> Result<Vec<SourceFile>> {
    let path = dir.join("CURRENT");
    let file = std::fs::File::open(&path).map_err(Error::io("open", &path))?;
    Ok(vec![SourceFile::of(&path, &file)?])
}

impl OldDatabase {
    /// Checks the database, and chooses what is copied.
    pub fn find(import: &Import<'_>, source: &Path, is_replaced: bool) -> Result<Self> {
        let lock = if is_replaced { None } else { ReadLock::take(source)? };
        check_logs(source).map_err(|error| damaged(source, error))?;
        let families = choose_families(import, source).map_err(|error| damaged(source, error))?;
        let (bytes, listing) = list_files(source)?;
        Ok(Self { path: source.to_owned(), families, bytes, listing, _lock: lock })
    }

    /// True if all column families keep their options.
    pub fn keeps_options(&self) -> bool {
        self.families.iter().all(|family| family.preset.preset == OWN_OPTIONS)
    }

    /// Opens the database for reading. RocksDB reads the WAL into memory; a WAL that is too large for that is flushed in a private
    /// directory of links to the SST files.
    pub fn open(&self, job: &Job<'_>) -> Result<Reader> {
        let scratch = &job.target.scratch;
        job.target.remove_dir(scratch)?;
        let dir = if wal_bytes(&self.path) > job.plan.budget_bytes / WAL_SHARE {
            flush_in_copy(&self.path, scratch).map_err(|error| damaged(&self.path, error))?;
            scratch
        } else {
            &self.path
        };
        let cache = (job.plan.budget_bytes / CACHE_SHARE) as usize;
        let how = ReaderOptions { cache, in_order: true, ..ReaderOptions::scans() };
        let all = declared_facts(&self.path)?;
        let families: Vec<&FamilyFacts> = all.iter().filter(|facts| facts.refused.is_none()).collect();
        open_to_copy(dir, &how, &families).map_err(|error| damaged(&self.path, error))
    }
}

/// Reports an error of RocksDB as damage of the old database, unless the system failed.
pub(super) fn damaged(source: &Path, error: Error) -> Error {
    match error {
        Error::Rocks { message, path, .. } if errno_of(&message).is_none() || message.contains("No such file") => {
            Error::bad_input(
                source,
                None,
                StatedProblem::new(InputKind::Damaged, format!("{}: {message}", path.display()), OPEN_ONCE),
            )
        }
        error => error,
    }
}
