//! Fingerprints of keys: XXH3-128 with a secret of this process, so that nobody can make up two keys with one fingerprint.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use twox_hash::xxhash3_128::{DEFAULT_SECRET_LENGTH, Hasher};

/// Returns the fingerprint of a key. With a billion keys the chance that any two share one is below 10^-20.
pub(crate) fn fingerprint(key: &[u8]) -> u128 {
    static SECRET: LazyLock<[u8; DEFAULT_SECRET_LENGTH]> = LazyLock::new(|| {
        let random = RandomState::new();
        let mut secret = [0; DEFAULT_SECRET_LENGTH];
        for (bytes, number) in secret.chunks_exact_mut(8).zip(0u64..) {
            bytes.copy_from_slice(&random.hash_one(number).to_le_bytes());
        }
        secret
    });
    let hash = Hasher::oneshot_with_secret(&SECRET[..], key);
    hash.unwrap_or_else(|_| unreachable!("the secret has the default length"))
}
