//! Making a database of the finished files of a bundle: fetch each, note it, ingest all, commit. The caller's [`Fetch`]
//! finds the files and verifies them.

use std::fmt::Display;
use std::path::Path;

use data_encoding::HEXLOWER;

use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::load::built::{FamilyDone, SstFile};
use crate::load::car::completeness;
use crate::load::column_families::ColumnFamilies;
use crate::load::commit::{commit_database, report_of_seed};
use crate::load::context::{Job, Prepared};
use crate::load::identity::Identity;
use crate::load::import::{Import, run_or_restart, with_hint};
use crate::load::ingest::ingest;
use crate::load::journal::{Entry, Journal};
use crate::load::options::ImportOptions;
use crate::load::phase_weights;
use crate::load::planner::{self, Planned};
use crate::load::source_identity::{Inode, SourceIdentity};
use crate::load::sources::Sources;
use crate::load::target::Target;
use crate::os::file_system::FileSystem;
use crate::os::files::sync_dir;
use crate::os::private;
use crate::parallel;
use crate::preset::{self, Loader, Preset};
use crate::progress::{Event, Network, Observer, Phase, Progress};
use crate::report::{ImportReport, LogPlan, Method, Plan};
use crate::rocks::{DataFile, IngestSettings, Reader, ReaderOptions, Store};
use crate::schema::{BLOCK_IDS, NUMBER, TRANSACTIONS};
use crate::source::car::RawCid;

/// The bytes of kind and sequence number that RocksDB appends to each key.
const KEY_TRAILER: u64 = 8;

/// A bundle, from which a database is made.
pub(crate) struct Seed<'a> {
    pub id: &'a str,
    /// The report of the import, reduced to what is true for the files.
    pub record: &'a ImportReport,
    /// Its files, named by [`seed_file_name`]. Those of a column family follow each other in the order of their keys.
    pub files: Vec<SstFile>,
}

/// The source of the files.
pub(crate) trait Fetch: Sync {
    /// Number of files that are fetched at once.
    fn at_once(&self) -> usize;

    /// True if the file with this number needs room of its own here.
    fn takes_room(&self, number: usize) -> bool;

    /// Checks that the existing database may be replaced: before anything is done, and again once it is locked.
    fn check_replaced(&self) -> Result<()>;

    /// The traffic of the network, if files come from there.
    fn network(&self) -> Option<Box<dyn Fn() -> Network + Send>>;

    /// The error for a file that the bundle describes wrongly, or for its record if `number` is `None`.
    fn misdescribed(&self, number: Option<usize>, what: String) -> Error;

    /// Puts the file with this number to the free `path`, verified and synced. Calls `came` with the bytes that arrive.
    fn fetch(&self, number: usize, path: &Path, came: &(dyn Fn(u64) + Sync)) -> Result<()>;

    /// True if the file at `path` has the bytes of the file with this number.
    fn is_same(&self, number: usize, path: &Path) -> Result<bool>;
}

/// The name that the file with this number gets in the `sst` folder.
pub(crate) fn seed_file_name(number: usize) -> String {
    format!("{:06}.sst", number + 1)
}

/// Makes the database `options.db` of a bundle, with the options of its node, or resumes an earlier run.
pub(crate) fn seed(
    options: &ImportOptions,
    seed: &Seed<'_>,
    fetch: &dyn Fetch,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let progress = Progress::new(observer);
    let import = Import { options, progress: &progress };
    progress
        .sampled(|| run_or_restart(&import, |import| run(import, seed, fetch)))
        .map_err(|error| with_hint(error, options))
}

/// The id of the bundle of an unfinished seed of `options.db`.
pub(crate) fn bundle_of_unfinished(options: &ImportOptions) -> Result<Option<String>> {
    let known = Journal::peek(&Target::new(options)?.partial);
    Ok(known.identity.and_then(|known| known.source.bundle))
}

fn run(import: &Import<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<ImportReport> {
    let (target, is_finished) = import.begin()?;
    if !is_finished {
        fetch.check_replaced()?;
    }
    let prepared = prepare(import, seed)?;
    import.locked(
        (target, is_finished),
        &prepared,
        (),
        |_, ()| Ok(()),
        |job, ()| {
            fetch.check_replaced()?;
            load(job, seed, fetch)
        },
    )
}

fn prepare(import: &Import<'_>, seed: &Seed<'_>) -> Result<Prepared> {
    let options = import.options;
    // The preset of the import, if this program has it. It can be of another version, or of the importer's own.
    let known = Preset::builtin_names().find(|name| *name == seed.record.preset);
    let preset = import.preset(known.unwrap_or(preset::DEFAULT))?;
    if preset.loader != Loader::Ingest {
        let reason = format!("the preset `{}` writes through memtables, and a seed ingests files", preset.preset);
        let hint =
            "give --preset one of those that ingest (`bedload presets list`); --options-file takes a node's options";
        return Err(Error::usage(reason, hint));
    }
    import.warn(preset.notes.clone());
    if options.preset.is_none() && preset.preset != seed.record.preset {
        import.warn([format!(
            "the import used the preset `{}`, which this program does not have: the node gets the options of `{}`",
            seed.record.preset, preset.preset
        )]);
    }
    if !seed.record.verified {
        import.warn(["the import has not verified the hashes of the blocks".to_owned()]);
    }
    let logs = seed.record.log.iter();
    let families: Vec<String> = logs.flat_map(|log| &log.families).map(|family| family.name.clone()).collect();
    let part = seed.record.part.is_some().then(|| families.join(" "));
    let plan = Plan {
        budget_bytes: options.memory_budget(),
        memory: options.memory_budget(),
        threads: planner::threads(options, &preset),
        sst_bytes: preset.sst_size(),
        expected_bytes: Some(seed.files.iter().map(|file| file.bytes).sum()),
        method: Method::BlockLogSst { log: LogPlan { families, ..LogPlan::default() } },
        ..Plan::published(true)
    };
    let source = SourceIdentity { bundle: Some(seed.id.to_owned()), ..SourceIdentity::default() };
    let mut identity = Identity::of(options, &preset, &plan, source)?;
    identity.part = part;
    let planned = Planned { plan, loading: preset.loading(), least_bytes: 0, warnings: Vec::new() };
    let sources = Sources::none(options.source());
    Ok(Prepared { sources, preset, planned, identity, is_plain: true })
}

/// Fetches what is missing, ingests all, and commits.
fn load(job: &Job<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<ImportReport> {
    let Job { target, progress, .. } = *job;
    progress.expect(phase_weights::of_seed());
    progress.begin(Phase::Read, job.plan.expected_bytes);
    if let Some(network) = fetch.network() {
        progress.watch_network(network);
    }
    let families = match &seed.record.log {
        Some(_) => ColumnFamilies::of_log(job),
        None => ColumnFamilies::of_car(job),
    };
    if !job.resumed.ingesting {
        fetch_missing(job, seed, fetch)?;
        sync_dir(&target.sst)?;
        failpoint::reach("all-fetched");
        progress.begin(Phase::Check, None);
        check_files(job, &families, seed, fetch)?;
        failpoint::reach("all-checked");
    }
    progress.begin(Phase::Ingest, None);
    let of_family =
        |name| (name, FamilyDone::of_files(seed.files.iter().filter(|file| file.family == name).cloned().collect()));
    let built: Vec<(&str, FamilyDone)> = families.names().map(of_family).collect();
    let reports = ingest(job, &families, &built)?;
    let record = match seed.record.part {
        Some(_) => &of_part(job, seed.record)?,
        None => seed.record,
    };
    commit_database(job, || report_of_seed(job, record, reports))
}

/// The record of a part of a bundle. Payload and missing roots are counted in the database.
fn of_part(job: &Job<'_>, record: &ImportReport) -> Result<ImportReport> {
    let mut record = record.clone();
    if record.log.is_none() {
        let reader = Reader::open(job.target.working(), &ReaderOptions::once())?;
        record.payload_bytes = reader.totals(&record.column_family)?.value_bytes;
        drop(reader);
        let roots: Vec<RawCid> = record.source.roots.iter().filter_map(|root| root.parse().ok()).collect();
        let found = completeness::check(job, &roots, None)?;
        (record.missing_roots, record.first_missing_roots) = (found.missing_roots, found.first_missing_roots);
    }
    Ok(record)
}

/// Compares the properties of the files with the bundle's description of them, in a temporary database of links to them.
fn check_files(job: &Job<'_>, families: &ColumnFamilies<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<()> {
    let Job { target, .. } = *job;
    let scratch = &target.scratch;
    target.remove_dir(scratch)?;
    let store = Store::create(scratch, &families.loading(), None)?;
    let settings = IngestSettings { move_files: false, link_files: true, ..job.preset.ingest() };
    for name in families.names() {
        let own = || seed.files.iter().enumerate().filter(|(_, file)| file.family == name);
        let paths: Vec<_> = own().map(|(_, file)| target.sst.join(&file.name)).collect();
        let Err(error) = store.ingest(name, paths, &settings) else { continue };
        // Each alone shows which of them is refused.
        for (number, file) in own() {
            if let Err(Error::Rocks { message, .. }) = store.ingest(name, vec![target.sst.join(&file.name)], &settings)
                && errno_of(&message).is_none()
            {
                return Err(fetch.misdescribed(Some(number), format!("RocksDB does not ingest it: {message}")));
            }
        }
        return Err(error);
    }
    drop(store);
    let reader = Reader::open(scratch, &ReaderOptions::once())?;
    let mut there = reader.counted_files()?;
    // RocksDB numbers files in the order of ingestion.
    there.sort_by_key(DataFile::number);
    for name in families.names() {
        let own = seed.files.iter().enumerate().filter(|(_, file)| file.family == name);
        let mut found = there.iter().filter(|file| file.family == name);
        let (mut records, mut value_bytes) = (0, 0);
        for (number, file) in own {
            let fault = match found.next() {
                Some(found) => {
                    records += found.counts.entries;
                    value_bytes += found.counts.raw_value_bytes;
                    fault_of(file, found, seed.record.log.is_some())
                }
                None => Some("it has no records".into()),
            };
            if let Some(fault) = fault {
                return Err(fetch.misdescribed(Some(number), fault));
            }
        }
        let record = seed.record;
        let (field, declared) = match name {
            BLOCK_IDS if record.log.is_some() => ("the count of block numbers", records * NUMBER as u64),
            TRANSACTIONS if record.log.is_some() => ("the count of transactions", records * 2 * NUMBER as u64),
            // A part has the record of the whole bundle.
            _ if record.part.is_some() => continue,
            _ => ("payload_bytes", record.payload_bytes),
        };
        // The payload is of all blocks that were read, duplicates included.
        let has_duplicates = name == record.column_family && record.blocks.duplicate > 0;
        if value_bytes != declared && !(has_duplicates && value_bytes < declared) {
            let what = format!("{field} says {declared} bytes, the values of {name} have {value_bytes}");
            return Err(fetch.misdescribed(None, what));
        }
    }
    drop(reader);
    target.remove_dir(scratch)
}

/// The first difference between the properties of a file and its description. All keys of a family of a block log have
/// the same length.
fn fault_of(file: &SstFile, found: &DataFile, is_log: bool) -> Option<String> {
    let (counts, SstFile { first, last, records, .. }) = (&found.counts, file);
    let unwanted = [
        (counts.range_deletions, "deletions of ranges"),
        (counts.deletions, "deletions"),
        (counts.merge_operands, "merge operands"),
    ];
    if let Some((count, what)) = unwanted.into_iter().find(|(count, _)| *count > 0) {
        return Some(format!("it has {count} {what}"));
    }
    let differs =
        |field: &str, says: &dyn Display, has: &dyn Display| Some(format!("{field} says {says}, the file has {has}"));
    let keys = [("first", first, &found.smallest), ("last", last, &found.largest)];
    if counts.entries != *records {
        return differs("records", records, &counts.entries);
    }
    if let Some((field, says, has)) = keys.into_iter().find(|(_, says, has)| HEXLOWER.encode(has) != **says) {
        return differs(field, says, &HEXLOWER.encode(has));
    }
    // The first and the last key are known, every other one has a byte at least. Two hex digits are a byte.
    let (first, last) = (first.len() as u64 / 2, last.len() as u64 / 2);
    let ends = if *records == 1 { first } else { first + last };
    let least = records.saturating_mul(KEY_TRAILER).saturating_add(ends + records.saturating_sub(2));
    let exact = (*records <= 2).then_some(least);
    let exact = exact.or_else(|| is_log.then(|| records.saturating_mul(KEY_TRAILER + first)));
    match exact {
        Some(exact) if counts.raw_key_bytes != exact => {
            differs("the keys", &format_args!("{exact} bytes"), &counts.raw_key_bytes)
        }
        _ if counts.raw_key_bytes < least => {
            differs("the keys", &format_args!("{least} bytes or more"), &counts.raw_key_bytes)
        }
        _ => None,
    }
}

/// Fetches the files that are missing. A file that is here is kept if its inode did not change since it was verified, or its
/// bytes are still the same.
fn fetch_missing(job: &Job<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<()> {
    let Job { target, progress, journal, options, .. } = *job;
    let (mut missing, mut here) = (Vec::new(), (0, 0));
    for (number, file) in seed.files.iter().enumerate() {
        let path = target.sst.join(&file.name);
        let Some((_, inode)) = job.resumed.fetched.get(&(number as u32)) else {
            missing.push(number);
            continue;
        };
        let there = path.symlink_metadata().map_err(Error::io("read metadata of", &path))?;
        if Inode::of(&there) == *inode || fetch.is_same(number, &path)? {
            here = (here.0 + file.bytes, here.1 + file.records);
            continue;
        }
        let message = format!("{} is not what was fetched any more: it is fetched again", path.display());
        progress.report(&Event::Warning { message });
        private::remove(&path)?;
        missing.push(number);
    }
    if here.1 > 0 {
        progress.add_earlier(here.0, here.1);
    }
    let coming = missing.iter().filter(|&&number| fetch.takes_room(number));
    let bytes: u64 = coming.filter_map(|&number| seed.files.get(number)).map(|file| file.bytes).sum();
    let place = FileSystem::of(&target.sst)?;
    if bytes > place.free {
        return Err(Error::NoSpace { path: place.path, needed: Some(bytes), free: place.free, source: None });
    }
    let one = |(): &mut (), item: usize| -> Result<()> {
        let found = missing.get(item).and_then(|&number| Some((number, seed.files.get(number)?)));
        let (number, file) = found.ok_or_else(|| Error::broken_invariant("a file of the bundle does not exist"))?;
        options.check_cancelled()?;
        let path = target.sst.join(&file.name);
        fetch.fetch(number, &path, &|bytes| progress.add(bytes, 0))?;
        sync_dir(&target.sst)?;
        failpoint::reach("fetch");
        let there = path.symlink_metadata().map_err(Error::io("read metadata of", &path))?;
        let (number, inode) = (number as u32, Inode::of(&there));
        journal.append(&Entry::Fetched { number, file: file.clone(), inode })?;
        progress.add(0, file.records);
        failpoint::reach("fetched");
        Ok(())
    };
    parallel::for_each(fetch.at_once(), missing.len(), || (), one).map(drop)
}
