//! Headers of Steem and Hive blocks.
//!
//! ```text
//! previous[20] | u32 seconds since 1970 | len, witness | merkle root[20] | n, extensions | signature[65]
//!
//! extension = tag: 0 nothing | 1 u32 version | 2 u32 version, u32 seconds: a vote for a hard fork
//! ```
//!
//! Layout and hash as in `libraries/protocol` of the nodes: <https://github.com/steemit/steem>,
//! <https://gitlab.syncad.com/hive/hive>. Six blocks of the Steem mainnet have votes whose low bits are garbage: bodies
//! of extensions are not checked.

use sha2::{Digest, Sha224};

use super::super::reader::BlockReader;
use super::super::{ChainProblem, Header, Id, Name};

pub(super) const ID_LEN: usize = 20;
const SIGNATURE: usize = 65;
/// The most header extensions. Real headers have at most two.
const MAX_EXTENSIONS: u32 = 16;

pub(super) struct SignedHeader {
    previous: Id,
    /// Seconds since 1970.
    timestamp: u32,
    producer: Name,
    pub(super) merkle_root: Id,
}

pub(in super::super) fn header(block: &[u8]) -> Result<Header, ChainProblem> {
    let mut reader = BlockReader::new(block, 0);
    let SignedHeader { previous, timestamp, producer, .. } = signed_header(&mut reader)?;
    let number = previous.number().checked_add(1).ok_or(ChainProblem::NumberTooLarge)?;
    Ok(Header {
        number,
        id: block_id(reader.since(0), number),
        previous,
        timestamp_ms: i64::from(timestamp) * 1000,
        producer,
        header_len: reader.at(),
    })
}

pub(crate) fn block_id(signed_header: &[u8], number: u32) -> Id {
    id(&Sha224::digest(signed_header)).numbered(number)
}

/// The first bytes of a digest: of a header, or of a transaction without its signatures.
pub(super) fn id(digest: &[u8]) -> Id {
    let mut id = [0; ID_LEN];
    id.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    id.into()
}

pub(super) fn signed_header(reader: &mut BlockReader<'_>) -> Result<SignedHeader, ChainProblem> {
    let previous: Id = reader.array::<ID_LEN>("the parent's id")?.into();
    let timestamp = reader.u32("the timestamp")?;
    let offset = reader.at();
    let witness = reader.bytes("the witness's name", Name::LONGEST as u32)?;
    let producer = Name::new(witness).ok_or(ChainProblem::Name { offset, what: "the witness" })?;
    let merkle_root = reader.array::<ID_LEN>("the merkle root")?.into();
    for _ in 0..reader.count("the header extensions", MAX_EXTENSIONS, 1)? {
        let offset = reader.at();
        let body = match reader.varint("the tag of a header extension")? {
            0 => 0,
            1 => 4,
            2 => 8,
            found => {
                let expected = "a header extension of type 0 to 2";
                return Err(ChainProblem::Unexpected { offset, expected, found: found.into() });
            }
        };
        reader.take(body, "a header extension")?;
    }
    reader.take(SIGNATURE, "the witness's signature")?;
    Ok(SignedHeader { previous, timestamp, producer, merkle_root })
}
