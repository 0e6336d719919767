//! Seeding: builds a database from a bundle.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, linkat};

use super::document::{Bundle, BundleFile, families, is_sum};
use super::place::{BundlePlace, changed, file, open};
use super::problem::BundleProblem;
use super::signature::TrustedKey;
use super::{hashing, reuse};
use crate::error::{Error, Result, StateKind};
use crate::load::{self, Fetch, ImportOptions, Indexes, Seed, SstFile, Unfinished, seed_file_name};
use crate::os::files::open_regular;
use crate::parallel;
use crate::preset::Overrides;
use crate::progress::{CancellationToken, Network, Observer};
use crate::report::{BundlePart, ImportReport};
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::source::remote::{NetworkOptions, RemoteFile};

/// Concurrent downloads; each adds connections while they raise the throughput.
const AT_ONCE: usize = 4;

/// Smallest and largest buffer for a download, in bytes.
const LEAST_AHEAD: u64 = 1 << 20;
const MOST_AHEAD: u64 = 64 << 20;

const OTHERS_WRITE: u32 = 0o022;

/// The options of [`seed`](fn@crate::seed).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SeedOptions {
    /// Places of the bundle. The first one that can be read chooses the bundle.
    pub(crate) places: Vec<PathBuf>,
    pub(crate) bundle: Option<String>,
    /// Column families to seed; all if empty.
    pub(crate) families: Vec<String>,
    /// Keys, one of which must have signed the bundle; if empty, signatures are not checked.
    pub(crate) trusted: Vec<TrustedKey>,
    pub(crate) update: bool,
    /// The database, the preset and the resources; everything else follows from the bundle.
    pub(crate) import: ImportOptions,
}

impl SeedOptions {
    /// Creates options for a bundle at `place`, a directory or a URL, and the new database `db`.
    pub fn new(place: impl Into<PathBuf>, db: impl Into<PathBuf>) -> Self {
        let (families, trusted, import) = (Vec::new(), Vec::new(), ImportOptions::new(PathBuf::new(), db));
        Self { places: vec![place.into()], bundle: None, families, trusted, update: false, import }
    }

    /// Adds other places of the bundle. Each delivers a part of the files, and replaces a place that fails.
    pub fn mirrors(mut self, places: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.places.extend(places.into_iter().map(Into::into));
        self
    }

    /// Chooses the bundle by its id. Defaults to the bundle of an unfinished seed, or else to the newest bundle.
    pub fn bundle(mut self, id: impl Into<String>) -> Self {
        self.bundle = Some(id.into());
        self
    }

    /// Chooses column families of a block log. Defaults to all.
    pub fn column_families(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.families = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a key. At least one added key must have signed the bundle. Without keys, signatures are not checked.
    pub fn trust(mut self, key: TrustedKey) -> Self {
        self.trusted.push(key);
        self
    }

    /// Updates an existing database: only the files that it does not have are fetched, and the new database replaces it
    /// atomically. A database that a node has written to is refused.
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Replaces an existing database. No process, including this one, may have it open.
    pub fn replace(mut self, replace: bool) -> Self {
        self.import.replace = replace;
        self
    }

    /// Chooses the treatment of unfinished work. Defaults to [`Unfinished::Resume`].
    pub fn unfinished(mut self, unfinished: Unfinished) -> Self {
        self.import.unfinished = unfinished;
        self
    }

    /// Limits memory, in bytes. Defaults to half of the memory of the machine or its cgroup.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.import.memory = Some(bytes);
        self
    }

    /// Sets the number of threads that fetch and verify files of a directory. Defaults to the number of cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.import.threads = Some(threads);
        self
    }

    /// Chooses the preset of the database, by name or path. Defaults to the preset of the published import.
    pub fn preset(mut self, preset: impl Into<String>) -> Self {
        self.import.preset = Some(preset.into());
        self
    }

    /// Overrides options of the preset. Defaults to none.
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.import.overrides = overrides;
        self
    }

    /// Sets options for places on the network.
    pub fn network(mut self, network: NetworkOptions) -> Self {
        self.import.network = network;
        self
    }

    /// Sets the token that cancels the seed.
    pub fn stop(mut self, stop: CancellationToken) -> Self {
        self.import.stop = stop;
        self
    }
}

/// Builds a database from a bundle, which [`bundle`](fn@crate::bundle) or [`import_and_bundle`](crate::import_and_bundle) has
/// published.
///
/// Fetches the files, compares the BLAKE3 of each with the description, and lets RocksDB ingest them. The database appears
/// under its name only when it is complete. After a crash or a cancellation the same call resumes with the same bundle.
/// Unfinished work is in `<db>.partial`. URLs need the feature `remote`.
///
/// # Errors
/// Those of [`import`](fn@crate::import). [`Error::BadInput`]: the bundle is damaged, incomplete or not signed by a
/// trusted key.
pub fn seed(options: &SeedOptions, observer: &dyn Observer) -> Result<ImportReport> {
    let import = &options.import;
    let places: Vec<BundlePlace> = options.places.iter().map(|root| BundlePlace::new(root, &import.network)).collect();
    let Some(first) = places.first() else {
        return Err(Error::Usage { reason: "no bundle is named".into(), hint: "name a directory or a URL".into() });
    };
    if options.bundle.as_ref().is_some_and(|id| !is_sum(id)) {
        let hint = "pass the 64 hex digits that the report of the bundle has";
        return Err(Error::usage("the id of the bundle is not a BLAKE3", hint));
    }
    // The newest bundle may have changed since.
    let begun = match import.unfinished {
        Unfinished::Restart => None,
        _ => load::bundle_of_unfinished(import)?,
    };
    let find = |id: Option<&String>| {
        let find = |place: &BundlePlace| place.find(id.map(String::as_str), &options.trusted);
        places.iter().skip(1).fold(find(first), |found, place| match found {
            // A mirror replaces a place that fails.
            Err(error) if !matches!(error, Error::Interrupted { .. }) => find(place).map_err(|_| error),
            found => found,
        })
    };
    let is_missing = |error: &Error| match error {
        Error::BadInput { problem, .. } => matches!(problem.downcast_ref(), Some(BundleProblem::Missing)),
        _ => false,
    };
    let found = match (find(options.bundle.as_ref().or(begun.as_ref())), &begun) {
        // The bundle of the unfinished seed has been removed from all places.
        (Err(error), Some(begun)) if options.bundle.is_none() && is_missing(&error) => match import.unfinished {
            Unfinished::ResumeOrRestart => find(None),
            _ => {
                let reason = format!("has the unfinished seed of bundle {begun}, which does not exist any more");
                let hint = "name a place that has the bundle, or throw the unfinished seed away with --restart";
                Err(Error::state(&import.db, StateKind::Unfinished, reason, hint))
            }
        },
        (found, _) => found,
    };
    let found = found?;
    let result = seed_bundle(options, &places, &found, observer);
    match result {
        // The files of that bundle have been removed from all places, and there is a newer one.
        Err(error)
            if import.unfinished == Unfinished::ResumeOrRestart
                && options.bundle.is_none()
                && begun.as_ref() == Some(&found.0)
                && is_missing(&error) =>
        {
            let newest = find(None)?;
            if newest.0 == found.0 { Err(error) } else { seed_bundle(options, &places, &newest, observer) }
        }
        result => result,
    }
}

/// Builds a database from the bundle with an id.
fn seed_bundle(
    options: &SeedOptions,
    places: &[BundlePlace],
    (id, bundle): &(String, Bundle),
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let (mut import, first) = (options.import.clone(), &options.places[0]);
    let bundle = select_families(&options.families, id, bundle.clone())?;
    let record = &bundle.record;
    import.sources = vec![first.clone()];
    import.is_seed = true;
    (import.column_family, import.key) = (record.column_family.clone(), record.key);
    import.overrides.column_family.get_or_insert_with(|| record.column_family.clone());
    if let Some(log) = &record.log {
        let has = |name: &str| log.families.iter().any(|family| family.name == name);
        import.log.indexes = Indexes { ids: has(BLOCK_IDS), transactions: has(TRANSACTIONS) };
    }
    // The new database replaces the old one in one step, so that no node opens a mixture.
    import.replace |= options.update;
    let bad = |reason: String| Error::bad_input(first, None, BundleProblem::Form(reason));
    let files = bundle.files.iter().enumerate().map(|(number, file)| {
        file.keys().map_err(bad)?;
        let BundleFile { bytes, first, last, records, digest, column_family: family, blake3, .. } = file.clone();
        Ok(SstFile { name: seed_file_name(number), bytes, first, last, records, digest, family, blake3 })
    });
    let seed = Seed { id, record, files: files.collect::<Result<_>>()? };
    let threads = parallel::count(import.threads);
    let is_remote = places.iter().any(BundlePlace::is_remote);
    let at_once = if is_remote { AT_ONCE } else { threads };
    let ahead = (import.memory_budget() / 2 / at_once as u64).clamp(LEAST_AHEAD, MOST_AHEAD);
    let fetcher = Fetcher {
        places,
        files: &bundle.files,
        stop: &import.stop,
        at_once,
        ahead,
        is_remote,
        updated: options.update.then_some(&import.db),
        own: Mutex::default(),
        failed: Mutex::default(),
        traffic: Arc::default(),
    };
    load::seed(&import, &seed, &fetcher, observer)
}

/// Returns the bundle with only the named column families and a report that matches them; the whole bundle if none is named.
fn select_families(wanted: &[String], id: &str, mut bundle: Bundle) -> Result<Bundle> {
    let wrong = |reason: String, hint: String| Err(Error::Usage { reason, hint: hint.into() });
    let known: Vec<String> = families(&bundle.record).into_iter().map(|(name, _)| name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        let hint = format!("its column families: {}", known.join(", "));
        return wrong(format!("the bundle has no column family `{unknown}`"), hint);
    }
    if wanted.is_empty() || known.iter().all(|name| wanted.contains(name)) {
        return Ok(bundle);
    }
    let blocks = &bundle.record.column_family;
    if !wanted.contains(blocks) {
        let reason = format!("without the column family `{blocks}` there are no blocks");
        return wrong(reason, format!("give --column-family {blocks} as well"));
    }
    let files: Vec<BundleFile> =
        bundle.files.iter().filter(|file| wanted.contains(&file.column_family)).cloned().collect();
    bundle.record.part = Some(BundlePart {
        bundle: id.to_owned(),
        files: files.len() as u64,
        of_files: bundle.files.len() as u64,
        of_digest: bundle.record.digest,
    });
    // Only block logs have more than one column family.
    if let Some(log) = &mut bundle.record.log {
        log.families.retain(|family| wanted.contains(&family.name));
    }
    Ok(Bundle { files, ..bundle })
}

/// Bytes from the network: of open files, and of closed ones.
#[derive(Default)]
struct SeedTraffic {
    open: Vec<Arc<RemoteFile>>,
    received: u64,
    waited: f64,
}

impl SeedTraffic {
    fn end(&mut self, remote: &Arc<RemoteFile>) {
        self.open.retain(|other| !Arc::ptr_eq(other, remote));
        self.received += remote.traffic().0;
        self.waited += remote.waits().0;
    }

    fn now(&self) -> Network {
        let sums = self.open.iter().map(|remote| (remote.traffic().0, remote.waits()));
        let sum = |(received, waited, connections), (more, (waits, at_once))| {
            (received + more, waited + waits, connections + at_once)
        };
        let (received, waited, connections) = sums.fold((self.received, self.waited, 0), sum);
        Network::new(received, connections, waited)
    }
}

struct Fetcher<'a> {
    places: &'a [BundlePlace],
    files: &'a [BundleFile],
    stop: &'a CancellationToken,
    at_once: usize,
    /// Buffer per download, in bytes.
    ahead: u64,
    is_remote: bool,
    /// The database to update.
    updated: Option<&'a PathBuf>,
    /// Its matching files, by number in `files`.
    own: Mutex<HashMap<usize, PathBuf>>,
    /// Numbers of places that have failed; they are tried last.
    failed: Mutex<BTreeSet<usize>>,
    traffic: Arc<Mutex<SeedTraffic>>,
}

impl Fetch for Fetcher<'_> {
    fn at_once(&self) -> usize {
        self.at_once
    }

    fn takes_room(&self, number: usize) -> bool {
        self.is_remote && self.own(number).is_none()
    }

    fn check_replaced(&self) -> Result<()> {
        let Some(db) = self.updated else { return Ok(()) };
        if !db.join("CURRENT").exists() {
            let reason = "is not a database that bedload can update";
            let hint = "omit --update to make a new database";
            return Err(Error::state(db.to_owned(), StateKind::NoDatabase, reason, hint));
        }
        *self.own.lock() = reuse::find_reusable_files(db, self.files)?;
        Ok(())
    }

    fn network(&self) -> Option<Box<dyn Fn() -> Network + Send>> {
        let traffic = Arc::clone(&self.traffic);
        let now = move || traffic.lock().now();
        self.is_remote.then(|| Box::new(now) as Box<dyn Fn() -> Network + Send>)
    }

    fn misdescribed(&self, number: Option<usize>, what: String) -> Error {
        let Some(place) = self.places.first() else { return Error::interrupted() };
        match number.and_then(|number| self.files.get(number)) {
            Some(wanted) => Error::bad_input(&place.at(&file(&wanted.name)).0, None, BundleProblem::Content(what)),
            None => Error::bad_input(&place.root, None, BundleProblem::Form(what)),
        }
    }

    fn fetch(&self, number: usize, path: &Path, on_bytes: &(dyn Fn(u64) + Sync)) -> Result<()> {
        let Some(wanted) = self.files.get(number) else { return Err(Error::interrupted()) };
        if let Some(own) = self.own(number) {
            crate::os::private::remove(path)?;
            match self.copy_from_dir(&own, wanted, path, on_bytes) {
                // The bytes differ: fetch the file.
                Err(Error::BadInput { .. }) => {}
                taken => return taken,
            }
        }
        let mut failed = None;
        // Another mirror may have a valid copy.
        let all = self.places.len();
        let mut turns: Vec<usize> = (0..all).map(|turn| (number + turn) % all).collect();
        turns.sort_by_key(|turn| self.failed.lock().contains(turn));
        for turn in turns {
            let Some(place) = self.places.get(turn) else { continue };
            crate::os::private::remove(path)?;
            let fetched = match place.is_remote() {
                true => self.download(place, wanted, path, on_bytes),
                false => self.copy_from_dir(&place.at(&file(&wanted.name)).0, wanted, path, on_bytes),
            };
            match fetched {
                Ok(()) => return Ok(()),
                Err(error @ (Error::Interrupted { .. } | Error::NoSpace { .. })) => return Err(error),
                Err(error) => {
                    self.failed.lock().insert(turn);
                    failed = Some(failed.unwrap_or(error));
                }
            }
        }
        Err(failed.unwrap_or_else(Error::interrupted))
    }

    fn is_same(&self, number: usize, path: &Path) -> Result<bool> {
        let Some(wanted) = self.files.get(number) else { return Ok(false) };
        let there = open_regular(path).map_err(Error::io("read", path))?;
        Ok(compare(path, wanted, hashing::hash(&there, path, wanted.bytes, self.stop)?).is_ok())
    }
}

impl Fetcher<'_> {
    fn own(&self, number: usize) -> Option<PathBuf> {
        self.own.lock().get(&number).cloned()
    }

    fn download(
        &self,
        place: &BundlePlace,
        wanted: &BundleFile,
        path: &Path,
        on_bytes: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let name = file(&wanted.name);
        let shown = place.at(&name).0;
        let remote = place.open_remote(&name)?;
        self.traffic.lock().open.push(Arc::clone(&remote));
        let download = || {
            if let Some(found) = remote.size().filter(|found| *found != wanted.bytes) {
                let problem = BundleProblem::Length { found, expected: wanted.bytes };
                return Err(Error::bad_input(&shown, None, problem));
            }
            let (reader, gate) = remote.read_from(0, self.ahead);
            gate.into_iter().for_each(|gate| gate.open());
            let to = File::create_new(path).map_err(Error::io("create", path))?;
            let found = hashing::copy((reader, &shown), (&to, path), wanted.bytes, self.stop, on_bytes);
            compare(&shown, wanted, found.map_err(|error| changed(&shown, error))?)?;
            to.sync_all().map_err(Error::io("sync", path))
        };
        let done = download();
        self.traffic.lock().end(&remote);
        done
    }

    /// Copies a file of a directory: as a reflink, as a hard link, or as a copy. The result is hashed.
    fn copy_from_dir(
        &self,
        from: &Path,
        wanted: &BundleFile,
        path: &Path,
        on_bytes: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let source = open(from)?.ok_or_else(|| Error::bad_input(from, None, BundleProblem::Missing))?;
        let copy = |source: &File, to: &mut dyn Write| {
            let found = hashing::copy((source, from), (to, path), wanted.bytes, self.stop, on_bytes)?;
            compare(from, wanted, found)
        };
        let create = || {
            let created = File::options().read(true).write(true).create_new(true).open(path);
            created.map_err(Error::io("create", path))
        };
        let mut to = create()?;
        if rustix::fs::ioctl_ficlone(&to, &source).is_ok() {
            to.sync_all().map_err(Error::io("sync", path))?;
            return copy(&to, &mut std::io::sink());
        }
        // Other users could change a hard link to a file that they may write to.
        let there = source.metadata().map_err(Error::io("read metadata of", from))?;
        if there.uid() == rustix::process::geteuid().as_raw() && there.mode() & OTHERS_WRITE == 0 {
            crate::os::private::remove(path)?;
            let opened = format!("/proc/self/fd/{}", source.as_raw_fd());
            if linkat(CWD, opened.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW).is_ok() {
                source.sync_all().map_err(Error::io("sync", from))?;
                return copy(&source, &mut std::io::sink());
            }
            to = create()?;
        }
        copy(&source, &mut to)?;
        to.sync_all().map_err(Error::io("sync", path))
    }
}

fn compare(path: &Path, wanted: &BundleFile, (bytes, blake3): (u64, blake3::Hash)) -> Result<()> {
    let (found, expected) = (blake3.to_hex().to_string(), wanted.bytes);
    // At most one byte beyond the expected length was read.
    let length = if bytes > expected { path.metadata().map_or(bytes, |there| there.len()) } else { bytes };
    let problem = match found == wanted.blake3 {
        _ if bytes != expected => BundleProblem::Length { found: length, expected },
        false => BundleProblem::Bytes { found, expected: wanted.blake3.clone() },
        true => return Ok(()),
    };
    Err(Error::bad_input(path, None, problem))
}
