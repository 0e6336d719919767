//! The parts of generated DAG-CBOR blocks, in their shortest form.
//!
//! ```text
//! link  = d8 2a (tag 42) | 58 27 (39 bytes) | 00 | CID
//! CID   = 01 (v1) | codec | a0 e4 02 (blake2b-256, 0xb220) | 20 (32 bytes) | digest
//! ```
//!
//! Specification: <https://ipld.io/specs/codecs/dag-cbor/spec/>.

use cid::Cid;
use multihash::Multihash;

pub(super) use crate::blocks::cbor::{ARRAY, BYTES, UINT, push_head as head};

/// Multicodec of the hash function of generated blocks.
pub(super) const BLAKE2B_256: u64 = 0xb220;
pub(super) const DAG_CBOR: u8 = 0x71;
pub(super) const RAW: u8 = 0x55;
pub(super) const CID_PREFIX: usize = 6;
pub(super) const CID_LEN: usize = CID_PREFIX + 32;
pub(super) const LINK_LEN: usize = 5 + CID_LEN;

/// The variable parts of a generated CID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockName {
    pub(super) codec: u8,
    pub(super) digest: [u8; 32],
}

impl BlockName {
    pub(super) const BLANK: Self = Self { codec: DAG_CBOR, digest: [0; 32] };

    pub(super) fn bytes(&self) -> [u8; CID_LEN] {
        let mut cid = [0; CID_LEN];
        cid[..CID_PREFIX].copy_from_slice(&[0x01, self.codec, 0xa0, 0xe4, 0x02, 0x20]);
        cid[CID_PREFIX..].copy_from_slice(&self.digest);
        cid
    }

    pub(super) fn cid(&self) -> Cid {
        let hash = Multihash::wrap(BLAKE2B_256, &self.digest).expect("32 bytes fit a multihash of 64");
        Cid::new_v1(u64::from(self.codec), hash)
    }
}

/// Bytes of a head with this value.
pub(super) const fn head_len(value: u64) -> usize {
    match value {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}

pub(super) fn link(out: &mut Vec<u8>, name: &BlockName) {
    out.extend_from_slice(&[0xd8, 0x2a, 0x58, 0x27, 0x00]);
    out.extend_from_slice(&name.bytes());
}

#[cfg(test)]
mod tests {
    use ipld_core::ipld::Ipld;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn link_matches_the_reference_encoder() {
        let name = BlockName { codec: RAW, digest: [9; 32] };
        let mut ours = Vec::new();
        link(&mut ours, &name);
        assert_eq!(ours.len(), LINK_LEN);
        assert_eq!(ours, serde_ipld_dagcbor::to_vec(&Ipld::Link(name.cid())).expect("encode a link"));
        assert_eq!(name.bytes().to_vec(), name.cid().to_bytes());
    }

    proptest! {
        #[test]
        fn numbers_are_what_the_reference_encoder_writes(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut ours = Vec::new();
            head(&mut ours, UINT, value);
            prop_assert_eq!(ours.len(), head_len(value));
            prop_assert_eq!(ours, serde_ipld_dagcbor::to_vec(&value).expect("encode a number"));
        }
    }
}
