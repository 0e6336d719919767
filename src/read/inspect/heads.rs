//! Decodes the roots of a snapshot: Filecoin headers, or the FRC-0108 metadata that names them.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::read::header::chain_header;
use crate::report::{HeadInfo, InspectReport, Metadata, RootInfo};
use crate::source::car::metadata::Metadata as Wire;
use crate::source::car::{RawCid, Section};

/// Collects the roots, and the blocks that they name. A header may have hundreds of thousands of roots, so each block costs
/// one lookup.
pub(super) struct Heads {
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// CIDs of the roots and of the blocks that metadata names, and whether each was seen.
    wanted: HashMap<Vec<u8>, bool>,
    /// Number of `wanted` that were not seen.
    missing: usize,
    metadata: Option<Wire>,
    f3: Option<Vec<u8>>,
    f3_bytes: Option<u64>,
    head: Option<HeadInfo>,
}

impl Heads {
    pub fn new(roots: &[RawCid]) -> Self {
        let mut found = Found::default();
        roots.iter().for_each(|root| found.want(root));
        Self { found: Mutex::new(found) }
    }

    /// Takes a block if its CID is wanted. Metadata must come before the blocks that it names, as in every snapshot.
    pub fn see(&self, section: &Section, body: &[u8]) {
        let Some((cid, block)) = body.split_at_checked(section.cid.len as usize) else { return };
        let mut found = self.lock();
        let found = &mut *found;
        let Some(is_seen) = found.wanted.get_mut(cid) else { return };
        if found.f3.as_deref() == Some(cid) {
            found.f3_bytes = Some(block.len() as u64);
        }
        // The same block may occur again.
        if std::mem::replace(is_seen, true) {
            return;
        }
        found.missing -= 1;
        if let Some(header) = chain_header(block) {
            let head = HeadInfo { epoch: header.height, timestamp: header.timestamp, headers: 0 };
            found.head.get_or_insert(head).headers += 1;
        } else if let Some(metadata) = Wire::read(block) {
            for cid in metadata.head_tipset.iter().chain(&metadata.f3) {
                found.want(cid);
            }
            found.f3 = metadata.f3.as_ref().map(|cid| cid.as_bytes().to_vec());
            found.metadata = Some(metadata);
        }
    }

    /// Returns the CIDs that are wanted now.
    pub fn wanted(&self) -> HashSet<Vec<u8>> {
        self.lock().wanted.keys().cloned().collect()
    }

    /// True if every wanted block was seen.
    pub fn complete(&self) -> bool {
        self.lock().missing == 0
    }

    /// Adds roots, metadata and head to the report. `all` is true if the whole snapshot was read.
    pub fn fill(&self, report: &mut InspectReport, roots: &[RawCid], all: bool) {
        let found = self.lock();
        let root = |cid: &RawCid| {
            let seen = found.wanted.get(cid.as_bytes()).copied().unwrap_or(false);
            RootInfo { cid: cid.to_string(), present: (seen || all).then_some(seen) }
        };
        report.roots = roots.iter().map(root).collect();
        report.metadata = found.metadata.as_ref().map(|metadata| Metadata {
            version: metadata.version,
            head_tipset: metadata.head_tipset.iter().map(ToString::to_string).collect(),
            f3: metadata.f3.as_ref().map(ToString::to_string),
            f3_bytes: found.f3_bytes,
        });
        report.head = found.head;
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Found> {
        self.found.lock()
    }
}

impl Found {
    fn want(&mut self, cid: &RawCid) {
        self.wanted.entry(cid.as_bytes().to_vec()).or_insert_with(|| {
            self.missing += 1;
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::car::{Step, next_section};

    fn all_present(heads: &Heads, roots: &[RawCid]) -> bool {
        let mut report = InspectReport::default();
        heads.fill(&mut report, roots, false);
        report.roots.iter().all(|root| root.present == Some(true))
    }

    /// The bug: each block was compared with each root. This test did not end.
    #[test]
    fn roots_cost_one_lookup_for_each_block() {
        let cid =
            |number: u64| RawCid::from_bytes([&[1, 0x55, 0, 8][..], &number.to_be_bytes()].concat()).expect("a CID");
        let roots: Vec<RawCid> = (0..300_000).map(cid).collect();
        let heads = Heads::new(&roots);
        for number in 0..600_000 {
            let bytes = [&[12][..], cid(number).as_bytes()].concat();
            let Ok(Step::Section(section)) = next_section(&bytes, 0, u64::MAX) else { panic!("no section") };
            assert_eq!(heads.complete(), number >= 300_000);
            heads.see(&section, section.body(&bytes));
        }
        assert!(all_present(&heads, &roots));
    }

    #[test]
    fn a_repeated_root_is_seen_once() {
        let root: RawCid = "bafkqaalb".parse().expect("a CID");
        let roots = [root.clone(), root.clone()];
        let heads = Heads::new(&roots);
        let bytes = [&[5][..], root.as_bytes()].concat();
        let Ok(Step::Section(section)) = next_section(&bytes, 0, u64::MAX) else { panic!("no section") };
        heads.see(&section, section.body(&bytes));
        assert!(heads.complete());
        assert!(all_present(&heads, &roots));
    }
}
