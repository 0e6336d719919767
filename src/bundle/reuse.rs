//! A database that a newer bundle takes the place of: which files of the bundle it has.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::document::{BundleFile, families};
use super::publish::check_untouched;
use crate::error::{Error, Result, errno_of};
use crate::report::ImportReport;
use crate::report::record::ImportRecord;
use crate::rocks::{Reader, ReaderOptions};

/// The files of the database at `db` that may be those of a bundle: by number in `wanted`, as far as column family, keys, records
/// and size tell. Whether the bytes are the same is for the caller to find out.
pub(super) fn files_of(db: &Path, wanted: &[BundleFile]) -> Result<HashMap<usize, PathBuf>> {
    let hint =
        "what was written to it would be lost: --replace makes the new database all the same, and removes this one";
    let changed = |reason: String| Error::State { path: db.to_owned(), reason, hint: hint.into() };
    let unreadable = |error: Error| match error {
        Error::Rocks { message, .. } if errno_of(&message).is_none() => changed(format!("cannot be read: {message}")),
        error => error,
    };
    let record = match ImportRecord::load_sealed(db)? {
        Some((_, true)) => ImportRecord::load_as::<ImportReport>(db)?.map(|(record, _)| record),
        _ => None,
    };
    let record = record.ok_or_else(|| changed("has no BEDLOAD.json as an import has left it".into()))?;
    if record.into_existing {
        return Err(changed("holds what was there before its import as well".into()));
    }
    let reader = Reader::open(db, &ReaderOptions::once()).map_err(unreadable)?;
    let files = reader.counted_files().map_err(unreadable)?;
    check_untouched(db, &record, &files, hint)?;
    let recorded: HashMap<String, u64> =
        families(&record).into_iter().map(|(name, content)| (name, content.records)).collect();
    for family in reader.families() {
        // What was written since may be in no file yet.
        let (found, expected) = (reader.entries(family)?, recorded.get(family).copied().unwrap_or_default());
        if found != expected {
            return Err(changed(format!(
                "a node has written to it since its import: {family} has {found} entries, the import left {expected}"
            )));
        }
    }
    let key = |hex: &str| data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap_or_default();
    let same = |wanted: &BundleFile| {
        let (first, last) = (key(&wanted.first), key(&wanted.last));
        let found = files.iter().find(|file| {
            (&file.family, &file.smallest, &file.largest) == (&wanted.column_family, &first, &last)
                && (file.size, file.counts.entries) == (wanted.bytes, wanted.records)
        });
        found.map(|file| file.path.clone())
    };
    Ok(wanted.iter().enumerate().filter_map(|(number, wanted)| Some((number, same(wanted)?))).collect())
}
