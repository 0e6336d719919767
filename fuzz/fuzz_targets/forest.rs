//! Reads any bytes as the tail of a Forest snapshot. All found offsets are within the file.
#![no_main]

use bedload::testing::source::forest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // As it is, and with a footer that points somewhere into it, which the fuzzer would rarely hit.
    check(data);
    if let Some((at, rest)) = data.split_first_chunk::<2>() {
        let index = u64::from(u16::from_le_bytes(*at));
        check(&[rest, &[0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0], &index.to_le_bytes()].concat());
    }
    let _ = forest::buckets(data);
});

fn check(data: &[u8]) {
    if let Some(tail) = forest::find_in(data) {
        assert!(tail.frames_end < data.len() as u64);
        assert!(tail.blocks.unwrap_or_default() <= data.len() as u64 / 16);
    }
}
