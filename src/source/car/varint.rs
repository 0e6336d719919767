//! Unsigned LEB128 numbers as multiformats writes them: at most 10 bytes, minimal.

use unsigned_varint::decode::{self, Error};

use super::CarProblem;

/// Reads one number from the front of `bytes`: the number and its length in bytes; `None` when the bytes end inside it.
pub(crate) fn read(bytes: &[u8], what: &'static str) -> Result<Option<(u64, usize)>, CarProblem> {
    // One byte holds the parts of a CID, two the length of most sections.
    match *bytes {
        [low, ..] if low < 0x80 => return Ok(Some((u64::from(low), 1))),
        [low, high @ 1..0x80, ..] => return Ok(Some((u64::from(low & 0x7f) | u64::from(high) << 7, 2))),
        _ => {}
    }
    // Ten bytes hold 70 bits; the decoder drops those that do not fit.
    if let Some(&[.., tenth]) = bytes.first_chunk::<10>()
        && bytes.iter().take(9).all(|byte| byte & 0x80 != 0)
        && tenth > 1
    {
        return Err(CarProblem::VarintTooLong { what });
    }
    match decode::u64(bytes) {
        Ok((value, rest)) => Ok(Some((value, bytes.len() - rest.len()))),
        Err(Error::Insufficient) => Ok(None),
        Err(Error::NotMinimal) => Err(CarProblem::VarintNotMinimal { what }),
        Err(_) => Err(CarProblem::VarintTooLong { what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_number_is_refused() {
        let eleven = [0xff; 11];
        assert_eq!(read(&eleven, "a length"), Err(CarProblem::VarintTooLong { what: "a length" }));
    }

    #[test]
    fn a_number_of_65_bits_in_ten_bytes_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(read(&bytes, "a length"), Ok(Some((u64::MAX, 10))));
        for tenth in 2..=0xff {
            bytes[9] = tenth;
            assert_eq!(read(&bytes, "a length"), Err(CarProblem::VarintTooLong { what: "a length" }), "{tenth}");
        }
    }

    #[test]
    fn a_non_minimal_number_is_refused() {
        assert_eq!(read(&[0x81, 0x00], "a length"), Err(CarProblem::VarintNotMinimal { what: "a length" }));
    }

    #[test]
    fn a_number_that_is_cut_asks_for_more() {
        assert_eq!(read(&[0x80, 0x80], "a length"), Ok(None));
        assert_eq!(read(&[], "a length"), Ok(None));
    }

    proptest::proptest! {
        #[test]
        fn every_number_reads_back(value: u64, tail: Vec<u8>) {
            let mut buffer = unsigned_varint::encode::u64_buffer();
            let encoded = unsigned_varint::encode::u64(value, &mut buffer).to_vec();
            let mut bytes = encoded.clone();
            bytes.extend(tail);
            proptest::prop_assert_eq!(read(&bytes, "x"), Ok(Some((value, encoded.len()))));
        }
    }
}
