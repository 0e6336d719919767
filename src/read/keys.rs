//! Keys: their text, their parts, and the failed ones among their claims.

use data_encoding::HEXLOWER;

use crate::hash::{Checker, Claim, Failure};
use crate::sort::key::KeyLayout;
use crate::source::car::{CidSpan, RawCid, read_cid};

/// Formats a key as text.
pub(super) fn key_text(layout: KeyLayout, key: &[u8]) -> String {
    if layout == KeyLayout::Cid { cid_text(key) } else { HEXLOWER.encode(key) }
}

/// Formats a CID as text; as hex if it is none.
pub(super) fn cid_text(cid: &[u8]) -> String {
    RawCid::from_bytes(cid).map_or_else(|_| HEXLOWER.encode(cid), |cid| cid.to_string())
}

/// Returns the parts of bytes that are one complete CID.
pub(crate) fn whole_cid(bytes: &[u8]) -> Option<CidSpan> {
    read_cid(bytes).ok().flatten().filter(|span| span.len as usize == bytes.len())
}

/// Returns code and digest of bytes that are one complete multihash.
pub(crate) fn read_multihash(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (code, rest) = unsigned_varint::decode::u64(bytes).ok()?;
    let (length, digest) = unsigned_varint::decode::u64(rest).ok()?;
    (length == digest.len() as u64).then_some((code, digest))
}

/// Checks all claims and passes each failed one with its number.
pub(super) fn each_failure(checker: &mut Checker, claims: &[Claim<'_>], mut failed: impl FnMut(usize, &Failure)) {
    let mut from = 0;
    while let Err(failure) = checker.check(claims.get(from..).unwrap_or_default()) {
        failed(from + failure.index, &failure);
        from += failure.index + 1;
    }
}
