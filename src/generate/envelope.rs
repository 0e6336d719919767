//! The bytes before the first section of a generated file.
//!
//! ```text
//! CARv1   varint length | {"roots": [link, ..], "version": 1}
//! CARv2   0a a1 67 "version" 02 | 16 bytes characteristics | u64 data offset | u64 data size | u64 index offset (0)
//! ```
//!
//! Integers of CARv2 are little-endian; a whole CARv1 follows. Specifications:
//! <https://ipld.io/specs/transport/car/carv1/>, <https://ipld.io/specs/transport/car/carv2/>.
//!
//! The length depends only on the number of roots, so the bytes can be written before the roots are known, and again
//! after.

use cid::Cid;

use super::Format;
use crate::source::car::header_bytes;
use crate::source::forest::stored_frame;

const PRAGMA: [u8; 11] = *b"\x0a\xa1\x67version\x02";
const V2_LEN: usize = PRAGMA.len() + 16 + 3 * 8;

pub(super) fn car_header(roots: &[Cid]) -> Vec<u8> {
    let roots: Vec<_> = roots.iter().map(Cid::to_bytes).collect();
    header_bytes(roots.iter().map(Vec::as_slice))
}

/// Everything before the first section; `car_bytes` is the length of the whole CARv1.
pub(super) fn prelude(format: Format, roots: &[Cid], car_bytes: u64) -> Vec<u8> {
    let header = car_header(roots);
    match format {
        Format::Car => header,
        Format::CarV2 => {
            let fields = [V2_LEN as u64, car_bytes, 0].map(u64::to_le_bytes).concat();
            [&PRAGMA[..], &[0; 16], &fields, &header].concat()
        }
        Format::CarZst => stored_frame(&header, true),
        Format::ForestCarZst => stored_frame(&header, false),
    }
}
