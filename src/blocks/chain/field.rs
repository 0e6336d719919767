//! Fields of transactions as data, and the function that reads them, to skip them or as JSON. It recurses no deeper than the tables
//! nest.
//!
//! In JSON, numbers are numbers, amounts are text as `1.000 STEEM`, keys and signatures are hex; text that is not UTF-8 is
//! `{"hex": ".."}`. A group without names is a list in the order of the layout. A variant is a list that begins with its tag.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};

use super::reader::BlockReader;
use super::{ChainProblem, Family, Name};

/// The most bytes of a text. Nodes accept blocks of at most 2 MiB.
const MAX_TEXT: u32 = 16 << 20;
/// The most items of a list.
const MAX_ITEMS: u32 = 1 << 20;
/// The most digits after the point of an amount.
const MAX_DIGITS: u8 = 18;
/// The first four bytes of an asset's symbol in Hive's newer packing, with digits and name.
const NAI: [(u32, usize, &str); 3] = [(0xbebc_2003, 3, "HBD"), (0xbebc_2023, 3, "HIVE"), (0xbebc_2046, 6, "VESTS")];

/// A part of a transaction.
#[derive(Debug)]
pub(super) enum FieldType {
    /// That many bytes: a little-endian number if there are at most eight, otherwise hex.
    Fixed(usize),
    Signed16,
    /// A number in base 128.
    Varint,
    /// A byte that is 0 or 1.
    Bool,
    /// A length in base 128, and as many bytes.
    Text,
    /// The same layout as `Text`, always as hex.
    Bytes,
    /// An Antelope name of eight bytes.
    Name,
    /// An amount and its symbol.
    Asset,
    /// A tag in base 128, and the fields of the operation that this function finds.
    Operation(fn(Family, u32) -> Option<&'static Operation>),
    Group(&'static [FieldType]),
    Record(&'static [(&'static str, FieldType)]),
    /// Byte 0, or byte 1 and the fields.
    Optional(&'static [FieldType]),
    /// A count in base 128, and as many times the fields.
    List(&'static [FieldType]),
    /// A tag in base 128, and the fields of its kind.
    Variant(&'static [&'static [FieldType]]),
    /// Fields whose JSON is the hex of all of them.
    Hex(&'static [FieldType]),
}

#[derive(Debug)]
pub(super) struct Operation {
    pub tag: u32,
    pub name: &'static str,
    /// Its name in messages.
    pub title: &'static str,
    /// The names of its fields as the nodes reflect them; `Steem's|Hive's` where the families differ.
    pub names: &'static [&'static str],
    pub fields: &'static [FieldType],
}

impl Operation {
    pub fn names(&self, family: Family) -> impl Iterator<Item = &'static str> {
        self.names.iter().map(move |name| match name.split_once('|') {
            Some((_, hives)) if family == Family::Hive => hives,
            Some((steems, _)) => steems,
            None => name,
        })
    }
}

/// The block that fields are read from, and the part of it that messages name.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldContext {
    pub family: Family,
    pub block: u32,
    pub inside: &'static str,
}

/// The result for a field: JSON, or nothing.
pub(super) trait FieldValue: FromIterator<Self> + Default {
    fn leaf<T>(read: T, value: impl FnOnce(T) -> Value) -> Self;

    fn object(fields: impl Iterator<Item = Result<(&'static str, Self), ChainProblem>>) -> Result<Self, ChainProblem>;

    /// Returns the only item of a list instead of the list.
    fn only_item(self) -> Self {
        self
    }
}

impl FieldValue for () {
    fn leaf<T>(_: T, _: impl FnOnce(T) -> Value) {}

    fn object(
        mut fields: impl Iterator<Item = Result<(&'static str, Self), ChainProblem>>,
    ) -> Result<(), ChainProblem> {
        fields.try_for_each(|field| field.map(drop))
    }
}

impl FieldValue for Value {
    fn leaf<T>(read: T, value: impl FnOnce(T) -> Value) -> Self {
        value(read)
    }

    fn object(fields: impl Iterator<Item = Result<(&'static str, Self), ChainProblem>>) -> Result<Self, ChainProblem> {
        let fields = fields.map(|field| field.map(|(name, value)| (name.to_owned(), value)));
        fields.collect::<Result<Map<_, _>, _>>().map(Self::Object)
    }

    fn only_item(mut self) -> Self {
        match self.as_array_mut().map(Vec::as_mut_slice) {
            Some([item]) => item.take(),
            _ => self,
        }
    }
}

/// Reads `fields` one after the other.
pub(super) fn read_all<V: FieldValue>(
    reader: &mut BlockReader<'_>,
    context: FieldContext,
    fields: &[FieldType],
) -> Result<V, ChainProblem> {
    fields.iter().map(|field| read(reader, context, field)).collect()
}

/// Reads a field.
pub(super) fn read<V: FieldValue>(
    reader: &mut BlockReader<'_>,
    context: FieldContext,
    field: &FieldType,
) -> Result<V, ChainProblem> {
    let FieldContext { family, block, inside } = context;
    let start = reader.at();
    Ok(match field {
        FieldType::Fixed(len) => V::leaf(reader.take(*len, inside)?, fixed),
        FieldType::Signed16 => V::leaf(reader.array(inside)?, |bytes| i16::from_le_bytes(bytes).into()),
        FieldType::Varint => V::leaf(reader.varint(inside)?, Value::from),
        FieldType::Bool => V::leaf(reader.bool(inside)?, Value::from),
        FieldType::Text => V::leaf(reader.bytes(inside, MAX_TEXT)?, text),
        FieldType::Bytes => V::leaf(reader.bytes(inside, MAX_TEXT)?, hex),
        FieldType::Name => V::leaf(reader.u64(inside)?, |name| Name::from_number(name).to_string().into()),
        FieldType::Asset => {
            skip_asset(reader, family, inside)?;
            V::leaf(reader.since(start), asset)
        }
        FieldType::Operation(find) => {
            let tag = reader.varint("the tag of an operation")?;
            let operation = find(family, tag).ok_or(ChainProblem::UnknownOperation { block, tag, offset: start })?;
            let inside = FieldContext { inside: operation.title, ..context };
            let fields = operation.names(family).zip(operation.fields);
            let value = V::object(fields.map(|(name, field)| Ok((name, read(reader, inside, field)?))))?;
            let name = V::leaf(operation.name, Value::from);
            V::object([("type", name), ("value", value)].into_iter().map(Ok))?
        }
        FieldType::Group(fields) => read_all(reader, context, fields)?,
        FieldType::Record(fields) => {
            V::object(fields.iter().map(|(name, field)| Ok((*name, read(reader, context, field)?))))?
        }
        FieldType::Optional(fields) if reader.bool(inside)? => read_all::<V>(reader, context, fields)?.only_item(),
        FieldType::Optional(_) => V::default(),
        FieldType::List(fields) => {
            let count = reader.count(inside, MAX_ITEMS, 1)?;
            (0..count).map(|_| read_all(reader, context, fields).map(V::only_item)).collect::<Result<_, _>>()?
        }
        FieldType::Variant(kinds) => {
            let tag = reader.varint(inside)?;
            let expected = "the tag of a known variant";
            let unknown = ChainProblem::Unexpected { offset: start, expected, found: tag.into() };
            let fields = kinds.get(tag as usize).ok_or(unknown)?.iter().map(|field| read(reader, context, field));
            std::iter::once(Ok(V::leaf(tag, Value::from))).chain(fields).collect::<Result<_, _>>()?
        }
        FieldType::Hex(fields) => {
            read_all::<()>(reader, context, fields)?;
            V::leaf(reader.since(start), hex)
        }
    })
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
fn skip_asset(reader: &mut BlockReader<'_>, family: Family, inside: &'static str) -> Result<(), ChainProblem> {
    reader.take(8, inside)?;
    let offset = reader.at();
    let front = reader.array::<4>(inside)?;
    if family == Family::Hive && NAI.iter().any(|(nai, ..)| *nai == u32::from_le_bytes(front)) {
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

fn fixed(bytes: &[u8]) -> Value {
    let mut number = [0; 8];
    match number.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            u64::from_le_bytes(number).into()
        }
        None => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> Value {
    HEXLOWER.encode(bytes).into()
}

fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!({ "hex": hex(bytes) }), Value::from)
}

/// Formats an asset that [`skip_asset`] has checked.
fn asset(bytes: &[u8]) -> Value {
    let (amount, symbol) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let amount = i64::from_le_bytes(*amount);
    let nai = NAI.iter().find(|(nai, ..)| symbol == nai.to_le_bytes());
    let (digits, name) = match (nai, symbol) {
        (Some((_, digits, name)), _) => (*digits, (*name).into()),
        (None, [digits, name @ ..]) => (usize::from(*digits), String::from_utf8_lossy(name)),
        (None, []) => (0, "".into()),
    };
    let sign = if amount < 0 { "-" } else { "" };
    let all = format!("{:0>width$}", amount.unsigned_abs(), width = digits + 1);
    let (whole, part) = all.split_at(all.len() - digits);
    let point = if digits > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{part} {}", name.trim_end_matches('\0')).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TransactionOptions;
    use super::super::steem::{header, operations, transactions};
    use super::*;
    use crate::generate::random::Noise;

    fn skip(reader: &mut BlockReader<'_>, family: Family, fields: &[FieldType]) -> Result<(), ChainProblem> {
        read_all(reader, FieldContext { family, block: 1, inside: "it" }, fields)
    }

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
                FieldType::Text | FieldType::Bytes => {
                    (0..count(noise, out, 200)).for_each(|_| out.push(noise.next() as u8))
                }
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
                FieldType::Group(fields) | FieldType::Hex(fields) => write(fields, family, noise, out),
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
                other => panic!("{other:?} is not part of an operation"),
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
                    prop_assert_eq!(skip(&mut reader, family, operation.fields), Ok(()));
                    prop_assert_eq!(reader.at(), bytes.len());
                }
                for len in 0..bytes.len() {
                    let cut = skip(&mut BlockReader::new(&bytes[..len], 0), family, operation.fields);
                    prop_assert!(matches!(cut, Err(ChainProblem::Truncated { .. })), "{:?} after {}", cut, len);
                }
            }
        }

        #[test]
        fn random_transactions_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut block = vec![0; 112];
            block.extend(bytes);
            for family in [Family::Steem, Family::Hive] {
                let header = header::header(&block).expect("a header of zeros");
                let options = TransactionOptions { ids: true, merkle: true, skip_unknown: true };
                let _ = transactions::check(family, &block, &header, &options);
            }
        }
    }

    #[test]
    fn unknown_asset_symbol_is_reported() {
        let read = |family, symbol: &[u8]| {
            let bytes = [&[0; 8], symbol].concat();
            let mut reader = BlockReader::new(&bytes, 0);
            skip(&mut reader, family, &[FieldType::Asset]).map(|()| reader.at())
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
            assert!(message.ends_with(", expected an asset's symbol"), "{message}");
        }
    }
}
