//! The place of bundles: a directory or a URL.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Bundle, MAX_BYTES, is_sum};
use super::problem::BundleProblem;
use super::signature::{self, SUFFIX, TrustedKey};
use crate::error::{Error, Result};
use crate::os::files::{check_path, open_regular};
use crate::os::private;
use crate::source::remote::{NetworkOptions, RemoteFile, RemoteProblem, below, is_remote, take_secrets};

pub(super) const LATEST: &str = "latest";
pub(super) const DESCRIPTION: &str = "bundle.json";
pub(super) const FILES: &str = "files";

/// Longest content of a file `latest`, in bytes.
pub(super) const MAX_LATEST: u64 = 256;

/// Read-ahead for a description, in bytes.
const AHEAD: u64 = 4 << 20;

pub(super) struct BundlePlace {
    /// A path, or the URL without its secrets.
    pub root: PathBuf,
    pub network: NetworkOptions,
}

impl BundlePlace {
    pub fn new(root: &Path, network: &NetworkOptions) -> Self {
        let (mut root, mut network) = (root.to_owned(), network.clone());
        take_secrets(&mut root, &mut network);
        Self { root, network }
    }

    pub fn is_remote(&self) -> bool {
        is_remote(&self.root)
    }

    /// Path or URL of a file, and the network options to request it with.
    pub fn at(&self, name: &str) -> (PathBuf, NetworkOptions) {
        let mut network = self.network.clone();
        let path = if self.is_remote() { below(&self.root, name, &mut network) } else { self.root.join(name) };
        (path, network)
    }

    pub fn open_remote(&self, name: &str) -> Result<Arc<RemoteFile>> {
        let (path, network) = self.at(name);
        RemoteFile::open(&path, &network, None)
    }

    /// Reads a small file; `None` if it does not exist.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let (path, _) = self.at(name);
        let too_long = || Error::bad_input(&path, None, BundleProblem::TooLong { most });
        let reader: Box<dyn Read> = if self.is_remote() {
            let file = match self.open_remote(name) {
                Err(Error::BadInput { problem, .. })
                    if matches!(problem.downcast_ref(), Some(RemoteProblem::NotFound { .. })) =>
                {
                    return Ok(None);
                }
                file => file?,
            };
            if file.size().is_some_and(|found| found > most) {
                return Err(too_long());
            }
            let (reader, gate) = file.read_from(0, AHEAD);
            gate.into_iter().for_each(|gate| gate.open());
            reader
        } else {
            let Some(file) = open(&path)? else { return Ok(None) };
            Box::new(file)
        };
        let mut bytes = Vec::new();
        let read = reader.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| changed(&path, Error::io("read", &path)(error)))?;
        if bytes.len() as u64 > most { Err(too_long()) } else { Ok(Some(bytes)) }
    }

    /// Returns the id of the newest bundle, if there is one.
    pub fn latest(&self) -> Result<Option<String>> {
        let Some(bytes) = self.read(LATEST, MAX_LATEST)? else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
        let named = is_sum(&text).then(|| text.into_owned());
        named.map(Some).ok_or_else(|| Error::bad_input(&self.at(LATEST).0, None, BundleProblem::Latest))
    }

    /// Reads the description with this id. One of the `trusted` keys must have signed it, if any are given.
    pub fn describe(&self, id: &str, trusted: &[TrustedKey]) -> Result<Bundle> {
        let name = description(id);
        let path = self.at(&name).0;
        let bad = |problem: BundleProblem| Error::bad_input(&path, None, problem);
        let bytes = self.read(&name, MAX_BYTES)?.ok_or(BundleProblem::Missing).map_err(bad)?;
        Bundle::compare(&bytes, id).map_err(bad)?;
        if !trusted.is_empty() {
            let signature = self.read(&signature_of(id), signature::MAX_BYTES)?;
            signature::check(&bytes, signature.as_deref(), trusted).map_err(bad)?;
        }
        Bundle::read(&bytes, id).map_err(bad)
    }

    /// Finds the bundle with this id, or the newest one.
    pub fn find(&self, id: Option<&str>, trusted: &[TrustedKey]) -> Result<(String, Bundle)> {
        if !self.is_remote() {
            check_path("the bundle", &self.root)?;
        }
        let has_place = self.is_remote() || self.root.exists();
        let problem = || if has_place { BundleProblem::NoBundle } else { BundleProblem::NoDirectory };
        let none = || Error::bad_input(&self.root, None, problem());
        let id = match id {
            Some(id) => id.to_owned(),
            None => self.latest()?.ok_or_else(none)?,
        };
        let bundle = match self.describe(&id, trusted) {
            Err(_) if !has_place => return Err(none()),
            bundle => bundle?,
        };
        Ok((id, bundle))
    }
}

pub(super) fn description(id: &str) -> String {
    format!("{id}/{DESCRIPTION}")
}

pub(super) fn signature_of(id: &str) -> String {
    description(id) + SUFFIX
}

/// Opens a file of a bundle in a directory; `None` if it does not exist.
pub(super) fn open(path: &Path) -> Result<Option<File>> {
    // ENXIO is the error for a socket.
    let is_no_file = |error: &io::Error| {
        error.kind() == ErrorKind::InvalidData || matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO))
    };
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) if is_no_file(&error) => {
            let what = path.symlink_metadata().map_or_else(|_| error.to_string(), |there| private::kind(&there).into());
            Err(Error::bad_input(path, None, BundleProblem::NoFile(what)))
        }
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

pub(super) fn file(name: &str) -> String {
    format!("{FILES}/{name}")
}

/// Reports a source that changed while it was read as a bad bundle, because bundle files never change.
pub(super) fn changed(path: &Path, error: Error) -> Error {
    match error {
        Error::State { reason, .. } => Error::bad_input(path, None, BundleProblem::Changed(reason)),
        error => error,
    }
}
