//! Commands that read keep their budget plus 64 MiB, or are refused with the budget that they need.

use std::path::Path;

use crate::common::car::{Block, DAG_CBOR, IDENTITY, RAW, blake, block, car, cid, header_cbor, noise, rooted};
use crate::common::database::import;
use crate::common::run::{Place, bedload};
use crate::memory::{FIXED, MIB, Measured, measured};

/// A dag-cbor block that links to these CIDs.
fn node(cids: &[Vec<u8>]) -> Block {
    // A header of a CAR is a map with a list of links.
    blake(DAG_CBOR, &header_cbor(cids, 1))
}

fn read(command: &str, path: &Path, args: &[&str]) -> Measured {
    let mut read = bedload();
    read.arg(command).arg(path).args(args);
    measured(&mut read, None)
}

#[track_caller]
fn walk_and_export_stay_within_64_mib(blocks: &[Block]) {
    let (place, source) = Place::with_file("source.car", &rooted(blocks));
    let (db, back) = (import(&place.path(""), &source, &["--memory", "1GiB"]), place.path("back.car"));
    let back = back.to_str().expect("UTF-8");
    for (command, args) in [("walk", &[][..]), ("export", &[back])] {
        let done = read(command, &db, &[args, &["--memory", "64MiB", "--threads", "8"]].concat());
        assert!(done.is_done, "{command}: {}{}", done.report, done.stderr);
        assert!(done.anonymous <= 64 * MIB + FIXED, "{command}: {} MiB", done.anonymous / MIB);
        let _ = std::fs::remove_file(back);
    }
}

/// The bug: all links of a block were in memory, each with the CID of the block.
#[test]
fn million_links_stay_within_the_budget() {
    let links: Vec<_> = (0..1_000_000u64).map(|i| cid(RAW, IDENTITY, &i.to_be_bytes())).collect();
    walk_and_export_stay_within_64_mib(&[node(&links)]);
}

/// The bug: a lookup returned up to 512 blocks at once.
#[test]
fn many_large_blocks_stay_within_the_budget() {
    let leaves: Vec<_> = (0..160).map(|seed| blake(RAW, &noise(seed, 1 << 20))).collect();
    let root = node(&leaves.iter().map(|(cid, _)| cid.clone()).collect::<Vec<_>>());
    walk_and_export_stay_within_64_mib(&[&[root], &leaves[..]].concat());
}

/// Runs `inspect` with 64 MiB, which must be refused, and with the budget that the refusal names.
#[track_caller]
fn named_budget_suffices(bytes: &[u8], args: &[&str]) {
    let (_place, source) = Place::with_file("source.car", bytes);
    let inspect = |memory: &str| read("inspect", &source, &[args, &["--threads", "2", "--memory", memory]].concat());
    let refused = inspect("64MiB");
    let message = format!("{}{}", refused.report, refused.stderr);
    assert!(!refused.is_done && message.contains("memory budget of 64.0 MiB"), "{message}");
    assert!(refused.anonymous <= 64 * MIB + FIXED, "{} MiB", refused.anonymous / MIB);
    let (_, named) = refused.stderr.split_once("--memory ").expect("a budget");
    let named = named.split([';', ',', '\n', ' ']).next().expect("a word");
    let done = inspect(named);
    assert!(done.is_done, "{named}: {}{}", done.report, done.stderr);
    let number = |unit: &str| Some(named.strip_suffix(unit)?.parse::<f64>().expect("a number"));
    let mib = number("MiB").unwrap_or_else(|| number("GiB").expect("a unit") * 1024.0);
    let budget = mib as u64 * MIB;
    assert!(done.anonymous <= budget + FIXED, "{} MiB with {named}", done.anonymous / MIB);
}

/// The bugs: the header was read whatever the budget was, and the named budget was too small.
#[test]
fn inspect_names_the_budget_of_a_header() {
    let roots = vec![cid(RAW, IDENTITY, &[]); 2_000_000];
    named_budget_suffices(&car(&roots, &[block(b"one")]), &[]);
}

#[test]
fn inspect_names_the_budget_of_a_block() {
    let blocks: Vec<_> = (0..6).map(|seed| blake(RAW, &noise(seed, 30 << 20))).collect();
    named_budget_suffices(&rooted(&blocks), &["--full"]);
}
