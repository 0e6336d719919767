//! Replacement of the network in a library built without the feature `remote`. The types have no values.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::name::NetworkOptions;
use super::pin::RemotePin;
use super::problem::RemoteProblem;
use crate::error::{Error, Result};

pub(crate) enum RemoteFile {}

pub(crate) enum RemoteStore {}

#[derive(Clone)]
pub(crate) enum RemoteGate {}

/// Defines methods that are never called.
macro_rules! never {
    ($($type:ident::$name:ident($($arg:ty),*) -> $out:ty;)*) => { $(
        impl $type {
            pub fn $name(&self $(, _: $arg)*) -> $out {
                match *self {}
            }
        }
    )* };
}

never! {
    RemoteGate::open() -> ();
    RemoteGate::want(bool) -> ();
    RemoteStore::size_of(&str) -> Result<Option<u64>>;
    RemoteStore::put(&str, &[u8]) -> Result<()>;
    RemoteStore::put_file(&str, &Path, u64, blake3::Hash) -> Result<bool>;
    RemoteFile::name() -> &Path;
    RemoteFile::size() -> Option<u64>;
    RemoteFile::is_ranged() -> bool;
    RemoteFile::pin() -> RemotePin;
    RemoteFile::address() -> Option<String>;
    RemoteFile::traffic() -> (u64, u64);
    RemoteFile::waits() -> (f64, u64);
    RemoteFile::read_from(u64, u64) -> (Box<dyn Read + Send>, Option<RemoteGate>);
    RemoteFile::read_at(&mut [u8], u64) -> io::Result<bool>;
    RemoteFile::stored_sums(Instant) -> Vec<(String, Vec<u8>)>;
    RemoteFile::beside(&str, Instant) -> Option<(String, Result<Vec<u8>, String>)>;
}

impl RemoteFile {
    pub fn open(source: &Path, _: &NetworkOptions, _: Option<&str>) -> Result<Arc<Self>> {
        Err(Error::bad_input(source, None, RemoteProblem::NotBuilt))
    }
}

impl RemoteStore {
    pub fn open(root: &Path, _: &NetworkOptions) -> Result<Self> {
        Err(Error::bad_input(root, None, RemoteProblem::NotBuilt))
    }

    pub fn memory_of(_: u64) -> u64 {
        0
    }
}

pub(crate) fn small(url: &Path, _: &NetworkOptions) -> Result<Vec<u8>> {
    Err(Error::bad_input(url, None, RemoteProblem::NotBuilt))
}
