//! One number for the content of a column family, whatever the order of its records.
//!
//! ```text
//! digest = sum over all records of XXH3-128(key ‖ value, seed = bytes in key)   modulo 2^128
//! ```
//!
//! It adds up over partitions and threads, is cheap compared to the verification of the blocks, and can be computed from a
//! snapshot, during an import and from a finished database. It detects accidents, not forgery. The seed distinguishes
//! `ab ‖ c` from `a ‖ bc`.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_128::{DEFAULT_SECRET_LENGTH, Hasher, RawHasher, SecretBuffer};

use crate::error::ParseError;

/// The content digest of some records. Its text is 32 hex digits.
///
/// ```
/// use bedload::testing::hash::content_digest::ContentDigest;
///
/// let mut one = ContentDigest::default();
/// one.add_record(b"a", b"first");
/// one.add_section(b"bsecond", 1);
///
/// let mut other = ContentDigest::default();
/// other.add_record(b"b", b"second");
/// let mut rest = ContentDigest::default();
/// rest.add_record(b"a", b"first");
/// other.merge(rest);
/// assert_eq!(one, other);
/// assert_eq!(one.to_string().parse(), Ok(one));
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ContentDigest(u128);

impl ContentDigest {
    /// Adds a record. [`ContentDigest::add_section`] is up to twice as fast if the value follows the key in memory.
    pub fn add_record(&mut self, key: &[u8], value: &[u8]) {
        // Below a kibibyte or so, copying is cheaper than the bookkeeping of a hash in pieces.
        let hash = match key.len().saturating_add(value.len()) {
            0..=256 => hash_copy::<256>(key, value),
            257..=1280 => hash_copy::<1280>(key, value),
            _ => hash_pieces(key, value),
        };
        self.0 = self.0.wrapping_add(hash);
    }

    /// Adds a record whose value follows its key, as in a section of a CAR. `key_length` is in bytes.
    #[inline]
    pub fn add_section(&mut self, key_and_value: &[u8], key_length: usize) {
        self.0 = self.0.wrapping_add(hash(key_length, key_and_value));
    }

    #[inline]
    pub(crate) fn of_section(key_and_value: &[u8], key_length: usize) -> Self {
        Self(hash(key_length, key_and_value))
    }

    pub(crate) fn of_record(key: &[u8], value: &[u8]) -> Self {
        let mut digest = Self::default();
        digest.add_record(key, value);
        digest
    }

    pub(crate) fn value(self) -> u128 {
        self.0
    }

    pub(crate) fn from_value(value: u128) -> Self {
        Self(value)
    }

    /// Adds all records of another digest.
    #[inline]
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Returns the digest without the records of `other`, which are among its own.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

/// A number of records and their content digest: each stage of an import compares what it has received with what the stage
/// before has passed on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub records: u64,
    pub digest: ContentDigest,
}

impl Content {
    /// Adds one record with this digest.
    pub fn add(&mut self, record: ContentDigest) {
        self.merge(Self { records: 1, digest: record });
    }

    pub fn add_record(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.digest.add_record(key, value);
    }

    /// Returns the content without the records of `other`, which are among its own.
    pub fn without(self, other: Self) -> Self {
        Self { records: self.records.wrapping_sub(other.records), digest: self.digest.without(other.digest) }
    }

    pub fn merge(&mut self, other: Self) {
        self.records += other.records;
        self.digest.merge(other.digest);
    }

    pub fn and(mut self, other: Self) -> Self {
        self.merge(other);
        self
    }
}

impl std::iter::Sum for Content {
    fn sum<I: Iterator<Item = Self>>(contents: I) -> Self {
        contents.fold(Self::default(), Self::and)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records with the content digest {}", self.records, self.digest)
    }
}

/// Hashes a record in one piece.
///
/// XXH3 derives a secret from the seed. For one record that is as much work as hashing some 200 bytes, so the secrets of
/// the seeds that occur, lengths of keys, are cached.
#[inline]
fn hash(key_length: usize, key_and_value: &[u8]) -> u128 {
    static SECRETS: [OnceLock<Box<[u8]>>; 64] = [const { OnceLock::new() }; 64];
    let seed = key_length as u64;
    let with_secret = SECRETS.get(key_length).and_then(|secret| {
        let secret = secret.get_or_init(|| Hasher::with_seed(seed).into_secret());
        Hasher::oneshot_with_seed_and_secret(seed, secret, key_and_value).ok()
    });
    with_secret.unwrap_or_else(|| Hasher::oneshot_with_seed(seed, key_and_value))
}

/// Joins key and value on the stack. Together they are at most `N` bytes.
fn hash_copy<const N: usize>(key: &[u8], value: &[u8]) -> u128 {
    let mut joined = [0; N];
    let length = key.len() + value.len();
    joined[..key.len()].copy_from_slice(key);
    joined[key.len()..length].copy_from_slice(value);
    hash(key.len(), &joined[..length])
}

/// Hashes key and value where they are, with the state on the stack.
fn hash_pieces(key: &[u8], value: &[u8]) -> u128 {
    let secret = SecretBuffer::with_seed(key.len() as u64, [0; DEFAULT_SECRET_LENGTH]);
    let mut hasher = RawHasher::new(secret.unwrap_or_else(|_| unreachable!("the secret has the default length")));
    hasher.write(key);
    hasher.write(value);
    hasher.finish_128()
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for ContentDigest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || {
            let text: String = text.chars().take(64).collect();
            ParseError(format!("cannot read content digest `{text}`: it must be 32 hex digits"))
        };
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| error())?;
        bytes.try_into().map(|bytes| Self(u128::from_be_bytes(bytes))).map_err(|_| error())
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(records: &[(Vec<u8>, Vec<u8>)]) -> ContentDigest {
        let mut digest = ContentDigest::default();
        for (key, value) in records {
            digest.add_record(key, value);
        }
        digest
    }

    #[test]
    fn no_records_give_zero() {
        assert_eq!(ContentDigest::default().to_string(), "0".repeat(32));
    }

    /// XXH3-128 of the empty input with seed 0, from the reference implementation.
    #[test]
    fn empty_record_has_the_published_hash() {
        assert_eq!(of(&[(vec![], vec![])]).to_string(), "99aa06d3014798d86001c324468d497f");
    }

    #[test]
    fn where_the_key_ends_makes_a_difference() {
        assert_ne!(of(&[(b"ab".to_vec(), b"c".to_vec())]), of(&[(b"a".to_vec(), b"bc".to_vec())]));
    }

    #[test]
    fn repeated_record_changes_the_digest() {
        let record = (b"key".to_vec(), b"value".to_vec());
        assert_ne!(of(&[record.clone(), record.clone()]), of(&[record]));
    }

    #[test]
    fn pieces_and_section_have_equal_digests() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        for key_length in [0, 1, 4, 36, 38, 300] {
            for length in (key_length..3000).chain([65_536, 70_000]) {
                let (key, value) = bytes[..length].split_at(key_length);
                let mut section = ContentDigest::default();
                section.add_section(&bytes[..length], key_length);
                let mut record = ContentDigest::default();
                record.add_record(key, value);
                assert_eq!(section, record, "key of {key_length} in {length}");
            }
        }
    }

    #[test]
    fn text_and_json_have_equal_digits() {
        let digest = ContentDigest(0x0123_4567_89ab_cdef);
        let text = "00000000000000000123456789abcdef";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(serde_json::to_string(&digest).expect("json"), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ContentDigest>(&format!("\"{text}\"")).expect("json"), digest);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0", "+0000000000000000123456789abcdef", "0000000000000000123456789abcdeg0", "é0000"] {
            let error = text.parse::<ContentDigest>().expect_err(text);
            assert_eq!(error.to_string(), format!("cannot read content digest `{text}`: it must be 32 hex digits"));
        }
        let long = "0".repeat(33);
        assert!(long.parse::<ContentDigest>().is_err());
        assert!(serde_json::from_str::<ContentDigest>("\"12\"").is_err());
    }

    fn records() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..50), prop::collection::vec(any::<u8>(), 0..400)),
            0..30,
        )
    }

    proptest! {
        #[test]
        fn order_and_partition_do_not_matter(records in records(), cut in any::<prop::sample::Index>()) {
            let whole = of(&records);
            let (left, right) = records.split_at(cut.index(records.len() + 1));
            let mut merged = of(right);
            merged.merge(of(left));
            prop_assert_eq!(merged, whole);
            let reversed: Vec<_> = records.iter().rev().cloned().collect();
            prop_assert_eq!(of(&reversed), whole);
        }

        #[test]
        fn digest_text_parses_back(value in any::<u128>()) {
            let digest = ContentDigest(value);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
        }
    }
}
