//! The heads of CBOR items, read and written. Links, dag-json and generated blocks need no more of the format.
//!
//! ```text
//! head = major type (3 bits) | value 0..=23, or 24..=27 and 1, 2, 4, 8 big-endian bytes
//! ```
//!
//! Specification: <https://www.rfc-editor.org/rfc/rfc8949>.

pub(crate) const UINT: u8 = 0;
pub(crate) const BYTES: u8 = 2;
pub(crate) const ARRAY: u8 = 4;

/// The tag of a link in dag-cbor.
pub(crate) const LINK_TAG: u64 = 42;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemHead {
    /// 0 unsigned, 1 negative, 2 bytes, 3 text, 4 list, 5 map, 6 tag, 7 other.
    pub major: u8,
    /// A value, a length or a count.
    pub value: u64,
    /// The lower five bits of the first byte: the form of the value.
    pub info: u8,
}

/// Reads the head of an item. `None` at the end, and for indefinite lengths, which dag-cbor does not have.
pub(crate) fn head(bytes: &[u8]) -> Option<(ItemHead, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (major, info) = (first >> 5, first & 0x1f);
    let (value, rest) = match info {
        0..24 => (u64::from(info), rest),
        24 => rest.split_first().map(|(&value, rest)| (u64::from(value), rest))?,
        25 => rest.split_first_chunk().map(|(value, rest)| (u64::from(u16::from_be_bytes(*value)), rest))?,
        26 => rest.split_first_chunk().map(|(value, rest)| (u64::from(u32::from_be_bytes(*value)), rest))?,
        27 => rest.split_first_chunk().map(|(value, rest)| (u64::from_be_bytes(*value), rest))?,
        _ => return None,
    };
    Some((ItemHead { major, value, info }, rest))
}

/// Returns the bytes of a string, and the bytes after it.
pub(crate) fn string(len: u64, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    rest.split_at_checked(usize::try_from(len).ok()?)
}

/// Appends the head of an item in its shortest form.
pub(crate) fn push_head(cbor: &mut Vec<u8>, major: u8, value: u64) {
    let (info, len) = match value {
        0..24 => (value as u8, 0),
        24..0x100 => (24, 1),
        0x100..0x1_0000 => (25, 2),
        0x1_0000..0x1_0000_0000 => (26, 4),
        _ => (27, 8),
    };
    cbor.push(major << 5 | info);
    cbor.extend_from_slice(&value.to_be_bytes()[8 - len..]);
}
