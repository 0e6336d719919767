//! blake2b of eight messages at a time, in the lanes of AVX-512 registers.
//!
//! A lane takes the next message when its own has ended, so messages of all lengths keep the lanes full. Messages of one length
//! end together, which is cheaper. The function is that of RFC 7693, without a key. The tests of the checker compare it with
//! `blake2b_simd`.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_add_epi64, _mm512_loadu_si512, _mm512_mask_mov_epi64,
    _mm512_maskz_loadu_epi8, _mm512_permutex2var_epi64, _mm512_ror_epi64, _mm512_set1_epi64, _mm512_setr_epi64,
    _mm512_storeu_si512, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Bytes of one step.
const STEP: usize = 128;

/// Messages that are hashed at a time.
const LANES: usize = 8;

/// The initial state (RFC 7693, section 2.6).
const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The order of a message's words in each round (RFC 7693, section 2.7).
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneMessage<'a> {
    /// Its index among the caller's messages, which `done` receives.
    pub place: usize,
    /// Bytes of the digest, 1 to 64.
    pub digest_size: u8,
    pub bytes: &'a [u8],
}

/// Hashes all messages, and prefetches about as many bytes from the front of `ahead`. `done` receives a message's place and 64
/// bytes, of which the first `digest_size` are the digest.
///
/// # Panics
/// If the processor [lacks the instructions](super::are_supported).
pub(crate) fn hash<'a>(
    messages: impl Iterator<Item = LaneMessage<'a>>,
    ahead: &mut &[u8],
    done: impl FnMut(usize, &[u8; 64]),
) {
    assert!(super::are_supported(), "the processor lacks AVX-512");
    // SAFETY: the processor has the instructions.
    unsafe { hash_all(messages, ahead, done) }
}

/// The rest of the message of a lane.
#[derive(Clone, Copy)]
struct Lane<'a> {
    /// `None` in a lane without a message, which repeats the work of another lane.
    place: Option<usize>,
    rest: &'a [u8],
    /// Bytes hashed.
    count: u64,
}

#[target_feature(enable = "avx512f,avx512bw")]
fn hash_all<'a>(
    mut messages: impl Iterator<Item = LaneMessage<'a>>,
    ahead: &mut &[u8],
    mut done: impl FnMut(usize, &[u8; 64]),
) {
    let mut lanes = [Lane { place: None, rest: &[], count: 0 }; LANES];
    let mut state = [_mm512_set1_epi64(0); 8];
    let mut words = [[_mm512_set1_epi64(0); 2]; LANES];
    let mut ended = u8::MAX;
    while refill(&mut lanes, &mut state, ended, &mut messages) {
        // The last step of a message hashes 1 to 128 bytes, or none of an empty message.
        let whole = lanes.iter().map(|lane| lane.rest.len().saturating_sub(1) / STEP).min().unwrap_or(0);
        let mut counts = counts_of(&lanes);
        for step in 0..whole {
            prefetch_next(ahead);
            counts = _mm512_add_epi64(counts, _mm512_set1_epi64(STEP as i64));
            for (words, lane) in words.iter_mut().zip(&lanes) {
                *words = load_whole(&lane.rest[step * STEP..][..STEP]);
            }
            compress(&mut state, &words, counts, 0);
        }
        prefetch_next(ahead);
        ended = 0;
        for (at, (words, lane)) in words.iter_mut().zip(&mut lanes).enumerate() {
            let rest = &lane.rest[whole * STEP..];
            let (now, later) = rest.split_at(rest.len().min(STEP));
            ended |= u8::from(later.is_empty()) << at;
            *words = load(now);
            *lane = Lane { rest: later, count: lane.count + (whole * STEP + now.len()) as u64, ..*lane };
        }
        compress(&mut state, &words, counts_of(&lanes), ended);
        let mut digests = [[0_u64; LANES]; 8];
        for (word, state) in digests.iter_mut().zip(&state) {
            // SAFETY: `word` has 64 bytes.
            unsafe { _mm512_storeu_si512(word.as_mut_ptr().cast(), *state) };
        }
        for (at, lane) in lanes.iter().enumerate().filter(|(at, _)| ended & 1 << at != 0) {
            let Some(place) = lane.place else { continue };
            let mut digest = [0; 64];
            for (bytes, word) in digest.chunks_exact_mut(8).zip(&digests) {
                bytes.copy_from_slice(&word[at].to_le_bytes());
            }
            done(place, &digest);
        }
    }
}

/// Prefetches as much from the front of `ahead` as one step hashes.
#[inline]
fn prefetch_next(ahead: &mut &[u8]) {
    let (now, later) = ahead.split_at(ahead.len().min(STEP * LANES));
    for line in now.iter().step_by(64) {
        // SAFETY: a prefetch reads nothing; the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast()) };
    }
    *ahead = later;
}

/// Gives each ended lane the next message. Returns false if nothing is left to hash.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn refill<'a>(
    lanes: &mut [Lane<'a>; LANES],
    state: &mut [__m512i; 8],
    ended: u8,
    messages: &mut impl Iterator<Item = LaneMessage<'a>>,
) -> bool {
    for (at, lane) in lanes.iter_mut().enumerate().filter(|(at, _)| ended & 1 << at != 0) {
        let Some(LaneMessage { place, digest_size, bytes }) = messages.next() else {
            lane.place = None;
            continue;
        };
        *lane = Lane { place: Some(place), rest: bytes, count: 0 };
        // The parameters in the first word: no key, no tree (RFC 7693, section 2.5).
        let parameters = 0x0101_0000 ^ u64::from(digest_size);
        for (word, (iv, parameters)) in state.iter_mut().zip(IV.into_iter().zip([parameters, 0, 0, 0, 0, 0, 0, 0])) {
            *word = _mm512_mask_mov_epi64(*word, 1 << at, _mm512_set1_epi64((iv ^ parameters) as i64));
        }
    }
    let Some(&busy) = lanes.iter().find(|lane| lane.place.is_some()) else { return false };
    for lane in lanes.iter_mut().filter(|lane| lane.place.is_none()) {
        *lane = Lane { place: None, ..busy };
    }
    true
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn counts_of(lanes: &[Lane<'_>; LANES]) -> __m512i {
    let count = |at: usize| lanes[at].count as i64;
    _mm512_setr_epi64(count(0), count(1), count(2), count(3), count(4), count(5), count(6), count(7))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load_whole(bytes: &[u8]) -> [__m512i; 2] {
    assert_eq!(bytes.len(), STEP);
    // SAFETY: both halves are within the 128 bytes.
    unsafe { [_mm512_loadu_si512(bytes.as_ptr().cast()), _mm512_loadu_si512(bytes.as_ptr().add(STEP / 2).cast())] }
}

/// The words of at most 128 bytes, filled with zeros.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(bytes: &[u8]) -> [__m512i; 2] {
    let mask = |length: usize| if length < 64 { (1 << length) - 1 } else { u64::MAX };
    let (low, high) = (mask(bytes.len()), mask(bytes.len().saturating_sub(STEP / 2)));
    let start = bytes.as_ptr().cast::<i8>();
    // SAFETY: the masks select bytes of the slice. The instruction does not access the others, wherever they are.
    unsafe { [_mm512_maskz_loadu_epi8(low, start), _mm512_maskz_loadu_epi8(high, start.wrapping_add(STEP / 2))] }
}

/// Eight words of each message, ordered by word instead of by lane: those of one half of a step.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn transpose(lanes: &[[__m512i; 2]; LANES], half: usize) -> [__m512i; 8] {
    // Pairs of lanes: a and b, ..; even words in `low`, odd ones in `high`.
    macro_rules! pair {
        ($unpack:ident, $lane:expr) => {
            $unpack(lanes[$lane][half], lanes[$lane + 1][half])
        };
    }
    macro_rules! join {
        ($order:expr, $a:expr, $b:expr) => {
            _mm512_permutex2var_epi64($a, $order, $b)
        };
    }
    let low = [
        pair!(_mm512_unpacklo_epi64, 0),
        pair!(_mm512_unpacklo_epi64, 2),
        pair!(_mm512_unpacklo_epi64, 4),
        pair!(_mm512_unpacklo_epi64, 6),
    ];
    let high = [
        pair!(_mm512_unpackhi_epi64, 0),
        pair!(_mm512_unpackhi_epi64, 2),
        pair!(_mm512_unpackhi_epi64, 4),
        pair!(_mm512_unpackhi_epi64, 6),
    ];
    // Words 0 and 4, 1 and 5, 2 and 6, 3 and 7: of lanes a to d, and of e to h.
    let even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    let left = [
        join!(even, low[0], low[1]),
        join!(even, high[0], high[1]),
        join!(odd, low[0], low[1]),
        join!(odd, high[0], high[1]),
    ];
    let right = [
        join!(even, low[2], low[3]),
        join!(even, high[2], high[3]),
        join!(odd, low[2], low[3]),
        join!(odd, high[2], high[3]),
    ];
    let first = _mm512_setr_epi64(0, 1, 2, 3, 8, 9, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 6, 7, 12, 13, 14, 15);
    [
        join!(first, left[0], right[0]),
        join!(first, left[1], right[1]),
        join!(first, left[2], right[2]),
        join!(first, left[3], right[3]),
        join!(second, left[0], right[0]),
        join!(second, left[1], right[1]),
        join!(second, left[2], right[2]),
        join!(second, left[3], right[3]),
    ]
}

/// One step of all lanes (RFC 7693, section 3.2). `last` has a bit for each lane whose message ends with it.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn compress(state: &mut [__m512i; 8], lanes: &[[__m512i; 2]; LANES], counts: __m512i, last: u8) {
    let (low, high) = (transpose(lanes, 0), transpose(lanes, 1));
    macro_rules! iv {
        ($at:expr) => {
            _mm512_set1_epi64(IV[$at] as i64)
        };
    }
    let [mut v0, mut v1, mut v2, mut v3, mut v4, mut v5, mut v6, mut v7] = *state;
    let (mut v8, mut v9, mut v10, mut v11) = (iv!(0), iv!(1), iv!(2), iv!(3));
    let (mut v12, mut v13) = (_mm512_xor_si512(iv!(4), counts), iv!(5));
    let (mut v14, mut v15) = (_mm512_mask_mov_epi64(iv!(6), last, _mm512_set1_epi64(!IV[6] as i64)), iv!(7));
    macro_rules! word {
        ($round:expr, $at:expr) => {
            if SIGMA[$round % 10][$at] < 8 {
                low[SIGMA[$round % 10][$at] % 8]
            } else {
                high[SIGMA[$round % 10][$at] % 8]
            }
        };
    }
    macro_rules! half {
        ($round:expr, $at:expr, $first:literal, $second:literal, [$($a:ident $b:ident $c:ident $d:ident $word:expr),*]) => {
            $( $a = _mm512_add_epi64(_mm512_add_epi64($a, word!($round, $at + $word)), $b); )*
            $( $d = _mm512_ror_epi64::<$first>(_mm512_xor_si512($d, $a)); )*
            $( $c = _mm512_add_epi64($c, $d); )*
            $( $b = _mm512_ror_epi64::<$second>(_mm512_xor_si512($b, $c)); )*
        };
    }
    // Four mixings side by side, so that none waits for another.
    macro_rules! round {
        ($($round:literal)*) => { $(
            half!($round, 0, 32, 24, [v0 v4 v8 v12 0, v1 v5 v9 v13 2, v2 v6 v10 v14 4, v3 v7 v11 v15 6]);
            half!($round, 1, 16, 63, [v0 v4 v8 v12 0, v1 v5 v9 v13 2, v2 v6 v10 v14 4, v3 v7 v11 v15 6]);
            half!($round, 8, 32, 24, [v0 v5 v10 v15 0, v1 v6 v11 v12 2, v2 v7 v8 v13 4, v3 v4 v9 v14 6]);
            half!($round, 9, 16, 63, [v0 v5 v10 v15 0, v1 v6 v11 v12 2, v2 v7 v8 v13 4, v3 v4 v9 v14 6]);
        )* };
    }
    round!(0 1 2 3 4 5 6 7 8 9 10 11);
    macro_rules! fold {
        ($($at:literal $a:ident $b:ident),*) => {
            $( state[$at] = _mm512_xor_si512(state[$at], _mm512_xor_si512($a, $b)); )*
        };
    }
    fold!(0 v0 v8, 1 v1 v9, 2 v2 v10, 3 v3 v11, 4 v4 v12, 5 v5 v13, 6 v6 v14, 7 v7 v15);
}
