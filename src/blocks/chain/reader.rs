//! A position in the bytes of a block.

use super::ChainProblem;

/// The most bytes that a number of 32 bits takes in base 128.
const VARINT_BYTES: usize = 5;

#[derive(Debug, Clone)]
pub(super) struct BlockReader<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(block: &'a [u8], at: usize) -> Self {
        Self { block, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.block.len().saturating_sub(self.at)
    }

    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.block.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn take(&mut self, len: usize, inside: &'static str) -> Result<&'a [u8], ChainProblem> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.block.get(self.at..end));
        let taken = taken.ok_or(ChainProblem::Truncated { offset: self.at, inside })?;
        self.at += len;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, inside: &'static str) -> Result<[u8; N], ChainProblem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, inside)?);
        Ok(bytes)
    }

    pub(super) fn u8(&mut self, inside: &'static str) -> Result<u8, ChainProblem> {
        self.array(inside).map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self, inside: &'static str) -> Result<u32, ChainProblem> {
        self.array(inside).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, inside: &'static str) -> Result<u64, ChainProblem> {
        self.array(inside).map(u64::from_le_bytes)
    }

    pub(super) fn bool(&mut self, what: &'static str) -> Result<bool, ChainProblem> {
        let offset = self.at;
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(ChainProblem::Unexpected { offset, expected: "0 or 1", found: found.into() }),
        }
    }

    /// Reads a number in base 128, the lowest digits first. Like nodes, it accepts more bytes than needed.
    pub(super) fn varint(&mut self, what: &'static str) -> Result<u32, ChainProblem> {
        let offset = self.at;
        let mut value = 0u64;
        for digit in 0..VARINT_BYTES {
            let byte = self.u8(what).map_err(|_| ChainProblem::Truncated { offset, inside: what })?;
            value |= u64::from(byte & 0x7f) << (7 * digit);
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| ChainProblem::VarintTooLong { offset, what });
            }
        }
        Err(ChainProblem::VarintTooLong { offset, what })
    }

    /// Reads a count of at most `max` parts, each of at least `least` bytes. A count that the rest has no room for is
    /// refused.
    pub(super) fn count(&mut self, what: &'static str, max: u32, least: usize) -> Result<u32, ChainProblem> {
        let offset = self.at;
        let len = self.varint(what)?;
        if len > max {
            return Err(ChainProblem::TooLong { offset, what, len, max });
        }
        if (len as usize).saturating_mul(least) > self.left() {
            return Err(ChainProblem::Truncated { offset: self.at, inside: what });
        }
        Ok(len)
    }

    /// Reads a length of at most `max`, and as many bytes.
    pub(super) fn bytes(&mut self, what: &'static str, max: u32) -> Result<&'a [u8], ChainProblem> {
        let len = self.count(what, max, 1)?;
        self.take(len as usize, what)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn number_over_32_bits_is_reported() {
        let read = |bytes: &[u8]| BlockReader::new(bytes, 0).varint("a count");
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x00]), Ok(0));
        let too_long = Err(ChainProblem::VarintTooLong { offset: 0, what: "a count" });
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), too_long);
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), too_long);
        assert_eq!(read(&[0x80, 0x80]), Err(ChainProblem::Truncated { offset: 0, inside: "a count" }));
    }

    #[test]
    fn impossible_count_is_reported() {
        let mut reader = BlockReader::new(&[3, 0, 0, 0, 0, 0], 0);
        assert_eq!(reader.count("a list", 3, 2), Err(ChainProblem::Truncated { offset: 1, inside: "a list" }));
        let mut reader = BlockReader::new(&[4, 0, 0, 0, 0, 0], 0);
        let too_long = ChainProblem::TooLong { offset: 0, what: "a list", len: 4, max: 3 };
        assert_eq!(reader.count("a list", 3, 1), Err(too_long));
    }

    proptest! {
        #[test]
        fn varints_match_the_reference_crate(value: u32, rest in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut buffer = unsigned_varint::encode::u32_buffer();
            let mut bytes = unsigned_varint::encode::u32(value, &mut buffer).to_vec();
            let len = bytes.len();
            bytes.extend(rest);
            let mut reader = BlockReader::new(&bytes, 0);
            prop_assert_eq!(reader.varint("a number"), Ok(value));
            prop_assert_eq!(reader.at(), len);
        }
    }
}
