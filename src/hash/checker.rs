//! Checks many blocks at once.
//!
//! blake2b, the function of nearly every block of a Filecoin snapshot, is computed for several blocks in the lanes of SIMD
//! registers: eight with AVX-512 (`lanes`), otherwise as many as `blake2b_simd` finds instructions for. The lanes of that crate
//! are full only while enough blocks of similar length are left, so it gets blocks longest first from batches of [`BATCH`].
//!
//! sha2-256, the function of most other CARs, is computed for sixteen blocks at a time with AVX-512, and all other functions
//! for one.

use blake2b_simd::many::{HashManyJob, hash_many};
use blake2b_simd::{BLOCKBYTES as STEP, Params};

use super::function::Function;
use crate::hash::lanes;

/// A block to check: the multicodec of its hash function (`0xb220` is blake2b-256), the digest in its CID, and its bytes.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Claim<'a> {
    pub code: u64,
    pub digest: &'a [u8],
    pub data: &'a [u8],
}

/// Blocks in one round of lanes. Its jobs take about 128 KiB, which stays in a second-level cache.
pub const BATCH: usize = 1024;

/// The longest block for the lanes of AVX-512, in bytes. At the end of a batch a longer one would be alone in them, which is
/// slower than the instructions for one message.
#[cfg(target_arch = "x86_64")]
const LONGEST_IN_EIGHT: usize = 16 << 10;

/// Checks the claims of one thread. It keeps its working memory from call to call and allocates nothing per block.
///
/// ```
/// use bedload::testing::hash::{Checker, Claim, FailureKind, Function};
///
/// let digest = Function::Blake2b(32).digest(b"block");
/// let good = Claim { code: 0xb220, digest: &digest, data: b"block" };
/// let bad = Claim { data: b"b1ock", ..good };
///
/// let mut checker = Checker::new();
/// assert!(checker.check(&[good, good]).is_ok());
/// let failure = checker.check(&[good, bad]).unwrap_err();
/// assert_eq!(failure.index, 1);
/// assert!(matches!(failure.kind, FailureKind::Mismatch { .. }));
/// ```
pub struct Checker {
    params: Params,
    /// True if eight blocks are hashed at a time.
    #[cfg(target_arch = "x86_64")]
    eight: bool,
    /// For each block in the lanes: steps left to the longest possible (upper half), place in the batch (lower half).
    order: Vec<u64>,
    /// The places of blocks for the lanes of sha2-256.
    sha256: Vec<usize>,
    /// Empty between calls; it only keeps its memory.
    jobs: Vec<HashManyJob<'static>>,
}

/// The first claim that failed, by its index among the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Failure {
    pub index: usize,
    pub kind: FailureKind,
}

/// A reason why a claim failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FailureKind {
    /// The bytes have a different digest: `actual`, cut to the length of the claimed one.
    Mismatch { actual: Vec<u8> },
    /// The function has no digest of this length ([`Function::digest_lengths`]).
    DigestLength { function: Function },
    /// The function is not supported.
    UnknownFunction,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// Creates a checker without working memory.
    pub fn new() -> Self {
        Self {
            params: Params::new(),
            #[cfg(target_arch = "x86_64")]
            eight: lanes::are_supported(),
            order: Vec::new(),
            sha256: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// Checks all claims. Pass many at once, best [`BATCH`] or a multiple of it.
    pub fn check(&mut self, claims: &[Claim<'_>]) -> Result<(), Failure> {
        self.check_ahead(claims, &mut &[][..])
    }

    /// Checks claims, and prefetches about as many bytes from the front of `ahead` into the core's cache, because the
    /// caller reads them next.
    pub(crate) fn check_ahead(&mut self, claims: &[Claim<'_>], ahead: &mut &[u8]) -> Result<(), Failure> {
        for (batch, claims) in claims.chunks(BATCH).enumerate() {
            self.check_batch(claims, ahead)
                .map_err(|failure| Failure { index: batch * BATCH + failure.index, ..failure })?;
        }
        Ok(())
    }

    fn check_batch(&mut self, claims: &[Claim<'_>], ahead: &mut &[u8]) -> Result<(), Failure> {
        self.order.clear();
        self.sha256.clear();
        let mut failed = None;
        for (index, claim) in claims.iter().enumerate() {
            match triage(claim) {
                Ok(Rest::Nothing) => {}
                Ok(Rest::Blake2b) => self.order.push(sort_key(index, claim.data.len())),
                Ok(Rest::Sha256) => self.sha256.push(index),
                Err(kind) => {
                    failed = Some(Failure { index, kind });
                    break;
                }
            }
        }
        let found = [self.check_blake2b(claims, ahead), self.check_sha256(claims), failed];
        match found.into_iter().flatten().min_by_key(|failure| failure.index) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Hashes the blocks of `sha256` and returns the first failure in input order.
    fn check_sha256(&self, claims: &[Claim<'_>]) -> Option<Failure> {
        let mut first = None;
        let messages: Vec<_> = self.sha256.iter().filter_map(|index| Some(claims.get(*index)?.data)).collect();
        lanes::sha256::hash(&messages, |at, sum| compare(claims, self.sha256[at], sum, &mut first));
        first
    }

    /// Hashes the blocks of `order` and returns the first failure in input order.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "only lanes look ahead"))]
    fn check_blake2b(&mut self, claims: &[Claim<'_>], ahead: &mut &[u8]) -> Option<Failure> {
        #[cfg(target_arch = "x86_64")]
        if self.eight {
            return self.check_eight(claims, ahead);
        }
        self.order.sort_unstable();
        let mut jobs = recycle(std::mem::take(&mut self.jobs));
        for claim in self.order.iter().filter_map(|key| claims.get(place(*key))) {
            jobs.push(HashManyJob::new(self.params.hash_length(size_of(claim)), claim.data));
        }
        hash_many(&mut jobs);
        let mut first = None;
        for (key, job) in self.order.iter().zip(&jobs) {
            compare(claims, place(*key), job.to_hash().as_bytes(), &mut first);
        }
        self.jobs = recycle(jobs);
        first
    }

    #[cfg(target_arch = "x86_64")]
    fn check_eight(&mut self, claims: &[Claim<'_>], ahead: &mut &[u8]) -> Option<Failure> {
        use lanes::blake2b::{LaneMessage, hash};

        let mut first = None;
        let (params, order) = (&mut self.params, &mut self.order);
        order.retain(|key| {
            let Some(claim) = claims.get(place(*key)).filter(|claim| claim.data.len() > LONGEST_IN_EIGHT) else {
                return true;
            };
            compare(claims, place(*key), params.hash_length(size_of(claim)).hash(claim.data).as_bytes(), &mut first);
            false
        });
        // Lanes whose messages end with the same step are given new ones together.
        order.sort_unstable();
        let messages = order.iter().filter_map(|key| {
            let claim = claims.get(place(*key))?;
            Some(LaneMessage { place: place(*key), digest_size: size_of(claim) as u8, bytes: claim.data })
        });
        hash(messages, ahead, |index, digest| compare(claims, index, digest, &mut first));
        first
    }
}

fn size_of(claim: &Claim<'_>) -> usize {
    Function::from_code(claim.code).map_or(1, Function::digest_size)
}

/// Notes a failure of the claim at `index`, if `hash` is not its digest and no earlier claim has failed.
fn compare(claims: &[Claim<'_>], index: usize, hash: &[u8], first: &mut Option<Failure>) {
    let Some(claim) = claims.get(index) else { return };
    if !hash.starts_with(claim.digest) && first.as_ref().is_none_or(|first| index < first.index) {
        *first = Some(Failure {
            index,
            kind: FailureKind::Mismatch { actual: shortened(&hash[..size_of(claim).min(hash.len())], claim) },
        });
    }
}

/// The remaining work for a claim that has not failed.
enum Rest {
    Nothing,
    Blake2b,
    Sha256,
}

/// Checks a claim, except for the hashing if lanes can do that.
fn triage(claim: &Claim<'_>) -> Result<Rest, FailureKind> {
    let function = Function::from_code(claim.code).ok_or(FailureKind::UnknownFunction)?;
    if function == Function::Identity {
        if claim.digest == claim.data {
            return Ok(Rest::Nothing);
        }
        return Err(FailureKind::Mismatch { actual: claim.data.to_vec() });
    }
    if !function.digest_lengths().contains(&claim.digest.len()) {
        return Err(FailureKind::DigestLength { function });
    }
    match function {
        Function::Blake2b(_) => return Ok(Rest::Blake2b),
        Function::Sha2_256 => return Ok(Rest::Sha256),
        _ => {}
    }
    let digest = function.digest_on_stack(claim.data, claim.digest.len());
    if digest.as_slice().starts_with(claim.digest) {
        Ok(Rest::Nothing)
    } else {
        Err(FailureKind::Mismatch { actual: shortened(digest.as_slice(), claim) })
    }
}

/// Cuts a digest to the length of the claimed one, so that people can compare the two.
fn shortened(digest: &[u8], claim: &Claim<'_>) -> Vec<u8> {
    digest.iter().take(claim.digest.len()).copied().collect()
}

/// Sorts the longest first; what takes equally many steps stays in input order.
fn sort_key(index: usize, length: usize) -> u64 {
    let steps = u32::try_from(length.div_ceil(STEP)).unwrap_or(u32::MAX);
    u64::from(u32::MAX - steps) << 32 | index as u64
}

fn place(key: u64) -> usize {
    (key & u64::from(u32::MAX)) as usize
}

/// Empties a vector and lets it be filled with jobs of another lifetime; the standard library collects in place, so the
/// memory stays.
fn recycle<'to>(mut jobs: Vec<HashManyJob<'_>>) -> Vec<HashManyJob<'to>> {
    jobs.clear();
    jobs.into_iter().map(|_| unreachable!("the vector is empty")).collect()
}

#[cfg(test)]
mod tests;
