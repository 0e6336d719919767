//! Numbers as RocksDB reads them: `64M` is 64 MiB, for counts as well as for bytes.
//!
//! RocksDB's own reader looks at one letter after the digits and ignores the rest (`64MB` is `64M`, `64X` is 64), and
//! shifts without looking for overflow; so numbers are read here and handed on in plain digits.

/// Reads a whole number with an optional binary unit.
///
/// # Errors
/// In words: what is wrong with the text.
pub fn whole(text: &str) -> Result<i128, String> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = rest.split_at(digits);
    if number.is_empty() {
        return Err("a whole number is needed".into());
    }
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ if unit.len() > 1
            && matches!(unit.as_bytes(), [b'k' | b'K' | b'm' | b'M' | b'g' | b'G' | b't' | b'T', ..]) =>
        {
            let letter = unit.get(..1).unwrap_or_default();
            return Err(format!("`{unit}` is not a unit RocksDB knows; write {number}{letter} (binary, as in MiB)"));
        }
        _ => return Err(format!("`{unit}` is not a unit; there are K, M, G and T")),
    };
    let overflow = || "it does not fit into 64 bits".to_owned();
    let number: u64 = number.parse().map_err(|_| overflow())?;
    let value = number.checked_mul(1 << shift).ok_or_else(overflow)?;
    Ok(if negative { -i128::from(value) } else { i128::from(value) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_binary_and_of_one_letter() {
        assert_eq!(whole("64M"), Ok(64 << 20));
        assert_eq!(whole("1t"), Ok(1 << 40));
        assert_eq!(whole("-1"), Ok(-1));
        assert_eq!(
            whole("64MB").expect_err("not a number"),
            "`MB` is not a unit RocksDB knows; write 64M (binary, as in MiB)"
        );
        assert_eq!(whole("64X").expect_err("not a number"), "`X` is not a unit; there are K, M, G and T");
        assert_eq!(whole("").expect_err("not a number"), "a whole number is needed");
        assert_eq!(whole("M").expect_err("not a number"), "a whole number is needed");
        assert_eq!(whole("64µ").expect_err("not a number"), "`µ` is not a unit; there are K, M, G and T");
    }

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(whole("16777215T"), Ok(16_777_215 << 40));
        assert_eq!(whole("16777216T").expect_err("not a number"), "it does not fit into 64 bits");
        assert_eq!(whole("99999999999999999999").expect_err("not a number"), "it does not fit into 64 bits");
    }

    proptest! {
        #[test]
        fn a_unit_multiplies_by_a_power_of_1024(number in any::<u64>(), unit in 0usize..5) {
            let model = u128::from(number) << (10 * unit);
            let letter = ["", "K", "M", "G", "T"][unit];
            let read = whole(&format!("{number}{letter}"));
            if model <= u128::from(u64::MAX) {
                prop_assert_eq!(read, Ok(i128::try_from(model).expect("fits")));
            } else {
                prop_assert!(read.is_err());
            }
        }
    }
}
