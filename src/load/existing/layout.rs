//! The key and the column family of the blocks of an existing database.

use crate::error::{Error, Result, StateKind};
use crate::load::options::ImportOptions;
use crate::report::ImportReport;
use crate::sort::KeyLayout;

/// Completes the options of an import with the key and the column family of the existing database, unless the caller chose
/// them.
pub(in crate::load) fn with_layout(mut options: ImportOptions) -> Result<ImportOptions> {
    // Target::new refuses both.
    let is_added_to = options.into_existing && !options.replace;
    let record = if is_added_to { ImportReport::load(&options.db)? } else { None };
    if let Some(record) = record.filter(|record| record.log.is_none()) {
        (options.key, options.column_family) = (record.key, record.column_family);
        if options.given_column_family.is_none() {
            options.overrides.column_family.get_or_insert_with(|| options.column_family.clone());
        }
    }
    options.key = options.given_key.unwrap_or(options.key);
    options.column_family = options.given_column_family.clone().unwrap_or(options.column_family);
    if is_added_to {
        check_layout(&options)?;
    }
    Ok(options)
}

/// Checks that the import stores its blocks by the key and in the column family that the record of the existing database
/// names: readers find only such blocks.
pub(in crate::load) fn check_layout(options: &ImportOptions) -> Result<()> {
    let Some(record) = ImportReport::load(&options.db)? else { return Ok(()) };
    let (key, family) = (options.key.name(), &options.column_family);
    let (known_key, known_family) = (record.key.name(), &record.column_family);
    let refuse = |reason: String, hint: String| Err(Error::state(&options.db, StateKind::Mismatch, reason, hint));
    if record.log.is_some() || record.key == KeyLayout::Number {
        return refuse(
            "holds the blocks of a block log, to which nothing can be added".into(),
            "import into a new database: choose another --db".into(),
        );
    }
    if key != known_key {
        return refuse(
            format!("stores its blocks by {known_key}, and the import would store them by {key}"),
            format!("leave --key out to store the new blocks by {known_key}, or choose another --db"),
        );
    }
    if family != known_family {
        return refuse(
            format!("stores its blocks in the column family `{known_family}`, and the import would use `{family}`"),
            format!("leave --column-family out to use `{known_family}`, or choose another --db"),
        );
    }
    Ok(())
}
