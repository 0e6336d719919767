//! Finds the sections in the bytes of a CAR.

use super::chunk::prefetch_ahead;
use super::header::{Begins, begins_header};
use super::skipped_block::{NextSection, SkippedBlock};
use super::{CarProblem, NullPadding, next_section, varint};

/// Memory for the roots of a header (in journal, record and report too), as a multiple of its length and in bytes for each
/// root. Headers of less than a MiB fit any budget.
const HEADER_COPIES: u64 = 20;
const ROOT: u64 = 450;
const SMALL_HEADER: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub max_block: u64,
    pub null_padding: NullPadding,
    /// The longest section that the memory budget can hold, in bytes.
    pub fits: u64,
    pub budget: u64,
    /// Bytes of one chunk; a longer section gets a chunk of its own.
    pub chunk: usize,
    /// True if the record of an import will contain the roots.
    pub records_roots: bool,
}

impl Limits {
    /// Returns the budget that a header of `len` bytes with `roots` needs, if it exceeds this one.
    pub fn needs_of_header(&self, len: u64, roots: usize) -> Option<u64> {
        let needs = (len * HEADER_COPIES).max(roots as u64 * ROOT);
        (len > SMALL_HEADER && needs > self.budget).then(|| needs.next_multiple_of(64 << 20))
    }
}

/// The whole sections at the front of some bytes, and the reason why no more follow.
pub(super) struct FramedSections {
    pub starts: Vec<u32>,
    pub len: usize,
    /// Bytes that make the next section whole. For a skipped block: bytes of its section before the block.
    pub needed: u64,
    pub stop: Option<Stop>,
    /// A fault after the whole sections, and its offset.
    pub problem: Option<(CarProblem, usize)>,
}

/// The object after the whole sections, if it is no section of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Padding,
    /// The header of one more CAR.
    Header,
    SkippedBlock,
}

/// Hops over whole sections. If `may_join`, the header of one more CAR may follow.
pub(super) fn frame(bytes: &[u8], limits: &Limits, may_join: bool, skipped: Option<&SkippedBlock>) -> FramedSections {
    let Limits { max_block, fits, budget, .. } = *limits;
    let starts = Vec::with_capacity(bytes.len() / 512);
    let mut framed = FramedSections { starts, len: 0, needed: 0, stop: None, problem: None };
    while framed.len < bytes.len() {
        let at = framed.len;
        prefetch_ahead(bytes, at);
        let (len, len_bytes) = match varint::read(&bytes[at..], "a section's length") {
            Ok(Some(found)) => found,
            Ok(None) => {
                framed.needed = bytes.len() as u64 + 1;
                break;
            }
            Err(problem) => {
                framed.problem = Some((problem, at));
                break;
            }
        };
        if len == 0 {
            framed.stop = Some(Stop::Padding);
            break;
        }
        // One compare, of a byte that is in the cache: see `begins_header`.
        if bytes.get(at + len_bytes).is_some_and(|&first| first >= 0xa0) && may_join {
            match begins_header(&bytes[at..]) {
                Begins::Header => {
                    framed.stop = Some(Stop::Header);
                    break;
                }
                // A whole section with fewer bytes is no header.
                Begins::NeedMore if len > (bytes.len() - at - len_bytes) as u64 => {
                    framed.needed = bytes.len() as u64 + 1;
                    break;
                }
                Begins::NeedMore | Begins::Other => {}
            }
        }
        match skipped.map(|block| block.is_next(&bytes[at..])) {
            Some(NextSection::Skipped { head, .. }) => {
                (framed.stop, framed.needed) = (Some(Stop::SkippedBlock), head as u64);
                break;
            }
            Some(NextSection::Cut) => {
                framed.problem = next_section(bytes, at, u64::MAX).err();
                framed.needed = bytes.len() as u64 + 1;
                break;
            }
            Some(NextSection::Other) | None => {}
        }
        if len > max_block {
            framed.problem = Some((CarProblem::BlockTooLarge { len, max: max_block }, at));
            break;
        }
        if len > fits {
            let needs = budget.saturating_mul(len).div_ceil(fits.max(1)).next_multiple_of(64 << 20);
            framed.problem = Some((CarProblem::BlockOverBudget { len, budget, needs }, at));
            break;
        }
        let end = at + len_bytes + len as usize;
        if end > bytes.len() {
            // The beginning of the CID may already be wrong.
            framed.problem = next_section(bytes, at, max_block).err();
            framed.needed = end as u64;
            break;
        }
        framed.starts.push(at as u32);
        framed.len = end;
    }
    framed
}
