//! Bad input ends the import with exit code 3, one line that names file, offset and reason, one line that names the
//! next step, and no database; a claimed length moves no memory.

use crate::common::car::*;
use crate::common::crash::{is_long, rounds};
use crate::common::model::{Key, Model};
use crate::common::run::{Place, import, import_pipe};

use super::refusals::*;
use super::{imported, imports};

/// Two million roots made a BEDLOAD.json that no command read.
#[test]
fn header_with_too_many_roots_is_refused() {
    let place = Place::new();
    let roots = vec![identity(0x55, b"").0; 2_000_000];
    let done = import(&place, place.file("roots.car", &car(&roots, &[]))).args(&["--memory", "1GiB"]).run();
    done.refused(3, None, "a header of 2,000,000 roots is too long for the record of an import");
}

#[test]
fn other_files_and_headers_are_refused() {
    let text = "<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n";
    let long_text = text.repeat(10_000);
    let claim = varint(200 << 30);
    let claims = [&claim[..], &header_cbor(&[], 1)].concat();
    let claims_over = "the header claims 214748364800 bytes, the limit is 32.0 MiB";
    let cut = [varint(32 << 20), header_cbor(&[], 1)].concat();
    // Version 2 inside version 2.
    let nested = v2(&v2(&rooted(&blocks()), 0, &[]), 0, &[]);
    let overlong = [&[header_cbor(&[], 1).len() as u8 | 0x80, 0][..], &header_cbor(&[], 1)].concat();
    for (bytes, at, reason) in [
        (&b""[..], 0, "the file is empty"),
        (&zstd(b""), 0, "empty"),
        (text.as_bytes(), 0, "this is not a CAR"),
        (long_text.as_bytes(), 0, "this is not a CAR"),
        (&zstd(text.as_bytes()), 0, "this is not a CAR"),
        (&claim, 0, claims_over),
        (&claims, 0, claims_over),
        (&v2(&claims, 0, &[]), 51, claims_over),
        (&zstd(&claims), 0, claims_over),
        (&cut, cut.len() as u64, "the snapshot ends inside the header"),
        (&framed(&header_cbor(&[], 3)), 1, "CAR version 3 is not supported"),
        (&framed(b"\xa1\x67version\x01"), 1, "it names no roots"),
        (&framed(b"\xa2\x65roots"), 1, "the header cannot be read"),
        (b"\x00\x00\x00", 0, "this is neither a CAR nor a block log: its header has length zero"),
        (&nested, 52, "CAR version 2 is not supported here"),
        (&overlong, 0, "the header's length is written with more bytes than it needs"),
    ] {
        refused_both(bytes, at, reason);
    }
}

#[test]
fn section_over_the_limit_is_refused() {
    for claim in [200 << 30, u64::MAX, 1 << 63, (1 << 32) + 10] {
        let (bytes, at) = followed_by(&[varint(claim), block(b"x").0, noise(3, 100)].concat());
        refused_both(&bytes, at, "is over the limit of 2.0 GiB");
        refused_both(&zstd(&bytes), at, "is over the limit of 2.0 GiB");
    }
    let (bytes, at) = followed_by(&[varint(2 << 30), block(b"x").0].concat());
    let (_place, done) = imported(&bytes, &[]);
    done.refused(3, at, "a block of 2.0 GiB is over the limit of 2.0 GiB");
    assert!(done.hint().contains("--max-block-size"), "{}", done.hint());
}

#[test]
fn claimed_length_allocates_no_memory() {
    let (bytes, _) = followed_by(&[varint(200 << 20), block(b"x").0, noise(3, 100_000)].concat());
    for wrap in [|bytes: &[u8]| bytes.to_vec(), zstd] {
        let (place, source) = Place::with_file("cut.car", &wrap(&bytes));
        let run = import(&place, source).args(&["--memory", "1GiB", "--threads", "1"]).within(ADDRESS_SPACE).run();
        run.refused(3, bytes.len() as u64, "the snapshot ends inside a block");
    }
}

/// The part that is truncated when a CARv1 of these blocks ends after `len` bytes; `None` at the end of a section.
fn inside(header: &[u8], blocks: &[Block], len: usize) -> Option<&'static str> {
    let first = varint(header.len() as u64 - 2).len();
    if len < first {
        return Some("the header's length");
    }
    if len < header.len() {
        return Some("the header");
    }
    let mut at = header.len();
    for block in blocks {
        let whole = section(block).len();
        let number = whole - block.0.len() - block.1.len();
        match len - at {
            0 => return None,
            n if n < number => return Some("a section's length"),
            n if n < number + block.0.len() => return Some("a CID"),
            n if n < whole => return Some("a block"),
            _ => at += whole,
        }
    }
    None
}

#[test]
fn truncated_file_names_offset_and_part() {
    let blocks = blocks();
    // Four roots: the header's length takes two bytes.
    let roots = vec![blocks[0].0.clone(); 4];
    let bytes = car(&roots, &blocks);
    let part = |len| inside(&header(&roots), &blocks, len);
    // Within a part one place is like the next.
    let is_border = |len: &usize| part(*len) != part(len - 1) || part(*len) != part(len + 1);
    for len in (1..bytes.len()).filter(|len| is_long() || is_border(len)) {
        match part(len) {
            Some(part) => refused(&bytes[..len], len as u64, &format!("the snapshot ends inside {part}")),
            // At a section's end nothing can be seen: it is a smaller snapshot.
            None => imported(&bytes[..len], &[]).1.succeeded(),
        }
    }
    let blocks = many();
    let bytes = rooted(&blocks);
    let head = header(&[blocks[0].0.clone()]);
    let last = bytes.len() - section(&blocks[499]).len();
    for len in [1, 30, head.len() + 1, head.len() + 2, last + 1, last + 2, last + 20, last + 50, bytes.len() - 1] {
        let part = inside(&head, &blocks, len).expect("a cut");
        refused_piped(&bytes[..len], len as u64, &format!("the snapshot ends inside {part}"));
        refused(&gzip(&bytes[..len]), len as u64, &format!("the snapshot ends inside {part}"));
    }
}

#[test]
fn truncated_carv2_is_refused() {
    let blocks = blocks();
    let inner = rooted(&blocks);
    let bytes = v2(&inner, 100, &[]);
    for len in (1..51).step_by(rounds(7, 1)) {
        refused_both(&bytes[..len], len as u64, "the snapshot ends inside the header");
    }
    // The file's size says it at once, wherever the cut is: also at the end of a section.
    let boundary = bytes.len() - section(&blocks[2]).len();
    for len in [51, 100, 160, boundary, boundary + 1, bytes.len() - 1] {
        let reason = format!("its data ends at {}, but the snapshot has only {len} bytes", bytes.len());
        refused_both(&bytes[..len], 11, &reason);
    }
    // The data end inside a section, and the file is longer.
    let len = inner.len() as u64 - 5;
    refused_both(&[&v2_head(51, len, 0)[..], &inner].concat(), 51 + len, "the snapshot ends inside a block");
    refused_both(&[&v2_head(51, 20, 0)[..], &inner].concat(), 71, "the snapshot ends inside the header");

    let blocks = many();
    let bytes = v2(&rooted(&blocks), 100, &[]);
    let last = bytes.len() - section(&blocks[499]).len();
    for (len, part) in [
        (last, "the data that its CARv2 header promises"),
        (last + 1, "a section's length"),
        (last + 10, "a CID"),
        (bytes.len() - 1, "a block"),
    ] {
        refused_piped(&bytes[..len], len as u64, &format!("the snapshot ends inside {part}"));
        refused_both(&zstd(&bytes[..len]), len as u64, &format!("the snapshot ends inside {part}"));
    }
}

#[test]
fn trailing_bytes_of_a_carv2_are_reported() {
    let blocks = blocks();
    let inner = rooted(&blocks);
    let (len, short) = (inner.len() as u64, (inner.len() - section(&blocks[2]).len()) as u64);
    let (end, whole) = (V2_HEAD + short, V2_HEAD + len);
    for (bytes, blocks, is_reported) in [
        ([&v2_head(V2_HEAD, short, 0)[..], &inner].concat(), &blocks[..2], true),
        ([&v2_head(V2_HEAD, short, whole)[..], &inner, b"an index"].concat(), &blocks[..2], true),
        ([&v2_head(V2_HEAD, len, whole + 9)[..], &inner, &[0; 9], b"an index"].concat(), &blocks, false),
    ] {
        for args in [&[][..], &["--preset", "memtable"]] {
            let place = Place::new();
            let done = import(&place, place.file("a.car", &bytes)).args(args).holds(blocks);
            let words = format!("a.car at byte {end}: the file has trailing bytes");
            assert_eq!(done.stderr.contains(&words), is_reported, "{}", done.stderr);
        }
    }
}

#[test]
fn varint_over_64_bits_or_overlong_is_refused() {
    let long = [&[0xff; 9][..], &[2], &[0; 40]].concat();
    refused_both(&long, 0, "the header's length is a number of more than 64 bits");
    tail_refused(&long, 0, "a section's length is a number of more than 64 bits");
    let (cid, _) = block(b"");
    // A length of zero in two bytes is no padding.
    for tail in [&[&[cid.len() as u8 | 0x80, 0][..], &cid].concat()[..], &[0x80, 0]] {
        tail_refused(tail, 0, "a section's length is written with more bytes than it needs");
    }
    // The numbers of a CID: the bytes before each, and a CID whose number is overlong.
    for (part, before, overlong) in [
        ("a CID's version", &b""[..], [0x81, 0, 0x55, 0, 1, 9]),
        ("a CID's codec", b"\x01", [1, 0xd5, 0, 0, 1, 9]),
        ("a CID's hash function", b"\x01\x55", [1, 0x55, 0x80, 0, 1, 9]),
        ("a digest's length", b"\x01\x55\x12", [1, 0x55, 0, 0x81, 0, 9]),
    ] {
        tail_refused(&framed(&[before, &long].concat()), 1, &format!("{part} is a number of more than 64 bits"));
        tail_refused(&framed(&overlong), 1, &format!("{part} is written with more bytes than it needs"));
    }
}

#[test]
fn wrong_cid_of_a_section_is_refused() {
    for claim in [33, 100, 1 << 20, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        let body = [vec![1, 0x71, 0x12], varint(claim), vec![7; 32]].concat();
        let reason = format!("a digest of {claim} bytes is longer than its section of {} bytes", body.len());
        tail_refused(&[framed(&body), vec![0; 64]].concat(), 1, &reason);
    }
    tail_refused(&[2, 1, 0x71], 1, "a section of 2 bytes ends inside its CID");
    tail_refused(&[3, 7, 0x71, 0, 0, 0], 1, "CID version 7 does not exist");
    // A CIDv0 needs 34 bytes.
    tail_refused(&[&[10, 0x12, 0x20][..], &[0; 40]].concat(), 1, "is longer than its section of 10 bytes");
}

#[test]
fn carv2_with_wrong_offsets_is_refused() {
    let inner = rooted(&blocks());
    let size = inner.len() as u64;
    for (offset, len, index, reason) in [
        (-1i64 as u64, size, 0, "its data offset is negative (-1)"),
        (51, i64::MIN as u64, 0, "its data size is negative (-9223372036854775808)"),
        (51, size, -200i64 as u64, "its index offset is negative (-200)"),
        (0, size, 0, "its data offset 0 lies inside the header of 51 bytes"),
        (50, size, 0, "its data offset 50 lies inside the header of 51 bytes"),
        (51, size, 51 + size - 1, "its index at "),
        (51, size, 1, "its index at 1 overlaps the data"),
        (51, 0, 0, "its data size is 0"),
        (51, i64::MAX as u64, 0, "its data ends at "),
        (i64::MAX as u64, i64::MAX as u64, 0, "its data ends at 18446744073709551614"),
        (1 << 40, size, 0, "its data ends at "),
    ] {
        let bytes = [&v2_head(offset, len, index)[..], &inner, &[0; 100]].concat();
        refused_both(&bytes, 11, &format!("the CARv2 header cannot be right: {reason}"));
    }
    let far = [v2_head(40 << 30, 1000, 0), noise(5, 1 << 20)].concat();
    refused_piped(&far, 0, "exceeds the limit of");
}

#[test]
fn damaged_compression_is_refused() {
    let whole = rooted(&many());
    let (mut good, mut starts) = (Vec::new(), Vec::new());
    for piece in whole.chunks(whole.len() / 4 + 1) {
        starts.push(good.len() as u64);
        good.extend(zstd(piece));
    }
    imported(&good, &[]).1.holds(&Model::new(&many(), Key::Cid));

    let mut corrupt = good.clone();
    corrupt[starts[2] as usize + 1000..][..40].iter_mut().for_each(|byte| *byte ^= 0x55);
    refused_both(&corrupt, starts[2], "the zstd frame is damaged: ");

    // The last four bytes of a frame are its checksum.
    let mut wrong = good.clone();
    wrong[starts[2] as usize - 1] ^= 1;
    refused_both(&wrong, starts[1], "the zstd frame is damaged: ");

    for cut in [starts[3] + 3, starts[3] + 500, good.len() as u64 - 1] {
        refused_both(&good[..cut as usize], cut, "the zstd data ends in the middle of a frame");
    }
    // Also if the blocks are all there, and an index follows them.
    let carv2 = zstd(&v2(&rooted(&blocks()), 0, &noise(9, 300_000)));
    refused_both(&carv2[..carv2.len() - 2], carv2.len() as u64 - 2, "the zstd data ends in the middle of a frame");
    for (whole, tail) in [(&good, &b"garbage"[..]), (&good, &[0; 4]), (&good, &[7; 100_000]), (&carv2, b"garbage")] {
        let bytes = [whole, tail].concat();
        refused_both(&bytes, whole.len() as u64, "what follows the last zstd frame is not zstd");
    }
    // `fixtures/broken` has truncated files of these. The decoder may emit wrong blocks before it finds the damage.
    for pack in [xz, gzip, lz4] {
        let mut corrupt = pack(&whole);
        let middle = corrupt.len() / 2;
        corrupt[middle..][..40].iter_mut().for_each(|byte| *byte ^= 0x55);
        let (_place, done) = imported(&corrupt, &[]);
        done.refused_by(3, " at byte ");
    }
}

#[test]
fn null_padding_is_refused_unless_allowed() {
    let after = |zeros: usize| followed_by(&vec![0; zeros]);
    let (inner, at) = after(100_000);
    // The index after the data is no padding.
    let carv2 = (v2(&inner, 9, &noise(1, 300)), 60 + at);
    for ((bytes, at), zeros) in [(after(1), 1), (after(10), 10), (after(200_000), 200_000), (carv2, 100_000)] {
        refused_both(&bytes, at, "null padding: a section of length zero");
        refused_both(&zstd(&bytes), at, "null padding: a section of length zero");
        let place = Place::new();
        for run in [import(&place, place.file("padded.car", &bytes)), import_pipe(&place, bytes.clone())] {
            let done = imports(run.args(&["--null-padding", "eof"]), &blocks());
            assert_eq!(done.number("/source/null_padding"), zeros);
        }
    }
}

#[test]
fn blocks_after_null_padding_are_refused() {
    for zeros in [1, 100_000] {
        let (bytes, at) = followed_by(&[vec![0; zeros], section(&block(b"lost"))].concat());
        let place = Place::new();
        for run in [import(&place, place.file("x.car", &bytes)), import_pipe(&place, bytes.clone())] {
            let done = run.args(&["--null-padding", "eof"]).run();
            done.refused(3, at + zeros as u64, "null padding is followed by other bytes");
        }
    }
}
