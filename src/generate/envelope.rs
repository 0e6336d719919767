//! What stands before the first section of a generated file.
//!
//! ```text
//! CARv1   varint length | {"roots": [link, ..], "version": 1}
//! CARv2   0a a1 67 "version" 02 | 16 bytes characteristics | u64 data offset | u64 data size | u64 index offset (0)
//! ```
//!
//! Integers of CARv2 are little-endian; a whole CARv1 follows. Specifications:
//! <https://ipld.io/specs/transport/car/carv1/>, <https://ipld.io/specs/transport/car/carv2/>.
//!
//! The length depends on the number of roots only, so it can be written before they are known and once more after.

use crate::source::forest::stored_frame;

use super::Format;
use super::cbor::{self, Name};

const PRAGMA: [u8; 11] = *b"\x0a\xa1\x67version\x02";
const V2_LEN: usize = PRAGMA.len() + 16 + 3 * 8;

/// The header of a CARv1.
pub(super) fn car_header(roots: &[Name]) -> Vec<u8> {
    let mut map = Vec::new();
    cbor::head(&mut map, cbor::MAP, 2);
    cbor::head(&mut map, cbor::TEXT, 5);
    map.extend_from_slice(b"roots");
    cbor::head(&mut map, cbor::ARRAY, roots.len() as u64);
    roots.iter().for_each(|root| cbor::link(&mut map, root));
    cbor::head(&mut map, cbor::TEXT, 7);
    map.extend_from_slice(b"version");
    cbor::head(&mut map, cbor::UINT, 1);

    let mut header = unsigned_varint::encode::usize(map.len(), &mut unsigned_varint::encode::usize_buffer()).to_vec();
    header.extend_from_slice(&map);
    header
}

/// Everything before the first section; `car_bytes` is the length of the whole CARv1.
pub(super) fn prelude(format: Format, roots: &[Name], car_bytes: u64) -> Vec<u8> {
    let header = car_header(roots);
    match format {
        Format::Car => header,
        Format::CarV2 => {
            let mut prelude = Vec::with_capacity(V2_LEN + header.len());
            prelude.extend_from_slice(&PRAGMA);
            prelude.extend_from_slice(&[0; 16]);
            for field in [V2_LEN as u64, car_bytes, 0] {
                prelude.extend_from_slice(&field.to_le_bytes());
            }
            prelude.extend_from_slice(&header);
            prelude
        }
        Format::CarZst => stored_frame(&header, true),
        Format::ForestCarZst => stored_frame(&header, false),
    }
}
