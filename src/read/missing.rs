//! Links to missing blocks: all are counted, the first ten kept.

use std::collections::HashSet;

use super::keys::cid_text;
use super::steps::StepRef;
use crate::report::{ImportReport, MissingBlock};

pub(super) const LISTED: usize = 10;

#[derive(Debug, Default)]
pub(super) struct MissingBlocks {
    /// CIDs of the blocks that the import omitted on purpose.
    left_out: HashSet<Vec<u8>>,
    /// Number of blocks and links that an export cannot read.
    pub malformed: u64,
    pub total: u64,
    pub allowed: u64,
    pub first: Vec<MissingBlock>,
}

impl MissingBlocks {
    pub fn new(record: Option<&ImportReport>) -> Self {
        Self { left_out: record.map(ImportReport::left_out).unwrap_or_default(), ..Self::default() }
    }

    /// Adds the block of `step`; it may be missing if it was named below this epoch.
    pub fn note(&mut self, step: StepRef<'_>, may_below: Option<u64>) {
        if self.left_out.contains(step.cid) {
            return;
        }
        let allowed = may_below.is_some_and(|below| step.epoch.is_some_and(|epoch| epoch < below));
        self.total += 1;
        self.allowed += u64::from(allowed);
        // A missing block that is not allowed replaces an allowed one.
        if self.first.len() >= LISTED && !allowed {
            let place = self.first.iter().rposition(|listed| listed.allowed);
            if let Some(place) = place {
                self.first.remove(place);
            }
        }
        if self.first.len() < LISTED {
            self.first.push(MissingBlock {
                cid: cid_text(step.cid),
                parent: (!step.parent.is_empty()).then(|| cid_text(step.parent)),
                epoch: step.epoch,
                allowed,
            });
        }
    }
}
