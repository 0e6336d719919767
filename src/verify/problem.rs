//! What can be wrong with a block's hash.

/// What is wrong with a block's hash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HashProblem {
    /// The bytes are not what the CID says.
    #[error("block {cid} does not match its hash: the CID says {expected}, the bytes give {actual}")]
    Mismatch {
        /// The CID in its usual text form.
        cid: String,
        /// The digest in the CID, as hex.
        expected: String,
        /// The digest of the bytes, as hex.
        actual: String,
    },
    /// A hash function that is not known here.
    #[error("block {cid} uses the hash function 0x{code:x}, which is not supported")]
    UnknownFunction {
        /// The CID in its usual text form.
        cid: String,
        /// The multicodec of the function.
        code: u64,
    },
}

impl HashProblem {
    /// The next step for the person who sees it.
    pub fn hint(&self) -> String {
        match self {
            Self::Mismatch { .. } => "the snapshot is damaged: download it again and compare its sha256".into(),
            Self::UnknownFunction { .. } => "`--verify none` imports it unchecked".into(),
        }
    }
}
