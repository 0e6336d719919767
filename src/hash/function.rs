//! The hash functions that a CID may name, by their multicodec.
//!
//! Codes and names are from the [multicodec table]. Functions that no block store uses for its blocks are left out: md5,
//! murmur, poseidon, and the truncated sha2 of Filecoin's sector commitments, which name no block.
//!
//! [multicodec table]: https://github.com/multiformats/multicodec/blob/master/table.csv

use std::fmt;
use std::ops::RangeInclusive;

use sha2::Digest as _;

/// The multicodec of [`Function::Identity`].
pub(crate) const IDENTITY: u64 = 0;

/// The longest digest, in bytes: blake3 has any length, and Go's multihash has this limit.
pub const MAX_DIGEST: usize = 128;

/// The shortest prefix of a digest that counts as proof, in bytes; the same as in kubo.
pub const MIN_TRUNCATED: usize = 20;

/// Declares [`Function`] from a table of the functions whose digests have one length: the variant, its multicodec, its name
/// in the multicodec table, the bytes of a digest, and the function itself. The matches are on the path of every block.
macro_rules! functions {
    ($($variant:ident, $code:literal, $name:literal, $size:literal, $hash:expr;)*) => {
        /// A hash function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Function {
            /// The digest is the block itself.
            Identity,
            $(#[doc = $name] $variant,)*
            /// blake2b with a digest of this many bytes, 1 to 64. Filecoin uses 32.
            Blake2b(u8),
            /// blake2s with a digest of this many bytes, 1 to 32.
            Blake2s(u8),
            /// blake3. The CID declares the length of the digest.
            Blake3,
        }

        impl Function {
            /// Returns the function with this multicodec, if it is supported.
            pub fn from_code(code: u64) -> Option<Self> {
                Some(match code {
                    IDENTITY => Self::Identity,
                    $($code => Self::$variant,)*
                    0x1e => Self::Blake3,
                    // One code for each length in bytes, the shortest first.
                    0xb201..=0xb240 => Self::Blake2b((code - 0xb200) as u8),
                    0xb241..=0xb260 => Self::Blake2s((code - 0xb240) as u8),
                    _ => return None,
                })
            }

            /// Returns the length of a whole digest: 32 for blake3, 0 for identity, whose digest is the block.
            pub fn digest_size(self) -> usize {
                match self {
                    Self::Identity => 0,
                    $(Self::$variant => $size,)*
                    Self::Blake2b(size) | Self::Blake2s(size) => size.into(),
                    Self::Blake3 => 32,
                }
            }

            /// Digests without allocating; blake3 returns `length` bytes. Not for identity.
            pub(super) fn digest_on_stack(self, data: &[u8], length: usize) -> Digest {
                match self {
                    Self::Identity => Digest::new(&[]),
                    $(Self::$variant => Digest::new(&$hash(data)),)*
                    Self::Blake2b(size) => {
                        Digest::new(blake2b_simd::Params::new().hash_length(size.into()).hash(data).as_bytes())
                    }
                    Self::Blake2s(size) => {
                        Digest::new(blake2s_simd::Params::new().hash_length(size.into()).hash(data).as_bytes())
                    }
                    Self::Blake3 => {
                        let mut digest = Digest { bytes: [0; MAX_DIGEST], len: length.min(MAX_DIGEST) };
                        let mut hasher = blake3::Hasher::new();
                        hasher.update(data);
                        hasher.finalize_xof().fill(&mut digest.bytes[..digest.len]);
                        digest
                    }
                }
            }
        }

        /// The name in the multicodec table.
        impl fmt::Display for Function {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    Self::Identity => "identity",
                    $(Self::$variant => $name,)*
                    Self::Blake3 => "blake3",
                    Self::Blake2b(size) => return write!(f, "blake2b-{}", u32::from(*size) * 8),
                    Self::Blake2s(size) => return write!(f, "blake2s-{}", u32::from(*size) * 8),
                })
            }
        }
    };
}

functions! {
    Sha1, 0x11, "sha1", 20, sha1::Sha1::digest;
    Sha2_224, 0x1013, "sha2-224", 28, sha2::Sha224::digest;
    Sha2_256, 0x12, "sha2-256", 32, sha2::Sha256::digest;
    Sha2_384, 0x20, "sha2-384", 48, sha2::Sha384::digest;
    Sha2_512, 0x13, "sha2-512", 64, sha2::Sha512::digest;
    Sha2_512_224, 0x1014, "sha2-512-224", 28, sha2::Sha512_224::digest;
    Sha2_512_256, 0x1015, "sha2-512-256", 32, sha2::Sha512_256::digest;
    // As in Bitcoin.
    DoubleSha2_256, 0x56, "dbl-sha2-256", 32, |data| sha2::Sha256::digest(sha2::Sha256::digest(data));
    Sha3_224, 0x17, "sha3-224", 28, sha3::Sha3_224::digest;
    Sha3_256, 0x16, "sha3-256", 32, sha3::Sha3_256::digest;
    Sha3_384, 0x15, "sha3-384", 48, sha3::Sha3_384::digest;
    Sha3_512, 0x14, "sha3-512", 64, sha3::Sha3_512::digest;
    Keccak224, 0x1a, "keccak-224", 28, sha3::Keccak224::digest;
    Keccak256, 0x1b, "keccak-256", 32, sha3::Keccak256::digest;
    Keccak384, 0x1c, "keccak-384", 48, sha3::Keccak384::digest;
    Keccak512, 0x1d, "keccak-512", 64, sha3::Keccak512::digest;
}

/// A digest on the stack.
pub(super) struct Digest {
    bytes: [u8; MAX_DIGEST],
    len: usize,
}

impl Digest {
    fn new(digest: &[u8]) -> Self {
        let len = digest.len().min(MAX_DIGEST);
        let mut bytes = [0; MAX_DIGEST];
        bytes[..len].copy_from_slice(&digest[..len]);
        Self { bytes, len }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Function {
    /// Returns the lengths that the digest in a CID may have.
    ///
    /// A shorter digest than the function's is its prefix, as in Go's multihash. Fewer than [`MIN_TRUNCATED`] bytes prove
    /// nothing and are refused, unless the function itself is that short. blake3 has up to [`MAX_DIGEST`] bytes.
    pub fn digest_lengths(self) -> RangeInclusive<usize> {
        match self {
            Self::Identity => 0..=usize::MAX,
            Self::Blake3 => MIN_TRUNCATED..=MAX_DIGEST,
            _ => MIN_TRUNCATED.min(self.digest_size())..=self.digest_size(),
        }
    }

    /// Returns the whole digest of `data`; for blake3, 32 bytes.
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Identity => data.to_vec(),
            _ => self.digest_on_stack(data, self.digest_size()).as_slice().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    /// Published digests: FIPS 180-4 and 202 examples ("abc" and the empty message), RFC 7693, the Keccak team's known
    /// answers, the BLAKE3 test vectors.
    #[test]
    fn digests_are_the_published_ones() {
        let vectors: &[(u64, &str, &[u8], &str)] = &[
            (0x00, "identity", b"abc", "616263"),
            (0x11, "sha1", b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (0x12, "sha2-256", b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (0x12, "sha2-256", b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                0x13,
                "sha2-512",
                b"abc",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (
                0x20,
                "sha2-384",
                b"abc",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            ),
            (0x1013, "sha2-224", b"abc", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
            (0x1014, "sha2-512-224", b"abc", "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa"),
            (0x1015, "sha2-512-256", b"abc", "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
            (0x56, "dbl-sha2-256", b"hello", "9595c9df90075148eb06860365df33584b75bff782a510c6cd4883a419833d50"),
            (0x17, "sha3-224", b"abc", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
            (0x16, "sha3-256", b"abc", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
            (
                0x15,
                "sha3-384",
                b"abc",
                "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
            ),
            (
                0x14,
                "sha3-512",
                b"abc",
                "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
                 10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            ),
            (0x1a, "keccak-224", b"", "f71837502ba8e10837bdd8d365adb85591895602fc552b48b7390abd"),
            (0x1b, "keccak-256", b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
            (
                0x1c,
                "keccak-384",
                b"",
                "2c23146a63a29acf99e73b88f8c24eaa7dc60aa771780ccc006afbfa8fe2479b2dd2b21362337441ac12b515911957ff",
            ),
            (
                0x1d,
                "keccak-512",
                b"",
                "0eab42de4c3ceb9235fc91acffe746b29c29a8c366b7c60e4e67c466f36a4304\
                 c00fa9caf9d87976ba469bcbe06713b435f091ef2769fb160cdab33d3670680e",
            ),
            (0x1e, "blake3", b"", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
            (0xb220, "blake2b-256", b"", "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
            (0xb220, "blake2b-256", b"abc", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
            (
                0xb240,
                "blake2b-512",
                b"abc",
                "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
                 7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
            ),
            (0xb260, "blake2s-256", b"abc", "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"),
        ];
        for (code, name, data, expected) in vectors {
            let function = Function::from_code(*code).expect(name);
            assert_eq!(function.to_string(), *name);
            assert_eq!(HEXLOWER.encode(&function.digest(data)), *expected, "{name}");
        }
    }

    #[test]
    fn blake2_codes_give_the_digest_length() {
        assert_eq!(Function::from_code(0xb201), Some(Function::Blake2b(1)));
        assert_eq!(Function::from_code(0xb240), Some(Function::Blake2b(64)));
        assert_eq!(Function::from_code(0xb241), Some(Function::Blake2s(1)));
        assert_eq!(Function::from_code(0xb260), Some(Function::Blake2s(32)));
        for code in 0xb201..=0xb260 {
            let function = Function::from_code(code).expect("a blake2");
            assert_eq!(function.digest(b"x").len(), function.digest_size(), "{function}");
        }
        assert_eq!(Function::from_code(0xb200), None);
        assert_eq!(Function::from_code(0xb261), None);
    }

    #[test]
    fn every_fixed_function_fills_its_whole_digest() {
        for function in (0..=0x1100).filter_map(Function::from_code).filter(|it| *it != Function::Identity) {
            assert_eq!(function.digest(b"x").len(), function.digest_size(), "{function}");
        }
    }

    #[test]
    fn commitments_and_murmur_are_unsupported() {
        for code in [0x1012, 0xb401, 0x22, 0xd5, u64::MAX] {
            assert_eq!(Function::from_code(code), None, "{code:x}");
        }
    }

    #[test]
    fn blake3_digest_has_the_cids_length() {
        // From the official vectors, input length 0, first bytes of the extended output.
        let extended = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262\
                        e00f03e7b69af26b7faaf09fcd333050338ddfe085b8cc869ca98b206c08243a";
        assert_eq!(HEXLOWER.encode(Function::Blake3.digest_on_stack(b"", 64).as_slice()), extended);
        assert_eq!(HEXLOWER.encode(Function::Blake3.digest_on_stack(b"", 20).as_slice()), extended[..40]);
    }
}
