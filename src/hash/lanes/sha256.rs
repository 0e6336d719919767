//! SHA-256 of sixteen messages at a time.
//!
//! Messages with equally many steps share the lanes, so that they end together: refilling single lanes takes branches that no
//! processor predicts. Few messages, or those of very different lengths, are hashed one at a time by `sha2`, with SHA-NI if the
//! processor has it. The function is that of FIPS 180-4; the tests compare it with `sha2`.

use sha2::{Digest, Sha256};

pub(crate) type Sum = [u8; 32];

/// The initial state (FIPS 180-4, section 5.3.3).
pub(crate) const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Bytes of one step.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 64;

/// Messages that are ordered at a time. Messages in one piece of memory stay in a second-level cache.
#[cfg(target_arch = "x86_64")]
const BATCH: usize = 1024;

/// Hashes all messages. `done` receives the index of each once, in any order, and its digest.
pub(crate) fn hash(messages: &[&[u8]], mut done: impl FnMut(usize, &Sum)) {
    #[cfg(target_arch = "x86_64")]
    if super::are_supported() {
        for (batch, messages) in messages.chunks(BATCH).enumerate() {
            // SAFETY: the processor has the instructions.
            unsafe { avx512::hash(messages, |index, sum| done(batch * BATCH + index, sum)) };
        }
        return;
    }
    for (index, message) in messages.iter().enumerate() {
        done(index, &Sha256::digest(message).into());
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm_set_epi64x, _mm256_storeu_si256, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_castsi512_si256,
        _mm512_cmpeq_epi32_mask, _mm512_cmple_epu32_mask, _mm512_loadu_si512, _mm512_mask_add_epi32,
        _mm512_mask_mov_epi8, _mm512_mask_mov_epi32, _mm512_maskz_loadu_epi8, _mm512_ror_epi32, _mm512_set1_epi8,
        _mm512_set1_epi32, _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_srli_epi32, _mm512_ternarylogic_epi32,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use sha2::{Digest, Sha256};

    use super::{BATCH, IV, STEP, Sum};

    /// Messages that are hashed at a time.
    const LANES: usize = 16;

    /// Steps of single messages that take as long as one step of all lanes.
    const PACE: usize = 8;

    /// The most steps of a message that is ordered; longer ones follow in the order of the caller.
    const MOST_STEPS: usize = 256;

    /// The constants of the rounds (FIPS 180-4, section 4.2.2).
    #[rustfmt::skip]
    const K: [u32; 64] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ];

    /// Steps before the last one. Padding takes at least nine bytes.
    fn last_step(message: &[u8]) -> usize {
        (message.len() + 8) / STEP
    }

    /// Hashes at most [`BATCH`] messages.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn hash(messages: &[&[u8]], mut done: impl FnMut(usize, &Sum)) {
        let bucket = |message: &[u8]| last_step(message).min(MOST_STEPS);
        let mut starts = [0_u16; MOST_STEPS + 1];
        for message in messages {
            starts[bucket(message)] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += std::mem::replace(start, before);
        }
        let mut order = [0_u16; BATCH];
        let order = &mut order[..messages.len()];
        for (index, message) in messages.iter().enumerate() {
            let start = &mut starts[bucket(message)];
            order[usize::from(*start)] = index as u16;
            *start += 1;
        }
        for order in order.chunks(LANES) {
            // A lane that is not needed repeats the work of the first one.
            let mut lanes = [messages[usize::from(order[0])]; LANES];
            for (lane, index) in lanes.iter_mut().zip(order) {
                *lane = messages[usize::from(*index)];
            }
            let steps = lanes[..order.len()].iter().map(|message| last_step(message) + 1);
            let (most, all) = steps.fold((0, 0), |(most, all), steps| (steps.max(most), all + steps));
            if all <= PACE * most {
                order.iter().zip(lanes).for_each(|(index, lane)| done((*index).into(), &Sha256::digest(lane).into()));
            } else {
                hash_lanes(&lanes, |lane, sum| {
                    if let Some(index) = order.get(lane) {
                        done((*index).into(), sum);
                    }
                });
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn hash_lanes(lanes: &[&[u8]; LANES], mut done: impl FnMut(usize, &Sum)) {
        let mut state = [_mm512_set1_epi32(0); 8];
        for (state, word) in state.iter_mut().zip(IV) {
            *state = _mm512_set1_epi32(word as i32);
        }
        let mut words = [_mm512_set1_epi32(0); LANES];
        // A step that no message ends in, nor the padding of one begins in.
        let whole = lanes.iter().map(|lane| lane.len() / STEP).min().unwrap_or(0);
        for step in 0..whole {
            for (words, lane) in words.iter_mut().zip(lanes) {
                *words = load_whole(&lane[step * STEP..][..STEP]);
            }
            big_endian(transpose(&mut words));
            compress(&mut state, &mut words, u16::MAX);
        }
        let last = lanes.map(last_step);
        let most = last.into_iter().max().unwrap_or(0);
        let last = load_words(last.map(|step| step as u32));
        let bits = lanes.map(|lane| 8 * lane.len() as u64);
        let bits = [load_words(bits.map(|bits| (bits >> 32) as u32)), load_words(bits.map(|bits| bits as u32))];
        for step in whole..=most {
            for (words, lane) in words.iter_mut().zip(lanes) {
                *words = load(lane, step);
            }
            big_endian(transpose(&mut words));
            let step = _mm512_set1_epi32(step as i32);
            let ends = _mm512_cmpeq_epi32_mask(step, last);
            words[14] = _mm512_mask_mov_epi32(words[14], ends, bits[0]);
            words[15] = _mm512_mask_mov_epi32(words[15], ends, bits[1]);
            compress(&mut state, &mut words, _mm512_cmple_epu32_mask(step, last));
        }
        // The first eight words of each lane, and any bytes after them.
        words[..8].copy_from_slice(&state);
        big_endian(transpose(&mut words));
        for (lane, sum) in words.iter().enumerate() {
            let mut bytes = [0; 32];
            // SAFETY: `bytes` has 32 bytes.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm512_castsi512_si256(*sum)) };
            done(lane, &bytes);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn load_words(words: [u32; LANES]) -> __m512i {
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn load_whole(bytes: &[u8]) -> __m512i {
        assert_eq!(bytes.len(), STEP);
        // SAFETY: the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// Loads a step of a message, or of the padding after it: a bit, and zeros.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn load(message: &[u8], step: usize) -> __m512i {
        let at = (step * STEP).min(message.len());
        let rest = message.len() - at;
        let mask = if rest < STEP { (1 << rest) - 1 } else { u64::MAX };
        let end = if step == message.len() / STEP { 1 << rest } else { 0 };
        // SAFETY: the mask selects bytes of the message from `at` on. The instruction does not access the others.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, message.as_ptr().add(at).cast()) };
        _mm512_mask_mov_epi8(bytes, end, _mm512_set1_epi8(i8::MIN))
    }

    /// Turns the bytes of each word around.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn big_endian(words: &mut [__m512i; LANES]) {
        let turn = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203));
        for word in words {
            *word = _mm512_shuffle_epi8(*word, turn);
        }
    }

    /// Makes columns of sixteen rows of sixteen words.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn transpose(a: &mut [__m512i; LANES]) -> &mut [__m512i; LANES] {
        let mut b = *a;
        // Words of two rows side by side, of four, and then quarters of eight and of all.
        for at in [0, 2, 4, 6, 8, 10, 12, 14] {
            b[at] = _mm512_unpacklo_epi32(a[at], a[at + 1]);
            b[at + 1] = _mm512_unpackhi_epi32(a[at], a[at + 1]);
        }
        for at in [0, 4, 8, 12] {
            a[at] = _mm512_unpacklo_epi64(b[at], b[at + 2]);
            a[at + 1] = _mm512_unpackhi_epi64(b[at], b[at + 2]);
            a[at + 2] = _mm512_unpacklo_epi64(b[at + 1], b[at + 3]);
            a[at + 3] = _mm512_unpackhi_epi64(b[at + 1], b[at + 3]);
        }
        for at in [0, 1, 2, 3, 8, 9, 10, 11] {
            b[at] = _mm512_shuffle_i32x4::<0x88>(a[at], a[at + 4]);
            b[at + 4] = _mm512_shuffle_i32x4::<0xdd>(a[at], a[at + 4]);
        }
        for at in 0..8 {
            a[at] = _mm512_shuffle_i32x4::<0x88>(b[at], b[at + 8]);
            a[at + 8] = _mm512_shuffle_i32x4::<0xdd>(b[at], b[at + 8]);
        }
        a
    }

    /// One step (FIPS 180-4, section 6.2.2) of the lanes that `active` has a bit for.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn compress(state: &mut [__m512i; 8], words: &mut [__m512i; LANES], active: u16) {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        macro_rules! sum {
            ($one:expr) => { $one };
            ($one:expr, $($more:expr),+) => { _mm512_add_epi32($one, sum!($($more),+)) };
        }
        // 0x96: exclusive or of three. 0xca: of each bit the second where the first is set, else the third. 0xe8: what
        // two of three have.
        macro_rules! xor {
            ($a:expr, $b:expr, $c:expr) => {
                _mm512_ternarylogic_epi32::<0x96>($a, $b, $c)
            };
        }
        macro_rules! turned {
            ($word:expr, $first:literal, $second:literal, $third:literal) => {
                xor!(
                    _mm512_ror_epi32::<$first>($word),
                    _mm512_ror_epi32::<$second>($word),
                    _mm512_ror_epi32::<$third>($word)
                )
            };
        }
        macro_rules! shifted {
            ($word:expr, $first:literal, $second:literal, $shift:literal) => {
                xor!(
                    _mm512_ror_epi32::<$first>($word),
                    _mm512_ror_epi32::<$second>($word),
                    _mm512_srli_epi32::<$shift>($word)
                )
            };
        }
        macro_rules! rounds {
            ($from:expr, $is_first:literal,
                $($at:literal $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident),*) => { $(
                if !$is_first {
                    let (early, late) = (words[($at + 1) % LANES], words[($at + 14) % LANES]);
                    let mixed = sum!(shifted!(early, 7, 18, 3), shifted!(late, 17, 19, 10));
                    words[$at] = _mm512_add_epi32(sum!(words[$at], words[($at + 9) % LANES]), mixed);
                }
                let k = _mm512_set1_epi32(K[$from + $at] as i32);
                let choice = _mm512_ternarylogic_epi32::<0xca>($e, $f, $g);
                let first = _mm512_add_epi32(sum!($h, words[$at], k), sum!(turned!($e, 6, 11, 25), choice));
                $d = sum!($d, first);
                let majority = _mm512_ternarylogic_epi32::<0xe8>($a, $b, $c);
                $h = sum!(first, turned!($a, 2, 13, 22), majority);
            )* };
        }
        macro_rules! sixteen {
            ($from:expr, $is_first:literal) => {
                rounds!($from, $is_first, 0 a b c d e f g h, 1 h a b c d e f g, 2 g h a b c d e f, 3 f g h a b c d e);
                rounds!($from, $is_first, 4 e f g h a b c d, 5 d e f g h a b c, 6 c d e f g h a b, 7 b c d e f g h a);
                rounds!($from, $is_first, 8 a b c d e f g h, 9 h a b c d e f g, 10 g h a b c d e f, 11 f g h a b c d e);
                rounds!($from, $is_first, 12 e f g h a b c d, 13 d e f g h a b c, 14 c d e f g h a b, 15 b c d e f g h a);
            };
        }
        sixteen!(0, true);
        for from in [16, 32, 48] {
            sixteen!(from, false);
        }
        for (state, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = _mm512_mask_add_epi32(*state, active, *state, word);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::lanes::is_test_skipped;

    fn sums(messages: &[&[u8]]) -> Vec<Sum> {
        let mut sums: Vec<Option<Sum>> = vec![None; messages.len()];
        hash(messages, |index, sum| assert_eq!(sums[index].replace(*sum), None, "message {index} twice"));
        sums.into_iter().map(|sum| sum.expect("each message once")).collect()
    }

    fn one_by_one(messages: &[&[u8]]) -> Vec<Sum> {
        messages.iter().map(|message| Sha256::digest(message).into()).collect()
    }

    fn noise(length: usize) -> Vec<u8> {
        (0..length as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }

    #[test]
    fn sixteen_lanes_match_the_crate() {
        if is_test_skipped() {
            return;
        }
        let bytes = noise(20_000);
        let around = |length: usize| length.saturating_sub(10)..length + 10;
        for length in (0..=300).chain(around(512)).chain(around(1024)).chain(around(16 << 10)) {
            let messages: Vec<_> = (0..16).map(|lane| &bytes[lane * 131 % 64..][..length]).collect();
            assert_eq!(sums(&messages), one_by_one(&messages), "{length} bytes");
        }
    }

    #[test]
    fn lanes_of_different_lengths_keep_state() {
        if is_test_skipped() {
            return;
        }
        let bytes = noise(2000);
        for shift in 0..64 {
            let messages: Vec<_> = (0..16).map(|lane| &bytes[lane..][..shift + 64 * (lane % 5)]).collect();
            assert_eq!(sums(&messages), one_by_one(&messages), "shifted by {shift}");
        }
    }

    #[test]
    fn large_batches_keep_message_order() {
        if is_test_skipped() {
            return;
        }
        let bytes = noise(100_000);
        let lengths = (0..3000).map(|index| if index % 300 == 7 { 30_000 + index } else { index * 37 % 500 });
        let messages: Vec<_> = lengths.map(|length| &bytes[length % 61..][..length]).collect();
        assert_eq!(sums(&messages), one_by_one(&messages));
        let long = vec![&bytes[..]; 20];
        assert_eq!(sums(&long), one_by_one(&long));
    }

    /// Messages that end where a page does, and the next page cannot be read.
    #[cfg(unix)]
    #[test]
    fn bytes_after_a_message_are_not_read() {
        if is_test_skipped() {
            return;
        }
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, private and never removed; its first page stays readable and is not written again.
        let bytes: &[u8] = unsafe {
            let map = mmap_anonymous(std::ptr::null_mut(), 2 * page, access, MapFlags::PRIVATE).expect("two pages");
            mprotect(map.byte_add(page), page, MprotectFlags::empty()).expect("a page without access");
            let first = std::slice::from_raw_parts_mut(map.cast::<u8>(), page);
            first.copy_from_slice(&noise(page));
            first
        };
        for length in 0..=300 {
            let messages: Vec<_> = (0..16).map(|lane| &bytes[page - length.max(lane % 3)..]).collect();
            assert_eq!(sums(&messages), one_by_one(&messages), "{length} bytes");
        }
    }

    proptest! {
        #![proptest_config(if is_test_skipped() { ProptestConfig::with_cases(0) } else { ProptestConfig::default() })]

        #[test]
        fn random_messages_match_the_crate(shapes in prop::collection::vec((0usize..64, 0usize..900), 0..200)) {
            let bytes = noise(1000);
            let messages: Vec<_> = shapes.iter().map(|(at, length)| &bytes[*at..][..*length]).collect();
            prop_assert_eq!(sums(&messages), one_by_one(&messages));
        }
    }
}
