//! Transactions of EOSIO and Antelope blocks.
//!
//! ```text
//! versions 1-3    n x receipt | extensions
//! version 4       u8 prune state | n x receipt | extensions | padding
//!
//! receipt         u8 status | u32 cpu | net in base 128 | u8 0, transaction id[32]
//!                                                       | u8 1, packed transaction
//! packed, 1-3     n x signature | u8 compression | len, context-free data | len, transaction
//! packed, 4       u8 compression | 0, n x signature | len, context-free data | len, transaction
//!                                | 1, digest[32] of what was there
//!
//! id   = sha256(transaction), unpacked if compression is 1 (zlib)
//! leaf = sha256(status, cpu, net, transaction id or digest of the packed transaction)
//! digest of a packed transaction = sha256(compression, len, transaction, sha256(signatures, len, context-free data))
//! root = root of the legacy tree; of the even tree in Savanna blocks, whose schedule version is 2^31
//! ```
//!
//! Digests are over the stored bytes, counts and lengths included. Other kinds of pruned data of version 4 are refused: no
//! node ever wrote them.

use flate2::{Decompress, FlushDecompress, Status};
use sha2::{Digest, Sha256};

use super::super::reader::BlockReader;
use super::super::{BlockTransactions, ChainProblem, Header, Id, TransactionOptions, merkle};
use super::header::{ID_LEN, bare_header, extensions, signature};

const MAX_RECEIPTS: u32 = 1 << 20;
const SMALLEST: usize = 1 + 4 + 1 + 1 + 4;
const MAX_SIGNATURES: u32 = 1 << 16;
/// The most bytes of each part of a packed transaction.
const MAX_PACKED: u32 = 64 << 20;
/// The most bytes of an unpacked transaction: the limit of nodes.
pub(super) const MAX_UNPACKED: usize = 1 << 20;
/// The schedule version of all Savanna blocks.
const SAVANNA: u32 = 1 << 31;
/// The version whose transactions can be pruned.
const PRUNABLE: u32 = 4;

pub(in super::super) fn check(
    version: u32,
    block: &[u8],
    header: &Header,
    options: &TransactionOptions,
) -> Result<BlockTransactions, ChainProblem> {
    let mut found = BlockTransactions::default();
    let mut leaves = Vec::new();
    let mut unpacker = TransactionUnpacker::default();
    let mut reader = each_receipt(version, block, header, |receipt| {
        if options.ids {
            found.ids.push(receipt.id(&mut unpacker)?);
        }
        if options.merkle {
            leaves.push(receipt.leaf());
        }
        Ok(())
    })?;
    extensions(&mut reader, "the block extensions")?;
    if version != PRUNABLE && reader.left() > 0 {
        return Err(ChainProblem::TrailingBytes { offset: reader.at(), extra: reader.left() });
    }
    if options.merkle {
        let said = bare_header(&mut BlockReader::new(block, 0))?;
        let computed = root(&mut leaves, said.schedule_version == SAVANNA);
        if computed != said.transaction_root {
            return Err(ChainProblem::Merkle { block: header.number, header: said.transaction_root, computed });
        }
    }
    Ok(found)
}

/// The root as a header stores it. Uses the leaves' memory.
pub(crate) fn root(leaves: &mut Vec<merkle::Node>, savanna: bool) -> Id {
    let root = if savanna { merkle::even(leaves) } else { merkle::legacy(leaves) };
    Id::from(root.unwrap_or_default())
}

pub(super) struct Receipt<'a> {
    pub(super) state: u8,
    pub(super) cpu: u32,
    pub(super) net: u32,
    /// These three as stored.
    usage: &'a [u8],
    pub(super) content: ReceiptContent<'a>,
}

pub(super) enum ReceiptContent<'a> {
    /// The id of a deferred transaction.
    Id([u8; ID_LEN]),
    Packed(PackedTransaction<'a>),
}

/// Reads the receipts of a block and returns the reader at their end.
pub(super) fn each_receipt<'a>(
    version: u32,
    block: &'a [u8],
    header: &Header,
    mut each: impl FnMut(Receipt<'a>) -> Result<(), ChainProblem>,
) -> Result<BlockReader<'a>, ChainProblem> {
    let mut reader = BlockReader::new(block, header.header_len);
    if version == PRUNABLE {
        reader.u8("the prune state")?;
    }
    for _ in 0..reader.count("the transactions", MAX_RECEIPTS, SMALLEST)? {
        each(Receipt::read(&mut reader, version)?)?;
    }
    Ok(reader)
}

impl<'a> Receipt<'a> {
    fn read(reader: &mut BlockReader<'a>, version: u32) -> Result<Self, ChainProblem> {
        let start = reader.at();
        let (state, cpu) = (reader.u8("a transaction receipt")?, reader.u32("a transaction receipt")?);
        let net = reader.varint("a receipt's net usage")?;
        let usage = reader.since(start);
        let content = match reader.bool("a transaction receipt")? {
            false => ReceiptContent::Id(reader.array("a transaction's id")?),
            true => ReceiptContent::Packed(PackedTransaction::read(reader, version)?),
        };
        Ok(Self { state, cpu, net, usage, content })
    }

    pub(super) fn id(&self, unpacker: &mut TransactionUnpacker) -> Result<Id, ChainProblem> {
        match &self.content {
            ReceiptContent::Id(id) => Ok((*id).into()),
            ReceiptContent::Packed(packed) => packed.id(unpacker),
        }
    }

    fn leaf(&self) -> merkle::Node {
        let digest = match &self.content {
            ReceiptContent::Id(id) => *id,
            ReceiptContent::Packed(packed) => packed.digest(),
        };
        Sha256::new().chain_update(self.usage).chain_update(digest).finalize().into()
    }
}

pub(super) struct PackedTransaction<'a> {
    pub(super) compression: u8,
    /// Start of the transaction in the block.
    pub(super) offset: usize,
    pub(super) transaction: &'a [u8],
    /// The stored transaction and its length.
    with_len: &'a [u8],
    prunable: Prunable<'a>,
}

enum Prunable<'a> {
    /// Each with its length or count, as stored.
    Whole(&'a [u8], &'a [u8]),
    /// Only their digest is left.
    Pruned(merkle::Node),
}

impl<'a> PackedTransaction<'a> {
    fn read(reader: &mut BlockReader<'a>, version: u32) -> Result<Self, ChainProblem> {
        let (compression, prunable) = if version == PRUNABLE {
            let compression = compression(reader)?;
            let offset = reader.at();
            let prunable = match reader.u8("a transaction's prunable data")? {
                0 => Prunable::Whole(signatures(reader)?, context_free_data(reader)?),
                1 => Prunable::Pruned(reader.array("the digest of pruned data")?),
                found => {
                    let expected = "a known kind of prunable data";
                    return Err(ChainProblem::Unexpected { offset, expected, found: found.into() });
                }
            };
            (compression, prunable)
        } else {
            let signatures = signatures(reader)?;
            let compression = compression(reader)?;
            (compression, Prunable::Whole(signatures, context_free_data(reader)?))
        };
        let start = reader.at();
        let transaction = reader.bytes("a packed transaction", MAX_PACKED)?;
        let offset = reader.at() - transaction.len();
        Ok(Self { compression, offset, transaction, with_len: reader.since(start), prunable })
    }

    fn digest(&self) -> merkle::Node {
        let prunable = match self.prunable {
            Prunable::Whole(signatures, data) => {
                Sha256::new().chain_update(signatures).chain_update(data).finalize().into()
            }
            Prunable::Pruned(digest) => digest,
        };
        let hash = Sha256::new().chain_update([self.compression]).chain_update(self.with_len);
        hash.chain_update(prunable).finalize().into()
    }

    fn id(&self, unpacker: &mut TransactionUnpacker) -> Result<Id, ChainProblem> {
        let id: [u8; ID_LEN] = match self.compression {
            0 => Sha256::digest(self.transaction).into(),
            _ => {
                let broken = ChainProblem::Zlib { offset: self.offset, max: MAX_UNPACKED };
                unpacker.sum(self.transaction).ok_or(broken)?
            }
        };
        Ok(Id::from(id))
    }
}

/// Unpacks transactions, with memory that is reused.
#[derive(Default)]
pub(super) struct TransactionUnpacker(Option<Decompress>);

impl TransactionUnpacker {
    /// The digest of the content of a zlib stream. `None` if it is no such stream, is cut, or has too much content. Bytes
    /// after the stream do not matter.
    fn sum(&mut self, mut packed: &[u8]) -> Option<merkle::Node> {
        let zlib = self.0.get_or_insert_with(|| Decompress::new(true));
        zlib.reset(true);
        let mut hash = Sha256::new();
        let mut unpacked = [0; 4096];
        loop {
            let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
            let status = zlib.decompress(packed, &mut unpacked, FlushDecompress::None).ok()?;
            let len = (zlib.total_out() - before_out) as usize;
            packed = packed.get((zlib.total_in() - before_in) as usize..)?;
            hash.update(unpacked.get(..len)?);
            if zlib.total_out() > MAX_UNPACKED as u64 {
                return None;
            }
            match status {
                Status::StreamEnd => return Some(hash.finalize().into()),
                _ if len == 0 && zlib.total_in() == before_in => return None,
                _ => {}
            }
        }
    }
}

/// Signatures with their count, as stored.
fn signatures<'a>(reader: &mut BlockReader<'a>) -> Result<&'a [u8], ChainProblem> {
    let start = reader.at();
    for _ in 0..reader.count("a transaction's signatures", MAX_SIGNATURES, 66)? {
        signature(reader, "a transaction's signature")?;
    }
    Ok(reader.since(start))
}

/// Context-free data with its length, as stored.
fn context_free_data<'a>(reader: &mut BlockReader<'a>) -> Result<&'a [u8], ChainProblem> {
    let start = reader.at();
    reader.bytes("a transaction's context-free data", MAX_PACKED)?;
    Ok(reader.since(start))
}

fn compression(reader: &mut BlockReader<'_>) -> Result<u8, ChainProblem> {
    let offset = reader.at();
    match reader.u8("a transaction's compression")? {
        kind @ 0..=1 => Ok(kind),
        found => Err(ChainProblem::Unexpected { offset, expected: "a compression of 0 or 1", found: found.into() }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).expect("memory has room");
        encoder.finish().expect("memory has room")
    }

    #[test]
    fn packed_transaction_digest_is_of_raw_bytes() {
        let mut unpacker = TransactionUnpacker::default();
        for len in [0, 1, 4095, 4096, 4097, 100_000, MAX_UNPACKED] {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
            let sum: [u8; 32] = Sha256::digest(&bytes).into();
            assert_eq!(unpacker.sum(&packed(&bytes)), Some(sum), "{len} bytes");
            assert_eq!(unpacker.sum(&[&packed(&bytes)[..], b"more"].concat()), Some(sum), "{len} bytes and more");
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_refused() {
        let mut unpacker = TransactionUnpacker::default();
        assert_eq!(unpacker.sum(b"no zlib at all"), None);
        assert_eq!(unpacker.sum(&packed(&vec![0; MAX_UNPACKED + 1])), None, "more than nodes unpack");
        let whole = packed(b"a transaction, about");
        for len in 0..whole.len() {
            assert_eq!(unpacker.sum(&whole[..len]), None, "cut to {len}");
        }
        assert!(unpacker.sum(&whole).is_some());
    }
}
