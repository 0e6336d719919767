//! A database from the finished files of a bundle: fetch each, note it, ingest all, commit.
//!
//! Where a file comes from and whether its bytes are right is the business of the caller's [`Fetch`].

use std::fmt::Display;
use std::path::Path;

use data_encoding::HEXLOWER;

use crate::error::{Error, Result, errno_of};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::load::built::{FamilyDone, SstFile, Tally};
use crate::load::car::complete;
use crate::load::column_families::ColumnFamilies;
use crate::load::commit::{publish, report_of_seed};
use crate::load::context::Job;
use crate::load::existing::Existing;
use crate::load::identity::Identity;
use crate::load::import::{Import, Outcome, Prepared, check_target, with_hint};
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
use crate::preset::{self, Loader, Preset, Resolved};
use crate::progress::{Event, Network, Observer, Phase, Progress};
use crate::report::{ImportReport, LogPlan, Method, Plan};
use crate::rocks::settings::IngestSettings;
use crate::rocks::{DataFile, Reader, ReaderOptions, Store};
use crate::schema::{BLOCK_IDS, NUMBER, TRANSACTIONS};
use crate::source::car::RawCid;

/// The bytes of kind and sequence number that RocksDB appends to each key.
const KEY_TRAILER: u64 = 8;

/// What a database is made of.
pub(crate) struct Seed<'a> {
    /// What distinguishes the bundle.
    pub id: &'a str,
    /// The report of the import, as far as it is true for the files.
    pub record: &'a ImportReport,
    /// Its files, of which those of a column family follow each other in the order of their keys.
    pub files: Vec<SeedFile>,
}

/// A finished file.
pub(crate) struct SeedFile {
    pub family: String,
    pub bytes: u64,
    /// The first and the last key in it.
    pub keys: (Vec<u8>, Vec<u8>),
    /// What is in it.
    pub content: Content,
}

/// Where the files come from.
pub(crate) trait Fetch: Sync {
    /// How many are fetched at once.
    fn at_once(&self) -> usize;

    /// Whether the file of this number needs room of its own here.
    fn takes_room(&self, number: usize) -> bool;

    /// Whether the database that is there may be replaced: asked before anything is done, and again once it is locked.
    fn check_replaced(&self) -> Result<()>;

    /// What the network gives; `None` where nothing comes from there.
    fn network(&self) -> Option<Box<dyn Fn() -> Network + Send>>;

    /// The error for a file that the bundle describes wrongly, or for the record where `number` is `None`.
    fn misdescribed(&self, number: Option<usize>, what: String) -> Error;

    /// Puts the file of this number to `path`, where none is, verified and synced. Calls `came` with bytes that have come.
    fn fetch(&self, number: usize, path: &Path, came: &(dyn Fn(u64) + Sync)) -> Result<()>;

    /// Whether the file at `path` has the bytes of the file of this number.
    fn is_same(&self, number: usize, path: &Path) -> Result<bool>;
}

/// Makes the database `options.db` of a bundle, with the options of its node. Goes on where an earlier run of the same
/// command has stopped.
pub(crate) fn seed(
    options: &ImportOptions,
    seed: &Seed<'_>,
    fetch: &dyn Fetch,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let progress = Progress::new(observer);
    let import = Import { options, progress: &progress };
    match progress.sampled(|| run(&import, seed, fetch)).map_err(|error| with_hint(error, options))? {
        Outcome::Imported(report) => Ok(*report),
        Outcome::Planned(_) => Err(Error::interrupted()),
    }
}

/// The bundle that an unfinished seed of the database `options.db` has begun with.
pub(crate) fn bundle_of_unfinished(options: &ImportOptions) -> Result<Option<String>> {
    let known = Journal::peek(&Target::new(options)?.partial);
    Ok(known.identity.as_ref().and_then(Identity::bundle).cloned())
}

fn run(import: &Import<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<Outcome> {
    let Import { options, .. } = *import;
    let target = Target::new(options)?;
    let finished = target.is_finished()?;
    if !finished {
        check_target(&target)?;
        if target.has_old() {
            Existing::check_is_free(&target)?;
        }
        fetch.check_replaced()?;
    }
    planner::check_memory(options)?;
    import.warn(planner::excess_memory(options));
    let prepared = prepare(import, seed)?;
    let mut lock = target.lock()?;
    if finished {
        let report = import.finish_earlier(&prepared, &target, |_| Ok(()))?;
        lock.release();
        if let Some(report) = report {
            return Ok(Outcome::Imported(Box::new(report)));
        }
        // What was locked is gone with what the earlier run had left.
        check_target(&target)?;
        lock = target.lock()?;
    }
    import.locked(target, lock, &prepared, |job| {
        fetch.check_replaced()?;
        load(job, seed, fetch)
    })
}

/// The preset of the import, if this program has it; it can be of another version, or of the importer's own.
fn default_preset(record: &ImportReport) -> &str {
    let default = if record.log.is_some() { preset::DEFAULT_OF_LOGS } else { preset::DEFAULT };
    Preset::builtin_names().find(|name| *name == record.preset).unwrap_or(default)
}

fn prepare(import: &Import<'_>, seed: &Seed<'_>) -> Result<Prepared> {
    let options = import.options;
    let preset = import.preset(default_preset(seed.record))?;
    if preset.loader != Loader::Ingest {
        return Err(Error::Usage {
            reason: format!("the preset `{}` writes through memtables, and a seed ingests files", preset.preset),
            hint:
                "give --preset one of those that ingest (`bedload presets list`); --options-file takes a node's options"
                    .into(),
        });
    }
    import.warn(preset.notes.clone());
    if options.preset.is_none() && preset.preset != seed.record.preset {
        let Resolved { preset: own, .. } = &preset;
        import.warn([format!(
            "the import used the preset `{}`, which this program does not have: the node gets the options of `{own}`, unless \
             --preset names others",
            seed.record.preset
        )]);
    }
    if !seed.record.verified {
        import.warn(["the import has not checked the blocks against their hashes: `bedload verify` does".to_owned()]);
    }
    let plan = Plan {
        memory: options.memory_budget(),
        threads: planner::threads(options, &preset),
        sst_bytes: preset.sst_size(),
        chunk_bytes: 0,
        expected_bytes: Some(seed.files.iter().map(|file| file.bytes).sum()),
        space: Vec::new(),
        links_bytes: 0,
        open_files: 0,
        method: Method::BlockLogSst {
            log: LogPlan {
                range_bytes: 0,
                families: families_of(seed.record).map(str::to_owned).collect(),
                transactions: None,
            },
        },
    };
    let part = seed.record.part.as_ref().map_or_else(String::new, |_| {
        let names: Vec<String> = families_of(seed.record).map(str::to_owned).collect();
        names.join(" ")
    });
    let source = SourceIdentity { bundle: Some(seed.id.to_owned()), ..SourceIdentity::default() };
    let mut identity = Identity::of(options, &preset, &plan, source)?;
    identity.part = part;
    let planned = Planned { plan, loading: preset.loading(), least_bytes: 0, warnings: Vec::new() };
    let sources = Sources::none(options.source());
    Ok(Prepared { sources, preset, planned, identity, plain: true, is_seed: true })
}

/// Fetches what is missing, ingests all, and commits.
fn load(job: &Job<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<ImportReport> {
    let Job { target, progress, .. } = *job;
    progress.expect(phase_weights::of_seed());
    progress.begin(Phase::Read, job.plan.expected_bytes);
    if let Some(network) = fetch.network() {
        progress.watch_network(network);
    }
    if !job.resumed.ingesting {
        fetch_missing(job, seed, fetch)?;
        sync_dir(&target.sst)?;
        failpoint::reach("all-fetched");
    }
    let families = match &seed.record.log {
        Some(_) => ColumnFamilies::of_log(job),
        None => ColumnFamilies::of_car(job),
    };
    if !job.resumed.ingesting {
        progress.begin(Phase::Check, None);
        check_files(job, &families, seed, fetch)?;
        failpoint::reach("all-checked");
    }
    progress.begin(Phase::Ingest, None);
    let names: Vec<&str> = families.names().collect();
    let built: Vec<(&str, FamilyDone)> = names.into_iter().map(|name| (name, of_family(seed, name))).collect();
    let reports = ingest(job, &families, &built)?;
    let record = match seed.record.part {
        Some(_) => &of_part(job, seed.record)?,
        None => seed.record,
    };
    publish(job, || report_of_seed(job, record, reports))
}

/// The column families of a bundle that have more than a name.
fn families_of(record: &ImportReport) -> impl Iterator<Item = &str> {
    record.log.iter().flat_map(|log| log.families.iter().map(|family| family.name.as_str()))
}

/// The record of a part, with what only its records tell: the bytes of their values, and which roots are among them.
fn of_part(job: &Job<'_>, record: &ImportReport) -> Result<ImportReport> {
    let mut record = record.clone();
    if record.log.is_none() {
        let reader = Reader::open(job.target.working(), &ReaderOptions::once())?;
        record.payload_bytes = reader.totals(&record.column_family)?.value_bytes;
        drop(reader);
        let roots: Vec<RawCid> = record.source.roots.iter().filter_map(|root| root.parse().ok()).collect();
        let found = complete::check(job, &roots, None)?;
        (record.missing_roots, record.first_missing_roots) = (found.missing_roots, found.first_missing_roots);
    }
    Ok(record)
}

/// Compares what the files themselves say with what the bundle says of them, in a database of links to them that goes again.
fn check_files(job: &Job<'_>, families: &ColumnFamilies<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<()> {
    let Job { target, .. } = *job;
    let scratch = &target.scratch;
    target.remove_dir(scratch)?;
    let store = Store::create(scratch, &families.loading(), None)?;
    let settings = IngestSettings { move_files: false, link_files: true, ..job.preset.ingest() };
    let path = |number: usize, file: &SeedFile| target.sst.join(built_file(number, file).name);
    for name in families.names() {
        let own = || seed.files.iter().enumerate().filter(|(_, file)| file.family == name);
        let paths: Vec<_> = own().map(|(number, file)| path(number, file)).collect();
        let Err(error) = store.ingest(name, paths, &settings) else { continue };
        // Which of them it is shows when each is taken alone.
        for (number, file) in own() {
            if let Err(Error::Rocks { message, .. }) = store.ingest(name, vec![path(number, file)], &settings)
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
    // RocksDB numbers them in the order in which they came.
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
fn fault_of(file: &SeedFile, found: &DataFile, is_log: bool) -> Option<String> {
    let (counts, (first, last)) = (&found.counts, &file.keys);
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
    let records = file.content.records;
    if counts.entries != records {
        return differs("records", &records, &counts.entries);
    }
    if found.smallest != *first {
        return differs("first", &HEXLOWER.encode(first), &HEXLOWER.encode(&found.smallest));
    }
    if found.largest != *last {
        return differs("last", &HEXLOWER.encode(last), &HEXLOWER.encode(&found.largest));
    }
    // The first and the last key are known, every other one has a byte at least.
    let ends = if records == 1 { first.len() } else { first.len() + last.len() } as u64;
    let least = records.saturating_mul(KEY_TRAILER).saturating_add(ends + records.saturating_sub(2));
    let exact = (records <= 2).then_some(least);
    let exact = exact.or_else(|| is_log.then(|| records.saturating_mul(KEY_TRAILER + first.len() as u64)));
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

/// All files of a column family.
fn of_family(seed: &Seed<'_>, name: &str) -> FamilyDone {
    let mut family = FamilyDone::default();
    for (number, file) in seed.files.iter().enumerate().filter(|(_, file)| file.family == name) {
        family.files.push(built_file(number, file));
        family.tally.add(tally(file));
    }
    family
}

fn built_file(number: usize, file: &SeedFile) -> SstFile {
    SstFile {
        name: format!("{:06}.sst", number + 1),
        bytes: file.bytes,
        first: HEXLOWER.encode(&file.keys.0),
        last: HEXLOWER.encode(&file.keys.1),
        records: file.content.records,
        digest: file.content.digest,
    }
}

fn tally(file: &SeedFile) -> Tally {
    Tally { records: file.content.records, digest: file.content.digest, ..Tally::default() }
}

/// Fetches the files that are not here yet. One that is here stays, if nobody has touched it since it was verified, or its
/// bytes are still the same.
fn fetch_missing(job: &Job<'_>, seed: &Seed<'_>, fetch: &dyn Fetch) -> Result<()> {
    let Job { target, progress, journal, options, .. } = *job;
    let path = |number: usize, file: &SeedFile| target.sst.join(built_file(number, file).name);
    let (mut missing, mut here) = (Vec::new(), (0, 0));
    for (number, file) in seed.files.iter().enumerate() {
        let path = path(number, file);
        let Some(inode) = job.resumed.fetched.get(&(number as u32)) else {
            missing.push(number);
            continue;
        };
        let there = path.symlink_metadata().map_err(Error::io("look at", &path))?;
        if Inode::of(&there) == *inode || fetch.is_same(number, &path)? {
            here = (here.0 + file.bytes, here.1 + file.content.records);
            continue;
        }
        let message = format!("{} is not what was fetched any more: it is fetched again", path.display());
        progress.report(&Event::Warning { message });
        private::remove(&path)?;
        missing.push(number);
    }
    if here.1 > 0 {
        progress.take_up(here.0, here.1);
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
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        let path = path(number, file);
        fetch.fetch(number, &path, &|bytes| progress.add(bytes, 0))?;
        sync_dir(&target.sst)?;
        failpoint::reach("fetch");
        let there = path.symlink_metadata().map_err(Error::io("look at", &path))?;
        let inode = Inode::of(&there);
        let entry = Entry::Fetched { number: number as u32, file: built_file(number, file), tally: tally(file), inode };
        journal.append(&entry)?;
        progress.add(0, file.content.records);
        failpoint::reach("fetched");
        Ok(())
    };
    parallel::for_each(fetch.at_once(), missing.len(), || (), one).map(drop)
}
