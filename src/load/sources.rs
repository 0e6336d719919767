//! The sources of an import, and the properties of each before the first block is read.
//!
//! A file stays closed until it is read, because there may be more files than this process may open. It is an error if the
//! opened file is not the one that was probed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::load::callbacks::SourceReader;
use crate::load::identity::Identity;
use crate::load::options::{Format, ImportOptions};
use crate::load::source_identity::{
    Inode, KnownSource, RemoteOrigin, SourceFacts, SourceFile, changed, changed_on_server,
};
use crate::os::files::check_path;
use crate::parallel;
use crate::progress::Network;
use crate::report::RemoteInfo;
use crate::source::block_log::{PEEK, has_log_name, is_block_log, is_set, log_in};
use crate::source::car::{Following, cars_in, has_car_name, no_snapshot_in};
use crate::source::input::{self, Compression, Input, InputOptions, Remote, STDIN, SourceProbe};
use crate::source::remote::is_remote;

/// The most sources of one import: fingerprints have 16 bits for the number of a source.
const MAX_SOURCES: usize = 1 << 16;

/// URLs that are probed at once.
const PROBES: usize = 16;

/// The sources in the caller's order; directories are replaced by the CARs in them.
#[derive(Default)]
pub(super) struct Sources {
    pub names: Arc<[PathBuf]>,
    /// The properties of all. Several are probed before the first is opened; a single one is opened at once.
    pub known: OnceLock<Arc<[KnownSource]>>,
    /// The reader of the source `-`.
    reader: Option<SourceReader>,
    /// The address where an earlier run found a single source.
    pinned: Option<String>,
    traffic: Mutex<SourceTraffic>,
    /// Places that should have a checksum of a source and have none.
    unusable: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct SourceTraffic {
    /// The source that is open now.
    now: Option<(usize, Arc<Remote>)>,
    /// The traffic of each other source on the network.
    before: BTreeMap<usize, RemoteInfo>,
}

impl Sources {
    /// Finds the sources, and probes each if there are several. `journal` has the import that may be resumed.
    pub fn find(options: &ImportOptions, journal: Option<&Identity>) -> Result<Arc<Self>> {
        let names = expand(options)?;
        if names.is_empty() {
            return Err(Error::usage("no snapshot is named", "name one or more"));
        }
        if names.len() > MAX_SOURCES {
            let hint = "import fewer at once; blocks can be added later with --into-existing";
            return Err(Error::usage(format!("{} sources are more than one import takes", names.len()), hint));
        }
        let pinned = |number: usize, name: &Path| journal.and_then(|journal| journal.address_of(number, name));
        let mut traffic = SourceTraffic::default();
        let (known, pinned) = match &*names {
            [name] => (OnceLock::new(), pinned(0, name)),
            names => (OnceLock::from(Arc::from(probe_all(names, options, pinned, &mut traffic)?)), None),
        };
        let traffic = Mutex::new(traffic);
        let reader = options.reader.clone();
        Ok(Arc::new(Self { names: names.into(), known, reader, pinned, traffic, ..Self::default() }))
    }

    /// No sources; messages use `name`.
    pub fn none(name: &Path) -> Arc<Self> {
        Arc::new(Self { names: [name.to_owned()].into(), ..Self::default() })
    }

    pub fn first(&self) -> &Path {
        self.names.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The name of all sources in errors and reports.
    pub fn shown(&self) -> PathBuf {
        let mut name = self.first().as_os_str().to_owned();
        if let more @ 1.. = self.names.len() - 1 {
            name.push(format!(" and {more} more"));
        }
        name.into()
    }

    /// Bytes on disk of each, as far as they are known.
    pub fn bytes(&self) -> Vec<Option<u64>> {
        self.known().iter().map(|source| source.facts.size).collect()
    }

    /// A number of each, if all have it.
    pub fn all(&self, of: impl Fn(&SourceFacts) -> Option<u64>) -> Option<Vec<u64>> {
        self.known().iter().map(|source| of(&source.facts)).collect()
    }

    pub fn are_plain(&self) -> bool {
        self.known().iter().all(|source| source.facts.is_plain)
    }

    /// True if all are known to need no decompression.
    pub fn need_no_decompression(&self) -> bool {
        self.all(|facts| facts.size.filter(|_| facts.compression == Compression::None)).is_some()
    }

    pub fn known(&self) -> Arc<[KnownSource]> {
        self.known.get().cloned().unwrap_or_default()
    }

    pub fn open(&self, number: usize, options: &InputOptions) -> Result<Input> {
        let name = self.names.get(number).ok_or_else(|| no_source(number))?;
        // The threads of the last source end before the next source starts its own.
        self.watch(None);
        let all = self.known();
        let known = all.get(number).and_then(|known| known.remote.as_ref());
        let pinned = known.map_or_else(|| self.pinned.clone(), |known| known.address.clone());
        let options = InputOptions { pinned, ..options.clone() };
        let input = match &self.reader {
            Some(reader) if name.as_os_str() == STDIN => input::from_reader(name, reader.take()?, &options)?,
            _ => input::open(name, &options)?,
        };
        if let Some(file) = &input.file {
            self.check(number, file)?;
        }
        if let Some(remote) = &input.remote {
            let found = remote.pin();
            if let Some(known) = known.filter(|known| !known.pin.is_same(&found)) {
                return Err(changed_on_server(name, &known.pin, &found));
            }
            self.unusable.lock().extend(remote.unusable.clone());
            self.watch(Some((number, Arc::clone(remote))));
        }
        Ok(input)
    }

    /// Counts the traffic of this source from now on.
    fn watch(&self, next: Option<(usize, Arc<Remote>)>) {
        let mut traffic = self.traffic.lock();
        if let Some((number, remote)) = std::mem::replace(&mut traffic.now, next) {
            let all = merge_traffic(traffic.before.get(&number), &remote);
            traffic.before.insert(number, all);
        }
    }

    pub fn has_remote(&self) -> bool {
        self.names.iter().any(|name| is_remote(name))
    }

    /// Takes the places that should have a checksum of a source and have none.
    pub fn take_unusable(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.unusable.lock())
    }

    pub fn remote_info(&self, number: usize) -> Option<RemoteInfo> {
        let traffic = self.traffic.lock();
        let before = traffic.before.get(&number);
        match &traffic.now {
            Some((now, remote)) if *now == number => Some(merge_traffic(before, remote)),
            _ => before.cloned(),
        }
    }

    pub fn network(&self) -> Network {
        let traffic = self.traffic.lock();
        let now = traffic.now.as_ref().map(|(_, remote)| merge_traffic(None, remote));
        let connections = now.as_ref().map_or(0, |now| now.connections);
        let all = || traffic.before.values().chain(&now);
        let (received, waited) = (all().map(|it| it.received_bytes).sum(), all().map(|it| it.waited_seconds).sum());
        Network::new(received, connections, waited)
    }

    /// The later sources, for a reader of CARs.
    pub fn following(self: &Arc<Self>, options: InputOptions) -> Following {
        let sources = Arc::clone(self);
        let open = move |number: usize| sources.open(number, &options);
        Following { names: Arc::clone(&self.names), bytes: self.bytes(), open: Box::new(open) }
    }

    /// Opens a file again, after a check that it is unchanged.
    pub fn reopen(&self, number: usize) -> Result<File> {
        let name = self.names.get(number).ok_or_else(|| no_source(number))?;
        let file = File::open(name).map_err(Error::io("open", name))?;
        self.check(number, &file)?;
        Ok(file)
    }

    /// Checks that an opened file is the one that was probed.
    fn check(&self, number: usize, file: &File) -> Result<()> {
        let all = self.known();
        let known = all.get(number).and_then(|known| Some((known.files.first()?, known.facts.size?)));
        let Some((name, (known, size))) = self.names.get(number).zip(known) else { return Ok(()) };
        let metadata = file.metadata().map_err(Error::io("read metadata of", name))?;
        if Inode::of(&metadata) != known.inode || metadata.len() != size {
            return Err(changed(name, "it was replaced or modified since the import began"));
        }
        Ok(())
    }
}

/// The error for a number that no source has.
fn no_source(number: usize) -> Error {
    Error::broken_invariant(format_args!("source {number} does not exist"))
}

/// The sources, in which directories are replaced by their CARs.
fn expand(options: &ImportOptions) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for path in &options.sources {
        if !is_remote(path) {
            check_path("a source", path)?;
        }
        let is_dir = path.as_os_str() != STDIN && !is_remote(path) && path.is_dir();
        let is_dir = is_dir && options.format != Format::BlockLog;
        names.extend(if is_dir { snapshots_in(path, options.format)? } else { vec![path.clone()] });
    }
    Ok(names)
}

/// The snapshots in a directory: its CARs, or the directory itself if it holds a block log.
pub(crate) fn snapshots_in(dir: &Path, format: Format) -> Result<Vec<PathBuf>> {
    let cars = cars_in(dir);
    if let Some(log) = log_in(dir).filter(|_| format == Format::Auto) {
        return match cars.ok().and_then(|cars| cars.into_iter().next()) {
            Some(car) => Err(both_formats(dir, &car, &log)),
            None => Ok(vec![dir.to_owned()]),
        };
    }
    Some(cars?).filter(|cars| !cars.is_empty()).ok_or_else(|| no_snapshot_in(dir))
}

/// The error for a directory that holds snapshots of both formats.
fn both_formats(dir: &Path, car: &Path, log: &Path) -> Error {
    let name = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let hint = "pass the files, or choose one kind with `bedload import --format car` or `--format block-log`";
    Error::usage(format!("{} contains both CARs ({}) and a block log ({})", dir.display(), name(car), name(log)), hint)
}

/// True if a directory holds snapshots: CARs or a block log.
pub(crate) fn holds_snapshots(dir: &Path) -> bool {
    log_in(dir).is_some() || cars_in(dir).is_ok_and(|cars| !cars.is_empty())
}

/// True if a path is named like a snapshot, whether it exists or not.
pub(crate) fn has_snapshot_name(path: &Path) -> bool {
    has_car_name(path) || has_log_name(path)
}

fn probe_all(
    names: &[PathBuf],
    options: &ImportOptions,
    pinned: impl Fn(usize, &Path) -> Option<String> + Sync,
    traffic: &mut SourceTraffic,
) -> Result<Vec<KnownSource>> {
    if options.checksum.is_some() {
        let hint = "omit it: a checksum published next to a URL is always compared";
        return Err(Error::usage(format!("a checksum is of one source, and these are {}", names.len()), hint));
    }
    if options.format == Format::BlockLog {
        return Err(no_log(names.first().map_or(Path::new(""), PathBuf::as_path)));
    }
    let (mut seen, fault) = probe_urls(names, options, pinned);
    let mut files: HashMap<(u64, u64), &PathBuf> = HashMap::new();
    // Two names of a pipe would wait for each other's bytes.
    let mut only_once = |name, metadata: &Metadata| match files.insert((metadata.dev(), metadata.ino()), name) {
        Some(other) => {
            let reason = format!("one file is named twice: {} and {}", other.display(), name.display());
            Err(Error::usage(reason, "name each once"))
        }
        None => Ok(()),
    };
    let mut urls = HashSet::new();
    let mut pipes = 0;
    let mut known = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        options.check_cancelled()?;
        if is_remote(name) {
            if !urls.insert(name) {
                let reason =
                    format!("{} is named twice, or two URLs differ in what is not shown alone", name.display());
                let hint = "name each once; import one of two that differ later, with --into-existing";
                return Err(Error::usage(reason, hint));
            }
            let Some((source, info)) = seen.remove(&number) else {
                return Err(fault.unwrap_or_else(Error::interrupted));
            };
            traffic.before.insert(number, info);
            known.push(source);
            continue;
        }
        if options.format == Format::Auto && is_set(name) {
            return Err(no_log(name));
        }
        pipes += usize::from(name.as_os_str() == STDIN);
        if pipes > 1 {
            return Err(Error::usage("`-`, standard input, is named twice", "name it once"));
        }
        let Some((mut probe, file)) = input::probe(name)? else {
            if name.as_os_str() != STDIN {
                only_once(name, &name.metadata().map_err(Error::io("read metadata of", name))?)?;
            }
            known.push(KnownSource::named(name));
            continue;
        };
        check_is_no_log(name, &mut probe, options)?;
        only_once(name, &file.metadata().map_err(Error::io("read metadata of", name))?)?;
        let (files, is_plain) = (vec![SourceFile::of(name, &file)?], probe.compression == Compression::None);
        known.push(KnownSource { files, facts: facts(&probe, is_plain), ..KnownSource::named(name) });
    }
    Ok(known)
}

fn facts(probe: &SourceProbe, is_plain: bool) -> SourceFacts {
    SourceFacts { size: Some(probe.size), compression: probe.compression, blocks: probe.blocks, is_plain }
}

/// Probes all URLs, several at once, and closes them. If one fails, returns its error and at least the URLs before it.
fn probe_urls(
    names: &[PathBuf],
    options: &ImportOptions,
    pinned: impl Fn(usize, &Path) -> Option<String> + Sync,
) -> (HashMap<usize, (KnownSource, RemoteInfo)>, Option<Error>) {
    let urls: Vec<(usize, &PathBuf)> = names.iter().enumerate().filter(|(_, name)| is_remote(name)).collect();
    let seen = Mutex::new(HashMap::new());
    let probe = |_: &mut (), item: usize| {
        let &(number, name) = urls.get(item).ok_or_else(|| no_source(item))?;
        options.check_cancelled()?;
        let network = options.network.clone();
        let how = InputOptions { network, pinned: pinned(number, name), ..InputOptions::new(1, 0) };
        let (mut probe, remote) = input::probe_remote(name, &how)?;
        if let Some(probe) = &mut probe {
            check_is_no_log(name, probe, options)?;
        }
        let origin = Some(Box::new(RemoteOrigin::of(&remote)));
        let facts = probe.map_or_else(SourceFacts::default, |probe| facts(&probe, false));
        let source = KnownSource { remote: origin, facts, ..KnownSource::named(name) };
        seen.lock().insert(number, (source, merge_traffic(None, &remote)));
        Ok(())
    };
    let at_once = options.network.connections.map_or(PROBES, |connections| PROBES.min(connections.into()));
    let fault = parallel::for_each(at_once, urls.len(), || (), probe).err();
    (seen.into_inner(), fault)
}

/// Checks that one of several sources is no log. Drops the head, which shows that.
fn check_is_no_log(name: &Path, probe: &mut SourceProbe, options: &ImportOptions) -> Result<()> {
    let head = std::mem::take(&mut probe.head);
    let is_plain = probe.compression == Compression::None;
    if options.format == Format::Auto && is_plain && is_block_log(&head, head.len() < PEEK) {
        return Err(no_log(name));
    }
    Ok(())
}

/// Adds the traffic of a source to that of `before`.
fn merge_traffic(before: Option<&RemoteInfo>, remote: &Remote) -> RemoteInfo {
    let pin = remote.pin();
    let (ranges, (received, requests), (waited, connections)) = remote.traffic();
    RemoteInfo {
        url: pin.url,
        etag: pin.etag,
        modified: pin.modified,
        ranges,
        requests: requests + before.map_or(0, |before| before.requests),
        received_bytes: received + before.map_or(0, |before| before.received_bytes),
        waited_seconds: waited + before.map_or(0.0, |before| before.waited_seconds),
        connections,
    }
}

fn no_log(name: &Path) -> Error {
    let hint = "only CARs can be imported together; for a log in parts, pass its directory";
    Error::usage(format!("{} is a block log and must be imported alone", name.display()), hint)
}
