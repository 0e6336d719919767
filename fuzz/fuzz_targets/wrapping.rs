//! Decompresses any bytes as a snapshot, up to a limit, without a panic. Our frame scanner and libzstd find the same end of a
//! zstd frame.
#![no_main]

use std::io::{Read, Write};

use bedload::testing::source::input::{Body, InputOptions, from_reader, zstd_frame};
use libfuzzer_sys::fuzz_target;

/// Frames of a few bytes can unpack to gigabytes.
const ENOUGH: usize = 4 << 20;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&wrapped()), |data: &[u8]| {
    if let Ok(len) = zstd_frame::frame_len(data) {
        assert!(len <= data.len());
        if let Ok(theirs) = zstd::zstd_safe::find_frame_compressed_size(data) {
            assert_eq!(len, theirs);
        }
    }
    let reader = std::io::Cursor::new(data.to_vec());
    let options = InputOptions { threads: 2, memory: 16 << 20, ..InputOptions::default() };
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
                assert!(!error.to_string().is_empty());
                assert!(stream.fill(&mut piece).is_err(), "an error is for good");
                return;
            }
        }
    }
});

/// Small CARs in every compression, whole and in several frames.
fn wrapped() -> Vec<Vec<u8>> {
    let zstd = |bytes: &[u8]| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.include_checksum(true).expect("a checksum");
        encoder.write_all(bytes).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let read = |mut reader: Box<dyn Read>| {
        let mut packed = Vec::new();
        reader.read_to_end(&mut packed).expect("from memory");
        packed
    };
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let mut wrapped = Vec::new();
    for car in seeds::cars() {
        let (front, back) = car.split_at(car.len() / 2);
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&car).expect("into memory");
        wrapped.extend([
            zstd(&car),
            [&skippable[..], &zstd(front), &skippable, &zstd(back)].concat(),
            read(Box::new(flate2::read::GzEncoder::new(
                std::io::Cursor::new(car.clone()),
                flate2::Compression::fast(),
            ))),
            read(Box::new(liblzma::read::XzEncoder::new(std::io::Cursor::new(car.clone()), 1))),
            lz4.finish().expect("into memory"),
        ]);
    }
    wrapped
}
