//! The entry points: plans and runs an import, of snapshots or of another database.

use crate::error::{Error, Result};
use crate::load::existing::with_layout;
use crate::load::import::{Import, run_or_restart, with_hint};
use crate::load::options::ImportOptions;
use crate::load::rebuild;
use crate::load::uploads::Publish;
use crate::progress::{Observer, Progress, Silent};
use crate::report::{ImportReport, Plan};

/// Opens the source and plans its import. Creates at most the empty database that [`import`] describes.
/// [`Plan::check_space`] fails if the import lacks space.
///
/// # Errors
/// Those of [`import`], except that unfinished work of another source is not noticed.
pub fn plan(options: &ImportOptions) -> Result<Plan> {
    plan_and_warn(options, &Silent)
}

/// As [`plan`]; the observer receives the warnings.
pub(crate) fn plan_and_warn(options: &ImportOptions, observer: &dyn Observer) -> Result<Plan> {
    let progress = Progress::new(observer);
    let plan = || {
        let options = &with_layout(options.without_secrets())?;
        let import = Import { options, progress: &progress };
        match rebuild::source(options)? {
            Some(database) => rebuild::plan(&import, database),
            None => import.plan(),
        }
    };
    progress.sampled(plan).map_err(|error| with_hint(error, options))
}

/// Imports a snapshot into a database.
///
/// An import writes to these places:
/// - `<db>.partial` beside the database, which becomes the database at the end;
/// - the work directory, if the options name one: partitions of blocks;
/// - `.bedload-options-*` beside the database, for some milliseconds: an empty RocksDB database that shows how RocksDB adjusts
///   the options. Only for [`Overrides`](crate::Overrides), for presets of your own, and to publish a bundle. If the process is killed then,
///   [`clean`](crate::clean) and the next such import in the same directory delete it.
///
/// The threads of RocksDB's default `Env` remain after the call. Nothing else in the process changes: limits and
/// signal handlers belong to the program, see [`crate::raise_open_files`] and [`crate::handle_sigbus`].
///
/// # Errors
/// [`Error::BadInput`]: the source is damaged or not supported; [`Error::Usage`], [`Error::Preset`]: options are wrong;
/// [`Error::State`]: the state of the database or of this process forbids the import; [`Error::NoSpace`],
/// [`Error::Io`], [`Error::Rocks`]: the system or RocksDB fails; [`Error::Interrupted`]: the caller cancelled the
/// import. After an error, the database's path has its earlier content.
pub fn import(options: &ImportOptions, observer: &dyn Observer) -> Result<ImportReport> {
    import_and_publish(options, None, observer)
}

/// As [`import`], and publishes files while others are built, if there is a place for them.
pub(crate) fn import_and_publish(
    options: &ImportOptions,
    place: Option<&dyn Publish>,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let progress = Progress::new(observer);
    let import = || {
        let options = &with_layout(options.without_secrets())?;
        let database = rebuild::source(options)?;
        if place.is_some() && database.is_some() {
            return Err(Error::usage("a bundle cannot be made from a database", "copy it with --db DIR instead"));
        }
        run_or_restart(&Import { options, progress: &progress }, |import| match database {
            Some(database) => rebuild::run(import, database),
            None => import.run(place),
        })
    };
    progress.sampled(import).map_err(|error| with_hint(error, options))
}
