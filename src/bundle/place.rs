//! Where bundles lie: a directory, or a place on the network.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Bundle, MAX_BYTES, is_sum};
use super::problem::BundleProblem;
use super::signature::{self, SUFFIX, TrustedKey};
use crate::error::{Error, Result};
use crate::os::files::open_regular;
use crate::os::private;
use crate::source::remote::{NetworkOptions, RemoteFile, RemoteProblem, below, is_remote, take_secrets};

/// The pointer to the newest bundle.
pub(super) const LATEST: &str = "latest";
/// The description of a bundle.
pub(super) const DESCRIPTION: &str = "bundle.json";
/// The directory of the files of all bundles.
pub(super) const FILES: &str = "files";

/// The longest pointer.
const MAX_LATEST: u64 = 256;

/// Bytes of a description that are read ahead.
const AHEAD: u64 = 4 << 20;

/// A place that has bundles, or will.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// A path, or the shown form of a URL.
    pub root: PathBuf,
    pub network: NetworkOptions,
}

/// A bundle that was found.
pub(super) struct Found {
    pub id: String,
    pub bundle: Bundle,
}

impl Place {
    pub fn new(root: &Path, network: &NetworkOptions) -> Self {
        let (mut root, mut network) = (root.to_owned(), network.clone());
        take_secrets(&mut root, &mut network);
        Self { root, network }
    }

    pub fn is_remote(&self) -> bool {
        is_remote(&self.root)
    }

    /// A file in it: its path or its URL, and what it is asked for with.
    pub fn at(&self, name: &str) -> (PathBuf, NetworkOptions) {
        let mut network = self.network.clone();
        let path = if self.is_remote() { below(&self.root, name, &mut network) } else { self.root.join(name) };
        (path, network)
    }

    /// Opens a file on the network.
    pub fn open_remote(&self, name: &str) -> Result<Arc<RemoteFile>> {
        let (path, network) = self.at(name);
        RemoteFile::open(&path, &network, None)
    }

    /// A small file; `None` where there is none.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let (path, _) = self.at(name);
        let too_long = || Error::bad_input(&path, None, BundleProblem::TooLong { most });
        let mut bytes = Vec::new();
        if !self.is_remote() {
            let Some(file) = open(&path)? else { return Ok(None) };
            file.take(most + 1).read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
            return if bytes.len() as u64 > most { Err(too_long()) } else { Ok(Some(bytes)) };
        }
        let file = match self.open_remote(name) {
            Ok(file) => file,
            Err(Error::BadInput { problem, .. })
                if matches!(problem.downcast_ref(), Some(RemoteProblem::NotFound { .. })) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if file.size().is_some_and(|found| found > most) {
            return Err(too_long());
        }
        let (reader, gate) = file.read_from(0, AHEAD);
        gate.into_iter().for_each(|gate| gate.open());
        reader
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| changed(&path, Error::io("read", &path)(error)))?;
        match bytes.len() as u64 > most {
            true => Err(too_long()),
            false => Ok(Some(bytes)),
        }
    }

    /// The id of the newest bundle; `None` where there is none.
    pub fn latest(&self) -> Result<Option<String>> {
        let Some(bytes) = self.read(LATEST, MAX_LATEST)? else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
        match is_sum(&text) {
            true => Ok(Some(text.into_owned())),
            false => Err(Error::bad_input(&self.at(LATEST).0, None, BundleProblem::Latest)),
        }
    }

    /// The description with this id. Where keys are `trusted`, one of them has signed it.
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

    /// The bundle with this id, or the newest one.
    pub fn find(&self, id: Option<&str>, trusted: &[TrustedKey]) -> Result<Found> {
        let none = || Error::bad_input(&self.root, None, BundleProblem::NoBundle);
        let id = match id {
            Some(id) => id.to_owned(),
            None => self.latest()?.ok_or_else(none)?,
        };
        Ok(Found { bundle: self.describe(&id, trusted)?, id })
    }
}

/// The name of the description of a bundle.
pub(super) fn description(id: &str) -> String {
    format!("{id}/{DESCRIPTION}")
}

/// The name of its signature.
pub(super) fn signature_of(id: &str) -> String {
    description(id) + SUFFIX
}

/// Opens a file of a bundle in a directory; `None` where there is none.
pub(super) fn open(path: &Path) -> Result<Option<File>> {
    // A socket is refused as a device that is not there.
    let is_no_file = |error: &io::Error| {
        error.kind() == ErrorKind::InvalidData || matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO))
    };
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) if is_no_file(&error) => {
            let what = path.symlink_metadata().map_or_else(|_| error.to_string(), |there| private::kind(&there).into());
            Err(Error::bad_input(path, None, BundleProblem::NoFile { what }))
        }
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// The name of a file of bundles.
pub(super) fn file(name: &str) -> String {
    format!("{FILES}/{name}")
}

/// An error of reading a file that nobody changes: one that changed is another one.
pub(super) fn changed(path: &Path, error: Error) -> Error {
    match error {
        Error::State { reason, .. } => Error::bad_input(path, None, BundleProblem::Changed { what: reason }),
        error => error,
    }
}
