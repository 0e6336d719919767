//! `--links check`: the same count of links that lead to no block with every loader and key, also after a kill; and
//! `--links require`, `--links roots`.

use std::sync::OnceLock;

use crate::common::car::*;
use crate::common::crash::*;
use crate::common::model::Key;

const BLOCKS: u64 = 3000;

/// Each of so many blocks links to one that is not there; two such links are the same.
const EVERY: u64 = 50;

fn linking(seed: u64, links: &[Vec<u8>]) -> Block {
    let data = noise(seed, 300 + (seed % 900) as usize);
    let list = [&[0x80 | links.len() as u8][..], &links.iter().flat_map(|cid| link(cid)).collect::<Vec<u8>>()].concat();
    let bytes = [&[0x59][..], &(data.len() as u16).to_be_bytes(), &data].concat();
    block(&[&[0x82][..], &bytes, &list].concat())
}

/// A block that no snapshot of these tests has.
fn absent(number: u64) -> Block {
    block(&[&[0x48][..], &number.to_be_bytes()].concat())
}

/// Blocks that link to the one before; some to blocks that are not there, one of these from a block inside of a link.
/// Links to sector commitments, to raw data inside of the link, and twice to the same block count as they must.
fn linked() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let mut blocks: Vec<Block> = Vec::new();
        for number in 0..BLOCKS {
            let mut links: Vec<Vec<u8>> = blocks.last().map(|(cid, _)| cid.clone()).into_iter().collect();
            if number % EVERY == 0 {
                let (cid, _) = absent(number);
                links.extend([cid.clone(), cid]);
            }
            if number == 7 {
                links.push(identity(RAW, b"inside").0);
                links.push(identity(DAG_CBOR, &link(&absent(7).0)).0);
                links.push(vec![1, 0x81, 0xe2, 0x03, 0x12, 2, 9, 9]);
            }
            blocks.push(linking(number, &links));
        }
        Snapshot::of_blocks("linked.car", car(&[blocks[BLOCKS as usize - 1].0.clone()], &blocks), &blocks)
    })
}

const MISSING: u64 = BLOCKS / EVERY + 1;
const WAYS: [Way; 3] = [Way::Memory, Way::Spill, Way::Memtables];
const KEYS: [Key; 3] = [Key::Cid, Key::Multihash, Key::Digest];

#[track_caller]
fn counts(ended: &Ended, missing: u64) {
    assert_eq!(ended.number("/links/linked"), BLOCKS - 1 + MISSING, "{ended:?}");
    assert_eq!((ended.number("/links/missing"), ended.number("/links/malformed")), (missing, 0), "{ended:?}");
    let named = ended.json["links"]["first_missing"].as_array().expect("a list");
    assert_eq!(named.len() as u64, missing.min(10), "{ended:?}");
    let absent: Vec<String> =
        (0..BLOCKS).map(|number| cid::Cid::try_from(absent(number).0).expect("one").to_string()).collect();
    assert!(named.iter().all(|name| absent.iter().any(|absent| name == absent)), "{ended:?}");
}

#[test]
fn every_loader_counts_the_same_links() {
    for (number, way) in WAYS.into_iter().enumerate() {
        for (nth, from) in [From::File, From::Pipe].into_iter().enumerate() {
            for &key in in_turn(&KEYS, number + nth) {
                let case = Case::of(linked(), way, from).key(key);
                let ended = case.clone().arg(&["--links", "check"]).finishes();
                counts(&ended, MISSING);
                assert_eq!(ended.number("/missing_roots"), 0);
            }
        }
    }
    // Missing links are no error of `roots`.
    for links in ["ignore", "roots"] {
        let case = Case::of(linked(), Way::Memory, From::File).arg(&["--links", links]);
        let without = case.finishes();
        assert!(without.json.get("links").is_none(), "{without:?}");
    }
}

#[test]
fn resumed_import_counts_the_same_links() {
    for (number, (way, points)) in [
        (Way::Memory, &["start", "held"][..]),
        (Way::Memory, &["built", "ingesting", "ingest", "ingested", "recorded"]),
        (Way::Spill, &["read", "read:2", "read-done"]),
        (Way::Spill, &["built", "built:2", "ingested", "recorded"]),
        (Way::Memtables, &["batch", "batch:3", "read-done", "compacted", "recorded"]),
    ]
    .into_iter()
    .enumerate()
    {
        for &from in in_turn(&[From::File, From::Pipe], number) {
            let case = Case::of(linked(), way, from).key(KEYS[number % 3]).arg(&["--links", "check"]);
            let runs = case.resumes_from_each(points, || {});
            let (point, ended) = runs.last().expect("runs");
            counts(ended, MISSING);
            // An import through memtables starts over.
            let expected = *point != "held" && way != Way::Memtables;
            assert_eq!(ended.json["resumed"], expected, "{point}: {ended:?}");
        }
    }
}

#[test]
fn links_to_existing_blocks_are_not_missing() {
    let held: Vec<Block> = (0..BLOCKS).step_by(2 * EVERY as usize).map(absent).collect();
    let old = Snapshot::of_blocks("held.car", rooted(&held), &held);
    for way in WAYS {
        let case = Case::of(linked(), way, From::File).into_existing(&old).arg(&["--links", "check"]);
        case.put_old();
        counts(&case.finishes(), MISSING - held.len() as u64);
    }
}

#[test]
fn missing_required_links_are_refused() {
    let other = absent(1).0;
    let roots = [linked().blocks[0].0.clone(), other.clone(), identity(RAW, b"a root").0];
    let lacking = Snapshot::of_blocks("rootless.car", car(&roots, &linked().blocks), &linked().blocks).leaked();
    let name = cid::Cid::try_from(other).expect("a CID").to_string();
    for way in WAYS {
        let case = Case::of(lacking, way, From::File);
        for (links, says) in [
            ("roots", format!("rootless.car: the blocks lack 1 of 3 roots: {name}\n")),
            ("require", format!("rootless.car: the blocks lack {MISSING} of the {} that they link to: bafy", "3,060")),
        ] {
            case.clone().arg(&["--links", links]).fails(3, links, &[&says]);
            assert!(!case.partial().exists(), "{links}: something is left");
        }
        let ended = case.finishes();
        assert_eq!((ended.number("/missing_roots"), ended.text("/first_missing_roots/0")), (1, &*name));
    }
    let roots = "warning: the blocks lack 1 of 3 roots: ";
    let links = "warning: the blocks lack 61 of the 3,060 that they link to: ";
    let checked = Case::of(lacking, Way::Memory, From::File).arg(&["--links", "check"]);
    checked.finishes().says(&[roots, links]);
}

#[test]
fn hidden_or_malformed_links_are_refused() {
    let hidden = linking(0, &[identity(DAG_CBOR, &link(&absent(1).0)).0]);
    let name = cid::Cid::try_from(absent(1).0).expect("one").to_string();
    // An array of two that ends after its first item.
    let cut = blake(DAG_CBOR, &[0x82, 0x01]);
    let (hidden_root, cut_root) = (hidden.0.clone(), cut.0.clone());
    for (file, block, root, words) in [
        ("hidden.car", hidden, hidden_root, &*format!("lack 1 of the 1 that they link to: {name}")),
        ("cut.car", cut, cut_root, "1 block or link is not what their codec says"),
        ("lacking.car", linking(0, &[]), absent(9).0, "the blocks lack 1 of 1 root"),
    ] {
        let snapshot = Snapshot::of_blocks(file, car(&[root], std::slice::from_ref(&block)), &[block]).leaked();
        let case = Case::of(snapshot, Way::Memory, From::File).arg(&["--links", "require"]);
        case.fails(3, file, &[words]);
    }
}
