//! Functions that append parts of blocks.

use super::super::random::{Noise, mix};

pub(super) fn varint(out: &mut Vec<u8>, value: usize) {
    let mut buffer = unsigned_varint::encode::usize_buffer();
    out.extend_from_slice(unsigned_varint::encode::usize(value, &mut buffer));
}

/// Appends a length and bytes.
pub(super) fn text(out: &mut Vec<u8>, bytes: impl AsRef<[u8]>) {
    varint(out, bytes.as_ref().len());
    out.extend_from_slice(bytes.as_ref());
}

pub(super) fn random(out: &mut Vec<u8>, len: usize, noise: &mut Noise) {
    let at = out.len();
    out.resize(at + len, 0);
    noise.fill(&mut out[at..]);
}

/// Appends random bytes in the form of a compact, recoverable signature: 65 bytes.
pub(super) fn signature(out: &mut Vec<u8>, noise: &mut Noise) {
    out.push(31 + noise.below(2) as u8);
    random(out, 64, noise);
}

/// Appends random bytes in the form of a compressed public key: 33 bytes.
pub(super) fn key(out: &mut Vec<u8>, noise: &mut Noise) {
    out.push(2 + noise.below(2) as u8);
    random(out, 32, noise);
}

/// Appends a reference to one of the last blocks: the low half of its number, and four bytes that are not of its id.
pub(super) fn reference(out: &mut Vec<u8>, block: u64, noise: &mut Noise) {
    let referred = block.saturating_sub(1 + noise.below(20));
    out.extend((referred as u16).to_le_bytes());
    out.extend((mix(referred) as u32).to_le_bytes());
}
