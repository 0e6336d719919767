//! The key of the digest that compares stored with verified records, if an import reads its source twice.
//!
//! ```text
//! keyed digest = sum over all records of XXH3-64(key ‖ value, secret) * (2 * bytes in key + 1)   modulo 2^128
//! ```
//!
//! The secret is derived from random bytes of each import. A user who can only write to a source knows neither the secret
//! nor a keyed digest. The published [`ContentDigest`](super::content_digest) has no key: it detects accidents.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, Hasher};

use super::content_digest::ContentDigest;

pub(crate) const KEY_BYTES: usize = 32;

/// A key of digests, and the secret that is derived from it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct DigestKey {
    key: [u8; KEY_BYTES],
    secret: Box<[u8; DEFAULT_SECRET_LENGTH]>,
}

impl DigestKey {
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        let mut secret = Box::new([0; DEFAULT_SECRET_LENGTH]);
        let mut hasher = blake3::Hasher::new_derive_key("bedload 2026-11-25 secret of keyed digests");
        hasher.update(&key).finalize_xof().fill(&mut secret[..]);
        Self { key, secret }
    }

    #[inline]
    pub fn of_section(&self, key_and_value: &[u8], key_length: usize) -> ContentDigest {
        let hash = Hasher::oneshot_with_secret(&self.secret[..], key_and_value);
        let hash = hash.unwrap_or_else(|_| unreachable!("the secret has the default length"));
        // Distinguishes `ab ‖ c` from `a ‖ bc`. Not by addition, which another record could undo.
        ContentDigest::from_value(u128::from(hash).wrapping_mul(2 * key_length as u128 + 1))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

impl From<DigestKey> for String {
    fn from(key: DigestKey) -> Self {
        HEXLOWER.encode(&key.key)
    }
}

impl TryFrom<String> for DigestKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self::new).ok_or("a key of digests has 64 hex digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_key_and_record() {
        let bytes: Vec<u8> = (0..2000u32).map(|at| (at * 7) as u8).collect();
        for len in [0, 1, 16, 40, 200, 240, 241, 2000] {
            let [one, other] =
                [[1; KEY_BYTES], [2; KEY_BYTES]].map(|key| DigestKey::new(key).of_section(&bytes[..len], 0));
            assert_ne!(one, other, "{len} bytes");
            let key = DigestKey::new([1; KEY_BYTES]);
            assert_ne!(key.of_section(&bytes[..len], 1), one, "where the key ends");
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                let mut changed = bytes[..len].to_vec();
                changed[at] ^= 1;
                assert_ne!(key.of_section(&changed, 0), one, "byte {at} of {len}");
            }
        }
    }

    #[test]
    fn keys_are_restored_from_json() {
        let key = DigestKey::new([0xa5; KEY_BYTES]);
        let text = serde_json::to_string(&key).expect("JSON");
        assert_eq!(serde_json::from_str::<DigestKey>(&text).expect("a key"), key);
        assert_eq!(format!("{key:?}"), "DigestKey", "it is shown nowhere");
        for text in ["\"\"", "\"a5\"", "\"zz\"", "7"] {
            serde_json::from_str::<DigestKey>(text).expect_err("no key");
        }
    }
}
