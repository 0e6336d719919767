//! Files, pipes, readers that fail or end, and threads.

use super::*;

#[test]
fn plain_files_stay_files_others_stream() {
    let folder = tempfile::tempdir().unwrap();
    let data = sample(300_000);
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let input = open(&write("plain.zst", &data), &options()).unwrap();
    assert!(matches!(input.body, Body::File(_)), "the name does not matter");
    assert_eq!((input.size, input.compression), (Some(300_000), Compression::None));
    assert!(read_all(input, 1000).unwrap() == data);

    for compression in ALL {
        let packed = compress(compression, &data);
        let input = open(&write("packed.car", &packed), &options()).unwrap();
        assert_eq!((input.size, input.compression, input.blocks), (Some(packed.len() as u64), compression, None));
        let Body::Stream(mut stream) = input.body else { panic!("{compression} is a stream") };
        let mut read = vec![0; data.len() + 1];
        assert_eq!(stream.fill(&mut read).unwrap(), data.len());
        assert_eq!(stream.consumed(), packed.len() as u64);
        assert!(read[..data.len()] == data);
    }

    let (from, mut to) = std::io::pipe().unwrap();
    let packed = compress(Compression::Zstd, &data);
    let writer = std::thread::spawn(move || to.write_all(&packed));
    let input = from_reader("-", Box::new(from), &options()).unwrap();
    assert_eq!((input.size, input.compression), (None, Compression::Zstd));
    assert!(read_all(input, 1000).unwrap() == data);
    writer.join().unwrap().unwrap();

    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (path, bytes) = (fifo.clone(), data.clone());
    let writer = std::thread::spawn(move || std::fs::write(path, bytes));
    let input = open(&fifo, &options()).unwrap();
    assert!(matches!(input.body, Body::Stream(_)));
    assert!(read_all(input, 1000).unwrap() == data);
    writer.join().unwrap().unwrap();
}

/// The system's error of an unreadable input.
fn system_error(error: &Error) -> (std::io::ErrorKind, String) {
    let Error::Io { action: "read", source, .. } = error else { panic!("{error:?}") };
    assert_eq!(error.exit(), crate::Exit::BadInput);
    (source.kind(), source.to_string())
}

#[test]
fn unreadable_paths_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let text = |path: &Path| problem(&open(path, &options()).unwrap_err()).1;
    assert_eq!(text(folder.path()), "it is a directory");
    let absent = open(&folder.path().join("absent"), &options()).unwrap_err();
    assert_eq!(system_error(&absent), (std::io::ErrorKind::NotFound, "there is no such file".into()));
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert_eq!(text(&empty), "the file is empty");
    assert_eq!(text(Path::new("/dev/null")), "the file is empty");

    // Root may read everything, so the system's refusal is made up.
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let denied = open::input_error(&empty, "open", denied);
    assert_eq!(system_error(&denied), (std::io::ErrorKind::PermissionDenied, "no permission to read it".into()));
}

#[test]
fn failing_reader_is_an_io_error() {
    struct Failing(std::io::Cursor<Vec<u8>>);
    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(std::io::Error::other("the disk is on fire")),
                count => Ok(count),
            }
        }
    }
    for compression in [Compression::None, Compression::Zstd, Compression::Xz, Compression::Gzip, Compression::Lz4] {
        let mut packed = compress(compression, &sample(500_000));
        packed.truncate(packed.len() / 2);
        let reader = Failing(std::io::Cursor::new(packed));
        let result = from_reader("test", Box::new(reader), &options()).and_then(|input| read_all(input, 1000));
        let error = result.expect_err("it fails");
        assert!(matches!(error, Error::Io { action: "read", .. }), "{compression}: {error:?}");
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("on fire"), "{error:?}");
    }
}

/// Frames that end in the middle of a piece are unpacked beside each other as well, and places to go on at.
#[test]
fn large_frames_are_separate_jobs() {
    let frame = sample(1_000_000);
    let input = from_bytes(&compress(Compression::Zstd, &frame).repeat(5), usize::MAX, &options()).unwrap();
    let Body::Stream(mut stream) = input.body else { panic!("a stream") };
    assert_eq!(stream.fill(&mut vec![0; 5_000_000]).unwrap(), 5_000_000);
    assert_eq!(stream.restart(u64::MAX).map(|restart| restart.unpacked), Some(4_000_000));
}

#[test]
fn head_reads_few_frames() {
    struct Counted(std::io::Cursor<Vec<u8>>, Arc<AtomicU64>);
    impl Read for Counted {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.read(into)?;
            self.1.fetch_add(count as u64, Ordering::Relaxed);
            Ok(count)
        }
    }
    let frames = compress(Compression::Zstd, &sample(300_000)).repeat(50);
    let len = frames.len();
    let read = Arc::new(AtomicU64::new(0));
    let reader = Counted(std::io::Cursor::new(frames), read.clone());
    let how = InputOptions { extent: Extent::Head, ..InputOptions::new(4, 256 << 20) };
    let input = from_reader("frames", Box::new(reader), &how).unwrap();
    let Body::Stream(mut stream) = input.body else { panic!("a stream") };
    stream.fill(&mut [0; 1000]).unwrap();
    // What is read in the time that a slow consumer takes.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let read = read.load(Ordering::Relaxed);
    assert!(read < 1 << 20, "{read} bytes of {len}");
}

#[test]
fn threads_end_without_a_consumer() {
    struct Endless(Arc<AtomicBool>, Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let from = &self.1[self.2..];
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            self.2 = (self.2 + count) % self.1.len();
            Ok(count)
        }
    }
    impl Drop for Endless {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    for compression in [Compression::None, Compression::Zstd, Compression::Xz, Compression::Gzip, Compression::Lz4] {
        let dropped = Arc::new(AtomicBool::new(false));
        let reader = Endless(dropped.clone(), compress(compression, &sample(400_000)), 0);
        let input = from_reader("endless", Box::new(reader), &options()).unwrap();
        let Body::Stream(mut stream) = input.body else { panic!("a stream") };
        stream.fill(&mut [0; 1000]).unwrap();
        assert!(!dropped.load(Ordering::Acquire));
        drop(stream);
        let patience = std::time::Instant::now();
        while !dropped.load(Ordering::Acquire) {
            assert!(patience.elapsed().as_secs() < 20, "{compression}: the reader was not let go");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[test]
fn bad_forest_tail_reads_as_zstd() {
    let bytes = std::fs::read(fixture("chain.forest.car.zst")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let reopened = |bytes: &[u8]| {
        let path = folder.path().join("snapshot");
        std::fs::write(&path, bytes).unwrap();
        open(&path, &options()).and_then(|input| Ok((input.compression, input.blocks, read_all(input, 10_000)?)))
    };
    let good = reopened(&bytes).unwrap();
    assert_eq!((good.0, good.1), (Compression::ForestZstd, Some(BLOCKS)));
    let mut bad = bytes.clone();
    let at = bad.len() - 8;
    bad[at] ^= 1;
    assert!(reopened(&bad).unwrap() == (Compression::Zstd, None, good.2));
    // Cut anywhere behind the frames it is a cut skippable frame, not a shorter snapshot.
    let (_, text) = problem(&reopened(&bytes[..bytes.len() - 1]).unwrap_err());
    assert_eq!(text, "the zstd data ends in the middle of a frame");
}

#[test]
fn fixtures_decompress_to_the_same_bytes() {
    let plain = std::fs::read(fixture("chain.car")).unwrap();
    for (name, compression, blocks) in [
        ("chain.car", Compression::None, None),
        ("chain.car.zst", Compression::Zstd, None),
        ("chain.car.gz", Compression::Gzip, None),
        ("chain.car.xz", Compression::Xz, None),
        ("chain.car.lz4", Compression::Lz4, None),
        ("chain.forest.car.zst", Compression::ForestZstd, Some(BLOCKS)),
    ] {
        let path = fixture(name);
        for threads in [1, 4] {
            let input = open(&path, &InputOptions { threads, ..options() }).unwrap();
            assert_eq!((input.compression, input.blocks), (compression, blocks), "{name}");
            assert_eq!(input.size, Some(std::fs::metadata(&path).unwrap().len()));
            assert!(read_all(input, 77_777).unwrap() == plain, "{name}");
        }
        let piped = from_reader("-", Box::new(std::fs::File::open(&path).unwrap()), &options()).unwrap();
        assert_eq!(piped.blocks, None, "a pipe has no end to look at");
        assert!(read_all(piped, 1 << 20).unwrap() == plain, "{name} from a pipe");
    }
}

#[test]
fn shrinking_file_is_truncated() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&compress(Compression::Zstd, &sample(8 << 20))).unwrap();
    let input = open(file.path(), &options()).unwrap();
    file.as_file().set_len(1000).unwrap();
    let (_, text) = problem(&read_all(input, 1 << 20).unwrap_err());
    assert_eq!(text, "the zstd data ends in the middle of a frame");
}

#[test]
fn tiny_memory_still_decompresses() {
    let data = sample(1 << 20);
    for compression in [Compression::Gzip, Compression::Lz4, Compression::None] {
        let input = from_bytes(&compress(compression, &data), 1 << 20, &InputOptions::new(1, 0)).unwrap();
        assert!(read_all(input, 1 << 20).unwrap() == data, "{compression}");
    }
}
