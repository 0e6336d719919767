use super::logs;
use crate::chain::{ChainProblem, Family, Header, header};

fn headers(family: Family, version: u32, blocks: &[Vec<u8>]) -> Vec<Header> {
    blocks.iter().map(|block| header(family, version, block).expect("a header")).collect()
}

#[test]
fn real_blocks_are_chained_by_their_ids() {
    let Some(logs) = logs::real() else { return };
    let ends = [
        ("steem_mainnet_1_1000/block_log", 1000, "000003e8b922f4906a45af8e99d86b3511acd7a5"),
        ("hive/testnet_hf28.block_log", 109, "0000006ddb28a38c7b09281a74320040ed47ccee"),
        ("hive/testnet_split_merge_pattern.block_log", 1311, "0000051fc5902f99430216f70f19a1f8dcac33c8"),
        ("antelope_v2/blocks.log", 3, "00000003ad205c959e2af857e2cc621d00a63c3df2b82d38392d5dd162b1c511"),
        ("antelope_v4/blocks.log", 3, "0000000364257c876b33a049fb8984c901181c55e59b3687d9152f0c5f4920f2"),
    ];
    for ((name, family, version, blocks), (expected_name, count, head)) in logs.iter().zip(ends) {
        assert_eq!((*name, blocks.len()), (expected_name, count));
        let headers = headers(*family, *version, blocks);
        assert_eq!((headers[0].number, headers[0].previous.is_zero()), (1, true), "{name}");
        for pair in headers.windows(2) {
            assert_eq!((pair[0].id, pair[0].number + 1), (pair[1].previous, pair[1].number), "{name}");
            assert!(pair[0].timestamp_ms < pair[1].timestamp_ms, "{name}");
        }
        let last = headers.last().expect("a block");
        assert_eq!(last.id.to_string(), head, "{name}");
        assert_eq!(last.id.as_bytes().len(), family.id_len());
    }
}

#[test]
fn the_first_thousand_blocks_of_the_mainnet_are_as_others_list_them() {
    let Some(folder) = logs::fixtures() else { return };
    let folder = folder.join("steem_mainnet_1_1000");
    let log = std::fs::read(folder.join("block_log")).expect("the log");
    let headers = headers(Family::Steem, 0, &logs::blocks(Family::Steem, 0, &log, None));
    let list = std::fs::read_to_string(folder.join("blocks.tsv")).expect("the list");
    let rows: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), headers.len());
    for (row, header) in rows.iter().zip(&headers) {
        assert_eq!(row[0], header.number.to_string());
        assert_eq!(row[4], header.header_len.to_string());
        assert_eq!(row[5], header.id.to_string());
        assert_eq!(row[6], header.previous.to_string());
    }
    let first = headers[0];
    assert_eq!((first.timestamp_ms, &*first.producer), (1_458_835_500_000, "initminer"), "2016-03-24T16:05:00");
}

#[test]
fn antelope_headers_tell_time_and_producer() {
    let Some(logs) = logs::real() else { return };
    for (name, _, version, blocks) in logs.iter().filter(|log| log.1 == Family::Antelope) {
        let headers = headers(Family::Antelope, *version, blocks);
        assert_eq!((headers[0].timestamp_ms, &*headers[0].producer), (1_577_836_800_000, ""), "{name}: the genesis");
        assert!(headers[1..].iter().all(|header| &*header.producer == "eosio"), "{name}");
    }
}

#[test]
fn a_header_cut_anywhere_is_told_as_cut() {
    for (name, family, version, blocks) in logs::real().unwrap_or_default() {
        let block = blocks.last().expect("a block");
        let whole = header(family, version, block).expect("a header");
        for len in 0..whole.header_len {
            let cut = header(family, version, &block[..len]);
            assert!(matches!(cut, Err(ChainProblem::Truncated { .. })), "{name} cut to {len}: {cut:?}");
        }
        assert_eq!(header(family, version, &block[..whole.header_len]), Ok(whole), "{name}: the rest is not looked at");
    }
}

#[test]
fn every_flipped_bit_of_what_is_hashed_changes_the_id() {
    for (name, family, version, blocks) in logs::real().unwrap_or_default() {
        let block = blocks.last().expect("a block");
        let whole = header(family, version, block).expect("a header");
        // Antelope's ids do not cover the signature: one byte of type, 65 of signature.
        let hashed = whole.header_len - if family == Family::Antelope { 66 } else { 0 };
        for bit in 0..hashed * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = header(family, version, &flipped) {
                assert_ne!(read.id, whole.id, "{name}: bit {bit}");
            }
        }
    }
}

#[test]
fn what_no_header_holds_is_told_with_its_place() {
    let mut block = [0; 200];
    block[24] = 33;
    let told = |block: &[u8]| header(Family::Steem, 0, block).expect_err("no header").to_string();
    assert_eq!(told(&block), "the witness's name at byte 24 of the block claims 33, the limit is 32");
    block[24..27].copy_from_slice(b"\x02a\n");
    assert_eq!(told(&block), "byte 24 of the block: the witness is no name of printable characters");
    block[24..27].copy_from_slice(b"\x02aa");
    block[47] = 17;
    assert_eq!(told(&block), "the header extensions at byte 47 of the block claims 17, the limit is 16");
    block[47..49].copy_from_slice(b"\x01\x03");
    assert_eq!(told(&block), "byte 48 of the block: 3 where a header extension of type 0 to 2 must be");
    block[47] = 0;
    block[..4].copy_from_slice(&[0xff; 4]);
    assert_eq!(told(&block), "the block's parent has the number 4294967295: there is no number for the block");
}
