//! The metadata of a Filecoin snapshot of version 2 (FRC-0108).
//!
//! Such a snapshot has one root, whose block comes first: a dag-cbor map of `Version`, `HeadTipsetKey` (the head's headers)
//! and `F3Data` (one raw block of any size, or null), see
//! <https://github.com/filecoin-project/FIPs/blob/master/FRCs/frc-0108.md>.

use serde::Deserialize;

use super::RawCid;

pub(crate) const MAX_METADATA: usize = 64 << 10;

/// The metadata block of a snapshot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Metadata {
    #[serde(rename = "Version")]
    pub version: u64,
    #[serde(rename = "HeadTipsetKey")]
    pub head_tipset: Vec<RawCid>,
    #[serde(rename = "F3Data")]
    pub f3: Option<RawCid>,
}

impl Metadata {
    /// Reads a block. `None` if it is something else.
    pub fn read(block: &[u8]) -> Option<Self> {
        (block.len() <= MAX_METADATA).then(|| serde_ipld_dagcbor::from_slice(block).ok()).flatten()
    }
}
