//! Keys of the scratch database of a spilled import: the key of a record, and then its place in the sources. They are in the
//! order of keys, and then of places, and each occurs once.
//!
//! ```text
//! key with each 00 as 00 FF, 00 00, u64 place (big-endian): 16 bits of the source, 48 bits of the offset in it
//! ```

/// The largest offset that fits a place.
pub(crate) const MAX_OFFSET: u64 = (1 << 48) - 1;

const ESCAPED: [u8; 2] = [0, 0xFF];
const END: [u8; 2] = [0, 0];

/// The place of a record: its source, and its offset there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub source: u16,
    pub offset: u64,
}

/// Appends the key of the scratch database to `to`.
pub(crate) fn put_placed_key(to: &mut Vec<u8>, key: &[u8], place: Place) {
    for (at, part) in key.split(|byte| *byte == 0).enumerate() {
        if at > 0 {
            to.extend(ESCAPED);
        }
        to.extend_from_slice(part);
    }
    to.extend(END);
    to.extend((u64::from(place.source) << 48 | place.offset.min(MAX_OFFSET)).to_be_bytes());
}

/// Appends the key of a record to `to`, and returns its place. `None` if it is no key of a scratch database.
pub(crate) fn take_placed_key(placed: &[u8], to: &mut Vec<u8>) -> Option<Place> {
    let (escaped, place) = placed.split_last_chunk()?;
    let mut rest = escaped.strip_suffix(&END)?;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        to.extend_from_slice(rest.get(..=at)?);
        rest = rest.get(at..)?.strip_prefix(&ESCAPED)?;
    }
    to.extend_from_slice(rest);
    let place = u64::from_be_bytes(*place);
    Some(Place { source: (place >> 48) as u16, offset: place & MAX_OFFSET })
}

/// Returns the least key of the scratch database for records from `key` on.
pub(crate) fn first_placed_key(key: &[u8]) -> Vec<u8> {
    let mut placed = Vec::new();
    put_placed_key(&mut placed, key, Place::default());
    placed.truncate(placed.len() - size_of::<u64>());
    placed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(key: &[u8], source: u16, offset: u64) -> Vec<u8> {
        let mut to = Vec::new();
        put_placed_key(&mut to, key, Place { source, offset });
        to
    }

    proptest! {
        #[test]
        fn placed_keys_keep_order_and_place(
            a in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF)], 0..6),
            b in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF)], 0..6),
            source: u16, first in 0..=MAX_OFFSET, second in 0..=MAX_OFFSET,
        ) {
            let (left, right) = (placed(&a, source, first), placed(&b, source, second));
            prop_assert_eq!(left.cmp(&right), (&a, first).cmp(&(&b, second)));
            prop_assert!(first_placed_key(&a) < left && (a >= b || left < first_placed_key(&b)));
            let mut key = Vec::new();
            prop_assert_eq!(take_placed_key(&left, &mut key), Some(Place { source, offset: first }));
            prop_assert_eq!(key, a);
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let valid = placed(b"a\0b", 1, 2);
        for wrong in [&valid[1..3], &valid[..valid.len() - 9], b"", &[&[0, 1][..], &valid].concat()] {
            assert_eq!(take_placed_key(wrong, &mut Vec::new()), None, "{wrong:?}");
        }
    }
}
