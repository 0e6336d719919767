//! Detection of block logs by their first bytes.
//!
//! No CAR begins as a block log does: an Antelope log begins with a version of 1 to 4, one of Steem or Hive with the
//! number of a block (big-endian, its first byte below 17 until the year 2040) or with a zstd frame whose first byte is
//! zero; the header of a CAR has at least 17 bytes and says so first.

use super::framing::Framing;
use super::preamble;
use crate::blocks::chain::Header;

/// Bytes that are examined.
pub(crate) const PEEK: usize = 64 << 10;

/// The first byte of the shortest header that a CAR can have.
const LEAST_CAR: u8 = 17;

/// 2016-01-01 in milliseconds since 1970: no chain of this kind is older.
const OLDEST_MS: i64 = 1_451_606_400_000;

/// True if the block's time is not before the first chain.
pub(super) fn is_old_enough(header: &Header) -> bool {
    header.timestamp_ms >= OLDEST_MS
}

/// True if what begins with `bytes` is a block log; `ends` says that these are all.
pub(crate) fn is_block_log(bytes: &[u8], ends: bool) -> bool {
    if preamble::is_antelope(bytes) {
        return true;
    }
    if bytes.first().is_none_or(|&byte| byte >= LEAST_CAR) {
        return false;
    }
    if Framing::Graphene.header(bytes).is_ok_and(|header| is_old_enough(&header)) {
        return true;
    }
    // A packed first block may be longer than the probe.
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
