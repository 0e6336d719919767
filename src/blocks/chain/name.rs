//! Names of accounts without an allocation, because headers are read by the million.

use std::fmt::{self, Display, Formatter};
use std::ops::Deref;

/// The name of an account: up to 32 characters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Name {
    /// ASCII, zeros from `len` on.
    bytes: [u8; Name::LONGEST],
    len: u8,
}

impl Name {
    /// The longest name in bytes. Steem and Hive have at most 16, Antelope 13, some forks of Steem 25.
    pub(crate) const LONGEST: usize = 32;

    /// A name of printable ASCII characters; `None` for other bytes.
    pub(super) fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        name.iter().all(u8::is_ascii_graphic).then_some(Self { bytes, len: name.len() as u8 })
    }

    /// The name of an Antelope number: twelve characters of five bits from the top and one of four, without dots at the
    /// end.
    pub(super) fn from_number(number: u64) -> Self {
        const CHARACTERS: &[u8; 32] = b".12345abcdefghijklmnopqrstuvwxyz";
        let mut bytes = [0; Self::LONGEST];
        let mut len = 0;
        for (at, byte) in bytes.iter_mut().take(13).enumerate() {
            let index = if at < 12 { number >> (59 - 5 * at) & 31 } else { number & 15 };
            *byte = CHARACTERS.get(index as usize).copied().unwrap_or(b'.');
            if index != 0 {
                len = at + 1;
            }
        }
        bytes.iter_mut().skip(len).for_each(|byte| *byte = 0);
        Self { bytes, len: len as u8 }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        let bytes = self.bytes.get(..self.len.into()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn antelope_numbers_are_names() {
        for (number, name) in [
            (0x5530_ea00_0000_0000, "eosio"),
            (0, ""),
            (0xffff_ffff_ffff_ffff, "zzzzzzzzzzzzj"),
            (0x0000_0000_0000_0010, "...........1"),
            (1, "............1"),
        ] {
            assert_eq!(&*Name::from_number(number), name, "{number:x}");
        }
    }

    #[test]
    fn a_name_is_short_printable_ascii() {
        assert_eq!(Name::new(b"initminer").as_deref(), Some("initminer"));
        assert_eq!(Name::new(b"").as_deref(), Some(""));
        assert_eq!(Name::new(&[b'a'; 32]).as_deref().map(str::len), Some(32));
        for bad in [&[b'a'; 33][..], b"a b", b"\xc3\xa4", b"a\0"] {
            assert_eq!(Name::new(bad), None, "{bad:?}");
        }
    }
}
