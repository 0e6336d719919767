//! The identity of the sources of an import, found without reading all of them.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StateKind};
use crate::report::rfc3339;
use crate::source::input::{Compression, Remote};
use crate::source::remote::RemotePin;
use crate::text::size::grouped;

/// Bytes of a file's head and of its tail that are digested.
const SAMPLE: u64 = 64 << 10;

/// The assumed ratio of blocks to the size of a compressed source: state compresses to a third. A wrong guess costs partitions
/// that are too small, or a merge.
const UNPACKED: u64 = 3;

/// The reason in the error for a changed file.
pub(super) const NOT_WHAT_IT_WAS: &str = "its size, its times, its inode or its ends are not what they were";

/// The sources of an import in their order, or the bundle instead of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SourceIdentity {
    /// Digest of version and roots of the first CAR, or of the beginning of a block log in a pipe.
    pub header: String,
    #[serde(with = "shared")]
    pub sources: Arc<[KnownSource]>,
    /// The checksum that a single source is compared with. It does not identify the source.
    pub sum: Option<String>,
    pub bundle: Option<String>,
}

/// The properties of a source before its first block is read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownSource {
    /// The caller's name of it, for messages.
    pub name: String,
    /// Its files: one of a CAR, all parts of a block log, none of a pipe or a URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SourceFile>,
    pub remote: Option<Box<RemoteOrigin>>,
    #[serde(skip)]
    pub facts: SourceFacts,
}

/// The facts about a source that the plan depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SourceFacts {
    /// Bytes on disk; `None` for a pipe, or for a URL whose server does not send the length.
    pub size: Option<u64>,
    pub compression: Compression,
    /// The number of blocks, if an index says so.
    pub blocks: Option<u64>,
    /// True if it is a local file that needs no decompression.
    pub is_plain: bool,
}

/// A source on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemoteOrigin {
    pub pin: RemotePin,
    /// The address after redirects, if it has no secrets. A resumed run reads from there.
    pub address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceFile {
    #[serde(skip)]
    pub path: PathBuf,
    content: FileIdentity,
    pub inode: Inode,
}

/// Distinguishes a file from others without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileIdentity {
    bytes: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
    head: String,
    tail: String,
}

/// Data that only the system sets when a file is replaced or changed: no program can set a ctime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inode {
    number: u64,
    changed_seconds: i64,
    changed_nanoseconds: i64,
}

impl Default for SourceFacts {
    fn default() -> Self {
        Self { size: None, compression: Compression::None, blocks: None, is_plain: false }
    }
}

impl SourceFacts {
    /// The guessed bytes of the blocks.
    pub fn expected(&self) -> Option<u64> {
        let ratio = if self.compression == Compression::None { 1 } else { UNPACKED };
        self.size.map(|size| size.saturating_mul(ratio))
    }
}

impl RemoteOrigin {
    pub fn of(remote: &Remote) -> Self {
        Self { pin: remote.pin(), address: remote.address() }
    }
}

impl SourceIdentity {
    /// Returns the first difference from the sources in the journal: name, value there, value here. The order of sources counts.
    /// A copy of a source does not differ.
    pub fn difference(&self, journal: &Self) -> Option<(String, String, String)> {
        if self.bundle != journal.bundle {
            return Some(("the source".into(), journal.describe(0), self.describe(0)));
        }
        let count = self.sources.len().max(journal.sources.len());
        let is_same = |number: usize| match (self.sources.get(number), journal.sources.get(number)) {
            (Some(here), Some(there)) => here.is_same(there),
            _ => false,
        };
        let differs = (0..count).find(|&number| !is_same(number));
        let number = differs.or((self.header != journal.header).then_some(0))?;
        let (there, mut here) = (journal.describe(number), self.describe(number));
        if here == there {
            let of = |identity: &Self, part: fn(&FileIdentity) -> &String| {
                identity.sources.get(number)?.files.first().map(|file| part(&file.content).clone())
            };
            let is_other = |part| of(self, part) != of(journal, part);
            here.push_str(match () {
                () if number == 0 && self.header != journal.header => " with another header",
                () if is_other(|file| &file.head) => " with another beginning",
                () if is_other(|file| &file.tail) => " with another end",
                () => " with other parts, or changed within the same second",
            });
        }
        let name = if count > 1 { format!("source {}", number + 1) } else { "the source".into() };
        Some((name, there, here))
    }

    fn describe(&self, number: usize) -> String {
        match &self.bundle {
            Some(bundle) => format!("the bundle {bundle}"),
            None => self.sources.get(number).map_or_else(|| "nothing".into(), KnownSource::describe),
        }
    }
}

impl KnownSource {
    /// A source of which only the name is known.
    pub fn named(name: &Path) -> Self {
        Self { name: name.to_string_lossy().into_owned(), ..Self::default() }
    }

    /// True if both have the same content, whatever their names and inodes are.
    fn is_same(&self, other: &Self) -> bool {
        let is_same_remote = match (&self.remote, &other.remote) {
            (Some(one), Some(other)) => one.pin.is_same(&other.pin),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_remote && self.files.iter().map(|file| &file.content).eq(other.files.iter().map(|file| &file.content))
    }

    /// True if its files have other inodes or ctimes than in the journal, or unknown ones. Then only its content identifies it.
    pub fn is_touched_since(&self, journal: Option<&Self>) -> bool {
        if let Some(RemotePin { bytes, etag, modified, .. }) = self.remote.as_ref().map(|remote| &remote.pin) {
            // Otherwise an equal answer does not prove equal bytes.
            return bytes.is_none() || (etag.is_none() && modified.is_none());
        }
        let inodes = |source: &Self| source.files.iter().map(|file| file.inode.clone()).collect::<Vec<_>>();
        self.files.is_empty() || journal.is_none_or(|journal| inodes(self) != inodes(journal))
    }

    /// Name, size and time, for people.
    fn describe(&self) -> String {
        let Self { name, files, remote, .. } = self;
        if let Some(remote) = remote {
            return format!("{name} ({})", remote.pin.describe());
        }
        let Some(newest) = files.iter().map(|file| file.content.modified_seconds).max() else {
            return format!("{name} (a pipe)");
        };
        let bytes = files.iter().map(|file| file.content.bytes).sum();
        let time = u64::try_from(newest).ok().and_then(rfc3339).unwrap_or_else(|| "before 1970".into());
        let count = if files.len() > 1 { format!("{} files, ", files.len()) } else { String::new() };
        format!("{name} ({count}{} bytes, {time})", grouped(bytes))
    }
}

impl SourceFile {
    pub fn of(path: &Path, file: &File) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("read metadata of", path))?;
        let sample = |at: u64| -> Result<String> {
            let mut bytes = vec![0; SAMPLE.min(metadata.len()) as usize];
            file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
                // The file had this size a moment ago.
                std::io::ErrorKind::UnexpectedEof => crate::os::mmap::shrank(path),
                _ => Error::io("read", path)(error),
            })?;
            Ok(digest(&bytes))
        };
        let content = FileIdentity {
            bytes: metadata.len(),
            modified_seconds: metadata.mtime(),
            modified_nanoseconds: metadata.mtime_nsec(),
            head: sample(0)?,
            tail: sample(metadata.len().saturating_sub(SAMPLE))?,
        };
        Ok(Self { path: path.to_owned(), content, inode: Inode::of(&metadata) })
    }

    /// Checks that the file with this name is still the same one.
    pub fn check_unchanged(&self) -> Result<()> {
        let path = &self.path;
        if !path.exists() {
            let hint = "put the same file back and run the same command again: it resumes";
            return Err(Error::state(path, StateKind::Changed, "it vanished while it was being read", hint));
        }
        let now = Self::of(path, &File::open(path).map_err(Error::io("open", path))?)?;
        if now == *self { Ok(()) } else { Err(changed(path, NOT_WHAT_IT_WAS)) }
    }
}

impl Inode {
    pub fn of(metadata: &Metadata) -> Self {
        Self { number: metadata.ino(), changed_seconds: metadata.ctime(), changed_nanoseconds: metadata.ctime_nsec() }
    }
}

/// The error for a source that changed after its blocks were verified.
pub(super) fn changed(source: &Path, what: &str) -> Error {
    let hint = "start over with --restart when no process writes to it any more";
    Error::state(source, StateKind::Changed, format!("it changed while it was being read: {what}"), hint)
}

/// The error for a URL whose file has changed since the import began.
pub(super) fn changed_on_server(source: &Path, was: &RemotePin, is: &RemotePin) -> Error {
    let (was, is) = (was.describe(), is.describe());
    let reason = format!("it changed on the server since the import began: it was {was}, is {is}");
    let hint = "run the same command with --restart to import the current content";
    Error::state(source, StateKind::Changed, reason, hint)
}

/// A digest for comparisons: XXH3-64 as hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(bytes))
}

/// A list that is shared in memory, and copied in the journal.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(list: &Arc<[T]>, serializer: S) -> Result<S::Ok, S::Error> {
        (**list).serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[T]>, D::Error> {
        Vec::deserialize(deserializer).map(Into::into)
    }
}
