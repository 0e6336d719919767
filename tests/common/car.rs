//! CARs of any kind, right and wrong, byte by byte.

use std::io::{Read, Write};

use sha2::Digest;

use super::crash::Chance;

pub const RAW: u64 = 0x55;
pub const DAG_CBOR: u64 = 0x71;
pub const IDENTITY: u64 = 0;
pub const SHA2_256: u64 = 0x12;
pub const BLAKE2B_256: u64 = 0xb220;

/// A block: its CID's bytes and its data.
pub type Block = (Vec<u8>, Vec<u8>);

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A CIDv1 with any codec, hash function and digest.
pub fn cid(codec: u64, hash: u64, digest: &[u8]) -> Vec<u8> {
    [vec![1], varint(codec), varint(hash), varint(digest.len() as u64), digest.to_vec()].concat()
}

/// A block as most snapshots have it: dag-cbor and blake2b-256.
pub fn block(data: &[u8]) -> Block {
    blake(DAG_CBOR, data)
}

pub fn blake(codec: u64, data: &[u8]) -> Block {
    let digest = blake2b_simd::Params::new().hash_length(32).hash(data);
    (cid(codec, BLAKE2B_256, digest.as_bytes()), data.to_vec())
}

pub fn sha256(codec: u64, data: &[u8]) -> Block {
    (cid(codec, SHA2_256, &sha2::Sha256::digest(data)), data.to_vec())
}

/// A CIDv0: a bare sha2-256 multihash.
pub fn v0(data: &[u8]) -> Block {
    ([&[0x12, 0x20][..], &sha2::Sha256::digest(data)].concat(), data.to_vec())
}

/// Those whose CID has a digest, and not the block itself.
pub fn with_digests(blocks: &[Block]) -> Vec<Block> {
    // The crate refuses digests of more than 64 bytes, which only identities have.
    let has_one = |(cid, _): &&Block| cid::Cid::try_from(&cid[..]).is_ok_and(|cid| cid.hash().code() != IDENTITY);
    blocks.iter().filter(has_one).cloned().collect()
}

/// The longest block that a CID may hold: a CID has at most 2048 bytes.
pub const LONGEST_IDENTITY: usize = 2048 - 5;

/// A block that its CID already holds.
pub fn identity(codec: u64, data: &[u8]) -> Block {
    (cid(codec, IDENTITY, data), data.to_vec())
}

/// Deterministic bytes, half of which repeat.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        bytes.extend_from_slice(&chance.word().to_le_bytes());
        bytes.extend_from_slice(b"the same");
    }
    bytes.truncate(len);
    bytes
}

/// The head of a CBOR item of any major type.
fn cbor_head(major: u8, len: u64) -> Vec<u8> {
    let major = major << 5;
    match len {
        0..24 => vec![major | len as u8],
        24..0x100 => vec![major | 24, len as u8],
        0x100..0x1_0000 => [&[major | 25][..], &(len as u16).to_be_bytes()].concat(),
        _ => [&[major | 26][..], &(len as u32).to_be_bytes()].concat(),
    }
}

/// `{roots: [..], version: ..}` in dag-cbor, without its length.
pub fn header_cbor(roots: &[Vec<u8>], version: u64) -> Vec<u8> {
    let mut cbor = vec![0xa2, 0x65];
    cbor.extend(b"roots");
    cbor.extend(cbor_head(4, roots.len() as u64));
    for root in roots {
        cbor.extend_from_slice(&[0xd8, 42]);
        cbor.extend(cbor_head(2, root.len() as u64 + 1));
        cbor.push(0);
        cbor.extend(root);
    }
    cbor.push(0x67);
    cbor.extend(b"version");
    cbor.extend(cbor_head(0, version));
    cbor
}

pub fn header(roots: &[Vec<u8>]) -> Vec<u8> {
    let cbor = header_cbor(roots, 1);
    [varint(cbor.len() as u64), cbor].concat()
}

/// A link in dag-cbor.
pub fn link(cid: &[u8]) -> Vec<u8> {
    [&[0xd8, 42, 0x5a][..], &(cid.len() as u32 + 1).to_be_bytes(), &[0], cid].concat()
}

pub fn section((cid, data): &Block) -> Vec<u8> {
    [&varint((cid.len() + data.len()) as u64)[..], cid, data].concat()
}

pub fn car(roots: &[Vec<u8>], blocks: &[Block]) -> Vec<u8> {
    let mut bytes = header(roots);
    for block in blocks {
        bytes.extend(section(block));
    }
    bytes
}

/// A CARv1 whose only root is its first block.
pub fn rooted(blocks: &[Block]) -> Vec<u8> {
    car(&blocks.iter().take(1).map(|(cid, _)| cid.clone()).collect::<Vec<_>>(), blocks)
}

pub const PRAGMA: &[u8] = b"\x0a\xa1\x67version\x02";

/// Bytes of pragma and fixed header.
pub const V2_HEAD: u64 = 51;

/// Pragma and fixed header of a CARv2, whatever the numbers.
pub fn v2_head(data_offset: u64, data_size: u64, index_offset: u64) -> Vec<u8> {
    let numbers = [data_offset, data_size, index_offset].map(u64::to_le_bytes).concat();
    [PRAGMA, &[0; 16], &numbers].concat()
}

/// A CARv2: `padding` bytes, the CARv1, and an index of any bytes, which none has when empty.
pub fn v2(inner: &[u8], padding: usize, index: &[u8]) -> Vec<u8> {
    let offset = V2_HEAD + padding as u64;
    let index_offset = if index.is_empty() { 0 } else { offset + inner.len() as u64 };
    [&v2_head(offset, inner.len() as u64, index_offset)[..], &vec![0; padding], inner, index].concat()
}

/// One zstd frame, with a checksum.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    encoder.include_checksum(true).expect("a checksum");
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

/// A zstd frame that decoders skip.
pub fn skippable(bytes: &[u8]) -> Vec<u8> {
    [&[0x57, 0x2a, 0x4d, 0x18][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 1).read_to_end(&mut packed).expect("into memory");
    packed
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut packed).expect("into memory");
    packed
}

pub fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

pub fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read> = match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(bytes).expect("a decoder")),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Box::new(liblzma::read::XzDecoder::new(bytes)),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
        _ => Box::new(bytes),
    };
    let mut unpacked = Vec::new();
    reader.read_to_end(&mut unpacked).expect("valid data");
    unpacked
}

/// The blocks of a plain CARv1, read without the library.
pub fn sections(car: &[u8]) -> Vec<Block> {
    let (len, mut rest) = unsigned_varint::decode::usize(car).expect("the header's length");
    rest = &rest[len..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (len, section) = unsigned_varint::decode::usize(rest).expect("a length");
        let mut body = &section[..len];
        let cid = cid::Cid::read_bytes(&mut body).expect("a CID").to_bytes();
        found.push((cid, body.to_vec()));
        rest = &section[len..];
    }
    found
}

pub fn every_hash(data: &[u8]) -> Vec<Block> {
    use sha2::Sha512;
    use sha3::{Keccak256, Sha3_224, Sha3_256, Sha3_384, Sha3_512};
    let mut blocks = vec![
        (cid(RAW, 0x13, &Sha512::digest(data)), data.to_vec()),
        (cid(RAW, 0x14, &Sha3_512::digest(data)), data.to_vec()),
        (cid(RAW, 0x15, &Sha3_384::digest(data)), data.to_vec()),
        (cid(RAW, 0x16, &Sha3_256::digest(data)), data.to_vec()),
        (cid(RAW, 0x17, &Sha3_224::digest(data)), data.to_vec()),
        (cid(RAW, 0x1b, &Keccak256::digest(data)), data.to_vec()),
        (cid(RAW, 0x1e, blake3::hash(data).as_bytes()), data.to_vec()),
        sha256(RAW, data),
    ];
    for len in 1..=64 {
        let digest = blake2b_simd::Params::new().hash_length(len).hash(data);
        blocks.push((cid(RAW, 0xb200 + len as u64, digest.as_bytes()), data.to_vec()));
    }
    blocks
}
