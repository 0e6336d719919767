//! Sizes in bytes as RocksDB reads and people write them; numbers for people.
//!
//! `64M`, `64m`, `64MiB` and `67108864` are the same size: a letter is a power of 1024, as in RocksDB's option strings.
//! `64MB` is an error, because many readers take it for 64,000,000.

/// The units, the smallest first: letter and bytes.
const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];

/// Most digits after the point: more cannot change the whole bytes of a TiB.
const MAX_FRACTION: usize = 12;

/// A text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("`{0}` is not a size: write a number and a unit, as in 64M, 1.5GiB or 4096")]
    NoNumber(String),
    #[error("`{0}` is not a unit of size: use K, M, G or T (or KiB, MiB, GiB, TiB), powers of 1024")]
    UnknownUnit(String),
    #[error(
        "{number}{unit} may mean powers of 1000 or of 1024: write {number}{letter} or {number}{letter}iB for powers of 1024"
    )]
    DecimalUnit { number: String, unit: String, letter: char },
    #[error("`{0}` is not a whole number of bytes")]
    PartOfByte(String),
    #[error("`{0}` has more than {MAX_FRACTION} digits after the point")]
    TooFine(String),
    #[error("`{0}` is too large: the largest size is {max} bytes", max = u64::MAX)]
    Overflow(String),
}

/// Parses a size. With a unit, a fraction is allowed and rounded down to whole bytes: `1.5GiB`.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, rest) = trimmed.split_at(end);
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    if whole.is_empty() || fraction.is_some_and(|it| it.is_empty() || it.contains('.')) {
        return Err(SizeError::NoNumber(text.into()));
    }
    let factor = factor(number, rest.trim_start())?;
    let overflow = || SizeError::Overflow(text.into());
    let bytes = whole.parse::<u64>().ok().and_then(|it| it.checked_mul(factor)).ok_or_else(overflow)?;
    let Some(fraction) = fraction else { return Ok(bytes) };
    if factor == 1 {
        return Err(SizeError::PartOfByte(text.into()));
    }
    if fraction.len() > MAX_FRACTION {
        return Err(SizeError::TooFine(text.into()));
    }
    // At most 12 digits by at most 2^40: both sides fit.
    let digits: u128 = fraction.parse().map_err(|_| overflow())?;
    let part = digits * u128::from(factor) / 10u128.pow(fraction.len() as u32);
    u64::try_from(part).ok().and_then(|part| bytes.checked_add(part)).ok_or_else(overflow)
}

fn factor(number: &str, unit: &str) -> Result<u64, SizeError> {
    let mut chars = unit.chars();
    let Some(first) = chars.next() else { return Ok(1) };
    let tail = chars.as_str();
    if first.eq_ignore_ascii_case(&'B') && tail.is_empty() {
        return Ok(1);
    }
    let known = UNITS.iter().find(|(letter, _)| letter.eq_ignore_ascii_case(&first));
    match known {
        Some((_, factor)) if tail.is_empty() || tail.eq_ignore_ascii_case("iB") => Ok(*factor),
        Some((letter, _)) if tail.eq_ignore_ascii_case("B") => {
            Err(SizeError::DecimalUnit { number: number.into(), unit: unit.into(), letter: *letter })
        }
        _ => Err(SizeError::UnknownUnit(unit.into())),
    }
}

/// Formats a size with one digit after the point: `1.5 GiB`, `640.0 KiB`, `17 B`. [`parse`] reads it.
pub fn human(bytes: u64) -> String {
    // Tenths are rounded before the unit is chosen, so that 1048575 is 1.0 MiB and not 1024.0 KiB.
    let tenths = |factor: u64| (u128::from(bytes) * 10 + u128::from(factor) / 2) / u128::from(factor);
    let chosen = UNITS.iter().rev().find(|(_, factor)| bytes >= 1024 && tenths(*factor) >= 10);
    match chosen.map(|(letter, factor)| (letter, tenths(*factor))) {
        Some((letter, tenths)) => format!("{}.{} {letter}iB", tenths / 10, tenths % 10),
        None => format!("{bytes} B"),
    }
}

/// Groups digits: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a count: `1 problem`, `1,200 problems`.
pub fn counted(number: u64, one: &str, more: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {more}", grouped(number)) }
}

/// Formats a measured time in a suitable unit: `12 µs`, `3.20 ms`, `45 ms`, `1.25 s`, `2:00 min`, `3:33 h`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 5e-7 => "0 s".into(),
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 0.01 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 59.995 => format!("{seconds:.2} s"),
        _ => minutes(seconds.round() as u64),
    }
}

/// Formats whole seconds: `12 s`, `12:35 min` or `3:33 h`.
pub fn minutes(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_time_is_not_zero() {
        for (time, text) in [
            (0.0, "0 s"),
            (4e-6, "4 µs"),
            (0.000_999, "999 µs"),
            (0.0032, "3.20 ms"),
            (0.045, "45 ms"),
            (1.25, "1.25 s"),
            (59.99, "59.99 s"),
            (59.999, "1:00 min"),
            (120.4, "2:00 min"),
            (7300.0, "2:01 h"),
        ] {
            assert_eq!(seconds(time), text);
        }
    }

    #[test]
    fn unit_is_a_power_of_1024() {
        for text in ["64M", "64m", "64MiB", "64mib", "64MIB", "64 MiB", " 64M ", "67108864", "67108864B", "0.0625G"] {
            assert_eq!(parse(text), Ok(1 << 26), "{text}");
        }
        assert_eq!(parse("3K"), Ok(3 << 10));
        assert_eq!(parse("3G"), Ok(3 << 30));
        assert_eq!(parse("3TiB"), Ok(3 << 40));
        assert_eq!(parse("0"), Ok(0));
    }

    #[test]
    fn fractions_are_exact_down_to_the_byte() {
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("0.5K"), Ok(512));
        assert_eq!(parse("0.1K"), Ok(102));
        assert_eq!(parse("1.999999999999T"), Ok((1 << 41) - 2));
    }

    #[test]
    fn decimal_unit_is_rejected_with_spelling() {
        let message = |text: &str| parse(text).expect_err(text).to_string();
        assert_eq!(message("64MB"), "64MB may mean powers of 1000 or of 1024: write 64M or 64MiB for powers of 1024");
        assert_eq!(
            message("1.5 gb"),
            "1.5gb may mean powers of 1000 or of 1024: write 1.5G or 1.5GiB for powers of 1024"
        );
    }

    #[test]
    fn sizes_over_64_bits_are_rejected() {
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse("16777215T"), Ok(16_777_215 << 40));
        let expected = |text| format!("`{text}` is too large: the largest size is 18446744073709551615 bytes");
        for text in ["18446744073709551616", "16777216T", "20000000TiB", "99999999999999999999999999999999999999999"] {
            assert_eq!(parse(text).expect_err(text).to_string(), expected(text));
        }
    }

    #[test]
    fn text_without_number_is_rejected() {
        for text in ["", " ", "M", "-1", "+1", ".5G", "1.", "1.G", "1.2.3G", "x64M"] {
            let error = parse(text).expect_err(text);
            assert_eq!(
                error.to_string(),
                format!("`{text}` is not a size: write a number and a unit, as in 64M, 1.5GiB or 4096")
            );
        }
    }

    #[test]
    fn unknown_unit_is_rejected() {
        for (text, unit) in
            [("1P", "P"), ("1Mi", "Mi"), ("1MiBs", "MiBs"), ("1e9", "e9"), ("1 000", "000"), ("1ü", "ü")]
        {
            assert_eq!(parse(text), Err(SizeError::UnknownUnit(unit.into())), "{text}");
        }
    }

    #[test]
    fn part_of_a_byte_is_rejected() {
        assert_eq!(parse("1.5").expect_err("a fraction").to_string(), "`1.5` is not a whole number of bytes");
        assert_eq!(parse("1.5B"), Err(SizeError::PartOfByte("1.5B".into())));
        let fine = parse("1.0000000000001G").expect_err("13 digits");
        assert_eq!(fine.to_string(), "`1.0000000000001G` has more than 12 digits after the point");
    }

    #[test]
    fn human_size_has_one_digit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (900, "900 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (640 << 10, "640.0 KiB"),
            (u64::MAX, "16777216.0 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn plain_bytes_are_read_back(bytes in any::<u64>()) {
            prop_assert_eq!(parse(&bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn every_unit_is_the_plain_product(number in 0u64..1 << 30, unit in 0usize..4, long in any::<bool>()) {
            let (letter, factor) = UNITS[unit];
            let text = format!("{number}{letter}{}", if long { "iB" } else { "" });
            prop_assert_eq!(parse(&text).ok(), number.checked_mul(factor));
        }

        #[test]
        fn human_size_parses_back_to_a_twentieth(bytes in 0u64..1 << 60) {
            let text = human(bytes);
            let read = parse(&text).expect("readable");
            let unit = UNITS.iter().rev().map(|(_, factor)| *factor).find(|factor| *factor <= read).unwrap_or(1);
            prop_assert!(read.abs_diff(bytes) <= unit / 20 + 1, "{} read as {}", text, read);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}|[0-9.]{0,30}[KMGTkmgtiB ]{0,4}") {
            let _ = parse(&text);
        }
    }
}
