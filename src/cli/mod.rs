//! The command line: one file per command, and the only place that knows a terminal.

mod bar;
pub mod bars;
pub mod bench;
pub mod bench_read;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod get;
pub mod import;
pub mod inspect;
pub mod last_resort;
pub mod presets;
mod rates;
mod screen;
mod shared;
pub mod shell;
mod speed;
pub mod stat;
mod stop;
pub mod tune;
mod usage;
mod values;
pub mod verify;
pub mod walk;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bedload::report::{shown_in_line, shown_json};
use bedload::{Error, Exit};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// Carries a blockchain snapshot into RocksDB in one fast, checked, unbreakable pass
///
/// Exit codes: 0 done; 1 failed (I/O, no space); 2 usage; 3 the input is bad; 4 the database's state forbids it;
/// 130 interrupted. Anything else must be read as a failure.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true, disable_help_flag = true)]
#[command(after_help = "Example: bedload import snapshot.forest.car.zst --db /data/blocks")]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Globals {
    /// Print results as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// How to show progress: auto, bar, lines, json or off
    #[arg(long, global = true, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub progress: ProgressStyle,
    /// Say nothing but results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Use colours: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: ColorChoice,
    /// Print this help
    #[arg(short, long, global = true, action = clap::ArgAction::HelpShort)]
    pub help: Option<bool>,
}

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    /// The same: where nothing can draw a bar there are lines.
    Bar,
    /// A line every few seconds.
    Lines,
    /// One JSON object a line.
    Json,
    /// Nothing.
    Off,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that wants them.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Globals {
    /// Whether standard error gets colours.
    pub fn color_on_stderr(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => stderr_wants_color(),
        }
    }
}

/// Whether standard error is a terminal that shows colours, and nobody has forbidden them.
fn stderr_wants_color() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    io::stderr().is_terminal() && unset("NO_COLOR") && !is_dumb()
}

/// Whether the terminal cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Import(Box<import::Args>),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Walk(walk::Args),
    Get(get::Args),
    Stat(stat::Args),
    Export(export::Args),
    Generate(generate::Args),
    Presets(presets::Args),
    Bench(bench::Args),
    Tune(tune::Args),
    #[command(hide = true)]
    BenchRead(bench_read::Args),
    Doctor(doctor::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// The whole command line. What a command's own text says beyond its first line stands at the end of its help, before
/// the example: first the options, then the story.
pub fn command() -> clap::Command {
    let names: Vec<String> = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let told = names.into_iter().fold(Cli::command(), |command, name| command.mut_subcommand(name, tell_all));
    tell_all(told)
}

fn tell_all(command: clap::Command) -> clap::Command {
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    match long.split_once("\n\n") {
        Some((_, story)) => command.after_help(format!("{story}\n\n{after}")),
        None => command,
    }
}

/// Reads the command line; wrong ones end the program with exit code 2.
pub fn parse() -> Cli {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| usage::end(&error))
}

/// The file that a report goes to.
pub struct ReportFile(Option<(PathBuf, File)>);

impl ReportFile {
    /// Opens it, if there is to be one. Before the long work: a path that cannot be written should fail now.
    pub fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = File::create(path).map_err(Error::io("create", path))?;
        Ok(Self(Some((path.to_owned(), file))))
    }

    /// Writes the report, where one is wanted.
    pub fn write(self, report: &impl serde::Serialize) -> anyhow::Result<()> {
        let Some((path, mut file)) = self.0 else { return Ok(()) };
        let text = serde_json::to_vec_pretty(report)?;
        Ok(file.write_all(&text).map_err(Error::io("write", path))?)
    }
}

/// Lasting work is done, and only telling of it failed: running the command again is no remedy.
#[derive(Debug, thiserror::Error)]
#[error("{done}; only the report could not be written")]
pub struct Untold {
    /// What is done, and where.
    done: String,
    /// Where to learn what the report would have said.
    hint: String,
    source: anyhow::Error,
}

/// Tells of lasting work by `tell`. Whoever closed the pipe that a result goes to has seen enough; any other failure is
/// an error that says first that the work is done.
pub fn after(done: String, hint: &str, tell: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    match tell() {
        Err(error) if !is_broken_pipe(&error) => Err(Untold { done, hint: hint.to_owned(), source: error }.into()),
        _ => Ok(()),
    }
}

/// What to say when a snapshot would go to a terminal.
pub fn no_terminal() -> anyhow::Error {
    let reason = "a snapshot cannot go to a terminal".into();
    Error::Usage { reason, hint: "name a file, or pipe the output into a command".into() }.into()
}

/// Prints a result: one JSON document on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{}", shown_json(&serde_json::to_string_pretty(value)?))?)
}

/// Tells an error, once: what, why, and the next step; and turns the outcome into an exit code.
pub fn exit(outcome: anyhow::Result<()>, globals: &Globals) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::from(Exit::Done as u8) };
    if is_broken_pipe(&error) {
        // Whoever read our output has seen enough.
        return ExitCode::from(Exit::Done as u8);
    }
    let (exit, hint) = match (error.downcast_ref::<Error>(), error.downcast_ref::<Untold>()) {
        (Some(known), _) => (known.exit(), known.hint()),
        (None, Some(untold)) => (Exit::Failed, untold.hint.clone()),
        (None, None) => (Exit::Failed, "run it again; if it stays, look at the disk (dmesg, smartctl)".to_owned()),
    };
    tell(&format!("{error:#}"), &hint, globals.color_on_stderr());
    // A report of what was found has been printed already.
    if globals.json && !matches!(error.downcast_ref(), Some(Error::Unsound { .. } | Error::NotFound { .. })) {
        let _ = print_json(&error_document(&format!("{error:#}"), &hint, exit));
    }
    ExitCode::from(exit as u8)
}

/// One `error:` and one `hint:` line.
fn tell(error: &str, hint: &str, color: bool) {
    let (red, bold, off) = if color { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let columns = screen::stderr_columns();
    let mut err = io::stderr().lock();
    for (style, name, text) in [(red, "error:", error), (bold, "hint:", hint)] {
        let lines = screen::fit(&format!("{name} {}", shown_in_line(text)), name.len() + 1, columns);
        let rest = lines.strip_prefix(name).unwrap_or(&lines);
        // Nobody is left to hear of a failure to print a failure.
        let _ = writeln!(err, "{style}{name}{off}{rest}");
    }
}

/// The same as a document.
fn error_document(error: &str, hint: &str, exit: Exit) -> serde_json::Value {
    serde_json::json!({ "schema": "bedload-error-1", "error": error, "hint": hint, "exit": exit as u8 })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(cause) => cause.kind() == io::ErrorKind::BrokenPipe,
        None => {
            cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind)
                == Some(io::ErrorKind::BrokenPipe)
        }
    })
}
