use crate::blocks::chain::Family;

use super::super::files::IndexKind;
use super::super::layouts::{index, partitions, pruned, split};
use super::super::*;
use super::generate;

/// The entries that the words at the end of each lead to, backwards from the end of a file.
fn walk(log: &[u8], preamble: usize, mask: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut end = log.len();
    while end > preamble {
        let word = u64::from_le_bytes(log[end - 8..end].try_into().expect("a word"));
        let start = (word & mask) as usize;
        found.push((word, log[start..end - 8].to_vec()));
        end = start;
    }
    assert_eq!(end, preamble);
    found.reverse();
    found
}

#[test]
fn index_words_match_the_log() {
    for (family, preamble) in [(Family::Steem, 0), (Family::Antelope, 126)] {
        let (log, entries, _) = generate(&LogSpec::new(family, 300 << 10));
        let words: Vec<u64> = walk(&log, preamble, u64::MAX).into_iter().map(|(word, _)| word).collect();
        let read: Vec<u64> = index(IndexKind::Words, &entries)
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
            .collect();
        assert_eq!(read, words);
    }
}

#[test]
fn artifact_has_head_words_and_ids() {
    let (_, entries, summary) = generate(&LogSpec::new(Family::Hive, 100 << 10));
    for (version, head, minor) in [(IndexKind::Artifacts1_0, 48, 0), (IndexKind::Artifacts1_1, 56, 1)] {
        let file = index(version, &entries);
        assert_eq!(file.len(), head + 24 * entries.len());
        assert_eq!((&file[..4], &file[45..48]), (&summary.last.to_le_bytes()[..], &[1, minor, 0][..]));
        for (entry, bytes) in entries.iter().zip(file[head..].chunks_exact(24)) {
            assert_eq!(bytes, [&entry.word.to_le_bytes(), &entry.id.as_bytes()[4..]].concat());
        }
    }
}

#[test]
fn parts_and_partitions_have_equal_blocks() {
    let stored = |log: &[u8], preamble, mask| {
        let blocks = walk(log, preamble, mask).into_iter();
        blocks.map(|(word, block)| (word & !mask, block)).collect::<Vec<_>>()
    };
    let (log, entries, _) = generate(&LogSpec::new(Family::Hive, 300 << 10));
    let mask = (1 << 48) - 1;
    let parts = split(&log, &entries, 10);
    assert_eq!(parts.len(), entries.len().div_ceil(10));
    assert_eq!((&*parts[0].name, &*parts[1].name), ("block_log_part.0001", "block_log_part.0002"));
    let joined: Vec<_> = parts.iter().flat_map(|part| stored(&part.log, 0, mask)).collect();
    assert!(joined == stored(&log, 0, mask));

    let spec = LogSpec::new(Family::Antelope, 300 << 10);
    let (log, entries, _) = generate(&spec);
    let partitions = partitions(&spec, &log, &entries, 10);
    assert_eq!((&*partitions[0].name, &*partitions[1].name), ("blocks-1-10.log", "blocks-11-20.log"));
    let preambles = std::iter::once(126).chain(std::iter::repeat(48));
    let joined: Vec<_> =
        partitions.iter().zip(preambles).flat_map(|(part, preamble)| stored(&part.log, preamble, u64::MAX)).collect();
    assert!(joined == stored(&log, 126, u64::MAX));
    for part in &partitions {
        let first = part.entries[0];
        assert_eq!(part.log[4..8], first.number.to_le_bytes(), "the preamble tells the first block");
    }
}

#[test]
fn pruned_log_keeps_and_counts_last_blocks() {
    let (log, entries, summary) = generate(&LogSpec::new(Family::Antelope, 300 << 10));
    let file = pruned(&log, &entries, 5);
    assert_eq!((file.len(), &file[..4]), (log.len() + 4, &[3, 0, 0, 0x80][..]));
    assert_eq!(file[log.len()..], 5u32.to_le_bytes());
    let live = entries[entries.len() - 5].word as usize;
    assert!(file[live..log.len()] == log[live..]);
    assert!(file[..live] != log[..live] && file[8192..16384] == [0; 8192]);
    assert_eq!(summary.first, 1);
}
