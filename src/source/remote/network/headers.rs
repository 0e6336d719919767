//! Facts about a file in the headers of an answer.

use std::ops::Range;
use std::time::Duration;

use data_encoding::BASE64;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};

use super::RemotePin;
use super::fault::Fault;
use super::problem::RemoteProblem;

/// Headers with the checksums of S3 and their type.
const SUM_PREFIX: &str = "x-amz-checksum-";
const SUM_TYPE: &str = "x-amz-checksum-type";
const MAX_FACT: usize = 512;
const HASHED: &str = "BLAKE3 ";
/// Longest `Retry-After` that is honoured.
const MAX_PAUSE: Duration = Duration::from_secs(120);

impl RemotePin {
    /// True if no fact that both have differs, and `answer` has the tag or the time, if one of them is known.
    pub(super) fn agrees(&self, answer: &Self) -> bool {
        fn same<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        let has_version = |pin: &Self| pin.etag.is_some() || pin.modified.is_some();
        same(&self.bytes, &answer.bytes)
            && same(&self.etag, &answer.etag)
            && same(&self.modified, &answer.modified)
            && (has_version(answer) || !has_version(self))
    }

    /// Returns the tag if it covers every byte and is the server's own.
    pub(super) fn strong(&self) -> Option<&String> {
        self.etag.as_ref().filter(|tag| !tag.starts_with("W/") && !tag.starts_with(HASHED))
    }
}

/// Returns the checksums of a whole object of S3. Checksums of parts are useless without the lengths of the parts.
pub(super) fn stored_sums(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let is_whole = match fact(headers, SUM_TYPE) {
        Some(kind) => kind.eq_ignore_ascii_case("FULL_OBJECT"),
        // If the type is missing: the tag of an object uploaded in parts ends with their number.
        None => fact(headers, header::ETAG.as_str()).is_some_and(|etag| !etag.contains('-')),
    };
    if !is_whole {
        return Vec::new();
    }
    let sum = |name: &HeaderName| {
        let function = name.as_str().strip_prefix(SUM_PREFIX)?.to_owned();
        // A checksum of parts ends with `-` and their number, which is not base64.
        Some((function, BASE64.decode(fact(headers, name.as_str())?.as_bytes()).ok()?))
    };
    headers.keys().filter_map(sum).collect()
}

pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, known: &RemotePin) -> Fault {
    let answer = status.to_string();
    let changed = |found: RemotePin| match found == RemotePin::default() {
        true => Fault::Changed(format!("another file, for which the server only answers {answer}")),
        false => Fault::Changed(found.describe()),
    };
    match status.as_u16() {
        412 => {
            let etag = fact(headers, "etag").filter(|etag| known.etag.as_ref() != Some(etag));
            changed(RemotePin { etag, ..RemotePin::default() })
        }
        // The file ends before the range.
        416 if known.bytes.is_some() => changed(RemotePin {
            bytes: fact(headers, "content-range").and_then(|text| text.rsplit_once('/')?.1.parse().ok()),
            ..RemotePin::default()
        }),
        404 | 410 => Fault::Permanent(RemoteProblem::NotFound { answer }),
        401 | 403 | 407 => Fault::Permanent(RemoteProblem::Denied { answer }),
        408 | 425 | 429 | 500..=599 => {
            Fault::Transient { what: format!("the server answers {answer}"), pause: retry_after(headers) }
        }
        _ => Fault::Permanent(RemoteProblem::Refused { answer }),
    }
}

/// Returns the delay requested by `Retry-After`.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = fact(headers, header::RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_PAUSE))
}

/// Returns the tag of a file, or a hash of a tag that is too long or not printable.
pub(super) fn tag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(header::ETAG)?;
    fact(headers, header::ETAG.as_str()).or_else(|| hashed(tag.as_bytes()))
}

pub(super) fn store_tag(tag: String) -> Option<String> {
    if tag.len() <= MAX_FACT { Some(tag) } else { hashed(tag.as_bytes()) }
}

fn hashed(tag: &[u8]) -> Option<String> {
    (!tag.is_empty()).then(|| format!("{HASHED}{}", blake3::hash(tag).to_hex()))
}

/// Returns a short header of printable characters.
pub(super) fn fact(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (!text.is_empty() && text.len() <= MAX_FACT).then(|| text.to_owned())
}

/// Returns the range in an answer, and the length of the file.
pub(super) fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let text = fact(headers, header::CONTENT_RANGE.as_str())?;
    let (range, whole) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let end = last.checked_add(1)?;
    let whole = whole.trim().parse().ok();
    (first < end && whole.is_none_or(|whole| end <= whole)).then_some((first..end, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header"));
        headers
    }

    #[test]
    fn invalid_content_ranges_are_ignored() {
        let range = |text: &str| content_range(&headers("content-range", text));
        assert_eq!(range("bytes 0-9/100"), Some((0..10, Some(100))));
        assert_eq!(range("bytes 5-5/*"), Some((5..6, None)));
        for wrong in
            ["", "bytes 9-5/100", "bytes 0-100/100", "bytes */100", "0-9/100", "bytes 0-18446744073709551615/*"]
        {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn stored_sums_cover_whole_objects() {
        let found = |pairs: &[(&'static str, &str)]| {
            let all =
                pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header")));
            stored_sums(&all.collect())
        };
        let crc = ("x-amz-checksum-crc32c", "4waSgw==");
        let sum = vec![("crc32c".to_owned(), vec![0xe3, 0x06, 0x92, 0x83])];
        assert_eq!(found(&[crc, ("x-amz-checksum-type", "FULL_OBJECT"), ("etag", "\"a\"")]), sum);
        assert_eq!(found(&[crc, ("etag", "\"a\"")]), sum, "some servers do not say which");
        assert_eq!(found(&[crc, ("etag", "\"a-2\"")]), []);
        assert_eq!(found(&[crc]), []);
        assert_eq!(found(&[crc, ("x-amz-checksum-type", "COMPOSITE")]), []);
        for wrong in ["4waSgw==-2", "not base64"] {
            assert_eq!(found(&[("x-amz-checksum-crc32c", wrong), ("etag", "\"a\"")]), [], "{wrong}");
        }
    }

    #[test]
    fn retry_after_is_bounded() {
        let of = |text: &str| retry_after(&headers("retry-after", text));
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of("99999999"), Some(MAX_PAUSE));
        assert_eq!(of("soon"), None);
    }

    #[test]
    fn pins_agree_unless_a_fact_differs() {
        let facts =
            |bytes, etag: &str| RemotePin { bytes: Some(bytes), etag: Some(etag.into()), ..RemotePin::default() };
        assert!(facts(1, "a").agrees(&facts(1, "a")) && RemotePin::default().agrees(&facts(1, "a")));
        assert!(!facts(1, "a").agrees(&RemotePin { bytes: Some(1), ..RemotePin::default() }), "the tag disappeared");
        assert!(!facts(1, "a").agrees(&facts(2, "a")) && !facts(1, "a").agrees(&facts(1, "b")));
        assert_eq!((facts(1, "W/\"a\"").strong(), facts(1, "\"a\"").strong().is_some()), (None, true));
    }
}
