//! Keys that an adversary would choose, and sizes that no hash would: the order and the records hold all the same,
//! within the memory budget.

use crate::common::car::*;
use crate::common::chance::rounds;
use crate::common::model::{Key, Model};
use crate::common::run::{Done, Place, Run, import, import_pipe};

/// Memory of the process beyond its budget, in MiB.
const FIXED: u64 = 64;

const SPILL: &[&str] = &["--plan", "spill", "--memory", "16MiB"];

const SOURCE: &[&str] = &["--plan", "source", "--memory", "16MiB"];

/// Through memory and through files of 16 MiB, from a file and from a pipe; the records must be those of `blocks`. Always
/// three ways, in the long form five.
fn holds(blocks: &[Block], keys: &[Key], args: &[&str]) {
    let bytes = car(&[], blocks);
    let (place, source) = Place::with_file("x.car", &bytes);
    let file = || import(&place, &source);
    for &key in keys {
        let model = Model::new(blocks, key);
        let ways = [
            (file(), &["--plan", "memory", "--memory", "16MiB"][..], 16),
            (file(), SOURCE, 16),
            (import_pipe(&place, &*bytes), SPILL, 16),
            (file().args(&["--threads", "1"]), SPILL, 16),
            (file(), &["--plan", "memory", "--memory", "1GiB"], 1024),
        ];
        for (run, plan, budget) in ways.into_iter().take(rounds(3, 5)) {
            holds_within(run.key(key).args(args).args(plan), &model, budget);
        }
    }
}

/// Runs an import within its budget in MiB, and removes the database.
#[track_caller]
fn holds_within(run: Run, model: &Model, budget: u64) -> Done {
    let done = run.run();
    done.holds(model);
    within(&done, budget);
    std::fs::remove_dir_all(&done.db).expect("a database");
    done
}

#[track_caller]
fn within(done: &Done, budget: u64) {
    let peak = done.number("/peak_rss_bytes") >> 20;
    assert!(peak <= budget + FIXED, "{peak} MiB resident with a budget of {budget} MiB");
}

#[test]
fn short_pipe_uses_little_of_the_budget() {
    // Its size is not known, so it may be long: there are many partitions, and each worker has pieces for each of them.
    let blocks: Vec<Block> = (0..3000).map(|seed| block(&noise(seed, 700))).collect();
    let place = Place::new();
    let done = import_pipe(&place, car(&[], &blocks)).args(&["--memory", "4GiB", "--threads", "16"]).run();
    within(&done, 0);
}

/// A block under a blake2b-256 CID that an adversary made up; its bytes cannot be found, so it goes unchecked.
fn forged(digest: &[u8], data: &[u8]) -> Block {
    (cid(DAG_CBOR, BLAKE2B_256, digest), data.to_vec())
}

const UNCHECKED: &[&str] = &["--verify", "none"];

/// Digests that differ only in their last bytes, in an order that is none.
fn equal_beginnings(count: u64, len: usize) -> Vec<Block> {
    (0..count)
        .map(|i| {
            let mut digest = [0xab; 32];
            digest[24..].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            forged(&digest, &noise(i, len + i as usize % 50))
        })
        .collect()
}

#[test]
fn digests_with_equal_prefixes_are_sorted() {
    holds(&equal_beginnings(20_000, 100), &[Key::Cid, Key::Multihash, Key::Digest], UNCHECKED);
}

#[test]
fn oversized_partition_is_merged_in_rounds() {
    // Over 60 MiB in one partition that may take 6: runs of 3 MiB, more than are merged at once.
    let mut blocks = equal_beginnings(60_000, 1100);
    // Duplicates that meet only in the merge.
    for i in 0..1000 {
        blocks.push(blocks[i * 60].clone());
    }
    let model = Model::new(&blocks, Key::Cid);
    let (place, source) = Place::with_file("x.car", &car(&[], &blocks));
    for plan in [SPILL, SOURCE] {
        holds_within(import(&place, &source).args(UNCHECKED).args(plan), &model, 16);
    }
}

#[test]
fn conflict_found_during_merge_is_refused() {
    let mut blocks = equal_beginnings(20_000, 1100);
    let mut other = blocks[3].clone();
    other.1[500] ^= 1;
    let text = cid::Cid::try_from(&other.0[..]).expect("a CID").to_string();
    blocks.push(other);
    let (place, source) = Place::with_file("x.car", &car(&[], &blocks));
    for plan in [SPILL, SOURCE] {
        let done = import(&place, &source).args(UNCHECKED).args(plan).run();
        done.refused(3, None, &format!("two different blocks have the key {text}"));
    }
}

#[test]
fn identity_cids_with_shared_prefixes_are_sorted() {
    // Each begins as all longer ones do.
    let lengths = || (0..=LONGEST_IDENTITY).flat_map(|len| [(b'a', len), (b'b', len)]);
    let blocks: Vec<_> = lengths().map(|(byte, len)| identity(RAW, &vec![byte; len])).collect();
    holds(&blocks, &[Key::Cid, Key::Multihash], &[]);
    let noises = lengths().map(|(byte, len)| identity(RAW, &noise(u64::from(byte) << 32 | len as u64, len)));
    let mixed: Vec<_> = noises.collect::<Vec<_>>().into_iter().rev().collect();
    holds(&mixed, &[Key::Cid], &[]);
}

#[test]
fn long_shared_beginnings_end_files_early() {
    // One partition, whose keys share 7.3 MiB beyond their first 256 bytes each; a file has at most 1 MiB of these.
    let data = |seed| [&[0; 1936][..], &noise(seed, 64)].concat();
    let blocks: Vec<Block> = (0..4500).map(|seed| identity(RAW, &data(seed))).collect();
    let (place, source) = Place::with_file("x.car", &car(&[], &blocks));
    let done = import(&place, &source).args(&["--threads", "1", "--memory", "64MiB"]).run();
    done.holds(&Model::new(&blocks, Key::Cid));
    assert_eq!(done.number("/levels/0/files"), 8, "{}", done.json["levels"]);
}

#[test]
fn keys_that_are_prefixes_are_sorted() {
    let mut blocks = Vec::new();
    for len in 0..=12 {
        for byte in [0, 1, 0xff] {
            blocks.push(identity(RAW, &vec![byte; len]));
            blocks.push(identity(RAW, &[&vec![0; len][..], &[byte]].concat()));
            blocks.push(identity(RAW, &[&vec![0xff; len][..], &[byte]].concat()));
        }
    }
    holds(&blocks, &[Key::Cid, Key::Multihash], &[]);
    // As digests that are not checked: a key may have any length, also none.
    let bare: Vec<_> = blocks.iter().map(|(_, data)| (cid(RAW, 0x12, data), data.clone())).collect();
    holds(&bare, &[Key::Digest], UNCHECKED);
}

#[test]
fn many_codecs_and_functions_are_sorted() {
    let mut blocks = Vec::new();
    for i in 0..15_000u64 {
        let data = noise(i, 200);
        let codec = [RAW, DAG_CBOR, 0x70, 0x72, 0x90, 0x91, 0x0129, 0x0200, 1 << 20, 1 << 40][i as usize % 10];
        blocks.push(match i % 3 {
            0 => blake(codec, &data),
            1 => sha256(codec, &data),
            _ => {
                let len = 20 + i as usize % 40;
                let digest = blake2b_simd::Params::new().hash_length(len).hash(&data);
                (cid(codec, 0xb200 + len as u64, digest.as_bytes()), data)
            }
        });
    }
    holds(&blocks, &[Key::Cid, Key::Multihash, Key::Digest], &[]);
}

/// Six key prefixes of a source whose length is unknown: 25 MB, or 100 MB in the long form.
#[test]
fn piped_key_prefixes_stay_within_the_budget() {
    let codecs = [RAW, DAG_CBOR, 0x70, 0x72, 0x90, 0x91];
    let blocks = (0..rounds(25_000, 100_000)).map(|i| blake(codecs[i % 6], &noise(i as u64, 1000)));
    let blocks: Vec<_> = blocks.collect();
    let (model, bytes) = (Model::new(&blocks, Key::Cid), car(&[], &blocks));
    for budget in [16, 128] {
        let (place, memory) = (Place::new(), format!("{budget}MiB"));
        holds_within(import_pipe(&place, &*bytes).args(&["--plan", "spill", "--memory", &memory]), &model, budget);
    }
}

/// The first blocks of a source do not predict the key prefixes of the rest.
#[test]
fn later_key_prefixes_are_routed() {
    let mut blocks: Vec<_> = (0..10_000).map(|i| sha256(RAW, &noise(i, 500))).collect();
    blocks.extend((0..30_000).map(|i| block(&noise(i, 700))));
    blocks.extend((0..100).map(|i| v0(&noise(i, 100))));
    holds(&blocks, &[Key::Cid], &[]);
}

#[test]
fn blocks_of_skewed_sizes_are_sorted() {
    let mut blocks: Vec<_> = (0..20_000).map(|i| block(&u64::to_be_bytes(i))).collect();
    for (index, len) in [(0, 3 << 20), (10_000, 4 << 20), (15_000, 1 << 20), (19_000, 3 << 20)] {
        let len = len - 64; // with its CID a quarter of the budget
        blocks.insert(index, blake(RAW, &noise(index as u64, len)));
    }
    blocks.push(block(b""));
    holds(&blocks, &[Key::Cid], &[]);
    // All the large ones in one partition, between the small ones.
    let mut digest = [0xab; 32];
    let large = |i: u8| {
        digest[31] = i;
        forged(&digest, &noise(u64::from(i), (3 << 20) + usize::from(i)))
    };
    let mut blocks: Vec<_> = (0..12).rev().map(large).collect();
    blocks.extend(equal_beginnings(30_000, 20));
    holds(&blocks, &[Key::Cid], UNCHECKED);
}

#[test]
fn sorted_and_reversed_sources_are_imported() {
    let mut blocks: Vec<_> = (0..5000).map(|i| block(&noise(i, 400))).collect();
    blocks.extend((0..200).map(|len| identity(RAW, &noise(9, len))));
    blocks.sort_unstable();
    let sorted = Model::new(&blocks, Key::Cid);
    holds(&blocks, &[Key::Cid], &[]);
    blocks.reverse();
    assert_eq!(Model::new(&blocks, Key::Cid), sorted);
    holds(&blocks, &[Key::Cid], &[]);
}

#[test]
fn snapshot_over_the_budget_is_spilled() {
    let blocks: Vec<_> = (0..40_000).map(|i| block(&noise(i, 1000))).collect();
    let model = Model::new(&blocks, Key::Cid);
    let bytes = car(&[], &blocks);
    let (place, source) = Place::with_file("x.car", &zstd(&bytes));
    for run in [
        import(&place, &source).args(&["--plan", "memory", "--memory", "24MiB"]),
        import(&place, &source).args(&["--memory", "24MiB"]),
        import(&place, place.file("plain", &bytes)).args(&["--plan", "memory", "--memory", "24MiB"]),
        import_pipe(&place, bytes.clone()).args(&["--memory", "24MiB"]),
    ] {
        let done = holds_within(run, &model, 24);
        assert_eq!(done.json["plan"]["sort"]["spill"], true, "what happened, not what was expected");
    }
}
