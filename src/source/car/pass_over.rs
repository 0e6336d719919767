//! A block that is in no chunk: read, hashed and counted in pieces, however long it is.

use serde::{Deserialize, Serialize};

use super::{CarProblem, CidSpan, RawCid, read_cid, varint};
use crate::error::Cause;
use crate::failpoint;
use crate::hash::{Claim, Failure, FailureKind, Streaming, problem_of};

/// What has been passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Passed {
    /// The CID of the block.
    pub cid: String,
    /// Sections with the block.
    pub blocks: u64,
    /// Bytes of the block in them.
    pub bytes: u64,
}

/// The block that is passed over.
pub(crate) struct PassOver {
    pub cid: RawCid,
    span: CidSpan,
    verify: bool,
    pub passed: Passed,
}

/// Whether the next section is the one.
pub(crate) enum Next {
    Another,
    /// The bytes end inside what may be its CID.
    Cut,
    /// It is.
    This(Place),
}

/// Where the block is in its section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Bytes before the block.
    pub head: usize,
    /// Bytes of the whole section.
    pub total: u64,
}

/// A block on its way.
pub(crate) struct Passing {
    hash: Option<Streaming>,
    bytes: u64,
}

impl PassOver {
    /// `None` for a CID that holds its block: there is nothing to pass over.
    pub fn new(cid: RawCid, verify: bool) -> Option<Self> {
        let span = read_cid(cid.as_bytes()).ok().flatten().filter(|span| span.hash != 0)?;
        let passed = Passed { cid: cid.to_string(), ..Passed::default() };
        Some(Self { cid, span, verify, passed })
    }

    /// Looks at the section at the front of `bytes`.
    pub fn is_next(&self, bytes: &[u8]) -> Next {
        let Ok(Some((len, len_bytes))) = varint::read(bytes, "a section's length") else { return Next::Another };
        let (cid, body) = (self.cid.as_bytes(), &bytes[len_bytes..]);
        if len < cid.len() as u64 || !cid.starts_with(&body[..body.len().min(cid.len())]) {
            return Next::Another;
        }
        match (body.len() < cid.len(), len.checked_add(len_bytes as u64)) {
            (true, _) => Next::Cut,
            (false, Some(total)) => Next::This(Place { head: len_bytes + cid.len(), total }),
            (false, None) => Next::Another,
        }
    }

    /// A block begins.
    pub fn begin(&self) -> Passing {
        let hash = if self.verify { Streaming::new(self.span.hash) } else { None };
        Passing { hash, bytes: 0 }
    }

    /// Counts a whole block.
    ///
    /// # Errors
    /// The block does not match its CID.
    pub fn end(&mut self, passing: Passing) -> Result<(), Cause> {
        let Passing { hash, bytes } = passing;
        if self.verify {
            matches(&self.cid, hash)?;
        }
        self.passed.blocks += 1;
        self.passed.bytes += bytes;
        Ok(())
    }
}

impl Passing {
    /// Adds the next piece.
    pub fn write(&mut self, piece: &[u8]) {
        failpoint::reach("f3-piece");
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
        self.bytes += piece.len() as u64;
    }
}

/// Whether `hash` is the one that `cid` names; `None` is that of a function which is not computed in pieces.
fn matches(cid: &RawCid, hash: Option<Streaming>) -> Result<(), Cause> {
    let Ok(Some(span)) = read_cid(cid.as_bytes()) else { return Err(CarProblem::CidVersion { version: 0 }.into()) };
    let digest = cid.as_bytes().get(span.digest as usize..).unwrap_or_default();
    let function = crate::hash::Function::from_code(span.hash);
    let kind = match (hash, function) {
        (Some(_), Some(function)) if !function.digest_lengths().contains(&digest.len()) => {
            FailureKind::DigestLength { function }
        }
        (Some(hash), _) => {
            let mut actual = hash.finish(digest.len());
            actual.truncate(digest.len());
            if actual == digest {
                return Ok(());
            }
            FailureKind::Mismatch { actual }
        }
        (None, _) => FailureKind::UnknownFunction,
    };
    let claim = Claim { code: span.hash, digest, data: &[] };
    Err(problem_of(cid.as_bytes(), &claim, &Failure { index: 0, kind }).into())
}
