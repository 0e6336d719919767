//! Ids of blocks and transactions: 20 bytes in Steem and Hive, 32 in Antelope.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::error::ParseError;

/// Bytes of the longest id.
const LONGEST: usize = 32;

/// The id of a block or a transaction, or a merkle root. Its text is hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Zeros from `len` on, so that the derived comparisons hold.
    bytes: [u8; LONGEST],
    len: u8,
}

impl Id {
    /// Returns the 20 or 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or(&self.bytes)
    }

    /// Creates an id from 20 or 32 bytes; `None` for other lengths.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let short = bytes.try_into().ok().map(|bytes: [u8; 20]| bytes.into());
        short.or_else(|| bytes.try_into().ok().map(|bytes: [u8; 32]| bytes.into()))
    }

    /// Returns the block number, which is in the first four bytes of a block's id.
    pub fn number(&self) -> u32 {
        let [a, b, c, d, ..] = self.bytes;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns true if all bytes are zero, as in the parent's id of block 1.
    pub fn is_zero(&self) -> bool {
        self.bytes == [0; LONGEST]
    }

    /// Replaces the first four bytes by a block's number.
    pub(crate) fn numbered(mut self, number: u32) -> Self {
        let [a, b, c, d, ..] = &mut self.bytes;
        [*a, *b, *c, *d] = number.to_be_bytes();
        self
    }
}

impl From<[u8; 20]> for Id {
    fn from(short: [u8; 20]) -> Self {
        let mut bytes = [0; LONGEST];
        bytes.iter_mut().zip(short).for_each(|(to, from)| *to = from);
        Self { bytes, len: 20 }
    }
}

impl From<[u8; 32]> for Id {
    fn from(bytes: [u8; 32]) -> Self {
        Self { bytes, len: 32 }
    }
}

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(self.as_bytes()).fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl serde::Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl FromStr for Id {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(character) = text.chars().find(|character| !character.is_ascii_hexdigit()) {
            return Err(ParseError(format!("`{character}` is not a hex digit")));
        }
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let wrong =
            || ParseError(format!("an id has 40 hex digits (Steem, Hive) or 64 (Antelope), not {}", text.len()));
        bytes.and_then(|bytes| Self::from_slice(&bytes)).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn id_reports_number_and_length() {
        let id: Id = "000003e8b922f4906a45af8e99d86b3511acd7a5".parse().expect("an id");
        assert_eq!((id.number(), id.as_bytes().len()), (1000, 20));
        assert!(Id::from([0; 32]).is_zero() && !id.is_zero());
        assert_ne!(Id::from([0; 20]), Id::from([0; 32]), "same bytes, other length");
        assert_eq!(Id::from([7; 20]).numbered(0x0102_0304).to_string(), format!("01020304{}", "07".repeat(16)));
        assert_eq!(Id::from_slice(&[1; 21]), None);
    }

    #[test]
    fn what_is_no_id_is_reported_why() {
        let why = |text: &str| text.parse::<Id>().expect_err("no id").to_string();
        assert_eq!(why("12"), "an id has 40 hex digits (Steem, Hive) or 64 (Antelope), not 2");
        assert_eq!(why(&"0".repeat(65)), "an id has 40 hex digits (Steem, Hive) or 64 (Antelope), not 65");
        assert_eq!(why(&format!("{}g", "0".repeat(39))), "`g` is not a hex digit");
        assert_eq!(why(&format!("{}ä", "0".repeat(39))), "`ä` is not a hex digit");
    }

    proptest! {
        #[test]
        fn hex_is_read_back(long: bool, bytes: [u8; 32], upper: bool) {
            let id = Id::from_slice(&bytes[..if long { 32 } else { 20 }]).expect("a length");
            let text = if upper { id.to_string().to_uppercase() } else { id.to_string() };
            prop_assert_eq!(text.parse(), Ok(id));
        }
    }
}
