//! Keys and records of sections.

use crate::hash::{ContentDigest, DigestKey};
use crate::source::car::{CidSpan, Section};

/// The key that a block is stored under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum KeyLayout {
    /// The CID's bytes, as Forest had them when it used RocksDB. The default.
    #[default]
    Cid,
    /// The bytes of the CID's multihash, by which IPFS programs know a block; kubo's own keys are text made of them.
    Multihash,
    /// The bare digest.
    Digest,
    /// The block's number, 4 bytes big-endian: only for the blocks of a block log.
    #[cfg_attr(feature = "cli", value(skip))]
    Number,
    /// Any bytes: keys of records that are no blocks.
    Any,
}

impl KeyLayout {
    /// The first byte of the key in a section's CID. The key ends with the CID.
    pub(crate) fn key_start(self, cid: &CidSpan) -> usize {
        match self {
            Self::Cid | Self::Number | Self::Any => 0,
            Self::Multihash => cid.multihash as usize,
            Self::Digest => cid.digest as usize,
        }
    }

    pub(crate) fn digest_in_key(self, cid: &CidSpan) -> usize {
        cid.digest as usize - self.key_start(cid)
    }

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cid => "cid",
            Self::Multihash => "multihash",
            Self::Digest => "digest",
            Self::Number => "number",
            Self::Any => "any",
        }
    }
}

/// A record: a key and the value right after it, because every layout's key is the end of the CID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
    key_len: usize,
}

impl<'a> Record<'a> {
    /// The record of a section in `buffer`, which has the whole CID.
    pub fn new(buffer: &'a [u8], section: &Section, layout: KeyLayout) -> Self {
        let start = layout.key_start(&section.cid);
        let bytes = section.body(buffer).get(start..).unwrap_or_default();
        Self { bytes, key_len: (section.cid.len as usize - start).min(bytes.len()) }
    }

    #[cfg(test)]
    pub fn from_parts(bytes: &'a [u8], key_len: usize) -> Self {
        Self { bytes, key_len }
    }

    pub fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key_len]
    }

    pub fn value(&self) -> &'a [u8] {
        &self.bytes[self.key_len..]
    }

    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of_section(self.bytes, self.key_len)
    }

    /// Returns the keyed digest, or the content digest if there is no key.
    pub fn checked_digest(&self, key: Option<&DigestKey>) -> ContentDigest {
        key.map_or_else(|| self.digest(), |key| key.of_section(self.bytes, self.key_len))
    }

    /// Returns key and value in one piece, and the key's length.
    pub fn parts(&self) -> (&'a [u8], usize) {
        (self.bytes, self.key_len)
    }
}
