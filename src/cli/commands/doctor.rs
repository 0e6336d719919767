//! `bedload doctor`: measures the machine and forecasts an import.

use std::path::PathBuf;

use crate::doctor::{DoctorOptions, Form, SizedForm, diagnose};
use crate::load::PlanChoice;
use crate::preset::Overrides;

use crate::cli::args::NetworkArgs;
use crate::cli::globals::Globals;
use crate::cli::render;
use crate::cli::{output, progress, signals, values};

/// Measure disk, cores and limits, forecast an import, and suggest improvements
///
/// Takes some seconds. To forecast the import of a snapshot, a small generated one of the same form is imported into a
/// directory in DIR. Everything that is written is removed again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload doctor --dir /data snapshot.forest.car.zst")]
pub struct Args {
    /// A snapshot to choose a plan for and to forecast the import of
    #[arg(value_name = "SNAPSHOT")]
    pub source: Option<PathBuf>,
    /// Forecast an import of a snapshot file of this size, without a snapshot
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, conflicts_with = "source")]
    pub size: Option<u64>,
    /// Form of the snapshot that --size assumes
    #[arg(long, value_name = "FORM", default_value = "car", value_parser = values::one_of(&Form::NAMED), requires = "size")]
    pub form: Form,
    /// Directory of the database, or of the future one
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Memory that the import may use; the default is half of what the machine or its cgroup has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub memory: Option<u64>,
    /// Threads of the import; the default is the preset's, or the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Directory of partitions; the default is beside the database
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub work_dir: Option<PathBuf>,
    /// Place of blocks: memory, or files; auto takes what fits the budget
    #[arg(long, value_name = "HOW", default_value = "auto", hide_short_help = true)]
    pub plan: PlanChoice,
    /// Preset of the import: a name (`bedload presets list`) or a file
    #[arg(long, value_name = "NAME|FILE", hide_possible_values = true, value_parser = values::preset())]
    pub preset: Option<String>,
    /// Override one option of the preset; may be repeated
    #[arg(long, value_name = "STAGE.SCOPE.OPTION=VALUE", hide_possible_values = true, value_parser = values::assignment(), hide_short_help = true)]
    pub set: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = DoctorOptions::new(&args.dir, args.source.clone());
    options.assumed = args.size.map(|bytes| SizedForm { bytes, form: args.form });
    crate::raise_open_files();
    options.import.memory = args.memory;
    options.import.threads = args.threads.map(usize::from);
    options.import.work_dir.clone_from(&args.work_dir);
    options.import.network = args.network.options(args.source.as_deref())?;
    options.import.plan = args.plan;
    options.import.preset.clone_from(&args.preset);
    options.import.overrides = Overrides { set: args.set.clone(), ..Overrides::from_environment() };
    signals::cancel_on_signals(&options.stop, "nothing is left over; run the same command again")?;
    let report = progress::show(globals, |observer| diagnose(&options, observer))?;
    output::print(&report, &render::doctor::text(&report), 10, globals)
}
