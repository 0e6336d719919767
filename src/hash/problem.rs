//! Problems of a block's hash.

use data_encoding::HEXLOWER;

use super::checker::{Claim, Failure, FailureKind};
use super::function::Function;
use crate::error::{InputKind, Problem};

/// Most bytes of a digest in a message; an identity digest may be as long as a block.
const MAX_SHOWN: usize = 64;

/// A problem of the hash of the block with this CID. Digests are hex.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum HashProblem {
    #[error("block {cid} does not match its hash: the CID says {expected}, the bytes give {actual}")]
    Mismatch { cid: String, expected: String, actual: String },
    #[error(
        "block {cid} carries a {function} digest of {length} bytes, it must have {} to {}",
        function.digest_lengths().start(),
        function.digest_lengths().end()
    )]
    DigestLength { cid: String, function: Function, length: usize },
    #[error("block {cid} uses the hash function 0x{code:x}, which is not supported")]
    UnknownFunction { cid: String, code: u64 },
}

impl Problem for HashProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::Mismatch { .. } => InputKind::HashMismatch,
            Self::DigestLength { .. } => InputKind::Damaged,
            Self::UnknownFunction { .. } => InputKind::Unsupported,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Mismatch { .. } | Self::DigestLength { .. } => {
                "the snapshot is damaged: download it again and compare its sha256".into()
            }
            Self::UnknownFunction { .. } => "`--verify none` imports it unchecked".into(),
        }
    }
}

/// Returns the problem of a failed claim of the block with the CID `cid`. A CID of an identity digest of more than 64 bytes
/// is shown as hex.
pub fn problem_of(cid: &[u8], claim: &Claim<'_>, failure: &Failure) -> HashProblem {
    let cid = cid::Cid::try_from(cid).map_or_else(|_| shown(cid), |cid| cid.to_string());
    match &failure.kind {
        FailureKind::Mismatch { actual } => {
            HashProblem::Mismatch { cid, expected: shown(claim.digest), actual: shown(actual) }
        }
        FailureKind::DigestLength { function } => {
            HashProblem::DigestLength { cid, function: *function, length: claim.digest.len() }
        }
        FailureKind::UnknownFunction => HashProblem::UnknownFunction { cid, code: claim.code },
    }
}

/// Formats the first [`MAX_SHOWN`] bytes as hex.
fn shown(digest: &[u8]) -> String {
    match digest.get(..MAX_SHOWN) {
        _ if digest.is_empty() => "nothing".into(),
        Some(first) if digest.len() > MAX_SHOWN => format!("{}.. ({} bytes)", HEXLOWER.encode(first), digest.len()),
        _ => HEXLOWER.encode(digest),
    }
}

#[cfg(test)]
mod tests {
    use multihash::Multihash;

    use super::*;
    use crate::hash::Checker;

    fn problem(code: u64, digest: &[u8], data: &[u8]) -> HashProblem {
        let cid = cid::Cid::new_v1(0x55, Multihash::<64>::wrap(code, digest).expect("a short digest"));
        let claim = Claim { code, digest, data };
        let failure = Checker::new().check(&[claim]).expect_err("a claim that does not hold");
        problem_of(&cid.to_bytes(), &claim, &failure)
    }

    #[test]
    fn a_mismatch_shows_both_digests() {
        let digest = Function::Blake2b(32).digest(b"abc");
        let problem = problem(0xb220, &digest, b"abd");
        let actual = HEXLOWER.encode(&Function::Blake2b(32).digest(b"abd"));
        assert_eq!(
            problem.to_string(),
            format!(
                "block bafk2bzacec653aj4mnbds4rrohxt73uyk6nzjfsohoy4wpscojrmrqdi2urrs does not match its hash: the CID \
                 says bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319, the bytes give {actual}"
            )
        );
        assert_eq!(problem.hint(), "the snapshot is damaged: download it again and compare its sha256");
    }

    #[test]
    fn a_wrong_length_names_the_right_ones() {
        let text = problem(0x12, &[7; 19], b"abc").to_string();
        assert!(text.ends_with(" carries a sha2-256 digest of 19 bytes, it must have 20 to 32"), "{text}");
    }

    #[test]
    fn unknown_function_is_named_by_code() {
        let problem = problem(0xb401, &[7; 32], b"abc");
        assert!(problem.to_string().ends_with(" uses the hash function 0xb401, which is not supported"), "{problem}");
        assert_eq!(problem.hint(), "`--verify none` imports it unchecked");
    }

    #[test]
    fn cid_without_text_is_hex() {
        // CIDv1, raw, identity, 100 bytes.
        let cid: Vec<u8> = [1, 0x55, 0, 100].into_iter().chain([7; 100]).collect();
        let claim = Claim { code: 0, digest: &cid[4..], data: b"abc" };
        let failure = Checker::new().check(&[claim]).expect_err("another block");
        let text = problem_of(&cid, &claim, &failure).to_string();
        let hex = "07".repeat(60);
        assert!(text.starts_with(&format!("block 01550064{hex}.. (104 bytes) does not match")), "{text}");
    }

    #[test]
    fn long_identity_is_truncated_in_message() {
        let text = problem(0x00, b"", &[0xab; 300]).to_string();
        let expected = format!("the CID says nothing, the bytes give {}.. (300 bytes)", "ab".repeat(64));
        assert!(text.ends_with(&expected), "{text}");
    }
}
