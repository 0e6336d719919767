//! `--shard`: one of several equal parts of a source.

use crate::sort::shard::{MAX_SHARDS, Shard};

/// Parses `I/N`.
pub fn parse(text: &str) -> Result<Shard, String> {
    let wrong = || format!("`{text}` is not a shard: write it as 0/16 .. 15/16");
    let (number, of) = text.split_once('/').ok_or_else(wrong)?;
    let parse = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let of = parse(of).ok_or_else(wrong)?;
    if !(1..=MAX_SHARDS).contains(&of) {
        return Err(format!("there can be 1 to {MAX_SHARDS} shards, and not {of}"));
    }
    let out = || format!("there is no shard {text}: they are counted from 0, so the last one is {}/{of}", of - 1);
    Shard::new(parse(number).ok_or_else(wrong)?, of).ok_or_else(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_0() {
        assert_eq!(parse("0/16"), Ok(Shard { number: 0, of: 16 }));
        assert_eq!(parse("15/16"), Ok(Shard { number: 15, of: 16 }));
        let last = parse("16/16").expect_err("counted from 0");
        assert!(last.contains("counted from 0, so the last one is 15/16"), "{last}");
        for text in ["", "3", "1/", "/4", "a/4", "-1/4", "+1/4", "1/4/8", "0/0", "0/65537", "auto/4", "0/99999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
