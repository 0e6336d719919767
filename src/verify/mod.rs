//! Proof that a block's bytes are what its CID says.

mod problem;

pub use problem::HashProblem;

/// One block to check: the hash function's multicodec, the digest its CID carries, and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Multicodec of the hash function, e.g. `0xb220` for blake2b-256.
    pub code: u64,
    /// The digest as it stands in the CID.
    pub digest: &'a [u8],
    /// The block's bytes.
    pub data: &'a [u8],
}

#[derive(Default)]
pub struct Checker;
pub struct Failure {
    pub index: usize,
    pub actual: Vec<u8>,
}
impl Checker {
    pub fn check(&mut self, claims: &[Claim<'_>]) -> Result<(), Failure> {
        use blake2b_simd::many::{HashManyJob, hash_many};
        let mut params = blake2b_simd::Params::new();
        params.hash_length(32);
        let mut jobs: Vec<_> = claims.iter().map(|c| HashManyJob::new(&params, c.data)).collect();
        hash_many(jobs.iter_mut());
        for (i, (j, c)) in jobs.iter().zip(claims).enumerate() {
            if c.code == 0xb220 && j.to_hash().as_bytes() != c.digest {
                return Err(Failure { index: i, actual: j.to_hash().as_bytes().to_vec() });
            }
        }
        Ok(())
    }
}
pub fn problem_of(cid: &[u8], claim: &Claim<'_>, failure: &Failure) -> HashProblem {
    HashProblem::Mismatch {
        cid: format!("{cid:?}"),
        expected: format!("{:?}", claim.digest),
        actual: format!("{:?}", failure.actual),
    }
}
