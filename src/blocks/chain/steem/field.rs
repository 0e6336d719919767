//! Fields of operations as data, and the function that skips them. It recurses no deeper than the tables nest.

use super::super::reader::BlockReader;
use super::super::{ChainProblem, Family};
use super::header::signed_header;

/// The most bytes of a text. Nodes accept blocks of at most 2 MiB.
pub(super) const MAX_TEXT: u32 = 16 << 20;
/// The most items of a list within an operation.
pub(super) const MAX_ITEMS: u32 = 1 << 20;
/// The most digits after the point of an amount.
const MAX_DIGITS: u8 = 18;
/// The first four bytes of an asset's symbol in Hive's newer packing: HBD, HIVE and VESTS.
const NAI: [u32; 3] = [0xbebc_2003, 0xbebc_2023, 0xbebc_2046];

/// A part of an operation.
#[derive(Debug)]
pub(super) enum FieldType {
    /// That many bytes.
    Fixed(usize),
    Signed16,
    /// A byte that is 0 or 1.
    Bool,
    /// A length in base 128, and as many bytes.
    Text,
    /// An amount and its symbol.
    Asset,
    Group(&'static [FieldType]),
    /// Byte 0, or byte 1 and the fields.
    Optional(&'static [FieldType]),
    /// A count in base 128, and as many times the fields.
    List(&'static [FieldType]),
    /// A tag in base 128, and the fields of its kind.
    Variant(&'static [&'static [FieldType]]),
    /// A header of a block with its signature.
    SignedHeader,
}

/// Steps over `fields`. `inside` names the operation in messages.
pub(super) fn skip(
    reader: &mut BlockReader<'_>,
    family: Family,
    fields: &[FieldType],
    inside: &'static str,
) -> Result<(), ChainProblem> {
    for field in fields {
        match field {
            FieldType::Fixed(len) => reader.take(*len, inside).map(drop)?,
            FieldType::Signed16 => reader.take(2, inside).map(drop)?,
            FieldType::Bool => reader.bool(inside).map(drop)?,
            FieldType::Text => reader.bytes(inside, MAX_TEXT).map(drop)?,
            FieldType::Asset => asset(reader, family, inside)?,
            FieldType::Group(fields) => skip(reader, family, fields, inside)?,
            FieldType::Optional(fields) => {
                if reader.bool(inside)? {
                    skip(reader, family, fields, inside)?;
                }
            }
            FieldType::List(fields) => {
                for _ in 0..reader.count(inside, MAX_ITEMS, 1)? {
                    skip(reader, family, fields, inside)?;
                }
            }
            FieldType::Variant(kinds) => {
                let (_, fields) = variant(reader, kinds, inside)?;
                skip(reader, family, fields, inside)?;
            }
            FieldType::SignedHeader => signed_header(reader).map(drop)?,
        }
    }
    Ok(())
}

/// Reads the tag of a variant. Returns it with the fields of its kind.
pub(super) fn variant(
    reader: &mut BlockReader<'_>,
    kinds: &[&'static [FieldType]],
    inside: &'static str,
) -> Result<(u32, &'static [FieldType]), ChainProblem> {
    let offset = reader.at();
    let tag = reader.varint(inside)?;
    let unknown = ChainProblem::Unexpected { offset, expected: "the tag of a known variant", found: tag.into() };
    Ok((tag, kinds.get(tag as usize).ok_or(unknown)?))
}

/// Steps over an asset in either packing.
///
/// ```text
/// legacy:  i64 amount | u8 digits after the point | seven characters, padded with zeros
/// Hive's:  i64 amount | u32 a number that encodes the symbol and its digits
/// ```
///
/// Symbols are not compared with a list: some blocks of the main network hold `0.001`, and forks have others. Bytes that
/// cannot be a symbol are an error: most likely another field should be there.
fn asset(reader: &mut BlockReader<'_>, family: Family, inside: &'static str) -> Result<(), ChainProblem> {
    reader.take(8, inside)?;
    let offset = reader.at();
    let front = reader.array::<4>(inside)?;
    if family == Family::Hive && NAI.contains(&u32::from_le_bytes(front)) {
        return Ok(());
    }
    let back = reader.array::<4>(inside)?;
    let symbol = u64::from(u32::from_le_bytes(back)) << 32 | u64::from(u32::from_le_bytes(front));
    let [digits, name @ ..] = symbol.to_le_bytes();
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let (name, padding) = name.split_at(len);
    let valid = digits <= MAX_DIGITS
        && !name.is_empty()
        && name.iter().all(u8::is_ascii_graphic)
        && padding.iter().all(|&byte| byte == 0);
    if valid { Ok(()) } else { Err(ChainProblem::Unexpected { offset, expected: "an asset's symbol", found: symbol }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{operations, transactions};
    use super::*;
    use crate::generate::random::Noise;

    /// Random bytes for `fields`.
    fn write(fields: &[FieldType], family: Family, noise: &mut Noise, out: &mut Vec<u8>) {
        let count = |noise: &mut Noise, out: &mut Vec<u8>, limit| {
            let count = noise.below(limit);
            let mut buffer = unsigned_varint::encode::u64_buffer();
            out.extend_from_slice(unsigned_varint::encode::u64(count, &mut buffer));
            count
        };
        for field in fields {
            match field {
                FieldType::Fixed(len) => (0..*len).for_each(|_| out.push(noise.next() as u8)),
                FieldType::Signed16 => out.extend((noise.next() as u16).to_le_bytes()),
                FieldType::Bool => out.push(noise.below(2) as u8),
                FieldType::Text => (0..count(noise, out, 200)).for_each(|_| out.push(noise.next() as u8)),
                FieldType::Asset => {
                    out.extend(noise.next().to_le_bytes());
                    let packings = if family == Family::Hive { 4 } else { 2 };
                    out.extend_from_slice(match noise.below(packings) {
                        0 => b"\x03STEEM\0\0",
                        1 => b"\x06VESTS\0\0",
                        2 => b"\x03\x20\xbc\xbe",
                        _ => b"\x46\x20\xbc\xbe",
                    });
                }
                FieldType::Group(fields) => write(fields, family, noise, out),
                FieldType::Optional(fields) => {
                    let present = noise.below(2);
                    out.push(present as u8);
                    (0..present).for_each(|_| write(fields, family, noise, out));
                }
                FieldType::List(fields) => (0..count(noise, out, 4)).for_each(|_| write(fields, family, noise, out)),
                FieldType::Variant(kinds) => {
                    let kind = count(noise, out, kinds.len() as u64);
                    write(kinds[kind as usize], family, noise, out);
                }
                FieldType::SignedHeader => {
                    out.extend([7; 24]);
                    out.extend(b"\x04name");
                    out.extend([8; 20]);
                    out.extend(b"\x02\x00\x01aaaa");
                    out.extend([9; 65]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_operation_ends_where_its_fields_end(tag in 0u32..50, hive: bool, seed: u64) {
            let family = if hive { Family::Hive } else { Family::Steem };
            if let Some(operation) = operations::find(family, tag) {
                let mut bytes = Vec::new();
                write(operation.fields, family, &mut Noise::new(seed, 0), &mut bytes);
                for behind in [&b""[..], b"\x01", b"\xff\xff\xff\xff\xff\xff"] {
                    let all = [&bytes, behind].concat();
                    let mut reader = BlockReader::new(&all, 0);
                    prop_assert_eq!(skip(&mut reader, family, operation.fields, "it"), Ok(()));
                    prop_assert_eq!(reader.at(), bytes.len());
                }
                for len in 0..bytes.len() {
                    let cut = skip(&mut BlockReader::new(&bytes[..len], 0), family, operation.fields, "it");
                    prop_assert!(matches!(cut, Err(ChainProblem::Truncated { .. })), "{:?} after {}", cut, len);
                }
            }
        }

        #[test]
        fn random_transactions_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut block = vec![0; 112];
            block.extend(bytes);
            for family in [Family::Steem, Family::Hive] {
                let header = super::super::header::header(&block).expect("a header of zeros");
                let options = crate::blocks::chain::TransactionOptions { ids: true, merkle: true, skip_unknown: true };
                let _ = transactions::check(family, &block, &header, &options);
            }
        }
    }

    #[test]
    fn unknown_asset_symbol_is_reported() {
        let read = |family, symbol: &[u8]| {
            let bytes = [&[0; 8], symbol].concat();
            let mut reader = BlockReader::new(&bytes, 0);
            skip(&mut reader, family, &[FieldType::Asset], "an asset").map(|()| reader.at())
        };
        for symbol in [
            b"\x03STEEM\0\0",
            b"\x03SBD\0\0\0\0",
            b"\x06VESTS\0\0",
            b"\x03TESTS\0\0",
            b"\x03TBD\0\0\0\0",
            // As blocks 994240, 1021529, 3143833, 3695672, 4338089 and 4626205 of the main network have them.
            b"\x01STEEM\0\0",
            b"\x05STEEM\0\0",
            b"\x02STEEM\0\0",
            b"\x030.001\0\0",
            b"\x036.000\0\0",
        ] {
            assert_eq!(read(Family::Steem, symbol), Ok(16), "{symbol:?}");
            assert_eq!(read(Family::Hive, symbol), Ok(16), "{symbol:?}");
        }
        for symbol in [b"\x03\x20\xbc\xbe", b"\x23\x20\xbc\xbe", b"\x46\x20\xbc\xbe"] {
            assert_eq!(read(Family::Hive, symbol), Ok(12), "{symbol:?}");
            assert!(
                read(Family::Steem, &[&symbol[..], &[0; 4]].concat()).is_err(),
                "{symbol:?}: Steem has no such packing"
            );
        }
        for symbol in [b"\x13STEEM\0\0", b"\x03\0\0\0\0\0\0\0", b"\x03ST\0EM\0\0", b"\x03ST EM\0\0"] {
            let message = read(Family::Hive, symbol).expect_err("no symbol").to_string();
            assert!(message.starts_with("byte 8 of the block: "), "{message}");
            assert!(message.ends_with(" where an asset's symbol must be"), "{message}");
        }
    }
}
