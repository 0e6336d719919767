//! The header of a CAR, of both versions.

use super::{CarProblem, MAX_HEADER, RawCid, varint};
use crate::blocks::cbor::{self, ARRAY, BYTES, push_head};

/// Major types of CBOR.
const UNSIGNED: u8 = 0;
const STRING: u8 = 3;
const MAP: u8 = 5;
const TAG: u8 = 6;

/// The tag of a link in dag-cbor.
const LINK_TAG: u64 = 42;

/// `{version: 2}` as a section: the start of every CARv2.
const V2_PRAGMA: [u8; 11] = [0x0a, 0xa1, 0x67, b'v', b'e', b'r', b's', b'i', b'o', b'n', 0x02];

/// Bytes of the pragma and the fixed header of a CARv2.
const V2_HEAD: u64 = 51;

/// The header of a CAR, of version 1 or 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The outer version: 1 or 2.
    pub version: u64,
    /// The roots, in the order of the file; may be empty, and need not be in the file.
    pub roots: Vec<RawCid>,
    /// Offset of the first section in the file.
    pub blocks_start: u64,
    /// Of a CARv2 only.
    pub v2: Option<V2Header>,
}

/// The fixed header of a CARv2. Its index is never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V2Header {
    /// The characteristics bit field; go-car uses one bit, "fully indexed".
    pub characteristics: u128,
    /// Offset of the inner CARv1 in the file.
    pub data_offset: u64,
    /// Bytes of the inner CARv1.
    pub data_size: u64,
    /// Offset of the index; 0 for none.
    pub index_offset: u64,
}

impl Header {
    /// The end of the blocks according to the header. `None`: the end of the file.
    pub fn blocks_end(&self) -> Option<u64> {
        self.v2.map(|v2| v2.data_offset + v2.data_size)
    }

    /// Offset of the index, if there is one.
    pub fn index_at(&self) -> Option<u64> {
        self.v2.map(|v2| v2.index_offset).filter(|at| *at != 0)
    }
}

/// Returns the header of a CARv1 with these roots, as at the start of a file.
pub fn header_bytes<'a>(roots: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut cbor = b"\xa2\x65roots".to_vec();
    push_head(&mut cbor, ARRAY, roots.len() as u64);
    for root in roots {
        push_head(&mut cbor, TAG, LINK_TAG);
        push_head(&mut cbor, BYTES, root.len() as u64 + 1);
        cbor.push(0);
        cbor.extend_from_slice(root);
    }
    cbor.extend_from_slice(b"\x67version\x01");
    let mut header = unsigned_varint::encode::usize(cbor.len(), &mut unsigned_varint::encode::usize_buffer()).to_vec();
    header.extend_from_slice(&cbor);
    header
}

/// The content of a place where a section may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The header of one more CAR.
    Header,
    /// Anything else.
    Other,
    /// The bytes are too few to decide.
    NeedMore,
}

/// Detects a header where a section may begin: a length and a map of one or two fields, the first of which is `roots` or
/// `version`. No section begins so: a CID begins with 0x12 (version 0) or 0x01 (version 1), a map with 0xa0 or more.
pub(crate) fn begins_header(bytes: &[u8]) -> Begins {
    let Ok(read) = varint::read(bytes, "the header's length") else { return Begins::Other };
    let Some((_, len_bytes)) = read else { return Begins::NeedMore };
    let rest = bytes.get(len_bytes..).unwrap_or_default();
    let begins = |text: &[u8]| match rest {
        [] => Begins::NeedMore,
        [0xa1 | 0xa2, rest @ ..] if rest.starts_with(text) => Begins::Header,
        [0xa1 | 0xa2, rest @ ..] if text.starts_with(rest) => Begins::NeedMore,
        _ => Begins::Other,
    };
    match (begins(b"\x65roots"), begins(b"\x67version")) {
        (Begins::Header, _) | (_, Begins::Header) => Begins::Header,
        (Begins::NeedMore, _) | (_, Begins::NeedMore) => Begins::NeedMore,
        _ => Begins::Other,
    }
}

/// The outcome of parsing a header at the front of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderStep {
    /// The header.
    Header(Header),
    /// The buffer must have at least this many bytes from the start of the file.
    NeedMore(u64),
}

/// Reads the header at the front of `head`, which begins at byte 0 of the file. `size` is the size of the decompressed
/// file, if known. The error has its offset in the file.
pub fn read_header(head: &[u8], size: Option<u64>) -> Result<HeaderStep, (CarProblem, u64)> {
    if head.len() < V2_PRAGMA.len() && V2_PRAGMA.starts_with(head) && size != Some(head.len() as u64) {
        return Ok(HeaderStep::NeedMore(V2_PRAGMA.len() as u64));
    }
    if !head.starts_with(&V2_PRAGMA) {
        return read_inner(head, 0, size);
    }
    let Some(v2) = read_v2(head) else { return Ok(HeaderStep::NeedMore(V2_HEAD)) };
    check_v2(&v2, size).map_err(|reason| (CarProblem::V2Header { reason }, V2_PRAGMA.len() as u64))?;
    Ok(match read_inner(head, v2.data_offset, Some(v2.data_offset + v2.data_size))? {
        HeaderStep::Header(header) => HeaderStep::Header(Header { version: 2, v2: Some(v2), ..header }),
        more => more,
    })
}

fn read_v2(head: &[u8]) -> Option<V2Header> {
    let characteristics = u128::from_le_bytes(*head.get(V2_PRAGMA.len()..)?.first_chunk()?);
    let (numbers, _) = head.get(V2_PRAGMA.len() + 16..V2_HEAD as usize)?.as_chunks();
    let [data_offset, data_size, index_offset] = *numbers else { return None };
    let [data_offset, data_size, index_offset] = [data_offset, data_size, index_offset].map(u64::from_le_bytes);
    Some(V2Header { characteristics, data_offset, data_size, index_offset })
}

fn check_v2(v2: &V2Header, size: Option<u64>) -> Result<(), String> {
    let V2Header { data_offset, data_size, index_offset, .. } = *v2;
    // The offsets are signed in the implementation the format comes from.
    for (name, value) in [("data offset", data_offset), ("data size", data_size), ("index offset", index_offset)] {
        if i64::try_from(value).is_err() {
            return Err(format!("its {name} is negative ({})", value as i64));
        }
    }
    if data_offset < V2_HEAD {
        return Err(format!("its data offset {data_offset} lies inside the header of {V2_HEAD} bytes"));
    }
    let end = data_offset + data_size;
    if data_size == 0 {
        return Err("its data size is 0: it was never finished by the program that wrote it".into());
    }
    if index_offset != 0 && index_offset < end {
        return Err(format!("its index at {index_offset} overlaps the data, which ends at {end}"));
    }
    if let Some(size) = size
        && end > size
    {
        return Err(format!("its data ends at {end}, but the snapshot has only {size} bytes"));
    }
    Ok(())
}

/// Reads the CARv1 header at `start`; `end` is the end of its data, if known.
fn read_inner(head: &[u8], start: u64, end: Option<u64>) -> Result<HeaderStep, (CarProblem, u64)> {
    let truncated = |inside| (CarProblem::Truncated { inside }, end.unwrap_or(head.len() as u64));
    let rest = usize::try_from(start).ok().and_then(|start| head.get(start..)).unwrap_or_default();
    let Some((len, len_bytes)) = varint::read(rest, "the header's length").map_err(|problem| (problem, start))? else {
        let need = (start + 1).max(head.len() as u64 + 1);
        return if end.is_some_and(|end| need > end) {
            Err(truncated("the header's length"))
        } else {
            Ok(HeaderStep::NeedMore(need))
        };
    };
    if len == 0 {
        return Err((CarProblem::NotACar { reason: "its header has length zero".into() }, start));
    }
    // Without the first byte of a map it is no CAR, whatever its length.
    if let Some(&first) = rest.get(len_bytes)
        && !(0xa0..=0xbf).contains(&first)
    {
        let reason = "its first bytes are not a header".to_owned();
        return Err((CarProblem::NotACar { reason }, start));
    }
    if len > MAX_HEADER {
        return Err((CarProblem::HeaderTooLong { len }, start));
    }
    let cbor_start = start + len_bytes as u64;
    let header_end = cbor_start + len;
    // The data of a CARv2 ends before its file.
    if end.is_some_and(|end| header_end > end) {
        return Err(truncated("the header"));
    }
    let Some(cbor) = rest.get(len_bytes..len_bytes + len as usize) else {
        return Ok(HeaderStep::NeedMore(header_end));
    };
    let roots = decode(cbor).map_err(|problem| (problem, cbor_start))?;
    Ok(HeaderStep::Header(Header { version: 1, roots, blocks_start: header_end, v2: None }))
}

/// Reads `{roots: [links], version: 1}`, strictly: nothing else, and nothing of another type.
fn decode(cbor: &[u8]) -> Result<Vec<RawCid>, CarProblem> {
    // Parsers for serde skip unknown fields, take some types for others, and need many times the memory.
    let mut fields = Fields { rest: cbor };
    let (version, roots) = fields.read().map_err(|reason| CarProblem::Header { reason })?;
    // Another version may well have no roots.
    match (version, roots) {
        (None, _) => Err(CarProblem::Header { reason: "it has no `version`".into() }),
        (Some(version), _) if version != 1 => Err(CarProblem::Version { version }),
        (_, None) => Err(CarProblem::Header { reason: "it names no roots, not even an empty list".into() }),
        (_, Some(roots)) => Ok(roots),
    }
}

/// The rest of the header's CBOR.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads version and roots, if they exist. The error is the reason.
    fn read(&mut self) -> Result<(Option<u64>, Option<Vec<RawCid>>), String> {
        let (mut version, mut roots) = (None, None);
        for _ in 0..self.next(MAP, "the header")? {
            match self.string(STRING, "a key")? {
                b"version" if version.is_none() => version = Some(self.next(UNSIGNED, "`version`")?),
                b"roots" if roots.is_none() => roots = Some(self.roots()?),
                key @ (b"version" | b"roots") => {
                    return Err(format!("the key `{}` occurs twice", String::from_utf8_lossy(key)));
                }
                key => return Err(format!("the key `{}` is unknown", key.escape_ascii())),
            }
        }
        if self.rest.is_empty() { Ok((version, roots)) } else { Err("more follows its map".into()) }
    }

    fn roots(&mut self) -> Result<Vec<RawCid>, String> {
        let mut roots = Vec::new();
        for _ in 0..self.next(ARRAY, "`roots`")? {
            let tag = self.next(TAG, "a root")?;
            if tag != LINK_TAG {
                return Err(format!("a root has the tag {tag}, a link has {LINK_TAG}"));
            }
            let (&zero, cid) = self.string(BYTES, "a root's link")?.split_first().ok_or("a root's link is empty")?;
            if zero != 0 {
                return Err("a root's link does not begin with a zero byte".into());
            }
            roots.push(RawCid::from_bytes(cid).map_err(|problem| format!("a root is not a CID: {problem}"))?);
        }
        Ok(roots)
    }

    fn string(&mut self, major: u8, what: &str) -> Result<&'a [u8], String> {
        let len = self.next(major, what)?;
        let (string, rest) = cbor::string(len, self.rest).ok_or_else(|| format!("it ends inside {what}"))?;
        self.rest = rest;
        Ok(string)
    }

    /// Reads the head of the next item, which must have this major type, and returns its value or length.
    fn next(&mut self, major: u8, what: &str) -> Result<u64, String> {
        const NAMES: [&str; 8] = [
            "an unsigned number",
            "a negative number",
            "bytes",
            "a text",
            "a list",
            "a map",
            "a tag",
            "a simple value",
        ];
        let name = |major: u8| NAMES.get(usize::from(major)).copied().unwrap_or_default();
        match self.rest.first() {
            Some(first) if first >> 5 != major => Err(format!("{what} is {}, not {}", name(first >> 5), name(major))),
            Some(first) if first & 0x1f == 0x1f => Err(format!("{what} has no definite length")),
            Some(first) if first & 0x1f >= 0x1c => Err(format!("{what} begins with the reserved byte {first:#04x}")),
            _ => {
                let (head, rest) = cbor::head(self.rest).ok_or_else(|| format!("it ends inside {what}"))?;
                self.rest = rest;
                Ok(head.value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header of these bytes.
    fn read(cbor: &[u8]) -> Result<Vec<RawCid>, String> {
        let mut bytes =
            unsigned_varint::encode::usize(cbor.len(), &mut unsigned_varint::encode::usize_buffer()).to_vec();
        bytes.extend_from_slice(cbor);
        match read_header(&bytes, Some(bytes.len() as u64)) {
            Ok(HeaderStep::Header(header)) => Ok(header.roots),
            Ok(HeaderStep::NeedMore(_)) => panic!("all of it is there"),
            Err((problem, _)) => Err(problem.to_string()),
        }
    }

    /// `{roots: [identity CID of "a"], version: 1}`, and where in it the parts are.
    const SOUND: &[u8] = b"\xa2\x65roots\x81\xd8\x2a\x46\x00\x01\x55\x00\x01a\x67version\x01";

    /// [`SOUND`] with the bytes at `at` replaced.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut changed = SOUND.to_vec();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    }

    #[test]
    fn invalid_header_names_the_reason() {
        let root: RawCid = "bafkqaalb".parse().expect("a CID");
        assert_eq!(read(SOUND), Ok(vec![root.clone()]));
        let other_order = b"\xa2\x67version\x01\x65roots\x81\xd8\x2a\x46\x00\x01\x55\x00\x01a";
        assert_eq!(read(other_order), Ok(vec![root]));
        let longer = |more: &[u8]| [SOUND, more].concat();
        for (cbor, reason) in [
            (with(1, b"\x45"), "a key is bytes, not a text"),
            (with(1, b"\x05"), "a key is an unsigned number, not a text"),
            (with(7, b"\x01"), "`roots` is an unsigned number, not a list"),
            (with(7, b"\xa1"), "`roots` is a map, not a list"),
            (with(7, b"\x9f"), "`roots` has no definite length"),
            (with(8, b"\x58"), "a root is bytes, not a tag"),
            (with(8, b"\x18"), "a root is an unsigned number, not a tag"),
            (with(9, b"\x2b"), "a root has the tag 43, a link has 42"),
            (with(10, b"\x66"), "a root's link is a text, not bytes"),
            (with(10, b"\x06"), "a root's link is an unsigned number, not bytes"),
            (with(10, b"\x5f"), "a root's link has no definite length"),
            (with(11, b"\x01"), "a root's link does not begin with a zero byte"),
            (with(12, b"\x02"), "a root is not a CID: CID version 2 does not exist"),
            (with(15, b"\x00"), "a root is not a CID: the length of the CID does not match its header"),
            (with(25, b"\x20"), "`version` is a negative number, not an unsigned number"),
            (with(25, b"\x80"), "`version` is a list, not an unsigned number"),
            (with(25, b"\xf5"), "`version` is a simple value, not an unsigned number"),
            (with(25, b"\x1c"), "`version` begins with the reserved byte 0x1c"),
            (with(25, b"\x19"), "it ends inside `version`"),
            (with(18, b"w"), "the key `wersion` is unknown"),
            (with(0, b"\xbf"), "the header has no definite length"),
            (with(0, b"\xa1"), "more follows its map"),
            (with(0, b"\xa3"), "it ends inside a key"),
            (longer(b"\x00"), "more follows its map"),
            ([&b"\xa3"[..], &SOUND[1..], &SOUND[17..]].concat(), "the key `version` occurs twice"),
            ([&b"\xa3"[..], &SOUND[1..], &SOUND[1..17]].concat(), "the key `roots` occurs twice"),
            (b"\xa1\x65roots\x80".to_vec(), "it has no `version`"),
            (b"\xa1\x67version\x01".to_vec(), "it names no roots, not even an empty list"),
            (b"\xa2\x65roots\xf6\x67version\x01".to_vec(), "`roots` is a simple value, not a list"),
            (b"\xa1\x65roots\x81\xd8\x2a\x40".to_vec(), "a root's link is empty"),
            (b"\xa1\x65roots\x9b\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), "it ends inside a root"),
            (b"\xa1\x7b\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), "it ends inside a key"),
            (b"\xa1\x61\x1b".to_vec(), "the key `\\x1b` is unknown"),
        ] {
            assert_eq!(read(&cbor), Err(format!("the header cannot be read: {reason}")), "{}", cbor.escape_ascii());
        }
        assert_eq!(read(&with(25, b"\x03")), Err("CAR version 3 is not supported here".into()));
    }

    /// Reads the header with iroh-car, which requires a root and digests of up to 64 bytes.
    fn read_by_another(cbor: &[u8]) -> Result<Vec<RawCid>, String> {
        let header = iroh_car::CarHeader::decode(cbor).map_err(|error| error.to_string())?;
        Ok(header.roots().iter().map(|root| RawCid::from_bytes(root.to_bytes()).expect("a CID")).collect())
    }

    proptest! {
        #[test]
        fn written_header_reads_back(
            digests in proptest::collection::vec(proptest::collection::vec(0u8.., 0..400), 0..40),
        ) {
            let cid = |digest: &Vec<u8>| {
                let len = unsigned_varint::encode::usize(digest.len(), &mut unsigned_varint::encode::usize_buffer()).to_vec();
                RawCid::from_bytes([&[1, 0x55, 0][..], &len, digest].concat()).expect("an identity CID")
            };
            let roots: Vec<RawCid> = digests.iter().map(cid).collect();
            let bytes = header_bytes(roots.iter().map(RawCid::as_bytes));
            let Ok(HeaderStep::Header(header)) = read_header(&bytes, None) else { panic!("no header") };
            prop_assert_eq!((header.roots, header.blocks_start), (roots, bytes.len() as u64));
        }

        #[test]
        fn iroh_car_reads_the_same_headers(
            digests in proptest::collection::vec(proptest::collection::vec(0u8.., 0..64), 1..4),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0u8..), 0..3),
        ) {
            let cid = |digest: &Vec<u8>| cid::Cid::new_v1(0x71, cid::multihash::Multihash::wrap(0x12, digest).expect("short"));
            let roots: Vec<cid::Cid> = digests.iter().map(cid).collect();
            let mut cbor = iroh_car::CarHeader::new_v1(roots).encode().expect("a header");
            prop_assert_eq!(read(&cbor), read_by_another(&cbor));
            for (place, byte) in changes {
                let place = place.index(cbor.len());
                cbor[place] = byte;
            }
            // That one takes some other types for the right ones; what is read here, it reads as well.
            if let Ok(roots) = read(&cbor) && !roots.is_empty() {
                prop_assert_eq!(Ok(roots), read_by_another(&cbor));
            }
        }
    }
}
