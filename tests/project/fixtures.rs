//! `fixtures/`: small snapshots of every kind, made by this project's own code and kept, so that a change of what the
//! code writes or reads is seen.
//!
//! `BEDLOAD_WRITE_FIXTURES=1 cargo test --release --test all fixtures` makes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bedload::testing::blocks::chain::Family;
use bedload::testing::generate::log::{Dictionaries, LogEntry, LogSpec, LogSummary};
use bedload::testing::generate::log::{
    files::IndexKind,
    layouts::{index, partitions, pruned, split},
};
use bedload::testing::generate::{Format, Profile, Spec};
use ipld_core::codec::Links;
use serde_ipld_dagcbor::codec::DagCborCodec;
use serde_json::{Value, json};

use crate::common::car::*;
use crate::common::fixtures::own;
use crate::common::log::{LogBlock, hex, model as model_of_log};
use crate::common::log_blocks;
use crate::common::model::{Key, Model};
use crate::project::files;

/// Largest size of all fixtures together.
const ROOM: usize = 2 << 20;

/// Files by their names, and what is known about the snapshots among them.
#[derive(Default)]
struct Made {
    files: BTreeMap<String, Vec<u8>>,
    rows: Vec<Value>,
}

impl Made {
    fn file(&mut self, name: &str, bytes: Vec<u8>) {
        assert!(self.files.insert(name.into(), bytes).is_none(), "two files are named {name}");
    }

    fn row(&mut self, mut row: Value, more: Value) {
        let fields = more.as_object().expect("fields").clone();
        row.as_object_mut().expect("fields").extend(fields);
        self.rows.push(row);
    }

    /// A CAR of these blocks.
    fn car(&mut self, name: &str, bytes: Vec<u8>, roots: &[Vec<u8>], blocks: &[Block], more: Value) {
        let model = Model::new(blocks, Key::Cid);
        let name = format!("car/{name}");
        let (read, distinct) = (blocks.len(), model.records.len());
        let row = json!({
            "file": name, "version": 1, "compressed": false, "roots": roots.iter().map(|root| hex(root)).collect::<Vec<_>>(),
            "blocks": read, "duplicates": read - distinct, "distinct": distinct, "payload_bytes": model.payload,
            "null_padding": 0, "digest": model.digest(),
        });
        self.row(row, more);
        self.file(&name, bytes);
    }

    /// A block log, in one file or in a folder, that holds these blocks.
    fn log(&mut self, name: &str, blocks: &[LogBlock], more: Value) {
        let model = model_of_log(blocks);
        let end = |block: &LogBlock| json!([block.number, hex(&block.id)]);
        let row = json!({
            "file": format!("block_log/{name}"), "blocks": model.read, "first": end(&blocks[0]),
            "last": end(&blocks[blocks.len() - 1]), "payload_bytes": model.payload, "digest": model.digest(),
        });
        self.row(row, more);
    }

    /// A snapshot that every import must refuse.
    fn refused(&mut self, name: &str, bytes: Vec<u8>, offset: Option<usize>, reason: &str) {
        let name = format!("broken/{name}");
        self.rows.push(json!({"file": name, "refused": {"offset": offset, "reason": reason}}));
        self.file(&name, bytes);
    }
}

/// Counts the blocks reachable from the roots, by the links that an independent decoder finds.
fn links(roots: &[Vec<u8>], blocks: &[Block]) -> Value {
    let blocks: BTreeMap<&[u8], &[u8]> = blocks.iter().map(|(cid, data)| (&cid[..], &data[..])).collect();
    let (mut seen, mut missing, mut next) = (BTreeSet::new(), BTreeSet::new(), roots.to_vec());
    while let Some(cid) = next.pop() {
        let parsed = cid::Cid::try_from(&cid[..]).expect("a CID");
        assert!(parsed.hash().code() != IDENTITY && ![0xf101, 0xf102].contains(&parsed.codec()), "not counted here");
        let Some(block) = blocks.get(&cid[..]) else {
            missing.insert(cid);
            continue;
        };
        if parsed.codec() == DAG_CBOR && seen.insert(cid) {
            next.extend(DagCborCodec::links(block).expect("dag-cbor").map(|link| link.to_bytes()));
        }
    }
    json!({
        "reachable": seen.len(), "identity_only_in_links": 0, "commitments": 0, "missing": missing.len(),
        "unreachable": blocks.len() - seen.len(),
    })
}

/// One chain with links, in every form that a snapshot has.
fn chain(made: &mut Made) {
    let spec = Spec::new(Profile::Mainnet, 64 << 10).seed(14).duplicates(5).expect("a share");
    let write = |format| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let summary = bedload::testing::generate::write(&spec.clone().format(format), &mut bytes).expect("into memory");
        (bytes.into_inner(), summary.roots.iter().map(cid::Cid::to_bytes).collect::<Vec<_>>())
    };
    let (plain, roots) = write(Format::Car);
    let blocks = sections(&plain);
    let links = links(&roots, &blocks);
    let packed = json!({"compressed": true, "links": links});
    made.car("chain.v2.car", write(Format::CarV2).0, &roots, &blocks, json!({"version": 2, "links": links}));
    made.car("chain.car.zst", write(Format::CarZst).0, &roots, &blocks, packed.clone());
    made.car("chain.forest.car.zst", write(Format::ForestCarZst).0, &roots, &blocks, packed.clone());
    made.car("chain.car.gz", gzip(&plain), &roots, &blocks, packed.clone());
    made.car("chain.car.xz", xz(&plain), &roots, &blocks, packed.clone());
    made.car("chain.car.lz4", lz4(&plain), &roots, &blocks, packed);
    made.car("chain.car", plain, &roots, &blocks, json!({"links": links}));
}

/// An index of a CARv2 as go-car writes it: multihashes sorted, each with the offset of its section.
fn sorted_index(blocks: &[Block]) -> Vec<u8> {
    let mut entries: BTreeMap<u64, Vec<(Vec<u8>, u64)>> = BTreeMap::new();
    let mut offset = header(&[blocks[0].0.clone()]).len() as u64;
    for block in blocks {
        let cid = cid::Cid::try_from(&block.0[..]).expect("a CID");
        entries.entry(cid.hash().code()).or_default().push((cid.hash().digest().to_vec(), offset));
        offset += section(block).len() as u64;
    }
    let mut index = [varint(0x0401), (entries.len() as u32).to_le_bytes().to_vec()].concat();
    for (code, mut entries) in entries {
        entries.sort();
        let width = entries[0].0.len() + 8;
        index.extend(code.to_le_bytes());
        // One width: that of this function's digests.
        index.extend(1u32.to_le_bytes());
        index.extend((width as u32).to_le_bytes());
        index.extend(((entries.len() * width) as u64).to_le_bytes());
        entries.into_iter().for_each(|(digest, at)| index.extend([&digest[..], &at.to_le_bytes()].concat()));
    }
    index
}

/// Every kind of key, every hash function, and what else a CAR may have.
fn kinds(made: &mut Made) {
    let mut blocks: Vec<_> = (0..5).map(|i| v0(&noise(i, 100))).collect();
    for codec in [0x51, RAW, 0x70, DAG_CBOR, 0x72, 0x0129, 0xf101, 0x3f_ffff, u64::from(u32::MAX), u64::MAX] {
        blocks.push(sha256(codec, &noise(codec, 90)));
        blocks.push(blake(codec, &noise(codec, 91)));
        blocks.push(identity(codec, &noise(codec, 17)));
    }
    let first = |blocks: &[Block]| vec![blocks[0].0.clone()];
    made.car("cids.car", rooted(&blocks), &first(&blocks), &blocks, json!({}));
    let blocks = every_hash(&noise(4, 333));
    made.car("hashes.car", rooted(&blocks), &first(&blocks), &blocks, json!({}));
    let mut blocks: Vec<_> =
        (0..40).map(|i| if i % 2 == 0 { block(&noise(i, 70)) } else { sha256(RAW, &noise(i, 60)) }).collect();
    let indexed = v2(&rooted(&blocks), 1413, &sorted_index(&blocks));
    made.car("indexed.v2.car", indexed, &first(&blocks), &blocks, json!({"version": 2}));
    blocks.extend(blocks[3..9].to_vec());
    let padded = [rooted(&blocks), vec![0; 500]].concat();
    made.car("padded.car", padded, &first(&blocks), &blocks, json!({"null_padding": 500}));
    made.car("empty.car", car(&[], &[]), &[], &[], json!({}));
}

/// A generated log: its bytes, what its generator says of its blocks, and the blocks.
fn generated(
    spec: &LogSpec,
    family: Family,
    version: u32,
    dictionary: Option<&[u8]>,
) -> (Vec<u8>, Vec<LogEntry>, LogSummary, Vec<LogBlock>) {
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    let each = |entry: &LogEntry| {
        entries.push(*entry);
        Ok(())
    };
    let summary = bedload::testing::generate::log::write(spec, &mut bytes, each).expect("into memory");
    let stored = log_blocks::blocks(family, version, &bytes, dictionary);
    // Each block names the one before it.
    let parent = if family == Family::Antelope { 14..46 } else { 0..20 };
    let mut ids: Vec<Vec<u8>> = stored[1..].iter().map(|block| block[parent.clone()].to_vec()).collect();
    ids.push(summary.head.as_bytes().to_vec());
    let blocks = stored.into_iter().zip(ids).map(|(bytes, id)| {
        let number = u32::from_be_bytes(id[..4].try_into().expect("four bytes"));
        LogBlock { number, id, bytes }
    });
    let blocks = blocks.collect();
    (bytes, entries, summary, blocks)
}

fn logs_of_steem_and_hive(made: &mut Made) {
    let spec = LogSpec::new(Family::Steem, 60 << 10).seed(1);
    let (log, entries, summary, blocks) = generated(&spec, Family::Steem, 0, None);
    made.log("steem/block_log", &blocks, json!({"transactions": summary.transactions}));
    made.file("block_log/steem/block_log", log);
    made.file("block_log/steem/block_log.index", index(IndexKind::Words, &entries));

    let spec = LogSpec::new(Family::Hive, 60 << 10).seed(2);
    let (log, entries, summary, blocks) = generated(&spec, Family::Hive, 0, None);
    made.log("hive/block_log", &blocks, json!({"transactions": summary.transactions}));
    made.file("block_log/hive/block_log.artifacts", index(IndexKind::Artifacts1_1, &entries));
    made.log("hive_split", &blocks, json!({"folder": true}));
    for part in split(&log, &entries, 4) {
        made.file(&format!("block_log/hive_split/{}", part.name), part.log);
    }
    made.file("block_log/hive/block_log", log);

    let samples: Vec<Vec<u8>> = blocks.iter().map(|block| block.bytes.clone()).collect();
    let dictionary = zstd::dict::from_samples(&samples, 4000).expect("trained");
    let spec = LogSpec::new(Family::Hive, 60 << 10).seed(3);
    let spec = spec.dictionaries(Dictionaries::from([(0, dictionary.clone())])).expect("for hive");
    let (log, entries, summary, blocks) = generated(&spec, Family::Hive, 0, Some(&dictionary));
    assert!(entries.iter().any(|entry| entry.word >> 56 & 1 == 1), "no block is packed with the dictionary");
    made.log("hive/dictionary.block_log", &blocks, json!({"transactions": summary.transactions}));
    made.file("block_log/hive/000M.dict.zst", zstd(&dictionary));
    let artifacts = index(IndexKind::Artifacts1_0, &entries);
    made.file("block_log/hive/dictionary.block_log.artifacts", artifacts);
    made.file("block_log/hive/dictionary.block_log", log);
}

fn logs_of_antelope(made: &mut Made) {
    for (version, first) in [(1, 1), (2, 1), (3, 1), (4, 1), (3, 701), (4, 701)] {
        let spec = LogSpec::new(Family::Antelope, 60 << 10).seed(4).version(version).expect("a version");
        let spec = spec.savanna_from(Some(first + 4)).first_block(first).expect("a block");
        let (log, entries, summary, blocks) = generated(&spec, Family::Antelope, version, None);
        let more = json!({"version": version, "chain_id": summary.chain_id, "transactions": summary.transactions});
        let dir = if first == 1 { format!("antelope/v{version}") } else { format!("antelope/v{version}_partial") };
        made.log(&format!("{dir}/blocks.log"), &blocks, more.clone());
        if (version, first) == (3, 1) {
            let live = 3;
            let kept = &blocks[blocks.len() - live..];
            made.log("antelope/pruned/blocks.log", kept, json!({"version": 3, "pruned": true}));
            made.file("block_log/antelope/pruned/blocks.log", pruned(&log, &entries, live as u32));
            made.log("antelope/partitions", &blocks, json!({"version": 3, "folder": true}));
            let mut parts = partitions(&spec, &log, &entries, 4);
            let newest = parts.pop().expect("partitions");
            made.file("block_log/antelope/partitions/blocks.log", newest.log);
            for part in parts {
                made.file(&format!("block_log/antelope/partitions/retained/{}", part.name), part.log);
            }
        }
        made.file(&format!("block_log/{dir}/blocks.index"), index(IndexKind::Words, &entries));
        made.file(&format!("block_log/{dir}/blocks.log"), log);
    }
}

fn broken(made: &mut Made) {
    let blocks = [block(b"the first"), sha256(RAW, &noise(1, 150)), block(&noise(2, 20))];
    let whole = rooted(&blocks);
    let header_len = header(&[blocks[0].0.clone()]).len();
    let changed = |whole: &[u8], at: usize, bit: u8| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= bit;
        bytes
    };
    let end = whole.len();
    made.refused("cut.car", whole[..end - 5].to_vec(), Some(end - 5), "the snapshot ends inside a block");
    made.refused(
        "hash.car",
        changed(&whole, end - 1, 1),
        Some(end - section(&blocks[2]).len()),
        "does not match its hash",
    );
    made.refused("page.car", b"<!DOCTYPE html>\n<html></html>\n".to_vec(), Some(0), "this is not a CAR");
    let third = header_cbor(&[], 3);
    let third = [varint(third.len() as u64), third].concat();
    made.refused("version_3.car", third, Some(1), "CAR version 3 is not supported");
    let long = [&whole[..], &varint(200 << 30), &blocks[0].0].concat();
    made.refused("long_section.car", long, Some(end), "is over the limit of 2.0 GiB");
    let (version, at) = ([3, 7, 0x71, 0, 0, 0], end + 1);
    made.refused("cid_version.car", [&whole[..], &version].concat(), Some(at), "CID version 7 does not exist");
    let overlong = [&whole[..], &[0x80, 0]].concat();
    made.refused("overlong.car", overlong, Some(end), "a section's length is written with more bytes than it needs");
    let zeros = [&whole[..], &[0; 99]].concat();
    made.refused("padded.car", zeros, Some(end), "");
    let data = [&v2_head(0, end as u64, 0)[..], &whole].concat();
    let reason = "its data offset 0 lies inside the header of 51 bytes";
    made.refused("offset.v2.car", data, Some(11), reason);
    let packed = zstd(&whole);
    let cut = packed.len() - 1;
    made.refused("cut.car.zst", packed[..cut].to_vec(), Some(cut), "the zstd data ends in the middle of a frame");
    let tail = [&packed[..], b"garbage"].concat();
    made.refused("tail.car.zst", tail, Some(packed.len()), "what follows the last zstd frame is not zstd");
    for (name, packed) in [("gz", gzip(&whole)), ("xz", xz(&whole)), ("lz4", lz4(&whole))] {
        let cut = packed.len() - 3;
        let reason = "data ends in the middle of a frame";
        made.refused(&format!("cut.car.{name}"), packed[..cut].to_vec(), Some(cut), reason);
    }
    assert_eq!(header_len, end - blocks.iter().map(|block| section(block).len()).sum::<usize>());

    let blocks = crate::common::log::steem(1, 30, 5);
    let whole = crate::common::log::raw(&blocks);
    let starts: Vec<usize> = crate::common::log::words(&whole).iter().map(|&word| word as usize).collect();
    let torn = format!("the log is torn: block 29 ({}) is the last complete one", hex(&blocks[28].id));
    made.refused("torn.block_log", whole[..whole.len() - 1].to_vec(), Some(starts[29]), &torn);
    made.refused(
        "link.block_log",
        changed(&whole, starts[15] + 21, 4),
        Some(starts[16]),
        "block 17 says that it follows",
    );
    let with = blocks.iter().rposition(|block| block.bytes.len() > 300).expect("a block with a transaction");
    let reason = format!("the transactions of block {} do not match its header", with + 1);
    made.refused("merkle.block_log", changed(&whole, starts[with] + 200, 4), Some(starts[with]), &reason);
}

#[test]
fn fixtures_match_the_generating_code() {
    let mut made = Made::default();
    [chain, kinds, logs_of_steem_and_hive, logs_of_antelope, broken].into_iter().for_each(|make| make(&mut made));
    let list = made.rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    made.file("expected.jsonl", list.into_bytes());
    let made = made.files;
    let room: usize = made.values().map(Vec::len).sum();
    assert!(room < ROOM, "the fixtures take {room} bytes");
    if std::env::var_os("BEDLOAD_WRITE_FIXTURES").is_some() {
        for folder in ["car", "block_log", "broken"] {
            let _ = std::fs::remove_dir_all(own().join(folder));
        }
        for (name, bytes) in &made {
            let path = own().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("room for a file");
        }
    }
    let name = |path: &Path| path.strip_prefix(own()).expect("below").to_str().expect("text").to_owned();
    let kept = files("fixtures").into_iter().map(|path| (name(&path), std::fs::read(&path).expect("a file")));
    let mut kept: BTreeMap<_, _> = kept.collect();
    // Facts about files from elsewhere.
    kept.remove("real.jsonl").expect("the list of the real ones");
    assert_eq!(kept.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    for (name, bytes) in made {
        assert!(kept[&name] == bytes, "{name} is not what the code makes; BEDLOAD_WRITE_FIXTURES=1 writes it anew");
    }
}
