//! Properties of single compressions: windows, dictionaries, padding, marks.

use super::*;

#[test]
fn window_over_memory_is_refused() {
    // The frame's window: 128 MiB, in a frame of a few bytes.
    let window = |log: u32| {
        zstd_with(b"some bytes", |encoder| {
            encoder.set_parameter(zstd::stream::raw::CParameter::WindowLog(log)).unwrap();
        })
    };
    let small = zstd_with(b"before it, ", |_| {});
    let packed = [small.clone(), window(27)].concat();
    let tight = InputOptions::new(2, 64 << 20);
    let error = read_all(from_bytes(&packed, 9, &tight).unwrap(), 100).unwrap_err();
    let (offset, text) = problem(&error);
    assert_eq!(offset, Some(small.len() as u64));
    assert!(text.starts_with("unpacking this zstd frame takes 128 MiB of memory, allowed are "), "{text}");
    assert!(error.hint().contains("raise --memory"), "{}", error.hint());

    let ample = InputOptions::new(2, 256 << 20);
    assert_eq!(read_all(from_bytes(&packed, 9, &ample).unwrap(), 100).unwrap(), b"before it, some bytes");
    // Too large to go beside others: then one after the other.
    let mixed = [window(27), small.clone(), window(20), window(27)].concat();
    assert_eq!(
        read_all(from_bytes(&mixed, 9, &ample).unwrap(), 100).unwrap(),
        b"some bytesbefore it, some bytessome bytes"
    );
    let (_, text) = rejection(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 1, 0, 0]);
    assert!(text.contains("supported are up to 2147483648"), "{text}");
}

#[test]
fn xz_over_memory_names_its_need() {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 9);
    encoder.write_all(b"small, but with a dictionary of 64 MiB").unwrap();
    let packed = encoder.finish().unwrap();
    let tight = InputOptions::new(1, 32 << 20);
    let (_, text) = problem(&from_bytes(&packed, 100, &tight).unwrap_err());
    assert!(text.starts_with("unpacking this xz frame takes 128 MiB of memory, allowed are "), "{text}");
}

#[test]
fn xz_padding_is_in_whole_words() {
    let one = compress(Compression::Xz, b"one");
    let padded = [&one[..], &[0; 8], &one, &[0; 4]].concat();
    assert_eq!(decompressed(&padded).unwrap(), b"oneone");
    let (offset, _) = rejection(&[&one[..], &[0; 6], &one].concat());
    assert_eq!(offset, Some(one.len() as u64));
}

/// Returns the output of the program `gzip`, and whether it succeeded. `None` if it is not installed.
fn by_gzip(packed: &[u8]) -> Option<(Vec<u8>, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.gz");
    std::fs::write(&path, packed).unwrap();
    let Ok(done) = std::process::Command::new("gzip").arg("-dc").arg(&path).output() else {
        crate::skipped::skipped("gzip is not installed");
        return None;
    };
    Some((done.stdout, done.status.success()))
}

#[test]
fn gzip_with_trailing_zeros_reads_as_gzip() {
    let data = sample(70_000);
    let one = compress(Compression::Gzip, &data);
    let zeros = |count: usize| vec![0; count];
    let long = zeros(600_000);
    for (padded, times) in [
        ([&one[..], &[0]].concat(), 1),
        ([&one[..], &zeros(511)].concat(), 1),
        ([&one[..], &long].concat(), 1),
        ([&one[..], &one, &zeros(9)].concat(), 2),
    ] {
        for step in [7, 100_000] {
            let input = from_bytes(&padded, step, &options()).unwrap();
            assert!(read_all(input, 30_000).unwrap() == data.repeat(times), "{times} members, {step} bytes at a time");
        }
        if let Some(by_gzip) = by_gzip(&padded) {
            assert!(by_gzip == (data.repeat(times), true), "gzip itself");
        }
    }
    // What gzip warns of is an error here: part of the snapshot may be lost.
    for rest in [&b"garbage"[..], &[0, 0, 7], &[&[0; 4][..], &one].concat(), &[&long[..], &[1]].concat()] {
        let (offset, text) = rejection(&[&one[..], rest].concat());
        assert_eq!((offset, &text[..]), (Some(one.len() as u64), "what follows the last gzip frame is not gzip"));
        if let Some((_, is_content)) = by_gzip(&[&one[..], rest].concat()) {
            assert!(!is_content, "gzip warns, and ends with 2");
        }
    }
}

#[test]
fn lz4_errors_are_in_words() {
    let whole = compress(Compression::Lz4, &sample(300_000));
    for at in (4..whole.len()).step_by(1009).chain([4, 5, 6, 7, 8, 9, whole.len() - 1, whole.len() - 5]) {
        let mut packed = whole.clone();
        packed[at] ^= 0x41;
        let Err(error) = decompressed(&packed) else { continue };
        let (_, text) = problem(&error);
        assert!(!text.contains("Error") && !text.contains('{') && !text.contains("()"), "byte {at}: {text}");
        let words = text.split_once(": ").map_or(&text[..], |(_, words)| words);
        assert!(words.contains(' '), "byte {at}: a name instead of words: {text}");
    }
}

#[test]
fn zstd_dictionary_is_named() {
    let (offset, text) = rejection(&[0x28, 0xb5, 0x2f, 0xfd, 1, 0x50, 77, 1, 0, 0]);
    assert_eq!((offset, text.as_str()), (Some(0), "the zstd frame needs the dictionary 77"));
}

#[test]
fn lz4_without_end_mark_is_truncated() {
    let mut packed = compress(Compression::Lz4, &sample(100));
    // Instead of end mark and checksum a block that unpacks to nothing.
    packed.truncate(packed.len() - 8);
    packed.extend([1, 0, 0, 0, 0]);
    packed.extend(0x9_u32.to_le_bytes());
    decompressed(&packed).expect_err("no end mark");
}
