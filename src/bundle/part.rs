//! A part of a bundle: some column families, or the files that have keys of a range.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::document::{Bundle, BundleFile, families};
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::report::{Blocks, ImportReport, Part};

/// What to take of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Column families; all where none is named.
    pub families: Vec<String>,
    /// Keys of the blocks.
    pub range: Option<KeyRange>,
}

/// From the first key that begins with `first`, or is behind it, to the last one that begins with `last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl std::str::FromStr for KeyRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write it as A..B in hex, e.g. 0171a0e4022000..0171a0e402203f".to_owned();
        let (first, last) = text.split_once("..").ok_or_else(form)?;
        let key = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| form());
        let (first, last) = (key(first)?, key(last)?);
        match !last.is_empty() && first > last && !first.starts_with(&last) {
            true => Err("its first key is behind its last one".into()),
            false => Ok(Self { first, last }),
        }
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |key: &[u8]| data_encoding::HEXLOWER.encode(key);
        write!(f, "{}..{}", hex(&self.first), hex(&self.last))
    }
}

impl KeyRange {
    /// Whether a file with keys from `first` to `last` may have one of the range.
    fn meets(&self, first: &[u8], last: &[u8]) -> bool {
        last >= self.first.as_slice() && (first <= self.last.as_slice() || first.starts_with(&self.last))
    }
}

impl Selection {
    /// The bundle with nothing but what is wanted of it, and a record that is true for that. All of it where that is
    /// wanted.
    pub fn of(&self, id: &str, bundle: Bundle) -> Result<Bundle> {
        let wrong = |reason: String, hint: String| Err(Error::Usage { reason, hint });
        let record = &bundle.record;
        let known: Vec<String> = families(record).into_iter().map(|(name, _)| name).collect();
        let hint = || format!("this bundle has the column families {}", known.join(", "));
        if let Some(unknown) = self.families.iter().find(|name| !known.contains(name)) {
            return wrong(format!("the bundle has no column family `{unknown}`"), hint());
        }
        if !self.families.is_empty() && !self.families.contains(&record.column_family) {
            let reason = format!("without the column family `{}` there are no blocks", record.column_family);
            return wrong(reason, format!("give --column-family {} as well", record.column_family));
        }
        if self.range.is_some() && record.log.is_some() {
            return wrong(
                "a part of a block log cannot be taken by its keys: ids lead to blocks that would not be there".into(),
                "leave --only-range out; --column-family takes the blocks without their indexes".into(),
            );
        }
        let taken: Vec<BundleFile> = bundle.files.iter().filter(|file| self.takes(file)).cloned().collect();
        if taken.is_empty() && !bundle.files.is_empty() {
            return wrong(
                "no file of the bundle has keys of this range".into(),
                "bundle.json says which keys each file has; those of the layout cid begin with the CID's first bytes"
                    .into(),
            );
        }
        let is_whole = taken.len() == bundle.files.len() && known.iter().all(|name| self.has(name));
        if is_whole {
            return Ok(bundle);
        }
        let part = Part {
            bundle: id.to_owned(),
            files: taken.len() as u64,
            of_files: bundle.files.len() as u64,
            of_digest: record.digest,
            range: self.range.as_ref().map(ToString::to_string),
        };
        let record = self.record(bundle.record, &taken, part);
        Ok(Bundle { record, files: taken, ..bundle })
    }

    fn has(&self, family: &str) -> bool {
        self.families.is_empty() || self.families.iter().any(|name| name == family)
    }

    fn takes(&self, file: &BundleFile) -> bool {
        let in_range = |range: &KeyRange| file.keys().is_ok_and(|(first, last)| range.meets(&first, &last));
        self.has(&file.column_family) && self.range.as_ref().is_none_or(in_range)
    }

    /// The record of the import as far as it is true for these files. What else it says of the snapshot stays.
    fn record(&self, mut record: ImportReport, taken: &[BundleFile], part: Part) -> ImportReport {
        if let Some(log) = &mut record.log {
            log.families.retain(|family| self.has(&family.name));
        } else {
            let mut content = Content::default();
            taken.iter().for_each(|file| content.merge(file.content()));
            record.digest = content.digest;
            record.blocks = Blocks { read: content.records, written: content.records, duplicate: 0, existing: None };
            // These are of the whole snapshots.
            record.sources.iter_mut().for_each(|source| source.blocks = None);
            record.links = None;
        }
        record.part = Some(part);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_keys_that_begin_with_its_ends_and_those_between() {
        let meets = |range: &str, first: &[u8], last: &[u8]| range.parse::<KeyRange>().expect(range).meets(first, last);
        assert!(meets("..", &[0], &[255]));
        assert!(meets("00..ff", &[0], &[0, 1]));
        assert!(meets("00..ff", &[255, 255], &[255, 255, 255]));
        assert!(meets("80..", &[0], &[128]));
        assert!(!meets("80..", &[0], &[127, 255]));
        assert!(meets("..7f", &[127, 255], &[200]));
        assert!(!meets("..7f", &[128], &[200]));
        assert!(meets("10ff..10FF", &[16], &[17]));
        assert!(!meets("10ff..10ff", &[16], &[16, 254, 255]));
        assert!(!meets("10ff..10ff", &[17], &[18]));
        assert!(meets("1010..10", &[16, 32], &[16, 33]));
        for wrong in ["", "00", "0..1", "xx..yy", "02..01", "00..01..02"] {
            assert!(wrong.parse::<KeyRange>().is_err(), "{wrong}");
        }
    }
}
