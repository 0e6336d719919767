//! A CID of any length as its bytes.
//!
//! The `cid` crate limits digests to 64 bytes. The digest of an identity CID is its whole block, so roots and links may be
//! longer.

use std::fmt;
use std::str::FromStr;

use cid::Cid;
use cid::multibase::{self, Base};
use serde::{Deserialize, Deserializer};

use super::read_cid;
use crate::error::ParseError;
use crate::hash::IDENTITY;

/// The bytes of one whole CID of version 0 or 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawCid(Vec<u8>);

impl RawCid {
    /// Creates a CID from its bytes, and checks them.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, ParseError> {
        let bytes = bytes.into();
        match read_cid(&bytes) {
            Ok(Some(span)) if span.len as usize == bytes.len() => Ok(Self(bytes)),
            Ok(_) => Err(ParseError("the length of the CID does not match its header".into())),
            Err(problem) => Err(ParseError(problem.to_string())),
        }
    }

    /// Creates a CID from the bytes of a section's CID.
    pub(crate) fn of_section(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// True if the CID contains its block.
    pub(crate) fn is_identity(&self) -> bool {
        read_cid(&self.0).is_ok_and(|span| span.is_some_and(|span| span.hash == IDENTITY))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for RawCid {
    type Err = ParseError;

    /// Reads a CID in any multibase, or version 0 in bare base58.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.strip_prefix("/ipfs/").unwrap_or(text);
        let no_text = |_: multibase::Error| ParseError("not a CID".into());
        if text.len() == 46 && text.starts_with("Qm") {
            return Self::from_bytes(Base::Base58Btc.decode(text).map_err(no_text)?);
        }
        let (_, bytes) = multibase::decode(text).map_err(no_text)?;
        // Version 0 has no multibase prefix.
        if bytes.first() == Some(&0x12) {
            return Err(ParseError("a CID of version 0 is written without a multibase prefix".into()));
        }
        Self::from_bytes(bytes)
    }
}

impl fmt::Display for RawCid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(0x12) => f.write_str(&Base::Base58Btc.encode(&self.0)),
            _ => f.write_str(&multibase::encode(Base::Base32Lower, &self.0)),
        }
    }
}

impl fmt::Debug for RawCid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cid({self})")
    }
}

/// Reads a link in dag-cbor whose digest has at most 64 bytes.
impl<'de> Deserialize<'de> for RawCid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cid::deserialize(deserializer).map(|cid| Self(cid.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use cid::multihash::Multihash;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn raw_cids_agree_with_the_cid_crate(
            codec: u64, hash: u64, digest in proptest::collection::vec(0u8.., 0..64),
        ) {
            let theirs = cid::Cid::new_v1(codec, Multihash::wrap(hash, &digest).expect("short"));
            let ours = RawCid::from_bytes(theirs.to_bytes()).expect("a CID");
            prop_assert_eq!(ours.to_string(), theirs.to_string());
            prop_assert_eq!(theirs.to_string().parse(), Ok(ours.clone()));
            let base58 = theirs.to_string_of_base(Base::Base58Btc).expect("version 1 has any base");
            prop_assert_eq!(base58.parse(), Ok(ours.clone()));
            let link = serde_ipld_dagcbor::to_vec(&theirs).expect("encode");
            prop_assert_eq!(serde_ipld_dagcbor::from_slice::<RawCid>(&link).expect("decode"), ours);
        }

        #[test]
        fn text_does_not_panic(text: String) {
            text.parse::<RawCid>().ok();
        }
    }

    #[test]
    fn version_0_is_bare_base58() {
        let text = "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR";
        let theirs: cid::Cid = text.parse().expect("a CID");
        let ours: RawCid = text.parse().expect("a CID");
        assert_eq!((ours.as_bytes(), ours.to_string()), (&theirs.to_bytes()[..], text.into()));
        let prefixed = format!("z{text}").parse::<RawCid>().expect_err("version 0 has no prefix");
        assert_eq!(prefixed.to_string(), "a CID of version 0 is written without a multibase prefix");
    }

    #[test]
    fn identity_cid_has_any_length() {
        let bytes = [&[1, 0x55, 0, 0xac, 2][..], &[7; 300]].concat();
        let ours = RawCid::from_bytes(bytes.clone()).expect("a CID");
        assert_eq!(ours.to_string().parse(), Ok(ours.clone()));
        assert!(cid::Cid::try_from(bytes.as_slice()).is_err(), "the reason for this module");
        assert!(ours.is_identity());
        let cut = RawCid::from_bytes(&bytes[..200]).expect_err("it is cut");
        assert_eq!(cut.to_string(), "the length of the CID does not match its header");
    }
}
