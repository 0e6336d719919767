//! Every kind of CAR is imported as exactly its records.

use crate::common::car::*;
use crate::common::database::json;
use crate::common::model::{Key, Model};
use crate::common::run::{Place, import, import_pipe, program};
use crate::import::{imported, imports};

/// Imports from a file and from a pipe, through memory and through files; the records must be those of `blocks`.
fn holds(bytes: &[u8], blocks: &[Block]) {
    holds_as(bytes, blocks, Key::Cid);
}

fn holds_as(bytes: &[u8], blocks: &[Block], key: Key) {
    let (place, source) = Place::with_file("snapshot", bytes);
    imports(import(&place, &source).key(key).args(&["--plan", "memory"]), blocks);
    imports(import(&place, &source).key(key).args(&["--plan", "spill", "--memory", "64MiB"]), blocks);
    imports(import_pipe(&place, bytes).key(key), blocks);
}

fn some() -> Vec<Block> {
    (0..40).map(|i| block(&noise(i, 50 + i as usize * 17))).collect()
}

/// More than fits one read.
fn many() -> Vec<Block> {
    (0..3000).map(|i| block(&noise(i, 300 + i as usize % 900))).collect()
}

#[test]
fn block_under_several_cids_is_stored() {
    let data = noise(1, 500);
    let blocks = [v0(&data), sha256(RAW, &data), sha256(DAG_CBOR, &data), sha256(0x70, &data), blake(RAW, &data)];
    for (key, records) in [(Key::Cid, 5), (Key::Multihash, 2), (Key::Digest, 2)] {
        assert_eq!(Model::new(&blocks, key).records.len(), records);
        holds_as(&rooted(&blocks), &blocks, key);
    }
}

#[test]
fn long_identity_cids_are_imported() {
    let lengths = [0, 1, 2, 7, 8, 9, 31, 32, 63, 64, 65, 127, 128, 129, 1000, LONGEST_IDENTITY];
    let mut blocks: Vec<_> = lengths.iter().map(|&len| identity(RAW, &noise(len as u64, len))).collect();
    blocks.extend(lengths.iter().map(|&len| identity(DAG_CBOR, &vec![0; len])));
    for key in [Key::Cid, Key::Multihash] {
        holds_as(&car(&[], &blocks), &blocks, key);
    }
    let too_long = car(&[], &[identity(RAW, &noise(1, LONGEST_IDENTITY + 1))]);
    imported(&too_long, &[]).1.refused_by(3, "a CID of 2049 bytes exceeds the limit of 2048 bytes");
}

#[test]
fn any_number_of_roots_is_recorded() {
    let blocks = some();
    let there: Vec<_> = blocks.iter().map(|(cid, _)| cid.clone()).collect();
    let absent: Vec<_> = (0..3000).map(|i| block(&noise(i + 1_000_000, 9)).0).collect();
    let kinds = [v0(b"root").0, identity(RAW, b"root").0, sha256(RAW, b"root").0];
    for roots in [&[][..], &there[..1], &there, &absent[..1], &absent, &kinds, &[there[0].clone(), there[0].clone()]] {
        let bytes = car(roots, &blocks);
        if roots == absent {
            // The header is longer than one read.
            holds(&v2(&bytes, 100_000, &noise(1, 1000)), &blocks);
            holds(&bytes, &blocks);
        }
        let (_place, done) = imported(&bytes, &[]);
        assert_eq!(done.roots(), roots, "the roots, in the order of the file");
    }
}

#[test]
fn empty_snapshots_and_blocks_are_imported() {
    for bytes in
        [car(&[], &[]), car(&[block(b"absent").0], &[]), v2(&car(&[], &[]), 10, &[1, 2, 3]), zstd(&car(&[], &[]))]
    {
        holds(&bytes, &[]);
    }
    let blocks = [block(b""), sha256(RAW, b""), v0(b""), identity(RAW, b""), blake(RAW, b""), block(b"last")];
    holds(&rooted(&blocks), &blocks);
    holds(&rooted(&blocks[..1]), &blocks[..1]);
    // Here one key has but two bytes.
    holds_as(&rooted(&blocks), &blocks, Key::Multihash);
    let blocks = with_digests(&blocks);
    holds_as(&rooted(&blocks), &blocks, Key::Digest);
}

#[test]
fn duplicates_are_stored_once() {
    let once = many();
    let mut blocks = once.clone();
    blocks.splice(5..5, [once[4].clone(), once[4].clone(), once[0].clone()]);
    blocks.extend(once[..700].to_vec());
    blocks.extend([block(b"last"), block(b"last")]);
    holds(&rooted(&blocks), &blocks);
    holds(&zstd(&rooted(&blocks)), &blocks);
    // Nothing but one block.
    let same = vec![block(b"again"); 10_000];
    holds(&rooted(&same), &same);
}

#[test]
fn block_of_100_mb_is_imported() {
    let mut data = vec![0; 100_000_000];
    for (index, byte) in data.iter_mut().enumerate().step_by(61) {
        *byte = index as u8;
    }
    let blocks = vec![block(b"before"), blake(RAW, &data), block(b"after")];
    let bytes = rooted(&blocks);
    let model = Model::new(&blocks, Key::Cid);
    let (place, source) = Place::with_file("f3.car", &bytes);
    drop((bytes, blocks, data));
    import(&place, &source).args(&["--memory", "1GiB"]).run().holds(&model);
}

#[test]
fn long_identity_root_is_found_again() {
    let root = identity(RAW, &noise(5, 300));
    let blocks = [block(b"one"), root.clone(), block(b"two")];
    let bytes = car(std::slice::from_ref(&root.0), &blocks);
    holds(&bytes, &blocks);
    // And what is written down of it leads to it again.
    let (_place, done) = imported(&bytes, &[]);
    let text = &*cid::multibase::encode(cid::multibase::Base::Base32Lower, &root.0);
    assert_eq!(done.text("/source/roots/0"), text);
    let walk = json(&["walk"], &done.db, &[], 0);
    assert_eq!((&walk["roots"][0], &walk["reachable"]), (&text.into(), &1.into()));
    program().args(["get", "--as", "raw", text, "--db"]).arg(&done.db).assert().success().stdout(root.1);
}

#[test]
fn carv2_padding_and_index_are_skipped() {
    let blocks = some();
    let inner = rooted(&blocks);
    let codecs = [varint(0x0400), varint(0x0401), vec![1], vec![0xff; 30]];
    for (padding, codec) in [0, 1, 1413, 70_000].into_iter().zip(&codecs) {
        holds(&v2(&inner, padding, &[]), &blocks);
        // The index is garbage after its codec, and is not read.
        holds(&v2(&inner, padding, &[&codec[..], &noise(3, 5000)].concat()), &blocks);
    }
}

#[test]
fn bytes_after_carv2_data_are_ignored() {
    let blocks = some();
    let inner = rooted(&blocks);
    // The bytes after the data look like more blocks, with and without an index offset.
    let more = section(&block(b"not part of the data"));
    holds(&v2(&inner, 0, &more), &blocks);
    let end = 51 + inner.len() as u64;
    holds(&[&v2_head(51, inner.len() as u64, 0)[..], &inner, &more].concat(), &blocks);
    holds(&[&v2_head(51, inner.len() as u64, end + 7)[..], &inner, &[0; 7], &more].concat(), &blocks);
    // An index that begins after the end of the file is ignored like any other.
    holds(&[&v2_head(51, inner.len() as u64, end + 7_000_000)[..], &inner].concat(), &blocks);
    // Also if the end is in the middle of a long read.
    let many = many();
    holds(&v2(&rooted(&many), 77, &noise(8, 400_000)), &many);
}

#[test]
fn compression_is_detected_from_content() {
    let blocks = many();
    let v1 = rooted(&blocks);
    let padded = v2(&v1, 333, &noise(2, 2000));
    let place = Place::new();
    for name in ["x.car.zst", "x.gz", "x", "x.forest.car.zst", "a name with spaces\n.car"] {
        let done = imports(import(&place, place.file(name, &v1)), &blocks);
        assert_eq!(done.text("/source/compression"), "none", "{name}");
    }
    // In one frame or stream, and in many that follow each other.
    for (bytes, piece) in [(&v1, 64 << 10), (&padded, padded.len())] {
        for (name, wrap) in [("zstd", zstd as fn(&[u8]) -> Vec<u8>), ("xz", xz), ("gzip", gzip), ("lz4", lz4)] {
            let wrapped: Vec<u8> = bytes.chunks(piece).flat_map(wrap).collect();
            holds(&wrapped, &blocks);
            // The name is wrong; the format is detected from the content.
            let (_place, done) = imported(&wrapped, &[]);
            assert_eq!(done.text("/source/compression"), name);
            assert_eq!(done.number("/source/bytes"), wrapped.len() as u64, "the size on disk");
        }
    }
}
