//! `bedload bench`: compares presets, and searches for better options.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::bench::{self, BenchOptions, Vary};
use crate::error::{Exit, InputKind, StateKind};
use crate::report::bench::BenchReport;
use crate::rocks::is_database;
use crate::source::StatedProblem;
use crate::{
    Error,
    preset::{Loader, Preset},
};

use crate::cli::args::NetworkArgs;
use crate::cli::command_line::command_line;
use crate::cli::globals::Globals;
use crate::cli::progress::runs::RunDisplay;
use crate::cli::render::{self, rows, screen};
use crate::cli::{output, signals, values};

/// Compare presets on a snapshot; each import runs in its own process
///
/// Every round runs each preset once, and copies the snapshot with `cp` and sync. Results are stored after every run.
/// The same command resumes; --runs may be higher.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload bench snapshot.car --presets ingest,memtable,rocksdb-defaults --runs 5")]
pub struct Args {
    /// The snapshot: a file, a URL, the directory of a block log; or a RocksDB database
    #[arg(value_name = "SNAPSHOT", required_unless_present = "recommend")]
    pub source: Option<PathBuf>,
    /// Presets to compare, by name or file; `all` is all built-in ones. An OPTIONS file, or the database that has it, counts
    /// as one
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', hide_possible_values = true, value_parser = values::preset(), help_heading = "Variants")]
    pub presets: Vec<String>,
    /// Override one option in all presets, e.g. node.table.block_size=32K, or set an argument of the import, e.g.
    /// memory=1GiB; repeatable
    #[arg(long, value_name = "OPTION=VALUE", hide_possible_values = true, value_parser = values::of_variant(), help_heading = "Variants")]
    pub set: Vec<String>,
    /// Try each of these values with each preset; repeatable: all combinations are tried
    #[arg(long, value_name = "OPTION=A,B,..", hide_possible_values = true, value_parser = values::of_variant(), help_heading = "Variants")]
    pub vary: Vec<String>,
    /// Search for faster options for one preset: try single changes, then combine the faster ones
    #[arg(long, requires = "presets", conflicts_with_all = ["vary", "reference"], help_heading = "Variants")]
    pub tune: bool,
    /// Compare this preset with variants of it: each sets one of the preset's options to the default
    #[arg(long, value_name = "PRESET", hide_possible_values = true, value_parser = values::preset(), conflicts_with_all = ["presets", "vary", "tune", "reference"], help_heading = "Variants")]
    pub ablate: Option<String>,
    /// Write the combination that --tune found as a preset, if the runs confirm that it is faster
    #[arg(long, value_name = "FILE", requires = "tune", help_heading = "Variants")]
    pub write: Option<PathBuf>,
    /// Preset to compare the others with; the default is the first one
    #[arg(long, value_name = "PRESET", hide_possible_values = true, value_parser = values::preset(), help_heading = "Variants", hide_short_help = true)]
    pub reference: Option<String>,
    #[command(flatten)]
    pub options: BenchOptions,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Run nothing: analyse saved results (results.json or its directory) again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "presets", "vary", "ablate"], help_heading = "Directories and results")]
    pub recommend: Option<PathBuf>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let Some(source) = &args.source else {
        // Clap requires one of the two.
        let mut report = bench::load(args.recommend.as_deref().unwrap_or(&args.options.out))?;
        bench::analyse_again(&mut report, args.reference.as_deref(), args.options.margin)?;
        return print(&report, globals, args, None);
    };
    if let Some(file) = args.write.as_ref().filter(|file| file.exists()) {
        let reason = "already exists: --write makes a new file".into();
        let hint = "choose another name".into();
        return Err(Error::State { path: file.clone(), kind: StateKind::Exists, reason, hint }.into());
    }
    let options = options(args, source)?;
    signals::cancel_on_signals(&options.stop, || "run the same command again to resume".into())?;
    let runs = RunDisplay::new("bench", globals);
    let (report, preset) = match args {
        Args { tune: true, .. } => bench::tune(&options, &runs)?,
        Args { ablate: Some(_), .. } => (bench::ablate(&options, &runs)?, None),
        _ => (bench::bench(&options, &runs)?, None),
    };
    drop(runs);
    let written = args.write.as_deref().zip(preset);
    if let Some((file, preset)) = &written {
        // Another process may have created the file since.
        let created = File::create_new(file).and_then(|mut created| created.write_all(preset.as_bytes()));
        created.map_err(Error::io("write", *file))?;
    }
    let done = format!("all runs are done and kept in {}", args.options.out.display());
    output::report_done(done, "read report.md there, or analyse them again with --recommend", || {
        print(&report, globals, args, written.map(|(file, _)| file))
    })?;
    nothing_ran(&report).map_or(Ok(()), |error| Err(error.into()))
}

fn nothing_ran(report: &BenchReport) -> Option<Error> {
    if report.figures.variants.iter().any(|variant| variant.runs > 0) {
        return None;
    }
    let failure = report.runs.iter().find_map(|run| run.failure.as_ref())?;
    let path = Path::new(&report.snapshot.path);
    let reason = format!("no run succeeded (the first failed with: {})", failure.error);
    let hint = failure.hint.clone().unwrap_or_else(|| "bedload import says more".into());
    Some(match failure.exit {
        Some(exit) if exit == Exit::BadInput as i32 => {
            Error::bad_input(path, None, StatedProblem::new(InputKind::Damaged, reason, hint))
        }
        Some(exit) if exit == Exit::State as i32 => Error::state(path, StateKind::Other, reason, hint),
        _ => Error::io("compare presets on", path)(std::io::Error::other(reason)),
    })
}

fn options(args: &Args, source: &Path) -> anyhow::Result<BenchOptions> {
    Ok(BenchOptions {
        source: source.to_owned(),
        network: args.network.options([source])?,
        command: Some(command_line(std::env::args_os().skip(1))),
        program: std::env::current_exe().map_err(Error::io("find", "bedload"))?,
        presets: args.ablate.clone().map_or_else(|| presets(&args.presets, source), |preset| vec![preset]),
        set: args.set.clone(),
        vary: args.vary.iter().map(|text| Vary::parse(text)).collect::<Result<_, Error>>()?,
        reference: args.reference.clone(),
        ..args.options.clone()
    })
}

fn print(report: &BenchReport, globals: &Globals, args: &Args, written: Option<&Path>) -> anyhow::Result<()> {
    if globals.json {
        return output::print_json(report);
    }
    let mut out = std::io::stdout().lock();
    // On a terminal, text without a table must not wrap: a line could begin like a message. A file gets the table whole.
    let (lines, table) = (Some(screen::table_columns()), screen::stdout_columns());
    write!(out, "{}", render::bench::text(report, lines, table))?;
    if args.recommend.is_none() {
        write!(out, "{}", rows::row("results", 13, &args.options.out.display().to_string()))?;
    }
    if let (Some(file), Some(source)) = (written, &args.source) {
        // `--preset` takes a path with a slash.
        let preset = if file.components().count() > 1 { file.to_owned() } else { Path::new(".").join(file) };
        let again =
            command_line(["import", &source.to_string_lossy(), "--preset", &preset.to_string_lossy()].into_iter());
        write!(out, "{}", rows::row("preset", 13, &format!("{}: {again} --db DIR", preset.display())))?;
    }
    Ok(())
}

/// Returns the presets: all for `all`, and some usual ones if none is named. A database is copied with its own options, or with
/// presets that ingest.
fn presets(named: &[String], source: &Path) -> Vec<String> {
    let own = is_database(source).then(|| source.display().to_string());
    let ingests = |name: &&str| Preset::builtin(name).is_ok_and(|preset| preset.loader == Loader::Ingest);
    match named {
        [] if own.is_some() => own.into_iter().chain(["ingest", "ingest-zstd"].map(str::to_owned)).collect(),
        [] => ["ingest", "memtable", "rocksdb-defaults"].map(str::to_owned).to_vec(),
        [one] if one == "all" => {
            let all = Preset::builtin_names().filter(|name| own.is_none() || ingests(name)).map(str::to_owned);
            own.iter().cloned().chain(all).collect()
        }
        named => named.to_vec(),
    }
}
