//! Selected and missing blocks of an export.

use crate::error::Result;
use crate::read::missing::Missing;

/// Takes a block: its CID, where in it the key begins, and its value.
pub(super) type Take<'t> = dyn FnMut(&[u8], usize, &[u8]) -> Result<()> + 't;

/// Blocks that were missing or not what their codecs say.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub missing: Missing,
    pub malformed: u64,
}
