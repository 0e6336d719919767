use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

fn section(digest: &[u8], data: &[u8]) -> Vec<u8> {
    let mut cid = vec![1, 0x55, 0x00];
    cid.extend(unsigned_varint::encode::usize(digest.len(), &mut unsigned_varint::encode::usize_buffer()));
    cid.extend(digest);
    let mut buffer = unsigned_varint::encode::usize_buffer();
    let len = unsigned_varint::encode::usize(cid.len() + data.len(), &mut buffer);
    [len, &cid, data].concat()
}

/// A digest and a block's bytes.
type Pair = (Vec<u8>, Vec<u8>);

/// A partition of `blocks`, in which zeros follow each section unless it is `cached`.
fn spill_of(dir: &std::path::Path, blocks: &[Pair], cached: bool) -> Spill {
    let spill = Spill::new(dir.to_owned(), 1).with_page_cache(cached, 1 << 20, 1).expect("threads");
    for (digest, data) in blocks {
        let whole = [&digest[..], data].concat();
        let content = Content { records: 1, digest: KEY.of_section(&whole, digest.len()) };
        spill.append(0, &section(digest, data), content, &[]).expect("room");
    }
    spill
}

static KEY: LazyLock<DigestKey> = LazyLock::new(|| DigestKey::new([7; 32]));

fn runs(spill: &Spill, memory: usize, max_section: u64) -> Runs<'_> {
    Runs { spill, partition: 0, layout: KeyLayout::Digest, key: Some(&KEY), memory, max_section }
}

/// Sorts `blocks` outside of memory: the records in the order they come, and how many runs there were at first.
fn sorted(blocks: &[Pair], memory: usize) -> (Vec<Pair>, usize) {
    let (direct, _) = sorted_of(blocks, memory, false);
    assert!(direct.is_sorted_by_key(|(key, _)| key), "out of order where they bypass the page cache");
    let (cached, runs) = sorted_of(blocks, memory, true);
    // Blocks of one key come in any order.
    let ordered = |mut records: Vec<Pair>| {
        records.sort();
        records
    };
    assert!(ordered(direct) == ordered(cached.clone()), "other records where they bypass the page cache");
    (cached, runs)
}

fn sorted_of(blocks: &[Pair], memory: usize, cached: bool) -> (Vec<Pair>, usize) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spill = spill_of(dir.path(), blocks, cached);
    let runs = runs(&spill, memory, u64::MAX);
    let first_runs = runs.write_runs().expect("room");
    let count = first_runs.len();
    delete(&first_runs).expect("they are there");
    let mut found = Vec::new();
    let take = |record: Record<'_>, source| {
        assert_eq!(source, 0);
        found.push((record.key().to_vec(), record.value().to_vec()));
        Ok(())
    };
    runs.sorted(take).expect("valid data");
    let left: Vec<_> = dir.path().read_dir().expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty() || left == ["00000.part"], "runs are left: {left:?}");
    (found, count)
}

#[test]
fn many_runs_are_merged_in_order() {
    let block = |i: u64| {
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        (key.to_vec(), vec![i as u8; 1000])
    };
    // Runs of 16 KiB: a MiB and a half makes about a hundred of them.
    let mut blocks: Vec<_> = (0..1500).map(block).collect();
    blocks.extend((0..1500).step_by(7).map(block));
    let (found, runs) = sorted(&blocks, 16 << 10);
    assert!(runs > 2 * FAN_IN, "only {runs} runs");
    blocks.sort();
    assert!(found == blocks, "not the blocks in order, duplicates included");
}

#[test]
fn oversized_section_is_its_own_run() {
    let blocks = vec![(vec![9], vec![1; 300_000]), (vec![2], vec![2; 10]), (vec![1], vec![3; 200_000])];
    let (found, _) = sorted(&blocks, 16 << 10);
    assert_eq!(found.iter().map(|(key, _)| key[0]).collect::<Vec<_>>(), [1, 2, 9]);
    assert_eq!(found.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(), [200_000, 10, 300_000]);
}

/// The bug: each reader of a merge held its large section, up to as many as runs are merged.
#[test]
fn readers_of_runs_hold_no_large_section() {
    let blocks: Vec<Pair> = (0..10u8).map(|i| (vec![i; 12], vec![i; 300_000])).collect();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spill = spill_of(dir.path(), &blocks, true);
    let runs = runs(&spill, 64 << 10, u64::MAX);
    let paths = runs.write_runs().expect("room");
    assert_eq!(paths.len(), blocks.len());
    for (path, (key, value)) in paths.iter().zip(&blocks) {
        let mut reader = RunReader::open(&runs, path, MIN_READ).expect("a run");
        assert_eq!(reader.advance().expect("a section").as_ref(), Some(key));
        let buffered = reader.front.capacity() + reader.file.capacity();
        assert!(buffered <= 2 * MIN_READ, "{buffered} bytes");
        let taken = reader.with_current(|_, record, _| {
            assert!(record.key() == key && record.value() == value);
            Ok(())
        });
        taken.expect("it is read when it is taken");
        assert_eq!(reader.advance().expect("the end"), None);
    }
}

#[test]
fn flipped_bit_in_a_partition_is_refused() {
    let blocks: Vec<Pair> = (0..40u8).map(|i| (vec![i; 12], vec![i; 300 + usize::from(i) * 9])).collect();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spill = spill_of(dir.path(), &blocks, true);
    let path = dir.path().join("00000.part");
    let bytes = std::fs::read(&path).expect("written");
    // The heads of sections in full, of the rest a part.
    for at in (0..bytes.len()).filter(|at| at % 31 == 0 || at % 300 < 20) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at * 3 % 8);
        std::fs::write(&path, &damaged).expect("damaged");
        let runs = runs(&spill, 4 << 10, 4096);
        let mut records = 0;
        let outcome = runs.sorted(|_, _| {
            records += 1;
            Ok(())
        });
        // Version, codec and hash function of a CID are no part of a bare digest's record.
        if let Err(error) = outcome {
            assert!(error.to_string().contains("is damaged: partition 0"), "{at}: {error}");
        } else {
            assert!(records == blocks.len() && [1, 2, 3].iter().any(|of| is_byte_of_cid(&bytes, at, *of)), "{at}");
        }
    }
}

#[test]
fn flipped_padding_bit_changes_no_record() {
    let blocks: Vec<Pair> = (0..4u8).map(|i| (vec![i; 12], vec![i; 300])).collect();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spill = spill_of(dir.path(), &blocks, false);
    let path = dir.path().join("00000.part");
    let bytes = std::fs::read(&path).expect("written");
    assert_eq!(bytes.len(), 4 * direct::BLOCK);
    let len = section(&blocks[0].0, &blocks[0].1).len();
    let mut refused = 0;
    for at in (0..bytes.len()).filter(|at| at % direct::BLOCK >= len && (at % direct::BLOCK == len || at % 501 == 0)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at * 3 % 8);
        std::fs::write(&path, &damaged).expect("damaged");
        let mut found = Vec::new();
        let outcome = runs(&spill, 64 << 10, 4096).sorted(|record, _| {
            found.push((record.key().to_vec(), record.value().to_vec()));
            Ok(())
        });
        match outcome {
            Ok(()) => assert!(found == blocks, "{at}"),
            Err(error) => {
                assert!(error.to_string().contains("is damaged: partition 0"), "{at}: {error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 4, "of the first zero behind each section");
}

/// True if byte `at` is the `of`-th byte of the CID, counted from 1, of a section of `bytes`.
fn is_byte_of_cid(bytes: &[u8], at: usize, of: usize) -> bool {
    let mut start = 0;
    while let Ok(Step::Section(section)) = next_section(bytes, start, u64::MAX) {
        if section.cid_start + of - 1 == at {
            return true;
        }
        start = section.end;
    }
    false
}

#[test]
fn a_partition_without_blocks_has_no_records() {
    assert_eq!(sorted(&[], 1 << 20), (Vec::new(), 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn records_come_in_key_order_whatever_the_memory(
        keys in prop::collection::vec(prop_oneof![
            prop::collection::vec(0u8..2, 0..12),
            prop::collection::vec(any::<u8>(), 0..40),
        ], 0..200),
        lengths in prop::collection::vec(prop_oneof![0usize..50, 0usize..5000], 200),
        memory in 2_000usize..200_000,
    ) {
        let data = |(index, key): (usize, Vec<u8>)| (key, vec![index as u8; lengths[index]]);
        let blocks: Vec<_> = keys.into_iter().enumerate().map(data).collect();
        let (found, _) = sorted(&blocks, memory);
        prop_assert!(found.is_sorted_by_key(|(key, _)| key));
        let count = |records: &[Pair]| {
            let mut counts = BTreeMap::new();
            for record in records {
                *counts.entry(record.clone()).or_insert(0) += 1;
            }
            counts
        };
        prop_assert!(count(&found) == count(&blocks), "other records than went in");
    }
}
