//! Signatures in minisign's format: `bundle.json.minisig` signs `bundle.json`, which names every other byte of a bundle.

use std::fmt;
use std::path::Path;

#[cfg(feature = "sign")]
use minisign::{SecretKey, SecretKeyBox};
use minisign_verify::{PublicKey, Signature};

#[cfg(feature = "sign")]
use super::document::SCHEMA;
use super::problem::BundleProblem;
use crate::error::{Error, Result};
use crate::os::files::read_regular;

pub(super) const SUFFIX: &str = ".minisig";

/// Longest signature, in bytes: minisign's two comments of 8 KiB and both signatures.
pub(super) const MAX_BYTES: u64 = 18 << 10;

const MAX_KEY: u64 = 16 << 10;

/// A public key in minisign's format.
#[derive(Debug, Clone)]
pub struct TrustedKey(PublicKey);

impl TrustedKey {
    /// Parses a public key (`RW…`), or reads it from a file.
    ///
    /// # Errors
    /// [`Error::Usage`]: `key` is neither a key nor a file with a key.
    pub fn open(key: &str) -> Result<Self> {
        if let Ok(key) = PublicKey::from_base64(key) {
            return Ok(Self(key));
        }
        let path = Path::new(key);
        let bytes = read_regular(path, MAX_KEY).map_err(|error| Error::Usage {
            reason: format!("{} is neither a minisign public key nor a file with one: {error}", path.display()),
            hint: "pass the key (`RW…`) or the file minisign.pub to --trust".into(),
        })?;
        let text = String::from_utf8_lossy(&bytes);
        // Some files contain only the key.
        let found = PublicKey::decode(&text).or_else(|_| PublicKey::from_base64(text.trim()));
        found.map(Self).map_err(|_| Error::Usage {
            reason: format!("{} contains no minisign public key", path.display()),
            hint: "pass the file minisign.pub, which `minisign -G` writes, to --trust".into(),
        })
    }
}

/// Checks that one of the `trusted` keys has signed `bytes`.
pub(super) fn check(bytes: &[u8], signature: Option<&[u8]>, trusted: &[TrustedKey]) -> Result<(), BundleProblem> {
    let refused = |reason: &str| Err(BundleProblem::Signature(reason.into()));
    let Some(signature) = signature else { return refused("the file is missing") };
    let Some(signature) = std::str::from_utf8(signature).ok().and_then(|text| Signature::decode(text).ok()) else {
        return refused("it is not of minisign's format");
    };
    let is_signed = trusted.iter().any(|key| key.0.verify(bytes, &signature, false).is_ok());
    if is_signed { Ok(()) } else { refused("it is not by a trusted key over these bytes") }
}

/// A secret key in minisign's format, which signs bundles.
#[derive(Clone)]
pub struct Signer {
    /// Public key as base64.
    pub(super) text: String,
    #[cfg(feature = "sign")]
    key: SecretKey,
    /// No signer exists without the feature.
    #[cfg(not(feature = "sign"))]
    key: std::convert::Infallible,
    /// The key that verifies the signatures.
    pub(super) own: TrustedKey,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("public", &self.text).finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads a secret key. Calls `password` if the key is encrypted. Needs the feature `sign`.
    ///
    /// # Errors
    /// [`Error::Usage`]: the file has no secret key, or the password is wrong; and the error of `password`.
    #[cfg(feature = "sign")]
    pub fn open(path: &Path, password: impl FnOnce() -> Result<String>) -> Result<Self> {
        let wrong = |reason: String, hint: &str| Error::usage(format!("{} {reason}", path.display()), hint.to_owned());
        let form = "pass the file minisign.key, which `minisign -G` or `rsign generate` writes, to --sign";
        let bytes = read_regular(path, MAX_KEY).map_err(|error| wrong(format!("cannot be read: {error}"), form))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let no_key = || wrong("contains no minisign secret key".into(), form);
        let encoded = text.lines().nth(1).ok_or_else(no_key)?;
        let raw = data_encoding::BASE64.decode(encoded.trim().as_bytes()).map_err(|_| no_key())?;
        // Two bytes each: the algorithm of signatures and the encryption of the key.
        let key = match raw.get(..4) {
            // minisign writes no checksum into such a key; `sign` verifies each signature.
            Some(b"Ed\0\0") => SecretKey::from_bytes(&raw),
            Some(b"EdSc") => {
                let password = password()?;
                SecretKeyBox::from_string(&text).and_then(|key| key.into_secret_key(Some(password)))
            }
            _ => return Err(no_key()),
        };
        let hint = "set BEDLOAD_SIGN_PASSWORD, or BEDLOAD_SIGN_PASSWORD_FILE to a file with the password";
        let key = key.map_err(|error| wrong(format!("cannot be decrypted: {error}"), hint))?;
        let public = minisign::PublicKey::from_secret_key(&key).map_err(|_| no_key())?;
        let own = PublicKey::from_base64(&public.to_base64()).map_err(|_| no_key())?;
        Ok(Self { key, text: public.to_base64(), own: TrustedKey(own) })
    }

    pub(super) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        check(bytes, Some(signature), std::slice::from_ref(&self.own)).is_ok()
    }

    #[cfg(not(feature = "sign"))]
    pub(super) fn sign(&self, _: &[u8], _: &str) -> Result<Vec<u8>> {
        match self.key {}
    }

    /// Signs the description with this id.
    #[cfg(feature = "sign")]
    pub(super) fn sign(&self, bytes: &[u8], id: &str) -> Result<Vec<u8>> {
        let trusted = format!("{SCHEMA} {id}");
        let signed = minisign::sign(None, &self.key, bytes, Some(&trusted), Some("signature of bedload bundle"));
        let signed = signed.map_err(|error| Error::io("sign", id)(std::io::Error::other(error)))?;
        let signed = signed.into_string().into_bytes();
        self.has_signed(bytes, &signed).then_some(signed).ok_or_else(|| Error::Usage {
            reason: "the secret key is damaged: its signatures are not valid".into(),
            hint: "use another copy of the key".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(bytes: &[u8]) -> (Vec<TrustedKey>, Vec<u8>) {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().expect("random bytes");
        let own = TrustedKey(PublicKey::from_base64(&pair.pk.to_base64()).expect("a key"));
        let signer = Signer { key: pair.sk, text: String::new(), own: own.clone() };
        let signature = signer.sign(bytes, &"0".repeat(64)).expect("random bytes");
        assert!(signer.has_signed(bytes, &signature));
        (vec![own], signature)
    }

    #[test]
    fn damaged_signature_is_refused() {
        let (trusted, signature) = signed(b"a description");
        let comment = signature.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        for at in comment..signature.len() {
            for bit in 0..8 {
                let mut other = signature.clone();
                other[at] ^= 1 << bit;
                // The last line feed is optional.
                let is_end = at + 1 == signature.len();
                assert!(check(b"a description", Some(&other), &trusted).is_err() || is_end, "byte {at}, bit {bit}");
            }
        }
        for len in 0..signature.len() - 1 {
            assert!(check(b"a description", signature.get(..len), &trusted).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn signature_matches_one_key_and_text() {
        let (trusted, signature) = signed(b"a description");
        let (others, other) = signed(b"a description");
        assert!(check(b"another one", Some(&signature), &trusted).is_err());
        assert!(check(b"a description", Some(&signature), &others).is_err());
        assert!(check(b"a description", None, &trusted).is_err());
        assert!(check(b"a description", Some(&signature), &[]).is_err());
        let both = [others, trusted].concat();
        assert!(check(b"a description", Some(&signature), &both).is_ok());
        assert!(check(b"a description", Some(&other), &both).is_ok());
    }
}
