//! Compares a database with the stream of records that it was imported from: the stream is imported again.

use std::path::Path;

use crate::error::{Error, Result};
use crate::load::{self, ImportOptions};
use crate::progress::{Observer, Silent};
use crate::read;
use crate::read::verify::VerifyOptions;
use crate::report::{ImportReport, VerifyReport};
use crate::rocks::is_database;
use crate::sort::key::KeyLayout;

/// Verifies the database `db`: the checksums of all files, each block against its hash, the total against the record of the
/// import, and, if the options name a source, each record against the source. A stream of records is imported into a temporary
/// database beside `db` for that.
///
/// # Errors
/// [`Error::State`]: there is no database; [`Error::BadInput`]: the source is damaged; other errors: the system fails. What is
/// wrong with the database is in the report.
pub fn verify(options: &VerifyOptions, observer: &dyn Observer) -> Result<VerifyReport> {
    let db = &options.db;
    // A database of blocks is compared with a snapshot, which is not imported for that.
    let record = ImportReport::load(db).ok().flatten().filter(|record| record.key == KeyLayout::Any);
    let stream = options.against.first().filter(|path| !is_database(path));
    let (Some(record), Some(_)) = (record, stream) else {
        return read::verify::verify(options, observer);
    };
    let beside = db.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = options.resources.work_dir.as_deref().unwrap_or(beside);
    let scratch = tempfile::Builder::new().prefix(".bedload-verify-").tempdir_in(beside);
    let scratch = scratch.map_err(Error::io("create a directory in", beside))?;
    let copy = scratch.path().join("records");
    let mut import = ImportOptions::new("", &copy).sources(&options.against).stop(options.resources.stop.clone());
    (import.memory, import.threads, import.network) =
        (options.resources.memory, options.resources.threads, options.network.clone());
    // A dump of which a copied database was made has its largest family.
    import.column_family = record.column_family.clone();
    if let Some(plan) = record.plan.records() {
        (import.duplicates, import.allow_no_trailer) = (plan.duplicates, plan.allow_no_trailer);
        import.column_family = plan.dump_family.clone();
    }
    let source = load::import(&import, &Silent).map_err(|error| match error {
        // Nothing of the temporary database is kept.
        Error::Interrupted { .. } => Error::interrupted_reading(),
        error => error,
    })?;
    let options = VerifyOptions { against: vec![copy], streams: Some(source.source.path), ..options.clone() };
    read::verify::verify(&options, observer)
}
