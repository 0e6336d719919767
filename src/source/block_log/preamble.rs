//! The preamble of an Antelope log.
//!
//! ```text
//! v1      u32 version | genesis state                                              begins with block 1
//! v2      u32 version | u32 first block | genesis state | u64 totem, all ones
//! v3, v4  u32 version | u32 first block | genesis state if that is 1, else chain id[32] | u64 totem
//!
//! genesis state = i64 microseconds | public key | 68 bytes of configuration; its sha256 is the chain id
//! public key    = type 0, 1: 33 bytes | type 2 (WebAuthn): 33 bytes, u8, len, string
//! ```
//!
//! Bit 31 of the version marks a pruned log: its last four bytes are the number of blocks it still has. Layout as in
//! <https://github.com/AntelopeIO/spring>, `libraries/chain/block_log.cpp`.

use sha2::{Digest, Sha256};

use super::framing::{u32_at, u64_at};
use super::{Framing, LogProblem};
use crate::blocks::chain::Id;

const PRUNED: u32 = 1 << 31;

/// Ends the preamble from version 2 on.
const TOTEM: [u8; 8] = [0xff; 8];

const CONFIGURATION: usize = 68;

const MAX_NAME: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub version: u32,
    pub pruned: bool,
    pub first_block: u32,
    pub chain_id: Id,
    /// All bytes before the first entry.
    pub bytes: Vec<u8>,
}

impl Preamble {
    pub fn framing(&self) -> Framing {
        Framing::Antelope { version: self.version }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Checks the number of the log's first block against the head's. A pruned log begins later than its head says.
    pub fn check_first(&self, found: u32) -> Result<(), LogProblem> {
        let head = self.first_block;
        let is_right = if self.pruned { head <= found } else { head == found };
        if is_right { Ok(()) } else { Err(LogProblem::HeadFirst { head, found }) }
    }

    fn genesis(&self) -> Option<&[u8]> {
        match self.version {
            1 => self.bytes.get(4..),
            version if version < 3 || self.first_block == 1 => self.bytes.get(8..self.len().checked_sub(TOTEM.len())?),
            _ => None,
        }
    }

    /// Returns the head of an unpruned log of the same chain that begins with block `first`. Version 1 becomes 2, since it
    /// cannot hold the number. `None` if it needs a genesis state that this log does not have.
    pub fn beginning_with(&self, first: u32) -> Option<Vec<u8>> {
        let version = if first == 1 { self.version } else { self.version.max(2) };
        let mut bytes = version.to_le_bytes().to_vec();
        if version > 1 {
            bytes.extend(first.to_le_bytes());
        }
        if version < 3 || first == 1 {
            bytes.extend_from_slice(self.genesis()?);
        } else {
            bytes.extend_from_slice(self.chain_id.as_bytes());
        }
        if version > 1 {
            bytes.extend(TOTEM);
        }
        Some(bytes)
    }
}

/// True if a log begins as one of Antelope does.
pub(crate) fn is_antelope(bytes: &[u8]) -> bool {
    u32_at(bytes, 0).is_some_and(|version| matches!(version & !PRUNED, 1..=4))
}

/// Reads the preamble if a log begins with one.
pub(super) fn detect(bytes: &[u8]) -> Result<Option<Preamble>, LogProblem> {
    is_antelope(bytes).then(|| read(bytes)).transpose()
}

/// Reads the preamble from the first few KiB of a log.
pub(crate) fn read(bytes: &[u8]) -> Result<Preamble, LogProblem> {
    let bad = |reason: &str| LogProblem::Preamble { reason: reason.into() };
    let cut = || bad("the log ends inside it");
    let word = u32_at(bytes, 0).ok_or_else(cut)?;
    let (version, pruned) = (word & !PRUNED, word & PRUNED != 0);
    if !matches!(version, 1..=4) {
        return Err(LogProblem::Preamble { reason: format!("version {version} does not exist") });
    }
    let (first_block, mut at) = if version == 1 { (1, 4) } else { (u32_at(bytes, 4).ok_or_else(cut)?, 8) };
    if first_block == 0 {
        return Err(bad("there is no block 0"));
    }
    let chain_id = if version < 3 || first_block == 1 {
        let len = genesis_len(bytes.get(at..).unwrap_or_default()).ok_or_else(cut)??;
        let genesis = bytes.get(at..at + len).ok_or_else(cut)?;
        at += len;
        let hash: [u8; 32] = Sha256::digest(genesis).into();
        Id::from(hash)
    } else {
        let id = bytes.get(at..at + 32).and_then(Id::from_slice).ok_or_else(cut)?;
        at += 32;
        id
    };
    if version > 1 {
        if u64_at(bytes, at).ok_or_else(cut)? != u64::MAX {
            return Err(bad("its end mark is missing"));
        }
        at += 8;
    }
    let bytes = bytes.get(..at).ok_or_else(cut)?.to_vec();
    Ok(Preamble { version, pruned, first_block, chain_id, bytes })
}

/// Returns the length of a genesis state. `None` if it is cut.
fn genesis_len(bytes: &[u8]) -> Option<Result<usize, LogProblem>> {
    // Time, then the key.
    let mut at = 8;
    let kind = *bytes.get(at)?;
    at += 1 + 33;
    match kind {
        0 | 1 => {}
        2 => {
            at += 1;
            let (len, rest) = unsigned_varint::decode::usize(bytes.get(at..)?).ok()?;
            at = bytes.len() - rest.len();
            if len > MAX_NAME {
                return Some(Err(LogProblem::Preamble { reason: format!("a name of {len} bytes in its key") }));
            }
            at += len;
        }
        kind => return Some(Err(LogProblem::Preamble { reason: format!("a key of type {kind} does not exist") })),
    }
    Some(Ok(at + CONFIGURATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genesis() -> Vec<u8> {
        [&[1; 8][..], &[0], &[2; 33], &[3; CONFIGURATION]].concat()
    }

    #[test]
    fn every_version_is_read_and_cuts_reported() {
        let id: [u8; 32] = Sha256::digest(genesis()).into();
        let logs = [
            (1, [&1u32.to_le_bytes()[..], &genesis()].concat(), 1, Id::from(id), 114),
            (2, [&[2, 0, 0, 0, 1, 0, 0, 0][..], &genesis(), &[0xff; 8]].concat(), 1, Id::from(id), 126),
            (3, [&[3, 0, 0, 0, 9, 0, 0, 0][..], &[7; 32], &[0xff; 8]].concat(), 9, Id::from([7; 32]), 48),
            (4, [&[4, 0, 0, 0x80, 1, 0, 0, 0][..], &genesis(), &[0xff; 8]].concat(), 1, Id::from(id), 126),
        ];
        for (version, bytes, first_block, chain_id, len) in logs {
            assert_eq!(bytes.len(), len);
            let expected = Preamble { version, pruned: version == 4, first_block, chain_id, bytes: bytes.clone() };
            assert_eq!(read(&bytes), Ok(expected));
            assert!(is_antelope(&bytes));
            for len in 0..bytes.len() {
                let error = read(&bytes[..len]).expect_err("cut");
                assert!(error.to_string().contains("the log ends inside it"), "{error}");
            }
        }
    }

    #[test]
    fn later_preamble_is_of_the_same_chain() {
        let later = [&[9, 0, 0, 0][..], &[7; 32], &TOTEM].concat();
        let heads = [
            [&1u32.to_le_bytes()[..], &genesis()].concat(),
            [&[2, 0, 0, 0, 1, 0, 0, 0][..], &genesis(), &TOTEM].concat(),
            [&[3, 0, 0, 0, 1, 0, 0, 0][..], &genesis(), &TOTEM].concat(),
            [&[4, 0, 0, 0][..], &later].concat(),
        ];
        for head in heads {
            let known = read(&head).expect("a head");
            assert_eq!(known.beginning_with(known.first_block), Some(head.clone()));
            let moved = read(&known.beginning_with(500).expect("a head")).expect("a head");
            assert_eq!((moved.first_block, moved.chain_id), (500, known.chain_id));
            assert_eq!(moved.version, known.version.max(2));
        }
        let pruned = read(&[&[3, 0, 0, 0x80, 1, 0, 0, 0][..], &genesis(), &TOTEM].concat()).expect("a head");
        let whole = read(&pruned.beginning_with(1).expect("a head")).expect("a head");
        assert_eq!((whole.pruned, whole.chain_id), (false, pruned.chain_id));
        let partial = read(&[&[3, 0, 0, 0][..], &later].concat()).expect("a head");
        assert_eq!(partial.beginning_with(1), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let why = |bytes: &[u8]| read(bytes).expect_err("refused").to_string();
        assert!(why(&[5, 0, 0, 0, 1, 0, 0, 0]).contains("version 5 does not exist"));
        assert!(why(&[3, 0, 0, 0, 0, 0, 0, 0]).contains("there is no block 0"));
        let no_totem = [&[3, 0, 0, 0, 9, 0, 0, 0][..], &[7; 32], &[0; 8]].concat();
        assert!(why(&no_totem).contains("its end mark is missing"));
        let odd_key = [&[1, 0, 0, 0][..], &[1; 8], &[9], &[2; 200]].concat();
        assert!(why(&odd_key).contains("a key of type 9 does not exist"));
    }
}
