//! Finds a section of a CAR in a buffer: a length, a CID and a block.

use super::{CarProblem, varint};
use crate::error;

/// The parts of a CID, as offsets from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidSpan {
    /// Length of the whole CID in bytes.
    pub len: u32,
    /// Start of the multihash; 0 for a CIDv0.
    pub multihash: u32,
    /// Start of the digest, which ends with the CID.
    pub digest: u32,
    /// Multicodec of the block's content (0x70, dag-pb, for a CIDv0).
    pub codec: u64,
    /// Multicodec of the hash function.
    pub hash: u64,
}

/// A section, as positions in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Start of the length.
    pub start: usize,
    /// Start of the CID, after the length.
    pub cid_start: usize,
    /// End of the block.
    pub end: usize,
    /// The parts of the CID.
    pub cid: CidSpan,
}

impl Section {
    /// Returns the CID and block in `buffer`.
    pub fn body<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.cid_start..self.end).unwrap_or_default()
    }

    /// Returns the whole section in `buffer`, including the length.
    pub fn whole<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.start..self.end).unwrap_or_default()
    }
}

/// Receives a section, and the bytes that contain it.
pub(crate) type VisitSection<'a> = &'a mut dyn FnMut(&[u8], Section) -> error::Result<()>;

/// The next bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A whole section.
    Section(Section),
    /// The buffer ends inside a part of a section, and at least `missing` bytes must follow.
    #[allow(missing_docs)]
    Cut { missing: u64, inside: &'static str },
    /// The buffer ends after a section.
    End,
    /// A length of zero.
    Padding,
}

/// Finds the section at `at`, of at most `max_block` bytes. The error has its position in `buffer`.
pub fn next_section(buffer: &[u8], at: usize, max_block: u64) -> Result<Step, (CarProblem, usize)> {
    let rest = buffer.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(Step::End);
    }
    let (len, len_bytes) = match varint::read(rest, "a section's length") {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Step::Cut { missing: 1, inside: "a section's length" }),
        Err(problem) => return Err((problem, at)),
    };
    if len == 0 {
        return Ok(Step::Padding);
    }
    if len > max_block {
        return Err((CarProblem::BlockTooLarge { len, max: max_block }, at));
    }
    let body = &rest[len_bytes..];
    let len = len as usize;
    // An invalid CID is reported at once, not after the missing bytes have arrived.
    let cid = cid_within(body.get(..len).unwrap_or(body), len).map_err(|problem| (problem, at + len_bytes))?;
    if let Some(cid) = cid.filter(|cid| cid.len as usize > len) {
        let digest = u64::from(cid.len - cid.digest);
        return Err((CarProblem::DigestTooLong { digest, section: len as u64 }, at + len_bytes));
    }
    if let Some(cid) = cid.filter(|cid| cid.len > MAX_CID) {
        let (len, max) = (u64::from(cid.len), u64::from(MAX_CID));
        return Err((CarProblem::CidTooLong { len, max }, at + len_bytes));
    }
    if body.len() < len {
        let inside = if cid.is_some_and(|cid| cid.len as usize <= body.len()) { "a block" } else { "a CID" };
        return Ok(Step::Cut { missing: (len - body.len()) as u64, inside });
    }
    let cid = cid.ok_or((CarProblem::SectionTooShort { len: len as u64 }, at + len_bytes))?;
    let cid_start = at + len_bytes;
    Ok(Step::Section(Section { start: at, cid_start, end: cid_start + len, cid }))
}

/// The longest CID of a section, in bytes. RocksDB keeps keys in its indices, so long keys would exceed the memory budget.
/// go-car has the same limit for its indices.
pub(crate) const MAX_CID: u32 = 2 << 10;

/// Reads the parts of the CID at the front of `bytes`, which need not include the digest. `None` if the bytes are too few.
pub fn read_cid(bytes: &[u8]) -> Result<Option<CidSpan>, CarProblem> {
    cid_within(bytes, bytes.len())
}

/// Reads the CID of a section of `section` bytes that begins with `bytes`. An error does not depend on their number.
fn cid_within(bytes: &[u8], section: usize) -> Result<Option<CidSpan>, CarProblem> {
    // CIDv0: a bare sha2-256 multihash. Anything else begins with its version.
    if let [0x12, 0x20, ..] = bytes {
        return Ok(Some(CidSpan { len: 34, multihash: 0, digest: 2, codec: 0x70, hash: 0x12 }));
    }
    if bytes == [0x12] {
        return Ok(None);
    }
    let mut at = 0;
    let mut number = |what| {
        let found = varint::read(bytes.get(at..).unwrap_or_default(), what)?;
        Ok(found.map(|(value, len)| {
            at += len;
            (value, at as u32)
        }))
    };
    let Some((version, _)) = number("a CID's version")? else { return Ok(None) };
    if version != 1 {
        return Err(CarProblem::CidVersion { version });
    }
    let Some((codec, multihash)) = number("a CID's codec")? else { return Ok(None) };
    let Some((hash, _)) = number("a CID's hash function")? else { return Ok(None) };
    let Some((digest_len, digest)) = number("a digest's length")? else { return Ok(None) };
    // A digest is at most as long as its section, and a section is under 4 GiB.
    let Some(len) = u32::try_from(digest_len).ok().and_then(|len| digest.checked_add(len)) else {
        return Err(CarProblem::DigestTooLong { digest: digest_len, section: section as u64 });
    };
    Ok(Some(CidSpan { len, multihash, digest, codec, hash }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(cid: &[u8], data: &[u8]) -> Vec<u8> {
        let mut buffer = unsigned_varint::encode::u64_buffer();
        let mut bytes = unsigned_varint::encode::u64((cid.len() + data.len()) as u64, &mut buffer).to_vec();
        bytes.extend(cid);
        bytes.extend(data);
        bytes
    }

    const RAW_IDENTITY: [u8; 6] = [1, 0x55, 0, 2, b'h', b'i'];

    #[test]
    fn cid_version_0_is_a_bare_multihash() {
        let mut cid = vec![0x12, 0x20];
        cid.extend([7; 32]);
        let bytes = section(&cid, b"data");
        let Ok(Step::Section(found)) = next_section(&bytes, 0, 1000) else { panic!("no section") };
        assert_eq!(found.cid, CidSpan { len: 34, multihash: 0, digest: 2, codec: 0x70, hash: 0x12 });
        assert_eq!(&bytes[found.cid_start + 34..found.end], b"data");
    }

    #[test]
    fn empty_block_is_a_section() {
        let bytes = section(&[1, 0x55, 0, 0], b"");
        let Ok(Step::Section(found)) = next_section(&bytes, 0, 1000) else { panic!("no section") };
        assert_eq!(found.end - found.cid_start, 4);
    }

    #[test]
    fn cut_names_the_part() {
        let bytes = section(&RAW_IDENTITY, &[0; 300]);
        let inside = |len: usize| match next_section(&bytes[..len], 0, 1000) {
            Ok(Step::Cut { inside, .. }) => inside,
            other => panic!("{other:?}"),
        };
        assert_eq!(inside(1), "a section's length");
        assert_eq!(inside(2), "a CID");
        assert_eq!(inside(5), "a CID");
        assert_eq!(inside(7), "a CID");
        assert_eq!(inside(8), "a block");
        assert_eq!(inside(bytes.len() - 1), "a block");
    }

    #[test]
    fn claimed_length_is_limited() {
        let mut bytes = vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x06];
        bytes.extend(RAW_IDENTITY);
        let (problem, at) = next_section(&bytes, 0, 1 << 31).unwrap_err();
        assert_eq!((problem, at), (CarProblem::BlockTooLarge { len: 206_158_430_208, max: 1 << 31 }, 0));
    }

    #[test]
    fn digest_longer_than_section_is_refused() {
        let mut bytes = vec![10, 1, 0x55, 0, 120];
        bytes.extend([0; 200]);
        assert_eq!(next_section(&bytes, 0, 1000), Err((CarProblem::DigestTooLong { digest: 120, section: 10 }, 1)));
        // Also when the section has not come in whole yet.
        assert_eq!(
            next_section(&bytes[..7], 0, 1000),
            Err((CarProblem::DigestTooLong { digest: 120, section: 10 }, 1))
        );
    }

    #[test]
    fn section_too_short_for_its_cid_is_refused() {
        let bytes = [3, 1, 0x55, 0, 9, 9, 9];
        assert_eq!(next_section(&bytes, 0, 1000), Err((CarProblem::SectionTooShort { len: 3 }, 1)));
    }

    #[test]
    fn cid_version_2_is_refused() {
        let bytes = [4, 2, 0x55, 0, 0];
        assert_eq!(next_section(&bytes, 0, 1000), Err((CarProblem::CidVersion { version: 2 }, 1)));
    }

    #[test]
    fn padding_and_the_end_are_distinguished() {
        assert_eq!(next_section(&[0, 0], 0, 1000), Ok(Step::Padding));
        assert_eq!(next_section(&[0, 0], 2, 1000), Ok(Step::End));
        assert_eq!(next_section(&[], 7, 1000), Ok(Step::End));
    }

    proptest::proptest! {
        #[test]
        fn sections_stay_within_the_buffer(bytes: Vec<u8>, at in 0usize..64) {
            if let Ok(Step::Section(found)) = next_section(&bytes, at, 1 << 20) {
                proptest::prop_assert!(found.end <= bytes.len());
                proptest::prop_assert!(found.cid_start + found.cid.len as usize <= found.end);
                proptest::prop_assert!(found.cid.multihash <= found.cid.digest && found.cid.digest <= found.cid.len);
            }
        }

        #[test]
        fn problem_is_the_same_for_fewer_bytes(
            numbers: [u64; 4], bits in proptest::array::uniform4(0u32..64), version_1: bool, data in proptest::collection::vec(0u8.., 0..90),
        ) {
            let mut cid = Vec::new();
            for (number, bits) in numbers.into_iter().zip(bits).skip(usize::from(version_1)) {
                cid.extend(unsigned_varint::encode::u64(number >> bits, &mut unsigned_varint::encode::u64_buffer()));
            }
            if version_1 {
                cid.insert(0, 1);
            }
            let bytes = section(&cid, &data);
            let whole = next_section(&bytes, 0, 1 << 20);
            for len in 1..bytes.len() {
                match next_section(&bytes[..len], 0, 1 << 20) {
                    Ok(Step::Cut { .. }) => {}
                    early => proptest::prop_assert_eq!(&early, &whole),
                }
            }
        }

        #[test]
        fn cids_agree_with_the_cid_crate(codec: u64, hash: u64, digest in proptest::collection::vec(0u8.., 0..64), data: Vec<u8>) {
            let multihash = cid::multihash::Multihash::<64>::wrap(hash, &digest).expect("short digest");
            let cid = cid::Cid::new_v1(codec, multihash).to_bytes();
            let bytes = section(&cid, &data);
            let Ok(Step::Section(found)) = next_section(&bytes, 0, 1 << 20) else { panic!("no section") };
            proptest::prop_assert_eq!(&bytes[found.cid_start..found.cid_start + found.cid.len as usize], &cid[..]);
            proptest::prop_assert_eq!((found.cid.codec, found.cid.hash), (codec, hash));
            proptest::prop_assert_eq!(&cid[found.cid.digest as usize..], &digest[..]);
            proptest::prop_assert_eq!(&bytes[found.cid_start + cid.len()..], &data[..]);
        }
    }
}
