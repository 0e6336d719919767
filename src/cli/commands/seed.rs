//! `bedload seed`: makes a database from a bundle.

use std::path::{Path, PathBuf};

use crate::bundle::{SeedOptions, TrustedKey, seed};
use crate::load;
use crate::{Error, ImportOptions};

use crate::cli::args::{NetworkArgs, OverrideArgs};
use crate::cli::globals::Globals;
use crate::cli::render;
use crate::cli::{output, progress, signals, values};

/// Make a database of a bundle that `bedload bundle` has published
///
/// Fetches the files, compares the BLAKE3 of each with bundle.json, lets RocksDB ingest them, opens the database once with the
/// options of its node, and gives it its name. Nothing is ingested before all files are there and right. The same command
/// goes on after a crash, with the bundle that it began with. The files keep the table format they were built with.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload seed https://host/mainnet --db /data/blocks")]
pub struct Args {
    /// The place of the bundle: a directory or a URL (http, https, s3, gs, az)
    #[arg(value_name = "PLACE", required_unless_present = "from_url", conflicts_with = "from_url")]
    pub place: Option<PathBuf>,
    /// A place that has the bundle; several are mirrors, which share the files
    #[arg(long, value_name = "PLACE")]
    pub from_url: Vec<PathBuf>,
    /// Directory of the new database; unfinished work is in DIR.partial beside it
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// The bundle to take; the default is the newest, or the one that an unfinished seed has begun with
    #[arg(long, value_name = "ID", value_parser = values::bundle_id)]
    pub bundle: Option<String>,
    /// Take the bundle only if this key of minisign has signed it: `RW…`, or the file that has it; may be given again
    #[arg(long, value_name = "KEY")]
    pub trust: Vec<String>,
    /// Take only this column family; may be given again
    #[arg(long, value_name = "NAME")]
    pub column_family: Vec<String>,
    /// Bring the database DIR up to date: its files stay where the bundle has the same ones, and only the others are fetched
    ///
    /// The database that comes of it takes the place of DIR in one step, as with --replace. One that a node has written to
    /// is refused.
    #[arg(long, conflicts_with = "replace")]
    pub update: bool,
    /// Take the place of the database DIR, which is then removed
    #[arg(long)]
    pub replace: bool,
    /// Discard an unfinished seed and start over
    #[arg(long)]
    pub restart: bool,
    /// Memory to use; the default is half of what the machine or its cgroup has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub memory: Option<u64>,
    /// Threads to use; the default is the preset's, or the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// The set of options: one of `bedload presets list`, or a file; the default is that of the import
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = values::preset(), help_heading = "RocksDB")]
    pub preset: Option<String>,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Write the report, or the error, to a file as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut partial = args.db.as_os_str().to_owned();
    partial.push(".partial");
    let places: Vec<PathBuf> = args.place.iter().chain(&args.from_url).cloned().collect();
    let mut others: Vec<_> = places.iter().map(|place| ("bundle", &**place)).collect();
    others.extend([("database", &*args.db), ("work of the seed", Path::new(&partial))]);
    others.extend(args.preset.as_deref().map(|preset| ("preset", Path::new(preset))));
    others.extend(args.overrides.options_file.as_deref().map(|path| ("options file", path)));
    let report_file = output::ReportFile::create(args.report.as_deref(), &others, globals)?;
    let (options, report_file) = report_file.or_error(options(args, places))?;
    let interrupted = options.import.db.clone();
    signals::cancel_with_hint(&options.import.stop, move || load::hint_after_interruption(&interrupted))?;
    let outcome = progress::show(globals, |observer| seed(&options, observer));
    let (report, report_file) = report_file.or_error(outcome)?;
    let done = format!("the database {} is complete", report.db);
    let print = || output::print(&report, &render::bundle::seeded(&report), 10, globals);
    output::report_done(done, "use the database as it is: its BEDLOAD.json has the same report", || {
        report_file.write(&report, print)
    })
}

fn options(args: &Args, places: Vec<PathBuf>) -> Result<SeedOptions, Error> {
    let mut import = ImportOptions::new(PathBuf::new(), &args.db);
    (import.replace, import.restart) = (args.replace, args.restart);
    (import.memory, import.threads) = (args.memory, args.threads.map(usize::from));
    import.preset.clone_from(&args.preset);
    import.overrides = args.overrides.overrides();
    import.network = args.network.options(&places)?;
    Ok(SeedOptions {
        places,
        bundle: args.bundle.clone(),
        families: args.column_family.clone(),
        trusted: args.trust.iter().map(|key| TrustedKey::find(key)).collect::<Result<_, Error>>()?,
        update: args.update,
        import,
    })
}
