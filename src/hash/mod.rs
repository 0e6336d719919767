//! Hash functions, which verify blocks against their CIDs, and the content digest of records.

mod checker;
pub mod content_digest;
pub(crate) mod digest_key;
pub(crate) mod fingerprint;
mod function;
pub(crate) mod lanes;
mod problem;
mod streaming;

pub(crate) use checker::Failure;
pub use checker::{BATCH, Checker, Claim, FailureKind};
pub(crate) use content_digest::Content;
pub use content_digest::ContentDigest;
pub(crate) use digest_key::DigestKey;
pub use function::Function;
pub(crate) use function::IDENTITY;
pub use problem::{HashProblem, problem_of};
pub(crate) use streaming::Streaming;
