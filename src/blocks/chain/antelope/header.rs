//! Headers of EOSIO and Antelope blocks.
//!
//! ```text
//! u32 slot | u64 producer | u16 confirmed | previous[32] | transaction root[32] | action root[32]
//! | u32 schedule version | u8 present, new producers | n, header extensions | signature
//!
//! new producers    = u32 version | n x (u64 name | key)
//! header extension = u16 id | len, bytes
//! key              = type 0, 1: 33 bytes | type 2 (WebAuthn): 33 bytes, u8, len, string
//! signature        = type 0, 1: 65 bytes | type 2 (WebAuthn): 65 bytes, len, bytes, len, string
//! ```
//!
//! A slot is half a second, counted from 2000. Layout and hash as in <https://github.com/AntelopeIO/spring>.

use sha2::{Digest, Sha256};

use super::super::reader::BlockReader;
use super::super::{ChainProblem, Header, Id, Name};

pub(super) const ID_LEN: usize = 32;
/// 2000-01-01 in milliseconds since 1970.
const SLOTS_START_MS: i64 = 946_684_800_000;
const SLOT_MS: i64 = 500;
/// The most producers of a schedule. The chain's own limit is 125.
const MAX_PRODUCERS: u32 = 1024;
/// The most extensions of a header, or of a block. There are three kinds of each.
const MAX_EXTENSIONS: u32 = 64;
/// The most bytes of an extension. The largest finalizer policy has some 40 KiB.
const MAX_EXTENSION: u32 = 1 << 20;
/// The most bytes of each part of a WebAuthn signature or key.
const MAX_WEBAUTHN: u32 = 1 << 16;
/// Bytes of an elliptic curve key, and of a signature by one.
const KEY: usize = 33;
const SIGNATURE: usize = 65;
const WEBAUTHN: u32 = 2;

pub(super) struct BareHeader {
    slot: u32,
    producer: Name,
    previous: Id,
    pub(super) transaction_root: Id,
    action_root: Id,
    pub(super) schedule_version: u32,
}

pub(in super::super) fn header(block: &[u8]) -> Result<Header, ChainProblem> {
    let mut reader = BlockReader::new(block, 0);
    let BareHeader { slot, producer, previous, .. } = bare_header(&mut reader)?;
    let number = previous.number().checked_add(1).ok_or(ChainProblem::NumberTooLarge)?;
    let id = block_id(reader.since(0), number);
    signature(&mut reader, "the producer's signature")?;
    Ok(Header {
        number,
        id,
        previous,
        timestamp_ms: SLOTS_START_MS + i64::from(slot) * SLOT_MS,
        producer,
        header_len: reader.at(),
    })
}

/// The id of the block with this header, without its signature.
pub(crate) fn block_id(header: &[u8], number: u32) -> Id {
    Id::from(<[u8; ID_LEN]>::from(Sha256::digest(header))).numbered(number)
}

/// The action root in a block's header. Block 1 has the chain's id instead.
pub(crate) fn action_root(block: &[u8]) -> Result<Id, ChainProblem> {
    bare_header(&mut BlockReader::new(block, 0)).map(|header| header.action_root)
}

pub(super) fn bare_header(reader: &mut BlockReader<'_>) -> Result<BareHeader, ChainProblem> {
    let slot = reader.u32("the timestamp")?;
    let producer = Name::from_number(reader.u64("the producer's name")?);
    reader.take(2, "the number of confirmed blocks")?;
    let previous: Id = reader.array::<ID_LEN>("the parent's id")?.into();
    let transaction_root = reader.array::<ID_LEN>("the transaction merkle root")?.into();
    let action_root = reader.array::<ID_LEN>("the action merkle root")?.into();
    let schedule_version = reader.u32("the schedule version")?;
    if reader.bool("the new producers")? {
        reader.take(4, "the version of the new producers")?;
        for _ in 0..reader.count("the new producers", MAX_PRODUCERS, 8 + 1 + KEY)? {
            reader.take(8, "a producer's name")?;
            key(reader)?;
        }
    }
    extensions(reader, "the header extensions")?;
    Ok(BareHeader { slot, producer, previous, transaction_root, action_root, schedule_version })
}

pub(super) fn extensions(reader: &mut BlockReader<'_>, what: &'static str) -> Result<(), ChainProblem> {
    for _ in 0..reader.count(what, MAX_EXTENSIONS, 3)? {
        reader.take(2, what)?;
        reader.bytes(what, MAX_EXTENSION)?;
    }
    Ok(())
}

fn key(reader: &mut BlockReader<'_>) -> Result<(), ChainProblem> {
    let kind = kind(reader, "the type of a key")?;
    reader.take(KEY, "a key")?;
    if kind == WEBAUTHN {
        reader.take(1, "a key's user presence")?;
        reader.bytes("a key's relying party", MAX_WEBAUTHN)?;
    }
    Ok(())
}

pub(super) fn signature(reader: &mut BlockReader<'_>, what: &'static str) -> Result<(), ChainProblem> {
    let kind = kind(reader, what)?;
    reader.take(SIGNATURE, what)?;
    if kind == WEBAUTHN {
        reader.bytes("a signature's authenticator data", MAX_WEBAUTHN)?;
        reader.bytes("a signature's client data", MAX_WEBAUTHN)?;
    }
    Ok(())
}

fn kind(reader: &mut BlockReader<'_>, what: &'static str) -> Result<u32, ChainProblem> {
    let offset = reader.at();
    match reader.varint(what)? {
        kind @ 0..=WEBAUTHN => Ok(kind),
        found => Err(ChainProblem::Unexpected { offset, expected: "a key type of 0 to 2", found: found.into() }),
    }
}
