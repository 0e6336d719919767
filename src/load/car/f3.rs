//! Reports the F3 data of snapshots of version 2 (FRC-0108) that an import skipped.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::load::car::completeness::key_of;
use crate::load::context::Job;
use crate::load::links::{Gathered, LinkList};
use crate::report::F3Report;
use crate::source::car::RawCid;
use crate::source::car::skipped_block::SkippedCount;
use crate::source::car::sources::SourceRead;

/// Returns the F3 data that all sources skipped, and adds their keys to the list of keys that links may lead to.
pub(super) fn report(job: &Job<'_>, sources: &[SourceRead]) -> Result<Vec<F3Report>> {
    let mut found = BTreeMap::new();
    for SkippedCount { cid, blocks, bytes } in sources.iter().filter_map(|source| source.f3.as_deref()) {
        if *blocks > 0 {
            let new = || F3Report { cid: cid.clone(), blocks: 0, bytes: bytes / blocks };
            found.entry(cid).or_insert_with(new).blocks += blocks;
        }
    }
    if let Some(links) = job.links {
        let mut gathered = Gathered::default();
        for cid in found.keys().filter_map(|cid| cid.parse::<RawCid>().ok()) {
            LinkList::gather_key(key_of(job.options.key, &cid), &mut gathered);
        }
        links.add(&mut gathered)?;
    }
    Ok(found.into_values().collect())
}
