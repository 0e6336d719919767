//! The header of a CAR, of both versions.

use serde::Deserialize;

use super::{CarProblem, MAX_HEADER, RawCid, varint};

/// `{version: 2}` as a section: how every CARv2 begins.
const V2_PRAGMA: [u8; 11] = [0x0a, 0xa1, 0x67, b'v', b'e', b'r', b's', b'i', b'o', b'n', 0x02];

/// Bytes of a CARv2 before its data may begin: the pragma and the fixed header.
const V2_HEAD: u64 = 51;

/// What stands before the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The outer version: 1 or 2.
    pub version: u64,
    /// The roots, in the order of the file; may be empty, and need not be in the file.
    pub roots: Vec<RawCid>,
    /// Where the first section begins, in bytes from the start of the file.
    pub blocks_start: u64,
    /// The CARv2 header, where there is one.
    pub v2: Option<V2Header>,
}

/// The fixed header of a CARv2. Its index is never used: the blocks alone say what the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V2Header {
    /// The characteristics bit field; go-car uses one bit, "fully indexed".
    pub characteristics: u128,
    /// Where the inner CARv1 begins, in bytes from the start of the file.
    pub data_offset: u64,
    /// How many bytes it has.
    pub data_size: u64,
    /// Where the index begins; 0 means none.
    pub index_offset: u64,
}

impl Header {
    /// Where the blocks end by the header's word: `None` means at the end of the file.
    pub fn blocks_end(&self) -> Option<u64> {
        self.v2.map(|v2| v2.data_offset + v2.data_size)
    }
}

/// The header of a CARv1 with these roots, as it stands at the front of a file.
pub fn header_bytes<'a>(roots: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut map = vec![0xa2];
    push_text(&mut map, "roots");
    cbor_head(&mut map, 4, roots.len() as u64);
    for root in roots {
        cbor_head(&mut map, 6, 42);
        cbor_head(&mut map, 2, root.len() as u64 + 1);
        map.push(0);
        map.extend_from_slice(root);
    }
    push_text(&mut map, "version");
    cbor_head(&mut map, 0, 1);
    let mut header = unsigned_varint::encode::usize(map.len(), &mut unsigned_varint::encode::usize_buffer()).to_vec();
    header.extend_from_slice(&map);
    header
}

fn push_text(cbor: &mut Vec<u8>, text: &str) {
    cbor_head(cbor, 3, text.len() as u64);
    cbor.extend_from_slice(text.as_bytes());
}

/// The head of a CBOR item, as short as it goes.
pub(crate) fn cbor_head(cbor: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    match value {
        0..24 => cbor.push(major | value as u8),
        24..0x100 => cbor.extend([major | 24, value as u8]),
        0x100..0x1_0000 => {
            cbor.push(major | 25);
            cbor.extend((value as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            cbor.push(major | 26);
            cbor.extend((value as u32).to_be_bytes());
        }
        _ => {
            cbor.push(major | 27);
            cbor.extend(value.to_be_bytes());
        }
    }
}

/// The outcome of looking for a header at the front of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderStep {
    /// Here it is.
    Header(Header),
    /// The buffer must hold at least this many bytes from the start of the file before it can be said.
    NeedMore(u64),
}

#[derive(Deserialize)]
struct Wire {
    version: u64,
    #[serde(default)]
    roots: Option<Vec<RawCid>>,
}

/// Reads the header at the front of `head`, which begins at byte 0 of the file. `size` is the size of the file (of the
/// unwrapped data) in bytes, where it is known.
///
/// # Errors
/// What cannot be the header of a CAR, as the problem and its offset in the file.
pub fn read_header(head: &[u8], size: Option<u64>) -> Result<HeaderStep, (CarProblem, u64)> {
    if head.len() < V2_PRAGMA.len() && V2_PRAGMA.starts_with(head) && size != Some(head.len() as u64) {
        return Ok(HeaderStep::NeedMore(V2_PRAGMA.len() as u64));
    }
    if !head.starts_with(&V2_PRAGMA) {
        return read_inner(head, 0, size).map(|step| match step {
            Inner::NeedMore(len) => HeaderStep::NeedMore(len),
            Inner::Found { roots, end } => {
                HeaderStep::Header(Header { version: 1, roots, blocks_start: end, v2: None })
            }
        });
    }
    let Some(v2) = read_v2(head) else { return Ok(HeaderStep::NeedMore(V2_HEAD)) };
    check_v2(&v2, size).map_err(|reason| (CarProblem::V2Header { reason }, V2_PRAGMA.len() as u64))?;
    let end = v2.data_offset + v2.data_size;
    Ok(match read_inner(head, v2.data_offset, Some(end))? {
        Inner::NeedMore(len) => HeaderStep::NeedMore(len),
        Inner::Found { roots, end } => {
            HeaderStep::Header(Header { version: 2, roots, blocks_start: end, v2: Some(v2) })
        }
    })
}

fn read_v2(head: &[u8]) -> Option<V2Header> {
    let fixed = head.get(V2_PRAGMA.len()..V2_HEAD as usize)?;
    let (characteristics, rest) = fixed.split_first_chunk::<16>()?;
    let (data_offset, rest) = rest.split_first_chunk::<8>()?;
    let (data_size, rest) = rest.split_first_chunk::<8>()?;
    let (index_offset, _) = rest.split_first_chunk::<8>()?;
    Some(V2Header {
        characteristics: u128::from_le_bytes(*characteristics),
        data_offset: u64::from_le_bytes(*data_offset),
        data_size: u64::from_le_bytes(*data_size),
        index_offset: u64::from_le_bytes(*index_offset),
    })
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

enum Inner {
    Found { roots: Vec<RawCid>, end: u64 },
    NeedMore(u64),
}

/// Reads the CARv1 header at `start`; `end` is where its file ends, where that is known.
fn read_inner(head: &[u8], start: u64, end: Option<u64>) -> Result<Inner, (CarProblem, u64)> {
    let truncated = |inside| (CarProblem::Truncated { inside }, end.unwrap_or(head.len() as u64));
    let rest = usize::try_from(start).ok().and_then(|start| head.get(start..)).unwrap_or_default();
    let Some((len, len_bytes)) = varint::read(rest, "the header's length").map_err(|problem| (problem, start))? else {
        let need = (start + 1).max(head.len() as u64 + 1);
        return if end.is_some_and(|end| need > end) {
            Err(truncated("the header's length"))
        } else {
            Ok(Inner::NeedMore(need))
        };
    };
    if len == 0 {
        return Err((CarProblem::NotACar { reason: "its header has length zero".into() }, start));
    }
    // The first byte of a map: what is not even that is no CAR, whatever its length says.
    if let Some(&first) = rest.get(len_bytes)
        && !(0xa0..=0xbf).contains(&first)
    {
        let reason = "its first bytes are no header".to_owned();
        return Err((CarProblem::NotACar { reason }, start));
    }
    if len > MAX_HEADER {
        return Err((CarProblem::HeaderTooLong { len }, start));
    }
    let cbor_start = start + len_bytes as u64;
    let header_end = cbor_start + len;
    // The bytes may go on behind the end: the data of a CARv2 ends before its file.
    if end.is_some_and(|end| header_end > end) {
        return Err(truncated("the header"));
    }
    let Some(cbor) = rest.get(len_bytes..len_bytes + len as usize) else {
        return Ok(Inner::NeedMore(header_end));
    };
    let header: Wire = serde_ipld_dagcbor::from_slice(cbor)
        .map_err(|error| (CarProblem::Header { reason: error.to_string() }, cbor_start))?;
    if header.version != 1 {
        return Err((CarProblem::Version { version: header.version }, cbor_start));
    }
    let roots = header.roots.ok_or_else(|| {
        (CarProblem::Header { reason: "it names no roots, not even an empty list".into() }, cbor_start)
    })?;
    Ok(Inner::Found { roots, end: header_end })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_that_is_written_reads_as_it_was(
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
    }
}
