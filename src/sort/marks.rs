//! Marks that tell the source of each section by its position.

use serde::{Deserialize, Serialize};

/// From byte `at` of a partition or buffer on, sections are of `source`. Those before the first mark are of source 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceMark {
    pub at: u64,
    pub source: u32,
}

pub(crate) fn source_at(marks: &[SourceMark], at: u64) -> u32 {
    let after = marks.partition_point(|mark| mark.at <= at);
    after.checked_sub(1).and_then(|last| marks.get(last)).map_or(0, |mark| mark.source)
}

/// Marks sections from `at` on as those of `source`.
pub(crate) fn add_mark(marks: &mut Vec<SourceMark>, at: u64, source: u32) {
    if marks.last().map_or(0, |mark| mark.source) != source {
        marks.push(SourceMark { at, source });
    }
}
