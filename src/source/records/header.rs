//! The beginnings of streams.

use serde::{Deserialize, Serialize};

use super::problem::{Fault, MAX_KEY, fault};

const KV: &[u8; 8] = b"BEDLOADK";
const ROCKDUMP: &[u8; 8] = b"ROCKDUMP";

/// The version of `kv`, and that of ROCKDUMP, which is compared as bytes.
const VERSION: u32 = 1;
const ROCKDUMP_VERSION: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

/// The flag of a stream whose records are sorted.
const SORTED: u32 = 1;

/// The most column families, the most bytes of a header, and the most bytes of ROCKDUMP's info. RocksDB takes about 256 KiB of memory for a column family.
const MAX_FAMILIES: u32 = 256;
pub(super) const MAX_HEADER: usize = 1 << 20;
const MAX_INFO: u32 = 64 << 10;

/// The first words of lines of `ldb` that are no records.
const THREAD: &[u8] = b"Created bg thread 0x";
pub(super) const END: &[u8] = b"Keys in range: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordFormat {
    Kv,
    Rockdump,
    LdbDump,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    pub format: RecordFormat,
    /// The names of the column families; none if the caller names the only one.
    pub families: Vec<String>,
    pub is_sorted: bool,
    /// The offset of the first record.
    pub start: usize,
}

impl RecordFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Rockdump => "rockdump",
            Self::LdbDump => "ldb-dump",
        }
    }

    /// True if the end of a whole stream is marked.
    pub fn has_trailer(self) -> bool {
        self != Self::Rockdump
    }
}

/// Appends the header of a `kv` stream.
pub fn put_header(to: &mut Vec<u8>, families: &[String], is_sorted: bool) {
    to.extend(KV);
    let number = |to: &mut Vec<u8>, number: usize| to.extend((number as u32).to_le_bytes());
    [VERSION as usize, usize::from(is_sorted), families.len()].into_iter().for_each(|field| number(to, field));
    for name in families {
        number(to, name.len());
        to.extend(name.as_bytes());
    }
}

/// True if the text is of `ldb dump` without `--hex`.
pub fn is_plain_dump(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    detect(head).is_none() && line.windows(5).any(|window| window == b" ==> ")
}

/// Detects the format by the first bytes of a stream.
pub fn detect(head: &[u8]) -> Option<RecordFormat> {
    if head.starts_with(KV) {
        return Some(RecordFormat::Kv);
    }
    if head.starts_with(ROCKDUMP) {
        return Some(RecordFormat::Rockdump);
    }
    let mut lines = head.split(|byte| *byte == b'\n').skip_while(|line| line.starts_with(THREAD));
    let line = lines.next()?;
    let is_hex =
        |rest: &[u8]| rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() > 0 || rest.starts_with(b" ==> ");
    (line.strip_prefix(b"0x").is_some_and(is_hex) || line.starts_with(END)).then_some(RecordFormat::LdbDump)
}

/// Numbers and texts at the front of a header.
struct Fields<'a> {
    head: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.head.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

/// Reads the header at the front of `head`. `None`: it has more bytes. An error has its offset and its reason.
pub(super) fn read_header(head: &[u8], format: RecordFormat) -> Result<Option<RecordHeader>, Fault> {
    let mut fields = Fields { head, at: 8 };
    let header = match format {
        RecordFormat::Kv => read_kv(&mut fields)?,
        RecordFormat::Rockdump => read_rockdump(&mut fields)?,
        RecordFormat::LdbDump => {
            let lines = head
                .split_inclusive(|byte| *byte == b'\n')
                .take_while(|line| THREAD.starts_with(&line[..line.len().min(THREAD.len())]));
            let start = lines.map(<[u8]>::len).sum::<usize>();
            head[..start].iter().last().is_none_or(|last| *last == b'\n').then(|| (Vec::new(), false, start))
        }
    };
    Ok(header.map(|(families, is_sorted, start)| RecordHeader { format, families, is_sorted, start }))
}

type Parts = Option<(Vec<String>, bool, usize)>;

fn read_kv(fields: &mut Fields<'_>) -> Result<Parts, Fault> {
    let Some(version) = fields.number() else { return Ok(None) };
    if version != VERSION {
        return Err(fault(8, format!("the stream has version {version} of kv, and this program reads version 1")));
    }
    let Some(flags) = fields.number() else { return Ok(None) };
    if flags & !SORTED != 0 {
        return Err(fault(12, format!("the flags {flags:#x} of the stream are unknown")));
    }
    let Some(count) = fields.number() else { return Ok(None) };
    if count == 0 || count > MAX_FAMILIES {
        return Err(fault(16, format!("the stream names {count} column families, and 1 to 256 are possible")));
    }
    let mut families: Vec<String> = Vec::new();
    for _ in 0..count {
        let at = fields.at;
        let Some(len) = fields.number() else { return Ok(None) };
        if len == 0 || len > MAX_KEY || at > MAX_HEADER {
            return Err(fault(at, format!("a name of a column family has {len} bytes")));
        }
        let Some(name) = fields.take(len as usize) else { return Ok(None) };
        let name = String::from_utf8(name.to_vec());
        let name = name.ok().filter(|name| !name.contains('\0') && !families.contains(name));
        let reason = "a name of a column family occurs twice, has a NUL byte or is not UTF-8";
        families.push(name.ok_or_else(|| fault(at, reason))?);
    }
    Ok(Some((families, flags & SORTED != 0, fields.at)))
}

fn read_rockdump(fields: &mut Fields<'_>) -> Result<Parts, Fault> {
    let Some(version) = fields.take(8) else { return Ok(None) };
    if version != ROCKDUMP_VERSION {
        return Err(fault(8, format!("the version {} of ROCKDUMP is unknown", version.escape_ascii())));
    }
    let Some(len) = fields.number() else { return Ok(None) };
    if len > MAX_INFO {
        return Err(fault(16, format!("the info of ROCKDUMP has {len} bytes, and 65536 are possible")));
    }
    Ok(fields.take(len as usize).map(|_| (Vec::new(), false, fields.at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_header_is_read() {
        let (families, mut head) = (vec!["default".to_owned(), "a".to_owned()], Vec::new());
        put_header(&mut head, &families, true);
        let read = read_header(&head, RecordFormat::Kv).expect("valid").expect("whole");
        assert_eq!((read.families, read.is_sorted, read.start), (families, true, head.len()));
    }

    /// The header of a `kv` stream.
    fn kv(version: u32, flags: u32, families: &[&[u8]]) -> Vec<u8> {
        let mut head = KV.to_vec();
        for number in [version, flags, families.len() as u32] {
            head.extend(number.to_le_bytes());
        }
        for name in families {
            head.extend((name.len() as u32).to_le_bytes());
            head.extend(*name);
        }
        head
    }

    #[test]
    fn formats_are_detected_by_content() {
        for (head, format) in [
            (&b"BEDLOADK\x01"[..], Some(RecordFormat::Kv)),
            (b"ROCKDUMP\0", Some(RecordFormat::Rockdump)),
            (b"0x00 ==> 0x\n", Some(RecordFormat::LdbDump)),
            (b"0x ==> 0x00\n", Some(RecordFormat::LdbDump)),
            (b"Created bg thread 0x7f\n0xAB", Some(RecordFormat::LdbDump)),
            (b"Keys in range: 0\n", Some(RecordFormat::LdbDump)),
            (b"key ==> value\n", None),
            (b"0xg", None),
            (b"", None),
        ] {
            assert_eq!(detect(head), format, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn kv_header_needs_all_its_bytes() {
        let head = kv(1, 1, &[b"default", b"\n"]);
        let read = read_header(&head, RecordFormat::Kv).expect("valid").expect("whole");
        assert_eq!(
            (read.families, read.is_sorted, read.start),
            (vec!["default".into(), "\n".into()], true, head.len())
        );
        for cut in 8..head.len() {
            assert!(matches!(read_header(&head[..cut], RecordFormat::Kv), Ok(None)), "{cut}");
        }
    }

    #[test]
    fn wrong_headers_are_refused() {
        for (head, at, words) in [
            (kv(2, 0, &[b"a"]), 8, "version 2 of kv"),
            (kv(1, 2, &[b"a"]), 12, "the flags 0x2"),
            (kv(1, 0, &[]), 16, "names 0 column families"),
            (kv(1, 0, &[b""]), 20, "has 0 bytes"),
            (kv(1, 0, &[b"a", b"a"]), 25, "occurs twice"),
            (kv(1, 0, &[b"\xff"]), 20, "not UTF-8"),
        ] {
            let (found, reason) = read_header(&head, RecordFormat::Kv).expect_err(words);
            assert_eq!((found, reason.to_string().contains(words)), (at, true), "{reason}");
        }
    }
}
