use crate::blocks::chain::tests::logs;
use crate::blocks::chain::{Family, TransactionOptions, check_transactions, header};

use super::super::*;
use super::generate;

const FAMILIES: [Family; 3] = [Family::Steem, Family::Hive, Family::Antelope];
/// Content of dictionary 0 in these tests: any bytes are a dictionary.
const DICTIONARY: &[u8] =
    br#"["follow",{"follower":"","following":"","what":["blog"]}]{"tags":["life","photography"]}"#;

/// Every block's number, link, transactions and merkle root.
fn check_log(spec: &LogSpec) -> LogSummary {
    let (log, entries, summary) = generate(spec);
    let blocks = logs::blocks(spec.family, spec.version, &log, Some(DICTIONARY));
    assert_eq!((blocks.len(), entries.len()), (summary.blocks as usize, summary.blocks as usize));
    let options = TransactionOptions { ids: true, merkle: true, skip_unknown: false };
    let mut previous = None;
    let mut transactions = 0;
    for (block, (entry, number)) in blocks.iter().zip(entries.iter().zip(spec.first_block..)) {
        let header = header(spec.family, spec.version, block).expect("a header");
        assert_eq!((header.number, header.id), (entry.number, entry.id));
        assert_eq!(header.number, number);
        assert!(previous.is_none_or(|previous| previous == header.previous));
        assert_eq!(header.previous.is_zero(), header.number == 1);
        let found = check_transactions(spec.family, spec.version, block, &header, &options);
        transactions += found.unwrap_or_else(|problem| panic!("block {number}: {problem}")).ids.len();
        previous = Some(header.id);
    }
    assert_eq!((summary.head, summary.transactions), (previous.expect("a block"), transactions as u64));
    assert_eq!((summary.bytes, summary.first), (log.len() as u64, spec.first_block));
    assert_eq!(summary.last, summary.head.number());
    summary
}

#[test]
fn blocks_are_linked_with_valid_transactions() {
    for family in FAMILIES {
        for size in [1, 5000, 1 << 20] {
            let summary = check_log(&LogSpec::new(family, size).seed(size));
            assert!(summary.blocks == 1 || summary.raw_bytes <= size, "{summary:?}");
            assert!(size < 1 << 20 || size - summary.raw_bytes < 200 << 10, "{summary:?}");
        }
    }
}

#[test]
fn antelope_log_versions_are_valid() {
    for version in 1..=4 {
        for first in [1, 2, 4_000_000_000] {
            let spec = LogSpec::new(Family::Antelope, 1 << 17).version(version).expect("a version");
            match spec.first_block(first) {
                Ok(spec) => drop(check_log(&spec)),
                Err(error) => {
                    assert!(version == 1 && first > 1, "version {version} from {first}");
                    assert_eq!(error.to_string(), "a block log of version 1 starts with block 1");
                }
            }
        }
    }
    assert!(LogSpec::new(Family::Antelope, 1).version(5).is_err());
    assert!(LogSpec::new(Family::Hive, 1).version(1).is_err());
}

#[test]
fn antelope_log_switches_to_savanna() {
    let spec = LogSpec::new(Family::Antelope, 1 << 20).savanna_from(Some(100));
    check_log(&spec);
    let (log, ..) = generate(&spec);
    let versions =
        logs::blocks(Family::Antelope, 3, &log, None).into_iter().map(|block| block[113]).collect::<Vec<_>>();
    assert!(versions.len() > 150);
    assert!(versions.iter().zip(1..).all(|(high, number)| (*high == 0x80) == (number >= 100)), "{versions:?}");
}

#[test]
fn transactions_are_pruned_in_version_4_only() {
    let holes = |version| {
        let spec = LogSpec::new(Family::Antelope, 1 << 20).version(version).expect("a version");
        let (log, ..) = generate(&spec);
        let blocks = logs::blocks(Family::Antelope, version, &log, None);
        let cut = |block: &&Vec<u8>| {
            let header = header(Family::Antelope, version, block).expect("a header");
            block[header.header_len] == 0 && block.len() > header.header_len + 2
        };
        (blocks.iter().filter(cut).count(), blocks.len())
    };
    let (pruned, blocks) = holes(4);
    assert!(pruned > 3 && pruned < blocks / 4, "{pruned} of {blocks}");
}

#[test]
fn hive_blocks_use_all_packings() {
    let dictionaries = Dictionaries::from([(0, DICTIONARY.to_vec())]);
    let spec = LogSpec::new(Family::Hive, 4 << 20).dictionaries(dictionaries).expect("for hive");
    let summary = check_log(&spec);
    assert!(summary.bytes < summary.raw_bytes * 3 / 4, "{summary:?}");
    let (log, entries, _) = generate(&spec);
    let share = |bits: u64| entries.iter().filter(|entry| entry.word >> 48 == bits).count() * 100 / entries.len();
    let shares = [share(0), share(0x8000), share(0x8100)];
    assert!(
        (9..16).contains(&shares[0]) && (38..50).contains(&shares[1]) && (38..50).contains(&shares[2]),
        "{shares:?}"
    );
    for entry in entries.iter().filter(|entry| entry.word >> 63 == 1) {
        let start = (entry.word & 0xffff_ffff_ffff) as usize;
        assert_eq!(log[start], 0, "neither magic number nor sizes, checksum or dictionary");
    }
    for later in [999_990, 5_000_000] {
        let spec = spec.clone().first_block(later).expect("for hive");
        check_log(&LogSpec { size: 200 << 10, ..spec });
    }
}

#[test]
fn log_depends_on_seed_not_threads() {
    for family in FAMILIES {
        let spec = LogSpec::new(family, 9 << 20).seed(3);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("start threads");
            pool.install(|| generate(&spec))
        };
        let one = with(1);
        assert!(with(2) == one, "{family}");
        assert_ne!(generate(&spec.clone().seed(4)).2.head, one.2.head);
    }
}

#[test]
fn blocks_have_size_and_compress_to_half() {
    for family in [Family::Steem, Family::Antelope] {
        let (log, _, summary) = generate(&LogSpec::new(family, 8 << 20));
        let mean = summary.raw_bytes / summary.blocks;
        assert!((5200..5900).contains(&mean), "{family}: {mean}");
        // As a block of a table: 64 KiB, zstd's usual level.
        let pieces = log.chunks(64 << 10);
        let packed: usize = pieces.map(|piece| zstd::bulk::compress(piece, 3).expect("zstd").len()).sum();
        let percent = packed * 100 / log.len();
        assert!((45..=58).contains(&percent), "{family}: {percent} %");
    }
}
