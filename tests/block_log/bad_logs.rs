//! Bad block logs: each fault is its own error with exit code 3, and no database appears.

use bedload::testing::blocks::chain::Family;

use crate::block_log::{antelope_starts, both, flipped, generated, imported, starts};
use crate::common::crash::in_turn;
use crate::common::log::*;
use crate::common::log_blocks;
use crate::common::run::{Done, Place, import, import_pipe};

/// Imports `log` from a file and from a pipe: both are refused at `offset` for `reason`.
#[track_caller]
fn refused(log: &[u8], args: &[&str], offset: impl Into<Option<u64>>, reason: &str) {
    let offset = offset.into();
    both(log, args, |done| done.refused(3, offset, reason));
}

/// Imports `log` from a file, which is refused at `offset` for `reason`, and from a pipe, where the next block may be what
/// shows the fault.
#[track_caller]
fn refused_from_file(log: &[u8], offset: usize, reason: &str) {
    imported(log, &[]).1.refused(3, offset as u64, reason);
    let place = Place::in_memory();
    assert_eq!(import_pipe(&place, log).run().code, Some(3));
}

/// The error of a block that does not name the one before it.
fn breaks_the_chain(number: usize) -> String {
    format!("block {number} says that it follows")
}

/// The error of a block whose transactions were changed.
fn has_another_root(number: usize) -> String {
    format!("the transactions of block {number} do not match its header: their merkle root is")
}

fn is_torn_after(block: &LogBlock) -> String {
    format!("the log is torn: block {} ({}) is the last complete one", block.number, hex(&block.id))
}

#[test]
fn torn_log_names_the_last_complete_block() {
    let blocks = steem(1, 500, 1);
    for packed in [Packed::Raw, Packed::Zstd] {
        let whole = log(&blocks, |_| packed);
        let (last, len) = (starts(&whole)[499], whole.len());
        let zeros = [&whole[..last], &[0; 5000]].concat();
        // The last word must name the last block.
        let mut earlier = whole.clone();
        earlier[len - 8..len - 2].copy_from_slice(&(starts(&whole)[400] as u64).to_le_bytes()[..6]);
        for torn in [&whole[..len - 1], &whole[..len - 8], &whole[..last + 100], &whole[..last + 21], &zeros, &earlier]
        {
            refused(torn, &[], last as u64, &is_torn_after(&blocks[498]));
        }
    }
    for version in [3, 4] {
        let blocks = antelope(version, 1, 300, 2);
        let whole = antelope_log(version, &blocks);
        let last = u64::from_le_bytes(whole[whole.len() - 8..].try_into().expect("8 bytes"));
        refused(&whole[..whole.len() - 1], &[], last, &is_torn_after(&blocks[298]));
    }
}

/// The log has several ranges, and block 3000 is in the middle.
#[test]
fn damage_between_blocks_is_located() {
    let whole = raw(&steem(1, 6000, 3));
    let starts = starts(&whole);
    // The time and the signature are part of the id that the next block names; the parent's id is the block's own.
    for (at, block) in [(21, 3001), (100, 3001), (10, 3000)] {
        let log = flipped(&whole, starts[3000] + at, 4);
        refused(&log, &[], starts[block] as u64, &breaks_the_chain(block + 1));
    }
    // The offset after a block.
    let log = flipped(&whole, starts[3001] - 7, 1);
    imported(&log, &[]).1.refused(3, starts[3000] as u64, "block 3001 has no end");
    let done = import_pipe(&Place::in_memory(), log).run();
    assert_eq!(done.code, Some(3));
    assert!(done.stderr.contains("block 3000 ("), "the last whole block is named: {}", done.stderr);
}

/// Bytes of one of Steem's or Hive's headers without extensions, its signature included.
fn signed_header_len(block: &[u8]) -> usize {
    let witness = usize::from(block[24]);
    assert_eq!(block[25 + witness + 20], 0, "no extensions");
    25 + witness + 20 + 1 + 65
}

#[test]
fn flipped_bit_of_steem_or_hive_is_located() {
    for (name, family, packed) in [("steem", Family::Steem, Packed::Raw), ("hive", Family::Hive, Packed::Zstd)] {
        let stored = log_blocks::blocks(family, 0, &generated(&[name, "--size", "300KiB", "--seed", "5"]), None);
        let blocks = (1..).zip(stored).map(|(number, bytes)| LogBlock { number, id: Vec::new(), bytes });
        let blocks: Vec<LogBlock> = blocks.collect();
        both(&log(&blocks, |_| packed), &[], Done::succeeded);
        let wanted = blocks.iter().skip(10).find(|block| block.bytes[signed_header_len(&block.bytes)] > 0);
        let block = wanted.expect("a block with transactions");
        let (number, signed, len) = (block.number as usize, signed_header_len(&block.bytes), block.bytes.len());
        let flipped = |at: usize| {
            let mut blocks = blocks.clone();
            blocks[number - 1].bytes[at] ^= 1;
            let log = log(&blocks, |_| packed);
            let starts = starts(&log);
            (log, starts)
        };
        // The time and the signature are part of the id that the next block names; the parent's id is the block's own.
        for (at, number) in [(21, number + 1), (signed - 30, number + 1), (10, number)] {
            let (log, starts) = flipped(at);
            refused(&log, &[], starts[number - 1] as u64, &breaks_the_chain(number));
        }
        // The last signature of the last transaction, and the root in the header.
        let (log, starts) = flipped(len - 1);
        refused(&log, &[], starts[number - 1] as u64, &has_another_root(number));
        let (log, starts) = flipped(signed - 66 - 10);
        refused_from_file(&log, starts[number - 1], &has_another_root(number));
    }
}

#[test]
fn first_of_two_faults_is_reported() {
    let blocks = steem(1, 300, 1);
    let whole = raw(&blocks);
    let starts = starts(&whole);
    let with_transaction = |from: usize| (from..).find(|at| blocks[*at].bytes.len() > 300).expect("a block");
    let (first, second) = (with_transaction(100), with_transaction(105));
    let body = |at: usize| starts[at] + blocks[at].bytes.len();
    let header = starts[second] + signed_header_len(&blocks[second].bytes);
    // The parent's id, the number of transactions, the tag of an operation, and the content of the operation.
    for later in [starts[second] + 10, header, header + 12, body(second) - 5] {
        let log = flipped(&whole, later, 4);
        assert_eq!(imported(&log, &[]).1.code, Some(3), "the later fault alone");
        refused_from_file(&flipped(&log, body(first) - 5, 1), starts[first], &has_another_root(first + 1));
    }
    let log = flipped(&flipped(&whole, starts[first] + 10, 4), body(second) - 5, 1);
    refused_from_file(&log, starts[first], &breaks_the_chain(first + 1));
}

#[test]
fn flipped_bit_of_antelope_is_located() {
    // The header has no new producers and no extensions; a signature of 65 bytes follows.
    const RECEIPTS: usize = 14 + 32 + 32 + 32 + 4 + 1 + 1 + 66;
    let whole = generated(&["antelope", "--size", "300KiB", "--seed", "7"]);
    let starts = antelope_starts(&whole);
    let has_transactions = |start: &usize| whole[start + RECEIPTS - 68..][..2] == [0, 0] && whole[start + RECEIPTS] > 0;
    let index = (10..).find(|index| has_transactions(&starts[*index])).expect("a block with transactions");
    let (number, start) = (index + 1, starts[index]);
    for (at, number) in [(1, number + 1), (20, number)] {
        refused(&flipped(&whole, start + at, 1), &[], starts[number - 1] as u64, &breaks_the_chain(number));
    }
    // The processor time of the first receipt, and the root in the header.
    refused(&flipped(&whole, start + RECEIPTS + 2, 1), &[], start as u64, &has_another_root(number));
    refused_from_file(&flipped(&whole, start + 14 + 32 + 5, 1), start, &has_another_root(number));
}

#[test]
fn log_without_block_1_needs_from() {
    let blocks = steem(401, 800, 5);
    let log = raw(&blocks);
    refused(&log, &[], None, "the log begins with block 401, not with block 1");
    both(&log, &[], |done| assert!(done.hint().contains("--from 401"), "{}", done.hint()));
    both(&log, &["--from", "401"], |done| holds(done, &blocks));
}

#[test]
fn range_outside_the_log_is_refused() {
    let log = raw(&steem(1, 500, 6));
    for args in [["--to", "501"], ["--from", "600"]] {
        imported(&log, &args).1.refused(3, None, "is not in the log: it begins with 1 and ends with 500");
        refused(&log, &args, None, "is not in the log: it begins with 1");
    }
}

#[test]
fn unexpected_heads_and_checkpoints_are_refused() {
    let blocks = steem(1, 500, 7);
    let other = steem(1, 500, 8);
    let pin = |block: &LogBlock| format!("{}:{}", block.number, hex(&block.id));
    let log = raw(&blocks);
    let start = starts(&log)[249] as u64;
    refused(&log, &["--expect-head", &pin(&other[499])], None, "block 500 has the id ");
    refused(&log, &["--expect-head", &pin(&blocks[498])], None, "the last block is 500 (");
    refused(&log, &["--checkpoint", &pin(&other[249])], start, "block 250 has the id ");
    assert_eq!(imported(&log, &["--expect-head", "7:00000008"]).1.code, Some(2));
}

#[test]
fn missing_parts_and_gaps_are_named() {
    let blocks = steem(1, 1600, 9);
    let other = steem(1, 800, 10);
    let place = Place::in_memory();
    std::fs::create_dir_all(place.path("chain")).expect("a folder");
    let part = |number: usize, blocks: &[LogBlock]| {
        place.file(&format!("chain/block_log_part.{number:04}"), &raw(blocks));
    };
    part(1, &blocks[..400]);
    part(3, &blocks[800..1200]);
    import(&place, place.path("chain")).run().refused(3, None, "the part block_log_part.0002 is missing");
    for (second, words) in [
        (
            &blocks[400..700],
            "the part ends with block 700 and block_log_part.0003 begins with block 801: blocks 701 to 800 are missing",
        ),
        (&blocks[300..800], "the part ends with block 400 and block_log_part.0002 begins again with block 301"),
        (&other[400..], "block 401 says that it follows"),
    ] {
        part(2, second);
        let done = import(&place, place.path("chain")).run();
        assert_eq!(done.code, Some(3));
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
}

#[test]
fn other_files_are_no_logs() {
    for bytes in [&b"<html><body>not found</body></html>"[..], &[0; 4000], b"\x07\0\0\0something else"] {
        let (_place, done) = imported(bytes, &["--format", "block-log"]);
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(!done.db.exists() && !done.hint().is_empty());
    }
}

/// The bug: the option was ignored if no block needed a dictionary.
#[test]
fn missing_directory_of_dictionaries_is_refused() {
    let (place, log) = Place::with_file("block_log", &raw(&steem(1, 100, 11)));
    let done = import(&place, &log).args(&["--dictionaries", "/none/of/it"]).run();
    done.refused_by(3, "cannot read /none/of/it: No such file or directory");
}

#[test]
fn options_without_effect_are_refused() {
    let log = raw(&steem(1, 100, 11));
    let car = crate::common::car::rooted(&[crate::common::car::block(b"a block")]);
    let all: [(&[u8], &[&str]); 10] = [
        (&log, &["--key", "digest"]),
        (&log, &["--key", "cid"]),
        (&log, &["--column-family", "blocks"]),
        (&log, &["--plan", "spill"]),
        (&log, &["--plan", "spill", "--preset", "memtable"]),
        (&log, &["--set", "load.compaction.final=false"]),
        (&log, &["--null-padding", "eof"]),
        (&log, &["--from", "9", "--to", "8"]),
        (&log, &["--to", "8", "--checkpoint", "9:0000000900000000000000000000000000000000"]),
        (&car, &["--tail", "trim"]),
    ];
    for (source, args) in all {
        let (_place, done) = imported(source, args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stderr);
        assert!(!done.hint().is_empty(), "{args:?}");
    }
}

#[test]
fn damaged_first_byte_is_bad_input() {
    for log in [raw(&steem(1, 30, 13)), antelope_log(4, &antelope(4, 1, 30, 13))] {
        for bit in 0..8 {
            let damaged = flipped(&log, 0, 1 << bit);
            let args = [
                &["--verify", "links"][..],
                &["--tail", "trim"],
                &["--format", "block-log"],
                &["--format", "block-log", "--verify", "links"],
                &["--format", "block-log", "--verify", "none"],
            ];
            for args in in_turn(&args, bit) {
                let (_place, done) = imported(&damaged, args);
                assert_eq!(done.code, Some(3), "bit {bit}, {args:?}: {}", done.stderr);
            }
        }
    }
}

#[test]
fn first_block_may_end_with_zeros() {
    let blocks = steem(1, 30, 15);
    // The word of a block that begins at 0 is zeros, too.
    assert!(blocks[0].bytes.ends_with(&[0, 0]), "{:?}", blocks[0].bytes);
    let place = Place::in_memory();
    holds(&import_pipe(&place, raw(&blocks)).run(), &blocks);
}

#[test]
fn genesis_of_another_chain_is_refused() {
    for version in 1..=4 {
        let log = flipped(&antelope_log(version, &antelope(version, 1, 30, 14)), 30, 1);
        let start = if version == 1 { 114 } else { 126 };
        refused(&log, &[], start, "the head of the log gives the chain id ");
        imported(&log, &["--verify", "links"]).1.succeeded();
    }
}

#[test]
fn first_number_above_the_last_is_refused() {
    for (name, first) in [("block_log", 1), ("block_log_part.0002", 1_000_001)] {
        // A block's number is that of its parent, which comes first, and one.
        let log = flipped(&raw(&steem(first, first + 300, 16)), 1, 0x10);
        let place = Place::in_memory();
        let done = import(&place, place.file(name, &log)).run();
        done.refused(3, 0, "the log begins with block ");
        assert!(done.stderr.contains(" and ends with block "), "{}", done.stderr);
        let done = import_pipe(&place, log).run();
        assert_eq!(done.code, Some(3));
        assert!(!done.db.exists());
    }
}

#[test]
fn antelope_head_must_name_the_first_block() {
    for (version, first, at) in [(1, 2, None), (2, 1, Some(6)), (3, 500, Some(4)), (4, 500, Some(4))] {
        let log = antelope_log(version, &antelope(version, first, first + 30, 17));
        let log = at.map_or(log.clone(), |at| flipped(&log, at, 8));
        let named = if version == 1 { 1 } else { u32::from_le_bytes(log[4..8].try_into().expect("4 bytes")) };
        let reason = format!("the head of the log declares block {named} as the first, but the first is block {first}");
        refused(&log, &[], 0, &reason);
    }
}
