//! Ranges of keys: the units of work of threads, and of scans that skip unreadable data.

use std::collections::BTreeMap;

use super::DataFile;

/// About how many bytes of files a range reads.
const RANGE_BYTES: u64 = 32 << 20;

/// The least of them.
const LEAST_BYTES: u64 = 1 << 20;

/// Ranges for each thread of a small database.
const PARTS: u64 = 8;

/// Parts of a file of level 0 for each range of its size.
const GRAINS: u64 = 8;

/// Steps in a part, and those between the cuts of two files of level 0.
const STEPS: u64 = 1024;
const SHIFT: u64 = 633;

/// The most ranges. Larger databases have larger ranges.
const MAX_RANGES: u64 = 4096;

/// So many overlapping files may be read for each range. With more of them there are fewer ranges, so the work stays linear.
const MAX_OVERLAP: u64 = 16;

/// The keys from `from` (or the first) up to `to` (or the last), without `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
}

/// Cuts the key space into ranges for as many threads. The ranges cover every possible key once.
pub(crate) fn ranges(files: &[&DataFile], is_reversed: bool, threads: usize) -> Vec<KeyRange> {
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let overlap = files.iter().filter(|file| file.level == 0).count() as u64;
    let least = RANGE_BYTES.max(bytes / MAX_RANGES * overlap.div_ceil(MAX_OVERLAP).max(1));
    let target = least.min(bytes / (threads as u64 * PARTS).max(1)).max(LEAST_BYTES);
    sized_ranges(files, target, is_reversed).into_iter().map(|(range, _)| range).collect()
}

/// Cuts the key space into ranges of about `target` bytes of files, in the order of the comparator: of bytes, or the reverse.
/// Returns each range with its bytes.
pub(crate) fn sized_ranges(files: &[&DataFile], target: u64, is_reversed: bool) -> Vec<(KeyRange, u64)> {
    let mut cuts: Vec<(Vec<u8>, u64)> = cuts(files, target).into_iter().collect();
    if is_reversed {
        cuts.reverse();
    }
    let (mut sizes, mut kept) = (vec![0], Vec::new());
    for (key, bytes) in cuts {
        match sizes.last_mut() {
            Some(size) if *size < target => *size += bytes,
            _ => {
                sizes.push(bytes);
                kept.push(key);
            }
        }
    }
    between(kept).into_iter().zip(sizes).collect()
}

/// The first keys of files, and of parts of large files, each with the bytes that begin there. Files of level 0 may overlap: each
/// is cut into [`GRAINS`] times as many parts, at other places than those before it.
fn cuts(files: &[&DataFile], target: u64) -> BTreeMap<Vec<u8>, u64> {
    let mut cuts = BTreeMap::new();
    for (number, file) in (0..).zip(files) {
        // With a reverse order of keys, the smallest key is the last one in the order of bytes.
        let (low, high) = ((&file.smallest).min(&file.largest), (&file.smallest).max(&file.largest));
        let window = Window::between(low, high);
        let (grains, shift) = if file.level == 0 { (GRAINS, number * SHIFT % STEPS) } else { (1, 0) };
        let parts = if window.is_some() { (file.size * grains).div_ceil(target.max(1)).max(1) } else { 1 };
        for step in (0..parts).map(|part| part * STEPS + shift) {
            let inside = window.as_ref().filter(|_| step > 0);
            let key = inside.map_or_else(|| low.clone(), |window| window.key(window.part(step, parts * STEPS)));
            *cuts.entry(key).or_default() += file.size / parts;
        }
    }
    cuts
}

/// The ranges between cuts.
fn between(cuts: Vec<Vec<u8>>) -> Vec<KeyRange> {
    let froms = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
    let tos = cuts.iter().cloned().map(Some).chain(std::iter::once(None));
    froms.zip(tos).map(|(from, to)| KeyRange { from, to }).collect()
}

/// The range of `key` in the result of [`ranges`].
pub(crate) fn range_of(ranges: &[KeyRange], key: &[u8]) -> usize {
    ranges.partition_point(|range| range.to.as_deref().is_some_and(|to| to <= key))
}

/// The keys between two keys as numbers: the eight bytes after their common beginning. Keys are hashes, so the numbers
/// differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    prefix: Vec<u8>,
    pub low: u64,
    pub high: u64,
}

impl Window {
    pub fn between(low: &[u8], high: &[u8]) -> Option<Self> {
        let shared = low.iter().zip(high).take_while(|(low, high)| low == high).count();
        let number = |key: &[u8]| {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(key.iter().skip(shared)) {
                *to = *from;
            }
            u64::from_be_bytes(bytes)
        };
        let window = Self { prefix: low.get(..shared)?.to_vec(), low: number(low), high: number(high) };
        (window.low < window.high).then_some(window)
    }

    /// The number at `part` of `parts` between both ends.
    pub fn part(&self, part: u64, parts: u64) -> u64 {
        let offset = u128::from(self.high - self.low) * u128::from(part) / u128::from(parts.max(1));
        self.low + u64::try_from(offset).unwrap_or(u64::MAX)
    }

    pub fn key(&self, number: u64) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key.extend(number.to_be_bytes());
        key
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(smallest: Vec<u8>, largest: Vec<u8>, size: u64) -> DataFile {
        DataFile {
            family: "default".into(),
            path: "x.sst".into(),
            level: 6,
            size,
            smallest,
            largest,
            counts: Default::default(),
        }
    }

    proptest! {
        #[test]
        fn ranges_cover_every_key_once(
            ends in proptest::collection::vec((proptest::collection::vec(0u8.., 0..12), proptest::collection::vec(0u8.., 0..12), 0u64..1 << 29), 0..6),
            key in proptest::collection::vec(0u8.., 0..14),
        ) {
            let files: Vec<DataFile> = ends
                .into_iter()
                .map(|(a, b, size)| file(a.clone().min(b.clone()), a.max(b), size))
                .collect();
            let ranges = ranges(&files.iter().collect::<Vec<_>>(), false, 2);
            let holding: Vec<usize> = (0..ranges.len())
                .filter(|&index| {
                    ranges[index].from.as_ref().is_none_or(|from| from <= &key)
                        && ranges[index].to.as_ref().is_none_or(|to| &key < to)
                })
                .collect();
            prop_assert_eq!(holding, vec![range_of(&ranges, &key)]);
        }

        #[test]
        fn numbers_keep_the_order_of_keys(
            low in proptest::collection::vec(0u8.., 0..12),
            high in proptest::collection::vec(0u8.., 0..12),
            part in 1u64..100,
        ) {
            if let Some(window) = Window::between(&low, &high) {
                prop_assert!(low < high);
                prop_assert!(window.key(window.part(part, 100)) >= low[..low.len().min(8)].to_vec());
                prop_assert!(window.key(window.part(part, 100))[..] < [&high[..], &[0xff; 9]].concat()[..]);
            }
        }
    }

    #[test]
    fn large_file_is_divided_equally() {
        let file = file(vec![1, 0x71, 0], vec![1, 0x71, 0x80], PARTS * RANGE_BYTES);
        let cuts: Vec<_> = ranges(&[&file], false, 1).into_iter().filter_map(|range| range.from).collect();
        let expected: Vec<_> = (1..8).map(|part| vec![1, 0x71, part * 0x10, 0, 0, 0, 0, 0, 0, 0]).collect();
        assert_eq!(cuts, expected);
    }

    /// Each range reads all of the files.
    #[test]
    fn many_overlapping_files_make_few_ranges() {
        for count in [16, 300, 3000] {
            let file = DataFile { level: 0, ..file(vec![0], vec![0xFF], 4 << 20) };
            let ranges = ranges(&vec![&file; count], false, 2);
            assert!(ranges.len() * count <= 2 * (MAX_RANGES * MAX_OVERLAP) as usize, "{count}: {}", ranges.len());
            assert!(ranges.len() >= 4, "{count}: {}", ranges.len());
        }
    }

    /// All files of level 0 may have keys from the whole key space.
    #[test]
    fn overlapping_files_are_divided_equally() {
        let of_level_0 = |low| DataFile { level: 0, ..file(vec![0, low], vec![0xFF], RANGE_BYTES) };
        let files: Vec<_> = (0..34).map(of_level_0).collect();
        let ranges = sized_ranges(&files.iter().collect::<Vec<_>>(), RANGE_BYTES, false);
        assert!((30..=36).contains(&ranges.len()), "{} ranges", ranges.len());
        assert!(ranges.iter().all(|(_, bytes)| *bytes <= 2 * RANGE_BYTES), "{ranges:?}");
        let width = |(range, _): &(KeyRange, u64)| {
            let number = |key: &Option<Vec<u8>>, end| {
                key.as_ref().map_or(end, |key| i32::from(key.first().copied().unwrap_or_default()))
            };
            number(&range.to, 256) - number(&range.from, 0)
        };
        assert!(ranges.iter().all(|range| (4..=16).contains(&width(range))), "{ranges:?}");
    }

    #[test]
    fn without_files_one_range_holds_everything() {
        assert_eq!(ranges(&[], false, 2), [KeyRange { from: None, to: None }]);
    }
}
