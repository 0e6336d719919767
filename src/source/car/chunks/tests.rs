//! The chunk reader against a plain model, and against iroh-car where that is right.

use std::io::Write;

use proptest::prelude::*;

use std::path::PathBuf;

use super::*;
use crate::source::car::header::{Begins, begins_header};
use crate::source::car::{CarProblem, NullPadding, Step, next_section};
use crate::source::input::{Body, InputOptions, from_reader};

type Block = (Vec<u8>, Vec<u8>);

fn varint(value: usize) -> Vec<u8> {
    unsigned_varint::encode::usize(value, &mut unsigned_varint::encode::usize_buffer()).to_vec()
}

fn header(roots: &[cid::Cid]) -> Vec<u8> {
    let link = |cid: &cid::Cid| ipld_core::ipld::Ipld::Link(*cid);
    let roots = ipld_core::ipld::Ipld::List(roots.iter().map(link).collect());
    let map = [("roots".to_owned(), roots), ("version".to_owned(), 1.into())];
    let cbor = serde_ipld_dagcbor::to_vec(&ipld_core::ipld::Ipld::Map(map.into())).expect("a header");
    [varint(cbor.len()), cbor].concat()
}

fn car(blocks: &[Block]) -> Vec<u8> {
    let root = cid::Cid::new_v1(0x55, cid::multihash::Multihash::wrap(0, b"root").expect("short"));
    let mut bytes = header(&[root]);
    for (cid, data) in blocks {
        bytes.extend(varint(cid.len() + data.len()));
        bytes.extend(cid);
        bytes.extend(data);
    }
    bytes
}

fn limits(chunk: usize) -> Limits {
    Limits {
        max_block: 1 << 20,
        null_padding: NullPadding::Error,
        fits: 1 << 20,
        budget: 4 << 20,
        chunk,
        records_roots: true,
    }
}

/// How the bytes come.
#[derive(Debug, Clone, Copy)]
enum Way {
    File,
    Mapped,
    Pipe,
    Zstd,
}

fn open(bytes: &[u8], way: Way, limits: Limits) -> Result<(Header, Chunks)> {
    let stream =
        |bytes: Vec<u8>| from_reader("pipe", Box::new(std::io::Cursor::new(bytes)), &InputOptions::new(2, 32 << 20));
    let input = match way {
        Way::File | Way::Mapped => {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("room");
            Input::plain("file", bytes.len() as u64, Body::File(file))
        }
        Way::Pipe => stream(bytes.to_vec())?,
        Way::Zstd => {
            // Frames that end anywhere.
            let pieces = bytes.chunks(bytes.len() / 3 + 1);
            stream(pieces.flat_map(|piece| zstd::encode_all(piece, 1).expect("into memory")).collect())?
        }
    };
    let (header, mut chunks) = Chunks::open(input, limits)?;
    if matches!(way, Way::Mapped) {
        crate::handle_sigbus();
        chunks.map();
    }
    Ok((header, chunks))
}

/// Everything the reader gives: each section's offset, CID and data; and the error it ends with.
fn read(bytes: &[u8], way: Way, limits: Limits) -> (Vec<(u64, Block)>, Option<Error>) {
    let (_, mut chunks) = match open(bytes, way, limits) {
        Ok(opened) => opened,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut found, mut spare, mut index) = (Vec::new(), None, 0);
    loop {
        match chunks.next(spare.take()) {
            Ok(Some(chunk)) => {
                assert_eq!(chunk.index, index);
                index += 1;
                assert_eq!(&bytes[chunk.base as usize..][..chunk.bytes.len()], &chunk.bytes[..]);
                for later in 0..4 {
                    let from = (chunk.base as usize + later * chunk.bytes.len()).min(bytes.len());
                    let ahead = chunk.bytes.ahead(later);
                    assert!(bytes[from..].starts_with(ahead), "{later} chunks later");
                    let expected = if matches!(way, Way::Mapped) { chunk.bytes.len() } else { 0 };
                    assert!(if later == 0 { ahead.len() == expected } else { ahead.len() <= expected });
                }
                let mut end = 0;
                for &start in &chunk.starts {
                    assert_eq!(start as usize, end, "sections lie side by side");
                    match next_section(&chunk.bytes, start as usize, u64::MAX) {
                        Ok(Step::Section(section)) => {
                            let (cid, data) =
                                chunk.bytes[section.cid_start..section.end].split_at(section.cid.len as usize);
                            found.push((chunk.base + u64::from(start), (cid.to_vec(), data.to_vec())));
                            end = section.end;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(end, chunk.bytes.len(), "nothing but whole sections");
                chunk.bytes.check().expect("the file is not cut");
                spare = chunk.bytes.release();
            }
            Ok(None) => return (found, None),
            Err(error) => {
                assert!(matches!(chunks.next(None), Ok(None)), "after an error nothing more is read");
                return (found, Some(error));
            }
        }
    }
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let digest = prop_oneof![Just(32usize), 0usize..64];
    let cid =
        (any::<u64>(), any::<u64>(), digest, any::<u8>(), any::<bool>()).prop_map(|(codec, hash, len, fill, v0)| {
            if v0 {
                return [&[0x12, 0x20][..], &[fill; 32]].concat();
            }
            let multihash = cid::multihash::Multihash::<64>::wrap(hash, &vec![fill; len]).expect("at most 64 bytes");
            cid::Cid::new_v1(codec, multihash).to_bytes()
        });
    let data = (any::<u8>(), prop_oneof![4 => 0usize..300, 1 => 0usize..9000]).prop_map(|(fill, len)| vec![fill; len]);
    prop::collection::vec((cid, data), 0..60)
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::File), Just(Way::Mapped), Just(Way::Pipe), Just(Way::Zstd)]
}

/// The blocks and their offsets, as they were put there.
fn placed(blocks: &[Block]) -> Vec<(u64, Block)> {
    let mut at = car(&[]).len() as u64;
    let mut place = |block: &Block| {
        let here = at;
        let len = block.0.len() + block.1.len();
        at += (varint(len).len() + len) as u64;
        (here, block.clone())
    };
    blocks.iter().map(&mut place).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn chunks_have_every_section_once_in_order(blocks in blocks(), chunk in 1usize..20_000, way in way()) {
        let bytes = car(&blocks);
        let (found, error) = read(&bytes, way, limits(chunk));
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(found, placed(&blocks));
    }

    #[test]
    fn chunks_agree_with_iroh_car(blocks in blocks(), chunk in 1usize..20_000) {
        let bytes = car(&blocks);
        let theirs = futures::executor::block_on(async {
            let mut reader = iroh_car::CarReader::new(&bytes[..]).await.expect("a header");
            let mut blocks = Vec::new();
            while let Some((cid, data)) = reader.next_block().await.expect("a block") {
                blocks.push((cid.to_bytes(), data));
            }
            (reader.header().roots().to_vec(), blocks)
        });
        let (header, _) = open(&bytes, Way::File, limits(chunk)).expect("a header");
        let theirs_roots: Vec<Vec<u8>> = theirs.0.iter().map(cid::Cid::to_bytes).collect();
        prop_assert_eq!(header.roots.iter().map(|root| root.as_bytes().to_vec()).collect::<Vec<_>>(), theirs_roots);
        let (found, _) = read(&bytes, Way::File, limits(chunk));
        prop_assert_eq!(found.into_iter().map(|(_, block)| block).collect::<Vec<_>>(), theirs.1);
    }

    #[test]
    fn carv2_gives_only_its_data(blocks in blocks(), chunk in 1usize..20_000, padding in 0usize..300, index: Vec<u8>, way in way()) {
        let inner = car(&blocks);
        let offset = 51 + padding as u64;
        let end = offset + inner.len() as u64;
        let numbers = [offset, inner.len() as u64, if index.is_empty() { 0 } else { end }].map(u64::to_le_bytes).concat();
        let pragma = b"\x0a\xa1\x67version\x02";
        let bytes = [&pragma[..], &[0; 16], &numbers, &vec![7; padding], &inner, &index].concat();
        let (found, error) = read(&bytes, way, limits(chunk));
        prop_assert!(error.is_none(), "{:?}", error);
        let moved = |(at, block): (u64, Block)| (at + offset, block);
        prop_assert_eq!(found, placed(&blocks).into_iter().map(moved).collect::<Vec<_>>());
    }

    #[test]
    fn cut_gives_earlier_blocks_then_its_place(blocks in blocks(), chunk in 1usize..20_000, cut: prop::sample::Index, way in way()) {
        let bytes = car(&blocks);
        let len = 1 + cut.index(bytes.len());
        let (found, error) = read(&bytes[..len], way, limits(chunk));
        let mut before = placed(&blocks);
        let end_of = |(at, (cid, data)): &(u64, Block)| *at as usize + varint(cid.len() + data.len()).len() + cid.len() + data.len();
        before.retain(|block| end_of(block) <= len);
        let clean = len == before.last().map_or(car(&[]).len(), end_of);
        prop_assert_eq!(found, before);
        match error {
            None => prop_assert!(clean, "a cut at {} went unseen", len),
            Some(Error::BadInput { offset, problem, .. })
                if matches!(problem.downcast_ref(), Some(CarProblem::Truncated { .. })) => {
                prop_assert!(!clean);
                prop_assert_eq!(offset, Some(len as u64));
            }
            Some(other) => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn changed_byte_gives_one_result(
        blocks in blocks(), chunk in 1usize..20_000, at: prop::sample::Index, byte: u8, way in way()
    ) {
        let mut bytes = car(&blocks);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let tell = |error: Option<Error>| match error {
            Some(Error::BadInput { offset, problem, .. }) => Some((offset, problem.to_string())),
            Some(other) => panic!("{other:?}"),
            None => None,
        };
        // The CIDs inside a chunk are read by the worker that takes it, as here: a section that is cut may report a bad
        // CID before the frames do.
        let frames = |way, chunk| {
            let opened = open(&bytes, way, limits(chunk));
            let (_, mut chunks) = match opened {
                Ok(opened) => opened,
                Err(error) => return (Vec::new(), tell(Some(error))),
            };
            let mut starts = Vec::new();
            loop {
                match chunks.next(None) {
                    Ok(Some(chunk)) => {
                        for &start in &chunk.starts {
                            if let Err((problem, at)) = next_section(&chunk.bytes, start as usize, u64::MAX) {
                                return (starts, Some((Some(chunk.base + at as u64), problem.to_string())));
                            }
                            starts.push(chunk.base + u64::from(start));
                        }
                    }
                    Ok(None) => return (starts, None),
                    Err(error) => return (starts, tell(Some(error))),
                }
            }
        };
        prop_assert_eq!(frames(way, chunk), frames(Way::Pipe, 1 << 20));
    }
}

#[test]
fn blocks_before_a_fault_come_first() {
    let block: Block = (vec![1, 0x55, 0, 1, b'x'], b"x".to_vec());
    let good = car(&[block.clone(), block.clone()]);
    for (tail, reason) in [
        (&[0, 0, 0][..], "null padding: a section of length zero"),
        (&[0x80, 0x80, 0x80, 0x80, 0x10], "a block of 4.0 GiB is over the limit of 1.0 MiB"),
        (&[0x80, 0], "a section's length is written with more bytes than it needs"),
        (&[9, 1, 0x55], "the snapshot ends inside a CID"),
        (&[0x80], "the snapshot ends inside a section's length"),
    ] {
        for chunk in [1, 9, 100_000] {
            for way in [Way::File, Way::Mapped, Way::Pipe, Way::Zstd] {
                let (found, error) = read(&[&good, tail].concat(), way, limits(chunk));
                assert_eq!(found.len(), 2, "{reason}");
                let Some(Error::BadInput { problem, .. }) = error else { panic!("{error:?}") };
                assert_eq!(problem.to_string(), reason);
            }
        }
    }
}

/// The numbers of sources that were opened.
type Opened = Arc<parking_lot::Mutex<Vec<usize>>>;

/// Three CARs of different blocks.
fn three(way: Way) -> (Vec<Vec<Block>>, Chunks, Opened) {
    let block = |number: u8, size: usize| {
        let digest = [number; 4];
        (
            cid::Cid::new_v1(0x55, cid::multihash::Multihash::wrap(0, &digest).expect("short")).to_bytes(),
            vec![number; size],
        )
    };
    let blocks = vec![vec![block(1, 300), block(2, 5)], Vec::new(), vec![block(3, 700), block(4, 1)]];
    let cars: Vec<_> = blocks.iter().map(|blocks| car(blocks)).collect();
    let (_, mut chunks) = open(&cars[0], way, limits(64)).expect("a CAR");
    let opened = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&opened);
    let bytes = cars.iter().map(|car| Some(car.len() as u64)).collect();
    let open = move |number: usize| {
        log.lock().push(number);
        from_reader("pipe", Box::new(std::io::Cursor::new(cars[number].clone())), &InputOptions::default())
    };
    let names = ["a", "b", "c"].map(PathBuf::from).into();
    chunks.follow(Following { names, bytes, open: Box::new(open) });
    (blocks, chunks, opened)
}

#[test]
fn sources_open_in_order_with_own_offsets() {
    for way in [Way::File, Way::Mapped, Way::Pipe] {
        let (blocks, mut chunks, opened) = three(way);
        let mut found = vec![Vec::new(); 3];
        while let Some(chunk) = chunks.next(None).expect("valid") {
            assert!(opened.lock().iter().all(|number| *number <= chunk.source as usize), "opened before it is reached");
            let sections = chunk.starts.iter().map(|&start| {
                let Ok(Step::Section(section)) = next_section(&chunk.bytes, start as usize, u64::MAX) else {
                    panic!("no section")
                };
                (chunk.base + u64::from(start), section.body(&chunk.bytes).to_vec())
            });
            found[chunk.source as usize].extend(sections);
        }
        for (blocks, found) in blocks.iter().zip(&found) {
            let mut at = car(&[]).len() as u64;
            for ((cid, data), (place, body)) in blocks.iter().zip(found) {
                assert_eq!((*place, body), (at, &[&cid[..], data].concat()));
                at += (varint(body.len()).len() + body.len()) as u64;
            }
            assert_eq!(blocks.len(), found.len());
        }
        assert_eq!((*opened.lock()).as_slice(), [1, 2]);
        let sizes: u64 = blocks.iter().map(|blocks| car(blocks).len() as u64).sum();
        assert_eq!(chunks.consumed(), sizes);
        assert!(chunks.next(None).expect("nothing more").is_none());
    }
}

#[test]
fn skipped_source_is_not_opened() {
    let (blocks, mut chunks, opened) = three(Way::File);
    chunks.go_to(2).expect("a CAR");
    let chunk = chunks.next(None).expect("valid").expect("a chunk");
    assert_eq!((chunk.source, chunk.base), (2, car(&[]).len() as u64));
    assert_eq!((*opened.lock()).as_slice(), [2]);
    assert!(chunks.consumed() >= blocks[..2].iter().map(|blocks| car(blocks).len() as u64).sum());
}

proptest! {
    #[test]
    fn no_section_begins_as_a_header(blocks in prop::collection::vec(any::<u8>(), 0..40), len in 0usize..300) {
        // What a reader takes for a CID is none that begins as a map does.
        let bytes = [varint(len), blocks].concat();
        if begins_header(&bytes) == Begins::Header {
            let body = &bytes[varint(len).len()..];
            prop_assert!(super::super::read_cid(body).is_err());
        }
        let first = bytes.get(varint(len).len()).copied();
        if first.is_some_and(|first| first >= 0xa0) {
            let cid = super::super::read_cid(&bytes[varint(len).len()..]);
            prop_assert!(!matches!(cid, Ok(Some(_))));
        }
    }
}

#[test]
fn joined_cars_are_read_in_chunks_of_any_size() {
    let block = |number: u8| {
        let digest = [number; 4];
        (
            cid::Cid::new_v1(0x55, cid::multihash::Multihash::wrap(0, &digest).expect("short")).to_bytes(),
            vec![number; 90],
        )
    };
    let parts: Vec<Vec<Block>> = vec![vec![block(1), block(2)], Vec::new(), vec![block(3)]];
    let joined: Vec<u8> = parts.iter().flat_map(|blocks| car(blocks)).collect();
    let second = car(&parts[0]).len() as u64;
    for chunk in [1, 50, 101, 102, 150, 151, 4096] {
        for way in [Way::File, Way::Mapped, Way::Pipe, Way::Zstd] {
            let (_, mut chunks) = open(&joined, way, limits(chunk)).expect("a CAR");
            chunks.accept_concatenated(false);
            let mut values = Vec::new();
            while let Some(chunk) = chunks.next(None).expect("valid") {
                values.extend(chunk.starts.iter().map(|&start| {
                    let Ok(Step::Section(section)) = next_section(&chunk.bytes, start as usize, u64::MAX) else {
                        panic!("no section")
                    };
                    chunk.bytes[section.end - 1]
                }));
            }
            assert_eq!(values, [1, 2, 3], "{way:?} {chunk}");
            assert_eq!(chunks.update_reads()[0].roots.len(), 3);
            let (found, error) = read(&joined, way, limits(chunk));
            let Some(Error::BadInput { offset, .. }) = &error else { panic!("taken: {error:?}") };
            assert_eq!((found.len(), *offset), (2, Some(second)), "{way:?} {chunk}");
        }
    }
}
