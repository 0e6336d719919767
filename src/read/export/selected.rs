//! Blocks on their way from the database, and what was not there.

use crate::error::Result;
use crate::read::missing::Missing;

/// Takes a block: its CID, where in it the key begins, and its value.
pub(super) type Take<'t> = dyn FnMut(&[u8], usize, &[u8]) -> Result<()> + 't;

/// What went wrong on the way.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub missing: Missing,
    pub malformed: u64,
}
