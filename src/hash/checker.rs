//! Checks many blocks at once.
//!
//! blake2b, the function of nearly every block of a Filecoin snapshot, hashes several blocks in the lanes of SIMD
//! registers: eight with AVX-512 (`lanes`), otherwise as many as `blake2b_simd` finds instructions for. The lanes of
//! that crate stay full only while enough blocks of similar length are left, so it gets blocks longest first from batches
//! of [`BATCH`].
//!
//! sha2-256, the function of most other CARs, hashes sixteen of them at a time with AVX-512. All other functions are rare
//! and computed block by block.

use blake2b_simd::many::{HashManyJob, hash_many};
use blake2b_simd::{BLOCKBYTES as STEP, Params};

use super::function::Function;
use crate::hash::lanes;

/// One block to check: the hash function's multicodec, the digest in its CID, and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Multicodec of the hash function, e.g. `0xb220` for blake2b-256.
    pub code: u64,
    /// The digest in the CID.
    pub digest: &'a [u8],
    /// The block's bytes.
    pub data: &'a [u8],
}

/// How many blocks go into one round of lanes. Its jobs take about 128 KiB, which stays in a second-level cache.
pub const BATCH: usize = 1024;

/// The longest block for the lanes of AVX-512, in bytes: at the end of a batch a longer one would be alone in them, and
/// one lane is slower than the instructions for one message.
#[cfg(target_arch = "x86_64")]
const LONGEST_IN_EIGHT: usize = 16 << 10;

/// Checks claims. One per thread: it keeps its working memory from call to call and allocates nothing per block.
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

/// The first claim that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its place in the claims that were passed.
    pub index: usize,
    /// The problem.
    pub kind: FailureKind,
}

/// Why a claim does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// The bytes give another digest.
    Mismatch {
        /// The digest of the bytes, as long as the one in the claim where the function can give that many bytes.
        actual: Vec<u8>,
    },
    /// The digest has a length that the function cannot have ([`Function::digest_lengths`]).
    DigestLength {
        /// The function.
        function: Function,
    },
    /// The function is not supported.
    UnknownFunction,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// A checker without working memory yet.
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

    /// Hashes what `sha256` names and returns the first failure by input order.
    fn check_sha256(&self, claims: &[Claim<'_>]) -> Option<Failure> {
        let mut first = None;
        let messages: Vec<_> = self.sha256.iter().filter_map(|index| Some(claims.get(*index)?.data)).collect();
        lanes::sha256::hash(&messages, |at, sum| compare(claims, self.sha256[at], sum, &mut first));
        first
    }

    /// Hashes what `order` names and returns the first failure by input order.
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
        use lanes::blake2b::{Message, hash};

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
            Some(Message { place: place(*key), digest_size: size_of(claim) as u8, bytes: claim.data })
        });
        hash(messages, ahead, |index, digest| compare(claims, index, digest, &mut first));
        first
    }
}

/// Bytes of the digest that a claim's function gives.
fn size_of(claim: &Claim<'_>) -> usize {
    Function::from_code(claim.code).map_or(1, Function::digest_size)
}

/// Keeps the failure of the claim at `index`, if `hash` is not what it names and no earlier claim has failed.
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

/// Checks a claim, all but the hashing when that can be done in lanes.
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

/// The digest cut to the length of the claimed one, so that the two can be compared by eye.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every code that is supported.
    fn codes() -> Vec<u64> {
        (0..=0xc000).filter(|code| Function::from_code(*code).is_some()).collect()
    }

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .take(length)
        .collect()
    }

    struct Block {
        code: u64,
        digest: Vec<u8>,
        data: Vec<u8>,
    }

    impl Block {
        fn new(code: u64, data: Vec<u8>) -> Self {
            let digest = Function::from_code(code).expect("a supported code").digest(&data);
            Self { code, digest, data }
        }

        fn claim(&self) -> Claim<'_> {
            Claim { code: self.code, digest: &self.digest, data: &self.data }
        }
    }

    /// A checker as on a processor without AVX-512.
    fn without_avx512() -> Checker {
        Checker {
            #[cfg(target_arch = "x86_64")]
            eight: false,
            ..Checker::new()
        }
    }

    /// Checks the blocks with the lanes that this processor has, and with the fallback.
    fn check(blocks: &[Block]) -> Result<(), Failure> {
        let claims: Vec<_> = blocks.iter().map(Block::claim).collect();
        let found = Checker::new().check(&claims);
        assert_eq!(found, without_avx512().check(&claims));
        let ahead: Vec<u8> = claims.iter().flat_map(|claim| claim.data).copied().collect();
        for ahead in [&ahead[..], &ahead[..ahead.len() / 3]] {
            assert_eq!(found, Checker::new().check_ahead(&claims, &mut &*ahead), "with {} bytes ahead", ahead.len());
        }
        found
    }

    #[test]
    fn no_claims_hold() {
        assert_eq!(Checker::new().check(&[]), Ok(()));
    }

    #[test]
    fn blocks_verify_under_every_function() {
        for length in [0, 1, 63, 64, 127, 128, 129, 4096, 1 << 20] {
            let codes = if length > 4096 { vec![0x00, 0x12, 0x1e, 0xb220, 0xb220, 0xb260] } else { codes() };
            let blocks: Vec<_> = codes.into_iter().map(|code| Block::new(code, noise(code, length))).collect();
            assert_eq!(check(&blocks), Ok(()), "{length} bytes");
        }
    }

    /// The digests are those of blake2b_simd, one at a time.
    #[test]
    fn blake2b_verifies_all_lengths_and_alignments() {
        // The fallback is tested in any case.
        lanes::is_test_skipped();
        let bytes = noise(1, 9000);
        for shift in 0..64 {
            let lengths = (0..=520).chain([1023, 1024, 1025, 2049, 4096, 8000]);
            let blocks: Vec<_> = lengths
                .map(|length| {
                    // An order without order, so that long and short blocks share the lanes.
                    let length = if length <= 520 { (length * 331 + shift) % 521 } else { length };
                    let size = 1 + (length * 7 + shift) % 64;
                    (size as u64 + 0xb200, shift + length % 97, length)
                })
                .collect();
            let digests: Vec<_> = blocks
                .iter()
                .map(|(code, at, length)| {
                    let size = (code - 0xb200) as usize;
                    Params::new().hash_length(size).hash(&bytes[*at..][..*length])
                })
                .collect();
            let mut claims: Vec<_> = blocks
                .iter()
                .zip(&digests)
                .map(|((code, at, length), digest)| Claim {
                    code: *code,
                    digest: digest.as_bytes(),
                    data: &bytes[*at..][..*length],
                })
                .collect();
            for mut checker in [Checker::new(), without_avx512()] {
                assert_eq!(checker.check(&claims), Ok(()), "shifted by {shift}");
            }
            let wrong = shift * 8 + 3;
            let mut digest = digests[wrong].as_bytes().to_vec();
            *digest.last_mut().expect("not empty") ^= 0x80;
            claims[wrong].digest = &digest;
            for mut checker in [Checker::new(), without_avx512()] {
                assert_eq!(checker.check(&claims).map_err(|failure| failure.index), Err(wrong), "shifted by {shift}");
            }
        }
    }

    #[test]
    fn flipped_bit_is_found_by_every_function() {
        for code in codes() {
            // A digest of a byte or two may match by chance.
            let function = Function::from_code(code).expect("supported");
            if function != Function::Identity && function.digest_size() < 8 {
                continue;
            }
            let mut block = Block::new(code, noise(code, 300));
            block.data[299] ^= 1;
            let actual = function.digest(&block.data);
            assert_eq!(
                check(&[block]),
                Err(Failure { index: 0, kind: FailureKind::Mismatch { actual } }),
                "{function}"
            );
        }
    }

    #[test]
    fn first_failure_in_order_is_reported() {
        // Longest first in the lanes, so the later and longer failure is hashed before the earlier one.
        let mut blocks: Vec<_> = (0..40).map(|i| Block::new(0xb220, noise(i, 100 + 100 * i as usize))).collect();
        for index in [30, 7, 8] {
            blocks[index].data[0] ^= 1;
        }
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(7));
    }

    #[test]
    fn lane_and_other_failures_keep_input_order() {
        let mut blocks: Vec<_> =
            (0..20).map(|i| Block::new(if i % 2 == 0 { 0xb220 } else { 0x12 }, noise(i, 200))).collect();
        blocks[9].data[0] ^= 1;
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(9));
        blocks[12].data[0] ^= 1;
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(9));
        blocks[4].data[0] ^= 1;
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(4));
    }

    #[test]
    fn failure_after_first_batch_keeps_index() {
        let mut blocks: Vec<_> = (0..2 * BATCH as u64 + 10).map(|i| Block::new(0xb220, noise(i, 8))).collect();
        let last = blocks.len() - 1;
        blocks[last].data[0] ^= 1;
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(last));
        blocks[BATCH].data[0] ^= 1;
        assert_eq!(check(&blocks).map_err(|it| it.index), Err(BATCH));
    }

    #[test]
    fn checker_is_reusable_after_a_failure() {
        let good = Block::new(0xb220, noise(1, 500));
        let mut checker = Checker::new();
        let bad = Claim { data: b"other", ..good.claim() };
        for _ in 0..3 {
            assert!(checker.check(&[good.claim(), bad]).is_err());
            assert_eq!(checker.check(&[good.claim(), good.claim()]), Ok(()));
        }
    }

    #[test]
    fn working_memory_is_kept_between_calls() {
        let blocks: Vec<_> = (0..100).map(|i| Block::new(0xb220, noise(i, 50))).collect();
        let claims: Vec<_> = blocks.iter().map(Block::claim).collect();
        let mut checker = without_avx512();
        assert_eq!(checker.check(&claims), Ok(()));
        let (jobs, order) = (checker.jobs.as_ptr(), checker.order.as_ptr());
        assert!(checker.jobs.capacity() >= 100);
        assert_eq!(checker.check(&claims), Ok(()));
        assert_eq!((checker.jobs.as_ptr(), checker.order.as_ptr()), (jobs, order));
    }

    #[test]
    fn unknown_function_is_its_own_failure() {
        let block = Block::new(0x12, b"data".to_vec());
        let unknown = Claim { code: 0xb401, ..block.claim() };
        let failure = Checker::new().check(&[block.claim(), unknown]);
        assert_eq!(failure, Err(Failure { index: 1, kind: FailureKind::UnknownFunction }));
    }

    #[test]
    fn identity_is_compared_byte_by_byte() {
        let claim = Claim { code: 0, digest: b"abc", data: b"abc" };
        assert_eq!(Checker::new().check(&[claim]), Ok(()));
        for data in [&b"abd"[..], b"ab", b"abcd", b""] {
            let kind = FailureKind::Mismatch { actual: data.to_vec() };
            assert_eq!(Checker::new().check(&[Claim { data, ..claim }]), Err(Failure { index: 0, kind }));
        }
    }

    #[test]
    fn truncated_digest_needs_twenty_bytes() {
        for code in [0x12, 0x13, 0x16, 0x1b, 0x1e, 0xb220, 0xb240, 0xb260] {
            let mut block = Block::new(code, noise(code, 200));
            block.digest.truncate(20);
            assert_eq!(check(std::slice::from_ref(&block)), Ok(()), "{code:x}");
            block.digest[19] ^= 1;
            let failure = check(std::slice::from_ref(&block)).expect_err("a wrong prefix");
            let FailureKind::Mismatch { actual } = failure.kind else { panic!("{failure:?}") };
            assert_eq!(actual.len(), 20, "{code:x}");
            block.digest.truncate(19);
            let function = Function::from_code(code).expect("supported");
            let kind = FailureKind::DigestLength { function };
            assert_eq!(check(&[block]), Err(Failure { index: 0, kind }), "{code:x}");
        }
    }

    #[test]
    fn long_or_empty_digest_is_rejected() {
        for code in codes().into_iter().filter(|code| *code != 0) {
            let function = Function::from_code(code).expect("supported");
            let mut block = Block::new(code, noise(code, 200));
            block.digest.resize(function.digest_lengths().end() + 1, 0);
            let refused = Err(Failure { index: 0, kind: FailureKind::DigestLength { function } });
            assert_eq!(check(std::slice::from_ref(&block)), refused, "{function}");
            block.digest.clear();
            assert_eq!(check(&[block]), refused, "{function}");
        }
    }

    #[test]
    fn a_short_blake2b_needs_its_whole_digest() {
        let mut block = Block::new(0xb208, noise(8, 200));
        assert_eq!(check(std::slice::from_ref(&block)), Ok(()));
        block.digest.truncate(7);
        assert!(matches!(check(&[block]), Err(Failure { kind: FailureKind::DigestLength { .. }, .. })));
    }

    #[test]
    fn long_blake3_digests_are_the_extended_output() {
        let data = noise(3, 2000);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&data);
        let mut digest = [0; 128];
        hasher.finalize_xof().fill(&mut digest);
        for length in [20, 32, 64, 128] {
            let claim = Claim { code: 0x1e, digest: &digest[..length], data: &data };
            assert_eq!(Checker::new().check(&[claim]), Ok(()), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The model hashes one block after the other.
        #[test]
        fn batch_matches_single_checks(
            shapes in prop::collection::vec((0usize..6, 0usize..3000, prop::bool::weighted(0.02)), 0..200),
        ) {
            let codes = [0xb220, 0xb220, 0xb240, 0xb214, 0x12, 0x00];
            let blocks: Vec<_> = shapes
                .iter()
                .enumerate()
                .map(|(index, (code, length, spoiled))| {
                    let mut block = Block::new(codes[*code], noise(index as u64, *length));
                    if *spoiled {
                        block.data.push(0);
                    }
                    block
                })
                .collect();
            let one_by_one = blocks.iter().position(|block| {
                Function::from_code(block.code).expect("supported").digest(&block.data) != block.digest
            });
            prop_assert_eq!(check(&blocks).err().map(|it| it.index), one_by_one);
        }
    }
}
