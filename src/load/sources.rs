//! The sources of an import: which they are, and what is known of each before the first block is read.
//!
//! A file stays closed until it is read: there may be more of them than this process may open. What is opened then is what
//! was looked at before, or an error.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::load::identity::Identity;
use crate::load::options::{Format, ImportOptions};
use crate::load::source_identity::{
    Inode, KnownSource, RemoteOrigin, SourceFacts, SourceFile, changed, changed_on_server,
};
use crate::parallel;
use crate::progress::Network;
use crate::report::RemoteInfo;
use crate::source::block_log::{PEEK, has_log_name, is_block_log, is_set, log_in};
use crate::source::car::sources::Following;
use crate::source::car::{cars_in, has_car_name, no_snapshot_in};
use crate::source::input::{self, Compression, Input, InputOptions, Look, Remote, STDIN};
use crate::source::remote::is_remote;

/// The most sources of one import: fingerprints have 16 bits for the number of one.
pub(in crate::load) const MAX_SOURCES: usize = 1 << 16;

/// The assumed ratio of the blocks of a compressed source to its size: state compresses to a third. A wrong guess costs
/// partitions that are too small, or a merge.
const UNPACKED: u64 = 3;

/// Files on the network that are looked at at once.
const LOOKS: usize = 16;

/// The sources in the caller's order; directories are replaced by the CARs in them.
pub(super) struct Sources {
    names: Arc<[PathBuf]>,
    /// All of them. Of several they are probed before the first one is opened; a single one is opened at once.
    known: OnceLock<Arc<[KnownSource]>>,
    /// The address where an earlier run found a single one.
    pinned: Option<String>,
    traffic: Mutex<Traffic>,
    /// What should have had a sum of a source and has not.
    unusable: Mutex<BTreeSet<String>>,
}

/// What a look at a file on the network shows.
struct Seen {
    origin: RemoteOrigin,
    look: Option<Look>,
    info: RemoteInfo,
}

/// What comes from the network.
#[derive(Default)]
struct Traffic {
    /// The source that is open now.
    now: Option<(usize, Arc<Remote>)>,
    /// What came of each that is on the network, but for that one.
    before: BTreeMap<usize, RemoteInfo>,
}

impl Sources {
    /// Finds the sources, and looks at each where there are several. `journal` is the import that may go on.
    pub fn find(options: &ImportOptions, journal: Option<&Identity>) -> Result<Arc<Self>> {
        let names = expand(options)?;
        if names.is_empty() {
            return Err(Error::Usage { reason: "no snapshot is named".into(), hint: "name one or more".into() });
        }
        if names.len() > MAX_SOURCES {
            return Err(Error::Usage {
                reason: format!("{} sources are more than one import takes", names.len()),
                hint: "import them in parts, the later ones with --into-existing".into(),
            });
        }
        let pinned = |number: usize, name: &Path| journal.and_then(|journal| journal.address_of(number, name));
        let mut traffic = Traffic::default();
        let (known, pinned) = match &*names {
            [name] => (OnceLock::new(), pinned(0, name)),
            names => (OnceLock::from(Arc::from(probe_all(names, options, pinned, &mut traffic)?)), None),
        };
        let (traffic, unusable) = (Mutex::new(traffic), Mutex::default());
        Ok(Arc::new(Self { names: names.into(), known, pinned, traffic, unusable }))
    }

    /// None to read: `name` stands for them in messages.
    pub fn none(name: &Path) -> Arc<Self> {
        let (known, pinned, traffic, unusable) = Default::default();
        Arc::new(Self { names: [name.to_owned()].into(), known, pinned, traffic, unusable })
    }

    /// Sets what is known of a single source, which has been opened.
    pub fn set_known(&self, known: Arc<[KnownSource]>) {
        let _ = self.known.set(known);
    }

    /// The names of all.
    pub fn names(&self) -> &Arc<[PathBuf]> {
        &self.names
    }

    /// The name of the first one.
    pub fn first(&self) -> &Path {
        self.names.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// How errors and reports name all of them.
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

    fn all<T>(&self, of: impl Fn(&SourceFacts) -> Option<T>) -> Option<Vec<T>> {
        self.known().iter().map(|source| of(&source.facts)).collect()
    }

    /// Bytes on disk of all.
    pub fn size(&self) -> Option<u64> {
        self.all(|facts| facts.size).map(|sizes| sizes.iter().sum())
    }

    /// Bytes of the largest one.
    pub fn largest(&self) -> Option<u64> {
        self.all(|facts| facts.size)?.into_iter().max()
    }

    /// Blocks of all, if each says how many it has.
    pub fn blocks(&self) -> Option<u64> {
        self.all(|facts| facts.blocks).map(|blocks| blocks.iter().sum())
    }

    /// True if all are files that need no decompression.
    pub fn are_plain(&self) -> bool {
        self.known().iter().all(|source| source.facts.is_plain)
    }

    /// True if all are known to need no decompression.
    pub fn need_no_decompression(&self) -> bool {
        self.all(|facts| facts.size.filter(|_| facts.compression == Compression::None)).is_some()
    }

    /// Bytes of their blocks, if they can be guessed.
    pub fn expected(&self) -> Option<u64> {
        let bytes = |facts: &SourceFacts| match facts.compression {
            Compression::None => facts.size,
            _ => facts.size.map(|size| size.saturating_mul(UNPACKED)),
        };
        self.all(bytes).map(|all| all.into_iter().fold(0, u64::saturating_add))
    }

    /// The properties of each.
    pub fn known(&self) -> Arc<[KnownSource]> {
        self.known.get().cloned().unwrap_or_default()
    }

    /// Opens a source.
    pub fn open(&self, number: usize, options: &InputOptions) -> Result<Input> {
        let name = self.names.get(number).ok_or_else(|| no_source(number))?;
        // The threads of the last one end before there are those of another one.
        self.watch(None);
        let all = self.known();
        let known = all.get(number).and_then(|known| known.remote.as_ref());
        let pinned = known.map_or_else(|| self.pinned.clone(), |known| known.address.clone());
        let input = input::open(name, &InputOptions { pinned, ..options.clone() })?;
        if let Some(file) = &input.file {
            self.check(number, file)?;
        }
        if let Some(remote) = &input.remote {
            let found = remote.pin();
            if let Some(known) = known.filter(|known| !known.pin.is_same(&found)) {
                return Err(changed_on_server(name, &known.pin, &found));
            }
            self.unusable.lock().extend(remote.unusable().map(str::to_owned));
            self.watch(Some((number, Arc::clone(remote))));
        }
        Ok(input)
    }

    /// From now on what comes of this one is counted.
    fn watch(&self, next: Option<(usize, Arc<Remote>)>) {
        let mut traffic = self.traffic.lock();
        if let Some((number, remote)) = std::mem::replace(&mut traffic.now, next) {
            traffic.add(number, &remote);
        }
    }

    /// Whether any is on the network.
    pub fn has_remote(&self) -> bool {
        self.names.iter().any(|name| is_remote(name))
    }

    /// What should have had a sum of a source that was opened and has not, each once.
    pub fn take_unusable(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.unusable.lock())
    }

    /// What came of a source on the network.
    pub fn remote_info(&self, number: usize) -> Option<RemoteInfo> {
        let traffic = self.traffic.lock();
        let before = traffic.before.get(&number);
        match &traffic.now {
            Some((now, remote)) if *now == number => Some(with(before, remote)),
            _ => before.cloned(),
        }
    }

    /// What the network gives now.
    pub fn network(&self) -> Network {
        let traffic = self.traffic.lock();
        let now = traffic.now.as_ref().map(|(_, remote)| with(None, remote));
        let connections = now.as_ref().map_or(0, |now| now.connections);
        let all = || traffic.before.values().chain(&now);
        let (received, waited) = (all().map(|it| it.received_bytes).sum(), all().map(|it| it.waited_seconds).sum());
        Network::new(received, connections, waited)
    }

    /// How a reader of CARs goes from one source to the next.
    pub fn following(self: &Arc<Self>, options: InputOptions) -> Following {
        let sources = Arc::clone(self);
        let open = move |number: usize| sources.open(number, &options);
        Following { names: Arc::clone(&self.names), bytes: self.bytes(), open: Box::new(open) }
    }

    /// Opens a file again.
    pub fn reopen(&self, number: usize) -> Result<File> {
        let name = self.names.get(number).ok_or_else(|| no_source(number))?;
        let file = File::open(name).map_err(Error::io("open", name))?;
        self.check(number, &file)?;
        Ok(file)
    }

    /// Checks that an opened file is the one that was looked at.
    fn check(&self, number: usize, file: &File) -> Result<()> {
        let all = self.known();
        let known = all.get(number).and_then(|known| Some((known.files.first()?, known.facts.size?)));
        let Some((name, (known, size))) = self.names.get(number).zip(known) else { return Ok(()) };
        let metadata = file.metadata().map_err(Error::io("look at", name))?;
        if Inode::of(&metadata) != known.inode || metadata.len() != size {
            return Err(changed(name, "it is another file, or was written to, since the import began"));
        }
        Ok(())
    }
}

/// The error for a number that no source has.
fn no_source(number: usize) -> Error {
    Error::broken_invariant(format_args!("source {number} does not exist"))
}

/// The sources, with the CARs of a directory in its place.
fn expand(options: &ImportOptions) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for path in &options.sources {
        let is_dir = path.as_os_str() != STDIN && !is_remote(path) && path.is_dir();
        if !is_dir || options.format == Format::BlockLog {
            names.push(path.clone());
            continue;
        }
        names.extend(snapshots_in(path, options.format)?);
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
    Error::Usage {
        reason: format!("{} holds both CARs ({}) and a block log ({})", dir.display(), name(car), name(log)),
        hint: "name the files that are meant, or import one kind with --format car or --format block-log".into(),
    }
}

/// True if a directory holds snapshots: CARs or a block log.
pub(crate) fn holds_snapshots(dir: &Path) -> bool {
    log_in(dir).is_some() || cars_in(dir).is_ok_and(|cars| !cars.is_empty())
}

/// True if a path is named like a snapshot, whether it exists or not.
pub(crate) fn has_snapshot_name(path: &Path) -> bool {
    has_car_name(path) || has_log_name(path)
}

/// Probes several sources, and keeps none of them open.
fn probe_all(
    names: &[PathBuf],
    options: &ImportOptions,
    pinned: impl Fn(usize, &Path) -> Option<String> + Sync,
    traffic: &mut Traffic,
) -> Result<Vec<KnownSource>> {
    if options.checksum.is_some() {
        return Err(Error::Usage {
            reason: format!("--checksum is of one source, and these are {}", names.len()),
            hint: "leave it out: what is published beside a URL is compared in any case".into(),
        });
    }
    if options.format == Format::BlockLog {
        return Err(no_log(names.first().map_or(Path::new(""), PathBuf::as_path)));
    }
    let (mut seen, fault) = probe_urls(names, options, pinned);
    let mut files: HashMap<(u64, u64), &PathBuf> = HashMap::new();
    // Two names of a pipe would wait for each other's bytes.
    let mut only_once = |name, metadata: &Metadata| match files.insert((metadata.dev(), metadata.ino()), name) {
        Some(other) => Err(Error::Usage {
            reason: format!("one file is named twice: {} and {}", other.display(), name.display()),
            hint: "name each once".into(),
        }),
        None => Ok(()),
    };
    let mut urls = HashSet::new();
    let mut pipes = 0;
    let mut known = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        let one = KnownSource { name: name.to_string_lossy().into_owned(), ..KnownSource::default() };
        if is_remote(name) {
            if !urls.insert(name) {
                return Err(Error::Usage {
                    reason: format!("{} is named twice, or two URLs differ in what is not shown alone", name.display()),
                    hint: "name each once; import one of two that differ later, with --into-existing".into(),
                });
            }
            let Some(Seen { origin, look, info }) = seen.remove(&number) else {
                return Err(fault.unwrap_or_else(Error::interrupted));
            };
            traffic.before.insert(number, info);
            let facts = look.map_or_else(SourceFacts::default, |look| facts(&look, false));
            known.push(KnownSource { remote: Some(Box::new(origin)), facts, ..one });
            continue;
        }
        if options.format == Format::Auto && is_set(name) {
            return Err(no_log(name));
        }
        pipes += usize::from(name.as_os_str() == STDIN);
        if pipes > 1 {
            return Err(Error::Usage {
                reason: "`-`, standard input, is named twice".into(),
                hint: "name it once".into(),
            });
        }
        let Some((mut look, file)) = input::look(name)? else {
            if name.as_os_str() != STDIN {
                only_once(name, &name.metadata().map_err(Error::io("look at", name))?)?;
            }
            known.push(one);
            continue;
        };
        check_is_no_log(name, &mut look, options)?;
        only_once(name, &file.metadata().map_err(Error::io("look at", name))?)?;
        let files = vec![SourceFile::of(name, &file)?];
        known.push(KnownSource { files, facts: facts(&look, look.compression == Compression::None), ..one });
    }
    Ok(known)
}

fn facts(look: &Look, is_plain: bool) -> SourceFacts {
    SourceFacts { size: Some(look.size), compression: look.compression, blocks: look.blocks, is_plain }
}

/// Looks at all files on the network, several at once, and keeps none of them open. Where one cannot be taken, the second
/// value says why, and what was seen of those before it is there.
fn probe_urls(
    names: &[PathBuf],
    options: &ImportOptions,
    pinned: impl Fn(usize, &Path) -> Option<String> + Sync,
) -> (HashMap<usize, Seen>, Option<Error>) {
    let urls: Vec<(usize, &PathBuf)> = names.iter().enumerate().filter(|(_, name)| is_remote(name)).collect();
    let seen = Mutex::new(HashMap::new());
    let look = |_: &mut (), item: usize| {
        let &(number, name) = urls.get(item).ok_or_else(|| no_source(item))?;
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        let network = options.network.clone();
        let how = InputOptions { network, pinned: pinned(number, name), ..InputOptions::new(1, 0) };
        let (mut look, remote) = input::look_at_remote(name, &how)?;
        if let Some(look) = &mut look {
            check_is_no_log(name, look, options)?;
        }
        let found = Seen { origin: RemoteOrigin::of(&remote), look, info: with(None, &remote) };
        seen.lock().insert(number, found);
        Ok(())
    };
    let at_once = options.network.connections.map_or(LOOKS, |connections| LOOKS.min(connections.into()));
    let fault = parallel::for_each(at_once, urls.len(), || (), look).err();
    (seen.into_inner(), fault)
}

/// Of several sources none is a log. The head, which shows that, is not kept.
fn check_is_no_log(name: &Path, look: &mut Look, options: &ImportOptions) -> Result<()> {
    let head = std::mem::take(&mut look.head);
    let is_plain = look.compression == Compression::None;
    if options.format == Format::Auto && is_plain && is_block_log(&head, head.len() < PEEK) {
        return Err(no_log(name));
    }
    Ok(())
}

impl Traffic {
    /// Adds what came of a source that is closed.
    fn add(&mut self, number: usize, remote: &Remote) {
        let all = with(self.before.get(&number), remote);
        self.before.insert(number, all);
    }
}

/// What has come of a source on the network, and `before` this time.
fn with(before: Option<&RemoteInfo>, remote: &Remote) -> RemoteInfo {
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
    Error::Usage {
        reason: format!("{} is a block log, which is imported alone", name.display()),
        hint: "several sources may only be CARs; for the parts of a log name their directory".into(),
    }
}
