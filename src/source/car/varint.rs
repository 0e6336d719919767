//! Unsigned LEB128 numbers of multiformats: at most 10 bytes, minimal.

use unsigned_varint::decode::{self, Error};

use super::CarProblem;

/// Reads a number at the front of `bytes`, and returns it with its length. `None` if the bytes end inside it.
pub(crate) fn read(bytes: &[u8], what: &'static str) -> Result<Option<(u64, usize)>, CarProblem> {
    // Most numbers in CIDs have one byte, most lengths of sections two.
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
    fn overlong_number_is_refused() {
        let eleven = [0xff; 11];
        assert_eq!(read(&eleven, "a length"), Err(CarProblem::VarintTooLong { what: "a length" }));
    }

    #[test]
    fn number_of_65_bits_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(read(&bytes, "a length"), Ok(Some((u64::MAX, 10))));
        for tenth in 2..=0xff {
            bytes[9] = tenth;
            assert_eq!(read(&bytes, "a length"), Err(CarProblem::VarintTooLong { what: "a length" }), "{tenth}");
        }
    }

    #[test]
    fn non_minimal_number_is_refused() {
        assert_eq!(read(&[0x81, 0x00], "a length"), Err(CarProblem::VarintNotMinimal { what: "a length" }));
    }

    #[test]
    fn cut_number_needs_more() {
        assert_eq!(read(&[0x80, 0x80], "a length"), Ok(None));
        assert_eq!(read(&[], "a length"), Ok(None));
    }

    proptest::proptest! {
        #[test]
        fn numbers_read_back(value: u64, tail: Vec<u8>) {
            let mut buffer = unsigned_varint::encode::u64_buffer();
            let encoded = unsigned_varint::encode::u64(value, &mut buffer).to_vec();
            let mut bytes = encoded.clone();
            bytes.extend(tail);
            proptest::prop_assert_eq!(read(&bytes, "x"), Ok(Some((value, encoded.len()))));
        }
    }
}
