//! `BEDLOAD.json`: the record that an import leaves in a database.
//!
//! Its last field is a checksum of all the bytes before it, so that a cut or an edit is detected:
//!
//! ```text
//! {
//!   "schema": "bedload-import-6",
//!   ..
//!   "versions": {..},
//!   "checksum": "<XXH3-128 of every byte before this line's comma, as hex>"
//! }
//! ```

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;

use super::{Head, ImportReport, NewestSnapshot};
use crate::blocks::chain::Family;
use crate::error::{Error, Result, StateKind};
use crate::os::files::read_regular;
use crate::rocks::no_database;
use crate::schema::RECORD_FILE;
use crate::source::car::RawCid;

/// The largest record that is read, in bytes; real ones have a few hundred KiB at most.
const MAX_RECORD: u64 = 64 << 20;

impl ImportReport {
    /// Returns the roots of the newest snapshot.
    pub fn roots(&self) -> Vec<RawCid> {
        let roots = self.newest.as_ref().map_or(&self.source.roots, |newest| &newest.roots);
        roots.iter().filter_map(|root| root.parse().ok()).collect()
    }

    pub(crate) fn chain(&self) -> (Family, u32) {
        let family = match self.log.as_ref().map(|log| log.family.as_str()) {
            Some("antelope") => Family::Antelope,
            Some("hive") => Family::Hive,
            _ => Family::Steem,
        };
        (family, u32::try_from(self.source.version).unwrap_or(0))
    }

    /// The CIDs of the blocks that were not stored.
    pub(crate) fn left_out(&self) -> HashSet<Vec<u8>> {
        let newest = self.newest.iter().flat_map(|newest| &newest.f3);
        let cids = self.f3.iter().chain(newest).filter_map(|f3| f3.cid.parse::<RawCid>().ok());
        cids.map(|cid| cid.as_bytes().to_vec()).collect()
    }

    /// Returns the newest snapshot of the database if it stays the newest when a snapshot with these roots and this head is added.
    pub(crate) fn newest_after(&self, roots: &[String], head: Option<&Head>) -> Option<NewestSnapshot> {
        let is_newest = match (&self.head, head) {
            (Some(own), Some(head)) => own.chain == head.chain && own.height > head.height,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => roots.is_empty(),
        };
        let own =
            || NewestSnapshot { path: self.source.path.clone(), roots: self.source.roots.clone(), f3: self.f3.clone() };
        let newest = is_newest.then(|| self.newest.clone().unwrap_or_else(own));
        newest.filter(|newest| !newest.roots.is_empty())
    }

    /// Reads the import report of the database in `db`; `None` if the database has none.
    ///
    /// # Errors
    /// [`Error::Io`]: `BEDLOAD.json` cannot be read; [`Error::State`]: it is damaged.
    pub fn load(db: &Path) -> Result<Option<Self>> {
        Ok(Self::load_with_checksum(db)?.map(|(record, _)| record))
    }

    /// Reads the record, and returns true with it if its checksum matches.
    pub(crate) fn load_with_checksum(db: &Path) -> Result<Option<(Self, bool)>> {
        Ok(Self::load_as(db)?.map(|(record, bytes)| (record, verify_checksum(&bytes).is_some())))
    }

    /// Reads the record of the database in `db` as a `T`, and its bytes; `None` if it has none.
    pub(crate) fn load_as<T: serde::de::DeserializeOwned>(db: &Path) -> Result<Option<(T, Vec<u8>)>> {
        let path = db.join(RECORD_FILE);
        let unreadable = |why: &dyn std::fmt::Display| Error::State {
            path: path.clone(),
            kind: StateKind::Other,
            reason: format!("is not a record of an import: {why}"),
            hint: "move the file away to read the database without its record".into(),
        };
        match read_regular(&path, MAX_RECORD) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(record) => Ok(Some((record, bytes))),
                Err(error) => Err(unreadable(&error)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(no_database(db)),
            // The directory cannot be searched.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && path.symlink_metadata().is_err() => {
                Err(no_database(db))
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(unreadable(&error)),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }
}

const CHECKSUM_FIELD: &[u8] = b",\n  \"checksum\": \"";
const END: &[u8] = b"\"\n}";

/// Serialises `report`, an object, with its checksum as the last field; `path` is named in errors.
pub(crate) fn append_checksum(report: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(report);
    let mut record = json.map_err(|error| Error::io("write", path)(error.into()))?;
    // Records of many sources have tens of MiB, so the field is added in place.
    record.truncate(record.strip_suffix(b"\n}").map_or(record.len(), <[u8]>::len));
    let checksum = checksum(&record);
    [CHECKSUM_FIELD, checksum.as_bytes(), END].iter().for_each(|bytes| record.extend_from_slice(bytes));
    Ok(record)
}

/// The object before its checksum was added; `None` if the checksum does not match.
pub(crate) fn verify_checksum(record: &[u8]) -> Option<Vec<u8>> {
    let (report, field) = record.split_at(memchr::memmem::rfind(record, CHECKSUM_FIELD)?);
    let found = field.strip_prefix(CHECKSUM_FIELD)?.strip_suffix(END)?;
    (found == checksum(report).as_bytes()).then(|| [report, b"\n}"].concat())
}

/// Checksum of the record of the database in `db`; `None` if it cannot be read.
pub(crate) fn record_checksum(db: &Path) -> Option<String> {
    read_regular(&db.join(RECORD_FILE), MAX_RECORD).ok().map(|bytes| checksum(&bytes))
}

/// XXH3-128 of a file's bytes, as hex.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:032x}", twox_hash::XxHash3_128::oneshot(bytes))
}

/// The roots that were given, or those that the import recorded. `action` and `hint` are for the error if there are none.
pub(crate) fn roots(given: &[RawCid], record: Option<&ImportReport>, action: &str, hint: &str) -> Result<Vec<RawCid>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let roots = record.map(ImportReport::roots).unwrap_or_default();
    if roots.is_empty() {
        let reason = match record {
            Some(record) => format!("no root to {action} from: the header of {} names none", record.source.path),
            None => format!("no root to {action} from: the database has no BEDLOAD.json that names one"),
        };
        return Err(Error::usage(reason, hint));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report that cannot be serialised.
    struct Broken;

    impl Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no JSON"))
        }
    }

    #[test]
    fn unserialisable_record_is_an_error() {
        let error = append_checksum(&Broken, Path::new("db/BEDLOAD.json")).expect_err("nothing to write");
        let Error::Io { action, path, source } = error else { panic!("{error}") };
        assert_eq!((action, path.as_path()), ("write", Path::new("db/BEDLOAD.json")));
        assert_eq!(source.to_string(), "no JSON");
        let record = append_checksum(&serde_json::json!({ "blocks": 7 }), Path::new("")).expect("a record");
        assert_eq!(verify_checksum(&record).as_deref(), Some(&b"{\n  \"blocks\": 7\n}"[..]));
    }
}
