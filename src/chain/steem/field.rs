//! What operations are made of, as data, and the one function that steps over it.
//!
//! Lists, texts and variants begin with a number in base 128. Nothing is allocated and nothing recurses deeper than the
//! tables nest.

use super::super::reader::Reader;
use super::super::{ChainProblem, Family};
use super::signed_header;

/// The most bytes of a text. A node accepts blocks of at most 2 MiB.
const MAX_TEXT: u32 = 16 << 20;
/// The most items of a list within an operation.
const MAX_ITEMS: u32 = 1 << 20;
/// The first four bytes of an asset's symbol in Hive's newer packing: HBD, HIVE and VESTS.
const NAI: [u32; 3] = [0xbebc_2003, 0xbebc_2023, 0xbebc_2046];

/// A part of an operation.
#[derive(Debug)]
pub(super) enum Field {
    /// That many bytes whose content does not matter here.
    Fixed(usize),
    /// A byte that is 0 or 1.
    Bool,
    /// A length and as many bytes: a name, a text, anything.
    Text,
    /// An amount and its symbol.
    Asset,
    /// The fields of a structure.
    Group(&'static [Field]),
    /// Nothing (byte 0), or the fields (behind byte 1).
    Optional(&'static [Field]),
    /// A count and as many times the fields.
    List(&'static [Field]),
    /// A tag and the fields that it stands for.
    Variant(&'static [&'static [Field]]),
    /// A header of a block with its signature.
    SignedHeader,
}

/// Steps over `fields`. `inside` names the operation for messages.
pub(super) fn skip(
    reader: &mut Reader<'_>,
    family: Family,
    fields: &[Field],
    inside: &'static str,
) -> Result<(), ChainProblem> {
    for field in fields {
        match field {
            Field::Fixed(len) => reader.take(*len, inside).map(drop)?,
            Field::Bool => reader.bool(inside).map(drop)?,
            Field::Text => reader.bytes(inside, MAX_TEXT).map(drop)?,
            Field::Asset => asset(reader, family, inside)?,
            Field::Group(fields) => skip(reader, family, fields, inside)?,
            Field::Optional(fields) => {
                if reader.bool(inside)? {
                    skip(reader, family, fields, inside)?;
                }
            }
            Field::List(fields) => {
                for _ in 0..reader.count(inside, MAX_ITEMS, 1)? {
                    skip(reader, family, fields, inside)?;
                }
            }
            Field::Variant(kinds) => {
                let offset = reader.at();
                let tag = reader.varint(inside)?;
                let expected = "the tag of a known variant";
                let unknown = ChainProblem::Unexpected { offset, expected, found: tag.into() };
                skip(reader, family, kinds.get(tag as usize).ok_or(unknown)?, inside)?;
            }
            Field::SignedHeader => signed_header(reader).map(drop)?,
        }
    }
    Ok(())
}

/// An asset in either packing.
///
/// ```text
/// legacy:  i64 amount | u8 digits behind the point | seven characters, padded with zeros
/// Hive's:  i64 amount | u32 a number that stands for the symbol and its digits
/// ```
///
/// Symbols are not compared with a list: some blocks of the main network hold `0.001`, forks have others, and the root
/// of the tree tells whether these are the bytes that were signed. What cannot be a symbol at all is told nevertheless,
/// because most likely it stands where another field should.
fn asset(reader: &mut Reader<'_>, family: Family, inside: &'static str) -> Result<(), ChainProblem> {
    reader.take(8, inside)?;
    let offset = reader.at();
    let front = reader.array::<4>(inside)?;
    if family == Family::Hive && NAI.contains(&u32::from_le_bytes(front)) {
        return Ok(());
    }
    let back = reader.array::<4>(inside)?;
    let symbol = u64::from_le_bytes([front, back].as_flattened().try_into().unwrap_or_default());
    let [digits, name @ ..] = symbol.to_le_bytes();
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let (name, padding) = name.split_at(len);
    let sound = digits <= MAX_DIGITS
        && !name.is_empty()
        && name.iter().all(u8::is_ascii_graphic)
        && padding.iter().all(|&byte| byte == 0);
    if sound { Ok(()) } else { Err(ChainProblem::Unexpected { offset, expected: "an asset's symbol", found: symbol }) }
}

/// The most digits behind the point of an amount.
const MAX_DIGITS: u8 = 18;
