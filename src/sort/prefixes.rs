//! Sorting records by eight bytes of their keys at a time.

/// The place of a record, with eight bytes of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordEntry {
    pub prefix: u64,
    pub at: u32,
    pub family: u16,
    pub chunk: u16,
}

/// The eight bytes of a key after `skip`, as a number in the order of keys; zeros follow a short key.
pub fn prefix(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The number of bytes that two keys share at their front.
pub fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Sets the prefixes of entries to the bytes after those that all keys share, at least after `least`. Returns their offset.
pub fn take_prefixes<'k>(entries: &mut [RecordEntry], least: usize, key: impl Fn(&RecordEntry) -> &'k [u8]) -> usize {
    let first = entries.first().map_or(&[][..], &key);
    let skip = entries.iter().fold(first.len(), |least, entry| shared(&first[..least], key(entry))).max(least);
    entries.iter_mut().for_each(|entry| entry.prefix = prefix(key(entry), skip));
    skip
}

/// Sorts entries, whose prefixes are the bytes after `skip`, by their keys. Entries with equal keys keep their order.
///
/// Only prefixes are compared: a key may be in a file that another program changes meanwhile, and a sort may panic if comparisons
/// contradict each other.
pub fn sort_by_keys<'k>(entries: &mut [RecordEntry], skip: usize, key: impl Fn(&RecordEntry) -> &'k [u8]) {
    let mut unsorted = vec![(0, entries.len(), skip)];
    while let Some((mut start, end, skip)) = unsorted.pop() {
        entries[start..end].sort_by_key(|entry| entry.prefix);
        for same in entries[start..end].chunk_by_mut(|a, b| a.prefix == b.prefix) {
            let next = start + same.len();
            if same.len() > 1 {
                // Keys that end among these bytes come first, in the order of their lengths.
                let ends = skip + 9;
                same.iter_mut().for_each(|entry| entry.prefix = key(entry).len().min(ends) as u64);
                same.sort_by_key(|entry| entry.prefix);
                let longer = same.partition_point(|entry| entry.prefix < ends as u64);
                if next - start > longer + 1 {
                    let skip = take_prefixes(&mut same[longer..], skip + 8, &key);
                    unsorted.push((start + longer, next, skip));
                }
            }
            start = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(count: usize) -> Vec<RecordEntry> {
        (0..count as u32).map(|at| RecordEntry { prefix: 0, at, family: 0, chunk: 0 }).collect()
    }

    proptest! {
        #[test]
        fn entries_are_sorted_as_a_stable_sort_would(
            keys in prop::collection::vec(prop_oneof![
                prop::collection::vec(0u8..2, 0..30),
                prop::collection::vec(any::<u8>(), 0..9),
                (0usize..40).prop_map(|len| vec![0; len]),
                (0usize..3, 0u8..3).prop_map(|(len, last)| [vec![7; 14 + len], vec![last]].concat()),
            ], 0..200)
        ) {
            let mut found = entries(keys.len());
            let key = |entry: &RecordEntry| keys[entry.at as usize].as_slice();
            let skip = take_prefixes(&mut found, 0, key);
            sort_by_keys(&mut found, skip, key);
            let mut expected = entries(keys.len());
            expected.sort_by_key(key);
            let places = |entries: &[RecordEntry]| entries.iter().map(|entry| entry.at).collect::<Vec<_>>();
            prop_assert_eq!(places(&found), places(&expected));
        }
    }

    /// As if another program changed the file that has them.
    #[test]
    fn keys_that_change_meanwhile_do_not_panic() {
        for seed in 0..300_usize {
            let mut found = entries(500);
            let calls = std::cell::Cell::new(seed);
            let noise: Vec<u8> = (0..64).map(|at| (at * 7 % 3) as u8).collect();
            let key = |_: &RecordEntry| {
                calls.set(calls.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                let at = calls.get() >> 33;
                &noise[at % 5..at % 5 + (at >> 8) % 50]
            };
            let skip = take_prefixes(&mut found, 0, key);
            sort_by_keys(&mut found, skip, key);
            found.sort_by_key(|entry| entry.at);
            assert!(found.iter().map(|entry| entry.at).eq(0..500));
        }
    }
}
