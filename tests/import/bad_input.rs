//! Bad input ends the import with exit code 3, one line that names file, offset and reason, one line that names the
//! next step, and no database; a claimed length moves no memory.

use std::path::Path;

use crate::common::car::*;
use crate::common::run::{BEDLOAD, Done, Place, import, import_pipe};
use crate::common::{is_root, skipped};

use super::refusals::*;

#[test]
fn empty_file_is_refused() {
    refused(b"", 0, "the file is empty");
    refused_piped(b"", 0, "the file is empty");
    refused_both(&zstd(b""), 0, "empty");
}

#[test]
fn text_file_is_refused() {
    let text = "<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n";
    refused_both(text.as_bytes(), 0, "this is not a CAR");
    refused_both(text.repeat(10_000).as_bytes(), 0, "this is not a CAR");
    refused_both(&zstd(text.as_bytes()), 0, "this is not a CAR");
}

#[test]
fn header_over_the_limit_is_refused() {
    let claim = varint(200 << 30);
    let inner = [&claim[..], &header_cbor(&[], 1)].concat();
    for (bytes, at) in [(&claim, 0), (&inner, 0), (&v2(&inner, 0, &[]), 51), (&zstd(&inner), 0)] {
        refused_both(bytes, at, "the header claims 214748364800 bytes, the limit is 32.0 MiB");
    }
}

#[test]
fn truncated_header_is_refused() {
    let bytes = [varint(32 << 20), header_cbor(&[], 1)].concat();
    refused_both(&bytes, bytes.len() as u64, "the snapshot ends inside the header");
}

#[test]
fn section_over_the_limit_is_refused() {
    for claim in [200 << 30, u64::MAX, 1 << 63, (1 << 32) + 10] {
        let (bytes, at) = followed_by(&[varint(claim), block(b"x").0, noise(3, 100)].concat());
        refused_both(&bytes, at, "is over the limit of 2.0 GiB");
        refused_both(&zstd(&bytes), at, "is over the limit of 2.0 GiB");
    }
    let (bytes, at) = followed_by(&[varint(2 << 30), block(b"x").0].concat());
    let place = Place::new();
    let done = import(&place, place.file("big.car", &bytes)).run();
    done.refused(3, at, "a block of 2.0 GiB is over the limit of 2.0 GiB");
    assert!(done.hint().contains("--max-block-size"), "{}", done.hint());
}

#[test]
fn claimed_length_allocates_no_memory() {
    let (bytes, _) = followed_by(&[varint(200 << 20), block(b"x").0, noise(3, 100_000)].concat());
    for wrap in [|bytes: &[u8]| bytes.to_vec(), zstd] {
        let place = Place::new();
        let source = place.file("cut.car", &wrap(&bytes));
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
    // Inside the roots and inside a block's bytes one place is like the next.
    let telling = |len: &usize| !matches!(inside(&header(&roots), &blocks, *len), Some("the header" | "a block"));
    for len in (1..bytes.len()).filter(|len| telling(len) || len % 13 == 0) {
        let cut = &bytes[..len];
        match inside(&header(&roots), &blocks, len) {
            Some(part) => refused(cut, len as u64, &format!("the snapshot ends inside {part}")),
            // At a section's end nothing can be seen: it is a smaller snapshot.
            None => {
                let place = Place::new();
                import(&place, place.file("smaller.car", cut)).run().succeeded();
            }
        }
    }
}

#[test]
fn truncated_pipe_names_offset_and_part() {
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
    for len in 1..51 {
        refused_both(&bytes[..len], len as u64, "the snapshot ends inside the header");
    }
    // The file's size says it at once, wherever the cut is: also at the end of a section.
    let boundary = bytes.len() - section(&blocks[2]).len();
    for len in [51, 100, 160, boundary, boundary + 1, bytes.len() - 1] {
        let reason = format!("its data ends at {}, but the snapshot has only {len} bytes", bytes.len());
        refused_both(&bytes[..len], 11, &reason);
    }
}

#[test]
fn trailing_bytes_of_a_carv2_are_reported() {
    let blocks = blocks();
    let inner = rooted(&blocks);
    let last = section(&blocks[2]).len();
    let (short, end) = (inner.len() as u64 - last as u64, V2_HEAD + inner.len() as u64 - last as u64);
    let whole = V2_HEAD + inner.len() as u64;
    let said = |bytes: &[u8], blocks: &[Block]| {
        [&[][..], &["--preset", "memtable"]].map(|args| {
            let place = Place::new();
            let done = import(&place, place.file("a.car", bytes)).args(args).holds(blocks);
            done.stderr.contains(&format!("a.car at byte {end}: the file has trailing bytes"))
        })
    };
    assert_eq!(said(&[v2_head(V2_HEAD, short, 0), inner.clone()].concat(), &blocks[..2]), [true, true]);
    assert_eq!(said(&[&v2_head(V2_HEAD, short, whole), &inner[..], b"an index"].concat(), &blocks[..2]), [true, true]);
    let padded = [&v2_head(V2_HEAD, inner.len() as u64, whole + 9), &inner[..], &[0; 9], b"an index"].concat();
    assert_eq!(said(&padded, &blocks), [false, false]);
}

#[test]
fn truncated_carv2_in_a_pipe_is_refused() {
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
fn carv2_data_ending_in_section_is_refused() {
    let inner = rooted(&blocks());
    // The file is longer than its data.
    let bytes = [v2_head(51, inner.len() as u64 - 5, 0), inner.clone()].concat();
    refused_both(&bytes, 51 + inner.len() as u64 - 5, "the snapshot ends inside a block");
    let bytes = [v2_head(51, 20, 0), inner].concat();
    refused_both(&bytes, 71, "the snapshot ends inside the header");
}

#[test]
fn varint_over_64_bits_is_refused() {
    for long in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]] {
        refused_both(&[long, &[0; 40]].concat(), 0, "the header's length is a number of more than 64 bits");
        let (bytes, at) = followed_by(&[long, &[0; 40]].concat());
        refused_both(&bytes, at, "a section's length is a number of more than 64 bits");
        for (before, what) in [
            (vec![], "a CID's version"),
            (vec![1], "a CID's codec"),
            (vec![1, 0x55], "a CID's hash function"),
            (vec![1, 0x55, 0x12], "a digest's length"),
        ] {
            let body = [&before[..], long, &[0; 40]].concat();
            let (bytes, at) = followed_by(&[varint(body.len() as u64), body].concat());
            refused_both(&bytes, at + 1, &format!("{what} is a number of more than 64 bits"));
        }
    }
}

#[test]
fn overlong_varint_is_refused() {
    let header = header_cbor(&[], 1);
    let long = |value: usize| [value as u8 | 0x80, 0];
    let reason = "the header's length is written with more bytes than it needs";
    refused_both(&[&long(header.len())[..], &header].concat(), 0, reason);
    let (cid, _) = block(b"");
    let (bytes, at) = followed_by(&[&long(cid.len())[..], &cid].concat());
    refused_both(&bytes, at, "a section's length is written with more bytes than it needs");
    // A length of zero in two bytes is no padding.
    let (bytes, at) = followed_by(&[0x80, 0]);
    refused_both(&bytes, at, "a section's length is written with more bytes than it needs");
    for (cid, what) in [
        (vec![0x81, 0, 0x55, 0, 1, 9], "a CID's version"),
        (vec![1, 0xd5, 0, 0, 1, 9], "a CID's codec"),
        (vec![1, 0x55, 0x80, 0, 1, 9], "a CID's hash function"),
        (vec![1, 0x55, 0, 0x81, 0, 9], "a digest's length"),
    ] {
        let (bytes, at) = followed_by(&[varint(cid.len() as u64), cid].concat());
        refused_both(&bytes, at + 1, &format!("{what} is written with more bytes than it needs"));
    }
}

#[test]
fn digest_longer_than_section_is_refused() {
    for claim in [33, 100, 1 << 20, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        let body = [vec![1, 0x71, 0x12], varint(claim), vec![7; 32]].concat();
        let (bytes, at) = followed_by(&[&varint(body.len() as u64)[..], &body, &[0; 64]].concat());
        let reason = format!("a digest of {claim} bytes is longer than its section of {} bytes", body.len());
        refused_both(&bytes, at + 1, &reason);
    }
}

#[test]
fn section_shorter_than_cid_is_refused() {
    let (bytes, at) = followed_by(&[2, 1, 0x71]);
    refused_both(&bytes, at + 1, "a section of 2 bytes ends inside its CID");
    let (bytes, at) = followed_by(&[3, 7, 0x71, 0, 0, 0]);
    refused_both(&bytes, at + 1, "CID version 7 does not exist");
    // A CIDv0 needs 34 bytes.
    let (bytes, at) = followed_by(&[&[10, 0x12, 0x20][..], &[0; 40]].concat());
    refused_both(&bytes, at + 1, "is longer than its section of 10 bytes");
}

#[test]
fn malformed_header_is_refused() {
    let cbor = |cbor: &[u8]| [varint(cbor.len() as u64), cbor.to_vec()].concat();
    refused_both(&cbor(&header_cbor(&[], 3)), 1, "CAR version 3 is not supported");
    refused_both(&cbor(b"\xa1\x65roots\x80"), 1, "the header cannot be read");
    refused_both(&cbor(b"\xa1\x67version\x01"), 1, "it names no roots");
    refused_both(&cbor(b"\xa2\x65roots\x81\x01\x67version\x01"), 1, "the header cannot be read");
    refused_both(&cbor(b"\xa2\x65roots"), 1, "the header cannot be read");
    // Numbers of another type where a link's bytes, a list and a map belong.
    let valid = header_cbor(&[crate::common::car::identity(0x55, b"a").0], 1);
    for (at, byte, reason) in [
        (7, 0x01, "`roots` is an unsigned number, not a list"),
        (10, 0x06, "a root's link is an unsigned number, not bytes"),
        (25, 0x20, "`version` is a negative number, not an unsigned number"),
        (0, 0xbf, "the header has no definite length"),
    ] {
        let mut changed = valid.clone();
        changed[at] = byte;
        refused_both(&cbor(&changed), 1, &format!("the header cannot be read: {reason}"));
    }
    refused_both(b"\x00\x00\x00", 0, "this is neither a CAR nor a block log: its header has length zero");
    // Version 2 inside version 2.
    let inner = v2(&rooted(&blocks()), 0, &[]);
    refused_both(&v2(&inner, 0, &[]), 52, "CAR version 2 is not supported here");
}

#[test]
fn carv2_with_wrong_offsets_is_refused() {
    let inner = rooted(&blocks());
    let size = inner.len() as u64;
    let case = |offset: u64, len: u64, index: u64, reason: &str| {
        let bytes = [&v2_head(offset, len, index)[..], &inner, &[0; 100]].concat();
        refused_both(&bytes, 11, &format!("the CARv2 header cannot be right: {reason}"));
    };
    case(-1i64 as u64, size, 0, "its data offset is negative (-1)");
    case(51, i64::MIN as u64, 0, "its data size is negative (-9223372036854775808)");
    case(51, size, -200i64 as u64, "its index offset is negative (-200)");
    case(0, size, 0, "its data offset 0 lies inside the header of 51 bytes");
    case(50, size, 0, "its data offset 50 lies inside the header of 51 bytes");
    case(51, size, 51 + size - 1, "its index at ");
    case(51, size, 1, "its index at 1 overlaps the data");
    case(51, 0, 0, "its data size is 0");
    case(51, i64::MAX as u64, 0, "its data ends at ");
    case(i64::MAX as u64, i64::MAX as u64, 0, "its data ends at 18446744073709551614");
    case(1 << 40, size, 0, "its data ends at ");
}

#[test]
fn carv2_offset_over_the_limit_is_refused() {
    let far = 40u64 << 30;
    let bytes = [v2_head(far, 1000, 0), noise(5, 1 << 20)].concat();
    refused_piped(&bytes, 0, "exceeds the limit of");
}

#[test]
fn damaged_zstd_is_refused() {
    let whole = rooted(&many());
    let (mut good, mut starts) = (Vec::new(), Vec::new());
    for piece in whole.chunks(whole.len() / 4 + 1) {
        starts.push(good.len() as u64);
        good.extend(zstd(piece));
    }
    let place = Place::new();
    import(&place, place.file("good.car.zst", &good)).holds(&many());

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
}

#[test]
fn damaged_compressions_are_refused() {
    let bytes = rooted(&many());
    for (name, packed) in [("xz", xz(&bytes)), ("gzip", gzip(&bytes)), ("lz4", lz4(&bytes))] {
        let cut = packed.len() - 3;
        refused_both(&packed[..cut], cut as u64, &format!("the {name} data ends in the middle of a frame"));
        let mut corrupt = packed.clone();
        corrupt[packed.len() / 2..][..40].iter_mut().for_each(|byte| *byte ^= 0x55);
        let place = Place::new();
        let done = import(&place, place.file("corrupt", &corrupt)).run();
        // The offset depends on the format; the refusal and the name do not.
        assert_eq!(done.code, Some(3), "{done:?}");
        assert!(done.stderr.starts_with("error: read ") && done.stderr.contains(" at byte "), "{}", done.stderr);
        assert!(!done.db.exists());
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
            let done = run.args(&["--null-padding", "eof"]).holds(&blocks());
            assert_eq!(done.number("/source/null_padding"), zeros);
            std::fs::remove_dir_all(&done.db).expect("a database");
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

#[test]
fn unreadable_source_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let source = place.file("secret.car", &rooted(&blocks()));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    mode(&source, 0o000);
    let run = import(&place, &source);
    if !is_root() {
        return run.run().refused(3, None, "no permission to read it");
    }
    // Root may read everything: run as nobody.
    let program = place.path("bedload");
    std::fs::copy(BEDLOAD, &program).expect("a copy of the program");
    mode(&program, 0o755);
    mode(&place.path(""), 0o777);
    match run.without_rights(&program).run() {
        Done { code: Some(127), stderr, .. } => skipped(format_args!("cannot run as another user: {stderr}")),
        done => done.refused(3, None, "no permission to read it"),
    }
}
