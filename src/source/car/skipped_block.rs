//! A block that is in no chunk. It is read, hashed and counted in pieces, so its length has no limit.

use serde::{Deserialize, Serialize};

use super::{CidSpan, RawCid, read_cid, varint};
use crate::failpoint;
use crate::hash::{Claim, Failure, FailureKind, HashProblem, Streaming, problem_of};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkippedCount {
    pub cid: String,
    /// Sections with the block.
    pub blocks: u64,
    pub bytes: u64,
}

pub(crate) struct SkippedBlock {
    pub cid: RawCid,
    span: CidSpan,
    verify: bool,
    pub count: SkippedCount,
}

/// The next section, compared with the CID of the skipped block.
pub(crate) enum NextSection {
    Other,
    /// The bytes end inside what may be its CID.
    Cut,
    /// The skipped block: bytes before it, and of its whole section.
    Skipped {
        head: usize,
        total: u64,
    },
}

pub(crate) struct SkipState {
    hash: Option<Streaming>,
    bytes: u64,
}

impl SkippedBlock {
    /// Returns `None` for a CID that contains its block: there is nothing to skip.
    pub fn new(cid: RawCid, verify: bool) -> Option<Self> {
        let span = read_cid(cid.as_bytes()).ok().flatten().filter(|span| span.hash != 0)?;
        let count = SkippedCount { cid: cid.to_string(), ..SkippedCount::default() };
        Some(Self { cid, span, verify, count })
    }

    /// Compares the section at the front of `bytes`.
    pub fn is_next(&self, bytes: &[u8]) -> NextSection {
        let Ok(Some((len, len_bytes))) = varint::read(bytes, "a section's length") else { return NextSection::Other };
        let (cid, body) = (self.cid.as_bytes(), &bytes[len_bytes..]);
        if len < cid.len() as u64 || !cid.starts_with(&body[..body.len().min(cid.len())]) {
            return NextSection::Other;
        }
        match (body.len() < cid.len(), len.checked_add(len_bytes as u64)) {
            (true, _) => NextSection::Cut,
            (false, Some(total)) => NextSection::Skipped { head: len_bytes + cid.len(), total },
            (false, None) => NextSection::Other,
        }
    }

    pub fn begin(&self) -> SkipState {
        let hash = if self.verify { Streaming::new(self.span.hash) } else { None };
        SkipState { hash, bytes: 0 }
    }

    /// Verifies the hash of a whole block, and counts it.
    pub fn end(&mut self, state: SkipState) -> Result<(), HashProblem> {
        let SkipState { hash, bytes } = state;
        if self.verify {
            matches(&self.cid, &self.span, hash)?;
        }
        self.count.blocks += 1;
        self.count.bytes += bytes;
        Ok(())
    }
}

impl SkipState {
    pub fn write(&mut self, piece: &[u8]) {
        failpoint::reach("f3-piece");
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
        self.bytes += piece.len() as u64;
    }
}

/// Compares `hash` with the digest of `cid`. `None`: the function cannot be computed in pieces.
fn matches(cid: &RawCid, span: &CidSpan, hash: Option<Streaming>) -> Result<(), HashProblem> {
    let digest = cid.as_bytes().get(span.digest as usize..).unwrap_or_default();
    let function = crate::hash::Function::from_code(span.hash);
    let kind = match hash.zip(function) {
        None => FailureKind::UnknownFunction,
        Some((_, function)) if !function.digest_lengths().contains(&digest.len()) => {
            FailureKind::DigestLength { function }
        }
        Some((hash, _)) => {
            let mut actual = hash.finish(digest.len());
            actual.truncate(digest.len());
            if actual == digest {
                return Ok(());
            }
            FailureKind::Mismatch { actual }
        }
    };
    let claim = Claim { code: span.hash, digest, data: &[] };
    Err(problem_of(cid.as_bytes(), &claim, &Failure { index: 0, kind }))
}

// The metadata of a Filecoin snapshot of version 2 (FRC-0108).
//
// Such a snapshot has one root, whose block comes first: a dag-cbor map of `Version`, `HeadTipsetKey` (the head's headers)
// and `F3Data` (one raw block of any size, or null), see
// <https://github.com/filecoin-project/FIPs/blob/master/FRCs/frc-0108.md>.
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
