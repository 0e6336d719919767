//! Where bundles lie: a directory, or a place on the network.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Bundle, MAX_BYTES, is_sum};
use super::problem::BundleProblem;
use crate::error::{Error, Result};
use crate::os::files::read_regular;
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
    ///
    /// # Errors
    /// [`Error::BadInput`]: it is not there, or may not be read; [`Error::Io`]: the network gives no answer.
    pub fn open_remote(&self, name: &str) -> Result<Arc<RemoteFile>> {
        let (path, network) = self.at(name);
        RemoteFile::open(&path, &network, None)
    }

    /// A small file; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::BadInput`]: it may not be read, or is longer than `most`; [`Error::Io`].
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let (path, _) = self.at(name);
        let too_long = |found: u64| Error::bad_input(&path, None, BundleProblem::Length { found, expected: most });
        if !self.is_remote() {
            return match read_regular(&path, most) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    Err(too_long(path.metadata().map_or(0, |there| there.len())))
                }
                Err(error) => Err(Error::io("read", &path)(error)),
            };
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
        if let Some(found) = file.size().filter(|found| *found > most) {
            return Err(too_long(found));
        }
        let (reader, gate) = file.read_from(0, AHEAD);
        gate.into_iter().for_each(|gate| gate.open());
        let mut bytes = Vec::new();
        reader
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| changed(&path, Error::io("read", &path)(error)))?;
        match bytes.len() as u64 > most {
            true => Err(too_long(bytes.len() as u64)),
            false => Ok(Some(bytes)),
        }
    }

    /// The id of the newest bundle; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::BadInput`]: what stands there is no id; [`Error::Io`].
    pub fn latest(&self) -> Result<Option<String>> {
        let Some(bytes) = self.read(LATEST, MAX_LATEST)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        match is_sum(&text) {
            true => Ok(Some(text)),
            false => Err(Error::bad_input(&self.at(LATEST).0, None, BundleProblem::Latest)),
        }
    }

    /// The description with this id.
    ///
    /// # Errors
    /// [`Error::BadInput`]: it is not there, or not what its id says; [`Error::Io`].
    pub fn describe(&self, id: &str) -> Result<Bundle> {
        let name = description(id);
        let path = self.at(&name).0;
        let bad = |problem: BundleProblem| Error::bad_input(&path, None, problem);
        let bytes = self.read(&name, MAX_BYTES)?.ok_or(BundleProblem::Missing).map_err(bad)?;
        Bundle::read(&bytes, id).map_err(bad)
    }

    /// The bundle with this id, or the newest one.
    ///
    /// # Errors
    /// As [`Place::latest`] and [`Place::describe`].
    pub fn find(&self, id: Option<&str>) -> Result<Found> {
        let none = || Error::bad_input(&self.root, None, BundleProblem::NoBundle);
        let id = match id {
            Some(id) => id.to_owned(),
            None => self.latest()?.ok_or_else(none)?,
        };
        Ok(Found { bundle: self.describe(&id)?, id })
    }
}

/// The name of the description of a bundle.
pub(super) fn description(id: &str) -> String {
    format!("{id}/{DESCRIPTION}")
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
