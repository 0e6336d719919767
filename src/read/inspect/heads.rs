//! Decodes the roots of a snapshot: Filecoin headers, or the FRC-0108 metadata that names them.

use std::collections::{HashMap, HashSet};

use crate::read::header::chain_header;
use crate::report::{HeadInfo, InspectReport, MetadataInfo, RootInfo};
use crate::source::car::Metadata;
use crate::source::car::{RawCid, Section};

/// Collects the roots, and the blocks that they name. A header may have hundreds of thousands of roots, so each block costs
/// one lookup.
#[derive(Default)]
pub(super) struct Heads {
    /// CIDs of the roots and of the blocks that metadata names, and whether each was seen.
    wanted: HashMap<Vec<u8>, bool>,
    /// Number of `wanted` that were not seen.
    missing: usize,
    metadata: Option<Metadata>,
    f3: Option<Vec<u8>>,
    f3_bytes: Option<u64>,
    head: Option<HeadInfo>,
}

impl Heads {
    pub fn new(roots: &[RawCid]) -> Self {
        let mut heads = Self::default();
        roots.iter().for_each(|root| heads.want(root));
        heads
    }

    fn want(&mut self, cid: &RawCid) {
        if cid.is_identity() {
            return;
        }
        self.wanted.entry(cid.as_bytes().to_vec()).or_insert_with(|| {
            self.missing += 1;
            false
        });
    }

    /// Takes a block if its CID is wanted. Metadata must come before the blocks that it names, as in every snapshot.
    pub fn see(&mut self, section: &Section, body: &[u8]) {
        let Some((cid, block)) = body.split_at_checked(section.cid.len as usize) else { return };
        let Some(is_seen) = self.wanted.get_mut(cid) else { return };
        if self.f3.as_deref() == Some(cid) {
            self.f3_bytes = Some(block.len() as u64);
        }
        // The same block may occur again.
        if std::mem::replace(is_seen, true) {
            return;
        }
        self.missing -= 1;
        if let Some(header) = chain_header(block) {
            let head = HeadInfo { epoch: header.height, timestamp: header.timestamp, headers: 0 };
            self.head.get_or_insert(head).headers += 1;
        } else if let Some(metadata) = Metadata::read(block) {
            metadata.head_tipset.iter().chain(&metadata.f3).for_each(|cid| self.want(cid));
            self.f3 = metadata.f3.as_ref().map(|cid| cid.as_bytes().to_vec());
            self.metadata = Some(metadata);
        }
    }

    /// Returns the CIDs that are wanted now.
    pub fn wanted(&self) -> HashSet<Vec<u8>> {
        self.wanted.keys().cloned().collect()
    }

    pub fn complete(&self) -> bool {
        self.missing == 0
    }

    /// Adds roots, metadata and head to the report. `all` is true if the whole snapshot was read.
    pub fn fill(&self, report: &mut InspectReport, roots: &[RawCid], all: bool) {
        let root = |cid: &RawCid| {
            let seen = cid.is_identity() || self.wanted.get(cid.as_bytes()).copied().unwrap_or(false);
            RootInfo { cid: cid.to_string(), present: (seen || all).then_some(seen) }
        };
        report.roots = roots.iter().map(root).collect();
        report.metadata = self.metadata.as_ref().map(|metadata| MetadataInfo {
            version: metadata.version,
            head_tipset: metadata.head_tipset.iter().map(ToString::to_string).collect(),
            f3: metadata.f3.as_ref().map(ToString::to_string),
            f3_bytes: self.f3_bytes,
        });
        report.head = self.head;
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
            |number: u64| RawCid::from_bytes([&[1, 0x55, 0x12, 8][..], &number.to_be_bytes()].concat()).expect("a CID");
        let roots: Vec<RawCid> = (0..100_000).map(cid).collect();
        let mut heads = Heads::new(&roots);
        for number in 0..200_000 {
            let bytes = [&[12][..], cid(number).as_bytes()].concat();
            let Ok(Step::Section(section)) = next_section(&bytes, 0, u64::MAX) else { panic!("no section") };
            assert_eq!(heads.complete(), number >= 100_000);
            heads.see(&section, section.body(&bytes));
        }
        assert!(all_present(&heads, &roots));
    }

    #[test]
    fn a_repeated_root_is_seen_once() {
        let root = RawCid::from_bytes([1, 0x55, 0x12, 1, 7]).expect("a CID");
        let roots = [root.clone(), root.clone()];
        let mut heads = Heads::new(&roots);
        let bytes = [&[5][..], root.as_bytes()].concat();
        let Ok(Step::Section(section)) = next_section(&bytes, 0, u64::MAX) else { panic!("no section") };
        heads.see(&section, section.body(&bytes));
        assert!(heads.complete());
        assert!(all_present(&heads, &roots));
    }

    /// The bug: the block of such a root was reported as missing, although its CID contains it.
    #[test]
    fn identity_root_is_present() {
        let roots = ["bafkqaalb".parse().expect("a CID")];
        let heads = Heads::new(&roots);
        assert!(heads.complete());
        assert!(all_present(&heads, &roots));
    }
}
