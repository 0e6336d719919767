//! An input on the network, which can be opened again in its middle.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hashing::{self, Expected, States, hashed, state_before};
use super::source::InputReader;
use super::stream::{Extent, decompressed, stream};
use super::{ByteStream, Compression, CompressionProblem, Input, InputOptions, Restart, SumFunction, forest};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::os::files::read_regular;
use crate::source::remote::{self, NetworkOptions, RemoteFile, RemoteGate, RemotePin};

const SIDECARS: [&str; 2] = [".sha256sum", ".sha256"];
/// The longest file of checksums, in bytes.
const MOST_SUMS: u64 = 1 << 20;
/// Time limit of the search for a checksum.
const PATIENCE: Duration = Duration::from_secs(10);
/// The share of an input's memory for bytes from the network, as its reciprocal, and the bounds in bytes.
const SHARE: u64 = 4;
const LEAST: u64 = 1 << 20;
const MOST: u64 = 256 << 20;
/// Bytes of an input that are read before all of it is wanted, to detect its kind and read its header.
const LOOK: u64 = (64 << 10) + 64;

/// A file on the network that is being read, and can be read again from some place.
pub(crate) struct Remote {
    file: Arc<RemoteFile>,
    options: InputOptions,
    compression: Compression,
    tail: Option<forest::ForestTail>,
    expected: Option<Arc<Expected>>,
    pub unusable: Option<String>,
}

pub(super) fn open(path: &Path, options: &InputOptions) -> Result<Input> {
    let file = RemoteFile::open(path, &options.network, options.pinned.as_deref())?;
    let name = file.name().to_owned();
    let (expected, unusable) = match (&options.checksum, options.extent) {
        (Some(wanted), _) => (Some(expected(wanted, &name, options)?), None),
        (None, Extent::All) => published(&file, &name),
        (None, _) => (None, None),
    };
    let expected = expected.map(Arc::new);
    let size = file.size();
    let tail = match size.filter(|_| file.is_ranged()) {
        Some(size) => forest::find_with(size, |into, at| file.read_at(into, at)).map_err(Error::io("read", &name))?,
        None => None,
    };
    let (memory, rest) = share(options.memory);
    let (reader, gate) = file.read_from(0, memory);
    let (reader, states) = hashed(reader, &name, expected.as_ref(), None);
    let source = InputReader::new(&name, reader);
    let rest = InputOptions { memory: rest, ..options.clone() };
    // The first bytes, which detection waits for, are requested at once.
    let waits = |wanted| gate.iter().for_each(|gate| gate.want(wanted));
    waits(true);
    let input = stream(source, size, tail, expected.clone(), true, &rest)?;
    waits(false);
    let compression = input.compression;
    let remote = Arc::new(Remote { file, options: rest, compression, tail, expected, unusable });
    let super::Body::Stream(inner) = input.body else { return Ok(input) };
    let stream = RemoteStream { inner, gate, states, asked: 0, remote: Arc::clone(&remote) };
    Ok(Input { body: super::Body::Stream(Box::new(stream)), remote: Some(remote), ..input })
}

/// A file on the network that is read without decompression.
pub(crate) struct Packed {
    file: Arc<RemoteFile>,
    expected: Option<Arc<Expected>>,
}

impl Packed {
    /// Opens the file that `path` names, and finds its published checksum.
    pub fn open(path: &Path, network: &NetworkOptions) -> Result<Self> {
        let file = RemoteFile::open(path, network, None)?;
        let expected = published(&file, file.name()).0.map(Arc::new);
        Ok(Self { file, expected })
    }

    pub fn pin(&self) -> RemotePin {
        self.file.pin()
    }

    pub fn head(&self, len: usize) -> Result<Vec<u8>> {
        let size = self.file.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let mut head = vec![0; len.min(size)];
        self.file.read_at(&mut head, 0).map_err(Error::io("read", self.file.name()))?;
        Ok(head)
    }

    /// Reads the file with `memory` bytes. The end is an error if the checksum does not match.
    pub fn read(&self, memory: u64) -> Box<dyn Read + Send> {
        let (reader, gate) = self.file.read_from(0, memory);
        gate.iter().for_each(RemoteGate::open);
        hashed(reader, self.file.name(), self.expected.as_ref(), None).0
    }
}

/// Divides memory into that for bytes from the network, and the rest.
fn share(memory: u64) -> (u64, u64) {
    let network = (memory / SHARE).clamp(LEAST, MOST);
    (network, memory.saturating_sub(network))
}

/// Returns the checksum of the caller, given as digits, file or URL.
pub(super) fn expected(wanted: &str, source: &Path, options: &InputOptions) -> Result<Expected> {
    let usage = |reason: String| Error::Usage { reason, hint: "give sha256:HEX, sha256:URL or sha256:FILE".into() };
    let Some(place) = wanted.strip_prefix("sha256:") else {
        return Err(usage(format!("cannot use the checksum {}: only sha256 is supported", remote::shown(wanted))));
    };
    if let Some(digest) = hashing::digest(place) {
        return Ok(Expected::new(SumFunction::Sha256, &digest, "the checksum option"));
    }
    let path = Path::new(place);
    let (bytes, from) = if remote::is_remote(path) {
        (remote::small(path, &options.network)?, remote::shown(place))
    } else {
        let name = remote::shown_path(path);
        let bytes = read_regular(path, MOST_SUMS).map_err(|error| match error.kind() {
            ErrorKind::NotFound if !place.is_empty() && place.bytes().all(|it| it.is_ascii_hexdigit()) => {
                usage(format!("`{place}` has {} hex digits, and a SHA-256 has 64; no file has that name", place.len()))
            }
            ErrorKind::NotFound if remote::is_url(path) => Error::bad_input(&name, None, CompressionProblem::Url),
            _ => Error::io("read", &name)(error),
        })?;
        (bytes, name.display().to_string())
    };
    let digest = hashing::sum_in(&bytes, &file_name(source), true);
    let digest = digest.ok_or_else(|| usage(format!("{from} has no SHA-256 of {}", source.display())))?;
    Ok(Expected::new(SumFunction::Sha256, &digest, from))
}

fn file_name(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.trim_end_matches("?…").to_owned()
}

/// Finds the published checksum of a file. The second value is a warning about an unusable checksum file.
fn published(file: &RemoteFile, name: &Path) -> (Option<Expected>, Option<String>) {
    let end = Instant::now() + failpoint::network_stall().unwrap_or(PATIENCE);
    match beside(file, name, end) {
        (None, unusable) => (stored(file, name, end), unusable),
        found => found,
    }
}

/// Finds the checksum in a file beside this one, or returns a warning.
fn beside(file: &RemoteFile, name: &Path, end: Instant) -> (Option<Expected>, Option<String>) {
    let mut unusable = Vec::new();
    for suffix in SIDECARS {
        let Some((from, bytes)) = file.beside(suffix, end) else { continue };
        let why = match bytes {
            Ok(bytes) => {
                let pinned = from.strip_suffix(suffix).map(|from| file_name(Path::new(from))).unwrap_or_default();
                let digest = hashing::sum_in(&bytes, &pinned, false);
                if let Some(digest) = digest.or_else(|| hashing::sum_in(&bytes, &file_name(name), false)) {
                    return (Some(Expected::new(SumFunction::Sha256, &digest, from)), None);
                }
                match crate::source::foreign::kind(&bytes, || [0; 8]) {
                    Some((what, _)) => format!("it is {what}"),
                    None => format!("it has no SHA-256 of {pinned}"),
                }
            }
            Err(why) => why,
        };
        unusable.push(format!("{from} is not compared: {why}"));
    }
    (None, (!unusable.is_empty()).then(|| unusable.join("; ")))
}

/// Returns the strongest checksum that the store has of the file.
fn stored(file: &RemoteFile, name: &Path, end: Instant) -> Option<Expected> {
    let sums = file.stored_sums(end);
    SumFunction::ALL.into_iter().find_map(|function| {
        let (wanted, _, len) = function.describe();
        let (_, sum) = sums.iter().find(|(id, sum)| id == wanted && sum.len() == len)?;
        Some(Expected::new(function, sum, format!("the metadata of {}", name.display())))
    })
}

impl Remote {
    /// Creates the state of a file that is examined, and not read.
    pub(super) fn unread(file: Arc<RemoteFile>, options: InputOptions) -> Self {
        let (tail, expected, unusable) = Default::default();
        Self { file, options, compression: Compression::None, tail, expected, unusable }
    }

    pub fn pin(&self) -> RemotePin {
        self.file.pin()
    }

    /// Returns the address after redirects for a later run, if it has no secrets.
    pub fn address(&self) -> Option<String> {
        self.file.address()
    }

    /// Returns true if the server supports ranges; bytes received and requests; seconds waited and connections.
    pub fn traffic(&self) -> (bool, (u64, u64), (f64, u64)) {
        (self.file.is_ranged(), self.file.traffic(), self.file.waits())
    }

    /// Decompresses the file from `restart` on. `None` if that is possible only from its beginning.
    pub fn again(self: &Arc<Self>, restart: &Restart) -> Result<Option<Box<dyn ByteStream>>> {
        let from = match (&self.expected, restart.hash) {
            (None, _) => restart.packed,
            // A checksum of another function needs all bytes.
            (Some(expected), Some(hash)) if hash.at <= restart.packed && hash.function() == expected.function => {
                hash.at
            }
            (Some(_), _) => return Ok(None),
        };
        if !self.file.is_ranged() || self.file.size().is_none_or(|size| restart.packed > size) {
            return Ok(None);
        }
        let (memory, _) = share(self.options.memory * SHARE / (SHARE - 1));
        let (reader, gate) = self.file.read_from(from, memory);
        if let Some(gate) = &gate {
            gate.open();
        }
        let hash = restart.hash.filter(|_| self.expected.is_some());
        let (reader, states) = hashed(reader, self.file.name(), self.expected.as_ref(), hash);
        let mut source = InputReader::new(self.file.name(), reader).starting_at(from);
        if !source.skip(restart.packed - from)? {
            return Ok(None);
        }
        let drains = self.expected.is_some();
        let tail = self.tail.and_then(|tail| Some((tail.frames_end, self.file.size()?)));
        let inner = decompressed(source, self.compression, tail, (drains, true), restart.unpacked, &self.options)?;
        Ok(Some(Box::new(RemoteStream { inner, gate, states, asked: LOOK, remote: Arc::clone(self) })))
    }
}

struct RemoteStream {
    inner: Box<dyn ByteStream>,
    gate: Option<RemoteGate>,
    states: Option<States>,
    asked: u64,
    remote: Arc<Remote>,
}

impl ByteStream for RemoteStream {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.asked = self.asked.saturating_add(buf.len() as u64);
        let Some(gate) = &self.gate else { return self.inner.fill(buf) };
        if self.remote.options.extent != Extent::Head && self.asked > LOOK {
            gate.open();
        }
        gate.want(true);
        let filled = self.inner.fill(buf);
        gate.want(false);
        filled
    }

    fn consumed(&self) -> u64 {
        self.inner.consumed()
    }

    fn restart(&self, before: u64) -> Option<Restart> {
        if !self.remote.file.is_ranged() {
            return None;
        }
        let restart = match self.remote.compression {
            Compression::None => Restart { unpacked: before, packed: before, hash: None },
            _ => self.inner.restart(before)?,
        };
        let hash = self.states.as_ref().and_then(|states| state_before(states, restart.packed));
        Some(Restart { hash, ..restart })
    }
}
