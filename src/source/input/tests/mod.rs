//! The behaviour of every compression, from the outside.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::error::{Error, Exit};

mod formats;
mod inputs;

const ALL: [Compression; 4] = [Compression::Zstd, Compression::Xz, Compression::Gzip, Compression::Lz4];

fn options() -> InputOptions {
    InputOptions::new(3, 64 << 20)
}

/// Bytes that pack a little, as blocks do.
fn sample(len: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let word = (state >> 40) as u32;
        bytes.extend(format!("{:06x}", word & 0xfff).bytes().chain(word.to_le_bytes()));
    }
    bytes.truncate(len);
    bytes
}

fn zstd_with(data: &[u8], set: impl Fn(&mut zstd::Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    set(&mut encoder);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn compress(compression: Compression, data: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Zstd | Compression::ForestZstd => zstd_with(data, |_| {}),
        Compression::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Lz4 => {
            use lz4_flex::frame::{FrameEncoder, FrameInfo};
            let info = FrameInfo::new().content_checksum(true).block_checksums(true);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::None => data.to_vec(),
    }
}

fn skippable(content: &[u8]) -> Vec<u8> {
    [&[0x5a, 0x2a, 0x4d, 0x18], &(content.len() as u32).to_le_bytes()[..], content].concat()
}

/// A reader that gives a few bytes at a time, as pipes do.
struct Drip {
    bytes: std::io::Cursor<Vec<u8>>,
    step: usize,
}

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into.len().min(self.step);
        self.bytes.read(&mut into[..len])
    }
}

fn from_bytes(bytes: &[u8], step: usize, options: &InputOptions) -> Result<Input> {
    from_reader("test", Box::new(Drip { bytes: std::io::Cursor::new(bytes.to_vec()), step }), options)
}

/// Everything in it, asked for in pieces of `ask` bytes.
fn read_all(input: Input, ask: usize) -> Result<Vec<u8>> {
    match input.body {
        Body::File(mut file) => {
            let mut all = Vec::new();
            file.read_to_end(&mut all).map_err(Error::io("read", input.name))?;
            Ok(all)
        }
        Body::Stream(mut stream) => {
            let (mut all, mut piece, mut consumed) = (Vec::new(), vec![0; ask], 0);
            loop {
                let count = match stream.fill(&mut piece) {
                    Ok(count) => count,
                    Err(error) => {
                        let again = stream.fill(&mut piece).expect_err("a stream that failed fails again");
                        assert!(again.to_string().contains("after an error"), "{again}");
                        return Err(error);
                    }
                };
                all.extend_from_slice(&piece[..count]);
                assert!(stream.consumed() >= consumed, "consumed went back");
                consumed = stream.consumed();
                if count < ask {
                    assert_eq!(stream.fill(&mut piece).unwrap(), 0, "the end stays the end");
                    return Ok(all);
                }
            }
        }
    }
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>> {
    read_all(from_bytes(bytes, 4096, &options())?, 100_000)
}

/// The offset and the problem of a bad input, as text.
fn problem(error: &Error) -> (Option<u64>, String) {
    assert_eq!(error.exit(), Exit::BadInput, "{error:?}");
    assert!(!error.hint().is_empty());
    match error {
        Error::BadInput { offset, problem, .. } if problem.downcast_ref::<CompressionProblem>().is_some() => {
            (*offset, problem.to_string())
        }
        other => panic!("{other:?}"),
    }
}

fn rejection(bytes: &[u8]) -> (Option<u64>, String) {
    problem(&decompressed(bytes).expect_err("it must be refused"))
}

/// Number of blocks in the index of Forest's form.
const BLOCKS: u64 = 57;

/// A snapshot of `fixtures/`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/car").join(name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn decompression_returns_the_original_bytes(
        len in 0usize..700_000, cuts in 1usize..5, step in 1usize..50_000, ask in 1usize..300_000, threads in 1usize..5,
    ) {
        let data = sample(len);
        let step = if len > 100_000 { step.max(500) } else { step };
        let ask = if len > 100_000 { ask.max(500) } else { ask };
        for compression in ALL {
            let packed: Vec<u8> =
                data.chunks(len / cuts + 1).flat_map(|part| compress(compression, part)).collect();
            let packed = if packed.is_empty() { compress(compression, b"") } else { packed };
            let input = from_bytes(&packed, step, &InputOptions { threads, ..options() }).unwrap();
            prop_assert_eq!(input.compression, compression);
            prop_assert_eq!(input.size, None);
            prop_assert!(read_all(input, ask).unwrap() == data, "{compression} differs");
        }
        if len > 0 {
            let plain = from_bytes(&data, step, &options()).unwrap();
            prop_assert_eq!(plain.compression, Compression::None);
            prop_assert!(read_all(plain, ask).unwrap() == data, "plain differs");
        }
    }

    /// Many small and large frames, skippable ones between, unpacked beside each other: the order stays.
    #[test]
    fn parallel_frames_keep_their_order(
        parts in proptest::collection::vec((0usize..200_000, any::<bool>()), 1..40), threads in 1usize..6,
    ) {
        let data = sample(parts.iter().map(|(len, _)| len).sum());
        let (mut packed, mut rest) = (Vec::new(), &data[..]);
        for (len, skip) in parts {
            let (part, after) = rest.split_at(len);
            rest = after;
            packed.extend(zstd_with(part, |_| {}));
            if skip {
                packed.extend(skippable(b"never mind"));
            }
        }
        let input = from_bytes(&packed, usize::MAX, &InputOptions { threads, ..options() }).unwrap();
        prop_assert!(read_all(input, 65_536).unwrap() == data);
    }

    /// With a checksum over the content, a flipped bit is never read as valid data.
    #[test]
    fn flipped_bit_is_an_error(at: proptest::sample::Index, bit in 0u8..8) {
        let data = sample(3000);
        for compression in ALL {
            let mut packed = compress(compression, &data);
            let at = at.index(packed.len());
            packed[at] ^= 1 << bit;
            match decompressed(&packed) {
                Err(error) => { problem(&error); }
                // Header bits that carry no data: a time stamp, a name flag, a larger window; or no magic any more.
                Ok(read) => prop_assert!(read == data || read == packed, "{compression}, byte {at}"),
            }
        }
    }

    #[test]
    fn noise_after_a_magic_does_not_panic(
        noise in proptest::collection::vec(any::<u8>(), 0..300), which in 0usize..5,
    ) {
        let start: [&[u8]; 5] = [&detect::ZSTD, &detect::XZ, &detect::GZIP, &detect::LZ4, &[0x50, 0x2a, 0x4d, 0x18]];
        if let Err(error) = decompressed(&[start[which], &noise].concat()) {
            problem(&error);
        }
    }
}

#[test]
fn cut_at_every_byte_is_an_error() {
    let data = sample(300);
    for compression in ALL {
        let one = compress(compression, &data);
        let two = [one.clone(), one.clone()].concat();
        for cut in 0..two.len() {
            let result = decompressed(&two[..cut]);
            if cut == one.len() {
                assert_eq!(result.unwrap(), data, "{compression}: a whole frame is a whole input");
                continue;
            }
            let (offset, text) = problem(&result.expect_err("cut"));
            if cut == 0 {
                assert_eq!(text, "the file is empty");
                continue;
            }
            assert_eq!(text, format!("the {compression} data ends in the middle of a frame"), "cut at {cut}");
            assert_eq!(offset, Some(cut as u64), "{compression}");
        }
    }
}

#[test]
fn cut_between_blocks_is_an_error() {
    let data = sample(2 << 20);
    for compression in ALL {
        let packed = compress(compression, &data);
        for cut in (0..16).map(|part| packed.len() / 16 * part + 1) {
            let (offset, text) = rejection(&packed[..cut]);
            assert_eq!(text, format!("the {compression} data ends in the middle of a frame"), "cut at {cut}");
            assert_eq!(offset, Some(cut as u64), "{compression}");
        }
    }
}

#[test]
fn trailing_garbage_is_refused_with_its_place() {
    for compression in ALL {
        let packed = compress(compression, &sample(100_000));
        // Zeros behind gzip are padding: see below.
        let zeros: &[&[u8]] = if compression == Compression::Gzip { &[] } else { &[&[0; 5], &[0; 1]] };
        for garbage in [&b"garbage behind the end"[..], b"x"].iter().chain(zeros) {
            let (offset, text) = rejection(&[&packed[..], *garbage].concat());
            assert_eq!(text, format!("what follows the last {compression} frame is not {compression}"));
            assert_eq!(offset, Some(packed.len() as u64), "{compression}");
        }
    }
    for (compression, other) in [(Compression::Zstd, Compression::Lz4), (Compression::Lz4, Compression::Zstd)] {
        let (_, text) = rejection(&[compress(compression, b"one"), compress(other, b"two")].concat());
        assert_eq!(text, format!("what follows the last {compression} frame is not {compression}"));
    }
}

#[test]
fn wrong_checksum_names_the_frame() {
    let data = sample(1000);
    for (compression, back, detail) in [
        (Compression::Zstd, 1, "checksum"),
        (Compression::Gzip, 5, "checksum"),
        (Compression::Lz4, 1, "its content does not match its checksum"),
        (Compression::Xz, 40, "the data or its checksum is wrong"),
    ] {
        let good = compress(compression, &data);
        let mut bad = good.clone();
        let at = bad.len() - back;
        bad[at] ^= 1;
        let (offset, text) = rejection(&[&good[..], &bad, &good].concat());
        assert_eq!(offset, Some(good.len() as u64), "{compression}");
        assert!(text.starts_with(&format!("the {compression} frame is damaged: ")) && text.contains(detail), "{text}");
    }
}

#[test]
fn bytes_before_damage_are_delivered() {
    let data = sample(3 << 20);
    let good = zstd_with(&data, |_| {});
    let mut bad = good.clone();
    let at = bad.len() - 1;
    bad[at] ^= 1;
    let input = from_bytes(&[good, bad].concat(), 1 << 20, &options()).unwrap();
    let Body::Stream(mut stream) = input.body else { panic!("a stream") };
    let mut read = vec![0; data.len()];
    assert_eq!(stream.fill(&mut read).unwrap(), data.len());
    assert!(read == data);
}

#[test]
fn skippable_and_empty_frames_hold_nothing() {
    let data = sample(70_000);
    for compression in [Compression::Zstd, Compression::Lz4] {
        let (frame, empty, skip) =
            (compress(compression, &data), compress(compression, b""), skippable(&sample(300_000)));
        let parts = [&skip, &skippable(b""), &frame, &empty, &skip, &frame, &skip];
        let packed: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let input = from_bytes(&packed, 10_000, &options()).unwrap();
        assert_eq!(input.compression, compression);
        assert!(read_all(input, 1 << 20).unwrap() == [&data[..], &data].concat());

        let cut = &packed[..packed.len() - 1];
        let (offset, text) = rejection(cut);
        assert_eq!(
            (offset, text),
            (Some(cut.len() as u64), format!("the {compression} data ends in the middle of a frame"))
        );
        assert_eq!(decompressed(&empty).unwrap(), b"");
    }
    assert_eq!(decompressed(&skippable(b"nothing else")).unwrap(), b"");
    let (offset, text) = rejection(&[skippable(b"abc"), b"a CAR it is not".to_vec()].concat());
    assert_eq!((offset, text.as_str()), (Some(11), "what follows the last zstd frame is not zstd"));
}

#[test]
fn double_compression_is_refused() {
    for outer in ALL {
        for inner in ALL {
            let error = decompressed(&compress(outer, &compress(inner, &sample(1000)))).expect_err("twice");
            assert_eq!(problem(&error), (None, format!("inside the {outer} data is {inner} data")));
        }
    }
}
