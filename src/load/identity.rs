//! The identity of an import: an unfinished import may only be resumed by one with the same identity.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::load::options::{F3Data, ImportOptions, PlanChoice};
use crate::preset::Resolved;
use crate::report::{Plan, rfc3339};
use crate::source::car::NullPadding;
use crate::source::input::Remote;
use crate::source::input::STDIN;
use crate::source::remote::RemotePin;
use crate::text::size::grouped;

/// How much of the source's head and tail is digested, in bytes.
const SAMPLE: u64 = 64 << 10;

/// What the names of directories with partitions end with, in a work directory.
const SPILL: &str = ".spill";

/// Why a source counts as changed.
const NOT_WHAT_IT_WAS: &str = "its size, its times, its inode or its ends are not what they were";

/// What is imported, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Identity {
    source: SourceIdentity,
    tool: String,
    preset: String,
    /// The options that the preset sets, with their values.
    settings: BTreeMap<String, String>,
    key: String,
    column_family: String,
    verify: bool,
    null_padding: String,
    #[serde(default, skip_serializing_if = "is_false")]
    concatenated: bool,
    into_existing: bool,
    /// What becomes of F3 data; empty where they are stored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    f3: String,
    /// The shard, where it is not all of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    shard: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work_dir: Option<PathBuf>,
    /// The value of `--plan`, where the user chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<PlanChoice>,
    /// Bits of the digest that choose a partition. The first run derived them from its machine, and later runs keep them.
    partition_bits: u32,
    /// A random number that tells this import from others with the same paths.
    id: String,
    /// The options of a block log; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    log: String,
    /// What is taken of a bundle; empty where that is all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    part: String,
    /// The names of several sources.
    #[serde(skip)]
    paths: Arc<[PathBuf]>,
    /// What standard input is, where that is a source and a file: it has no name to look at again.
    #[serde(skip)]
    stdin: Option<(FileIdentity, Inode)>,
}

/// The parts of the source that its identity is made from.
#[derive(Debug, Default)]
pub(super) struct Origin<'a> {
    /// The beginning of the source.
    pub head: Vec<u8>,
    /// The files it consists of, when it is not a pipe: those that are open, whatever files have their names by now.
    pub files: Vec<(PathBuf, &'a File)>,
    /// The options of a block log.
    pub log: String,
    /// What one source is on the network.
    pub remote: Option<RemoteOrigin>,
    /// The sum that all of it is compared with.
    pub sum: Option<String>,
    /// Several sources, in their order; then `files` is empty.
    pub sources: Arc<[OneSource]>,
    /// Their names.
    pub paths: Arc<[PathBuf]>,
    /// The id of a bundle, which takes the place of all of these.
    pub bundle: Option<String>,
    /// What is taken of it; empty where that is all of it.
    pub part: String,
}

/// What distinguishes one of several sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OneSource {
    /// As the caller named it: for messages alone.
    pub name: String,
    /// `None` for what is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<Inode>,
    /// What it is on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Box<RemoteOrigin>>,
}

/// The parts of an identity that name the directory of the partitions. The sources of an identity may take many MiB.
#[derive(Debug, Deserialize)]
pub(super) struct SpillPlace {
    id: String,
    #[serde(default)]
    work_dir: Option<PathBuf>,
}

impl SpillPlace {
    /// Returns the directory of the partitions of the import in `partial`, if they are in a work directory. Several imports may
    /// share a work directory, also those whose databases have the same path in different containers. `given` is the work
    /// directory as the user wrote it: the journal cannot represent every name.
    pub fn dir(&self, partial: &Path, given: Option<&Path>) -> Option<PathBuf> {
        let mut name = partial.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{}{SPILL}", self.id));
        let known = self.work_dir.as_deref()?;
        Some(given.filter(|given| portable(given) == known).unwrap_or(known).join(name))
    }
}

impl OneSource {
    fn describe(&self) -> String {
        let Self { name, file, remote, .. } = self;
        match (file, remote) {
            (Some(file), _) => file.describe(name),
            (None, Some(remote)) => format!("{name} ({})", remote.pin.describe()),
            (None, None) => format!("{name} (a pipe)"),
        }
    }

    /// Whether both are of the same content, whatever their names and inodes are.
    fn is_same(&self, other: &Self) -> bool {
        self.file == other.file && is_same_remote(self.remote.as_deref(), other.remote.as_deref())
    }
}

/// A list that is shared in memory, and copied in the journal.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn is_empty<T>(list: &Arc<[T]>) -> bool {
        list.is_empty()
    }

    pub fn serialize<T: Serialize, S: Serializer>(list: &Arc<[T]>, serializer: S) -> Result<S::Ok, S::Error> {
        (**list).serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[T]>, D::Error> {
        Vec::deserialize(deserializer).map(Into::into)
    }
}

/// A source on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemoteOrigin {
    pub pin: RemotePin,
    /// The whole address behind redirects, where it has no secrets: a run that goes on asks there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl RemoteOrigin {
    pub fn of(remote: &Remote) -> Self {
        Self { pin: remote.pin(), address: remote.address() }
    }
}

/// Whether both are one file on the network, or both none.
fn is_same_remote(one: Option<&RemoteOrigin>, other: Option<&RemoteOrigin>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.pin.is_same(&other.pin),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// What distinguishes a source from another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SourceIdentity {
    /// Digest of version and roots.
    header: String,
    /// As the caller named it: for messages alone.
    #[serde(default)]
    name: String,
    /// `None` for a pipe; its bytes are compared while they are skipped.
    file: Option<FileIdentity>,
    /// The other files of a source that consists of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<FileIdentity>,
    /// A source on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<RemoteOrigin>,
    /// The sum that all of it is compared with; it says nothing about what the source is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum: Option<String>,
    /// The inodes of all its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inodes: Vec<Inode>,
    /// Several sources, in their order.
    #[serde(default, skip_serializing_if = "shared::is_empty", with = "shared")]
    sources: Arc<[OneSource]>,
    /// The id of a bundle, which takes the place of a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    #[serde(skip)]
    paths: Vec<PathBuf>,
}

/// What tells a file from another one without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileIdentity {
    bytes: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
    head: String,
    tail: String,
}

/// Data that only the system sets, whenever a file is replaced or changed: unlike other times, no program can set a ctime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inode {
    number: u64,
    changed_seconds: i64,
    changed_nanoseconds: i64,
}

impl Identity {
    /// The identity of an import.
    ///
    /// # Errors
    /// [`Error::Io`]: the source cannot be read.
    pub fn of(options: &ImportOptions, preset: &Resolved, plan: &Plan, origin: Origin<'_>) -> Result<Self> {
        // A value derived from the machine (`cores`, `open_files`) may change with a reboot, and changes nothing that is written.
        let settings = preset
            .settings()
            .filter(|setting| preset.machine.number(&setting.written).is_none())
            .map(|setting| (setting.key.to_string(), setting.value.to_string()))
            .collect();
        let of_log = || plan.log().and_then(|log| log.transactions.as_ref());
        let partitions = plan.sort().map(|sort| &sort.partitions).or_else(of_log);
        Ok(Self {
            source: SourceIdentity {
                name: options.source().to_string_lossy().into_owned(),
                sources: origin.sources,
                remote: origin.remote,
                sum: origin.sum,
                bundle: origin.bundle,
                ..SourceIdentity::of(digest(&origin.head), origin.files)?
            },
            tool: env!("CARGO_PKG_VERSION").into(),
            preset: preset.preset.clone(),
            settings,
            key: options.key.name().into(),
            column_family: options.column_family.clone(),
            verify: options.verify,
            null_padding: match options.null_padding {
                NullPadding::Error => "error",
                NullPadding::Eof => "eof",
            }
            .into(),
            concatenated: options.concatenated,
            into_existing: options.into_existing,
            f3: match options.f3 {
                F3Data::Store => String::new(),
                F3Data::Skip => "skip".into(),
            },
            shard: options.shard.map(|shard| shard.to_string()).unwrap_or_default(),
            work_dir: options.work_dir.as_deref().map(portable),
            plan: Some(options.plan).filter(|plan| *plan != PlanChoice::Auto),
            id: format!("{:016x}", RandomState::new().build_hasher().finish()),
            partition_bits: partitions.map_or(0, |partitions| partitions.bits),
            log: origin.log,
            part: origin.part,
            paths: origin.paths,
            stdin: of_stdin(options)?,
        })
    }

    /// Checks that no program wrote to the source while it was read: what was checked and what was stored are read at
    /// different times.
    ///
    /// # Errors
    /// [`Error::State`]: it changed or is gone; [`Error::Io`]: it cannot be read.
    pub fn still_holds(&self, options: &ImportOptions) -> Result<()> {
        if of_stdin(options)? != self.stdin {
            return Err(changed(Path::new(STDIN), NOT_WHAT_IT_WAS));
        }
        for (OneSource { file, inode, .. }, path) in self.source.sources.iter().zip(&*self.paths) {
            let Some((file, inode)) = file.as_ref().zip(inode.as_ref()) else { continue };
            if !path.exists() {
                return Err(vanished(path.clone()));
            }
            let now = of_file(path, &File::open(path).map_err(Error::io("open", path))?)?;
            if (&now.0, &now.1) != (file, inode) {
                return Err(changed(path, NOT_WHAT_IT_WAS));
            }
        }
        if !self.source.sources.is_empty() {
            return Ok(());
        }
        // A pipe has no paths.
        if let Some(missing) = self.source.paths.iter().find(|path| !path.exists()) {
            return Err(vanished(missing.clone()));
        }
        let open = |path: &PathBuf| File::open(path).map_err(Error::io("open", path));
        let files = self.source.paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let named = self.source.paths.iter().cloned().zip(&files).collect();
        let now = SourceIdentity::of(self.source.header.clone(), named)?;
        // Of a file on the network every answer was compared.
        let SourceIdentity { name, remote, sum, .. } = self.source.clone();
        if self.source == (SourceIdentity { name, remote, sum, ..now }) {
            return Ok(());
        }
        Err(changed(options.source(), NOT_WHAT_IT_WAS))
    }

    /// Returns the place of the partitions.
    pub fn spill_place(&self) -> SpillPlace {
        SpillPlace { id: self.id.clone(), work_dir: self.work_dir.clone() }
    }

    /// Bits of the digest that choose a partition.
    pub fn partition_bits(&self) -> u32 {
        self.partition_bits
    }

    /// This identity with what the first run derived or drew at random.
    pub fn resuming(&self, first: &Self) -> Self {
        Self { id: first.id.clone(), partition_bits: first.partition_bits, ..self.clone() }
    }

    /// Of each source, whether its files have another inode or ctime than those in the journal, or none that are known:
    /// only their content then shows whether they are the same.
    pub fn touched_since(&self, journal: &Self) -> Vec<bool> {
        if self.source.sources.is_empty() {
            let is_touched = || self.source.inodes.is_empty() || self.source.inodes != journal.source.inodes;
            return vec![self.source.remote.as_ref().map_or_else(is_touched, |remote| !remote.pin.is_certain())];
        }
        let known = |number: usize| journal.source.sources.get(number).and_then(|one| one.inode.as_ref());
        let touched = |(number, one): (usize, &OneSource)| match &one.remote {
            Some(remote) => !remote.pin.is_certain(),
            None => one.inode.is_none() || one.inode.as_ref() != known(number),
        };
        self.source.sources.iter().enumerate().map(touched).collect()
    }

    /// Where an earlier run has found the source of this number and name on the network.
    pub fn address_of(&self, number: usize, name: &Path) -> Option<String> {
        let (known, remote) = match self.source.sources.get(number) {
            Some(one) => (&one.name, one.remote.as_deref()),
            None => (&self.source.name, self.source.remote.as_ref()),
        };
        remote.filter(|_| Path::new(known) == name)?.address.clone()
    }

    /// The bundle that takes the place of a snapshot.
    pub fn bundle(&self) -> Option<&String> {
        self.source.bundle.as_ref()
    }

    /// The sum that all of the source is compared with while it is read.
    pub fn sum(&self) -> Option<&String> {
        self.source.sum.as_ref()
    }

    /// What differs between this import and the one in the journal: name, value there, value here. A copy of the same
    /// source is no difference: see [`Identity::touched_since`].
    pub fn differences(&self, journal: &Self) -> Vec<(String, String, String)> {
        let value = |identity: &Self| {
            let mut value = serde_json::to_value(identity).unwrap_or_default();
            if let Some(fields) = value.as_object_mut() {
                // The source is identified by its name, its size and its time, and not by digests; options by their own names.
                let mut hidden = vec!["source", "settings", "id", "partition_bits"];
                if self.plan.is_none() || journal.plan.is_none() {
                    hidden.push("plan");
                }
                hidden.into_iter().for_each(|name| drop(fields.remove(name)));
            }
            value
        };
        // Another preset has other options, which need no names.
        let of_one_preset = self.preset == journal.preset;
        let flat = |identity: &Self| {
            let options = identity.settings.iter().filter(|_| of_one_preset);
            let mut flat: Vec<_> = options.map(|(option, value)| (option.clone(), value.clone())).collect();
            flatten("", &value(identity), &mut flat);
            flat
        };
        let (here, there) = (flat(self), flat(journal));
        let mut found: Vec<_> = self.source.difference(&journal.source).into_iter().collect();
        for (name, mine) in &here {
            let other = there.iter().find(|(known, _)| known == name).map_or("nothing", |(_, value)| value);
            if other != mine {
                found.push((name.clone(), other.to_owned(), mine.clone()));
            }
        }
        for (name, other) in there {
            if !here.iter().any(|(known, _)| *known == name) {
                found.push((name, other, "nothing".into()));
            }
        }
        found
    }
}

impl SourceIdentity {
    /// Whether both are of the same content, whatever their names and inodes are.
    fn is_same(&self, other: &Self) -> bool {
        let is_each_same = || self.sources.iter().zip(&*other.sources).all(|(one, other)| one.is_same(other));
        (&self.header, &self.file, &self.more, &self.bundle) == (&other.header, &other.file, &other.more, &other.bundle)
            && is_same_remote(self.remote.as_ref(), other.remote.as_ref())
            && self.sources.len() == other.sources.len()
            && is_each_same()
    }

    /// What people know both by: name, size and time; and what differs where these are the same.
    fn difference(&self, journal: &Self) -> Option<(String, String, String)> {
        if self.is_same(journal) {
            return None;
        }
        if let Some(difference) = self.first_difference(journal) {
            return Some(difference);
        }
        let (there, mut here) = (journal.describe(), self.describe());
        if here == there {
            let file = |of: fn(&FileIdentity) -> &String| self.file.as_ref().map(of) != journal.file.as_ref().map(of);
            here.push_str(match () {
                () if self.header != journal.header => " with another header",
                () if file(|file| &file.head) => " with another beginning",
                () if file(|file| &file.tail) => " with another end",
                () => " with other parts, or changed within the same second",
            });
        }
        Some(("the source".into(), there, here))
    }

    /// The first of several sources that is another one: the order counts.
    fn first_difference(&self, journal: &Self) -> Option<(String, String, String)> {
        let count = self.sources.len().max(journal.sources.len());
        let number = (0..count).find(|&number| match (self.sources.get(number), journal.sources.get(number)) {
            (Some(here), Some(there)) => !here.is_same(there),
            _ => true,
        })?;
        let describe = |of: &Self| match of.sources.get(number) {
            Some(one) => one.describe(),
            None if of.sources.is_empty() && number == 0 => of.describe(),
            None => "nothing".into(),
        };
        let (there, mut here) = (describe(journal), describe(self));
        if there == here {
            here.push_str(" with other ends, or changed within the same second");
        }
        Some((format!("source {}", number + 1), there, here))
    }

    /// Name, size and time, for people.
    fn describe(&self) -> String {
        let Self { name, file, more, .. } = self;
        if let Some(bundle) = &self.bundle {
            return format!("the bundle {bundle}");
        }
        // An older journal has no name.
        let name = if name.is_empty() { "a source" } else { name };
        if let Some(remote) = &self.remote {
            return format!("{name} ({})", remote.pin.describe());
        }
        let Some(file) = file else { return format!("{name} (a pipe)") };
        let bytes = file.bytes + more.iter().map(|file| file.bytes).sum::<u64>();
        let newest = more.iter().map(|file| file.modified_seconds).fold(file.modified_seconds, i64::max);
        let time = u64::try_from(newest).ok().and_then(rfc3339).unwrap_or_else(|| "before 1970".into());
        let files = if more.is_empty() { String::new() } else { format!("{} files, ", more.len() + 1) };
        format!("{name} ({files}{} bytes, {time})", grouped(bytes))
    }

    fn of(header: String, named: Vec<(PathBuf, &File)>) -> Result<Self> {
        let found = named.iter().map(|(path, file)| of_file(path, file)).collect::<Result<Vec<_>>>()?;
        let (files, inodes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let mut files = files.into_iter();
        let paths = named.into_iter().map(|(path, _)| path).collect();
        let (file, more) = (files.next(), files.collect());
        let (name, remote, sum, sources, bundle) = Default::default();
        Ok(Self { header, name, file, more, remote, sum, inodes, sources, bundle, paths })
    }
}

/// A path as JSON can represent it, absolute: the next run may start elsewhere.
fn portable(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned().into()
}

/// The error for a source that is not what it was when its blocks were verified.
pub(super) fn changed(source: &Path, what: &str) -> Error {
    Error::State {
        path: source.to_owned(),
        reason: format!("it changed while it was being read: {what}"),
        hint: "start over with --restart when no process writes to it any more".into(),
    }
}

/// The error for a file that is another one on its server than when the import began.
pub(super) fn changed_on_server(source: &Path, was: &RemotePin, is: &RemotePin) -> Error {
    Error::State {
        path: source.to_owned(),
        reason: format!(
            "it changed on the server since the import began: it was {}, is {}",
            was.describe(),
            is.describe()
        ),
        hint: "the same command with --restart imports what is there now".into(),
    }
}

/// The error for a source that is not the one of the unfinished import; `name` where there are several.
pub(super) fn another_source(options: &ImportOptions, name: Option<&Path>) -> Error {
    let name = name.map(|name| format!(" {}", name.display())).unwrap_or_default();
    Error::State {
        path: options.db.clone(),
        reason: format!("the source{name} is not the one that the unfinished import has read"),
        hint: "give the same source again, or throw the unfinished import away with --restart".into(),
    }
}

/// Whether a source is a plain file, which can be identified without reading all of it.
pub(super) fn is_file(path: &Path) -> bool {
    path.as_os_str() != "-" && path.is_file()
}

/// True if a directory has partitions of an import, by its name.
pub(super) fn is_spill(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.strip_suffix(SPILL).and_then(|name| Some(name.rsplit_once('.')?.1)).unwrap_or_default();
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && path.symlink_metadata().is_ok_and(|there| there.is_dir())
}

fn flatten(prefix: &str, value: &serde_json::Value, into: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('_', " ");
                let name = if prefix.is_empty() { name } else { format!("{prefix} {name}") };
                flatten(&name, value, into);
            }
        }
        serde_json::Value::Null => {}
        serde_json::Value::String(text) => into.push((prefix.to_owned(), text.clone())),
        other => into.push((prefix.to_owned(), other.to_string())),
    }
}

/// What identifies a file that is open.
///
/// # Errors
/// [`Error::Io`]: it cannot be read.
pub(super) fn of_file(path: &Path, file: &File) -> Result<(FileIdentity, Inode)> {
    let metadata = file.metadata().map_err(Error::io("look at", path))?;
    let sample = |at: u64| -> Result<String> {
        let mut bytes = vec![0; SAMPLE.min(metadata.len()) as usize];
        file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
            // It had this size a moment ago.
            std::io::ErrorKind::UnexpectedEof => crate::os::mmap::shrank(path),
            _ => Error::io("read", path)(error),
        })?;
        Ok(digest(&bytes))
    };
    let identity = FileIdentity {
        bytes: metadata.len(),
        modified_seconds: metadata.mtime(),
        modified_nanoseconds: metadata.mtime_nsec(),
        head: sample(0)?,
        tail: sample(metadata.len().saturating_sub(SAMPLE))?,
    };
    Ok((identity, Inode::of(&metadata)))
}

/// The same for standard input, where that is one of the sources and a file.
fn of_stdin(options: &ImportOptions) -> Result<Option<(FileIdentity, Inode)>> {
    let path = Path::new(STDIN);
    if !options.sources.iter().any(|source| source == path) {
        return Ok(None);
    }
    let file = std::io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(Error::io("open", path))?;
    let is_file = file.metadata().map_err(Error::io("look at", path))?.is_file();
    if is_file { of_file(path, &file).map(Some) } else { Ok(None) }
}

impl Inode {
    pub fn of(metadata: &Metadata) -> Self {
        Self { number: metadata.ino(), changed_seconds: metadata.ctime(), changed_nanoseconds: metadata.ctime_nsec() }
    }
}

impl FileIdentity {
    /// Name, size and time, for people.
    fn describe(&self, name: &str) -> String {
        let time = u64::try_from(self.modified_seconds).ok().and_then(rfc3339);
        format!("{name} ({} bytes, {})", grouped(self.bytes), time.unwrap_or_else(|| "before 1970".into()))
    }
}

fn vanished(path: PathBuf) -> Error {
    Error::State {
        path,
        reason: "it vanished while it was being read".into(),
        hint: "put the same file back and run the same command again: it goes on".into(),
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(bytes))
}
