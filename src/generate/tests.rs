//! Generated snapshots, read back by the code of others: iroh-car, serde_ipld_dagcbor, zstd.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;

use blake2b_simd::Params;
use cid::Cid;
use ipld_core::ipld::Ipld;

use super::*;

fn generate(spec: &Spec) -> (Vec<u8>, Summary) {
    let mut out = Cursor::new(Vec::new());
    let summary = write(spec, &mut out).expect("write to memory");
    assert_eq!(out.position(), out.get_ref().len() as u64);
    (out.into_inner(), summary)
}

fn mainnet(size: u64) -> Spec {
    Spec::new(Profile::Mainnet, size)
}

/// Roots and blocks, as iroh-car reads them.
fn read(car: &[u8]) -> (Vec<Cid>, Vec<(Cid, Vec<u8>)>) {
    futures::executor::block_on(async {
        let mut reader = iroh_car::CarReader::new(car).await.expect("read the header");
        let roots = reader.header().roots().to_vec();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block().await.expect("read a block") {
            blocks.push(block);
        }
        (roots, blocks)
    })
}

/// The CARv1 inside a generated file.
fn unwrap(file: &[u8], format: Format) -> Vec<u8> {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes")) as usize;
    match format {
        Format::Car => file.to_vec(),
        Format::CarV2 => {
            assert_eq!(file[..11], *b"\x0a\xa1\x67version\x02");
            assert_eq!((number(27) + number(35), number(43)), (file.len(), 0), "data to the end, no index");
            file[number(27)..].to_vec()
        }
        Format::CarZst | Format::ForestCarZst => zstd::decode_all(file).expect("decode the frames"),
    }
}

#[test]
fn threads_do_not_change_the_bytes() {
    for format in Format::ALL {
        let spec = mainnet(9 << 20).seed(3).duplicates(7).expect("7 %").format(format);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("start threads");
            pool.install(|| generate(&spec))
        };
        assert!(with(2) == with(1), "{format:?}");
    }
}

#[test]
fn pipe_and_file_get_equal_bytes() {
    for format in Format::ALL {
        for size in [5_000, 3 << 20] {
            let spec = mainnet(size).duplicates(4).expect("4 %").format(format);
            let mut piped = Vec::new();
            let summary = write_stream_with(&spec, &mut piped, &Progress::new(&Silent)).expect("write to memory");
            assert!((piped, summary) == generate(&spec), "{format:?}, {size} bytes");
        }
    }
}

#[test]
fn seed_profile_and_size_change_blocks() {
    let digests = |spec: Spec| -> HashSet<Cid> { read(&generate(&spec).0).1.into_iter().map(|(cid, _)| cid).collect() };
    let base = digests(mainnet(500_000));
    assert!(base.is_disjoint(&digests(mainnet(500_000).seed(1))));
    assert_ne!(base, digests(Spec::new(Profile::Small, 500_000)));
    assert_ne!(base, digests(mainnet(510_000)));
}

#[test]
fn snapshot_starts_at_the_file_position() {
    let mut out = Cursor::new(b"before".to_vec());
    out.set_position(6);
    write(&mainnet(5_000), &mut out).expect("write to memory");
    let (alone, _) = generate(&mainnet(5_000));
    assert_eq!(out.into_inner(), [b"before".as_slice(), &alone].concat());
}

#[test]
fn the_size_is_what_was_asked_for() {
    for profile in Profile::ALL {
        for duplicates in [0, 5, 50] {
            for size in [6_000u64, 20_000, 100_000, 1_000_000, 1_600_000, 10_000_000] {
                for seed in 0..if size < 1 << 20 { 4 } else { 1 } {
                    let spec = Spec::new(profile, size).seed(seed).duplicates(duplicates).expect("a percentage");
                    let (car, summary) = generate(&spec);
                    assert_eq!(summary.bytes, car.len() as u64);
                    assert!(summary.bytes.abs_diff(size) * 100 <= size, "{spec:?} gave {}", summary.bytes);
                }
            }
        }
    }
}

#[test]
fn smallest_snapshot_has_leaf_and_header() {
    for size in [0, 1, 300] {
        let (car, summary) = generate(&mainnet(size));
        let (roots, blocks) = read(&car);
        assert_eq!((blocks.len(), roots.len()), (2, 1));
        assert_eq!(roots, summary.roots);
        assert!(car.len() < 900, "{} bytes", car.len());
    }
}

#[test]
fn headers_have_the_fields_of_filecoins() {
    let (car, summary) = generate(&mainnet(5 << 20));
    let (roots, blocks) = read(&car);
    let headers: Vec<_> = blocks
        .iter()
        .filter_map(|(cid, body)| Some((cid, crate::read::header::chain_header(body)?)))
        .map(|(cid, header)| (roots.contains(cid), header.parents, header.height))
        .collect();
    assert_eq!(
        headers,
        [(false, 0, 0), (false, 1, 1), (false, 1, 2), (false, 1, 3), (true, 1, 4), (true, 1, 4), (true, 1, 4)]
    );
    assert_eq!(summary.roots.len(), 3);
}

#[test]
fn blocks_match_hashes_and_counts() {
    for format in Format::ALL {
        let spec = mainnet(6 << 20).seed(9).duplicates(10).expect("10 %").format(format);
        let (file, summary) = generate(&spec);
        let car = unwrap(&file, format);
        let (roots, blocks) = read(&car);
        assert_eq!(summary.bytes, file.len() as u64);
        assert_eq!(summary.car_bytes, car.len() as u64);
        assert_eq!(summary.roots, roots);
        assert_eq!(summary.blocks, blocks.len() as u64);
        assert_eq!(summary.payload_bytes, blocks.iter().map(|(_, body)| body.len() as u64).sum::<u64>());
        for (cid, body) in &blocks {
            assert_eq!((cid.version(), cid.hash().code()), (cid::Version::V1, 0xb220));
            assert_eq!(cid.hash().digest(), Params::new().hash_length(32).hash(body).as_bytes());
        }
        let distinct: HashSet<Cid> = blocks.iter().map(|(cid, _)| *cid).collect();
        assert_eq!(summary.duplicates, (blocks.len() - distinct.len()) as u64);
        let percent = summary.duplicates as f64 * 100.0 / summary.blocks as f64;
        assert!((9.5..10.5).contains(&percent), "{percent} % duplicates");
    }
}

#[test]
fn duplicates_lie_near_and_far() {
    let (car, _) = generate(&mainnet(30 << 20).duplicates(10).expect("10 %"));
    let mut seen = HashMap::new();
    let (mut near, mut far) = (0, 0);
    for (n, (cid, _)) in read(&car).1.into_iter().enumerate() {
        match seen.insert(cid, n) {
            Some(before) if n - before < 2000 => near += 1,
            Some(_) => far += 1,
            None => {}
        }
    }
    assert!(near > 800 && far > 800, "{near} near, {far} far");
}

#[test]
fn blocks_are_reached_and_follow_children() {
    for (profile, size) in [(Profile::Mainnet, 0), (Profile::Small, 9_000), (Profile::Mainnet, 10 << 20)] {
        let spec = Spec::new(profile, size).seed(5).duplicates(3).expect("3 %");
        let (roots, blocks) = read(&generate(&spec).0);
        let mut seen: HashMap<Cid, Vec<Cid>> = HashMap::new();
        for (cid, body) in blocks {
            let mut links = Vec::new();
            if cid.codec() == 0x71 {
                let ipld: Ipld = serde_ipld_dagcbor::from_slice(&body).expect("decode a block");
                assert_eq!(serde_ipld_dagcbor::to_vec(&ipld).expect("encode it again"), body, "shortest form");
                ipld.references(&mut links);
            }
            assert!(links.iter().all(|link| seen.contains_key(link)), "{cid} links ahead");
            seen.insert(cid, links);
        }
        let mut todo = roots;
        let mut reached: HashSet<Cid> = todo.iter().copied().collect();
        while let Some(cid) = todo.pop() {
            todo.extend(seen[&cid].iter().filter(|link| reached.insert(**link)));
        }
        assert_eq!(reached.len(), seen.len(), "{spec:?}");
    }
}

#[test]
fn mainnet_snapshot_has_few_large_blocks() {
    let (_, blocks) = read(&generate(&mainnet(100 << 20).seed(2)).0);
    let share = |size: usize| blocks.iter().filter(|(_, body)| body.len() <= size).count() as f64 / blocks.len() as f64;
    for (size, expected, tolerance) in [(256, 0.057, 0.004), (1024, 0.36, 0.01), (2048, 0.9986, 0.0006)] {
        assert!((share(size) - expected).abs() < tolerance, "<= {size} B: {}", share(size));
    }
    let mean = blocks.iter().map(|(_, body)| body.len()).sum::<usize>() / blocks.len();
    assert!((1000..1030).contains(&mean), "mean {mean}");
    let raw = blocks.iter().filter(|(cid, _)| cid.codec() == 0x55).count();
    assert!(raw > 100 && raw < blocks.len() / 100, "{raw} raw blocks");
    let large: Vec<_> = blocks.iter().filter(|(_, body)| body.len() > 65_536).collect();
    assert!((1..4).contains(&large.len()), "{} large blocks", large.len());
    assert!(large.iter().all(|(cid, body)| cid.codec() == 0x55 && body.len() < 1 << 20));
}

#[test]
fn compression_about_halves_a_snapshot() {
    for profile in Profile::ALL {
        let (car, _) = generate(&Spec::new(profile, 6 << 20));
        let share = |packed: usize| packed as f64 / car.len() as f64;
        let zstd = share(zstd::encode_all(car.as_slice(), 3).expect("compress").len());
        let lz4 = share(lz4_flex::block::compress(&car).len());
        let forest = share(generate(&Spec::new(profile, 6 << 20).format(Format::ForestCarZst)).0.len());
        for (what, share) in [("zstd -3", zstd), ("lz4", lz4), ("forest.car.zst", forest)] {
            assert!((0.4..0.65).contains(&share), "{profile:?}: {what} leaves {share:.3}");
        }
    }
}

#[test]
fn forest_index_finds_every_block() {
    let spec = mainnet(5 << 20).seed(4).duplicates(5).expect("5 %").format(Format::ForestCarZst);
    let (file, summary) = generate(&spec);
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(file[file.len() - 16..file.len() - 8], *b"\x50\x2a\x4d\x18\x08\0\0\0");
    let table = word(file.len() - 8) as usize;
    assert_eq!(file[table - 8..table - 4], *b"\x50\x2a\x4d\x18");
    assert_eq!((word(table), word(table + 24) > summary.blocks), (0xdead_bef0, true));

    let mut frames: HashMap<u64, HashMap<Cid, Vec<u8>>> = HashMap::new();
    let mut largest = 0;
    let mut offset = 0;
    while offset < table - 8 {
        let len = zstd::zstd_safe::find_frame_compressed_size(&file[offset..]).expect("a whole frame");
        let content = zstd::decode_all(&file[offset..offset + len]).expect("decode a frame");
        if offset > 0 {
            largest = largest.max(len);
            let alone = [envelope::car_header(&[cbor::BlockName::BLANK.cid()]), content].concat();
            frames.insert(offset as u64, read(&alone).1.into_iter().collect());
        }
        offset += len;
    }
    let (_, blocks) = read(&unwrap(&file, Format::ForestCarZst));
    for (cid, body) in blocks {
        let digest = cid.hash().digest().as_chunks::<8>().0;
        let hash = digest.iter().fold(cid.codec() ^ 0xb220, |hash, word| hash ^ u64::from_le_bytes(*word)) - 1;
        let mut at = table + 32 + 16 * ((u128::from(hash) * u128::from(word(table + 24))) >> 64) as usize;
        while word(at) != hash {
            assert_ne!(word(at), u64::MAX, "{cid} is not in the index");
            at += 16;
        }
        assert_eq!(frames[&word(at + 8)].get(&cid), Some(&body), "{cid} is not in the frame the index names");
    }
    assert!(frames.len() > 200 && largest < 700_000, "{} frames, the largest has {largest} bytes", frames.len());
}

#[test]
fn output_error_is_returned() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = write_stream_with(&mainnet(30 << 20), &mut Full(12 << 20), &Progress::new(&Silent))
        .expect_err("there is no room");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn too_many_duplicates_are_refused() {
    let error = mainnet(0).duplicates(91).expect_err("91 is too much");
    assert_eq!(error.to_string(), "91 % of the sections cannot be duplicates");
    assert_eq!(error.hint(), "give a percentage up to 90");
}

#[test]
fn snapshot_of_a_spec_never_changes() {
    // Benchmarks are compared across versions: a change of these lines changes every generated snapshot.
    for (spec, blocks, root) in [
        (mainnet(100 << 10).seed(1), 95, "bafy2bzacea224fnvdwzrt7byl4o7gp6tjecpu7ar6vryxgmuq3jdg7zgv2dao"),
        (
            Spec::new(Profile::Small, 3 << 20).duplicates(5).expect("5 %"),
            6032,
            "bafy2bzacec74lnnivhxyml4na4xyqftko7engsll4igl3a5fvfhn423nufcu2",
        ),
    ] {
        let (_, summary) = generate(&spec);
        assert_eq!((summary.blocks, summary.roots[0].to_string().as_str()), (blocks, root), "{spec:?}");
    }
}
