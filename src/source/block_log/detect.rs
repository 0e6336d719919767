//! Detection of block logs by their first bytes.
//!
//! No CAR begins like a block log. An Antelope log begins with a version of 1 to 4, one of Steem or Hive with a block
//! number (big-endian, first byte below 17 until 2040) or a zstd frame whose first byte is zero. A CAR begins with the
//! length of its header, which is at least 17.

use super::{Framing, LogProblem, preamble};
use crate::blocks::chain::Header;

pub(crate) const PEEK: usize = 64 << 10;

/// The first byte of the shortest header that a CAR can have.
const LEAST_CAR: u8 = 17;

/// 2016-01-01 in milliseconds since 1970: no chain of this kind is older.
const OLDEST_MS: i64 = 1_451_606_400_000;

/// Checks that the first block is not older than all chains.
pub(super) fn check_age(framing: Framing, first: &Header) -> Result<(), LogProblem> {
    if framing == Framing::Graphene && first.timestamp_ms < OLDEST_MS {
        return Err(LogProblem::NotALog { reason: "its first block has an impossible time".into() });
    }
    Ok(())
}

/// True if a source that begins with `bytes` is a block log. `ends`: the source has no more bytes.
pub(crate) fn is_block_log(bytes: &[u8], ends: bool) -> bool {
    if preamble::is_antelope(bytes) {
        return true;
    }
    if bytes.first().is_none_or(|&byte| byte >= LEAST_CAR) {
        return false;
    }
    if Framing::Graphene.header(bytes).is_ok_and(|header| check_age(Framing::Graphene, &header).is_ok()) {
        return true;
    }
    // A compressed first block may be longer than `bytes`.
    Framing::Graphene.begins_packed(bytes).unwrap_or(!ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_are_no_log() {
        let nothing = vec![0; PEEK];
        for bytes in [
            &b""[..],
            b"\0",
            b"<html>",
            b"\x3a\xa2\x65roots",
            b"\x28\xb5\x2f\xfd",
            &[1; 40],
            &[5, 0, 0, 0],
            &nothing[..],
        ] {
            let head = bytes.get(..40).unwrap_or(bytes);
            assert!(!is_block_log(bytes, bytes.len() < PEEK), "{head:x?}");
        }
        assert!(is_block_log(&[3, 0, 0, 0, 1, 0, 0, 0], true));
    }
}
