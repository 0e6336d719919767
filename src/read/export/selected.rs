//! Selected and missing blocks of an export.

use crate::error::Result;
use crate::read::missing::MissingBlocks;

/// A function that takes a block: its CID, the start of the key in the CID, and its value.
pub(super) type Take<'t> = dyn FnMut(&[u8], usize, &[u8]) -> Result<()> + 't;

/// Missing and malformed blocks.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub missing: MissingBlocks,
    pub malformed: u64,
}
