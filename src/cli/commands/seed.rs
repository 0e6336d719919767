//! `bedload seed`: makes a database from a bundle.

use std::path::{Path, PathBuf};

use crate::bundle::{SeedOptions, TrustedKey, seed};
use crate::load::{self, Unfinished};
use crate::{Error, ImportOptions};

use crate::cli::args::{ImportArgs, NetworkArgs, ReportArgs};
use crate::cli::globals::Globals;
use crate::cli::render;
use crate::cli::{output, progress, signals, values};

/// Create a database from a bundle that `bedload bundle` published
///
/// Downloads the files, compares the BLAKE3 of each with bundle.json, lets RocksDB ingest them, opens the database once with
/// the options of its node, and renames it. Nothing is ingested before all files are complete and verified. After a crash the
/// same command resumes, with the same bundle. The files keep the table format they were built with.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload seed https://host/mainnet --db /data/blocks")]
pub struct Args {
    /// Place of the bundle: a directory or a URL (http, https, s3, gs, az)
    #[arg(value_name = "PLACE", required_unless_present = "from_url", conflicts_with = "from_url")]
    pub place: Option<PathBuf>,
    /// Mirror of the bundle; repeatable: the mirrors share the download
    #[arg(long, value_name = "PLACE")]
    pub from_url: Vec<PathBuf>,
    /// Directory of the new database; unfinished work is in DIR.partial beside it
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Bundle to use; the default is the newest, or the one of the unfinished seed
    #[arg(long, value_name = "ID", value_parser = values::bundle_id)]
    pub bundle: Option<String>,
    /// Accept the bundle only if it is signed by this minisign key: `RW…`, or a file that contains it; repeatable
    #[arg(long, value_name = "KEY")]
    pub trust: Vec<String>,
    /// Use only this column family; repeatable
    #[arg(long, value_name = "NAME")]
    pub column_family: Vec<String>,
    /// Update the database DIR: download only the files that it does not have
    ///
    /// The new database replaces DIR atomically, as with --replace. A database that a node has written to is refused.
    #[arg(long, conflicts_with = "replace")]
    pub update: bool,
    /// Replace the database DIR; the old one is removed
    #[arg(long)]
    pub replace: bool,
    /// Discard unfinished work and start over
    #[arg(long)]
    pub restart: bool,
    #[command(flatten)]
    pub import: ImportArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut partial = args.db.as_os_str().to_owned();
    partial.push(".partial");
    let places: Vec<PathBuf> = args.place.iter().chain(&args.from_url).cloned().collect();
    let mut others: Vec<_> = places.iter().map(|place| ("bundle", &**place)).collect();
    others.extend([("database", &*args.db), ("work of the seed", Path::new(&partial))]);
    others.extend(args.import.files());
    let report_file = output::ReportFile::create(&args.report, &others, globals)?;
    let (options, report_file) = report_file.or_error(options(args, places))?;
    let interrupted = options.import.db.clone();
    signals::cancel_on_signals(&options.import.stop, move || load::hint_after_interruption(&interrupted))?;
    let outcome = progress::show(globals, |observer| seed(&options, observer));
    let (report, report_file) = report_file.or_error(outcome)?;
    let done = format!("the database {} is complete", report.db);
    let print = || output::print(&report, &render::bundle::seeded(&report), 10, globals);
    output::report_done(done, super::import::REPORT_IN_DB, || report_file.write(&report, print))
}

fn options(args: &Args, places: Vec<PathBuf>) -> Result<SeedOptions, Error> {
    let mut import = ImportOptions::new(PathBuf::new(), &args.db);
    import.replace = args.replace;
    import.unfinished = if args.restart { Unfinished::Restart } else { Unfinished::Resume };
    args.import.add_to(&mut import);
    import.network = args.network.options(&places)?;
    Ok(SeedOptions {
        places,
        bundle: args.bundle.clone(),
        families: args.column_family.clone(),
        trusted: args.trust.iter().map(|key| TrustedKey::open(key)).collect::<Result<_, Error>>()?,
        update: args.update,
        import,
    })
}
