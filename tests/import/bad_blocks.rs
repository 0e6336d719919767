//! Blocks that are too large, that do not match their hashes, or that share a key: refused, at their offset.

use crate::common::car::*;
use crate::common::model::Key;
use crate::common::run::{Place, import, import_all};

use super::refusals::*;

/// With the smallest budget the blocks in memory are spilled when all of it is taken.
const PLANS: [&[&str]; 3] = [&["--plan", "memory"], &["--plan", "memory", "--memory", "16MiB"], &["--plan", "spill"]];

#[test]
fn block_over_the_limit_is_refused() {
    let blocks = vec![block(&noise(1, 900)), block(&noise(2, 1500)), block(&noise(3, 900))];
    let bytes = rooted(&blocks);
    let at = rooted(&blocks[..1]).len();
    let (place, source) = Place::with_file("x.car", &bytes);
    let done = import(&place, &source).args(&["--max-block-size", "1KiB"]).run();
    done.refused(3, at as u64, "a block of 1.5 KiB is over the limit of 1.0 KiB");
    assert!(done.hint().contains("--max-block-size"), "{}", done.hint());
    import(&place, &source).args(&["--max-block-size", "2KiB"]).holds(&blocks);
}

#[test]
fn block_over_the_budget_names_required_memory() {
    let blocks = vec![block(b"small"), blake(RAW, &noise(2, 6 << 20))];
    let at = rooted(&blocks[..1]).len();
    let (place, source) = Place::with_file("x.car", &rooted(&blocks));
    let done = import(&place, &source).args(&["--memory", "16MiB"]).run();
    done.refused(3, at as u64, "a block of 6.0 MiB does not fit a memory budget of 16.0 MiB");
    let needs = done.hint().strip_prefix("run it again with --memory ").expect("the budget it needs");
    let needs = needs.split(';').next().expect("some");
    import(&place, &source).args(&["--memory", needs]).holds(&blocks);
}

#[test]
fn block_with_wrong_hash_is_refused() {
    let mut blocks = many();
    let good = blocks[300].1.clone();
    blocks[300].1[7] ^= 1;
    let bytes = rooted(&blocks);
    let at = rooted(&blocks[..300]).len();
    let hex = |data: &[u8]| blake2b_simd::Params::new().hash_length(32).hash(data).to_hex().to_string();
    let cid = cid::Cid::try_from(&blocks[300].0[..]).expect("a CID").to_string();
    for reason in [cid, hex(&good), hex(&blocks[300].1)] {
        refused_both(&bytes, at as u64, &reason);
    }
    let place = Place::new();
    let import = || import(&place, place.file("x.car", &bytes));
    import().through_memtables().run().refused(3, at as u64, "does not match its hash");
    assert_eq!(import().args(&["--verify", "none"]).holds(&blocks).json["verified"], false);
}

#[test]
fn unknown_hash_function_is_refused() {
    let unknown = (cid(RAW, 0xb401, &[9; 48]), b"poseidon".to_vec());
    let (bytes, at) = followed_by(&section(&unknown));
    refused_both(&bytes, at, "0xb401");
    let (place, source) = Place::with_file("x.car", &bytes);
    let done = import(&place, &source).run();
    assert!(done.hint().contains("--verify none"), "{}", done.hint());
    import(&place, &source).args(&["--verify", "none"]).holds(blocks().iter().chain([&unknown]));
}

#[test]
fn first_bad_block_is_reported() {
    let mut blocks: Vec<Block> = (0..3000).map(|i| block(&noise(i, 3000))).collect();
    for index in [700, 1500, 2900] {
        blocks[index].1[0] ^= 1;
    }
    let at = rooted(&blocks[..700]).len();
    let bytes = rooted(&blocks);
    blocks[710].0[0] = 2;
    let place = Place::new();
    let sources = [
        place.file("whole.car", &bytes),
        place.file("cut.car", &bytes[..bytes.len() - 1]),
        place.file("no-cid.car", &rooted(&blocks)),
        place.file("packed.car.zst", &zstd(&bytes)),
    ];
    for plan in PLANS {
        for (source, threads) in sources.iter().flat_map(|source| ["1", "2", "5"].map(|threads| (source, threads))) {
            let done = import(&place, source).args(plan).args(&["--threads", threads]).run();
            done.refused(3, at as u64, "does not match its hash");
        }
    }
}

#[test]
fn identity_cid_is_reported_before_later_faults() {
    let first = block(&noise(0, 3000));
    let no_digest = identity(RAW, b"hello");
    let at = rooted(std::slice::from_ref(&first)).len() as u64;
    let mut bad_hash = block(&noise(1, 300));
    bad_hash.1[0] ^= 1;
    let mut no_cid = block(&noise(2, 300));
    no_cid.0[0] = 9;
    let no_key = "the block is in its CID, which has no digest to be its key";
    let mut cases = Vec::new();
    for second in [bad_hash.clone(), no_cid] {
        cases.push(([first.clone(), no_digest.clone(), second], no_key));
    }
    cases.push(([first, bad_hash, no_digest], "does not match its hash"));
    let place = Place::new();
    for (blocks, reason) in cases {
        let source = place.file("x.car", &rooted(&blocks));
        for plan in ["memory", "spill"] {
            import(&place, &source).key(Key::Digest).args(&["--plan", plan]).run().refused(3, at, reason);
        }
    }
}

#[test]
fn first_bad_block_across_files_is_reported() {
    let blocks = |number: u64| (0..500).map(|i| block(&noise(number * 1000 + i, 3000))).collect::<Vec<Block>>();
    let at = rooted(&blocks(1)[..400]).len();
    for (threads, packed) in [("1", false), ("3", false), ("1", true), ("3", true)] {
        let place = Place::new();
        let files = [&[][..], &[400, 450], &[3]].into_iter().enumerate().map(|(number, bad)| {
            let mut blocks = blocks(number as u64);
            bad.iter().for_each(|&index: &usize| blocks[index].1[0] ^= 1);
            let bytes = rooted(&blocks);
            place.file(&format!("{number}.car"), &if packed { zstd(&bytes) } else { bytes })
        });
        let done = import_all(&place, &files.collect::<Vec<_>>()).args(&["--threads", threads]).run();
        done.refused_by(3, &format!("1.car at byte {at}: "));
    }
}

#[test]
fn wrong_hash_is_reported_before_conflicts() {
    // Digests of one byte: both blocks of a key match it.
    let one_byte = |data: &[u8]| blake2b_simd::Params::new().hash_length(1).hash(data).as_bytes().to_vec();
    let short: Vec<Block> = (0..2000u64)
        .map(|i| noise(i, 300))
        .filter(|data| one_byte(data)[0] == 7)
        .map(|data| (cid(RAW, 0xb201, &one_byte(&data)), data))
        .collect();
    assert!(short.len() > 1, "two blocks of one key");
    let mut blocks: Vec<Block> = short.into_iter().chain((0..3000).map(|i| block(&noise(i, 2000)))).collect();
    let conflict = rooted(&blocks);
    let last = blocks.len() - 1;
    blocks[last].1[0] ^= 1;
    let at = rooted(&blocks[..last]).len() as u64;
    let place = Place::new();
    let sources = [place.file("x.car", &rooted(&blocks)), place.file("x.car.zst", &zstd(&rooted(&blocks)))];
    let conflict = place.file("conflict.car", &conflict);
    for plan in PLANS {
        for threads in ["1", "3"] {
            for source in &sources {
                let done = import(&place, source).args(plan).args(&["--threads", threads]).run();
                done.refused(3, at, "does not match its hash");
            }
            let done = import(&place, &conflict).args(plan).args(&["--threads", threads]).run();
            done.refused(3, None, "two different blocks have the key ");
        }
    }
    import(&place, &conflict).through_memtables().run().refused(3, None, "two different blocks have the key ");
}
