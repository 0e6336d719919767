//! Bad block logs: each fault is its own error with exit code 3, and no database appears.

mod common;

use common::log::*;
use common::run::{Place, import, import_pipe};

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
fn a_torn_tail_names_the_last_whole_block() {
    let blocks = steem(1, 500, 1);
    let reason = format!("the log is torn: block 499 ({}) is the last whole one", hex(&blocks[498].id));
    for packed in [Packed::Raw, Packed::Zstd] {
        let whole = log(&blocks, |_| packed);
        let last = starts(&whole)[499];
        for len in [whole.len() - 1, whole.len() - 8, last + 100, last + 21] {
            refused(&whole[..len], &[], last as u64, &reason);
        }
        let zeros = [&whole[..last], &[0; 5000]].concat();
        refused(&zeros, &[], last as u64, &reason);
    }
    let blocks = antelope(1, 300, 2);
    for version in [3, 4] {
        let whole = antelope_log(version, &blocks);
        let last = u64::from_le_bytes(whole[whole.len() - 8..].try_into().expect("8 bytes"));
        let reason = format!("the log is torn: block 299 ({}) is the last whole one", hex(&blocks[298].id));
        refused(&whole[..whole.len() - 1], &[], last, &reason);
    }
}

#[test]
fn a_flipped_bit_in_a_header_or_signature_breaks_the_chain() {
    let blocks = steem(1, 6000, 3);
    let whole = raw(&blocks);
    let starts = starts(&whole);
    // In the time, the root, the signature: the next block names another id.
    for at in [21, 40, 100] {
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
fn a_wrong_word_behind_a_block_is_found_where_it_is() {
    let blocks = steem(1, 6000, 4);
    let whole = raw(&blocks);
    let starts = starts(&whole);
    let mut log = whole.clone();
    log[starts[3001] - 7] ^= 1;
    let place = Place::in_memory();
    let done = import(&place, place.file("block_log", &log)).run();
    done.refused(3, starts[3000] as u64, "block 3001 does not end");
    let place = Place::in_memory();
    let done = import_pipe(&place, log).run();
    assert_eq!(done.code, Some(3));
    assert!(done.stderr.contains("block 3000 ("), "the last whole block is named: {}", done.stderr);
}

#[test]
fn the_last_word_may_not_name_an_earlier_block() {
    let blocks = steem(1, 300, 12);
    for packed in [Packed::Raw, Packed::Zstd] {
        let mut log = log(&blocks, |_| packed);
        let starts = starts(&log);
        let (last, len) = (starts[299], log.len());
        log[len - 8..len - 2].copy_from_slice(&(starts[200] as u64).to_le_bytes()[..6]);
        let reason = format!("the log is torn: block 299 ({}) is the last whole one", hex(&blocks[298].id));
        refused(&log, &[], last as u64, &reason);
    }
}

#[test]
fn flipped_bits_in_transactions_are_found_by_a_full_verification() {
    let Some(dir) = common::fixtures() else { return };
    let whole = std::fs::read(dir.join("block_log/antelope_v2/blocks.log")).expect("a file");
    let mut log = whole.clone();
    // In the last block's transactions, behind its header.
    let last = u64::from_le_bytes(whole[whole.len() - 8..].try_into().expect("8 bytes"));
    let at = whole.len() - 60;
    log[at] ^= 1;
    let place = Place::in_memory();
    import(&place, place.file("log", &log)).run().succeeded();
    refused(&log, &["--verify", "full"], last, "");
}

#[test]
fn a_log_that_begins_later_needs_to_be_asked_for() {
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
fn blocks_that_are_not_there_are_not_imported() {
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
fn other_heads_and_other_blocks_than_expected_are_refused() {
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
fn missing_parts_and_gaps_are_told_by_name() {
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
fn dictionaries_that_are_missing_or_wrong_are_told() {
    let Some(dir) = common::fixtures() else { return };
    let hive = dir.join("block_log/hive");
    let log = std::fs::read(hive.join("testnet_split_merge_pattern.block_log")).expect("a file");
    let place = Place::in_memory();
    let done = import(&place, place.file("log", &log)).run();
    assert_eq!(done.code, Some(3));
    assert!(done.stderr.contains("is packed with the dictionary 000M, which is not given"), "{}", done.stderr);
    assert!(done.hint().contains("--dictionaries") && done.hint().contains("published at https://"), "{}", done.hint());
    let given = place.path("given");
    std::fs::create_dir(&given).expect("a folder");
    let args = ["--dictionaries", &given.display().to_string()];
    let refusal = || {
        let done = import(&place, place.path("log")).args(&args).run();
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(!done.db.exists());
        done.stderr
    };
    assert!(refusal().contains("which is not in "), "an empty folder");
    std::fs::write(given.join("000M.dict.zst"), b"nonsense").expect("written");
    assert!(refusal().contains("it does not begin as a zstd dictionary does"));
    // A real dictionary, but another one.
    let samples: Vec<Vec<u8>> = (0..400).map(|number| common::car::noise(number, 600)).collect();
    let other = zstd::dict::from_samples(&samples, 20_000).expect("trained");
    std::fs::write(given.join("000M.dict.zst"), zstd::encode_all(&other[..], 3).expect("packed")).expect("written");
    let words = refusal();
    assert!(words.contains("with the dictionary 000M"), "{words}");
}

#[test]
fn what_is_no_log_is_told_so() {
    for bytes in [&b"<html><body>not found</body></html>"[..], &[0; 4000], b"\x07\0\0\0something else"] {
        let place = Place::in_memory();
        let done = import(&place, place.file("block_log", bytes)).args(&["--format", "block-log"]).run();
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(!done.db.exists() && !done.hint().is_empty());
    }
    let place = Place::in_memory();
    std::fs::create_dir(place.path("empty")).expect("a folder");
    import(&place, place.path("empty")).run().refused(3, None, "it is a directory");
}

#[test]
fn choices_that_have_no_effect_are_refused() {
    let log = raw(&steem(1, 100, 11));
    let all: [&[&str]; 7] = [
        &["--preset", "memtable"],
        &["--key", "digest"],
        &["--column-family", "blocks"],
        &["--plan", "spill"],
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
    let car = place.file("some.car", &common::car::rooted(&[common::car::block(b"a block")]));
    let done = import(&place, car).args(&["--tail", "trim"]).run();
    assert_eq!(done.code, Some(2), "{}", done.stderr);
}
