//! Any bytes as a wrapped snapshot: never a panic, never more output than allowed here is waited for; and where our
//! frame scanner finds the end of a zstd frame, libzstd finds the same.
#![no_main]

use bedload::source::input::{Body, InputOptions, from_reader, zstd_frame};
use libfuzzer_sys::fuzz_target;

/// Frames of a few bytes can unpack to gigabytes.
const ENOUGH: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    if let Ok(len) = zstd_frame::frame_len(data) {
        assert!(len <= data.len());
        if let Ok(theirs) = zstd::zstd_safe::find_frame_compressed_size(data) {
            assert_eq!(len, theirs);
        }
    }
    let reader = std::io::Cursor::new(data.to_vec());
    let options = InputOptions { threads: 2, memory: 16 << 20 };
    let Ok(input) = from_reader("fuzz", Box::new(reader), &options) else { return };
    let Body::Stream(mut stream) = input.body else { unreachable!("a reader has no file") };
    let (mut piece, mut total) = (vec![0; 64 << 10], 0);
    while total < ENOUGH {
        match stream.fill(&mut piece) {
            Ok(count) if count < piece.len() => {
                assert_eq!(stream.consumed(), data.len() as u64, "a clean end is the end of the input");
                return;
            }
            Ok(count) => total += count,
            Err(error) => {
                assert!(!error.hint().is_empty());
                assert!(stream.fill(&mut piece).is_err(), "an error is for good");
                return;
            }
        }
    }
});
