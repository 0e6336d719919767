//! `bedload tune`: better options for this snapshot on this machine.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;
use crate::bench::tune::{DEFAULT_PAIRS, TuneOptions, tune};
use crate::progress::CancellationToken;
use crate::report::shown;
use crate::report::tune::Goal;

use crate::cli::args::{NetworkArgs, this_program};
use crate::cli::command_line::command_line;
use crate::cli::globals::Globals;
use crate::cli::progress::runs::Runs;
use crate::cli::render::{rows, screen};
use crate::cli::{output, signals, values};

/// Search for better options around a preset, and write them as a new preset
///
/// Single changes are tried on samples of the snapshot that grow, the better ones are kept and combined, and the winner
/// is compared with the start on the whole snapshot. Only a win by more than the noise is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload tune snapshot.car --for total --budget 1h --write mine.toml")]
pub struct Args {
    /// The snapshot: a file, a URL, or a directory with the parts of a block log
    #[arg(value_name = "SNAPSHOT")]
    pub source: PathBuf,
    /// The preset to start from, by name or file
    #[arg(long, value_name = "NAME|FILE", default_value = crate::preset::DEFAULT, hide_possible_values = true, value_parser = values::preset())]
    pub preset: String,
    /// What to improve: the import's time, that and a scan, lookups, or the peak of memory
    #[arg(long = "for", value_name = "GOAL", default_value = "total", value_parser = goal())]
    pub goal: Goal,
    /// Time for all of it, e.g. 90m; what the search leaves, two fifths at least, is spent on pairs
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub budget: Option<Duration>,
    /// Pairs of start and winner on the whole snapshot; with a budget as many more as it has time for
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAIRS)]
    pub pairs: u32,
    /// Directory of the samples and temporary databases; its file system is part of what is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Directory of the runs; the same command continues from there
    #[arg(long, value_name = "DIR", default_value = "bedload-tune")]
    pub out: PathBuf,
    /// Where to write the preset; must not exist
    #[arg(long, value_name = "FILE", default_value = "tuned.toml")]
    pub write: PathBuf,
    /// Seed of the choice of keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn goal() -> impl clap::builder::TypedValueParser<Value = Goal> {
    values::one_of(&[
        ("import", Goal::Import),
        ("total", Goal::Total),
        ("reads", Goal::Reads),
        ("memory", Goal::Memory),
    ])
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    // Before the long work.
    if args.write.exists() {
        return Err(Error::State {
            path: args.write.clone(),
            reason: "exists already".into(),
            hint: "name another file with --write".into(),
        }
        .into());
    }
    let options = TuneOptions {
        source: args.source.clone(),
        network: args.network.options([&args.source])?,
        program: this_program()?,
        preset: args.preset.clone(),
        goal: args.goal,
        budget: args.budget,
        pairs: args.pairs,
        dir: args.dir.clone(),
        out: args.out.clone(),
        seed: args.seed,
        stop: CancellationToken::default(),
    };
    signals::cancel_on_signals(&options.stop, "finished runs are stored; run the same command again to resume")?;
    let report = tune(&options, &Runs::new("tune", globals))?;
    let done = match &report.preset {
        Some(preset) => {
            // Another process may have created the file since.
            let written = File::create_new(&args.write).and_then(|mut file| file.write_all(preset.as_bytes()));
            written.map_err(Error::io("write", &args.write))?;
            format!("the preset {} is written", args.write.display())
        }
        None => format!("all runs are done and kept in {}", args.out.display()),
    };
    output::report_done(done, "the same command with another --write uses the stored runs", || {
        if globals.json {
            return output::print_json(&report);
        }
        let mut out = std::io::stdout().lock();
        write!(out, "{}", screen::fit(&shown(&report.describe()), 14, screen::stdout_columns()))?;
        if report.preset.is_some() {
            let written = named(&args.write);
            let again = command_line(["import", &args.source.to_string_lossy(), "--preset", &written].into_iter());
            write!(out, "{}", rows::row("written", 13, &format!("{written}: {again} --db DIR")))?;
        }
        Ok(())
    })
}

/// A path that `--preset` takes for a path.
fn named(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    if text.contains('/') || text.ends_with(".toml") { text } else { format!("./{text}") }
}
