//! Replacement of the network in a library built without the feature `remote`.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::problem::RemoteProblem;
use super::{NetworkOptions, RemotePin};
use crate::error::{Error, Result};

/// Never exists.
pub(crate) enum RemoteFile {}

/// Never exists.
#[derive(Clone)]
pub(crate) enum RemoteGate {}

impl RemoteGate {
    pub fn open(&self) {
        match *self {}
    }

    pub fn want(&self, _: bool) {
        match *self {}
    }
}

impl RemoteFile {
    pub fn open(source: &Path, network: &NetworkOptions, pinned: Option<&str>) -> Result<Arc<Self>> {
        let _ = (network, pinned);
        Err(Error::bad_input(source, None, RemoteProblem::NotBuilt))
    }

    pub fn name(&self) -> &Path {
        match *self {}
    }

    pub fn size(&self) -> Option<u64> {
        match *self {}
    }

    pub fn is_ranged(&self) -> bool {
        match *self {}
    }

    pub fn pin(&self) -> RemotePin {
        match *self {}
    }

    pub fn address(&self) -> Option<String> {
        match *self {}
    }

    pub fn traffic(&self) -> (u64, u64) {
        match *self {}
    }

    pub fn waits(&self) -> (f64, u64) {
        match *self {}
    }

    pub fn read_from(self: &Arc<Self>, _: u64, _: u64) -> (Box<dyn Read + Send>, Option<RemoteGate>) {
        match **self {}
    }

    pub fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<bool> {
        match *self {}
    }

    pub fn stored_sums(&self, _: Instant) -> Vec<(String, Vec<u8>)> {
        match *self {}
    }

    pub fn beside(&self, _: &str, _: Instant) -> Option<(String, std::result::Result<Vec<u8>, String>)> {
        match *self {}
    }
}

/// Never exists.
pub(crate) fn small(url: &Path, _: &NetworkOptions) -> Result<Vec<u8>> {
    Err(Error::bad_input(url, None, RemoteProblem::NotBuilt))
}
