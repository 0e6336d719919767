//! The text of `ldb --hex dump`.

use data_encoding::HEXUPPER;

use super::frame::put_record;
use super::header::END;
use super::problem::{Fault, MAX_KEY, RecordLimits, long_key, text_fault};

const SEPARATOR: &[u8] = b" ==> ";

/// Returns the bytes of whole lines.
pub(super) fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// Returns the number in the last line `Keys in range: N`, and the offset of that line.
pub(super) fn last_line(text: &[u8]) -> Option<(usize, u64)> {
    let line = text.strip_suffix(b"\n")?;
    let start = whole_lines(line);
    let number = std::str::from_utf8(line.get(start..)?.strip_prefix(END)?).ok()?;
    // `parse` also takes a sign and zeros before the number.
    number.parse().ok().filter(|records: &u64| records.to_string() == number).map(|records| (start, records))
}

/// Decodes lines to records, and appends these to `to`, and their offsets to `starts`. Returns the offset of the first wrong line,
/// and what is wrong.
pub(super) fn decode(text: &[u8], limits: &RecordLimits, to: &mut Vec<u8>, starts: &mut Vec<u32>) -> Result<(), Fault> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut at = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let start = at;
        at += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let wrong = |reason: &'static str| text_fault(start, reason);
        if line.ends_with(b"\r") {
            return Err(wrong("a line ends with CR and LF, so another program has changed the text"));
        }
        if line.starts_with(END) {
            return Err(wrong("more text follows the line `Keys in range`: give each dump by its own name"));
        }
        let middle = line.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let middle =
            middle.ok_or_else(|| wrong("a line is not `0xKEY ==> 0xVALUE` (`scan` writes other lines than `dump`)"))?;
        let (left, right) =
            (line.get(..middle).unwrap_or_default(), line.get(middle + SEPARATOR.len()..).unwrap_or_default());
        if left.contains(&b'|') {
            return Err(wrong("a key has a user timestamp, which a copy cannot have"));
        }
        if right.starts_with(b":") {
            return Err(wrong("a value has wide columns, which a copy cannot have"));
        }
        unhex(left, &mut key).ok_or_else(|| wrong("a key is not `0x` and pairs of hex digits with capital letters"))?;
        unhex(right, &mut value)
            .ok_or_else(|| wrong("a value is not `0x` and pairs of hex digits with capital letters"))?;
        if key.len() > MAX_KEY as usize {
            return Err((start, long_key(key.len())));
        }
        if let Some(problem) = limits.refuse(value.len() as u64) {
            return Err((start, problem));
        }
        starts.push(to.len() as u32);
        put_record(to, &key, &value);
    }
    Ok(())
}

/// Decodes `0x` and hex digits. `ldb --hex` writes capital letters; small ones may be text of `ldb` without `--hex`.
fn unhex(text: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix(b"0x")?;
    to.resize(digits.len() / 2, 0);
    (digits.len() % 2 == 0).then_some(())?;
    HEXUPPER.decode_mut(digits, to).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::frame::record_at;
    use super::*;

    const LIMITS: RecordLimits =
        RecordLimits { max_value: 1 << 20, fits: 1 << 19, budget: 1 << 30, chunk: 1 << 16, allow_no_trailer: false };

    /// A key and a value.
    type Pair = (Vec<u8>, Vec<u8>);

    fn decoded(text: &str) -> Result<Vec<Pair>, Fault> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        decode(text.as_bytes(), &LIMITS, &mut bytes, &mut starts)?;
        let pair = |at: &u32| record_at(&bytes, *at as usize).map(|(key, value)| (key.to_vec(), value.to_vec()));
        let pair = |at: &u32| pair(at).expect("whole");
        Ok(starts.iter().map(pair).collect())
    }

    #[test]
    fn lines_become_records() {
        let text = "0x00FF ==> 0xAB\n0x ==> 0x\n";
        let expected = vec![(vec![0, 255], vec![0xab]), (vec![], vec![])];
        assert_eq!(decoded(text).expect("valid"), expected);
    }

    #[test]
    fn wrong_lines_are_refused_with_their_place() {
        let good = "0x00 ==> 0x00\n";
        for (line, words) in [
            ("0x0 ==> 0x00", "a key is not `0x` and pairs of hex digits"),
            ("0xab ==> 0x00", "a key is not `0x` and pairs of hex digits with capital letters"),
            ("0x00 ==> 0x0", "a value is not `0x` and pairs of hex digits"),
            ("0x00 ==> 0xAb", "a value is not `0x` and pairs of hex digits with capital letters"),
            ("0x00 ==> 00", "a value is not `0x` and pairs of hex digits"),
            ("0x00 ==> 0x00\r", "CR and LF"),
            ("0x00 => 0x00", "is not `0xKEY"),
            ("0x00", "is not `0xKEY"),
            ("", "is not `0xKEY"),
            ("0x00|timestamp:7 ==> 0x00", "a user timestamp"),
            ("0x00 ==> :0x00 a:0x01", "wide columns"),
            ("Keys in range: 1", "more text follows"),
        ] {
            let (at, reason) = decoded(&format!("{good}{line}\n{good}")).expect_err(line);
            assert_eq!((at, reason.to_string().contains(words)), (good.len(), true), "{line}: {reason}");
        }
    }

    #[test]
    fn last_line_has_the_number_of_records() {
        assert_eq!(last_line(b"0x ==> 0x\nKeys in range: 1\n"), Some((10, 1)));
        assert_eq!(last_line(b"Keys in range: 0\n"), Some((0, 0)));
        for text in
            ["Keys in range: 1", "Keys in range: \n", "Keys in range: +1\n", "Keys in range: 01\n", "0x ==> 0x\n", ""]
        {
            assert_eq!(last_line(text.as_bytes()), None, "{text}");
        }
    }
}
