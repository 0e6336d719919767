//! Recognises files of other kinds by their first bytes, for error messages.

use std::path::Path;

use crate::os::files::{open_regular, read_head};
use crate::source::input::is_compressed;

/// Offset and value of the magic of a tar archive.
const TAR: (usize, &[u8]) = (257, b"ustar");

const RECORDS: (&str, &str) =
    ("a stream of records", "`bedload import {file} --db DIR` makes a database of it, which `verify --against` takes");

/// Kinds by their first bytes, with name and hint.
const KINDS: [(&[u8], &str, &str); 9] = [
    (b"BEDLOADK", RECORDS.0, RECORDS.1),
    (b"ROCKDUMP", RECORDS.0, RECORDS.1),
    (b"0x", RECORDS.0, RECORDS.1),
    (b"PK\x03\x04", "a zip archive", "unpack it first: unzip -p {file} | bedload import - --db DIR"),
    (b"BZh", "bzip2 data", "unpack it first: bzip2 -dc {file} | bedload import - --db DIR"),
    (b"\x80\x08", "the index of a CAR", "give the CAR that it belongs to"),
    (b"\x81\x08", "the index of a CAR", "give the CAR that it belongs to"),
    (b"SQLite format 3\0", "an SQLite database", "give the snapshot itself"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
];

/// The end of RocksDB's tables.
const SST: [u8; 8] = 0x88e2_41b7_85f4_cff7_u64.to_le_bytes();

/// Beginnings of web pages and answers, in lower case.
const WEB: [&[u8]; 4] = [b"<!doctype", b"<html", b"<?xml", b"{"];

/// Returns the kind of a file that begins with `head` and ends with the eight bytes of `tail`, and a hint. `tail` is called only
/// if the beginning does not decide.
pub(crate) fn kind(head: &[u8], tail: impl FnOnce() -> [u8; 8]) -> Option<(&'static str, &'static str)> {
    if let Some((_, what, hint)) = KINDS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some((what, hint));
    }
    if head.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1)) {
        return Some((
            "a tar archive",
            "take the snapshot out of it first: tar -xOf {file} | bedload import - --db DIR",
        ));
    }
    let text = head.trim_ascii_start();
    let is_text = head.iter().take(16).all(u8::is_ascii);
    let begins = |word: &&[u8]| text.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
    if is_text && WEB.iter().any(begins) {
        return Some((
            "a web page, or JSON as of a server",
            "read its beginning (head -c 200 {file}), and check the download, or the program that wrote it; \
             records need the format kv (docs/kv.md)",
        ));
    }
    if is_log_index(head) {
        return Some(("the index of a block log", "give the log itself: block_log, or its directory"));
    }
    (tail() == SST)
        .then_some(("a table of RocksDB", "`bedload stat --db {dir}` shows the database that it is a part of"))
}

/// True if the file at `path` begins like a CAR or compressed data.
pub(crate) fn is_snapshot(path: &Path) -> bool {
    let head = open_regular(path).and_then(|file| read_head(&file, 64)).unwrap_or_default();
    is_compressed(&head) || has_header_fields(&head)
}

/// True if `head` has a field of a CAR's header, in CBOR. In a header with many roots, `version` comes long after them.
pub(crate) fn has_header_fields(head: &[u8]) -> bool {
    let has = |field: &[u8]| memchr::memmem::find(head, field).is_some();
    has(b"\x65roots") || has(b"\x67version")
}

/// The largest position of the first block in a log, which may begin with a header and a genesis state.
const FIRST_POSITION: u64 = 1 << 16;

/// True for the index of a block log: ascending positions of 8 bytes.
fn is_log_index(head: &[u8]) -> bool {
    let places: Vec<u64> = head.as_chunks().0.iter().take(8).map(|bytes| u64::from_le_bytes(*bytes)).collect();
    places.len() >= 2 && places[0] < FIRST_POSITION && places.is_sorted_by(|a, b| a < b && b - a < 1 << 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_recognised() {
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let index = |first: u64| -> Vec<u8> {
            [first, 200, 450, 800].iter().flat_map(|position| position.to_le_bytes()).collect()
        };
        let name = |head: &[u8]| kind(head, || [0; 8]).map(|(what, _)| what);
        assert_eq!(name(&tar), Some("a tar archive"));
        assert_eq!(name(b"PK\x03\x04 rest"), Some("a zip archive"));
        assert_eq!(name(b"BZh91AY"), Some("bzip2 data"));
        assert_eq!(name(b"\n <!DOCTYPE HTML><title>"), Some("a web page, or JSON as of a server"));
        assert_eq!(name(&index(0)), Some("the index of a block log"));
        assert_eq!(name(&index(0x7e)), Some("the index of a block log"), "of Antelope");
        assert_eq!(kind(b"\0\x0b", || SST).map(|(what, _)| what), Some("a table of RocksDB"));
        for other in [&b"\x3a\xa2\x65roots"[..], b"{\xa2\x65roots\x81\xd8\x2a", b"", b"a text", &[0; 64]] {
            assert_eq!(name(other), None, "{other:?}");
        }
    }
}
