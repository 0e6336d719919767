//! `bedload doctor`: measures the machine and forecasts an import.

use std::path::PathBuf;

use crate::doctor::{DoctorOptions, SizedForm, SnapshotForm, diagnose};

use crate::cli::args::{ImportArgs, NetworkArgs, PlanArgs};
use crate::cli::globals::Globals;
use crate::cli::render;
use crate::cli::{output, progress, signals, values};

/// Measure disk, cores and limits, forecast an import, and suggest improvements
///
/// Takes a few seconds. To forecast an import, doctor generates a small snapshot of the same format and imports it into
/// a directory in DIR. It removes everything that it writes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload doctor --dir /data snapshot.forest.car.zst")]
pub struct Args {
    /// Snapshot to plan and to forecast the import of
    #[arg(value_name = "SNAPSHOT")]
    pub source: Option<PathBuf>,
    /// Forecast an import of a snapshot file of this size, without a snapshot
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with = "source")]
    pub size: Option<u64>,
    /// Format of the snapshot that --size assumes
    #[arg(long, value_name = "FORM", default_value = "car", value_parser = values::named(SnapshotForm::NAMED), requires = "size")]
    pub form: SnapshotForm,
    /// Directory of the database, existing or planned
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub import: ImportArgs,
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = DoctorOptions::new(&args.dir, args.source.clone());
    options.assumed = args.size.map(|bytes| SizedForm { bytes, form: args.form });
    crate::raise_open_files();
    args.import.add_to(&mut options.import);
    options.import.work_dir.clone_from(&args.plan.work_dir);
    options.import.plan = args.plan.plan;
    options.import.network = args.network.options(args.source.as_deref())?;
    signals::cancel_on_signals(&options.stop, || "nothing is left over; run the same command again".into())?;
    let report = progress::show(globals, |observer| diagnose(&options, observer))?;
    output::print(&report, &render::doctor::text(&report), 10, globals)
}
