//! Files of an existing database that a newer bundle contains as well.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::document::{BundleFile, families};
use super::publish::check_untouched;
use crate::error::{Error, Result, StateKind, errno_of};
use crate::report::ImportReport;
use crate::rocks::{Reader, ReaderOptions};

/// Finds files of `db` with the column family, keys, records and size of `wanted`, by number. The caller compares the bytes.
pub(super) fn find_reusable_files(db: &Path, wanted: &[BundleFile]) -> Result<HashMap<usize, PathBuf>> {
    let hint = "an update would lose what was written to it: pass --replace to make a new database and remove this one";
    let changed = |reason: String| Error::state(db.to_owned(), StateKind::Modified, reason, hint);
    let unreadable = |error: Error| match error {
        Error::Rocks { message, .. } if errno_of(&message).is_none() => changed(format!("cannot be read: {message}")),
        error => error,
    };
    let Some((record, true)) = ImportReport::load_with_checksum(db)? else {
        return Err(changed("has no valid BEDLOAD.json of an import".into()));
    };
    if record.into_existing {
        return Err(changed("also contains records from before its import".into()));
    }
    let reader = Reader::open(db, &ReaderOptions::once()).map_err(unreadable)?;
    let files = reader.counted_files().map_err(unreadable)?;
    check_untouched(db, &record, &files, hint)?;
    let recorded = families(&record);
    for family in &reader.families {
        // The memtables and the WAL may contain records as well.
        let expected = recorded.iter().find(|(name, _)| name == family).map_or(0, |(_, content)| content.records);
        let found = reader.entries(family)?;
        if found != expected {
            return Err(changed(format!(
                "a node has written to it since its import: {family} has {found} entries, but the import wrote {expected}"
            )));
        }
    }
    let same = |(number, wanted): (usize, &BundleFile)| {
        let (first, last) = wanted.keys().ok()?;
        let found = files.iter().find(|file| {
            (&file.family, &file.smallest, &file.largest) == (&wanted.column_family, &first, &last)
                && (file.size, file.counts.entries) == (wanted.bytes, wanted.records)
        });
        Some((number, found?.path.clone()))
    };
    Ok(wanted.iter().enumerate().filter_map(same).collect())
}
