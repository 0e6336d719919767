//! What the roots of a snapshot are: Filecoin headers, or the metadata of FRC-0108 that names them.

use parking_lot::Mutex;

use crate::read::header::chain_header;
use crate::report::{HeadInfo, Metadata, RootInfo};
use crate::source::car::metadata::Metadata as Wire;
use crate::source::car::{RawCid, Section};

/// Collects the roots, and the blocks that they name.
pub(super) struct Heads {
    roots: Vec<Vec<u8>>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Bytes of the CIDs to collect: roots, then what metadata names.
    wanted: Vec<Vec<u8>>,
    /// Of `wanted`, which have been seen.
    seen: Vec<bool>,
    metadata: Option<Wire>,
    f3: Option<Vec<u8>>,
    f3_bytes: Option<u64>,
    head: Option<HeadInfo>,
}

impl Heads {
    pub fn new(roots: &[RawCid]) -> Self {
        let roots: Vec<Vec<u8>> = roots.iter().map(|cid| cid.as_bytes().to_vec()).collect();
        let found = Found { wanted: roots.clone(), seen: vec![false; roots.len()], ..Found::default() };
        Self { roots, found: Mutex::new(found) }
    }

    /// Takes a block. Those of metadata must come before those it names; they come first in a snapshot.
    pub fn see(&self, wanted: &[Vec<u8>], section: &Section, body: &[u8]) {
        let Some((cid, block)) = body.split_at_checked(section.cid.len as usize) else { return };
        if !wanted.iter().any(|wanted| wanted == cid) {
            return;
        }
        let mut found = self.lock();
        if found.f3.as_deref() == Some(cid) {
            found.f3_bytes = Some(block.len() as u64);
        }
        let Some(place) = found.wanted.iter().position(|wanted| wanted == cid) else { return };
        // The same block may occur again.
        if found.seen.get(place) != Some(&false) {
            return;
        }
        if let Some(seen) = found.seen.get_mut(place) {
            *seen = true;
        }
        if let Some(header) = chain_header(block) {
            let head = HeadInfo { epoch: header.height, timestamp: header.timestamp, headers: 0 };
            found.head.get_or_insert(head).headers += 1;
        } else if let Some(metadata) = Wire::read(block) {
            for cid in metadata.head_tipset.iter().chain(&metadata.f3) {
                found.wanted.push(cid.as_bytes().to_vec());
                found.seen.push(false);
            }
            found.f3 = metadata.f3.as_ref().map(|cid| cid.as_bytes().to_vec());
            found.metadata = Some(metadata);
        }
    }

    /// The CIDs that are wanted now.
    pub fn wanted(&self) -> Vec<Vec<u8>> {
        self.lock().wanted.clone()
    }

    /// Whether everything has been seen.
    pub fn complete(&self) -> bool {
        self.lock().seen.iter().all(|&seen| seen)
    }

    /// The roots; `all` says that the whole snapshot was read.
    pub fn roots(&self, texts: &[RawCid], all: bool) -> Vec<RootInfo> {
        let found = self.lock();
        let root = |(cid, bytes): (&RawCid, &Vec<u8>)| {
            let place = found.wanted.iter().position(|wanted| wanted == bytes);
            let seen = place.and_then(|place| found.seen.get(place)).copied().unwrap_or(false);
            RootInfo { cid: cid.to_string(), present: if seen || all { Some(seen) } else { None } }
        };
        texts.iter().zip(&self.roots).map(root).collect()
    }

    pub fn metadata(&self) -> Option<Metadata> {
        let found = self.lock();
        found.metadata.as_ref().map(|metadata| Metadata {
            version: metadata.version,
            head_tipset: metadata.head_tipset.iter().map(ToString::to_string).collect(),
            f3: metadata.f3.as_ref().map(|cid| cid.to_string()),
            f3_bytes: found.f3_bytes,
        })
    }

    pub fn head(&self) -> Option<HeadInfo> {
        self.lock().head
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Found> {
        self.found.lock()
    }
}
