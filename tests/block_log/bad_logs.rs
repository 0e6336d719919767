//! Bad block logs: each fault is its own error with exit code 3, and no database appears.

use crate::common::log::*;
use crate::common::run::{Place, import, import_pipe};

/// Where each block begins.
fn starts(log: &[u8]) -> Vec<usize> {
    words(log).iter().map(|word| (word & ((1 << 48) - 1)) as usize).collect()
}

/// Imports `log` from a file and from a pipe: both are refused at `offset` for `reason`.
#[track_caller]
fn refused(log: &[u8], args: &[&str], offset: impl Into<Option<u64>>, reason: &str) {
    let offset = offset.into();
    let place = Place::in_memory();
    import(&place, place.file("block_log", log)).args(args).run().refused(3, offset, reason);
    let place = Place::in_memory();
    import_pipe(&place, log).args(args).args(&["--memory", "16MiB"]).run().refused(3, offset, reason);
}

#[test]
fn torn_log_names_the_last_complete_block() {
    let blocks = steem(1, 500, 1);
    let reason = format!("the log is torn: block 499 ({}) is the last complete one", hex(&blocks[498].id));
    for packed in [Packed::Raw, Packed::Zstd] {
        let whole = log(&blocks, |_| packed);
        let last = starts(&whole)[499];
        for len in [whole.len() - 1, whole.len() - 8, last + 100, last + 21] {
            refused(&whole[..len], &[], last as u64, &reason);
        }
        let zeros = [&whole[..last], &[0; 5000]].concat();
        refused(&zeros, &[], last as u64, &reason);
    }
    for version in [3, 4] {
        let blocks = antelope(version, 1, 300, 2);
        let whole = antelope_log(version, &blocks);
        let last = u64::from_le_bytes(whole[whole.len() - 8..].try_into().expect("8 bytes"));
        let reason = format!("the log is torn: block 299 ({}) is the last complete one", hex(&blocks[298].id));
        refused(&whole[..whole.len() - 1], &[], last, &reason);
    }
}

#[test]
fn flipped_header_bit_breaks_the_chain() {
    let blocks = steem(1, 6000, 3);
    let whole = raw(&blocks);
    let starts = starts(&whole);
    // In the time, the signature: the next block names another id.
    for at in [21, 100] {
        let mut log = whole.clone();
        log[starts[3000] + at] ^= 4;
        refused(&log, &[], starts[3001] as u64, "block 3002 says that it follows");
    }
    // In the parent's id.
    let mut log = whole.clone();
    log[starts[3000] + 10] ^= 4;
    refused(&log, &[], starts[3000] as u64, "block 3001 says that it follows");
}

#[test]
fn wrong_offset_after_a_block_is_found() {
    let blocks = steem(1, 6000, 4);
    let whole = raw(&blocks);
    let starts = starts(&whole);
    let mut log = whole.clone();
    log[starts[3001] - 7] ^= 1;
    let place = Place::in_memory();
    let done = import(&place, place.file("block_log", &log)).run();
    done.refused(3, starts[3000] as u64, "block 3001 has no end");
    let place = Place::in_memory();
    let done = import_pipe(&place, log).run();
    assert_eq!(done.code, Some(3));
    assert!(done.stderr.contains("block 3000 ("), "the last whole block is named: {}", done.stderr);
}

#[test]
fn last_offset_must_name_the_last_block() {
    let blocks = steem(1, 300, 12);
    for packed in [Packed::Raw, Packed::Zstd] {
        let mut log = log(&blocks, |_| packed);
        let starts = starts(&log);
        let (last, len) = (starts[299], log.len());
        log[len - 8..len - 2].copy_from_slice(&(starts[200] as u64).to_le_bytes()[..6]);
        let reason = format!("the log is torn: block 299 ({}) is the last complete one", hex(&blocks[298].id));
        refused(&log, &[], last as u64, &reason);
    }
}

/// A log that the program itself makes up, transactions and their merkle roots included.
fn generated(family: &str, seed: &str) -> Vec<u8> {
    let place = Place::in_memory();
    let path = place.path("log");
    let mut command = crate::common::run::program();
    command.arg("generate").arg(&path).args(["--profile", family, "--size", "300KiB", "--seed", seed, "--quiet"]);
    command.assert().success();
    std::fs::read(path).expect("a log")
}

/// The blocks of a log of Steem or Hive without dictionaries, unpacked.
fn unpacked(log: &[u8]) -> Vec<Vec<u8>> {
    let words = words(log);
    let ends: Vec<usize> = starts(log)[1..].iter().map(|start| start - 8).chain([log.len() - 8]).collect();
    let block = |(word, end): (&u64, usize)| {
        let stored = &log[(word & ((1 << 48) - 1)) as usize..end];
        match word >> 63 {
            0 => stored.to_vec(),
            _ => zstd::decode_all(&[&[0x28, 0xb5, 0x2f, 0xfd], stored].concat()[..]).expect("a frame"),
        }
    };
    words.iter().zip(ends).map(block).collect()
}

/// Bytes of one of Steem's or Hive's headers without extensions, its signature included.
fn signed_header_len(block: &[u8]) -> usize {
    let witness = usize::from(block[24]);
    assert_eq!(block[25 + witness + 20], 0, "no extensions");
    25 + witness + 20 + 1 + 65
}

#[test]
fn flipped_bit_of_steem_or_hive_is_located() {
    for family in ["steem", "hive"] {
        let blocks: Vec<LogBlock> = (1..)
            .zip(unpacked(&generated(family, "5")))
            .map(|(number, bytes)| LogBlock { number, id: Vec::new(), bytes })
            .collect();
        let wanted = blocks.iter().skip(10).find(|block| block.bytes[signed_header_len(&block.bytes)] > 0);
        let number = wanted.expect("a block with transactions").number;
        for packed in [Packed::Raw, Packed::Zstd] {
            if family == "steem" && packed == Packed::Zstd {
                continue;
            }
            let whole = log(&blocks, |_| packed);
            let place = Place::in_memory();
            import(&place, place.file("log", &whole)).run().succeeded();
            let flipped = |at: usize| {
                let mut blocks = blocks.clone();
                blocks[number as usize - 1].bytes[at] ^= 1;
                log(&blocks, |_| packed)
            };
            let block = &blocks[number as usize - 1].bytes;
            let signed = signed_header_len(block);
            let link = format!("block {} says that it follows", number + 1);
            // The time, the signature: both are part of the id that the next block names.
            for at in [21, signed - 30] {
                let log = flipped(at);
                refused(&log, &[], starts(&log)[number as usize] as u64, &link);
            }
            let own = |log: &[u8]| starts(log)[number as usize - 1] as u64;
            let log = flipped(10);
            refused(&log, &[], own(&log), &format!("block {number} says that it follows"));
            let merkle = format!("the transactions of block {number} do not match its header: their merkle root is");
            // The last signature of the last transaction.
            let log = flipped(block.len() - 1);
            refused(&log, &[], own(&log), &merkle);
            refused_from_file(&flipped(signed - 66 - 10), own(&log), &merkle);
        }
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
    let header = signed_header_len(&blocks[second].bytes);
    let merkle =
        |at: usize| format!("the transactions of block {} do not match its header: their merkle root is", at + 1);
    // The parent's id, the number of transactions, the tag of an operation, and what the operation says.
    for later in [starts[second] + 10, starts[second] + header, starts[second] + header + 12, body(second) - 5] {
        let mut log = whole.clone();
        log[later] ^= 4;
        let place = Place::in_memory();
        assert_eq!(import(&place, place.file("log", &log)).run().code, Some(3), "the later fault alone");
        log[body(first) - 5] ^= 1;
        refused_from_file(&log, starts[first] as u64, &merkle(first));
    }
    let mut log = whole.clone();
    log[starts[first] + 10] ^= 4;
    log[body(second) - 5] ^= 1;
    refused_from_file(&log, starts[first] as u64, &format!("block {} says that it follows", first + 1));
}

/// A flipped bit in the header's root: in a pipe the next block is what tells, in a file the transactions as well.
#[track_caller]
fn refused_from_file(log: &[u8], offset: u64, merkle: &str) {
    let place = Place::in_memory();
    import(&place, place.file("log", log)).run().refused(3, offset, merkle);
    let place = Place::in_memory();
    assert_eq!(import_pipe(&place, log).run().code, Some(3));
}

#[test]
fn flipped_bit_never_changes_a_packed_block() {
    let whole = generated("hive", "6");
    let place = Place::in_memory();
    let digest = import(&place, place.file("log", &whole)).run().text("/digest").to_owned();
    let mut refusals = 0;
    let (starts, words) = (starts(&whole), words(&whole));
    let number = (40..).find(|index| words[*index] >> 63 == 1).expect("a packed block");
    let (start, end) = (starts[number], starts[number + 1] - 8);
    for at in (start..end).step_by(((end - start) / 20).max(1)) {
        let mut log = whole.clone();
        log[at] ^= 0x10;
        let place = Place::in_memory();
        let done = import(&place, place.file("log", &log)).run();
        if done.code == Some(0) {
            // A frame has bits that change nothing: how far back it looks, and one that no decoder uses.
            assert_eq!(done.text("/digest"), digest, "byte {at}");
            continue;
        }
        done.refused(3, offset_of(&done.stderr), "block");
        refusals += 1;
    }
    assert!(refusals >= 15, "only {refusals} were found");
}

/// The offset that an error names.
fn offset_of(stderr: &str) -> Option<u64> {
    let (_, rest) = stderr.split_once(" at byte ")?;
    rest.split_once(':')?.0.parse().ok()
}

#[test]
fn flipped_bit_of_antelope_is_located() {
    let whole = generated("antelope", "7");
    let mut starts = Vec::new();
    let mut end = whole.len();
    while end > 126 {
        end = u64::from_le_bytes(whole[end - 8..end].try_into().expect("8 bytes")) as usize;
        starts.insert(0, end);
    }
    // A block with transactions; its header has no new producers and no extensions, a signature of 65 bytes follows.
    const RECEIPTS: usize = 14 + 32 + 32 + 32 + 4 + 1 + 1 + 66;
    let has_transactions = |start: &usize| whole[start + RECEIPTS - 68..][..2] == [0, 0] && whole[start + RECEIPTS] > 0;
    let index = (10..).find(|index| has_transactions(&starts[*index])).expect("a block with transactions");
    let (number, start, next) = (index + 1, starts[index], starts[index + 1]);
    let flipped = |at: usize| {
        let mut log = whole.clone();
        log[at] ^= 1;
        log
    };
    let link = format!("block {} says that it follows", number + 1);
    refused(&flipped(start + 1), &[], next as u64, &link);
    refused(&flipped(start + 20), &[], start as u64, &format!("block {number} says that it follows"));
    let merkle = format!("the transactions of block {number} do not match its header: their merkle root is");
    // The processor time of the first receipt.
    refused(&flipped(start + RECEIPTS + 2), &[], start as u64, &merkle);
    refused_from_file(&flipped(start + 14 + 32 + 5), start as u64, &merkle);
}

#[test]
fn log_without_block_1_needs_from() {
    let blocks = steem(401, 800, 5);
    let log = raw(&blocks);
    let place = Place::in_memory();
    let done = import(&place, place.file("block_log", &log)).run();
    done.refused(3, None, "the log begins with block 401, not with block 1");
    assert!(done.hint().contains("--from 401"), "{}", done.hint());
    let place = Place::in_memory();
    import_pipe(&place, log.clone()).run().refused(3, None, "the log begins with block 401, not with block 1");
    for piped in [false, true] {
        let place = Place::in_memory();
        let file = place.file("block_log", &log);
        let run = if piped { import_pipe(&place, log.clone()) } else { import(&place, file) };
        holds(&run.args(&["--from", "401"]).run(), &blocks);
    }
}

#[test]
fn range_outside_the_log_is_refused() {
    let log = raw(&steem(1, 500, 6));
    for args in [["--to", "501"], ["--from", "600"]] {
        let place = Place::in_memory();
        let done = import(&place, place.file("block_log", &log)).args(&args).run();
        done.refused(3, None, "is not in the log: it begins with 1 and ends with 500");
        let place = Place::in_memory();
        import_pipe(&place, log.clone()).args(&args).run().refused(3, None, "is not in the log: it begins with 1");
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
    let place = Place::in_memory();
    let args = ["--expect-head", "7:00000008"];
    assert_eq!(import(&place, place.file("block_log", &log)).args(&args).run().code, Some(2));
}

#[test]
fn missing_parts_and_gaps_are_named() {
    let blocks = steem(1, 1600, 9);
    let place = Place::in_memory();
    std::fs::create_dir_all(place.path("chain")).expect("a folder");
    let write = |number: usize, part: &[LogBlock]| {
        let path = place.path(&format!("chain/block_log_part.{number:04}"));
        std::fs::write(path, raw(part)).expect("room");
    };
    write(1, &blocks[..400]);
    write(3, &blocks[800..1200]);
    let done = import(&place, place.path("chain")).run();
    done.refused(3, None, "the part block_log_part.0002 is missing");
    write(2, &blocks[400..700]);
    let done = import(&place, place.path("chain")).run();
    assert_eq!(done.code, Some(3));
    let gap =
        "the part ends with block 700 and block_log_part.0003 begins with block 801: blocks 701 to 800 are missing";
    assert!(done.stderr.contains(gap), "{}", done.stderr);
    write(2, &blocks[300..800]);
    let done = import(&place, place.path("chain")).run();
    assert!(
        done.stderr.contains("the part ends with block 400 and block_log_part.0002 begins again with block 301"),
        "{}",
        done.stderr
    );
    write(2, &steem(1, 800, 10)[400..]);
    let done = import(&place, place.path("chain")).run();
    assert!(done.stderr.contains("block 401 says that it follows"), "{}", done.stderr);
    assert_eq!(done.code, Some(3));
}

#[test]
fn other_files_are_no_logs() {
    for bytes in [&b"<html><body>not found</body></html>"[..], &[0; 4000], b"\x07\0\0\0something else"] {
        let place = Place::in_memory();
        let done = import(&place, place.file("block_log", bytes)).args(&["--format", "block-log"]).run();
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(!done.db.exists() && !done.hint().is_empty());
    }
    let place = Place::in_memory();
    std::fs::create_dir(place.path("empty")).expect("a folder");
    import(&place, place.path("empty")).run().refused(3, None, "no block log is in this directory");
}

#[test]
fn options_without_effect_are_refused() {
    let log = raw(&steem(1, 100, 11));
    let all: [&[&str]; 8] = [
        &["--key", "digest"],
        &["--column-family", "blocks"],
        &["--plan", "spill"],
        &["--plan", "spill", "--preset", "memtable"],
        &["--set", "load.compaction.final=false"],
        &["--null-padding", "eof"],
        &["--from", "9", "--to", "8"],
        &["--to", "8", "--checkpoint", "9:0000000900000000000000000000000000000000"],
    ];
    for args in all {
        let place = Place::in_memory();
        let done = import(&place, place.file("block_log", &log)).args(args).run();
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stderr);
        assert!(!done.hint().is_empty());
    }
    let place = Place::in_memory();
    let car = place.file("some.car", &crate::common::car::rooted(&[crate::common::car::block(b"a block")]));
    let done = import(&place, car).args(&["--tail", "trim"]).run();
    assert_eq!(done.code, Some(2), "{}", done.stderr);
}

#[test]
fn damaged_first_byte_is_bad_input() {
    for log in [raw(&steem(1, 30, 13)), antelope_log(4, &antelope(4, 1, 30, 13))] {
        for bit in 0..8 {
            let mut damaged = log.clone();
            damaged[0] ^= 1 << bit;
            for args in [
                &["--verify", "links"][..],
                &["--tail", "trim"],
                &["--format", "block-log"],
                &["--format", "block-log", "--verify", "links"],
                &["--format", "block-log", "--verify", "none"],
            ] {
                let place = Place::in_memory();
                let done = import(&place, place.file("block_log", &damaged)).args(args).run();
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
        let mut log = antelope_log(version, &antelope(version, 1, 30, 14));
        log[30] ^= 1;
        let start = if version == 1 { 114 } else { 126 };
        refused(&log, &[], start, "the head of the log gives the chain id ");
        let place = Place::in_memory();
        import(&place, place.file("log", &log)).args(&["--verify", "links"]).run().succeeded();
    }
}

#[test]
fn first_number_above_the_last_is_refused() {
    for (name, first) in [("block_log", 1), ("block_log_part.0002", 1_000_001)] {
        let mut log = raw(&steem(first, first + 300, 16));
        // A block's number is that of its parent, which comes first, and one.
        log[1] ^= 0x10;
        let place = Place::in_memory();
        let done = import(&place, place.file(name, &log)).run();
        done.refused(3, 0, "the log begins with block ");
        assert!(done.stderr.contains(" and ends with block "), "{}", done.stderr);
        let place = Place::in_memory();
        assert_eq!(import_pipe(&place, log).run().code, Some(3));
        assert!(!place.path("db").exists());
    }
}

#[test]
fn antelope_head_must_name_the_first_block() {
    for (version, first) in [(1, 2), (2, 1), (3, 500), (4, 500)] {
        let mut log = antelope_log(version, &antelope(version, first, first + 30, 17));
        if version > 1 {
            log[if first == 1 { 6 } else { 4 }] ^= 8;
        }
        let named = if version == 1 { 1 } else { u32::from_le_bytes(log[4..8].try_into().expect("4 bytes")) };
        let reason = format!("the head of the log declares block {named} as the first, but the first is block {first}");
        refused(&log, &[], 0, &reason);
    }
}
