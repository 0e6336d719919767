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
        assert_eq!(check(&[block]), Err(Failure { index: 0, kind: FailureKind::Mismatch { actual } }), "{function}");
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
