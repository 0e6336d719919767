//! Numbers as RocksDB reads them: `64M` is 64 MiB, for counts as well as for bytes.
//!
//! RocksDB's own reader ignores the rest after one letter (`64MB` is `64M`, `64X` is 64) and does not check for
//! overflow, so bedload passes plain digits.

use crate::text::size;

/// Reads a whole number with an optional sign and binary unit.
pub(crate) fn whole(text: &str) -> Result<i128, String> {
    let (sign, number) = text.strip_prefix('-').map_or((1, text), |number| (-1, number));
    size::parse(number).map(|number| sign * i128::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_accepts_sign_and_binary_unit() {
        assert_eq!(whole("64M"), Ok(64 << 20));
        assert_eq!(whole("-1"), Ok(-1));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX.into()));
        assert!(whole("--1").expect_err("two signs").contains("is not a size"));
    }
}
