//! Exports of CARs and checks of the result.

use std::collections::HashSet;
use std::path::Path;

use ipld_core::codec::Links;
use serde_ipld_dagcbor::codec::DagCborCodec;
use serde_json::Value;

use super::car::{sections, unpacked};
use super::database::{import, json, open, record};
use super::run::roots;

pub fn export(db: &Path, to: &Path, more: &[&str], code: i32) -> Value {
    let to = to.to_str().expect("a path of text");
    let report = json(&["export", to], db, more, code);
    assert_eq!(report["schema"], "bedload-export-2");
    assert_eq!(report["committed"], code == 0);
    assert_eq!(Path::new(to).exists(), code == 0);
    report
}

pub fn digest(snapshot: &Path, more: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), snapshot, more);
    record(&db)["digest"].as_str().expect("a digest").to_owned()
}

pub fn unpack(path: &Path) -> Vec<u8> {
    unpacked(&std::fs::read(path).expect("read"))
}

/// Depth first by the book: a block, then all below each of its links; parents wait for what hangs below their children,
/// except those of genesis.
fn model(db: &Path, roots: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let db = open(db);
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    let mut level = roots.to_vec();
    while !level.is_empty() {
        let mut parents = Vec::new();
        for root in level {
            let mut stack = vec![root];
            while let Some(cid) = stack.pop() {
                let codec = cid::Cid::try_from(&cid[..]).expect("a CID").codec();
                let Some(block) = db.get(&cid).expect("read") else { continue };
                if !seen.insert(cid.clone()) {
                    continue;
                }
                order.push(cid);
                let mut links: Vec<Vec<u8>> = match codec {
                    0x71 => DagCborCodec::links(&block).expect("dag-cbor").map(|cid| cid.to_bytes()).collect(),
                    _ => Vec::new(),
                };
                // A header: 16 fields, the fourth from the end of its links and those before are parents.
                if block[0] == 0x90 && links.len() > 3 && matches!(block[1], 0x42..=0x44) {
                    let [state, receipts, messages]: [Vec<u8>; 3] =
                        links.split_off(links.len() - 3).try_into().expect("three");
                    let own = match db.get(&links[0]).expect("read") {
                        // The parent of genesis is no list.
                        Some(parent) if parent[0] != 0x90 => std::mem::take(&mut links),
                        _ => Vec::new(),
                    };
                    parents.append(&mut links);
                    links = [own, vec![messages, state, receipts]].concat();
                }
                stack.extend(links.into_iter().rev());
            }
        }
        level = parents;
    }
    order
}

/// The blocks of an export come in the order in which nodes write them.
pub fn is_in_node_order(snapshot: &Path) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), snapshot, &[]);
    let to = dir.path().join("out.car");
    let report = export(&db, &to, &[], 0);
    let ours: Vec<Vec<u8>> = sections(&unpack(&to)).into_iter().map(|(cid, _)| cid).collect();
    let model = model(&db, &roots(&report));
    let first = ours.iter().zip(&model).position(|(ours, theirs)| ours != theirs);
    assert_eq!((first, ours.len()), (None, model.len()), "{}", snapshot.display());
    // Neither memory nor threads change a byte.
    let again = dir.path().join("again.car");
    export(&db, &again, &["--memory", "1M", "--threads", "1"], 0);
    assert!(std::fs::read(&again).expect("read") == std::fs::read(&to).expect("read"));
}

/// The index of an export in Forest's form finds every block.
pub fn index_finds_every_block(snapshot: &Path) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), snapshot, &[]);
    let to = dir.path().join("out.forest.car.zst");
    export(&db, &to, &[], 0);
    let archive = std::fs::read(&to).expect("read");
    let word = |at: usize| u64::from_le_bytes(archive[at..at + 8].try_into().expect("8 bytes"));
    // Footer, index and table as the format says; none of the program's own code.
    let footer = archive.len() - 16;
    assert_eq!(archive[footer..footer + 8], [0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0]);
    let index = word(archive.len() - 8) as usize;
    assert_eq!((word(index), archive[index - 8..index - 4].to_vec()), (0xdead_bef0, vec![0x50, 0x2a, 0x4d, 0x18]));
    let (buckets, table) = (word(index + 24), index + 32);
    let blocks = sections(&unpack(&to));
    assert!(blocks.len() > 1000);
    for (cid, block) in &blocks {
        let parsed = cid::Cid::try_from(&cid[..]).expect("a CID");
        let words = parsed.hash().digest().chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().expect("8")));
        let hash = words.fold(parsed.codec() ^ parsed.hash().code(), |hash, word| hash ^ word).saturating_sub(1);
        let mut slot = table + 16 * ((u128::from(hash) * u128::from(buckets)) >> 64) as usize;
        let mut found = false;
        while word(slot) != u64::MAX && !found {
            if word(slot) == hash {
                let frame = &archive[word(slot + 8) as usize..];
                let len = zstd::zstd_safe::find_frame_compressed_size(frame).expect("a whole frame");
                let content = zstd::decode_all(&frame[..len]).expect("a frame");
                let section = [&cid[..], block].concat();
                found = content.windows(section.len()).any(|window| window == section);
            }
            slot += 16;
        }
        assert!(found, "{parsed}");
    }
}
